"""Ways to time the single operators of a model, one file each. Nothing here runs unless it is asked for.

A profiler has `way` (in words), `burst(allowance)`, which runs instrumented inferences and
gives a Profile, and `close()`. One that works in a helper process is a `Service(spec, adapter)`, with
`make_ready()` instead of `close()`. What none may do: slow down or endanger the session that
gives the latency. So whatever is not exactly as it was verified is refused, with the reason.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .interference import Interference, measured
from .onnx_threads import added

MAX_RUNS = 20  # of a burst; operators of under a microsecond are told in whole ones, and want an average


Key = Tuple[str, str, str]  # name, type, provider


class ProfilingError(Exception):
    """Operators cannot be timed in this way; the message has the reason."""


class Allowance:
    """How many instrumented runs a burst may have: one, and then as many as fit into its time.

    A run's time is what lies between two questions, and that of one more is left to what follows.
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
    """What the operators of some instrumented runs took, in the order in which they first ran."""

    def __init__(self) -> None:
        self.run_ns: List[int] = []  # how long each instrumented run took as a whole
        self._interference: List[Optional[Interference]] = []  # of each; None: not known
        self._runs: List[List[Tuple[Key, int]]] = []  # the operators of each, and what they took
        self._threads: List[Optional[Dict[str, Any]]] = []  # what each tells of its threads
        self._run = -1  # that in hand

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
        """What the run in hand tells of its threads (onnx_threads.py); None: nothing."""
        self._threads[self._run] = use

    def describe(self) -> Dict[str, Any]:
        """Of the runs that nothing disturbed, or of all where each was. Operators: [name, type, provider, calls, ns].

        `left_out_ns`: what the others took as a whole. `disturbed`: there was no run that nothing disturbed.
        `first_run` has what ran in the first of them, one after another: [place in `operators`, ns].
        `threads`, where the runtime tells of them: how they shared the work.
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
        places = {key: place for place, key in enumerate(totals)}
        return {
            "run_ns": [self.run_ns[run] for run in counted],
            "left_out_ns": [ns for ns, is_counted in zip(self.run_ns, counts) if not is_counted],
            "disturbed": not any(whole),
            **self._total_interference(),
            "first_run": [[places[key], max(0, ns)] for key, ns in self._runs[counted[0]]] if counted else [],
            "operators": [[*key, calls, max(0, ns)] for key, (calls, ns) in totals.items()],
            **({"threads": added(uses)} if uses else {}),
        }

    def _total_interference(self) -> Dict[str, Any]:
        known = [interference for interference in self._interference if interference is not None]
        waits = [interference.waited_ns for interference in known if interference.waited_ns is not None]
        return {
            "preempted": sum(interference.preempted for interference in known),
            "waited_ns": sum(waits) if waits and len(waits) == len(self._interference) else None,
        }
