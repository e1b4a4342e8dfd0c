"""Profilers time the single operators of a model. Each has a file. No code here runs unless profiling is requested.

A profiler is an object with these members. `way` is a phrase that says how it profiles. `burst(allowance)` runs
instrumented inferences and returns the result of `Profile.describe`. `close()` ends it. A profiler in a helper process
is a `Service(spec, adapter)`, which has `make_ready()` in place of `close()`.

A profiler must not slow down or endanger the measured session. So it refuses to work, with a reason, on any version or
layout that was not verified.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .event_samples import EventSamples
from .interference import Interference, measured
from .noted_events import Counts, Noted, Run, Span

MOST_TIMES = 8_192  # most times of operators in single runs that a burst reports
MAX_RUNS = 20  # most runs of a burst; several are needed, since runtimes report whole microseconds


Key = Tuple[str, str, str]  # name, type, provider


_COPIES = ("Memcpy",)  # types of ONNX Runtime's copies between devices: MemcpyToHost, MemcpyFromHost


class ProfilingError(Exception):
    """Raised if operators cannot be timed in this way. The message says why."""


class Allowance:
    """Says whether one more instrumented run of the model may begin. The first run is always allowed.

    More runs are allowed while they fit into `budget_ns`, the budget in ns. A run's time is the time between two calls
    of `takes_another`. The time of one more run is kept in reserve for the work after the last run.
    """

    def __init__(
        self,
        budget_ns: int,
        is_stopped: Callable[[], bool],
        max_runs: int = MAX_RUNS,
        samples: Optional[EventSamples] = None,
    ) -> None:
        """Allow runs in the next `budget_ns` ns. `samples` notes the events of each run; None to note nothing."""
        self.samples = samples
        self.budget_ns = budget_ns
        self.max_runs = max_runs
        self.is_stopped = is_stopped
        self._runs = 0
        self._begin_ns = self._last_ns = time.monotonic_ns()

    def takes_another(self) -> bool:
        now = time.monotonic_ns()
        last_took, self._last_ns = now - self._last_ns, now
        fits = self._runs < self.max_runs and now - self._begin_ns + 2 * last_took <= self.budget_ns
        if self._runs and (not fits or self.is_stopped()):
            return False
        self._runs += 1
        return True


class _Run:
    """The times of one instrumented run of the model."""

    def __init__(self, ns: int, interference: Optional[Interference]) -> None:
        self.ns = ns  # duration of the whole run
        self.interference = interference  # None if unknown
        self.operators: List[Tuple[Key, int]] = []  # operators and their times in ns, in run order
        # When each of these operators began, in ns of any clock, and the thread that ran it; None if unknown.
        self.begins: List[Optional[Tuple[int, int]]] = []
        self.threads: Optional[Dict[str, Any]] = None  # result of onnx_trace.thread_use; None if unknown
        self.noted: Optional[Noted] = None  # None if no events were noted
        self.zero_ns = 0  # a time on the clock of `begins` at which the run had begun, and no operator had

    def crossing_ns(self) -> Optional[int]:
        """Return the time in ns that the run spent between operators of different providers, or None if unknown.

        The time is the sum of the gaps between such operators. The profiler takes time to record an event, so the usual
        gap between operators of one provider is subtracted from each gap. The time of operators that copy between
        devices is added.
        """
        if not self.operators or None in self.begins:
            return None
        spans = [(begin[0], ns, key) for begin, (key, ns) in zip(self.begins, self.operators) if begin is not None]
        copies = sum(ns for _, ns, key in spans if key[1].startswith(_COPIES))
        crossed: List[int] = []
        usual: List[int] = []
        for before, after in zip(spans, spans[1:]):
            gaps = usual if before[2][2] == after[2][2] else crossed
            gaps.append(max(0, after[0] - before[0] - before[1]))
        each = sorted(usual)[len(usual) // 2] if usual else 0
        all_ns = sum(max(0, gap - each) for gap in crossed) + max(0, copies)
        return all_ns if all_ns <= self.ns else None  # more than the whole run: the clocks differ

    def spans(self, places: Dict[Key, int]) -> List[Span]:
        """Return when each operator ran, sorted by begin.

        `places` has the index of each operator in a result. Returns [] if the begin of an operator is unknown, or if
        several threads ran operators.
        """
        begins = [begin for begin in self.begins if begin is not None]
        if len(begins) < len(self.operators) or len({thread for _, thread in begins}) > 1:
            return []
        spans = [Span(places[key], at[0], ns) for at, (key, ns) in zip(begins, self.operators)]
        return sorted(spans, key=lambda span: span.begin_ns)

    def is_undisturbed(self) -> bool:
        return self.interference is None or not self.interference.disturbs(self.ns)


class Profile:
    """Collects the operators' times in some runs of the model. `run` is the run that was begun last."""

    def __init__(self, samples: Optional[EventSamples] = None) -> None:
        """Begin a profile. `samples` notes the events of each run that is timed; None to note nothing."""
        self.runs: List[_Run] = []
        self.run: _Run
        self._samples = samples

    def begin_run(self, ns: int, interference: Optional[Interference] = None) -> None:
        """Begin a new run that took `ns` ns. `interference` says what disturbed it; None if that is unknown."""
        self.run = _Run(ns, interference)
        self.runs.append(self.run)

    def timed(self, call: Callable[[], Any]) -> None:
        """Make `call`, time it, and begin a new run with that time."""
        ns, interference, noted = self.measured(call)
        self.begin_run(ns, interference)
        self.run.noted = noted

    def measured(self, call: Callable[[], Any]) -> Tuple[int, Interference, Optional[Noted]]:
        """Make `call`. Return its time in ns, how much other processes disturbed it, and its noted events.

        The noted events are None if this profile notes no events.
        """
        if self._samples is None:
            _, ns, interference = measured(call)
            return ns, interference, None
        at: List[int] = []

        def timed_call() -> None:
            at.append(time.monotonic_ns())
            call()
            at.append(time.monotonic_ns())

        (_, ns, interference), notes = self._samples.during(lambda: measured(timed_call))
        return ns, interference, Noted(notes, at[0], at[1])

    def add(
        self, name: str, op_type: str, provider: str, ns: int, begin_ns: Optional[int] = None, thread: int = 0
    ) -> None:
        """Add to the last run an operator that took `ns` ns. `name`, `op_type` and `provider` describe the operator.

        `begin_ns` is when the operator began, in ns of any clock; None if unknown. `thread` is the id of the thread
        that ran it.
        """
        self.run.operators.append(((name, op_type, provider), ns))
        self.run.begins.append(None if begin_ns is None else (begin_ns, thread))

    def describe(self) -> Dict[str, Any]:
        """Return the results of all runs as a dict, with most of the fields of `engine_protocol.BurstTaken`.

        A run that another process disturbed does not count. If all were disturbed, all count, and `disturbed` is true.

        - `operators`: [name, type, provider, calls, ns] of each operator, for all counted runs together
        - `first_run`: [index in `operators`, ns] of each step of the first counted run, in run order
        - `runs`: for each counted run, the ns of each item of `operators`; [] if these are more than MOST_TIMES
        - `run_ns`, `left_out_ns`: the durations in ns of the runs that count, and of those that do not
        - `threads`: how threads shared the work; only if the runtime reports it
        - `first_begins`: [ns since the first operator, number of the thread] for each item of `first_run`
        - `crossing_ns`: mean time in ns that a run spends between operators of different providers
        - `counts`: the events of each operator, as `Counts.describe` returns them; only if events were noted

        The last three are there only if the runtime reports when operators begin.
        """
        undisturbed = [run for run in self.runs if run.is_undisturbed()]
        counted = undisturbed or self.runs
        totals: Dict[Key, List[int]] = {}
        for key, ns in [timed for run in counted for timed in run.operators]:
            total = totals.setdefault(key, [0, 0])
            total[0] += 1
            total[1] += ns
        seen = [run.interference for run in self.runs if run.interference is not None]
        waits = [interference.waited_ns for interference in seen if interference.waited_ns is not None]
        places = {key: place for place, key in enumerate(totals)}
        uses = [run.threads for run in counted if run.threads]
        crossings = [run.crossing_ns() for run in counted]
        begins = counted[0].begins if counted and None not in counted[0].begins else []
        threads = list(dict.fromkeys(begin[1] for begin in begins if begin is not None))
        first_ns = min((begin[0] for begin in begins if begin is not None), default=0)
        counts = Counts()
        counts.add([Run(run.spans(places), run.noted, run.zero_ns) for run in counted if run.noted is not None])
        events = counts.describe()
        return {
            **({"counts": events} if events else {}),
            "run_ns": [run.ns for run in counted],
            "left_out_ns": [run.ns for run in self.runs if run not in counted],
            "disturbed": not undisturbed,
            "preempted": sum(interference.preempted for interference in seen),
            "waited_ns": sum(waits) if waits and len(waits) == len(self.runs) else None,
            "first_run": [[places[key], max(0, ns)] for key, ns in counted[0].operators] if counted else [],
            "operators": [[*key, calls, max(0, ns)] for key, (calls, ns) in totals.items()],
            "runs": _each(counted, places) if len(counted) * len(places) <= MOST_TIMES else [],
            **({"threads": _added(uses)} if uses else {}),
            **(
                {
                    "first_begins": [[at[0] - first_ns, threads.index(at[1])] for at in begins if at is not None],
                    "crossing_ns": sum(ns or 0 for ns in crossings) // len(crossings),
                }
                if begins and None not in crossings
                else {}
            ),
        }


def _each(runs: List[_Run], places: Dict[Key, int]) -> List[List[int]]:
    """Return a list for each run: the times in ns of the operators. `places` has an operator's index in that list."""
    rows = []
    for run in runs:
        row = [0] * len(places)
        for key, ns in run.operators:
            row[places[key]] += ns
        rows.append([max(0, ns) for ns in row])
    return rows


def _added(uses: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the sums of several runs' thread use, as the fields of `ThreadUse`."""
    waited_ns: Dict[str, int] = {}
    for use in uses:
        for name, ns in use["waited_ns"].items():
            waited_ns[name] = waited_ns.get(name, 0) + ns
    most = max(waited_ns, key=lambda name: waited_ns[name])
    return {
        "count": max(use["count"] for use in uses),
        "all_ns": sum(use["all_ns"] for use in uses),
        "wait_ns": sum(waited_ns.values()),
        "moves": sum(use["moves"] for use in uses),
        "most": most,
        "most_ns": waited_ns[most],
    }
