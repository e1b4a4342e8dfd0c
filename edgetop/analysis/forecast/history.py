"""What sensors read, in sums over blocks of time: the last two minutes in seconds, the last two hours in minutes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.session.manifest import SensorInfo
from edgetop.session.records import Readings, Stretches, middles_ns
from edgetop.session.seconds import NS

BLOCKS = 128  # of each width
WIDTHS_S = (1, 4, 16, 64)
MOST_SENSORS = 65_536  # that a reading can name
MILLI = 1_000
MOST = 2.0**40  # of what is summed: no sum of a block overflows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretch:
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
        values = _thousandths(readings["value"])
        return self._add(readings["sensor"], readings["t_ns"], values, np.ones_like(values), WIDTHS_S)

    def add_stretches(self, stretches: Stretches) -> int | None:
        """The same of a past that came in stretches: to the blocks that are as long."""
        longest_s = int((stretches["until_ns"] - stretches["t_ns"]).max()) // NS if len(stretches) else 0
        widths = [width_s for width_s in WIDTHS_S if width_s > longest_s]
        count = stretches["count"].astype(np.int64)
        values = _thousandths(stretches["mean"]) * count
        return self._add(stretches["sensor"], middles_ns(stretches), values, count, widths)

    def _add(self, sensor: Ints, t_ns: Ints, values: Ints, count: Ints, widths: Sequence[int]) -> int | None:
        """`values`: in thousandths, each the sum of so many."""
        row = self._row_of[sensor]
        wanted = (row >= 0) & (t_ns >= 0)
        if not wanted.any():
            return None
        row, t_ns, values, count = row[wanted], t_ns[wanted].astype(np.int64), values[wanted], count[wanted]
        second = t_ns // NS
        newest = max(self.newest_s, int(second.max()))
        for level, width_s in enumerate(WIDTHS_S):
            block, last = second // width_s, newest // width_s
            known = self.newest_s // width_s
            self._sums[level][:, np.arange(max(known + 1, last - BLOCKS + 1), last + 1) % BLOCKS] = 0
            fresh = (block > last - BLOCKS) & (width_s in widths)
            within_ms = (t_ns - block * width_s * NS) // 1_000_000
            rows = np.column_stack([values, within_ms * count, count])
            np.add.at(self._sums[level], (row[fresh], block[fresh] % BLOCKS), rows[fresh])
        self.newest_s = newest
        return int(second.min())

    def stretch(self, level: int, from_s: float, until_s: int) -> Stretch:
        """The whole blocks of that width within this time; as many as there are."""
        width_s = WIDTHS_S[level]
        oldest = max(0, self.newest_s // width_s - BLOCKS + 1)
        end = min(until_s // width_s, self.newest_s // width_s + 1)
        first = min(max(oldest, -int(-from_s // width_s)), end)
        number = np.arange(first, end)
        value, within_ms, count = np.moveaxis(self._sums[level][:, number % BLOCKS], -1, 0)
        with np.errstate(invalid="ignore"):
            mean, offset = value / count / MILLI, within_ms / count / 1_000
        return Stretch(width_s, first, mean, number * width_s + offset, count)


def _thousandths(values: Floats) -> Ints:
    whole: Ints = np.rint(np.clip(values, -MOST, MOST) * MILLI).astype(np.int64)
    return whole
