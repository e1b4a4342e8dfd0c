"""Ways to time the single operators of a model, one file each. Nothing here runs unless it is asked for.

A profiler has `way` (in words), `burst(allowance)`, which runs instrumented inferences and
gives a Profile, and `close()`. One that works in a helper process is a `Service(spec, adapter)`, with
`make_ready()` instead of `close()`. What none may do: slow down or endanger the session that
gives the latency. So whatever is not exactly as it was verified is refused, with the reason.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .onnx_threads import added
from .others import Taken, watched

MAX_RUNS = 20  # of a burst; operators of under a microsecond are told in whole ones, and want an average


Key = Tuple[str, str, str]  # name, type, provider


class ProfilingError(Exception):
    """Why operators cannot be timed this way here."""


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
        self._taken: List[Optional[Taken]] = []  # by others, from each; None: not known
        self._runs: List[List[Tuple[Key, int]]] = []  # the operators of each, and what they took
        self._threads: List[Optional[Dict[str, Any]]] = []  # what each tells of its threads
        self._run = -1  # that in hand

    def begin_run(self, ns: int, taken: Optional[Taken] = None) -> None:
        """What is added from here on belongs to a run that took so long."""
        self._run = len(self.run_ns)
        self.run_ns.append(ns)
        self._taken.append(taken)
        self._runs.append([])
        self._threads.append(None)

    def timed(self, call: Callable[[], Any]) -> Any:
        """Begin a run with this call, and give what it gives."""
        result, ns, taken = watched(call)
        self.begin_run(ns, taken)
        return result

    def return_to(self, run: int) -> None:
        """What is added from here on belongs to that run."""
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
        whole = [taken is None or not taken.disturbs(ns) for ns, taken in zip(self.run_ns, self._taken)]
        counts = whole if any(whole) else [True] * len(whole)
        kept = [run for run, is_kept in enumerate(counts) if is_kept]
        uses = [use for use in (self._threads[run] for run in kept) if use]
        totals: Dict[Key, List[int]] = {}
        for run in kept:
            for key, ns in self._runs[run]:
                total = totals.setdefault(key, [0, 0])
                total[0] += 1
                total[1] += ns
        places = {key: place for place, key in enumerate(totals)}
        return {
            "run_ns": [self.run_ns[run] for run in kept],
            "left_out_ns": [ns for ns, is_kept in zip(self.run_ns, counts) if not is_kept],
            "disturbed": not any(whole),
            **self._taken_in_all(),
            "first_run": [[places[key], max(0, ns)] for key, ns in self._runs[kept[0]]] if kept else [],
            "operators": [[*key, calls, max(0, ns)] for key, (calls, ns) in totals.items()],
            **({"threads": added(uses)} if uses else {}),
        }

    def _taken_in_all(self) -> Dict[str, Any]:
        known = [taken for taken in self._taken if taken is not None]
        waits = [taken.waited_ns for taken in known if taken.waited_ns is not None]
        return {
            "preempted": sum(taken.preempted for taken in known),
            "waited_ns": sum(waits) if waits and len(waits) == len(self._taken) else None,
        }
