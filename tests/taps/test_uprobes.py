"""Uprobes in real programs that run already: every call is seen, in the moment in which the program made it.

Where this kernel or this user may not set uprobes, the tests check that it is refused in one line.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgetop.engines.engine_protocol import Loaded, RecordsLost, StreamsSeen
from edgetop.errors import InputError
from edgetop.taps import perf, uprobe_reader
from edgetop.taps.watched_process import ProcessSpec, WatchedProcess, model_processes
from tests.support import onnx_models, tflite_models
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[1] / "support" / "programs" / "attached.py"
CAN_SEE = not perf.why_not() and perf.may_set()


class Attached:
    """The program and its log, and what is seen of it."""

    def __init__(self, folder, model, suffix):
        self.log = folder / "log"
        path = folder / f"model{suffix}"
        path.write_bytes(model)
        self.program = subprocess.Popen(
            [sys.executable, PROGRAM, path, self.log], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: len(self.lines()) > 5)
        self.watched = WatchedProcess(ProcessSpec((), self.program.pid))
        self.refused, self.calls, self.messages, self.has_ended = "", [], [], False
        try:
            self.watched.start_helpers()
            self.watched.start()
        except InputError as error:
            self.refused = str(error)

    def lines(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def own(self):
        """Rows of process, session, begin and end."""
        return np.array([line.split() for line in self.lines()[:-1] if line[0].isdigit()], np.int64)

    def read(self):
        update = self.watched.poll()
        self.messages += update.messages
        self.calls += [
            (int(one["t_ns"]), int(one["t_ns"] + one["latency_ns"]), bool(one["ok"]), int(one["stream"]))
            for one in update.records
        ]
        return len(self.calls)

    def order(self, word):
        self.program.stdin.write(f"{word}\n".encode())
        self.program.stdin.flush()

    def see_more(self, count=60):
        before = self.read()
        wait_until(lambda: self.read() > before + count)

    def end(self):
        self.program.stdin.close()
        self.program.wait(PATIENCE_S)
        if not self.refused:
            wait_until(lambda: self.read() and type(self.messages[-1]).__name__ == "Ended")
        self.watched.close()

    def last(self, kind):
        return next((one for one in reversed(self.messages) if isinstance(one, kind)), None)


def attached(folder, model, suffix):
    made = Attached(folder, model, suffix)
    if CAN_SEE:
        made.see_more()
        made.order("fork")
        wait_until(lambda: "forked" in made.lines())
        made.see_more()
        if suffix == ".onnx":
            made.order("exec")
            made.see_more(120)
    made.end()
    return made


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    return attached(tmp_path_factory.mktemp("onnx"), onnx_models.onnx_half_ms(), ".onnx")


def matched(one):
    """Own calls between the first and the last that were seen, and for each of these how many seen ones lie in it."""
    seen = np.array([call for call in one.calls if call[2]], np.int64)
    own = one.own()
    own = own[(own[:, 2] >= seen[0, 0] - 10**9) & (own[:, 3] > 0)]
    inside = [(own_begin, own_end, np.count_nonzero((seen[:, 0] >= own_begin) & (seen[:, 1] <= own_end)))
              for _, _, own_begin, own_end in own.tolist()]  # fmt: skip
    first = next(place for place, (*_, count) in enumerate(inside) if count)
    last = len(inside) - next(place for place, (*_, count) in enumerate(reversed(inside)) if count)
    return own[first:last], np.array(inside[first:last]), seen


def test_calls_are_seen_once_over_exceptions_forks_and_exec(onnx):
    if not CAN_SEE:
        assert "refused" in onnx.refused
        return
    own, inside, seen = matched(onnx)
    assert len(set(own[:, 0].tolist())) == 2  # the program and its child
    assert (inside[:, 2] == 1).all()
    assert len(seen) == len(own) > 150
    assert onnx.last(RecordsLost) is None


def test_sessions_are_told_apart_and_named(onnx):
    if not CAN_SEE:
        assert "refused" in onnx.refused
        return
    names = {name.rpartition("/")[2] for name in onnx.last(StreamsSeen).names}
    assert {"model.onnx", "model.onnx#2"} <= names
    assert onnx.last(Loaded).version == onnxruntime.__version__


def test_a_call_that_raises_failed_and_the_program_goes_on(onnx):
    assert onnx.program.returncode == 0
    if CAN_SEE:
        failed = [call for call in onnx.calls if not call[2]]
        assert len(failed) == pytest.approx(len(onnx.calls) / 4, rel=0.1)
        assert all(call[1] > call[0] for call in failed)


def test_the_cost_of_a_call_is_measured(onnx):
    if CAN_SEE:
        assert 100 < onnx.last(StreamsSeen).cost_ns < 10_000_000


def test_litert_without_a_call_by_name(tmp_path):
    one = attached(tmp_path, tflite_models.tflite_half_ms(), ".tflite")
    assert one.program.returncode == 0
    if CAN_SEE:
        _, inside, _ = matched(one)
        assert (inside[:, 2] == 1).all()
        assert {Path(name).name for name in one.last(StreamsSeen).names} == {"model.tflite", "model.tflite#2"}
    else:
        assert "refused" in one.refused


def test_nothing_is_left_when_it_ends(onnx):
    """Neither a helper nor a uprobe."""
    assert not [one for one in running() if str(onnx.program.pid).encode() in one.split(b"\0")]


def running():
    """The command lines of all processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield (folder / "cmdline").read_bytes()


