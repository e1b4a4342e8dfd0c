"""The endpoint as strangers meet it."""

import contextlib
import http.client
import socket
import ssl
import subprocess
import threading

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from edgetop.errors import InputError
from edgetop.metrics.endpoint import MOST_AT_ONCE, Endpoint
from tests.support.scripts import measured
from tests.support.sessions import folded

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"


@pytest.fixture(scope="module")
def analysis():
    return folded(measured(5).batches)


@pytest.fixture
def served(analysis):
    """Makes endpoints; gives their ports."""
    made = []

    def serve(*, looks=True, **access):
        made.append(Endpoint("127.0.0.1", 0, **access))
        if looks:
            made[-1].observe(analysis)
        return int(made[-1].url.rpartition(":")[2].partition("/")[0])

    yield serve
    for endpoint in made:
        endpoint.close()


def get(port, path="/metrics", method="GET", context=None, **headers):
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    connection = kind("127.0.0.1", port, timeout=10, **({"context": context} if context else {}))
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def test_it_speaks_what_the_client_asks_for(served) -> None:
    port = served()
    status, kind, text = get(port, Accept=OPENMETRICS)
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"edgetop_session", "edgetop_inference_duration_seconds", "edgetop_temperature_celsius"} <= names
    status, kind, text = get(port)
    assert (status, kind.partition(";")[0], "# EOF" in text) == (200, "text/plain", False)
    assert get(port, method="HEAD")[2] == ""


def test_other_paths_and_times(served) -> None:
    assert get(served(), "/")[0] == 404
    assert get(served(), "/metrics?name[]=x")[0] == 200
    assert get(served(), method="POST")[0] == 501
    assert get(served(looks=False))[0] == 503


def test_a_token_is_asked_for(served) -> None:
    port = served(token="s3cret")
    assert get(port)[0] == get(port, Authorization="Bearer s3cre")[0] == get(port, Authorization="Basic x")[0] == 401
    assert get(port, Authorization="Bearer s3cret")[0] == 200


def test_tls(served, tmp_path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")
    names = ("-subj", "/CN=board", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert)
    subprocess.run([*made, *names], check=True, capture_output=True)
    port = served(certificate=cert, key=key)
    assert get(port, context=ssl.create_default_context(cafile=cert))[0] == 200
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        get(port)
    with pytest.raises(InputError, match="cannot be used"):
        Endpoint("127.0.0.1", 0, certificate=key, key=key)


def test_silent_clients_do_not_block_others_for_long(served) -> None:
    """Beyond so many at once a connection is closed; those that wait are let go in the end."""
    port = served()
    silent = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(MOST_AT_ONCE)]
    with socket.create_connection(("127.0.0.1", port), 10) as one_more:
        assert one_more.recv(1) == b""
    for client in silent:
        client.close()
    while True:  # until the threads of these have seen it
        try:
            assert get(port)[0] == 200
            break
        except (ConnectionError, http.client.BadStatusLine):
            continue


def test_a_scrape_waits_for_the_analysis_alone(served, analysis) -> None:
    """And the session does not wait for who scrapes."""
    port, answers = served(), []
    with analysis.lock:
        scrape = threading.Thread(target=lambda: answers.append(get(port)[0]))
        scrape.start()
        scrape.join(0.2)
        assert not answers
    scrape.join(10)
    assert answers == [200]


def test_where_it_cannot_listen(served) -> None:
    port = served()
    for host, where in (("127.0.0.1", port), ("192.0.2.1", 0), ("no-such-host.invalid", 0)):
        with pytest.raises(InputError, match=f"--metrics {host}:{where}: cannot listen"):
            Endpoint(host, where)
