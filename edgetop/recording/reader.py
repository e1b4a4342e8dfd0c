"""Reading of a recording as batches, in the order in which things happened.

Tables are read row group by row group, so that a small board can open a day-long session. Missing and damaged parts are
reported in `problems`, and the rest is read. If the writer of a session died, opening the session completes it on the
disk. If the writer is running, the session is read as it is at that moment.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgetop.errors import InputError
from edgetop.recording.journal import Follower
from edgetop.recording.recovery import closing_of, recover
from edgetop.recording.rows import (
    FIELDS,
    MAX_SESSION_NS,
    TABLES,
    WHOLE,
    Piece,
    Span,
    between,
    in_order,
    joined,
    sound,
    times,
    within,
)
from edgetop.recording.session_folder import MANIFEST, has_journal, read_manifest
from edgetop.recording.snapshot import Snapshot
from edgetop.session.batch import Batch
from edgetop.session.manifest import Lost, Manifest, lost_in_all
from edgetop.session.records import MEASURE, NO_INFERENCES, NO_READINGS, Inferences, join, last_end_ns
from edgetop.session.seconds import NS

if TYPE_CHECKING:  # loads Arrow
    from edgetop.recording.parquet_tables import TableFile

MOMENTS = 5  # how often opening is tried while the writer finishes the session
CHECKED_BYTES = 32 * 1024 * 1024  # check single inferences up to this unpacked size: in a fraction of a second
STEP_SECONDS = 600  # session time that one batch of `play` spans
LONG_AFTER_NS = 86_400 * NS  # a row this long after the end of the session is implausible


class Recording:
    """One recorded session, opened for reading. As a context manager, it is closed at the end of the `with` block."""

    def __init__(self, folder: Path, *, completes: bool = True) -> None:
        """Open the session in `folder`. Raises InputError if the folder has no readable session.

        `completes` says that the session is first completed on the disk if its writer was killed.
        """
        self.folder = folder
        self._completes = completes
        self._counted = 0  # inferences that the played seconds count
        self._is_played = False  # whether all seconds were played
        self._measured = 0  # single inferences of the measured phase that were read
        for _ in range(MOMENTS):
            self._closing: Batch | None = None  # what follows the rows of the tables and the journal
            try:
                self._open()
                break
            except FileNotFoundError:  # the writer finished meanwhile
                continue
        else:
            raise InputError(f"{folder}: is changing all the time")
        self._snapshot.sensor_ids = [info.id for info in self.manifest.sensors]
        if unread := self.manifest.unread:
            self._snapshot.problems.report(folder / MANIFEST, f"damaged, so not known: {', '.join(unread)}", rows=0)

    def __enter__(self) -> "Recording":  # noqa: PYI034  Self is not in Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files. No row can be read from then on; `manifest` and `problems` stay.

        A reader that `follow` returned goes on.
        """
        self._snapshot.close()

    def _open(self) -> None:
        self.is_live = has_journal(self.folder) and not (self._completes and recover(self.folder) != "live")
        self.manifest: Manifest = read_manifest(self.folder)
        self._snapshot = Snapshot(self.folder, self.manifest)
        if has_journal(self.folder):
            self._closing = closing_of(self._snapshot, self.manifest, is_live=self.is_live)
            self.manifest = self._closing.manifest or self.manifest

    @property
    def problems(self) -> list[str]:
        """One line of text for each part of the recording that could not be read so far."""
        return self._snapshot.problems.lines

    def follow(self) -> Follower:
        """Return a reader of the batches that a live session's writer appends after this recording was opened."""
        return self._snapshot.follow()

    @property
    def end_ns(self) -> int:
        """The session time in ns at the end of the session.

        For a live session, this is the end of the last batch that was written when the recording was opened. If the
        manifest has no duration, this is the end of the last row, or 0 if there are no rows.
        """
        return (self._closing.until_ns if self._closing else self.manifest.duration_ns) or self._last_ns

    @cached_property
    def _last_ns(self) -> int:
        pieces = {name: self.pieces(name) for name in TABLES}
        last_ns = max((piece.last_ns for name in TABLES for piece in pieces[name]), default=0)
        if last := max(pieces["inferences"], key=lambda piece: piece.last_ns, default=None):
            last_ns = max(last_ns, last_end_ns(last.read()))
        in_last_second = any(piece.last_ns == last_ns for piece in pieces["seconds"])  # nothing else tells its length
        return min(last_ns + (NS if in_last_second else 0), MAX_SESSION_NS)

    def play(self, *, inferences: bool = False, step_s: int = STEP_SECONDS, span: Span = WHOLE) -> Iterator[Batch]:
        """Yield the session, or its part in `span`, as batches of `step_s` seconds each.

        `inferences` says that the batches also have the individual inferences. If more data turn out to be lost than
        the manifest says, the last batch has a corrected manifest.
        """
        names = ("seconds", "readings", "events", "operators", *(("inferences",) if inferences else ()))
        cursors = {name: _Cursor(self.rows(name, span)) for name in names}
        end_ns = min(self.end_ns, span.end_ns)
        until, first, counted_ns = 0, True, span.begin_ns
        while first or any(cursor.rest is not None for cursor in cursors.values()):
            nearest = min((int(times(c.rest)[0]) for c in cursors.values() if c.rest is not None), default=0)
            until = max(until + step_s * NS, nearest // (step_s * NS) * step_s * NS)  # skips empty years
            taken = {name: cursor.take(until) for name, cursor in cursors.items()}
            batch = self._batch(taken, min(until, end_ns), first)
            counted_ns = int(batch.seconds.rows["t_ns"][-1]) + NS if len(batch.seconds) else counted_ns
            yield batch
            first = False
        self._is_played = span == WHOLE
        # Check whether single inferences can be read: read all if they are few, else only the index of their table.
        size = 0 if inferences else sum(file.unpacked_bytes for file in self._snapshot.files("inferences"))
        if not inferences and size <= CHECKED_BYTES:
            self._measured = sum(_measured_in(rows) for rows in self.rows("inferences"))
        uncounted = NO_INFERENCES
        # Such as those of the last second of a run that goes on, which no row counts yet. If the seconds are lost,
        # there may be any number of them.
        if not inferences and (counted_ns > span.begin_ns or size <= CHECKED_BYTES):
            left = self.rows("inferences", replace(span, begin_ns=max(span.begin_ns, counted_ns)))
            uncounted = join([NO_INFERENCES, *left])
        yield Batch(
            until_ns=end_ns,
            inferences=uncounted,
            manifest=None if self.lost == self.manifest.lost else replace(self.manifest, lost=self.lost),
        )

    @property
    def lost(self) -> Lost | None:
        """What the recording lacks or what could not be read so far; None if nothing is missing."""
        problems = self._snapshot.problems
        lines = [line for line in problems.lines if not line.startswith(f"{self.folder / MANIFEST}: ")]
        if not lines:
            return self.manifest.lost or self._uncounted()
        seconds, singles = problems.missing("seconds"), problems.missing("inferences")
        others = any(f"/{name}." in problem for problem in lines for name in TABLES if name != "seconds")
        ran = self._ran or self._measured
        uncounted: int | None = 0
        if seconds != 0:
            uncounted = max(0, ran - self._counted) if ran and not self.is_live else None
        known = None if singles is None or uncounted is None else max(singles, uncounted)
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        unread = Lost(None if others or seconds is None else float(seconds), known, f"{lines[0]}{more}")
        return lost_in_all(self.manifest.lost, unread)

    @property
    def _ran(self) -> int | None:
        """The number of inferences that the session made: the counts in the table of seconds should add up to it.

        None if it is unknown, or for an imported session that has only a summary.
        """
        is_summary = self.manifest.was_imported and not self._measured and not self._counted
        return None if is_summary else self.manifest.methodology.measure_runs

    def _uncounted(self) -> Lost | None:
        """Return how many inferences are not counted in the table of seconds, or None if none are known to be missing.

        The whole table must have been read without problems.
        """
        ran = self._ran
        if not self._is_played or self.is_live or ran is None or ran <= self._counted:
            return None
        return Lost(None, ran - self._counted, f"seconds.parquet counts {self._counted} of {ran} inferences")

    def rows(self, name: str, span: Span = WHOLE) -> Iterator[Any]:
        """Yield the plausible rows of the table `name` within `span`, in parts of limited size.

        A part has the type of the field `name` of a `Batch`. A profiling round may continue in the next part.
        """
        for rows in self._snapshot.rows(name, span):
            if len(kept := within(span, self._plausible(name, rows))):
                yield kept
        if self._closing and len(rest := within(span, getattr(self._closing, FIELDS[name]))):
            yield rest

    def _plausible(self, name: str, rows: Any) -> Any:
        kept, lasts_ns = sound(name, rows), self.manifest.duration_ns
        if lasts_ns and lasts_ns > 0 and not self.is_live:
            kept = within(Span(end_ns=lasts_ns + LONG_AFTER_NS), kept)
        if len(kept) < len(rows):
            self._snapshot.problems.leave_out(
                self.folder / f"{name}.parquet", hash(int(times(rows)[0])), len(rows) - len(kept)
            )
        return in_order(kept)

    def pieces(self, name: str, at_once: int = 1) -> list[Piece]:
        """Return the table `name` as a list of pieces in order. A piece reads its rows from the disk on request.

        Row groups with fewer than `at_once` rows are put together into one piece.
        """
        found: list[Piece] = []
        for file in self._snapshot.files(name):
            found += self._row_groups(file, at_once)
        rest = [self._plausible(name, rows) for rows in self._snapshot.journalled(name)]
        if self._closing:
            rest.append(getattr(self._closing, FIELDS[name]))
        if rest := [rows for rows in rest if len(rows)]:
            whole = joined(name, rest)
            t_ns = times(whole)
            found.append(Piece(int(t_ns.min()), int(t_ns.max()), len(whole), lambda: whole))
        return found

    def _row_groups(self, file: "TableFile", at_once: int) -> Iterator[Piece]:
        waiting: list[int] = []
        together = file.by_time()
        for numbers in together:
            waiting += numbers
            rows = file.rows_in(waiting)
            if rows >= at_once or numbers is together[-1]:
                spans = [span for number in waiting if (span := self._span(file, number))]
                if spans:
                    read = partial(self._read, file, tuple(waiting))
                    yield Piece(min(first for first, _ in spans), max(last for _, last in spans), rows, read)
                waiting = []

    def _span(self, file: "TableFile", number: int) -> tuple[int, int] | None:
        """Return the first and the last session time in ns of row group `number`, or None without readable rows."""
        if (known := file.times_in(number)) is not None:
            return known
        t_ns = NO_READINGS["t_ns"]
        with self._snapshot.damage_reported(file.place, number, file.rows_in([number])):
            t_ns = file.read_times(number)
        return (int(t_ns.min()), int(t_ns.max())) if len(t_ns) else None

    def _read(self, file: "TableFile", numbers: Sequence[int]) -> Any:
        """Return the rows of the row groups `numbers`. Damaged row groups are reported and left out."""
        try:
            return self._plausible(file.name, self._snapshot.read(file, numbers))
        except (OSError, ValueError):
            rows = []
            for number in numbers:
                with self._snapshot.damage_reported(file.place, number, file.rows_in([number])):
                    rows.append(self._plausible(file.name, self._snapshot.read(file, [number])))
            return joined(file.name, rows)

    def _batch(self, taken: Mapping[str, list[Any]], until_ns: int, first: bool) -> Batch:
        single = taken.get("inferences")
        if first:
            self._counted = self._measured = 0
        self._measured += sum(map(_measured_in, single or ()))
        self._counted += sum(seconds.runs for seconds in taken["seconds"])
        return Batch(
            until_ns=until_ns,
            **{FIELDS[name]: joined(name, rows) for name, rows in taken.items()},
            manifest=self.manifest if first else None,
            restart=first,
        )


def _measured_in(inferences: Inferences) -> int:
    return int(np.count_nonzero(inferences["phase"] == MEASURE))


class _Cursor:
    """A position in the rows of one table, which moves forward in time."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces
        self.rest = next(pieces, None)  # rows in memory that were not taken yet; None at the end of the table

    def take(self, until_ns: int) -> list[Any]:
        """Return the rows before session time `until_ns` as a list of parts, and move past them."""
        taken = []
        while self.rest is not None:
            later = np.flatnonzero(times(self.rest) >= until_ns)
            cut = int(later[0]) if len(later) else len(self.rest)
            if cut:
                taken.append(between(self.rest, 0, cut))
            if len(later):
                self.rest = between(self.rest, cut, len(self.rest))
                break
            self.rest = next(self._pieces, None)
        return taken
