"""When operators are profiled: a burst now and then, between inferences that are measured.

Instrumented inferences are slower than others, so they never become records; and what they
cost is bounded: a burst that takes long makes the pause after it longer.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import frames
from .errors import one_line
from .profilers import Allowance, Profile, ProfilingError
from .profilers.interference import DISTURBED, InterferenceWatch, stolen_ns

MAX_DUTY = 0.01  # of the time since measuring began, from the first burst on
RESERVE = 1.25  # a burst may take so much longer than the one before
FIRST_AFTER_NS = 1_000_000_000  # so that there is something to see soon
# A burst leaves caches cold and a core that has idled: the first inference after one was measured to take 2 to 50
# times as long, the fifth 4 % longer. So many are run and not counted, whatever they take, until the time is up.
SETTLE_RUNS = 20
SETTLE_NS = 5_000_000
SETTLE_BELOW_NS = 100_000_000  # an inference that takes longer hardly shows it
LONG_NS = 1_000_000_000  # a burst that is announced, lest its silence be taken for a stall
MAX_FAILURES_IN_A_ROW = 3  # an input of several that are cycled through may be one that fails

# Of loops, which ONNX Runtime keeps in memory from one burst to the next where it has several threads
# (profilers/onnx_runs.py): 1 MiB, and some 10 ms to tell them.
MAX_LOOPS = 131_072

NEVER = 2**63


class Bursts:
    """Runs the profiler when it is due, and tells the outlet what it showed."""

    def __init__(
        self,
        profiler: Any,
        outlet: Any,
        control: Any,
        every_ns: int,
        takes_ns: int = 0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`takes_ns`: what a burst of one inference took when it was tried; the first one waits until it may."""
        self._profiler = profiler
        self._outlet = outlet
        self._control = control
        self._every_ns = every_ns
        self._takes_ns = self._least_ns = takes_ns  # of the last one; of one that has a single inference
        self._settling_ns = SETTLE_NS  # of the last one
        self._began_ns = self._used_ns = 0
        self._clock = clock
        self._due_ns = NEVER
        self._failures_in_a_row = 0
        self._watch = InterferenceWatch()  # the last burst, or the beginning

    def begin(self) -> None:
        """Start the schedule: the measured phase begins."""
        self._began_ns, self._used_ns = self._clock(), 0
        self._watch = InterferenceWatch()
        self._due_ns = max(self._began_ns + min(self._every_ns, FIRST_AFTER_NS), self._affordable_ns())

    def _affordable_ns(self) -> int:
        """When one more burst, if it has a single inference, leaves all of them within their part of the time."""
        return self._began_ns + int((self._used_ns + self._least_ns * RESERVE) / MAX_DUTY)

    def is_due(self, now_ns: int) -> bool:
        return now_ns >= self._due_ns or self._control.profile_requested

    def take(self, call: Callable[[], Any]) -> None:
        """One burst. Where they fail, profiling is over; the session goes on."""
        is_asked_for, self._control.profile_requested = self._control.profile_requested, False
        if self._profiler is None:
            return
        begin, plain_disturbed = self._clock(), self._watch.was_busy()
        budget_ns = int(self._every_ns * MAX_DUTY)
        if not is_asked_for:  # the first one shows what they take: it has one inference
            earned_ns = int((begin - self._began_ns) * MAX_DUTY) - self._used_ns
            budget_ns = min(budget_ns, earned_ns) if self._used_ns else 0
        if self._takes_ns >= LONG_NS:
            self._outlet.send(frames.BURST_BEGINS, {"t_ns": begin})
        described = self._profiled(call, budget_ns)
        took = self._takes_ns = self._clock() - begin
        self._used_ns += took
        had_several = described is not None and len(described["run_ns"]) > 1
        self._least_ns = min(self._least_ns, took) if had_several else took
        if self._profiler is not None:
            due_ns = begin + min(self._every_ns, self._full_ns(described["run_ns"] if described else []))
            self._due_ns = max(due_ns, self._affordable_ns())
        if described and described["run_ns"]:
            described.update(t_ns=begin, duration_ns=took, plain_disturbed=plain_disturbed)
            self._outlet.send(frames.BURST, described)
        self._watch = InterferenceWatch()

    def _full_ns(self, run_ns: List[int]) -> int:
        """How long the runtime may go on noting what threads do, at so long an inference."""
        loops = getattr(self._profiler, "loops", 0)
        return int(MAX_LOOPS / loops * min(run_ns)) if loops and run_ns else NEVER

    def _profiled(self, call: Callable[[], Any], budget_ns: int) -> Optional[Dict[str, Any]]:
        """What a burst showed. When this returns, an inference takes again what it did before."""
        stolen_before, begin = stolen_ns(), self._clock()
        try:
            profile: Profile = self._profiler.burst(self._allowance(budget_ns))
            described = profile.describe()
            _add_stolen(described, stolen_before, self._clock() - begin)
            self._settling_ns = _settling_ns(described["run_ns"])
            self._settle(call, described["run_ns"])
        except Exception as error:  # a runtime's own; profiling is not worth a session
            self._failures_in_a_row += 1
            if isinstance(error, ProfilingError) or self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
                self._give_up(error)
            return None
        self._failures_in_a_row = 0
        return described

    def _settle(self, call: Callable[[], Any], run_ns: List[int]) -> None:
        if not _settling_ns(run_ns):
            return
        until_ns = self._clock() + SETTLE_NS
        for _ in range(SETTLE_RUNS):
            call()
            if self._clock() >= until_ns:
                break

    def _allowance(self, budget_ns: int) -> Allowance:
        return Allowance(max(0, budget_ns - self._settling_ns), lambda: self._control.stop_requested)

    def _give_up(self, error: Exception) -> None:
        self._due_ns = NEVER
        self.close()
        reason = "profiling ended: %s" % one_line(error)
        self._outlet.send(frames.PROFILER, {"way": "", "reason": reason})

    def close(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.close()


def _settling_ns(run_ns: List[int]) -> int:
    """What the inferences that are not counted will take, after a burst of these."""
    longest = max(run_ns) if run_ns else SETTLE_BELOW_NS
    return max(SETTLE_NS, longest) if longest < SETTLE_BELOW_NS else 0


def _add_stolen(described: Dict[str, Any], before: Optional[int], took_ns: int) -> None:
    """What a hypervisor gave to others during the burst; where it shows, none of its runs was undisturbed."""
    now = stolen_ns()
    lost = described["stolen_ns"] = None if before is None or now is None else max(0, now - before)
    if lost is not None and lost > DISTURBED * took_ns:
        described["disturbed"] = True


def open_bursts(adapter: Any, spec: Dict[str, Any], outlet: Any, control: Any) -> Optional[Bursts]:
    """Bursts as `spec` wants them, proven by one that is not reported; or None, and the reason is told.

    Before the warm-up, so that whatever this disturbs has settled when it is measured.
    """
    every_ns = spec.get("profile_every_ns") or 0
    if not every_ns:
        return None
    profiler, takes_ns, operators, reason = _proven(adapter, control)
    way = "" if profiler is None else profiler.way
    outlet.send(frames.PROFILER, {"way": way, "reason": reason, "operators": operators})
    return None if profiler is None else Bursts(profiler, outlet, control, every_ns, takes_ns)


def _proven(adapter: Any, control: Any) -> Tuple[Any, int, List[Any], str]:
    """The first of the adapter's ways that works, what a burst took and showed, and why not the ways before it."""
    reasons: List[str] = []
    for make in adapter.profilers():
        try:
            return (*_tried(make, control), "; ".join(reasons))
        except Exception as error:  # ProfilingError, or whatever a runtime that differs from what is known raises
            reasons.append(one_line(error))
    return None, 0, [], "; ".join(reasons)


def _tried(make: Callable[[], Any], control: Any) -> Tuple[Any, int, List[Any]]:
    """A profiler that has told of operators once, how long a burst such as that one takes in ns, and the operators."""
    profiler = make()
    begin = time.monotonic_ns()
    try:
        profile = profiler.burst(Allowance(0, lambda: control.stop_requested))
        operators = _operators(profile, profiler.way)
    except BaseException:
        profiler.close()
        raise
    return profiler, time.monotonic_ns() - begin + _settling_ns(profile.run_ns), operators


def _operators(profile: Profile, way: str) -> List[Any]:
    """As `Profile.describe` has them. Raises ProfilingError where something ran and nothing is told of it."""
    operators: List[Any] = profile.describe()["operators"]
    if profile.run_ns and not operators:
        raise ProfilingError("%s told of no operator" % way)
    return operators
