"""The journal and the tables of a session that is being written, and the way from one to the other."""

from collections.abc import Iterator
from pathlib import Path

from edgetop.recording.compaction import compact
from edgetop.recording.files import JOURNAL, write_manifest
from edgetop.recording.journal import SEGMENT_BYTES, Journal, open_segment, segment_name, segments
from edgetop.recording.keep import Keep
from edgetop.recording.recovery import settle
from edgetop.recording.tables import Tables
from edgetop.session.batch import Batch
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NO_SECONDS, Seconds

# With a limit on the size: how finely old inferences are dropped, and how much of the limit a segment may take.
_PIECES, _SEGMENTS = 8, 16
_LEAST_SEGMENT_BYTES = 65_536


class Store:
    def __init__(self, folder: Path, keep: Keep) -> None:
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
            yield from compact(open_segment(path), path.name, self._tables, ())
            self._tables.commit()
            path.unlink()
        self._next = number + 1
        self._make_room()

    def _make_room(self) -> None:
        while self._limit is not None and self._size() > self._limit:
            dropped = self._tables.drop_oldest_inferences()
            self.dropped_bytes += dropped
            if not dropped:
                return

    def _size(self) -> int:
        left = (self._journal_folder / segment_name(number) for number in segments(self._journal_folder))
        return self._tables.size_bytes + sum(path.stat().st_size for path in left)

    def finish(self, manifest: Manifest) -> None:
        """Publish the tables and the last manifest. Raises OSError; the journal then stays for a recovery."""
        self._journal.finish()
        while self._steps and self.compact():
            pass
        left = [segment_name(number) for number in segments(self._journal_folder)]
        for name in left:
            for _ in compact(open_segment(self._journal_folder / name), name, self._tables, ()):
                pass
        self._tables.commit()
        write_manifest(self._folder, manifest)
        settle(self._folder, self._tables, left)

    def close(self) -> None:
        """Without finishing."""
        self._journal.close()
