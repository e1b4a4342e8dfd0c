"""What systemd hears, and a run that rotates under it, as a service does."""

import json
import socket
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from click import BadParameter
from prometheus_client.parser import text_string_to_metric_families

from edgetop.cli.board import service
from edgetop.cli.running import unattended
from edgetop.errors import InputError
from edgetop.session.batch import Batch
from edgetop.session.manifest import Watched
from edgetop.session.seconds import NS
from tests.support import onnx_models
from tests.support.commands import edgetop, start_edgetop
from tests.support.scripts import measured
from tests.support.sessions import folded
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """A socket to which services speak; what came, and how it is asked for."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def heard(listener):
    return listener.recv(4096).decode().split("\n")


def test_systemd_hears_that_it_runs_and_how(systemd) -> None:
    analysis = folded(measured(30).batches)
    with ExitStack() as stack:
        [observe] = unattended.service_managers(stack)
        assert unattended.service_managers(stack) == [], "no child of it speaks to systemd"
        observe(analysis)
        assert heard(systemd)[:2] == ["READY=1", "WATCHDOG=1"]
        observe(analysis)
        analysis.fold(Batch(analysis.progress.view().now_ns + NS))
        observe(analysis)
        assert heard(systemd) == ["WATCHDOG=1"], "and nothing while the conductor stood still"
        analysis.fold(Batch(analysis.progress.view().now_ns + 60 * NS))
        observe(analysis)
        [status] = heard(systemd)
        assert status.startswith("STATUS=STALLED: an inference has not come back"), "no sign of life while it hangs"
        analysis.fold(Batch(analysis.progress.view().now_ns, manifest=replace(analysis.manifest, watched=Watched(()))))
        observe(analysis)
        assert "WATCHDOG=1" in heard(systemd), "a program need not always infer"
    assert heard(systemd) == ["STOPPING=1"]


def _state(folder):
    try:
        return json.loads((folder / "session.json").read_text())["state"]
    except OSError:
        return None


@pytest.fixture(scope="module")
def rotated(tmp_path_factory):
    """A run that rotated, was scraped, and ended by SIGTERM: its folder, its sessions from the first on, the scrape."""
    home = tmp_path_factory.mktemp("rotated")
    (home / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    (home / "prom").mkdir()
    options = ("--rate", "200", "--rotate", "1s", "--prom-textfile", "prom", "-o", "soak", "--profile-every", "0")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(home / "notify"))
    run = start_edgetop("run", "model.onnx", "--headless", *options, home=home, NOTIFY_SOCKET=str(home / "notify"))
    wait_until(lambda: _state(home / "soak-2.edgetop") == "finished")
    scrape = wait_until(lambda: [path.read_text() for path in (home / "prom").glob("*.prom")])[0]
    run.terminate()
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, out + err
    folders = sorted(home.glob("soak*.edgetop"), key=lambda path: path.stat().st_ctime_ns)
    listener.setblocking(False)
    with listener, suppress(BlockingIOError):
        told = []
        while True:
            told += heard(listener)
    assert (told[0], told[-1], "WATCHDOG=1" in told) == ("READY=1", "STOPPING=1", True)
    numbers = [json.loads((path / "session.json").read_text()) for path in folders]
    return home, sorted(zip(numbers, folders, strict=True), key=lambda one: one[0]["created_utc"]), scrape


@pytest.mark.slow
def test_a_run_that_rotates_loses_no_inference(rotated) -> None:
    """At a fixed rate, each start follows from the one before: none is missing, and none is there twice."""
    _, sessions, _ = rotated
    assert len(sessions) >= 3
    starts = []
    for manifest, folder in sessions:
        table = pq.read_table(folder / "inferences.parquet").to_pylist()
        origin = manifest["clock"]["origin_monotonic_ns"]
        starts += [origin + row["t_ns"] - row["wait_ns"] for row in table if row["phase"] == "measure"]
        assert sum(pq.read_table(folder / "seconds.parquet")["count"].to_pylist()) == len(table) - sum(
            row["phase"] != "measure" for row in table
        )
    steps = [(later - before) / 5e6 for before, later in pairwise(starts)]
    assert all(abs(step - 1) < 0.01 for step in steps), [step for step in steps if abs(step - 1) >= 0.01]
    reasons = [manifest["end_reason"] for manifest, _ in sessions]
    assert reasons == ["rotated"] * (len(sessions) - 1) + ["signal"]
    assert [manifest["name"] for manifest, _ in sessions][:2] == ["soak", "soak-2"]


@pytest.mark.slow
def test_its_metrics_were_there_and_are_gone(rotated) -> None:
    home, _, scrape = rotated
    names = {sample.name for family in text_string_to_metric_families(scrape) for sample in family.samples}
    assert {"edgetop_session_info", "edgetop_verdict", "edgetop_timestamp_seconds"} <= names
    assert list((home / "prom").iterdir()) == []


@pytest.mark.slow
def test_its_sessions_are_like_any_other(rotated) -> None:
    home, _, _ = rotated
    done = edgetop("report", "soak-2", "--json", home=home)
    report = json.loads(done.stdout)
    assert report["session"]["end_reason"] == "rotated"
    assert report["latency"]["count"] >= 150
    assert "short-warmup" not in [warning["code"] for warning in report["warnings"]]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--rotate", "24h", "--no-record"), "--rotate and --no-record contradict each other"),
        (("--rotate", "24h", "--fail-if", "p99>1ms"), "--rotate and --fail-if contradict each other"),
        (("--sessions-quota", "1K"), "is too little for a recording"),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_is_refused(arguments, told, tmp_path) -> None:
    done = edgetop("run", *arguments, home=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert told in done.stderr


def unit(tmp_path, monkeypatch, *arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m%1.onnx").touch()
    return service.unit_of(service._completed(arguments), tmp_path, None)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("run", "m%1.onnx"), "run --headless --rotate 24h --sessions-quota 2G m%%1.onnx"),
        (
            ("run", "m%1.onnx", "--headless", "--rotate", "1h", "--note", "5 $"),
            'run --sessions-quota 2G m%%1.onnx --headless --rotate 1h --note "5 $$"',
        ),
        (("run", "--no-record", "m%1.onnx"), "run --headless --no-record m%%1.onnx"),
        (("watch", "--", "app", "-x"), "watch --headless --rotate 24h --sessions-quota 2G -- app -x"),
    ],
)
def test_what_a_service_runs(tmp_path, monkeypatch, arguments, line) -> None:
    text = unit(tmp_path, monkeypatch, *arguments)
    assert text.split("ExecStart=")[1].split("\n")[0].endswith(f"/edgetop/__main__.py {line}")
    assert f"WorkingDirectory={tmp_path}\n" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("report", "x"), "report: cannot run as a service"),
        (("run", "--no-record"), "run: no model is given"),
        (("run", "none.onnx"), "none.onnx: no such file"),
        (("run", "--detach"), "--detach: not for a service"),
        (("watch", "--json", "--", "app"), "--json: not for a service"),
        (("run", "--rotate", "x"), "not a duration|write"),
    ],
)
def test_what_cannot_be_a_service(tmp_path, monkeypatch, arguments, told) -> None:
    with pytest.raises((InputError, BadParameter), match=told):
        unit(tmp_path, monkeypatch, *arguments)


def test_a_unit_is_installed_and_anothers_is_left_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = service._write("edgetop.service", service.unit_of(["run"], tmp_path, "pi"))
    assert path == tmp_path / "systemd/user/edgetop.service"
    assert "User=" in path.read_text()
    service._write("edgetop.service", service.OURS)
    assert path.read_text() == service.OURS
    path.write_text("[Unit]")
    with pytest.raises(InputError, match="was not written by edgetop"):
        service._write("edgetop.service", "")
    assert [entry.name for entry in path.parent.iterdir()] == ["edgetop.service"]
