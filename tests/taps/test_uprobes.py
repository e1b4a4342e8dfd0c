"""Uprobes in real programs that run already: every call is seen, in the moment in which the program made it.

Where this kernel or this user may not set uprobes, the tests check that it is refused in one line.
"""

import json
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgetop.taps import perf
from edgetop.taps.process import helper_command
from edgetop.taps.ring import Ring
from tests.support import onnx_models, tflite_models
from tests.support.waiting import scaled, wait_until

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[1] / "support" / "programs" / "attached.py"
CAN_SEE = not perf.why_not() and perf.may_set()


class Attached:
    """The program and its log, and the helper and its ring."""

    def __init__(self, folder, model, suffix):
        self.log, self.rings = folder / "log", folder / "rings"
        self.rings.mkdir()
        path = folder / f"model{suffix}"
        path.write_bytes(model)
        self.program = subprocess.Popen(
            [sys.executable, PROGRAM, path, self.log], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: len(self.lines()) > 5)
        words = helper_command("watch", str(self.rings), str(self.program.pid))
        self.helper = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.said = [json.loads(self.helper.stdout.readline())]
        self.calls = []
        if CAN_SEE:
            self.ring = Ring(next(self.rings.iterdir()))

    def lines(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def own(self):
        """Rows of process, session, begin and end."""
        return np.array([line.split() for line in self.lines()[:-1] if line[0].isdigit()], np.int64)

    def read(self):
        self.ring.find_whole()
        self.calls += self.ring.read().tolist()
        return len(self.calls)

    def hear(self):
        while select.select([self.helper.stdout], [], [], 0)[0] and (line := self.helper.stdout.readline()):
            self.said.append(json.loads(line))

    def order(self, word):
        self.program.stdin.write(f"{word}\n".encode())
        self.program.stdin.flush()

    def see_more(self, count=60):
        before = self.read()
        wait_until(lambda: self.read() > before + count)

    def end(self):
        self.program.stdin.close()
        self.program.wait(scaled(20))
        self.hear()
        self.helper.stdin.close()
        self.helper.wait(scaled(20))
        self.helper.stdout.close()
        if CAN_SEE:
            self.read()


def attached(folder, model, suffix):
    made = Attached(folder, model, suffix)
    if CAN_SEE:
        made.see_more()
        made.order("fork")
        wait_until(lambda: "forked" in made.lines())
        made.see_more()
        if suffix == ".onnx":
            made.order("exec")
            made.see_more(120)  # a quarter of all calls fails: more than 150 succeed
    made.end()
    return made


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    return attached(tmp_path_factory.mktemp("onnx"), onnx_models.onnx_half_ms(), ".onnx")


def matched(one):
    """Own calls between the first and the last that were seen, and for each of these how many seen ones lie in it."""
    seen = np.array([(call[1], call[2], call[6]) for call in one.calls if call[2] > call[1]], np.int64)
    own = one.own()
    own = own[(own[:, 2] >= seen[0, 0] - 10**9) & (own[:, 3] > 0)]
    inside = [(own_begin, own_end, np.count_nonzero((seen[:, 0] >= own_begin) & (seen[:, 1] <= own_end)))
              for _, _, own_begin, own_end in own.tolist()]  # fmt: skip
    first = next(place for place, (*_, count) in enumerate(inside) if count)
    last = len(inside) - next(place for place, (*_, count) in enumerate(reversed(inside)) if count)
    return own[first:last], np.array(inside[first:last]), seen


def test_calls_are_seen_once_over_exceptions_forks_and_exec(onnx):
    if not CAN_SEE:
        assert "refused" in onnx.said[0]
        return
    own, inside, seen = matched(onnx)
    assert len(set(own[:, 0].tolist())) == 2  # the program and its child
    assert (inside[:, 2] == 1).all()
    assert len(seen) == len(own) > 150
    assert onnx.ring.lost == 0


def test_sessions_are_told_apart_and_named(onnx):
    if not CAN_SEE:
        assert "refused" in onnx.said[0]
        return
    names = {onnx.ring.name(call[4]).model.rpartition("/")[2] for call in onnx.calls}
    assert {"model.onnx", "model.onnx#2"} <= names
    assert {onnx.ring.name(call[4]).version for call in onnx.calls} == {onnxruntime.__version__}


def test_a_call_that_raises_failed_and_the_program_goes_on(onnx):
    assert onnx.program.returncode == 0
    if CAN_SEE:
        failed = [call for call in onnx.calls if not call[6]]
        assert len(failed) == pytest.approx(len(onnx.calls) / 4, rel=0.1)
        assert all(call[1] == call[2] for call in failed)


def test_the_cost_of_a_call_is_measured(onnx):
    if CAN_SEE:
        assert 100 < onnx.ring.cost_ns < 10_000_000


def test_litert_without_a_call_by_name(tmp_path):
    one = attached(tmp_path, tflite_models.tflite_half_ms(), ".tflite")
    assert one.program.returncode == 0
    if CAN_SEE:
        _, inside, _ = matched(one)
        assert (inside[:, 2] == 1).all()
        assert {Path(one.ring.name(call[4]).model).name for call in one.calls} == {"model.tflite", "model.tflite#2"}
    else:
        assert "refused" in one.said[0]
