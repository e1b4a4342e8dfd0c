"""Profile operators in bursts: a few instrumented inferences at a time, between those that are measured.

Instrumented inferences are slower than plain ones, so they never become records. Their cost is bounded: the longer a
burst takes, the longer is the pause after it.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import message_frames
from .engine_error import one_line
from .profilers import Allowance, ProfilingError
from .profilers.event_samples import EventSamples
from .profilers.interference import DISTURBED, InterferenceWatch, stolen_ns
from .profilers.noted_events import samples_of
from .usual_times import UsualTimes

MAX_DUTY = 0.01  # share of the time since measuring began that all bursts together may take
RESERVE = 1.25  # a burst may take this many times as long as the previous one
FIRST_AFTER_NS = 1_000_000_000  # the first burst comes early, so that there is something to see soon
# A burst leaves cold caches and a core that has idled: the first inference after a burst took 2 to 50 times as long,
# the fifth 4 % longer. So this many inferences after a burst, or as many as fit into this time, do not count.
SETTLE_RUNS = 20
SETTLE_NS = 5_000_000
SETTLE_BELOW_NS = 100_000_000  # inferences longer than this are hardly affected
LONG_NS = 1_000_000_000  # a burst of this length is announced, so that the silence does not look like a stall
MAX_FAILURES_IN_A_ROW = 3  # single failures are allowed, since one of several cycled inputs may fail

# Most loops that ONNX Runtime, with several threads, may keep in memory from one burst to the next
# (profilers/onnx_runs.py): they take 1 MiB, and some 10 ms to report.
MAX_LOOPS = 131_072

NEVER = 2**63


class Bursts:
    """Runs the profiler from time to time, and sends the operators' times to edgetop's main process.

    A burst is a few instrumented inferences that run together.
    """

    def __init__(
        self,
        profiler: Any,
        outlet: Any,
        control: Any,
        every_ns: int,
        takes_ns: int = 0,
        clock: Callable[[], int] = time.monotonic_ns,
        samples: Optional[EventSamples] = None,
    ) -> None:
        """Prepare the schedule: a burst about every `every_ns` ns, or less often if bursts take too much of the time.

        `profiler` has a method `burst(allowance)`, and `outlet` sends the results to edgetop's main process.
        `control` says when the user requests a burst or a stop. `takes_ns` is how long a burst of one inference
        took, in ns, when it was tried. `clock` returns ns. `samples` notes the events of operators; None to note
        nothing.
        """
        self._profiler = profiler
        self._outlet = outlet
        self._control = control
        self._every_ns = every_ns
        self._takes_ns = self._least_ns = takes_ns  # time of the last burst; of a burst with a single inference
        self._settling_ns = SETTLE_NS  # time to settle after the last burst
        self._began_ns = self._used_ns = 0
        self._clock = clock
        self._samples = samples
        self._due_ns = NEVER
        self._failures_in_a_row = 0
        self._usual = UsualTimes()
        self._watch = InterferenceWatch()  # watches since the last burst, or since the beginning

    def begin(self) -> None:
        """Start the schedule. Call this when the measured phase begins."""
        self._began_ns, self._used_ns = self._clock(), 0
        self._watch = InterferenceWatch()
        self._due_ns = max(self._began_ns + min(self._every_ns, FIRST_AFTER_NS), self._affordable_ns())

    def _affordable_ns(self) -> int:
        """Return the earliest time, in ns, at which the next burst (a few instrumented inferences) may begin.

        All bursts together may take the share MAX_DUTY of the time. The next burst is assumed to be one inference.
        """
        return self._began_ns + int((self._used_ns + self._least_ns * RESERVE) / MAX_DUTY)

    def is_due(self, now_ns: int) -> bool:
        return now_ns >= self._due_ns or self._control.profile_requested

    def take(self, call: Callable[[], Any]) -> None:
        """Run a few instrumented inferences now, and send the operators' times. `call` runs one plain inference.

        If this fails several times in a row, profiling ends, and the session goes on.
        """
        is_requested, self._control.profile_requested = self._control.profile_requested, False
        if self._profiler is None:
            return
        begin, plain_disturbed = self._clock(), self._watch.was_busy()
        budget_ns = int(self._every_ns * MAX_DUTY)
        if not is_requested:  # the first burst has one inference, and shows how long a burst takes
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
            # ONNX Runtime records loops all the time: the next burst must come before there are MAX_LOOPS.
            loops = getattr(self._profiler, "loops", 0)
            full_ns = int(MAX_LOOPS / loops * min(run_ns)) if loops and run_ns else NEVER
            self._due_ns = max(begin + min(self._every_ns, full_ns), self._affordable_ns())
        if described and run_ns:
            described.update(t_ns=begin, duration_ns=took, plain_disturbed=plain_disturbed)
            self._outlet.send(message_frames.BURST, described)
        self._watch = InterferenceWatch()

    def _profile(self, call: Callable[[], Any], budget_ns: int) -> Optional[Dict[str, Any]]:
        """Run a few instrumented inferences and return the result of `Profile.describe`, or None if profiling failed.

        `budget_ns` limits their time, in ns. `call` runs one plain inference. Afterwards plain inferences are run until
        latency is back to normal.
        """
        stolen_before, begin = stolen_ns(), self._clock()
        left_ns = max(0, budget_ns - self._settling_ns)
        allowance = Allowance(left_ns, lambda: self._control.stop_requested, samples=self._samples)
        try:
            described: Dict[str, Any] = self._profiler.burst(allowance)
            # Time that a hypervisor gave to others. If it is noticeable, all runs count as disturbed.
            now, took = stolen_ns(), self._clock() - begin
            lost = described["stolen_ns"] = (
                None if stolen_before is None or now is None else max(0, now - stolen_before)
            )
            if lost is not None and lost > DISTURBED * took:
                described["disturbed"] = True
            described.update(self._usual.slow_run(described))
            self._settling_ns = _settling_ns(described["run_ns"])
            until_ns = self._clock() + SETTLE_NS
            for _ in range(SETTLE_RUNS if self._settling_ns else 0):
                call()
                if self._clock() >= until_ns:
                    break
        except Exception as error:  # of any type; a failing profiler must not end the session
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
    """Return for how many ns after a burst (a few instrumented inferences) the inferences must not count.

    `run_ns` has the times of the burst's inferences, in ns. The result is 0 if one of these took more than 0.1 s, since
    the inferences after such a burst are hardly affected.
    """
    longest = max(run_ns) if run_ns else SETTLE_BELOW_NS
    return max(SETTLE_NS, longest) if longest < SETTLE_BELOW_NS else 0


def open_bursts(adapter: Any, spec: Dict[str, Any], outlet: Any, control: Any) -> Optional[Bursts]:
    """Return a `Bursts` object with the first profiler of `adapter` that works, or None if none works.

    `outlet` gets a message that says which profiler is used, and why others are not. `spec` has the fields of
    `EngineSpec` by name. `control` says when the user requests a burst or a stop. Call this before the warm-up, so that
    latency is back to normal when the measurement begins.
    """
    every_ns = spec.get("profile_every_ns") or 0
    if not every_ns:
        return None
    if spec.get("streams", 1) > 1:
        reason = "with several streams, the work of one cannot be distinguished from that of the others"
        outlet.send(message_frames.PROFILER, {"way": "", "reason": reason})
        return None
    reasons: List[str] = []
    samples = samples_of(spec)
    for make in adapter.profilers():
        try:
            profiler, takes_ns, operators = _tried(make, control, samples)
        except Exception as error:  # ProfilingError, or any error of an unexpected build of a runtime
            reasons.append(one_line(error))
            continue
        told = {"way": profiler.way, "reason": "; ".join(reasons), "operators": operators}
        outlet.send(message_frames.PROFILER, dict(told, **_fallback(adapter, operators, outlet, control)))
        return Bursts(profiler, outlet, control, every_ns, takes_ns, samples=samples)
    told = {"way": "", "reason": "; ".join(reasons), "operators": []}
    outlet.send(message_frames.PROFILER, dict(told, **_fallback(adapter, [], outlet, control)))
    return None


def _fallback(adapter: Any, operators: List[Any], outlet: Any, control: Any) -> Dict[str, Any]:
    """Return {"fallback": why operators do not run on the requested providers}, in the runtime's own words.

    `operators` are the operators of a profiled inference; empty if no inference was profiled. Returns {} if all
    operators run on the requested providers, or if the reasons cannot be found out.
    """
    if not hasattr(adapter, "explain_fallback"):
        return {}
    try:
        ran_on = {operator[2] for operator in operators}
        found = adapter.explain_fallback(ran_on, lambda: control.stop_requested)
    except Exception as error:  # ProfilingError, or any error of an unexpected build of a runtime
        text = "why operators fell back is unknown: %s" % one_line(error)
        outlet.send(message_frames.LOG, {"severity": "info", "message": text})
        return {}
    return {"fallback": found} if found else {}


def _tried(make: Callable[[], Any], control: Any, samples: EventSamples) -> Tuple[Any, int, List[Any]]:
    """Make a profiler with `make` and let it profile one inference.

    Return (profiler, how long that inference and the settling after it take in ns, the operators that the profiler
    reported). `samples` notes the events of the inference. Raises ProfilingError if the profiler reports no operator.
    """
    profiler = make()
    begin = time.monotonic_ns()
    try:
        described = profiler.burst(Allowance(0, lambda: control.stop_requested, samples=samples))
        run_ns, operators = described["run_ns"], described["operators"]
    except BaseException:
        profiler.close()
        raise
    if run_ns and not operators:
        profiler.close()
        raise ProfilingError("%s reported no operator" % profiler.way)
    return profiler, time.monotonic_ns() - begin + _settling_ns(run_ns), operators
