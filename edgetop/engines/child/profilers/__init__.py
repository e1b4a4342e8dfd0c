"""Ways to time the single operators of a model, one file each. Nothing here runs unless it is asked for.

A profiler has `way` (in words), `burst(allowance)`, which runs instrumented inferences and
gives a Profile, and `close()`. What it must never do: slow down or endanger the session that
gives the latency. So whatever is not exactly as it was verified is refused, with the reason.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .onnx_threads import added

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


# A run that takes so much longer than the fastest of its burst was disturbed by something else that ran.
DISTURBED = 1.25


class Profile:
    """What the operators of some instrumented runs took, in the order in which they first ran."""

    def __init__(self) -> None:
        self.run_ns: List[int] = []  # how long each instrumented run took as a whole
        self._runs: List[List[Tuple[Key, int]]] = []  # the operators of each, and what they took
        self._threads: List[Optional[Dict[str, Any]]] = []  # what each tells of its threads

    def begin_run(self, ns: int) -> None:
        """What is added from here on belongs to a run that took so long."""
        self.run_ns.append(ns)
        self._runs.append([])
        self._threads.append(None)

    def add(self, name: str, op_type: str, provider: str, ns: int) -> None:
        self._runs[-1].append(((name, op_type, provider), ns))

    def add_threads(self, use: Optional[Dict[str, Any]]) -> None:
        """What the run in hand tells of its threads (onnx_threads.py); None: nothing."""
        self._threads[-1] = use

    def describe(self) -> Dict[str, Any]:
        """Of the runs that nothing disturbed; each operator is [name, op_type, provider, calls, total_ns].

        `first_run` has what ran in the first of them, one after another: [place in `operators`, ns].
        `threads`, where the runtime tells of them: how they shared the work.
        """
        longest = DISTURBED * min(self.run_ns or [0])
        kept = [(ns, operators) for ns, operators in zip(self.run_ns, self._runs) if ns <= longest]
        uses = [use for ns, use in zip(self.run_ns, self._threads) if ns <= longest and use]
        totals: Dict[Key, List[int]] = {}
        for _, operators in kept:
            for key, ns in operators:
                total = totals.setdefault(key, [0, 0])
                total[0] += 1
                total[1] += ns
        places = {key: place for place, key in enumerate(totals)}
        return {
            "run_ns": [ns for ns, _ in kept],
            "first_run": [[places[key], max(0, ns)] for key, ns in kept[0][1]] if kept else [],
            "operators": [[*key, calls, max(0, ns)] for key, (calls, ns) in totals.items()],
            **({"threads": added(uses)} if uses else {}),
        }


def open_helper(spec: Dict[str, Any], service: str) -> Any:
    """A profiler in a helper process. `service`: the module here that does it there. Raises ProfilingError."""
    from .helper import Helper  # noqa: PLC0415  most engines never start a process

    return Helper(spec, service)
