"""The seconds of a recording by time: all their figures in memory, their histograms only of some.

A histogram is a thousand bytes and all else of a second a hundred. No view looks at a single
second's histogram once it is older than the longest window, so older ones are added up, SUMMED_S
of them each: what an analysis makes of them is the same to the last bit.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from edgetop.recording.pieces import Piece
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate, summed

KEPT_APART_S = 900  # more than the longest window
# Seconds of one number when divided by this. `analysis.precision` cuts a session that is longer than KEPT_APART_S into
# 64 blocks at most, each twice as long as they were before there were too many: a block holds such sums whole.
SUMMED_S = 16
CACHED_PIECES = 3


class SecondsTable:
    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Reads the whole table once."""
        self._pieces = pieces
        self._after_ns: list[int] = []  # of each piece, where the seconds before it end
        self._starts: list[int] = []  # of each piece, how many rows there are before it
        self._sums: list[Seconds] = []  # of each piece, its rows with their histograms added up
        self._read = lru_cache(CACHED_PIECES)(self._read_piece)
        after_ns = start = 0
        for number in range(len(pieces)):
            self._after_ns.append(after_ns)
            self._starts.append(start)
            seconds = self._read_piece(number)
            self._sums.append(summed(seconds, SUMMED_S))
            start += len(seconds)
            after_ns = int(seconds.rows["t_ns"][-1]) + NS if len(seconds) else after_ns
        whole = concatenate(self._sums)
        self._ends_ns: npt.NDArray[np.int64] = whole.rows["t_ns"] + NS
        self._held = np.cumsum(whole.rows["count"].astype(np.int64) + whole.rows["errors"])

    def __len__(self) -> int:
        return len(self._ends_ns)

    @property
    def stops_ns(self) -> tuple[int, ...]:
        """Moments at which whole pieces are known: half a second later, when what still ran then has mostly ended."""
        return tuple(sorted({after_ns + NS // 2 for after_ns in self._after_ns[1:]}))

    @property
    def last_ns(self) -> int:
        return int(self._ends_ns[-1]) if len(self) else 0

    def row(self, t_ns: int) -> int:
        """How many seconds are over by then."""
        return int(np.searchsorted(self._ends_ns, t_ns, side="right"))

    def begin_of_last(self, inferences: int, end: int) -> int:
        """The start in ns of the last of the first `end` seconds from which on they hold so many; 0: all hold fewer."""
        if not end or self._held[end - 1] <= inferences:
            return 0
        first = int(np.searchsorted(self._held[:end], self._held[end - 1] - inferences, side="right"))
        return int(self._ends_ns[first]) - NS

    def between(self, begin: int, end: int) -> Seconds:
        """Rows with their own histograms."""
        return concatenate(list(self._slices(begin, end)))

    def until(self, end: int, begin: int = 0) -> Seconds:
        """The rows from `begin` up to `end`; those of the last KEPT_APART_S, at least, with their own histograms."""
        whole = [
            number for number, start in enumerate(self._starts)
            if start >= begin and start + len(self._sums[number]) <= end - KEPT_APART_S
        ]  # fmt: skip
        if not whole:
            return self.between(begin, end)
        first, last = whole[0], whole[-1]
        joined = self._sums[first : last + 1]
        return concatenate(
            [self.between(begin, self._starts[first]), *joined, self.between(self._starts[last + 1], end)]
        )

    def _slices(self, begin: int, end: int) -> Iterator[Seconds]:
        for number, start in enumerate(self._starts):
            length = len(self._sums[number])
            if start < end and start + length > begin:
                place = np.arange(start, start + length)
                yield self._read(number).where((place >= begin) & (place < end))

    def _read_piece(self, number: int) -> Seconds:
        """Without rows that are not later than all before them: no analysis counts those."""
        seconds: Seconds = self._pieces[number].read()
        begins = seconds.rows["t_ns"]
        ends = np.concatenate([[self._after_ns[number]], begins[:-1] + NS])
        return seconds.where(begins >= np.maximum.accumulate(ends)) if len(seconds) else NO_SECONDS
