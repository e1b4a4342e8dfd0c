"""Finds operators that sometimes take longer than usual, from the slow ones among the instrumented inferences.

A plain inference has no times of operators. But if nearly always the same operator took longer in slow instrumented
inferences, this operator probably makes plain inferences slow as well. By chance, it would be another operator each
time, in proportion to the operators' shares of the time.
"""

import math
from dataclasses import dataclass

from edgetop.session.engine_events import ProfileBurst, ProfileBursts

# Number of slow instrumented inferences in which an operator must have taken longer. Choice: two may be chance. Larger:
# an operator is named late; smaller: a disturbed inference names one.
LEAST_LONGER = 3
# Probability below which it is no chance that it was this operator. Statistics: one of a hundred sessions without a
# cause. Larger: operators are named by chance; smaller: they are named after many more inferences.
CHANCE = 0.01
MOST_NAMES = 64  # operators that are told apart


@dataclass(slots=True)
class _Longer:
    count: int = 0  # slow inferences in which it took longer
    most_ns: int = 0
    shares: float = 0.0  # sum of its usual shares of the time


class LongerOperators:
    """Counts in how many slow instrumented inferences each operator took longer than usual."""

    def __init__(self) -> None:
        self._slow = 0  # slow instrumented inferences
        self._by_name: dict[str, _Longer] = {}

    def add(self, burst: ProfileBurst) -> None:
        """Add a profiling round: its slow inference, and the operator that took longer than usual in this inference.

        A round without a slow inference (`burst.slow_ns` is None) changes nothing.
        """
        if burst.slow_ns is None:
            return
        self._slow += 1
        self._add(burst, 1)

    def add_sum(self, bursts: ProfileBursts) -> None:
        """Add the slow inferences of several profiling rounds.

        `bursts`: the summary of these rounds that a remote viewer gets for the distant past.
        """
        self._slow += max(bursts.slow_runs or 0, 0)
        self._add(bursts, max(bursts.longer_runs or 0, 0))

    def _add(self, of: ProfileBurst | ProfileBursts, count: int) -> None:
        """Add `count` slow inferences in which the operator `of.longer` took longer than usual."""
        name = of.longer
        if name and count and (name in self._by_name or len(self._by_name) < MOST_NAMES):
            of_name = self._by_name.setdefault(name, _Longer())
            of_name.count += count
            of_name.most_ns = max(of_name.most_ns, of.longer_ns or 0)
            of_name.shares += count * min(max(float(of.longer_share or 0.0), 0.0), 1.0)

    def explain(self, least_ns: float) -> str:
        """Return the operator that took longer in slow inferences most often, or "" if chance may explain this.

        `least_ns`: operators that never took at least this many ns longer than usual are left out.
        """
        able = [name for name, one in self._by_name.items() if one.most_ns >= least_ns and self._is_no_chance(one)]
        return max(able, key=lambda name: (self._by_name[name].count, name), default="")

    def _is_no_chance(self, one: _Longer) -> bool:
        """Whether an operator took longer in more slow inferences than chance explains. `one`: its counts.

        By chance, the operator's share of the slow inferences would be its share of the time. The probability is
        bounded by Chernoff (1952, A measure of asymptotic efficiency for tests of a hypothesis based on the sum of
        observations, Annals of Mathematical Statistics 23): exp(-n D), where D is the relative entropy.
        """
        often, usual = one.count / max(self._slow, one.count), min(max(one.shares / one.count, 1e-9), 1 - 1e-9)
        if one.count < LEAST_LONGER or often <= usual:
            return False
        entropy = often * math.log(often / usual)
        entropy += (1 - often) * math.log((1 - often) / (1 - usual)) if often < 1 else 0.0
        return math.exp(-self._slow * entropy) < CHANCE
