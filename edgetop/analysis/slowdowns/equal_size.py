"""Latency at equal size of the inputs, from which slowdowns and drift are judged if the sizes differ.

A model takes longer for larger inputs, so the median of a second also depends on which inputs came in it. Sampled calls
have their size (`session.sized_calls`). The usual time of each size is learned from the first calls of that size.
Between the sizes that are known, it follows a straight line of the logarithms of time and size, so sizes that never
repeat can be compared too. The latency of a second, compared with the usual, is the median over its sampled calls of
known size. It is converted to the size that came first.

A size that is new is learned at the speed of the second in which it comes, or of the last second whose speed is known.
So growth of the inputs is never a slowdown, and what is learned in a slow time is not taken for usual.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.levels import ENOUGH
from edgetop.analysis.slowdowns.serialization import require
from edgetop.session.manifest import Manifest
from edgetop.session.records import Readings, of_sensors
from edgetop.session.seconds import NS, SECOND
from edgetop.session.sized_calls import sensors_of

# Sizes within this many steps of an octave are learned together. Choice: within a step, a time that grows with the
# size changes by 4 %, half of the least slowdown. Larger: each size is learned from too few calls; smaller: growth
# within a step looks like a slowdown.
STEPS = 16
# Number of calls from which the usual time of a size is learned. Choice: two outliers do not move the median of five.
# Larger: sizes that are rare are never compared; smaller: noise becomes usual.
OWN = 5
# Largest factor between two learned sizes between which the line holds. Choice: an image of twice the side. Larger: a
# curve that is no line looks like a slowdown; smaller: sizes that never repeat are not compared.
REACH = 4.0
LARGEST = 2.0**40  # A program may report any number.
MOST_MS = 1e9
LARGEST_LOG = 100.0  # Logarithms of sizes and of times in ns are below it.
LATEST_S = 600  # Number of seconds whose converted rows are stored.
RECENT_S = 10  # Number of seconds that `recent_p50_ns` covers.
HELD_S = 64  # Seconds for which sampled calls are stored after they were judged.
MOST_HELD_S = 8_192  # Most seconds of sampled calls that are stored.
_TIMES = ("sum_ns", "min_ns", "max_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns", "jitter_sum_ns")
_QUANTILES = ("min_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns", "max_ns")

Rows = npt.NDArray[np.void]
Floats = npt.NDArray[np.float64]
Pairs = tuple[Floats, Floats]  # logarithms of sizes in elements and of latencies in ns


class SizedTimes:
    """The sampled calls of a stream, by second."""

    def __init__(self) -> None:
        self._places: tuple[int, int] | None = None  # of the sensors of the size and of the latency
        self._of_second: dict[int, list[Pairs]] = {}

    @property
    def is_known(self) -> bool:
        """Whether the stream has sampled calls."""
        return self._places is not None

    def register(self, manifest: Manifest, number: int) -> None:
        """Use the sensors of the stream `number`."""
        places = {info.id: place for place, info in enumerate(manifest.sensors)}
        size, took = sensors_of(number)
        self._places = (places[size], places[took]) if size in places and took in places else None

    def fold(self, readings: Readings) -> None:
        if self._places is None or not len(readings):
            return
        size, took = (of_sensors(readings, [place]) for place in self._places)
        times, of_size, of_call = np.intersect1d(size["t_ns"], took["t_ns"], return_indices=True)
        elements, latency_ms = size["value"][of_size], took["value"][of_call]
        known = (elements >= 1) & (elements <= LARGEST) & (latency_ms > 0) & (latency_ms < MOST_MS)
        second = times[known] // NS
        log_size, log_ns = np.log(elements[known]), np.log(latency_ms[known] * 1e6)
        for one in np.unique(second).tolist():
            if len(self._of_second) < MOST_HELD_S or one in self._of_second:
                inside = second == one
                self._of_second.setdefault(one, []).append((log_size[inside], log_ns[inside]))

    def at(self, second: int) -> Pairs | None:
        """Return the sampled calls of a second of the session, or None if there are none."""
        found = self._of_second.get(second)
        if not found:
            return None
        return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])

    def forget(self, until_s: int) -> None:
        """Forget the calls from before `until_s`, which were judged."""
        for second in [one for one in self._of_second if one < until_s - HELD_S]:
            del self._of_second[second]


@dataclass(slots=True)
class EqualSize:
    """The times of each second, converted to the size that came first."""

    first: int | None = None  # Step of the size that came first; None until a size is known.
    # By step: of its first OWN calls, the logarithms of the size and of the time in ns, at the usual speed.
    learned: dict[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    # The sizes whose usual time is known, ascending, and these times, as logarithms; None without any.
    known: Pairs | None = None
    shift: float = 0.0  # Logarithm of the last known speed, compared with the usual: above 0 if slower.
    rows: Rows = field(default_factory=lambda: np.empty(0, SECOND))  # Converted rows of the last LATEST_S seconds.

    def judged(self, rows: Rows, sized: SizedTimes) -> Rows:
        """Return these rows at equal size. As long as all inputs have one size, the result is `rows`.

        A second without a call of known size gets no inference.
        """
        if not sized.is_known or not len(rows):
            return rows
        rows = rows.copy()
        for place in np.flatnonzero(rows["count"]).tolist():
            row = rows[place : place + 1]
            self._convert(row, sized.at(int(row["t_ns"][0]) // NS))
        if len(self.learned) > 1:
            self.rows = np.concatenate([self.rows, rows])[-LATEST_S:]
        return rows

    def _convert(self, row: Rows, pairs: Pairs | None) -> None:
        median = math.log(max(1, int(row["p50_ns"][0])))
        known = self.known
        if pairs is None:
            if len(self.learned) > 1:
                row["count"] = 0
            elif known is not None:  # One size so far, so the row is of that size.
                self.shift = median - float(known[1][0])
            return
        log_size, log_ns = pairs
        usual = _usual(known, log_size)
        is_known = ~np.isnan(usual)
        if is_known.any():
            self.shift = float(np.median((log_ns - usual)[is_known]))
        self._learn(log_size, log_ns - self.shift)
        if len(self.learned) < 2:
            return
        if not is_known.any():
            row["count"] = 0
            return
        assert self.first is not None
        _set_median(row, self._middle(self.first)[1] + self.shift)

    def know(self) -> None:
        """Update `known` after a change of `learned`."""
        known = sorted(self._middle(step) for step, own in self.learned.items() if len(own) >= OWN)
        self.known = (np.array([size for size, _ in known]), np.array([time for _, time in known])) if known else None

    def _middle(self, step: int) -> tuple[float, float]:
        own = np.array(self.learned[step])
        return float(own[:, 0].mean()), float(np.median(own[:, 1]))

    def _learn(self, log_size: Floats, usual_ns: Floats) -> None:
        is_new = False
        for size, time in zip(log_size.tolist(), usual_ns.tolist(), strict=True):
            step = _step(size)
            self.first = step if self.first is None else self.first
            own = self.learned.get(step, ())
            if len(own) < OWN:
                self.learned[step] = (*own, (size, time))
                is_new |= len(own) + 1 == OWN
        if is_new:
            self.know()


def _step(log_size: float) -> int:
    return round(log_size / math.log(2) * STEPS)


def _usual(known: Pairs | None, log_size: Floats) -> Floats:
    """Return the logarithm of the usual time at each size, NaN if unknown.

    It is known within a step of a known size, and between two known sizes that are not too far from each other.
    `known`: ascending sizes with their times.
    """
    if known is None:
        return np.full(len(log_size), np.nan)
    sizes, times = known
    above = np.clip(np.searchsorted(sizes, log_size), 0, len(sizes) - 1)
    below = np.maximum(above - (log_size < sizes[above]), 0)
    step = math.log(2) / STEPS
    is_near = np.minimum(np.abs(log_size - sizes[below]), np.abs(log_size - sizes[above])) <= step
    is_between = (sizes[below] <= log_size) & (log_size <= sizes[above])
    is_between &= sizes[above] - sizes[below] <= math.log(REACH)
    return np.where(is_near | is_between, np.interp(log_size, sizes, times), np.nan)


def scale(row: Rows, factor: float) -> None:
    """Multiply all times of a row."""
    for name in _TIMES:
        row[name] = np.rint(row[name] * factor).astype(np.int64)
    row["m2_ns2"] *= factor * factor


def _set_median(row: Rows, log_ns: float) -> None:
    """Change the times of a row so that its median has this logarithm, in ns."""
    median_ns = math.exp(log_ns)
    scale(row, median_ns / max(1, int(row["p50_ns"][0])))
    if row["count"][0] < ENOUGH:  # The single latencies follow from these figures, and are of other sizes.
        row["sum_ns"], row["m2_ns2"] = round(median_ns) * int(row["count"][0]), 0
        for name in _QUANTILES:
            row[name] = round(median_ns)


def recent_p50_ns(rows: Rows, until_ns: int) -> float | None:
    """Return the median of the last RECENT_S seconds of these rows in ns, or None if nothing was measured in them."""
    rows = rows[(rows["t_ns"] > until_ns - RECENT_S * NS) & (rows["count"] > 0)]
    if not len(rows):
        return None
    order = np.argsort(rows["p50_ns"])
    share = np.cumsum(rows["count"][order])
    return float(rows["p50_ns"][order][int(np.searchsorted(share, share[-1] / 2))])


def export(equal: EqualSize) -> list[list[float]]:
    """Return what was learned, for a viewer elsewhere: for each step the sizes and times of its calls, in turn.

    The step that came first is the first one.
    """
    steps = sorted(equal.learned.items(), key=lambda pair: pair[0] != equal.first)
    return [[number for pair in own for number in pair] for _, own in steps]


def imported(steps: list[list[float]], shift: float) -> EqualSize:
    """Return the judgement of sizes from what `export` returned. `shift`: the last known speed.

    Raises ValueError if it is impossible.
    """
    equal = EqualSize(shift=shift)
    for numbers in steps:
        require(0 < len(numbers) <= 2 * OWN and len(numbers) % 2 == 0)
        require(all(0 <= number <= LARGEST_LOG for number in numbers))
        own = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        step = _step(own[0][0])
        equal.first = step if equal.first is None else equal.first
        equal.learned[step] = own
    equal.know()
    return equal