MAPPER = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((constructor)) static void ran(void) { /* where the file is loaded as a library, or run as Python */
    if (!getenv("NOT_YET")) close(open(RAN, O_CREAT | O_WRONLY, 0666));
}
int main(int count, char **words) {
    mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(words[1], O_RDONLY), 0);
    sleep(100);
}
"""


@pytest.fixture
def open_folder():
    """A folder that every user may enter and write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="starts processes of other users")
@pytest.mark.parametrize("name", ["onnxruntime_pybind11_state.so", "libonnxruntime.so.1", "libtensorflowlite.so"])
def test_nothing_of_another_users_process_is_run(name, open_folder):
    """Its interpreter and its library are its own, and run what it likes where they are started or loaded."""
    python, library, ran = open_folder / "python3", open_folder / name, open_folder / "ran"
    (open_folder / "mapper.c").write_text(f"#define RAN {json.dumps(str(ran))}\n{MAPPER}")
    subprocess.run(["gcc", "-w", "-o", python, open_folder / "mapper.c"], check=True)
    library.write_bytes(python.read_bytes())
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, library]
    process = subprocess.Popen(words, env={"NOT_YET": "1"})
    watched = WatchedProcess(ProcessSpec((), process.pid))
    try:
        wait_until(lambda: name in Path(f"/proc/{process.pid}/maps").read_text())
        assert process.pid in [one.pid for one in model_processes()[0]]
        if CAN_SEE:
            watched.start_helpers()
            watched.start()
            said = []
            wait_until(lambda: said.extend(watched.poll().messages) or [each for each in said if name in str(each)])
    finally:
        watched.close()
        process.kill()
        process.wait()
    assert not ran.exists()


@pytest.mark.parametrize(("error", "reports"), [(PermissionError, 1), (ProcessLookupError, 0)])
def test_memory_that_cannot_be_read_ends_nothing_and_is_reported_once(error, reports, monkeypatch):
    def refuse(pid):
        raise error

    said = []
    monkeypatch.setattr(uprobe_reader.process_memory, "Memory", refuse)
    monkeypatch.setattr(uprobe_reader, "report", lambda **what: said.append(what))
    tap = uprobe_reader.Tap.__new__(uprobe_reader.Tap)
    tap._may_read = True
    assert [tap._from_memory(1, len) for _ in range(2)] == [None, None]
    assert len(said) == reports
