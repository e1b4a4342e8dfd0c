"""The options of metrics, as they are written."""

import json
import os
import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from click import BadParameter

from edgetop.cli.running.exporters import Exporters, address, collector
from edgetop.cli.running.run_request import MetricsRequest
from edgetop.errors import InputError
from edgetop.metrics.endpoint import SCRAPER_HEADER
from tests.support.commands import edgetop, start_edgetop
from tests.support.scripts import measured
from tests.support.sessions import folded
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1:", "1:2:3", "127.0.0.1:99999", "http://127.0.0.1:9464", "::1:80"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadParameter, match="is not an address"):
        address(text)


def test_what_is_no_collector() -> None:
    assert collector("https://otel.example:4318/x") == "https://otel.example:4318/x"
    for text in ("localhost:4318", "ftp://x", "http://", "http://a b"):
        with pytest.raises(BadParameter, match="is not a URL"):
            collector(text)


def test_it_says_where_it_listens_if_others_can_read_it(capsys, tmp_path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    for host, file, told in (("0.0.0.0", None, "anyone can read"), ("0.0.0.0", token, ""), ("127.0.0.1", None, "")):
        with ExitStack() as stack:
            Exporters(MetricsRequest(endpoint=(host, 0), token_file=file), stack, stack)
        said = capsys.readouterr().err
        assert said.startswith(f"edgetop: metrics are at http://{host}:")
        assert ("anyone can read" in said) is bool(told)


def test_a_token_that_cannot_be(tmp_path) -> None:
    (tmp_path / "empty").touch()
    for name, why in (("none", "cannot be read: No such file"), ("empty", "is empty")):
        asked = MetricsRequest(endpoint=("127.0.0.1", 0), token_file=tmp_path / name)
        with ExitStack() as stack, pytest.raises(InputError, match=why):
            Exporters(asked, stack, stack)


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (MetricsRequest(collector="http://there"), "otlp.Collector"),
        (MetricsRequest(textfile_folder=Path("there")), "prometheus.Textfile"),
    ],
)
def test_how_it_ended_is_told_before_an_exporter_is_closed(asked, kind, monkeypatch) -> None:
    steps = []

    class Sink:
        def __init__(self, where) -> None:
            pass

        def send(self, found) -> str:
            steps.append("sent")
            return ""

        def owed_s(self) -> float:
            return 0.0

        def close(self) -> None:
            steps.append("closed")

    monkeypatch.setattr(f"edgetop.metrics.{kind}", Sink)
    with ExitStack() as stack:
        (observe,) = Exporters(asked, stack, stack).observers
        observe(folded(measured(1).batches))
        wait_until(lambda: steps)
    assert steps == ["sent", "sent", "closed"]


def scraped(port):
    """What Prometheus reads; "": nobody answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={SCRAPER_HEADER: "10"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.read().decode()
    except OSError:
        return ""


@pytest.mark.slow
def test_a_scraper_learns_that_the_session_is_over(tmp_path) -> None:
    """The result is there before that, and the program ends when it has been scraped."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = start_edgetop("demo", "--headless", "--json", "--speed", "60x", "--metrics", str(port), home=tmp_path)
    try:
        wait_until(lambda: "edgetop_session_running 1.0" in scraped(port))
        run.terminate()
        said = next(line for line in run.stderr if "until Prometheus has read that the session is over" in line)
        last = scraped(port)
        out, _ = run.communicate(timeout=PATIENCE_S)
    finally:
        run.kill()
    assert (run.returncode, json.loads(out)["session"]["end_reason"]) == (0, "signal")
    assert "Ctrl+C stops waiting" in said
    assert "edgetop_session_running 0.0" in last
    assert "edgetop_session_failed 0.0" in last


@pytest.mark.slow
@pytest.mark.parametrize("state", ["stopping", pytest.param("running", marks=pytest.mark.thorough)])
def test_a_textfile_tells_of_the_end_where_the_machine_goes_down(state, tmp_path, monkeypatch) -> None:
    """systemd stops edgetop before node_exporter. Where only edgetop is stopped, nobody waits."""
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(f"#!/bin/sh\necho {state}\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{systemctl.parent}:{os.environ['PATH']}")
    folder = tmp_path / "prom"
    folder.mkdir()
    file = folder / "edgetop-1.prom"
    options = ("--speed", "60x", "--prom-textfile", str(folder))
    run = start_edgetop("demo", "--headless", "--json", *options, home=tmp_path)
    try:
        wait_until(file.exists)
        assert "edgetop_session_running{" in file.read_text()
        run.terminate()
        if state == "stopping":
            said = next(line for line in run.stderr if "until node_exporter has read" in line)
            assert "the system goes down" in said
            assert 'edgetop_session_running{run="1"} 0.0' in file.read_text()
        out, err = run.communicate(timeout=PATIENCE_S)
    finally:
        run.kill()
    assert (run.returncode, json.loads(out)["session"]["end_reason"]) == (0, "signal")
    assert "node_exporter" not in err
    assert not file.exists()


@pytest.mark.slow
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path) -> None:
    for arguments, told in (
        (("--prom-textfile", "none"), "--prom-textfile none: no such folder"),
        (("--metrics-cert", "x"), "--metrics-cert needs --metrics"),
    ):
        done = edgetop("run", "--headless", *arguments, home=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert told in done.stderr
        assert not (tmp_path / "state").exists()
