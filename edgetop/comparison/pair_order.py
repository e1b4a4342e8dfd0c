"""Which of two models has the higher figure on each of two machines, and for which pairs that cannot be told.

The medians of similar models change places from one measurement to the next, and Kendall's tau with them. So a pair
that cannot be told apart on a machine is a tie here, and the result is tau-b, which takes ties into account (Kendall
1945, The treatment of ties in ranking problems, Biometrika 33).
"""

import math
from collections.abc import Sequence
from itertools import combinations

from edgetop.comparison.figures import FIGURES, TOTAL_TIME, Figure
from edgetop.comparison.ratios import ratio
from edgetop.comparison.sample import Group, Sample
from edgetop.frozen import frozen

MOST_MODELS = 100  # each pair is compared on both machines


@frozen
class PairOrder:
    """The order of two models by one figure on each of two machines.

    An order is -1 if the figure of the model `first` is lower, 1 if it is higher, and 0 if the two cannot be told
    apart.
    """

    first: str
    second: str
    here: int
    there: int


@frozen
class Order:
    """The order of all models by one figure on two machines."""

    pairs: tuple[PairOrder, ...]

    @property
    def told_apart(self) -> tuple[PairOrder, ...]:
        """The pairs of models whose order is clear on both machines."""
        return tuple(pair for pair in self.pairs if pair.here and pair.there)

    @property
    def ties(self) -> tuple[PairOrder, ...]:
        """The pairs of models whose order is unclear on at least one machine."""
        return tuple(pair for pair in self.pairs if not (pair.here and pair.there))

    @property
    def tau_b(self) -> float | None:
        """Kendall's tau-b, from -1 to 1, or None if on one machine the order of all pairs is unclear."""
        untied = sum(abs(pair.here) for pair in self.pairs) * sum(abs(pair.there) for pair in self.pairs)
        return sum(pair.here * pair.there for pair in self.pairs) / math.sqrt(untied) if untied else None


def order_of(models: Sequence[tuple[str, Sequence[Sample], Sequence[Sample]]], key: str) -> Order | None:
    """Return the order of models by the figure `key`, such as `p50_ms`, or None for more than `MOST_MODELS` models.

    Each model has its name, its sessions on the first machine, and its sessions on the second.
    """
    if len(models) > MOST_MODELS:
        return None
    figure = next(each for each in (TOTAL_TIME, *FIGURES) if each.key == key)
    return Order(
        tuple(
            PairOrder(first, second, _sign(here, other_here, figure), _sign(there, other_there, figure))
            for (first, here, there), (second, other_here, other_there) in combinations(models, 2)
        )
    )


def _sign(first: Sequence[Sample], second: Sequence[Sample], figure: Figure) -> int:
    """Return 1 if the figure is higher for `first` than for `second`, -1 if lower, 0 if they cannot be told apart."""
    found = ratio(Group("", tuple(second)), Group("", tuple(first)), figure)
    if found.verdict in ("same", "unknown") or found.value is None:
        return 0
    return 1 if found.value > 1 else -1
