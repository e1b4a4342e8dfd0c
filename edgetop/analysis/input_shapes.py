"""The latency of calls, in groups by the size of their inputs: tokens, batch, image size.

If there are many calls in a second, a size is recorded for only some of them. So the groups together have fewer calls
than were made. In older recordings, a size is recorded only if it differs from the size of the previous call.
"""

import math

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.signals import INPUTS_GREW
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.distinct import distinct
from edgetop.session.records import Readings, of_sensors
from edgetop.session.sized_calls import sensors_of

# Number of rows in which the sizes from one power of two to the next are shown. Choice: a row then joins sizes that
# differ by up to 19 %. Larger: more rows than anybody reads; smaller: a row joins sizes whose times differ by half.
BINS_PER_OCTAVE = 4
QUANTILES = (0.5, 0.99)
LARGEST = 2.0**32  # A program may report any number.
MOST_MS = 1e9

Floats = npt.NDArray[np.float64]


@frozen
class ShapeView:
    """The latency of the calls whose inputs have about the same size."""

    elements: tuple[int, int]  # The least and the largest number of elements.
    count: int
    p50_ms: float
    p99_ms: float


@frozen
class InputSizes:
    """The mean number of elements in the inputs of a stream: in the burst (the first steady 30 s), and later."""

    burst: float
    later: float

    @property
    def differ(self) -> bool:
        """Whether the two sizes differ so much that the latencies in the burst and afterwards cannot be compared."""
        return abs(self.later / self.burst - 1) > INPUTS_GREW


class _Bin:
    def __init__(self) -> None:
        self.counts = np.zeros(histogram.SIZE, np.int64)
        self.least, self.most = math.inf, 0.0

    def add(self, elements: Floats, latency_ms: Floats) -> None:
        self.counts += histogram.count_buckets((latency_ms * 1e6).astype(np.int64))
        self.least, self.most = min(self.least, float(elements.min())), max(self.most, float(elements.max()))

    def view(self) -> ShapeView:
        p50_ns, p99_ns = histogram.percentiles(self.counts, QUANTILES, 0, 2**62)
        sizes = int(self.least), int(self.most)
        return ShapeView(sizes, int(self.counts.sum()), round(p50_ns / 1e6, 6), round(p99_ns / 1e6, 6))


class InputShapes:
    """Groups calls by the size of their inputs, and measures the latency of each group."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int]] = {}  # Of the size and of the latency, by stream.
        self._bins: dict[int, dict[int, _Bin]] = {}  # By stream and logarithm of the size.

    def fold(self, batch: Batch) -> None:
        if batch.manifest is not None:
            place = {info.id: place for place, info in enumerate(batch.manifest.sensors)}
            # Older recordings have only calls whose shape had just changed.
            older = ((n, (f"input/{n}-elements", f"call/{n}-reshaped")) for n in range(256)) if place else ()
            pairs = (*older, *((n, sensors_of(n)) for n in range(256))) if place else ()
            self._places = {
                n: (place[size], place[took]) for n, (size, took) in pairs if size in place and took in place
            }
        if not self._places:
            return
        readings = of_sensors(batch.readings, [one for pair in self._places.values() for one in pair])
        for number, (size, took) in self._places.items() if len(readings) else ():
            self._add(number, readings[readings["sensor"] == size], readings[readings["sensor"] == took])

    def _add(self, number: int, sizes: Readings, calls: Readings) -> None:
        """Add calls of one stream. A size and a latency with the same time belong to one call.

        `number`: the stream's number. `sizes`: readings of the input sizes. `calls`: readings of the latencies. Calls
        without a size or without a latency are left out.
        """
        _, of_size, of_call = np.intersect1d(sizes["t_ns"], calls["t_ns"], return_indices=True)
        elements, latency_ms = sizes["value"][of_size], calls["value"][of_call]
        known = (elements >= 1) & (elements <= LARGEST) & (latency_ms >= 0) & (latency_ms < MOST_MS)
        elements, latency_ms = elements[known].astype(np.float64), latency_ms[known].astype(np.float64)
        octave = np.floor(np.log2(elements) * BINS_PER_OCTAVE).astype(np.int64)
        bins = self._bins.setdefault(number, {})
        for one in distinct(octave).tolist():
            bins.setdefault(one, _Bin()).add(elements[octave == one], latency_ms[octave == one])

    def view(self, number: int) -> tuple[ShapeView, ...] | None:
        """Return the latency for each group of input sizes, the smallest size first.

        `number`: the stream's number. The result is None if the sizes are unknown, or if all inputs have the same size.
        """
        bins = self._bins.get(number, {})
        sizes = [bound for one in bins.values() for bound in (one.least, one.most)]
        if len(set(sizes)) < 2:
            return None
        return tuple(bins[one].view() for one in sorted(bins))
