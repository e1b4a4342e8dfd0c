"""When operators are profiled, what that may cost, and that it never ends or bends a session."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from edgetop.engines.child import message_frames
from edgetop.engines.child.bursts import (
    FIRST_AFTER_NS,
    MAX_DUTY,
    MAX_FAILURES_IN_A_ROW,
    MAX_LOOPS,
    RESERVE,
    SETTLE_BELOW_NS,
    SETTLE_NS,
    SETTLE_RUNS,
    Bursts,
    open_bursts,
)
from edgetop.engines.child.loop import Control, Loop
from edgetop.engines.child.profilers import MAX_RUNS, Allowance, Profile, ProfilingError
from edgetop.engines.child.profilers.interference import Interference
from edgetop.engines.child.record_outlet import Outlet
from edgetop.session.records import INFERENCE
from tests.support.thorough import mostly_thorough

MS = 1_000_000
SECOND = 1000 * MS


class Clock:
    now = 5 * SECOND

    def __call__(self) -> int:
        return self.now


@dataclass
class Profiler:
    """Takes as long as the test says, and fails when it says so."""

    clock: Clock
    takes_ns: int = 10 * MS
    error: Exception | None = None
    loops: int = 0
    fills: bool = False  # the time that it is given, with runs of so long
    way: str = "a test"
    began: list[int] = field(default_factory=list)
    closed: int = 0

    def burst(self, allowance: Allowance) -> dict[str, Any]:
        self.began.append(self.clock())
        if self.error:
            raise self.error
        profile = Profile()
        runs = min(MAX_RUNS, max(1, allowance.budget_ns // self.takes_ns)) if self.fills else 1
        for _ in range(runs):
            self.clock.now += self.takes_ns
            profile.begin_run(self.takes_ns)
            profile.add("conv", "Conv", "CPU", 3 * MS)
        return profile.describe()

    def close(self) -> None:
        self.closed += 1


class Bench:
    """A loop of inferences of a millisecond with bursts among them."""

    def __init__(
        self, every_ns: int = 10 * SECOND, tried_ns: int = 0, *, infer_ns: int = MS, **profiler: object
    ) -> None:
        self.clock, self.control, self.outlet = Clock(), Control(), Outlet()
        self.profiler = Profiler(self.clock, **profiler)  # type: ignore[arg-type]
        self.infer_ns = infer_ns
        self.calls = 0
        self.loop = Loop(self.infer, self.outlet, self.control, clock=self.clock)
        self.loop.bursts = Bursts(self.profiler, self.outlet, self.control, every_ns, tried_ns, self.clock)
        self.said: list[tuple[int, dict[str, object]]] = []

    def infer(self) -> None:
        self.clock.now += self.infer_ns
        self.calls += 1

    def measure(self, seconds: float, phase: int = message_frames.PHASE_MEASURE) -> np.ndarray:
        self.began = self.clock()
        self.loop.repeat(phase, until_ns=self.began + int(seconds * SECOND))
        sent = list(self.outlet.take())
        self.said += [(kind, json.loads(payload)) for kind, payload in sent if kind != message_frames.RECORDS]
        return np.concatenate([np.frombuffer(p, INFERENCE) for kind, p in sent if kind == message_frames.RECORDS])

    @property
    def bursts(self) -> list[dict[str, object]]:
        return [message for kind, message in self.said if kind == message_frames.BURST]

    @property
    def began_s(self) -> list[float]:
        return [round((t_ns - self.began) / SECOND, 1) for t_ns in self.profiler.began]


def test_the_first_burst_comes_soon_then_one_each_period() -> None:
    bench = Bench()
    bench.measure(35)
    assert bench.began_s == [FIRST_AFTER_NS / SECOND + s for s in (0, 10, 20, 30)]


def test_the_first_burst_waits_until_it_is_affordable() -> None:
    bench = Bench(every_ns=SECOND, tried_ns=50 * MS)
    bench.measure(7)
    assert bench.began_s == [round(5.0 * RESERVE + 0.01, 1)]  # the loop looks up every 20 ms


def test_what_a_burst_showed_is_told() -> None:
    bench = Bench()
    bench.measure(2)
    (message,) = bench.bursts
    assert message["operators"] == [["conv", "Conv", "CPU", 1, 3 * MS]]
    assert (message["t_ns"], message["run_ns"]) == (bench.profiler.began[0], [10 * MS])
    assert message["duration_ns"] == 10 * MS + SETTLE_NS


def test_no_record_is_made_of_a_burst() -> None:
    bench = Bench()
    records = bench.measure(30)
    assert len(bench.bursts) == 3
    assert len(records) == bench.calls - SETTLE_NS // MS * len(bench.bursts)
    assert set(records["latency_ns"].tolist()) == {MS}
    for message in bench.bursts:
        begin = message["t_ns"]
        assert not ((records["t_ns"] >= begin) & (records["t_ns"] < begin + message["duration_ns"])).any()


def test_a_burst_that_takes_long_makes_the_pause_after_it_longer() -> None:
    bench = Bench(every_ns=SECOND, takes_ns=200 * MS)
    bench.measure(90)
    assert bench.began_s == [1.0, 45.0, 65.0, 85.0]  # nobody knew it of the first


@pytest.mark.slow
@pytest.mark.parametrize("every_s", [1, 10, 60])
@pytest.mark.parametrize("infer_ms", mostly_thorough([0.2, 1, 20, 50, 99, 300], 1, 20, 300))
def test_bursts_never_exceed_their_share_of_the_time(infer_ms: float, every_s: int) -> None:
    infer_ns = int(infer_ms * MS)
    tried_ns = infer_ns + (max(SETTLE_NS, infer_ns) if infer_ns < SETTLE_BELOW_NS else 0)
    bench = Bench(every_s * SECOND, tried_ns, infer_ns=infer_ns, takes_ns=infer_ns, fills=True)
    bench.measure(130)
    assert len(bench.bursts) >= 2
    used_ns = 0
    for message in bench.bursts:
        used_ns += message["duration_ns"]  # type: ignore[operator]
        until_ns = message["t_ns"] + message["duration_ns"] - bench.began  # type: ignore[operator]
        assert used_ns <= MAX_DUTY * until_ns + infer_ns / 100, bench.began_s


def test_a_burst_comes_before_a_runtime_has_noted_too_many_loops() -> None:
    bench = Bench(every_ns=1000 * SECOND, takes_ns=MS)
    bench.profiler.loops = MAX_LOOPS // 4_096  # an inference takes 1 ms
    bench.measure(10)
    assert bench.began_s == [1.0, 5.1, 9.2]


def test_a_requested_burst_has_the_time_of_a_period() -> None:
    bench = Bench(every_ns=1000 * SECOND, fills=True, takes_ns=MS)
    bench.measure(0.5)
    bench.control.profile_requested = True
    bench.measure(0.1)
    assert len(bench.bursts[-1]["run_ns"]) == MAX_RUNS  # type: ignore[arg-type]


def test_only_a_long_burst_is_announced_when_it_begins() -> None:
    bench = Bench(takes_ns=2 * SECOND)
    bench.measure(3)
    bench.control.profile_requested = True
    bench.measure(3)
    begins = [message["t_ns"] for kind, message in bench.said if kind == message_frames.BURST_BEGINS]
    assert begins == bench.profiler.began[1:]  # nobody knew it of the first


@pytest.mark.parametrize(
    ("infer_ns", "settling"), [(MS // 10, SETTLE_RUNS), (MS, SETTLE_NS // MS), (20 * MS, 1), (300 * MS, 0)]
)
def test_inferences_after_a_burst_are_not_counted(infer_ns: int, settling: int) -> None:
    bench = Bench(every_ns=1000 * SECOND, infer_ns=infer_ns, takes_ns=infer_ns)
    records = bench.measure(2)
    assert bench.calls - len(records) == settling
    (burst,) = bench.bursts
    assert burst["duration_ns"] == infer_ns * (1 + settling)


@pytest.mark.parametrize("phase", [message_frames.PHASE_FIRST, message_frames.PHASE_WARMUP])
def test_only_the_measured_phase_has_bursts(phase: int) -> None:
    bench = Bench()
    bench.measure(30, phase)
    assert bench.bursts == []


def test_a_burst_can_be_asked_for() -> None:
    bench = Bench(every_ns=1000 * SECOND)
    bench.measure(5)
    bench.control.profile_requested = True
    bench.measure(0.5)
    assert len(bench.bursts) == 2
    assert bench.control.profile_requested is False


def test_a_runtime_that_raises_now_and_then_is_tried_again() -> None:
    bench = Bench()
    bench.profiler.error = RuntimeError("bad input")
    bench.measure(1.5)
    bench.profiler.error = None
    bench.measure(15)
    assert len(bench.bursts) >= 1
    assert [message for kind, message in bench.said if kind == message_frames.PROFILER] == []


def test_a_failed_burst_is_not_tried_again_at_once() -> None:
    bench = Bench(error=RuntimeError("bad input"))
    bench.measure(9)
    assert len(bench.profiler.began) == 1


@pytest.mark.parametrize(
    ("error", "tries"), [(RuntimeError("bad"), MAX_FAILURES_IN_A_ROW), (ProfilingError("it is gone"), 1)]
)
def test_a_failed_profiler_reports_once_and_the_session_goes_on(error: Exception, tries: int) -> None:
    bench = Bench(error=error)
    bench.measure(60)
    assert len(bench.profiler.began) == tries
    assert bench.profiler.closed == 1
    told = [message for kind, message in bench.said if kind == message_frames.PROFILER]
    assert told == [{"way": "", "reason": f"profiling ended: {error}"}]
    bench.control.profile_requested = True
    assert len(bench.measure(1)) > 900


# How a way is chosen.


class Adapter:
    def __init__(self, *makes: Callable[[], object]) -> None:
        self.makes = makes

    def profilers(self) -> tuple[Callable[[], object], ...]:
        return self.makes


def refuses() -> object:
    raise ProfilingError("too old")


def chosen(*makes: Callable[[], object], every_ns: int = SECOND) -> tuple[Bursts | None, list[dict[str, Any]]]:
    outlet = Outlet()
    bursts = open_bursts(Adapter(*makes), {"profile_every_ns": every_ns}, outlet, Control())
    return bursts, [json.loads(payload) for _, payload in outlet.take()]


def test_the_first_working_way_is_used_with_the_reasons() -> None:
    bursts, told = chosen(refuses, lambda: Profiler(Clock()), refuses)
    assert bursts
    shown = [["conv", "Conv", "CPU", 1, 3 * MS]]  # by the run with which it was tried
    assert told == [{"way": "a test", "reason": "too old", "operators": shown}]


def test_a_way_that_fails_when_tried_is_closed_and_not_used() -> None:
    nothing = Profile()
    nothing.begin_run(1)
    crashing, silent = Profiler(Clock(), error=ValueError("layout")), Profiler(Clock())
    silent.burst = lambda allowance: nothing.describe()  # type: ignore[method-assign]
    bursts, told = chosen(lambda: crashing, lambda: silent)
    assert bursts is None
    assert told == [{"way": "", "reason": "layout; a test reported no operator", "operators": []}]
    assert (crashing.closed, silent.closed) == (1, 1)


def test_with_no_period_nothing_is_tried_or_told() -> None:
    assert chosen(refuses, every_ns=0) == (None, [])


def test_an_allowance_gives_one_run_and_then_what_fits() -> None:
    nothing = Allowance(0, lambda: False)
    assert [nothing.takes_another() for _ in range(3)] == [True, False, False]
    ample = Allowance(3600 * SECOND, lambda: False, max_runs=4)
    assert [ample.takes_another() for _ in range(5)] == [True] * 4 + [False]
    stopped = Allowance(3600 * SECOND, lambda: True)
    assert [stopped.takes_another() for _ in range(2)] == [True, False]


def described(*runs: tuple[int, int, Interference | None]) -> dict[str, Any]:
    """Each so long, of which the convolution took so much, and others so much."""
    profile = Profile()
    for run_ns, conv_ns, interference in runs:
        profile.begin_run(run_ns, interference)
        profile.add("conv", "Conv", "CPU", conv_ns)
        profile.add("add", "Add", "CPU", 10)
    return profile.describe()


def test_only_disturbed_runs_are_left_out() -> None:
    found = described((100, 60, Interference(0, 1)), (150, 60, Interference(2, 40)), (900, 850, Interference(0, 0)))
    assert found == {
        "run_ns": [100, 900],
        "left_out_ns": [150],
        "disturbed": False,
        "preempted": 2,
        "waited_ns": 41,
        "first_run": [[0, 60], [1, 10]],
        "operators": [["conv", "Conv", "CPU", 2, 910], ["add", "Add", "CPU", 2, 20]],
        "runs": [[60, 10], [850, 10]],
    }


def test_all_disturbed_runs_are_reported_as_disturbed() -> None:
    found = described((100, 60, Interference(1, 50)), (120, 60, Interference(1, 60)))
    assert (found["run_ns"], found["left_out_ns"], found["disturbed"]) == ([100, 120], [], True)
    assert found["operators"][0] == ["conv", "Conv", "CPU", 2, 120]
