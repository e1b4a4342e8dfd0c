"""Reduces a long power trace to what is needed to align it: coarse means of all of it, and some windows of fine points.

The memory that this takes depends neither on the length of the trace nor on the pauses between inferences.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.session.distinct import distinct
from edgetop.session.seconds import NS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Phases of an inference, and one for the time between. With fewer, the edges of the waveform fall between them.
PHASES = 96
# Number of inferences in a window of a power trace from which an offset is searched. Choice: the noise of a phase's
# power falls to less than a quarter. Larger: short recordings cannot be aligned; smaller: noise decides.
LEAST_IN_WINDOW = 20
# Points of a window in an inference: two in each phase. A window has WINDOW_INFERENCES inferences.
POINTS, WINDOW_INFERENCES = 2 * PHASES, 150
MOST_WINDOWS, MOST_BINS = 12, 1 << 19
# Most points of a window, about 2 MB. With long pauses between short inferences, a window has fewer inferences first,
# and then coarser points.
MOST_POINTS = 1 << 17
# Number of windows into which a short session is cut. Choice: with fewer, nothing shows that the windows agree. Larger:
# windows of short sessions have too few inferences; smaller: one window decides.
LEAST_WINDOWS = 4
LEAST_BIN_S = 1e-3


@frozen
class Window:
    """A part of a power trace in full resolution: times of the instrument's log in s, and power in W."""

    t_s: Floats
    watts: Floats


@frozen
class Overview:
    """A whole power trace as mean powers in W over bins of equal length. A bin without samples is NaN."""

    begin_s: float  # Time of the log at which the first bin begins.
    bin_s: float
    watts: Floats


class TraceOverview:
    """Makes an overview of a long power trace, and some windows of full resolution, in a limited amount of memory.

    Pass the pieces of the trace in the order of time.
    """

    def __init__(self, starts: Ints, lengths: Ints, places_s: Sequence[float] = ()) -> None:
        """Begin without samples. `starts` and `lengths`: start and latency of all inferences in ns, in order.

        `places_s`: possible offsets of the session, in s, which convert times of the log to session times. If offsets
        are given, windows are taken only from the parts of the log in which the session then lies.
        """
        latency_s = float(np.median(lengths)) / NS if len(lengths) else 1.0
        period_s = float(starts[-1] - starts[0]) / NS / (len(starts) - 1) if len(starts) > 1 else latency_s
        each_s = max(latency_s, period_s)
        affordable = min(WINDOW_INFERENCES, MOST_POINTS / POINTS * latency_s / each_s)
        self._window_s = each_s * max(min(len(starts) / LEAST_WINDOWS, affordable), LEAST_IN_WINDOW + 2)
        self._step_s = max(latency_s / POINTS, self._window_s / MOST_POINTS)
        self._bin_s, self._begin_s = LEAST_BIN_S, 0.0
        self._sums, self._counts = np.zeros(1024), np.zeros(1024)
        self._is_begun = False
        self._stride = 1  # Every so many windows are kept.
        self._windows: dict[int, list[tuple[Floats, Floats]]] = {}
        self._spans = sorted(span for place_s in places_s for span in self._spans_of(place_s, starts, lengths))

    def _spans_of(self, place_s: float, starts: Ints, lengths: Ints) -> list[tuple[float, float]]:
        """Return the spans of the log from which windows are taken if `place_s` is the session's offset.

        Each span is `(begin, end)`. The spans have even distances: the load begins in the first span, and ends in the
        last. All times are in s.
        """
        first_s, last_s = starts[0] / NS - place_s, (starts[-1] + lengths[-1]) / NS - place_s
        begins = np.linspace(first_s - self._window_s / 4, last_s - self._window_s * 3 / 4, MOST_WINDOWS)
        return [(begin_s, begin_s + self._window_s) for begin_s in begins.tolist()]

    def add(self, t_s: Floats, watts: Floats) -> None:
        if not len(t_s):
            return
        if not self._is_begun:
            self._is_begun, self._begin_s = True, float(t_s[0])
        since_s = t_s - self._begin_s
        while since_s[-1] / self._bin_s >= MOST_BINS:
            self._bin_s *= 2
            even = (np.append(of, np.zeros(len(of) % 2)) for of in (self._sums, self._counts))
            self._sums, self._counts = (of.reshape(-1, 2).sum(axis=1) for of in even)
        places = np.maximum(since_s / self._bin_s, 0).astype(np.int64)
        if places[-1] >= len(self._sums):
            more = np.zeros(max(len(self._sums), int(places[-1]) + 2) & ~1)
            self._sums, self._counts = (np.concatenate([of, more]) for of in (self._sums, self._counts))
        size = len(self._sums)
        self._sums += np.bincount(places, watts, size)
        self._counts += np.bincount(places, minlength=size)
        self._keep(since_s, t_s, watts)

    def _keep(self, since_s: Floats, t_s: Floats, watts: Floats) -> None:
        if self._spans:
            for number, span in enumerate(self._spans):
                begin, end = np.searchsorted(t_s, span)
                if begin < end:
                    self._keep_samples(number, since_s[begin:end], t_s[begin:end], watts[begin:end])
            return
        numbers = (since_s / self._window_s).astype(np.int64)
        for number in distinct(numbers).tolist():  # A time in the log may be far from the one before.
            if number % self._stride:
                continue
            chosen = numbers == number
            self._keep_samples(number, since_s[chosen], t_s[chosen], watts[chosen])
        while len(self._windows) > MOST_WINDOWS:
            self._stride *= 2
            self._windows = {at: of for at, of in self._windows.items() if at % self._stride == 0}

    def _keep_samples(self, number: int, since_s: Floats, t_s: Floats, watts: Floats) -> None:
        """Add samples to window `number`. A window stores means, of which POINTS cover the time of an inference."""
        _, begins = np.unique(np.floor(since_s / self._step_s), return_index=True)
        sizes = np.diff(np.append(begins, len(since_s)))
        means = [np.add.reduceat(of, begins) / sizes for of in (t_s, watts)]
        self._windows.setdefault(number, []).append((means[0], means[1]))

    @property
    def mean_w(self) -> float:
        """The mean power in W of all samples; 0 without samples."""
        return float(self._sums.sum() / max(self._counts.sum(), 1))

    @property
    def overview(self) -> Overview:
        used = int(np.flatnonzero(self._counts)[-1]) + 1 if self._counts.any() else 0
        counts = self._counts[:used]
        watts = np.where(counts > 0, self._sums[:used] / np.maximum(counts, 1), np.nan)
        return Overview(self._begin_s, self._bin_s, watts)

    @property
    def windows(self) -> list[Window]:
        joined = (tuple(np.concatenate(of) for of in zip(*parts, strict=True)) for parts in self._windows.values())
        return [Window(t_s, watts) for t_s, watts in joined]
