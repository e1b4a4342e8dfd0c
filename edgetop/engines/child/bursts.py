"""When operators are profiled: in bursts, between inferences that are measured.

Instrumented inferences are slower than others, so they never become records. Their cost is bounded: a burst that takes
long makes the pause after it longer.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import message_frames
from .engine_error import one_line
from .profilers import Allowance, ProfilingError
from .profilers.interference import DISTURBED, InterferenceWatch, stolen_ns

MAX_DUTY = 0.01  # of the time since measuring began, from the first burst on
RESERVE = 1.25  # a burst may take so much longer than the one before
FIRST_AFTER_NS = 1_000_000_000  # so that there is something to see soon
# A burst leaves caches cold and a core that has idled: the first inference after one was measured to take 2 to 50
# times as long, the fifth 4 % longer. So many are run and not counted, whatever they take, until the time is up.
SETTLE_RUNS = 20
SETTLE_NS = 5_000_000
SETTLE_BELOW_NS = 100_000_000  # an inference that takes longer hardly shows it
LONG_NS = 1_000_000_000  # a burst of this length is announced, so that its silence is not taken for a stall
MAX_FAILURES_IN_A_ROW = 3  # an input of several that are cycled through may be one that fails

# Of loops, which ONNX Runtime keeps in memory from one burst to the next where it has several threads
# (profilers/onnx_runs.py): 1 MiB, and some 10 ms to report them.
MAX_LOOPS = 131_072

NEVER = 2**63


class Bursts:
    """Runs the profiler when it is due, and sends the result to the outlet."""

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
        """Return when one more burst of a single inference keeps all bursts within their share of the time."""
        return self._began_ns + int((self._used_ns + self._least_ns * RESERVE) / MAX_DUTY)

    def is_due(self, now_ns: int) -> bool:
        return now_ns >= self._due_ns or self._control.profile_requested

    def take(self, call: Callable[[], Any]) -> None:
        """Run one burst. Where bursts fail, profiling ends; the session goes on."""
        is_requested, self._control.profile_requested = self._control.profile_requested, False
        if self._profiler is None:
            return
        begin, plain_disturbed = self._clock(), self._watch.was_busy()
        budget_ns = int(self._every_ns * MAX_DUTY)
        if not is_requested:  # the first one shows what they take: it has one inference
            earned_ns = int((begin - self._began_ns) * MAX_DUTY) - self._used_ns
            budget_ns = min(budget_ns, earned_ns) if self._used_ns else 0
        if self._takes_ns >= LONG_NS:
            self._outlet.send(message_frames.BURST_BEGINS, {"t_ns": begin})
        described = self._profile(call, budget_ns)
        run_ns: List[int] = described["run_ns"] if described else []
        took = self._takes_ns = self._clock() - begin
        self._used_ns += took
        self._least_ns = min(self._least_ns, took) if len(run_ns) > 1 else took
        if self._profiler is not None:
            # ONNX Runtime may record what its threads do up to MAX_LOOPS, at so long an inference.
            loops = getattr(self._profiler, "loops", 0)
            full_ns = int(MAX_LOOPS / loops * min(run_ns)) if loops and run_ns else NEVER
            self._due_ns = max(begin + min(self._every_ns, full_ns), self._affordable_ns())
        if described and run_ns:
            described.update(t_ns=begin, duration_ns=took, plain_disturbed=plain_disturbed)
            self._outlet.send(message_frames.BURST, described)
        self._watch = InterferenceWatch()

    def _profile(self, call: Callable[[], Any], budget_ns: int) -> Optional[Dict[str, Any]]:
        """Return what a burst showed. When this returns, an inference takes again what it did before."""
        stolen_before, begin = stolen_ns(), self._clock()
        allowance = Allowance(max(0, budget_ns - self._settling_ns), lambda: self._control.stop_requested)
        try:
            described: Dict[str, Any] = self._profiler.burst(allowance)
            # What a hypervisor gave to others; where it shows, none of the runs was undisturbed.
            now, took = stolen_ns(), self._clock() - begin
            lost = described["stolen_ns"] = (
                None if stolen_before is None or now is None else max(0, now - stolen_before)
            )
            if lost is not None and lost > DISTURBED * took:
                described["disturbed"] = True
            self._settling_ns = _settling_ns(described["run_ns"])
            until_ns = self._clock() + SETTLE_NS
            for _ in range(SETTLE_RUNS if self._settling_ns else 0):
                call()
                if self._clock() >= until_ns:
                    break
        except Exception as error:  # a runtime's own; profiling is not worth a session
            self._failures_in_a_row += 1
            if isinstance(error, ProfilingError) or self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
                self._due_ns = NEVER
                self.close()
                reason = "profiling ended: %s" % one_line(error)
                self._outlet.send(message_frames.PROFILER, {"way": "", "reason": reason})
            return None
        self._failures_in_a_row = 0
        return described

    def close(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.close()


def _settling_ns(run_ns: List[int]) -> int:
    """Return how long the uncounted inferences after such a burst will take."""
    longest = max(run_ns) if run_ns else SETTLE_BELOW_NS
    return max(SETTLE_NS, longest) if longest < SETTLE_BELOW_NS else 0


def open_bursts(adapter: Any, spec: Dict[str, Any], outlet: Any, control: Any) -> Optional[Bursts]:
    """Bursts as `spec` wants them, by the first of the adapter's ways that works; None, with the reason sent, else.

    Called before the warm-up, so that whatever this disturbs has settled when it is measured.
    """
    every_ns = spec.get("profile_every_ns") or 0
    if not every_ns:
        return None
    if spec.get("streams", 1) > 1:
        reason = "with several streams, the work of one cannot be distinguished from that of the others"
        outlet.send(message_frames.PROFILER, {"way": "", "reason": reason})
        return None
    reasons: List[str] = []
    for make in adapter.profilers():
        try:
            profiler, takes_ns, operators = _tried(make, control)
        except Exception as error:  # ProfilingError, or whatever a runtime of an unexpected build raises
            reasons.append(one_line(error))
            continue
        outlet.send(
            message_frames.PROFILER, {"way": profiler.way, "reason": "; ".join(reasons), "operators": operators}
        )
        return Bursts(profiler, outlet, control, every_ns, takes_ns)
    outlet.send(message_frames.PROFILER, {"way": "", "reason": "; ".join(reasons), "operators": []})
    return None


def _tried(make: Callable[[], Any], control: Any) -> Tuple[Any, int, List[Any]]:
    """A profiler that has reported operators once, how long such a burst takes in ns, and the operators."""
    profiler = make()
    begin = time.monotonic_ns()
    try:
        described = profiler.burst(Allowance(0, lambda: control.stop_requested))
        run_ns, operators = described["run_ns"], described["operators"]
    except BaseException:
        profiler.close()
        raise
    if run_ns and not operators:
        profiler.close()
        raise ProfilingError("%s reported no operator" % profiler.way)
    return profiler, time.monotonic_ns() - begin + _settling_ns(run_ns), operators
