"""The windows whose medians are judged: a second each, or five inferences where these take longer.

They are made from the rows of seconds alone, which a replay of a day has too. A row with up to four inferences gives
each of them (from least, median, greatest and sum), so a window over several sparse seconds has its exact
median.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgetop.session.seconds import NS, SECOND

ENOUGH = 5  # inferences in a window

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Levels are whole millionths of a neper, so that sums of them are exact in any order.
NEPER = 1_000_000

WINDOW = np.dtype([("begin_s", "<i8"), ("end_s", "<i8"), ("level", "<i8")])
POINT = np.dtype([("second", "<i8"), ("level", "<i8")])  # one inference, or the median of a dense second

Windows = npt.NDArray[np.void]
Points = npt.NDArray[np.void]


@dataclass(slots=True)
class WindowCutter:
    """Makes complete windows of rows. A sparse window is given up if a dense second follows before it is complete."""

    pending: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, SECOND))

    def add(self, rows: npt.NDArray[np.void]) -> tuple[Windows, Points]:
        """Return the windows that these rows complete, and all points in them."""
        rows = rows[rows["count"] > 0]
        if len(rows) and not len(self.pending) and (rows["count"] >= ENOUGH).all():
            windows, points = np.empty(len(rows), WINDOW), np.empty(len(rows), POINT)
            second = rows["t_ns"] // NS
            windows["begin_s"], windows["end_s"] = second, second + 1
            windows["level"] = levels(rows["p50_ns"])
            points["second"], points["level"] = second, windows["level"]
            return windows, points
        rows = np.concatenate([self.pending, rows])
        window, pending_from = _grouped(rows["count"].tolist())
        self.pending = rows[pending_from:]
        is_used = window >= 0
        return _cut(rows[:pending_from][is_used], window[is_used])


def _grouped(counts: list[int]) -> tuple[Ints, int]:
    """Return the window of each row, -1 if given up, and the first row whose window is not complete."""
    window = np.full(len(counts), -1, np.int64)
    number = first = held = 0
    for place, count in enumerate(counts):
        if count >= ENOUGH:
            first, held = place, count
        else:
            held += count
        if held >= ENOUGH:
            window[first : place + 1] = number
            number, first, held = number + 1, place + 1, 0
    return window[:first], first


def _cut(rows: npt.NDArray[np.void], window: Ints) -> tuple[Windows, Points]:
    if not len(rows):
        return np.empty(0, WINDOW), np.empty(0, POINT)
    first = np.flatnonzero(np.diff(window, prepend=-1))
    last = np.append(first[1:], len(rows)) - 1
    windows = np.empty(len(first), WINDOW)
    second = rows["t_ns"] // NS
    windows["begin_s"], windows["end_s"] = second[first], second[last] + 1
    place, latency_ns = known_latencies(rows)
    points = np.empty(len(place), POINT)
    points["second"], points["level"] = second[place], levels(latency_ns)
    order = np.lexsort((points["level"], window[place]))
    begin = np.searchsorted(window[place], np.arange(len(first)))
    size = np.diff(np.append(begin, len(place)))
    windows["level"] = points["level"][order][begin + (size - 1) // 2]
    return windows, points


def known_latencies(rows: npt.NDArray[np.void]) -> tuple[Ints, Ints]:
    """Return the row and the latency in ns of each inference; for a dense second, of its median alone."""
    count, low, high = rows["count"], rows["min_ns"], rows["max_ns"]
    third = rows["sum_ns"] - low - high - rows["p50_ns"]
    has_ends = (count > 1) & (count < ENOUGH)
    is_known = np.stack([has_ends, (count != 2) & (count > 0), count == 4, has_ends])
    latency = np.stack([low, rows["p50_ns"], third, high])
    place = np.broadcast_to(np.arange(len(rows)), latency.shape)
    return place.T[is_known.T], latency.T[is_known.T]


def levels(latency_ns: npt.NDArray[np.int64]) -> Ints:
    """Return the logarithms of latencies in ns, in whole millionths of a neper."""
    return np.asarray(np.rint(np.log(np.maximum(latency_ns, 1)) * NEPER).astype(np.int64))


def median(values: Ints | Floats) -> float:
    """Return the median; `numpy.median` takes ten times as long for the few values of a window."""
    return float(medians(values[np.newaxis])[0])


def medians(rows: Ints | Floats) -> Floats:
    """Return the median of each row."""
    ordered, size = np.sort(rows, axis=1), rows.shape[1]
    return np.asarray((ordered[:, (size - 1) // 2] + ordered[:, size // 2]) / 2, np.float64)
