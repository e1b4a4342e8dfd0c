"""One table of a recording by time: which of its rows there are at a moment, without reading the others."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Times = Callable[[Any], npt.NDArray[np.int64]]
Place = tuple[int, int]  # the number of a piece, and of a row in it

START: Place = (0, 0)


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of a table, read when they are wanted. What cannot be read of them is left out."""

    first_ns: int  # the earliest time in it
    last_ns: int
    rows: int  # at most
    read: Callable[[], Any]


class TimedTable:
    """The rows of one table, in the order in which they were made."""

    def __init__(self, pieces: Sequence[Piece], times: Times, kept_rows: int) -> None:
        """`times`: of some rows, when each became known. `kept_rows`: how many may stay in memory."""
        self._pieces = pieces
        self._times = times
        self._firsts = np.maximum.accumulate([piece.first_ns for piece in pieces] or [0]).tolist()
        self._kept_rows = kept_rows
        self._kept: dict[int, Any] = {}  # the one used last at the end

    @property
    def end(self) -> Place:
        """Behind the last row."""
        return len(self._pieces), 0

    @property
    def last_ns(self) -> int:
        """The latest time that any row has."""
        return max((piece.last_ns for piece in self._pieces), default=0)

    def place(self, t_ns: int) -> Place:
        """Behind the last row that had come by then; one that came late holds up those after it."""
        number = bisect_right(self._firsts, t_ns) - 1
        while 0 <= number < len(self._pieces):
            times = np.maximum.accumulate(self._times(self.read(number)))
            come = int(np.searchsorted(times, t_ns, side="right"))
            if come:
                return number, come
            number -= 1
        return START

    def begin(self, t_ns: int) -> Place:
        """Before every row of that time, and a little earlier."""
        return max(bisect_right(self._firsts, t_ns) - 1, 0), 0

    def next_ns(self, place: Place) -> int | None:
        """The least time that the row there may have; None behind the last one."""
        number, row = place
        if number >= len(self._pieces):
            return None
        rows = self.read(number)
        if row < len(rows):
            return int(rows["t_ns"][row])
        return self._firsts[number + 1] if number + 1 < len(self._pieces) else None

    def between(self, begin: Place, end: Place) -> Iterator[Any]:
        """The rows from one place up to another, in pieces."""
        for number in range(begin[0], min(end[0] + (end[1] > 0), len(self._pieces))):
            rows = self.read(number)
            rows = rows[begin[1] if number == begin[0] else 0 : end[1] if number == end[0] else len(rows)]
            if len(rows):
                yield rows

    def joined(self, begin: Place, end: Place, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """The same in one array, without a second copy of all of them on the way."""
        most = sum(piece.rows for piece in self._pieces[begin[0] : end[0] + 1])
        whole, filled = np.empty(most, dtype), 0
        for rows in self.between(begin, end):
            whole[filled : filled + len(rows)] = rows
            filled += len(rows)
        return whole[:filled]

    def read(self, number: int) -> Any:
        """A piece; those used last stay in memory."""
        rows = self._kept.pop(number, None)
        if rows is None:
            rows = self._pieces[number].read()
        self._kept[number] = rows
        while len(self._kept) > 1 and sum(self._pieces[kept].rows for kept in self._kept) > self._kept_rows:
            del self._kept[next(iter(self._kept))]
        return rows
