"""What sensors read, in sums over blocks of time: the last two minutes in seconds, the last two hours in minutes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.session.manifest import SensorInfo
from edgetop.session.records import Readings, Stretches, in_pieces, middles_ns
from edgetop.session.seconds import NS

BLOCKS = 128  # of each width
WIDTHS_S = (1, 4, 16, 64)
MOST_SENSORS = 65_536  # that a reading can name
MILLI = 1_000
MOST = 2.0**40  # of what is summed: no sum of a block overflows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ReadingSummary:
    """Blocks of one width. Each column is a block, each row a sensor; NaN where nothing was read."""

    width_s: int
    first: int  # number of the first block: it begins at `first * width_s`
    mean: Floats
    mid_s: Floats  # when that was on average, since the session's origin
    count: Ints


class History:
    """Sums of whole numbers, so that it makes no difference in which order readings come."""

    def __init__(self) -> None:
        self.infos: tuple[SensorInfo, ...] = ()  # of the rows
        self._row_of = np.full(MOST_SENSORS, -1, np.int64)  # by the sensor's place in the manifest; -1: none
        self._sums = np.zeros((len(WIDTHS_S), 0, BLOCKS, 3), np.int64)  # of thousandths, of ms in the block; how many
        self.newest_s = -1

    def know(self, infos: Sequence[SensorInfo], places: Sequence[int]) -> None:
        """The sensors of these places, which are more than before or the same."""
        self._row_of = np.full(MOST_SENSORS, -1, np.int64)
        self._row_of[list(places)] = np.arange(len(places))
        self.infos = tuple(infos[place] for place in places)
        more = np.zeros((len(WIDTHS_S), max(0, len(places) - self._sums.shape[1]), BLOCKS, 3), np.int64)
        self._sums = np.concatenate([self._sums, more], axis=1)

    def add(self, readings: Readings) -> int | None:
        """The oldest second to which something was added; None: nothing was. What is older than a ring is left out."""
        spans = [span for piece in in_pieces(readings) if (span := self._span(piece["sensor"], piece["t_ns"]))]
        if not spans:
            return None
        newest = self._advance(max(newest for _, newest in spans))
        begin_ns = (newest // WIDTHS_S[-1] - BLOCKS + 1) * WIDTHS_S[-1] * NS  # of the oldest block
        for piece in in_pieces(readings):
            fresh = piece[piece["t_ns"] >= max(begin_ns, 0)]
            if len(fresh):
                values = _thousandths(fresh["value"])
                self._add(fresh["sensor"], fresh["t_ns"], values, np.ones_like(values), WIDTHS_S)
        return min(oldest for oldest, _ in spans)

    def add_stretches(self, stretches: Stretches) -> int | None:
        """The same of a past that came in stretches: to the blocks that are as long."""
        longest_s = int((stretches["until_ns"] - stretches["t_ns"]).max()) // NS if len(stretches) else 0
        widths = [width_s for width_s in WIDTHS_S if width_s > longest_s]
        count = stretches["count"].astype(np.int64)
        values = _thousandths(stretches["mean"]) * count
        span = self._span(stretches["sensor"], middles_ns(stretches))
        if span is None:
            return None
        self._advance(span[1])
        self._add(stretches["sensor"], middles_ns(stretches), values, count, widths)
        return span[0]

    def _span(self, sensor: Ints, t_ns: Ints) -> tuple[int, int] | None:
        """The oldest and the newest second of what is wanted."""
        wanted = t_ns[(self._row_of.take(sensor) >= 0) & (t_ns >= 0)]
        return (int(wanted.min()) // NS, int(wanted.max()) // NS) if len(wanted) else None

    def _advance(self, second: int) -> int:
        """Make room for blocks up to that second; the newest one now."""
        newest = max(self.newest_s, second)
        for sums, width_s in zip(self._sums, WIDTHS_S, strict=True):
            known, last = self.newest_s // width_s, newest // width_s
            sums[:, np.arange(max(known + 1, last - BLOCKS + 1), last + 1) % BLOCKS] = 0
        self.newest_s = newest
        return newest

    def _add(self, sensor: Ints, t_ns: Ints, values: Ints, count: Ints, widths: Sequence[int]) -> None:
        """`values`: in thousandths, each the sum of so many. What is too old for the blocks of a width is left out."""
        row, second = self._row_of.take(sensor), t_ns // NS
        wanted = (row >= 0) & (t_ns >= 0)
        for sums, width_s in zip(self._sums, WIDTHS_S, strict=True):
            if width_s not in widths:
                continue
            block = second // width_s
            fresh = np.flatnonzero(wanted & (block > self.newest_s // width_s - BLOCKS))
            block = block[fresh]
            within_ms = (t_ns[fresh] - block * width_s * NS) // 1_000_000
            rows = np.column_stack([values[fresh], within_ms * count[fresh], count[fresh]])
            np.add.at(sums, (row[fresh], block % BLOCKS), rows)

    def stretch(self, level: int, from_s: float, until_s: int) -> ReadingSummary:
        """The whole blocks of that width within this time; as many as there are."""
        width_s = WIDTHS_S[level]
        oldest = max(0, self.newest_s // width_s - BLOCKS + 1)
        end = min(until_s // width_s, self.newest_s // width_s + 1)
        first = min(max(oldest, -int(-from_s // width_s)), end)
        number = np.arange(first, end)
        value, within_ms, count = np.moveaxis(self._sums[level][:, number % BLOCKS], -1, 0)
        with np.errstate(invalid="ignore"):
            mean, offset = value / count / MILLI, within_ms / count / 1_000
        return ReadingSummary(width_s, first, mean, number * width_s + offset, count)


def _thousandths(values: Floats) -> Ints:
    whole: Ints = np.rint(np.clip(values, -MOST, MOST) * MILLI).astype(np.int64)
    return whole
