"""Ways to time the single operators of a model, one file each. Nothing here runs unless profiling is requested.

A profiler has `way` (in words), `burst(allowance)`, which runs instrumented inferences and
returns a Profile, and `close()`. One that works in a helper process is a `Service(spec, adapter)`, with
`make_ready()` instead of `close()`. None may slow down or endanger the session whose latency is
measured. So whatever is not exactly as it was verified is refused, with the reason.
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


class Profile:
    """The operators' times in some instrumented runs, in the order in which they first ran."""

    def __init__(self) -> None:
        self.run_ns: List[int] = []  # how long each instrumented run took as a whole
        self._interference: List[Optional[Interference]] = []  # of each; None: unknown
        self._runs: List[List[Tuple[Key, int]]] = []  # the operators of each, and what they took
        self._threads: List[Optional[Dict[str, Any]]] = []  # how the threads of each shared the work
        self._run = -1  # the current one

    def begin_run(self, ns: int, interference: Optional[Interference] = None) -> None:
        """Begin a run that took `ns`; what is added next belongs to it."""
        self._run = len(self.run_ns)
        self.run_ns.append(ns)
        self._interference.append(interference)
        self._runs.append([])
        self._threads.append(None)

    def timed(self, call: Callable[[], Any]) -> Any:
        """Time the call as a new run, and return its result."""
        result, ns, interference = measured(call)
        self.begin_run(ns, interference)
        return result

    def return_to(self, run: int) -> None:
        """Make that run the current one: what is added next belongs to it."""
        self._run = run

    def add(self, name: str, op_type: str, provider: str, ns: int) -> None:
        self._runs[self._run].append(((name, op_type, provider), ns))

    def add_threads(self, use: Optional[Dict[str, Any]]) -> None:
        """Store how the threads of the current run shared the work (onnx_trace.thread_use); None: unknown."""
        self._threads[self._run] = use

    def describe(self) -> Dict[str, Any]:
        """The undisturbed runs, or all where each was disturbed. Operators: [name, type, provider, calls, ns].

        `left_out_ns`: what the others took as a whole. `disturbed`: there was no undisturbed run.
        `first_run` has what ran in the first of them, one after another: [place in `operators`, ns].
        `threads`, where the runtime reports them: how they shared the work.
        """
        whole = [
            interference is None or not interference.disturbs(ns)
            for ns, interference in zip(self.run_ns, self._interference)
        ]
        counts = whole if any(whole) else [True] * len(whole)
        counted = [run for run, is_counted in enumerate(counts) if is_counted]
        uses = [use for use in (self._threads[run] for run in counted) if use]
        totals: Dict[Key, List[int]] = {}
        for run in counted:
            for key, ns in self._runs[run]:
                total = totals.setdefault(key, [0, 0])
                total[0] += 1
                total[1] += ns
        counted_by_kernel = [interference for interference in self._interference if interference is not None]
        waits = [interference.waited_ns for interference in counted_by_kernel if interference.waited_ns is not None]
        places = {key: place for place, key in enumerate(totals)}
        return {
            "run_ns": [self.run_ns[run] for run in counted],
            "left_out_ns": [ns for ns, is_counted in zip(self.run_ns, counts) if not is_counted],
            "disturbed": not any(whole),
            "preempted": sum(interference.preempted for interference in counted_by_kernel),
            "waited_ns": sum(waits) if waits and len(waits) == len(self.run_ns) else None,
            "first_run": [[places[key], max(0, ns)] for key, ns in self._runs[counted[0]]] if counted else [],
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
