"""Reading of a recording by time: all data up to a moment, or the data between two moments.

Most figures come from the table with one row per second, so a day-long session opens in a fraction of a second. Only
the last inferences are read individually, to make the figures of short spans exact.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.recording.reader import Recording
from edgetop.recording.rows import MAX_SESSION_NS, Piece, release_memory, times
from edgetop.session.batch import Batch
from edgetop.session.operators import BASELINE_BURSTS, Burst, joined
from edgetop.session.records import INFERENCE, READING, Inferences
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate, summed

Times = Callable[[Any], npt.NDArray[np.int64]]
Place = tuple[int, int]  # the number of a piece, and of a row in it

START: Place = (0, 0)


class TimedTable:
    """One table of a recording, in which rows are found by session time. Rows are read from the disk on request.

    A place in the table is (piece number, row number within the piece), both from 0.
    """

    def __init__(self, pieces: Sequence[Piece], times: Times, cached_rows: int) -> None:
        """Read one table of a recording from its successive `pieces`.

        `times` takes the rows of a piece, and returns the session time in ns at which each row became available. About
        `cached_rows` rows stay in memory.
        """
        self._pieces = pieces
        self._times = times
        self._firsts = np.maximum.accumulate([piece.first_ns for piece in pieces] or [0]).tolist()
        self._cached_rows = cached_rows
        self._cache: dict[int, Any] = {}  # by piece number, the most recently used last

    @property
    def end(self) -> Place:
        """The place after the last row, as (piece number, row number within the piece)."""
        return len(self._pieces), 0

    def place(self, t_ns: int) -> Place:
        """Return the place after the last row that was available at session time `t_ns`, as (piece number, row number).

        A row counts as available only if all earlier rows are available too.
        """
        number = bisect_right(self._firsts, t_ns) - 1
        while 0 <= number < len(self._pieces):
            times = np.maximum.accumulate(self._times(self.read(number)))
            available = int(np.searchsorted(times, t_ns, side="right"))
            if available:
                return number, available
            number -= 1
        return START

    def begin(self, t_ns: int) -> Place:
        """Return the first place of the last piece that begins at or before session time `t_ns`.

        Returns (0, 0) if no piece begins that early.
        """
        return max(bisect_right(self._firsts, t_ns) - 1, 0), 0

    def next_ns(self, place: Place) -> int | None:
        """Return the session time in ns of the row at `place`, or None at the end of the table.

        At the end of a piece, the result is the time at which the next piece begins. The first row of that piece may be
        later.
        """
        number, row = place
        if number >= len(self._pieces):
            return None
        rows = self.read(number)
        if row < len(rows):
            return int(rows["t_ns"][row])
        return self._firsts[number + 1] if number + 1 < len(self._pieces) else None

    def between(self, begin: Place, end: Place) -> Iterator[Any]:
        """Yield arrays of rows, from place `begin` up to but without place `end`."""
        for number in range(begin[0], min(end[0] + (end[1] > 0), len(self._pieces))):
            rows = self.read(number)
            rows = rows[begin[1] if number == begin[0] else 0 : end[1] if number == end[0] else len(rows)]
            if len(rows):
                yield rows

    def joined(self, begin: Place, end: Place, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Return the rows between two places as one array of type `dtype`."""
        most = sum(piece.rows for piece in self._pieces[begin[0] : end[0] + 1])
        whole, filled = np.empty(most, dtype), 0
        # One piece at a time, so that only the rows of one piece are ever in memory twice.
        for rows in self.between(begin, end):
            whole[filled : filled + len(rows)] = rows
            filled += len(rows)
        return whole[:filled]

    def read(self, number: int) -> Any:
        """Return all rows of the piece at index `number`. The most recently used pieces stay in memory."""
        rows = self._cache.pop(number, None)
        if rows is None:
            rows = self._pieces[number].read()
        self._cache[number] = rows
        while len(self._cache) > 1 and sum(self._pieces[number].rows for number in self._cache) > self._cached_rows:
            del self._cache[next(iter(self._cache))]
        return rows


# The last 900 seconds keep a histogram each: more than the longest window of the screen.
SEPARATE_S = 900
# Number of older histograms that are added up into one. `analysis.precision` cuts a session longer than SEPARATE_S into
# at most 64 blocks and doubles their length whenever there are too many, so no sum crosses the border of a block.
SUMMED_S = 16
CACHED_PIECES = 3


