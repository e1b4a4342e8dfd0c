"""How well measurements on a desk computer agree with measurements on the device, over several models or programs.

The desk computer was limited, to act like the device. Each figure gets three answers: whether both sides have the same
order (Kendall's tau), which line predicts the device's figure from the desk's, and how far each model is from the line.
"""

import math
from collections.abc import Callable, Sequence

from edgetop.comparison.device_fit import FIGURES, Kind, Line, Pair, identity, line, mean_of, why_no_line
from edgetop.comparison.pair_order import Order, order_of
from edgetop.comparison.sample import Sample
from edgetop.errors import InputError
from edgetop.formatting import rounded
from edgetop.frozen import frozen
from edgetop.session.typed_json import Document

KEYS = ("p50_ms", "p99_ms", "total_time_ms", "rss_peak_mib", "gross_mj", "run_j")
ALL = Kind("", "", "")  # all models are on one line, because the question is whether one side stands for the other
MOST_EXACT = 30  # for more models, the normal approximation of the chance is off by less than a thousandth
COMBINATION = "combination"  # label of the runs of a sweep


@frozen
class Agreement:
    """How well one figure, such as p50, agrees between the desk and the device."""

    key: str  # one of KEYS
    line: Line | None  # None if there are too few models; `refused` says so
    refused: str = ""
    order: Order | None = None  # which pairs of models can be told apart; None without a line, or for too many models

    @property
    def residuals(self) -> tuple[float, ...]:
        """How far each model is from the line, as a share: 0.1 means 10 % above the line's prediction."""
        return tuple(pair.there / self.line.at(pair.here) - 1 for pair in self.line.pairs) if self.line else ()

    @property
    def chance(self) -> float | None:
        """The probability (0 to 1) that unrelated orders agree at least this well by chance; None without a fitted
        line.
        """
        return chance_of(self.line.tau, len(self.line.pairs)) if self.line else None

    def to_json(self) -> Document:
        unit, found = FIGURES[self.key].unit, self.line
        if found is None:
            return {"key": self.key, "unit": unit, "refused": self.refused}
        return {
            "key": self.key, "unit": unit, "count": len(found.pairs), "tau": rounded(found.tau, 6),
            "tau_chance": rounded(self.chance, 6), "slope": rounded(found.slope, 6),
            "factor": rounded(found.factor, 6), "r2": rounded(found.r2, 6),
            "order": self.order and {
                "tau_b": rounded(self.order.tau_b, 6), "pairs": len(self.order.pairs),
                "told_apart": len(self.order.told_apart),
                "ties": [
                    {"models": [pair.first, pair.second], "desk": pair.here, "device": pair.there}
                    for pair in self.order.ties
                ],
            },
            "models": [
                {"name": pair.name, "desk": rounded(pair.here, 6), "device": rounded(pair.there, 6),
                 "line": rounded(found.at(pair.here), 6), "residual": rounded(off, 6),
                 "left_out_error": rounded(out, 6)}
                for pair, off, out in zip(found.pairs, self.residuals, found.left_out, strict=True)
            ],
            "refused": None,
        }  # fmt: skip


@frozen
class Agreements:
    agreements: tuple[Agreement, ...]  # those figures that both sides have
    left_out: tuple[str, ...]  # names of what ran on one side only

    def to_json(self) -> Document:
        return {"figures": [one.to_json() for one in self.agreements], "left_out": list(self.left_out)}


def agreements(desk: Sequence[Sample], device: Sequence[Sample]) -> Agreements:
    """Return how well each figure, such as p50, agrees between desk and device. Figures that one of them lacks are left
    out.

    `desk` and `device` are the sessions of the two sides. Raises InputError if no model or program ran on both.
    """
    sides = _by_identity(desk), _by_identity(device)
    both = [each for each in sides[0] if each in sides[1]]
    if not both:
        raise InputError(
            "nothing ran on both sides", "models are matched by their files, and programs by their commands"
        )
    pairs = [(sides[0][each], sides[1][each]) for each in both]
    found = [one for key in KEYS if (one := _agreement(key, pairs))]
    names = [each for side, other in (sides, sides[::-1]) for each in side if each not in other]
    left_out = tuple(_name(next(side[each] for side in sides if each in side)[0]) for each in names)
    return Agreements(tuple(found), left_out)


def _agreement(key: str, both: Sequence[tuple[list[Sample], list[Sample]]]) -> Agreement | None:
    """Return how well one figure agrees between desk and device, or None if no model has the figure on both.

    `key` is the figure's name, such as `p50_ms`. `both` has each model's sessions at the desk and on the device.
    """
    read: Callable[[Sample], float | None] = FIGURES[key].read
    pairs, models = [], []
    for here, there in both:
        known = [[one for one in side if (read(one) or 0.0) > 0] for side in (here, there)]
        if all(known):
            pairs.append(Pair(_name(here[0]), "", ALL, mean_of(known[0], key), mean_of(known[1], key)))
            models.append((_name(here[0]), known[0], known[1]))
    if not pairs:
        return None
    if refused := why_no_line(pairs):
        return Agreement(key, None, refused)
    return Agreement(key, line(pairs), order=order_of(models, key))


def _by_identity(samples: Sequence[Sample]) -> dict[tuple[object, ...], list[Sample]]:
    """Return sessions grouped by what ran: a model with certain settings, or a command.

    A session whose model has no hash is left out.
    """
    found: dict[tuple[object, ...], list[Sample]] = {}
    for one in samples:
        session = one.session
        if not (what := identity(one)):
            continue
        setting = () if session.watched else (session.engine.threads, session.load.batch or 1, session.load.rate_hz)
        found.setdefault((what, *setting), []).append(one)
    return found


def _name(one: Sample) -> str:
    session = one.session
    return session.labels.get(COMBINATION) or (identity(one) if session.watched else session.model_name)


def chance_of(tau: float, count: int) -> float:
    """Return the probability that `count` models in random order have this Kendall's tau or a larger one.

    Valid for orders without ties. Source: Kendall 1938, A new measure of rank correlation, Biometrika 30.

    >>> round(chance_of(1.0, 3), 4), chance_of(-1.0, 4)
    (0.1667, 1.0)
    """
    counts = [1]
    for size in range(2, min(count, MOST_EXACT) + 1):
        longer = [0] * (len(counts) + size - 1)
        for swapped, number in enumerate(counts):
            for more in range(size):
                longer[swapped + more] += number
        counts = longer
    if count > MOST_EXACT:  # the normal approximation of the same paper
        deviation = math.sqrt(2 * (2 * count + 5) / (9 * count * (count - 1)))
        return 0.5 * math.erfc(tau / deviation / math.sqrt(2))
    most = round((1 - tau) / 2 * (len(counts) - 1))
    return sum(counts[: most + 1]) / math.factorial(count)
