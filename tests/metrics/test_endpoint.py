"""The endpoint as strangers meet it."""

import contextlib
import http.client
import socket
import ssl
import subprocess
import threading
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from edgetop.errors import InputError
from edgetop.metrics import endpoint
from edgetop.metrics.endpoint import MOST_AT_ONCE, MOST_REQUEST_BYTES, Endpoint
from tests.support.scripts import measured
from tests.support.sessions import folded
from tests.support.waiting import PATIENCE_S, wait_until

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
    for one in made:
        one.close()


def get(port, path="/metrics", method="GET", context=None, **headers):
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    connection = kind("127.0.0.1", port, timeout=PATIENCE_S, **({"context": context} if context else {}))
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


def test_it_waits_for_each_scraper_to_read_the_end(analysis) -> None:
    """Prometheus is a scraper; what reads by hand is none."""
    server = Endpoint("127.0.0.1", 0)
    with contextlib.closing(server):
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        server.observe(analysis)
        get(port, **{endpoint.SCRAPER_HEADER: "10"})
        wait_until(lambda: server._taken)
        assert server.owed_s() == 0, "the session goes on"
        server.observe(folded(measured(5).end().batches))
        assert 50 < server.owed_s() <= endpoint.LONGEST_INTERVAL_S + endpoint.LATE_S
        get(port)  # by hand
        assert server.owed_s() > 50
        waiting = threading.Thread(target=server.hand_over)
        waiting.start()
        get(port, **{endpoint.SCRAPER_HEADER: "10"})
        waiting.join(PATIENCE_S)
        assert (waiting.is_alive(), server.owed_s()) == (False, 0)


def test_it_waits_no_longer_than_one_interval() -> None:
    server = Endpoint("127.0.0.1", 0)
    with contextlib.closing(server):
        server.observe(folded(measured(5).end().batches))
        now_s = time.monotonic()
        for scraper, ago_s in (("late", 20), ("left", 900), ("due", 5)):
            server._taken[scraper] = endpoint._Scrape(now_s - ago_s, 10.0, is_last=False)
        assert 5 < server.owed_s() <= 6
        server._taken.pop("due")
        assert server.owed_s() == 0
        server.hand_over()


def test_a_crowd_of_scrapers_is_bounded() -> None:
    server = Endpoint("127.0.0.1", 0)
    with contextlib.closing(server):
        for number in range(100):
            server._note_scrape(str(number), is_last=False)
        assert len(server._taken) == endpoint.MOST_SCRAPERS


def test_a_token_is_asked_for(served) -> None:
    port = served(token="s3cret")
    assert get(port)[0] == get(port, Authorization="Bearer s3cre")[0] == get(port, Authorization="Basic x")[0] == 401
    assert get(port, Authorization="Bearer s3cret")[0] == 200


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")
    names = ("-subj", "/CN=board", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert)
    subprocess.run([*made, *names], check=True, capture_output=True)
    cert.write_text(key.read_text() + cert.read_text())
    return cert


def test_tls(served, certificate) -> None:
    key = certificate.with_name("key.pem")
    port = served(certificate=certificate, key=key)
    assert get(port, context=ssl.create_default_context(cafile=certificate))[0] == 200
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        get(port)
    with pytest.raises(InputError, match="cannot be used"):
        Endpoint("127.0.0.1", 0, certificate=key, key=key)


@pytest.fixture
def clients():
    """Opens connections, which are closed at the end."""
    with contextlib.ExitStack() as stack:

        def connect(port, count):
            opened = (socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(count))
            return [stack.enter_context(one) for one in opened]

        yield connect


def test_trickling_clients_delay_no_other(served, clients, monkeypatch) -> None:
    """Eight held every thread of the endpoint for ever, a byte every few seconds each."""
    monkeypatch.setattr(endpoint, "PATIENCE_S", 2 * PATIENCE_S)  # `get` gives up before a client is dropped
    port, trickling = served(), []
    for _ in range(5):
        trickling += clients(port, 8)
        for client in trickling:
            client.sendall(b"G")
        assert get(port)[0] == 200


def test_too_many_clients_push_out_the_oldest(served, clients) -> None:
    port = served()
    oldest, *_ = clients(port, MOST_AT_ONCE)
    assert get(port)[0] == 200
    assert oldest.recv(1) == b""


def test_a_client_that_never_finishes_its_request_is_dropped(served, clients, monkeypatch) -> None:
    """The time is that of the whole request: a byte now and then does not extend it."""
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.2)
    (client,) = clients(served(), 1)

    def dropped():
        try:
            client.sendall(b"X")
            client.settimeout(0.02)
            return client.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    wait_until(dropped)


def test_clients_that_do_not_shake_hands_or_read_delay_no_other(served, clients, certificate) -> None:
    port = served(certificate=certificate)
    for client in clients(port, MOST_AT_ONCE + 1):
        client.sendall(b"\x16")
    assert get(port, context=ssl.create_default_context(cafile=certificate))[0] == 200
    port = served()
    for client in clients(port, MOST_AT_ONCE + 1):
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert get(port)[0] == 200


def test_a_request_is_limited(served, clients) -> None:
    port = served()
    (client,) = clients(port, 1)
    with contextlib.suppress(ConnectionError):
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (MOST_REQUEST_BYTES + 1))
    assert client.recv(12) == b"HTTP/1.1 431"
    for text in (b"\n\n", b"\r\n\r\n", b"\xff\x00 \xff\n\n", b"GET\n\n"):
        (client,) = clients(port, 1)
        client.sendall(text)
        assert client.recv(9) == b"HTTP/1.1 "


def test_a_scrape_waits_for_the_analysis_alone(served, analysis) -> None:
    """And the session does not wait for who scrapes."""
    port, answers = served(), []
    with analysis.lock:
        scrape = threading.Thread(target=lambda: answers.append(get(port)[0]))
        scrape.start()
        scrape.join(0.2)
        assert not answers
    scrape.join(PATIENCE_S)
    assert answers == [200]


def test_where_it_cannot_listen(served) -> None:
    port = served()
    for host, where in (("127.0.0.1", port), ("192.0.2.1", 0), ("no-such-host.invalid", 0)):
        with pytest.raises(InputError, match=f"--metrics {host}:{where}: cannot listen"):
            Endpoint(host, where)
