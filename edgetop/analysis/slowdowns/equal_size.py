"""Compares latencies at equal size of the inputs, to find slowdowns and drift of a model with inputs of many sizes.

A model takes longer for larger inputs, so the median of a second also depends on which inputs came in it. Some calls
are recorded with their size (`session.sized_calls`). The usual time of each size is learned from the first calls of
that size. Between two known sizes, it follows a straight line of the logarithms of time and size, so sizes that never
repeat can be compared too. A second's slowness is the median ratio of its calls to their usual time. Its latencies are
replaced by what they would be at the usual size of the first second.

A new size is learned at the speed of the second in which it comes. If that speed is unknown, the last known speed is
used. So larger inputs never look like a slowdown, and a time learned during a slowdown does not count as usual.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.levels import ENOUGH
from edgetop.analysis.slowdowns.serialization import require
from edgetop.analysis.statistics import MOST_JUDGED
from edgetop.session.distinct import distinct
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
# Beyond all known sizes, those within this part of a step are near them: growth over an octave then adds 2 % at most.
BEYOND = 16
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
    """The recorded calls of one stream with the sizes of their inputs, by second."""

    def __init__(self) -> None:
        self._places: tuple[int, int] | None = None  # of the sensors of the size and of the latency
        self._of_second: dict[int, list[Pairs]] = {}

    @property
    def is_known(self) -> bool:
        """Whether the session records the sizes of this stream's inputs."""
        return self._places is not None

    def register(self, manifest: Manifest, number: int) -> None:
        """Choose the sensors that record the sizes and latencies of the stream `number`.

        The object has no calls if the manifest has no such sensors.
        """
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
        for one in distinct(second).tolist():
            if len(self._of_second) < MOST_HELD_S or one in self._of_second:
                inside = second == one
                self._of_second.setdefault(one, []).append((log_size[inside], log_ns[inside]))

    def at(self, second: int) -> Pairs | None:
        """Return two arrays for the calls of a second: logarithms of the input sizes, and of the latencies in ns.

        The result is None if no call of the second was recorded.
        """
        found = self._of_second.get(second)
        if not found:
            return None
        return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])

    def forget(self, until_s: int) -> None:
        """Forget the calls from more than 64 s before the session second `until_s`."""
        for second in [one for one in self._of_second if one < until_s - HELD_S]:
            del self._of_second[second]


class SizedStreams:
    """The recorded calls of the streams that have not begun, with the sizes of their inputs. A stream is one model.

    edgetop holds back the first inferences of a stream until it knows which of them are the stream's warm-up. Then the
    stream begins. The sensor readings of these calls are not held back, so they are stored here.
    """

    def __init__(self) -> None:
        self._early: dict[int, SizedTimes] = {}  # by number of stream; only streams that have not begun

    def register(self, manifest: Manifest, begun: Collection[int]) -> None:
        """Choose the sensors that record the sizes and latencies of calls, for each stream that has not begun.

        `manifest` has the streams and the sensors. `begun` has the numbers of the streams that have begun.
        """
        streams = manifest.watched.streams if manifest.watched else ()
        for number in range(min(len(streams), MOST_JUDGED)):
            if number not in begun:
                self._early.setdefault(number, SizedTimes()).register(manifest, number)

    def fold(self, readings: Readings) -> None:
        for calls in self._early.values():
            calls.fold(readings)

    def begin(self, number: int) -> SizedTimes:
        """Remove the stream `number` from this object, and return its calls so far.

        From then on, the caller adds later calls to the result itself.
        """
        return self._early.pop(number, None) or SizedTimes()

    def forget(self, until_s: int) -> None:
        """Forget the calls of streams that have not begun, from more than 64 s before the session second `until_s`."""
        for calls in self._early.values():
            calls.forget(until_s)


