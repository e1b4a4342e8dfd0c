"""Profiling alone: bursts among inferences that are not instrumented, and an end whatever the engine says."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from edgetop.engines.engine_protocol import (
    BurstTaken,
    Died,
    Ended,
    EngineUpdate,
    Failed,
    Message,
    PhaseBegan,
    ProfilerChosen,
)
from edgetop.errors import EngineDiedError, InputError
from edgetop.runner.profiling import BETWEEN_BURSTS, MAX_BURSTS_A_RUN, MOST_TIMES, Profiled, Profiling
from edgetop.session.operators import LEAST_BURSTS, Operator
from tests.support.scripted_engine import ScriptedEngine, inferences, said

MS = 1_000_000
CHOSEN = ProfilerChosen("runs", "")
OPERATORS = (Operator("a", "Conv", "CPU", 5, 5 * MS),)


class Board:
    """An engine of 1 ms inferences, and its clock: each poll brings ten, each burst that is asked for five runs."""

    isolation = "process"

    def __init__(
        self,
        *,
        bursts_fail: bool = False,
        disturbed: Callable[[int], bool] = lambda _: False,
        opening: tuple[Message, ...] = (CHOSEN, PhaseBegan("measure", 0)),
    ) -> None:
        """`disturbed`: whether others took from every inference of which burst, from 1."""
        self.now_ns = 0
        self.asked = 0
        self.calls: list[str] = []
        self._bursts_fail = bursts_fail
        self._disturbed = disturbed
        self._opening = opening
        self._due = False

    def start(self) -> None:
        self.calls.append("start")

    def poll(self) -> EngineUpdate:
        if self._opening:
            opening, self._opening = self._opening, ()
            return said(*opening)
        messages: list[Message] = []
        if self._due:
            self._due = False
            self.now_ns += 10 * MS
            if not self._bursts_fail:
                disturbed = self._disturbed(self.asked)
                runs = (9 * MS if disturbed else 2 * MS,) * 5
                left_out = () if disturbed else (20 * MS,)
                taken = BurstTaken(self.now_ns, 10 * MS, runs, OPERATORS, ((0, MS),))
                messages.append(replace(taken, left_out_ns=left_out, disturbed=disturbed))
        starts = [self.now_ns + i * MS for i in range(10)]
        self.now_ns += 10 * MS
        return said(*messages, records=inferences(starts))

    def stop(self) -> None: ...

    def profile(self) -> None:
        self.asked += 1
        self._due = True

    def close(self) -> None:
        self.calls.append("close")

    def profiled(self, runs: int, told: Callable[[Profiled], None] = lambda _: None) -> Profiled:
        return Profiling(self, told, pause=lambda _: None, clock_ns=lambda: self.now_ns).run(runs)


def test_there_are_as_many_runs_as_asked_and_others_between() -> None:
    board = Board()
    profiled = board.profiled(12)
    assert (profiled.runs, len(profiled.bursts), board.asked) == (15, 3, 3)
    assert profiled.measured >= 4 * BETWEEN_BURSTS
    assert (profiled.p50_ns, profiled.run_ns) == (MS, 2 * MS)
    assert board.calls == ["start", "close"]


def test_disturbed_bursts_are_replaced_by_others() -> None:
    profiled = Board(disturbed=lambda burst: burst == 1).profiled(10)
    assert (profiled.runs, len(profiled.bursts), profiled.run_ns) == (15, 3, 2 * MS)
    assert profiled.all_runs - profiled.runs == 5 + 3


def test_a_burst_that_takes_longer_by_itself_counts() -> None:
    """What is fastest is no evidence."""
    profiled = Profiled(taken=[BurstTaken(0, 1, (ns,), OPERATORS) for ns in (2 * MS, 3 * MS, 9 * MS)])
    assert len(profiled.bursts) == 3


def test_where_all_bursts_are_disturbed_they_count() -> None:
    profiled = Board(disturbed=lambda _: True).profiled(10)
    assert len(profiled.bursts) == MOST_TIMES * LEAST_BURSTS
    assert profiled.all_runs == profiled.runs == 45


def test_few_runs_are_no_more_than_what_was_asked_for() -> None:
    assert Board().profiled(3).runs == 5


def test_a_burst_is_compared_with_the_inferences_just_before_it() -> None:
    slow = inferences([i * MS for i in range(30)])
    slow["latency_ns"][10:] = 3 * MS
    taken = BurstTaken(30 * MS, 1, (4 * MS,), OPERATORS)
    profiled = Profiled(taken=[taken], records=[slow, inferences([31 * MS + i for i in range(50)])])
    assert profiled.plain_ns(taken) == 3 * MS
    assert profiled.plain_ns(replace(taken, plain_disturbed=True)) is None
    assert profiled.plain_ns(replace(taken, monotonic_ns=3 * MS)) is None  # too few


def test_progress_is_told() -> None:
    seen: list[int] = []
    Board().profiled(12, lambda profiled: seen.append(profiled.runs))
    assert sorted(set(seen)) == [0, 5, 10, 15]


def test_bursts_that_fail_come_to_an_end() -> None:
    board = Board(bursts_fail=True)
    with pytest.raises(InputError, match="every instrumented inference failed"):
        board.profiled(3)
    assert board.asked == 3 * MAX_BURSTS_A_RUN
    assert board.calls == ["start", "close"]


def test_failed_and_warm_up_inferences_are_not_measured() -> None:
    engine = ScriptedEngine(said(CHOSEN, records=inferences([1, 2], phase=1)), said(Failed("inference", "x")))
    profiling = Profiling(engine, pause=lambda _: None)
    with pytest.raises(EngineDiedError):
        profiling.run(1)
    assert profiling.profiled.measured == 0


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (ProfilerChosen("", "no such library"), InputError, "no such library"),
        (Failed("model", "m.onnx: broken", "get another"), InputError, "get another"),
        (Failed("inference", "ten in a row"), EngineDiedError, "ten in a row"),
        (Died("killed by SIGSEGV", loading=False), EngineDiedError, "SIGSEGV"),
        (Ended("runs", 0), EngineDiedError, "before it was asked"),
    ],
)
def test_every_failure_is_one_error_and_a_closed_engine(message: Message, error: type, text: str) -> None:
    board = Board(opening=(CHOSEN, message))
    with pytest.raises(error, match=text):
        board.profiled(5)
    assert board.calls == ["start", "close"]
