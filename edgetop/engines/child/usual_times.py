"""Find the operator that made an instrumented inference slower than usual.

The times of operators are known only for instrumented inferences. So an operator is found that sometimes takes longer,
such as one whose work depends on its input. Which operator made a plain inference slow remains unknown.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

KEPT = 15  # latest instrumented inferences, whose medians are the usual times
LEAST = 5  # fewest inferences from which the usual times are known
STANDS_OUT = 1.1  # least time of a slow inference, in usual times, as in edgetop.analysis.slowdowns.slow_inferences
MOST = 0.5  # share of the lost time from which on one operator is named, and not all of them

Key = Tuple[str, str, str]  # name, type, provider


class UsualTimes:
    def __init__(self) -> None:
        self._runs: List[Tuple[int, Dict[Key, int]]] = []  # time of an inference in ns, and that of each operator

    def slow_run(self, described: Dict[str, Any]) -> Dict[str, Any]:
        """Return the fields of `engine_protocol.BurstTaken` that describe the slowest inference, or {} if none is slow.

        `described` is the result of `Profile.describe`. Its key `runs` is removed. An inference is slow if it took 10 %
        longer than the median of the latest ones.
        """
        rows = described.pop("runs", [])
        if described["disturbed"] or len(rows) != len(described["run_ns"]):
            return {}
        keys = [(str(name), str(kind), str(provider)) for name, kind, provider, *_ in described["operators"]]
        fresh = [(int(ns), dict(zip(keys, row))) for ns, row in zip(described["run_ns"], rows)]
        self._runs = [*self._runs, *fresh][-KEPT:]
        if len(self._runs) < LEAST or not fresh:
            return {}
        slowest_ns, times = max(fresh, key=lambda run: run[0])
        usual_ns = _median([ns for ns, _ in self._runs])
        if slowest_ns < STANDS_OUT * usual_ns:
            return {}
        usual = {key: _median([each.get(key, 0) for _, each in self._runs]) for key in times}
        longest = max(times, key=lambda key: times[key] - usual[key])
        longer_ns = times[longest] - usual[longest]
        found = {"slow_ns": slowest_ns, "usual_ns": usual_ns}
        if longer_ns < MOST * (slowest_ns - usual_ns):
            return found
        share = min(1.0, usual[longest] / usual_ns)
        return {**found, "longer": longest[0], "longer_ns": longer_ns, "longer_share": share}


def _median(values: List[int]) -> int:
    return sorted(values)[len(values) // 2]