@dataclass(slots=True)
class EqualSize:
    """Converts the latencies of each second to what they would be at the usual input size of the first second."""

    # Step of the size that most calls had in the first second; None until a size is known. Not that of the first call:
    # with a language model this is the prompt, and each of many tokens after it takes far less.
    first: int | None = None
    # By step: of its first OWN calls, the logarithms of the size and of the time in ns, at the usual speed.
    learned: dict[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    # The sizes whose usual time is known, ascending, and these times, as logarithms; None without any.
    known: Pairs | None = None
    shift: float = 0.0  # Logarithm of the last known speed, compared with the usual: above 0 if slower.
    rows: Rows = field(default_factory=lambda: np.empty(0, SECOND))  # Converted rows of the last LATEST_S seconds.

    def judged(self, rows: Rows, sized: SizedTimes) -> Rows:
        """Return the seconds `rows` with their latencies converted to the usual input size of the first second.

        As long as all inputs have one size, the result is equal to `rows`. A second without a call of known size gets a
        count of 0. `sized` has the calls with their sizes.
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
        """Compute `known` (the usual latency of each input size) anew from `learned` (the first calls of each size)."""
        known = sorted(self._middle(step) for step, own in self.learned.items() if len(own) >= OWN)
        self.known = (np.array([size for size, _ in known]), np.array([time for _, time in known])) if known else None

    def _middle(self, step: int) -> tuple[float, float]:
        own = np.array(self.learned[step])
        return float(own[:, 0].mean()), float(np.median(own[:, 1]))

    def _learn(self, log_size: Floats, usual_ns: Floats) -> None:
        is_new = False
        if self.first is None and len(log_size):
            steps, calls = np.unique([_step(size) for size in log_size.tolist()], return_counts=True)
            self.first = int(steps[np.argmax(calls)])
        for size, time in zip(log_size.tolist(), usual_ns.tolist(), strict=True):
            step = _step(size)
            own = self.learned.get(step, ())
            if len(own) < OWN:
                self.learned[step] = (*own, (size, time))
                is_new |= len(own) + 1 == OWN
        if is_new:
            self.know()


def _step(log_size: float) -> int:
    return round(log_size / math.log(2) * STEPS)


def _usual(known: Pairs | None, log_size: Floats) -> Floats:
    """Return the logarithm of the usual latency in ns for each size in `log_size`; NaN if it is unknown.

    `known` has two arrays of logarithms: the known sizes, ascending, and their latencies. A latency is known at and
    near a known size, and between two known sizes that are at most a factor of 4 apart.
    """
    if known is None:
        return np.full(len(log_size), np.nan)
    sizes, times = known
    above = np.clip(np.searchsorted(sizes, log_size), 0, len(sizes) - 1)
    below = np.maximum(above - (log_size < sizes[above]), 0)
    step = math.log(2) / STEPS
    # Beyond the known sizes, the distance must be small: sizes that grow on and on would look slower with each step.
    is_beyond = (log_size < sizes[0]) | (log_size > sizes[-1])
    distance = np.minimum(np.abs(log_size - sizes[below]), np.abs(log_size - sizes[above]))
    is_near = distance <= np.where(is_beyond, step / BEYOND, step)
    is_between = (sizes[below] <= log_size) & (log_size <= sizes[above])
    is_between &= sizes[above] - sizes[below] <= math.log(REACH)
    return np.where(is_near | is_between, np.interp(log_size, sizes, times), np.nan)


def scale(row: Rows, factor: float) -> None:
    """Multiply all latencies of a row of the seconds table by `factor`, in place."""
    for name in _TIMES:
        row[name] = np.rint(row[name] * factor).astype(np.int64)
    row["m2_ns2"] *= factor * factor


def _set_median(row: Rows, log_ns: float) -> None:
    """Scale all latencies of a row in place, so that the logarithm of its median (in ns) becomes `log_ns`."""
    median_ns = math.exp(log_ns)
    scale(row, median_ns / max(1, int(row["p50_ns"][0])))
    if row["count"][0] < ENOUGH:  # The single latencies follow from these figures, and are of other sizes.
        row["sum_ns"], row["m2_ns2"] = round(median_ns) * int(row["count"][0]), 0
        for name in _QUANTILES:
            row[name] = round(median_ns)


def recent_p50_ns(rows: Rows, until_ns: int) -> float | None:
    """Return the median latency of the last 10 s of the seconds `rows` in ns, or None if they have no inference.

    `until_ns` is the present session time in ns.
    """
    rows = rows[(rows["t_ns"] > until_ns - RECENT_S * NS) & (rows["count"] > 0)]
    if not len(rows):
        return None
    order = np.argsort(rows["p50_ns"])
    share = np.cumsum(rows["count"][order])
    return float(rows["p50_ns"][order][int(np.searchsorted(share, share[-1] / 2))])


def export(equal: EqualSize) -> list[list[float]]:
    """Return what was learned about input sizes, to be sent to a remote viewer.

    The result has a list for each input size: `[size, latency, size, latency ...]`, with the logarithms of the size and
    the latency of each of its calls. The first list is that of the usual size of the first second. The other lists are
    in the order in which their sizes occurred first.
    """
    steps = sorted(equal.learned.items(), key=lambda pair: pair[0] != equal.first)
    return [[number for pair in own for number in pair] for _, own in steps]


def imported(steps: list[list[float]], shift: float) -> EqualSize:
    """Return an object with what was learned about input sizes. `steps` is the result of `export`.

    `shift` is the slowness at the export: the logarithm of (latency / usual latency). Raises ValueError if the values
    are impossible.
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
