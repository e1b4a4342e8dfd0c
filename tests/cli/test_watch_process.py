"""`edgetop watch` of what runs already, as a user types it; and what is refused, with the command that would do."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from edgetop.taps import perf
from tests.support import onnx_models
from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[1] / "support" / "programs" / "attached.py"
CAN_SEE = not perf.why_not() and perf.may_set()
SYSTEMCTL = """#!/bin/sh
echo LoadState=loaded
cat {state}
"""


@pytest.fixture
def start():
    """Starts the program, and returns it when it has made its first call."""
    started = []

    def start(model, log):
        words = [sys.executable, PROGRAM, model, log]
        started.append(subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL))
        wait_until(log.exists)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_unit_is_watched_through_a_restart(start, tmp_path):
    model, state, log = tmp_path / "model.onnx", tmp_path / "unit", tmp_path / "log"
    model.write_bytes(onnx_models.onnx_half_ms())
    (tmp_path / "systemctl").write_text(SYSTEMCTL.format(state=state))
    (tmp_path / "systemctl").chmod(0o755)
    first = start(model, log)
    state.write_text(f"MainPID={first.pid}\nActiveState=active\n")
    options = ("--headless", "--json", "-o", "kept", "--unit", "camera.service")
    watcher = start_edgetop("watch", *options, home=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    if not CAN_SEE:
        out, err = watcher.communicate(timeout=PATIENCE_S)
        assert (watcher.returncode, out, len(err.splitlines())) == (2, "", 1)
        assert perf.why_not() or "needs root (sudo" in err
        return
    session = tmp_path / "kept.edgetop"
    wait_until(lambda: manifest(session).get("engine", {}).get("runtime"))
    first.kill()
    first.wait()
    second = start(model, tmp_path / "second")
    state.write_text(f"MainPID={second.pid}\nActiveState=active\n")
    wait_until(lambda: len(manifest(session)["watched"]["streams"]) > 2)
    watcher.send_signal(signal.SIGINT)
    out, err = watcher.communicate(timeout=PATIENCE_S)
    alive = second.poll()
    document = json.loads(out)
    assert (watcher.returncode, alive) == (130, None), err
    assert document["session"]["watched"]["sources"] == ["uprobe"]
    assert document["session"]["watched"]["command"] == [sys.executable, str(PROGRAM), str(model), str(log)]
    assert document["latency"]["errors"] > 0
    assert document["session"]["watched"]["at_once_max"] == 1  # it has one thread
    kinds = pq.read_table(session / "events.parquet")["kind"].to_pylist()
    assert kinds.index("unit-ended") < kinds.index("unit-restarted")
    sensors = [each["id"] for each in manifest(session)["sensors"]]
    assert len(sensors) == len(set(sensors))  # those of the second process are in the place of the first one's


def manifest(session):
    try:
        return json.loads((session / "session.json").read_text())
    except FileNotFoundError:
        return {}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "there is nothing to watch (give one of -- COMMAND, --pid, --unit, --all, --url)"),
        (("--pid", "7", "--all"), "--pid and --all exclude each other"),
        (("--pid", "7", "--", "true"), "-- COMMAND and --pid exclude each other"),
        (("--pid", "4194999"), "--pid 4194999: there is no such process"),
        (("--pid", "1", "--app-output", "x"), "--app-output applies only to a program that edgetop starts"),
        (("--pid", "1", "--threads", "2"), "no such option: --threads"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(options, told, tmp_path):
    done = edgetop("watch", "--headless", *options, home=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"edgetop: {told}")
    assert len(done.stderr.splitlines()) == 1


def test_all_lists_the_processes_that_have_a_runtime(start, tmp_path):
    model, log = tmp_path / "model.onnx", tmp_path / "log"
    model.write_bytes(onnx_models.onnx_half_ms())
    program = start(model, log)
    done = edgetop("watch", "--all", "--json", home=tmp_path)
    document = json.loads(done.stdout)
    one = next(each for each in document["processes"] if each["pid"] == program.pid)
    assert one["command"] == [sys.executable, str(PROGRAM), str(model), str(log)]
    assert one["runtimes"][0].startswith("onnxruntime_pybind11_state")
    assert (one["why_not"], one["calls_per_s"]) == (None, None)
    assert document["why_no_rates"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount namespace")
@pytest.mark.parametrize("words", [("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount")])
def test_a_container_is_refused_in_a_line(words, tmp_path):
    process = subprocess.Popen([*words, "sleep", "100"])
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        done = edgetop("watch", "--headless", "--pid", str(process.pid), home=tmp_path)
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 2
    if CAN_SEE:
        why = "not watched: it is in a container, or in another mount namespace (edgetop help watch)"
        assert done.stderr == f"edgetop: --pid {process.pid}: {why}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_process_that_its_user_may_not_trace_is_refused(tmp_path):
    """Its folder in /proc is root's then, and it must not be taken for a process of root."""
    script = "import ctypes, os, sys; os.setresuid(65534, 65534, 65534); ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); "
    script += "print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        done = edgetop("watch", "--headless", "--pid", str(process.pid), home=tmp_path)
    finally:
        process.kill()
        process.communicate()
    assert done.returncode == 2
    if CAN_SEE:
        why = "not watched: it has more rights than its user (edgetop help watch)"
        assert done.stderr == f"edgetop: --pid {process.pid}: {why}\n"
