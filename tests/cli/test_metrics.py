"""The options of metrics, as they are written."""

from contextlib import ExitStack

import pytest
from click import BadParameter

from edgetop.cli.metrics import Exporters, address, collector
from edgetop.errors import InputError
from tests.support.commands import edgetop
from tests.support.scripts import measured
from tests.support.sessions import folded
from tests.support.waiting import wait_until

NOTHING = {"metrics_token_file": None, "metrics_cert": None, "metrics_key": None}


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1:", "1:2:3", "127.0.0.1:99999", "http://127.0.0.1:9464", "::1:80"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadParameter, match="is no address"):
        address(text)


def test_what_is_no_collector() -> None:
    assert collector("https://otel.example:4318/x") == "https://otel.example:4318/x"
    for text in ("localhost:4318", "ftp://x", "http://", "http://a b"):
        with pytest.raises(BadParameter, match="is no URL"):
            collector(text)


def test_it_says_where_it_listens_if_others_can_read_it(capsys, tmp_path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    for host, file, told in (("0.0.0.0", None, "whoever reaches it"), ("0.0.0.0", token, ""), ("127.0.0.1", None, "")):
        with ExitStack() as stack:
            Exporters({**NOTHING, "metrics": (host, 0), "metrics_token_file": file}, stack)
        said = capsys.readouterr().err
        assert said.startswith(f"edgetop: metrics are at http://{host}:")
        assert ("whoever reaches it" in said) is bool(told)


def test_a_token_that_cannot_be(tmp_path) -> None:
    (tmp_path / "empty").touch()
    for name, why in (("none", "cannot be read: No such file"), ("empty", "is empty")):
        options = {**NOTHING, "metrics": ("127.0.0.1", 0), "metrics_token_file": tmp_path / name}
        with ExitStack() as stack, pytest.raises(InputError, match=why):
            Exporters(options, stack)


@pytest.mark.parametrize(
    ("option", "kind", "at_the_end"), [("otlp", "otlp.Collector", 1), ("prom_textfile", "prometheus.Textfile", 0)]
)
def test_a_collector_is_told_how_it_ended_and_a_file_is_removed_then(option, kind, at_the_end, monkeypatch) -> None:
    steps = []

    class Sink:
        def __init__(self, where) -> None:
            pass

        def send(self, found) -> str:
            steps.append("sent")
            return ""

        def close(self) -> None:
            steps.append("closed")

    monkeypatch.setattr(f"edgetop.metrics.{kind}", Sink)
    with ExitStack() as stack:
        (observe,) = Exporters({**NOTHING, option: "there"}, stack).observers
        observe(folded(measured(1).batches))
        wait_until(lambda: steps)
    assert steps == ["sent", *["sent"] * at_the_end, "closed"]


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