class SecondsTable:
    """The table of a recording with one row per second, in memory except most latency histograms.

    Only the last SEPARATE_S rows have their own histograms. The histograms of older rows are added up in groups of
    SUMMED_S rows, which changes no result of an analysis.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Read the whole table from its `pieces`, in order of time."""
        self._pieces = pieces
        # For each piece: the end of the seconds before it, the number of rows before it, and its rows with added-up
        # histograms.
        self._after_ns: list[int] = []
        self._starts: list[int] = []
        self._sums: list[Seconds] = []
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
        self._runs = np.cumsum(whole.rows["count"].astype(np.int64) + whole.rows["errors"])

    def __len__(self) -> int:
        return len(self._ends_ns)

    @property
    def stops_ns(self) -> tuple[int, ...]:
        """Session times in ns up to which reading is fastest: half a second after the end of each piece, without the
        last.
        """
        # By then, most inferences that began in the piece have ended.
        return tuple(sorted({after_ns + NS // 2 for after_ns in self._after_ns[1:]}))

    def row(self, t_ns: int) -> int:
        """Return the number of rows whose second had ended at the session time `t_ns`."""
        return int(np.searchsorted(self._ends_ns, t_ns, side="right"))

    def begin_of_last(self, inferences: int, end: int) -> int:
        """Return a session time in ns from which on at least `inferences` inferences lie before row `end`.

        The time is the start of a second. It is 0 if the table has no more than `inferences` inferences before that
        row.
        """
        if not end or self._runs[end - 1] <= inferences:
            return 0
        first = int(np.searchsorted(self._runs[:end], self._runs[end - 1] - inferences, side="right"))
        return int(self._ends_ns[first]) - NS

    def between(self, begin: int, end: int) -> Seconds:
        """Return the rows from `begin` up to but without `end`, each with its own histogram."""
        parts = []
        for number, start in enumerate(self._starts):
            length = len(self._sums[number])
            if start < end and start + length > begin:
                place = np.arange(start, start + length)
                parts.append(self._read(number).where((place >= begin) & (place < end)))
        return concatenate(parts)

    def until(self, end: int, begin: int = 0) -> Seconds:
        """Return the rows from `begin` up to but without `end`, of which the last SEPARATE_S have their own histograms.

        The histograms of older rows may be added up in groups: the first row of a group then has the sum, and the other
        rows have empty histograms.
        """
        whole = [
            number for number, start in enumerate(self._starts)
            if start >= begin and start + len(self._sums[number]) <= end - SEPARATE_S
        ]  # fmt: skip
        if not whole:
            return self.between(begin, end)
        first, last = whole[0], whole[-1]
        joined = self._sums[first : last + 1]
        return concatenate(
            [self.between(begin, self._starts[first]), *joined, self.between(self._starts[last + 1], end)]
        )

    def _read_piece(self, number: int) -> Seconds:
        """Return the rows of the piece at index `number`, without rows that overlap an earlier row in time."""
        seconds: Seconds = self._pieces[number].read()
        begins = seconds.rows["t_ns"]
        ends = np.concatenate([[self._after_ns[number]], begins[:-1] + NS])
        return seconds.where(begins >= np.maximum.accumulate(ends)) if len(seconds) else NO_SECONDS


LAST_INFERENCES = 65_536  # at least this many of the last inferences are played one by one
MAX_INFERENCE_PIECES = 16  # bounds a long warm-up, whose inferences no second counts
LAST_BURSTS = 16  # at least this many of the last bursts are in a restart
SECONDS_AT_ONCE = 2_048  # row groups with fewer rows are read together
# For each other table: row groups with fewer rows are read together, and the number of rows that stay in memory.
TIMED = {
    "inferences": (1, 262_144),
    "readings": (32_768, 131_072),
    "events": (8_192, 50_000),
    "operators": (16_384, 131_072),
}


@frozen
class Moment:
    """A moment of a session, and the number of rows that each table had then."""

    t_ns: int
    seconds: int  # number of rows of the table of seconds
    places: Mapping[str, Place]  # end of the rows of each other table, by its name


BEGINNING = Moment(0, 0, dict.fromkeys(TIMED, START))


class RecordingByTime:
    def __init__(self, recording: Recording) -> None:
        self.manifest = recording.manifest
        self._seconds = SecondsTable(recording.pieces("seconds", SECONDS_AT_ONCE))
        self.tables = {
            name: TimedTable(recording.pieces(name, at_once), _ends if name == "inferences" else times, cached_rows)
            for name, (at_once, cached_rows) in TIMED.items()
        }
        self.end_ns = min(recording.end_ns, MAX_SESSION_NS)

    def moment(self, t_ns: int) -> Moment:
        """Return session time `t_ns`, or the end of the session if this is earlier, as a `Moment`."""
        if t_ns >= self.end_ns:
            return Moment(self.end_ns, len(self._seconds), {name: table.end for name, table in self.tables.items()})
        places = {name: table.place(t_ns) for name, table in self.tables.items()}
        # A second is available when all its inferences have ended.
        unfinished_ns = self.tables["inferences"].next_ns(places["inferences"])
        return Moment(t_ns, self._seconds.row(t_ns if unfinished_ns is None else min(t_ns, unfinished_ns)), places)

    @property
    def stops_ns(self) -> tuple[int, ...]:
        """Session times in ns, in ascending order, up to which reading is fastest."""
        return self._seconds.stops_ns

    def whole(self) -> Batch:
        """Return the whole session as one batch, with only about the last LAST_INFERENCES inferences.

        The batch has `restart` set, so the batch replaces all data that a screen got before.
        """
        end = self.moment(self.end_ns)
        return replace(self.until(end), bursts=self._bursts(START, end.places["operators"]))

    def until(self, end: Moment, begin: Moment = BEGINNING) -> Batch:
        """Return a batch with the data from the moment `begin` to the moment `end`, for a jump to `end`.

        The batch has `restart` set, and continues the screen's state at `begin`. The batch has only about the last
        LAST_INFERENCES inferences, and only the first and the last profiling rounds.
        """
        batch = self._batch(begin, end, self._seconds.until(end.seconds, begin.seconds))
        release_memory()
        bursts = self._first_and_last_bursts(begin.places["operators"], end.places["operators"])
        return replace(batch, bursts=bursts, manifest=self.manifest, restart=True)

    def between(self, begin: Moment, end: Moment) -> Batch:
        """Return a batch with the data that came after the moment `begin`, up to the moment `end`.

        The batch has only about the last LAST_INFERENCES inferences.
        """
        batch = self._batch(begin, end, self._seconds.between(begin.seconds, end.seconds))
        return replace(batch, bursts=self._bursts(begin.places["operators"], end.places["operators"]))

    def _batch(self, begin: Moment, end: Moment, seconds: Seconds) -> Batch:
        """Return a batch with `seconds` and the other data between two moments, but without profiling rounds.

        The batch has only about the last LAST_INFERENCES inferences.
        """
        last = self.tables["inferences"].begin(self._seconds.begin_of_last(LAST_INFERENCES, end.seconds))
        last = max(last, (end.places["inferences"][0] - MAX_INFERENCE_PIECES, 0))
        begins = {**begin.places, "inferences": max(begin.places["inferences"], last)}
        given = {name: (begins[name], end.places[name]) for name in begins}
        return Batch(
            until_ns=end.t_ns,
            inferences=self.tables["inferences"].joined(*given["inferences"], INFERENCE),
            seconds=seconds,
            readings=self.tables["readings"].joined(*given["readings"], READING),
            events=tuple(chain.from_iterable(self.tables["events"].between(*given["events"]))),
        )

    def _bursts(self, begin: Place, end: Place) -> tuple[Burst, ...]:
        return joined(chain.from_iterable(self.tables["operators"].between(begin, end)))

    def _first_and_last_bursts(self, begin: Place, end: Place) -> tuple[Burst, ...]:
        """Return at least the first BASELINE_BURSTS and the last LAST_BURSTS profiling rounds between two places.

        The places are in the table of operators.
        """
        # Reading all rounds would take half a second more.
        operators = self.tables["operators"]
        first, number = 0, 0
        while first < end[0] and number <= BASELINE_BURSTS:  # one more, since the last one may be incomplete
            number += len(operators.read(first))
            first += 1
        last, number = end[0], end[1]
        while last > first and number <= LAST_BURSTS:
            last -= 1
            number += len(operators.read(last))
        if last == first or begin >= (last, 0):
            return self._bursts(begin, end)
        # The last burst of the first part and the first one of the last part may be incomplete.
        return self._bursts(begin, (first, 0))[:-1] + self._bursts((last, 0), end)[1:]


def _ends(inferences: Inferences) -> npt.NDArray[np.int64]:
    return np.asarray(inferences["t_ns"] + inferences["latency_ns"])
