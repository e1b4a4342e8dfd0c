"""The journal and the tables of a session that is being written, and the way from one to the other."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgetop.recording.compaction import MissingSeconds, compact
from edgetop.recording.files import JOURNAL, Descriptor, open_regular, set_aside, write_manifest
from edgetop.recording.journal import SEGMENT_BYTES, Journal, Missing, SegmentReader, segment_name, segments
from edgetop.recording.packing import Tally
from edgetop.recording.recovery import settle
from edgetop.recording.retention import Retention
from edgetop.recording.tables import Tables
from edgetop.session.batch import Batch
from edgetop.session.manifest import Load, Manifest, lost_in_all
from edgetop.session.seconds import NO_SECONDS, Seconds

# With a limit on the size: how finely old inferences are dropped, and how much of the limit a segment may take.
_PIECES, _SEGMENTS = 8, 16
_LEAST_SEGMENT_BYTES = 65_536


class Store:
    def __init__(self, folder: Path, keep: Retention) -> None:
        """Raises OSError."""
        self._folder = folder
        self._journal_folder = folder / JOURNAL
        self._limit: int | None = None
        piece_bytes, segment_bytes = None, SEGMENT_BYTES
        if keep.max_bytes is not None:
            piece_bytes = keep.max_bytes // _PIECES
            segment_bytes = max(_LEAST_SEGMENT_BYTES, min(SEGMENT_BYTES, keep.max_bytes // _SEGMENTS))
            self._limit = keep.max_bytes - piece_bytes - segment_bytes  # room for what is being moved
        self._journal = Journal(self._journal_folder, keep.fsync_interval_ns, segment_bytes)
        self._tables = Tables(self._journal_folder, piece_bytes)
        self._next = 1  # the first segment that is not in the tables
        self._tally: Tally | None = Tally()  # of those that are
        self._missing_seconds = MissingSeconds(Load(), 0)
        self.missing = Missing()  # of what was journalled, when it was to be put into the tables
        self._steps: Iterator[None] | None = None
        self.dropped_bytes = 0  # of inferences, to keep the limit

    def append(self, batch: Batch, begun: Seconds = NO_SECONDS) -> None:
        """Into the journal. Raises OSError; nothing of it is kept then."""
        self._journal.append(batch, begun)

    def sync(self) -> None:
        """Have the disk keep what was appended, without waiting for it."""
        self._journal.sync()

    def compact(self) -> bool:
        """One bounded step of turning complete segments into table rows; whether there was anything to do.

        Raises OSError; the rows stay in the journal, and the next call begins anew.
        """
        if self._steps is None:
            if self._next >= self._journal.number:
                return False
            self._steps = self._move(self._next)
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        except OSError:
            self._steps = None
            self._tables.rollback()
            raise
        return True

    def _move(self, number: int) -> Iterator[None]:
        path = self._journal_folder / segment_name(number)
        if path.exists():  # a number may have been given up
            segment = SegmentReader(Descriptor(open_regular(path)), before=self._tally)
            yield from compact(segment, path.name, self._tables, (), self._missing_seconds)
            self._tables.commit()
            if self._is_spoilt(segment):
                set_aside(self._folder, path.name)
            else:
                path.unlink()
        self._next = number + 1
        self._make_room()

    def _is_spoilt(self, segment: SegmentReader) -> bool:
        """Whether not all of it, which became table rows, could be read."""
        self._tally = segment.tally
        self.missing.add(segment.missing)
        return bool(segment.damaged_bytes or segment.tail_bytes())

    def _make_room(self) -> None:
        while self._limit is not None and self._size() > self._limit:
            dropped = self._tables.drop_oldest_inferences()
            self.dropped_bytes += dropped
            if not dropped:
                return

    def _size(self) -> int:
        left = (self._journal_folder / segment_name(number) for number in segments(self._journal_folder))
        return self._tables.size_bytes + sum(path.stat().st_size for path in left)

    def finish(self, manifest: Manifest) -> Manifest:
        """Publish the tables and the last manifest, with what is lost. Raises OSError; the journal then stays."""
        self._journal.finish()
        while self._steps and self.compact():
            pass
        left = {}
        for name in map(segment_name, segments(self._journal_folder)):
            segment = SegmentReader(Descriptor(open_regular(self._journal_folder / name)), before=self._tally)
            for _ in compact(segment, name, self._tables, (), self._missing_seconds):
                pass
            left[name] = self._is_spoilt(segment)
        self._tables.commit()
        manifest = replace(manifest, lost=lost_in_all(manifest.lost, self.missing.lost(self._tally)))
        write_manifest(self._folder, manifest)
        settle(self._folder, self._tables, left)
        return manifest

    def close(self) -> None:
        """Without finishing."""
        self._journal.close()
