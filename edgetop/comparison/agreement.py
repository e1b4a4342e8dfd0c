"""The agreement of two sides: models or programs under limits at the desk, and the same ones on the device.

Both sides ran the same models, or the same commands. There are three answers for each figure: whether the order agrees
(Kendall's tau), which line leads from one side to the other, and how far each model is from the line.
"""

import math
from collections.abc import Callable, Sequence

from edgetop.comparison.device_fit import FIGURES, Kind, Line, Pair, identity, line, mean_of, why_no_line
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
    """The agreement of one figure between two sides."""

    key: str  # one of KEYS
    line: Line | None  # None if there are too few models; `refused` says so
    refused: str = ""

    @property
    def residuals(self) -> tuple[float, ...]:
        """The residual of each pair: the figure on the device divided by the line's figure, less 1."""
        return tuple(pair.there / self.line.at(pair.here) - 1 for pair in self.line.pairs) if self.line else ()

    @property
    def chance(self) -> float | None:
        """The probability of a tau at least as large if the two orders have nothing to do with each other."""
        return chance_of(self.line.tau, len(self.line.pairs)) if self.line else None

    def to_json(self) -> Document:
        unit, found = FIGURES[self.key].unit, self.line
        if found is None:
            return {"key": self.key, "unit": unit, "refused": self.refused}
        return {
            "key": self.key, "unit": unit, "count": len(found.pairs), "tau": rounded(found.tau, 6),
            "tau_chance": rounded(self.chance, 6), "slope": rounded(found.slope, 6),
            "factor": rounded(found.factor, 6), "r2": rounded(found.r2, 6),
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
    """Return the agreement of each figure that both sides have. Raises InputError if nothing ran on both."""
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
    """Return the agreement of a figure, or None if no pair has the figure on both sides.

    `key`: of the figure. `both`: the sessions of each model, at the desk and on the device. Sessions without the figure
    are left out.
    """
    read: Callable[[Sample], float | None] = FIGURES[key].read
    pairs = []
    for here, there in both:
        known = [[one for one in side if (read(one) or 0.0) > 0] for side in (here, there)]
        if all(known):
            pairs.append(Pair(_name(here[0]), "", ALL, mean_of(known[0], key), mean_of(known[1], key)))
    if not pairs:
        return None
    if refused := why_no_line(pairs):
        return Agreement(key, None, refused)
    return Agreement(key, line(pairs))


def _by_identity(samples: Sequence[Sample]) -> dict[tuple[object, ...], list[Sample]]:
    """Return the sessions of each model with one setting, or of each command. Sessions without a hash are left out."""
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
    """Return the probability of this tau or a larger one by chance, for `count` models without ties.

    Kendall 1938, A new measure of rank correlation, Biometrika 30: the number of orders with so many pairs swapped.

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
