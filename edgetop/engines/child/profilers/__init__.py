"""Ways to time the single operators of a model, one file each. Nothing here runs unless profiling is requested.

A profiler has `way` (in words), `burst(allowance)`, which runs instrumented inferences and returns what
`Profile.describe` gives, and `close()`. One that works in a helper process is a `Service(spec, adapter)` with
`make_ready()` instead of `close()`. None may slow down or endanger the session whose latency is measured: a profiler
refuses whatever differs from what was verified, with the reason.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .interference import Interference, measured

MAX_RUNS = 20  # of a burst; runtimes report whole microseconds, so that short operators need an average


Key = Tuple[str, str, str]  # name, type, provider


class ProfilingError(Exception):
    """Operators cannot be timed in this way; the message has the reason."""


class Allowance:
    """How many instrumented runs a burst may have: one, and then as many as fit into its time.

    A run's time is that between two calls of `takes_another`; the time of one more is reserved for what follows.
    """

    def __init__(self, budget_ns: int, is_stopped: Callable[[], bool], max_runs: int = MAX_RUNS) -> None:
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
    """One instrumented run."""

    def __init__(self, ns: int, interference: Optional[Interference]) -> None:
        self.ns = ns  # as a whole
        self.interference = interference  # None: unknown
        self.operators: List[Tuple[Key, int]] = []  # what each took, in the order in which they ran
        self.threads: Optional[Dict[str, Any]] = None  # how they shared the work (onnx_trace.thread_use); None: unknown

    def is_undisturbed(self) -> bool:
        return self.interference is None or not self.interference.disturbs(self.ns)


class Profile:
    """The operators' times in some instrumented runs. What is added belongs to `run`, the last one begun."""

    def __init__(self) -> None:
        self.runs: List[_Run] = []
        self.run: _Run

    def begin_run(self, ns: int, interference: Optional[Interference] = None) -> None:
        """Begin a run that took `ns`."""
        self.run = _Run(ns, interference)
        self.runs.append(self.run)

    def timed(self, call: Callable[[], Any]) -> None:
        """Time the call as a new run."""
        _, ns, interference = measured(call)
        self.begin_run(ns, interference)

    def add(self, name: str, op_type: str, provider: str, ns: int) -> None:
        self.run.operators.append(((name, op_type, provider), ns))

    def describe(self) -> Dict[str, Any]:
        """The undisturbed runs, or all where each was disturbed. Operators: [name, type, provider, calls, ns].

        `left_out_ns`: what the others took as a whole. `disturbed`: there was no undisturbed run.
        `first_run` has what ran in the first of them, one after another: [place in `operators`, ns].
        `threads`, where the runtime reports them: how they shared the work.
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
        return {
            "run_ns": [run.ns for run in counted],
            "left_out_ns": [run.ns for run in self.runs if run not in counted],
            "disturbed": not undisturbed,
            "preempted": sum(interference.preempted for interference in seen),
            "waited_ns": sum(waits) if waits and len(waits) == len(self.runs) else None,
            "first_run": [[places[key], max(0, ns)] for key, ns in counted[0].operators] if counted else [],
            "operators": [[*key, calls, max(0, ns)] for key, (calls, ns) in totals.items()],
            **({"threads": _added(uses)} if uses else {}),
        }


def _added(uses: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The sums over several runs: {"count", "all_ns", "wait_ns", "moves", "most", "most_ns"}."""
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
