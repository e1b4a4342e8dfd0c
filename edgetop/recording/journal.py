"""The journal of a recording. Every batch is first written into the journal, within a second.

The journal consists of numbered files in `journal/`, the segments, which contain frames. There is one writer and any
number of readers. The rows of a full segment are moved into tables, and the segment is removed (`compaction`). So the
journal of a writer that died contains just the rows that the tables lack.

After a disk error, the writer begins a new segment, so that nothing is ever appended to an incomplete frame.
"""

import contextlib
import os
import queue
import re
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgetop.files import open_regular, sync_folder
from edgetop.frozen import frozen
from edgetop.recording.journal_frames import ALONE, DEFLATED, REFERENCE, Frame, FrameReader, seal
from edgetop.recording.packing import (
    TALLY_STEP_NS,
    Parts,
    Tally,
    deflated,
    inflated,
    interval_of,
    pack,
    pack_interval,
    pack_partial,
    pack_tally,
    partial_of,
    split,
    tallies_of,
    unpack,
)
from edgetop.recording.session_folder import Descriptor, FolderHandle, is_live, names_in, write_all
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import Clock
from edgetop.session.manifest import Lost, Manifest
from edgetop.session.seconds import NO_SECONDS, NS, Seconds

SEGMENT_BYTES = 8 * 1024 * 1024
SEGMENT_NS = 600 * NS
# Time from one reference to the next. With a reference, small batches take half the space. A run of frames is lost
# without its reference, so copies of the reference follow with the next batch and in the middle of the run.
RUN_NS = SEGMENT_NS
REFERENCE_BYTES = 16 * 1024
_GROWS = 8  # a sample this many times as long as the reference replaces it
_PIECE_BYTES = REFERENCE_BYTES // 4  # most that one batch contributes to a sample
_RUNS = 2**24
_MOST_MISSED = 2**60

_NAME = re.compile(r"(\d{8})\.journal")


def segment_name(number: int) -> str:
    return f"{number:08}.journal"


def segments(folder: Path) -> list[int]:
    """Return the sorted numbers of the journal files in `folder`. Raises OSError if it cannot be listed."""
    return sorted(int(match[1]) for name in names_in(folder) if (match := _NAME.fullmatch(name)))


class Journal:
    """Writes the journal of one session as numbered files (segments)."""

    def __init__(self, folder: Path, fsync_interval_ns: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Write files of about `segment_bytes` into `folder`.

        `fsync_interval_ns` is the interval at which the caller will call `sync`, which tells a recovery how much may be
        lost.
        """
        self._folder = folder
        self._fsync_interval_ns = fsync_interval_ns
        self.segment_bytes = segment_bytes
        self._sync = BackgroundSync()
        self._manifest: Manifest | None = None
        self._fd = -1
        self._opened_ns = 0
        self._reference = _Reference()
        self._tally = Tally()
        self.number = 0  # number of the current or last segment
        self.size = 0  # its length in bytes

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def sizes(self) -> dict[int, int]:
        """Return the size of each journal file in bytes, by its number. Raises OSError."""
        return {number: (self._folder / segment_name(number)).stat().st_size for number in segments(self._folder)}

    def append(self, batch: Batch, partial: Seconds = NO_SECONDS) -> None:
        """Append a batch. Raises OSError if the disk does not accept the batch, of which no part is stored then.

        `partial` is the current second so far, and needed only if individual inferences are not recorded.
        """
        self._manifest = batch.manifest or self._manifest
        try:
            self._sync.raise_failure()
            if self.is_open and (self.size >= self.segment_bytes or batch.until_ns - self._opened_ns >= SEGMENT_NS):
                os.fdatasync(self._fd)  # later calls of `sync` only sync the next segment
                self.close()
            prologue = b""
            if not self.is_open:
                self.number += 1  # its first batch gets the manifest, which names its sensors
                path = self._folder / segment_name(self.number)
                self._fd = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                self.size, self._opened_ns, self._reference.copies = 0, batch.until_ns, 0
                batch = replace(batch, manifest=self._manifest)
                prologue = pack_interval(self._fsync_interval_ns)
            after = self._tally.after(batch)
            payload = pack(batch) + pack_partial(partial) + pack_tally(self._tally, after)
            reference, whole = self._reference, prologue + payload
            frames = reference.frame_for(payload, batch.until_ns)
            packed = deflated(whole, reference.sample)
            frames += seal(ALONE | DEFLATED, batch.until_ns, packed, len(whole), reference.run)
            write_all(self._fd, frames, self.size)
            self.size += len(frames)
            self._tally = after
        except OSError:
            self._abandon_segment()
            raise

    def _abandon_segment(self) -> None:
        """Cut the open file after the last complete frame, and close it. The next batch begins another file."""
        if not self.is_open:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self.size)
        if not self.size:
            with contextlib.suppress(OSError):
                (self._folder / segment_name(self.number)).unlink()
        self.close()

    def sync(self) -> None:
        """Start to sync the open file to the disk, without waiting.

        If this fails, the next `append` raises the error.
        """
        if self.is_open:
            self._sync.begin(self._fd, self._folder)

    def close(self) -> None:
        """Close the open file. The next batch begins another file."""
        if self.is_open:
            os.close(self._fd)
            self._fd = -1

    def end(self) -> None:
        """Close the open file, and end the thread that syncs."""
        self.close()
        self._sync.close()

    def finish(self) -> None:
        """Sync all data to the disk, and close the journal. Raises OSError if a sync failed, now or earlier."""
        self._sync.wait()
        self._sync.raise_failure()
        if self.is_open:
            os.fdatasync(self._fd)
            sync_folder(self._folder)
        self.close()


class _Reference:
    """Makes the deflate dictionary for successive frames, from the beginnings of earlier payloads."""

    def __init__(self) -> None:
        self.run = 0
        self.sample = b""
        self.copies = 0  # copies of the reference in this segment
        self._since_ns = 0
        self._recent = b""

    def frame_for(self, payload: bytes, until_ns: int) -> bytes:
        """Return a frame with the deflate dictionary for this payload, to be written before the payload.

        The result is b"" if the dictionary was written often enough. `until_ns` is the session time of the payload.
        """
        self._recent = (self._recent + payload[:_PIECE_BYTES])[-REFERENCE_BYTES:]
        lasted_ns = until_ns - self._since_ns
        enough = min(_GROWS * len(self.sample), REFERENCE_BYTES)
        is_better = len(self.sample) < REFERENCE_BYTES and len(self._recent) >= enough
        if lasted_ns >= RUN_NS or is_better:
            self.run, self.sample, self.copies = (self.run + 1) % _RUNS, self._recent, 0
            self._since_ns = until_ns
        elif self.copies > 2 or (self.copies == 2 and lasted_ns < RUN_NS // 2):
            return b""
        self.copies += 1
        return seal(REFERENCE | DEFLATED, until_ns, deflated(self.sample), len(self.sample), self.run)


class BackgroundSync:
    """Syncs a file to the disk on a thread, because a sync of an SD card may take seconds."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._wanted: queue.SimpleQueue[tuple[int, Path] | None] = queue.SimpleQueue()
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._failure: OSError | None = None

    def begin(self, fd: int, folder: Path) -> None:
        """Start to sync the file `fd` and the folder, unless a sync is still running."""
        if not self._is_idle.is_set():
            return
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="journal sync", daemon=True)
            self._thread.start()
        job = os.dup(fd), folder
        self._is_idle.clear()
        self._wanted.put(job)

    def _run(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            fd, folder = wanted
            try:
                try:
                    os.fdatasync(fd)
                    sync_folder(folder)
                finally:
                    os.close(fd)  # may report that data could not be written, too (close(2))
            except OSError as error:
                self._failure = error
            finally:
                self._is_idle.set()

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure:
            raise failure

    def wait(self) -> None:
        self._is_idle.wait()

    def close(self) -> None:
        """End the thread after the running sync, without waiting. A later `begin` starts another thread."""
        if self._thread:
            self._thread = None
            self._wanted.put(None)


@frozen
class Missing:
    """How much data was in damaged frames of the journal, computed from counts in the neighbouring frames."""

    ns: int = 0  # session time
    inferences: int = 0  # single inferences
    counted: int = 0  # inferences counted by the seconds in the damaged frames
    is_counted: bool = True  # False if more inferences may be missing

    def after(self, read: Tally | None, before: Tally, *, is_damaged: bool) -> "Missing":
        """Return this amount plus the data that is missing between two readable frames.

        `read` is the tally (how much the writer had written) at the end of the first frame, or None if unknown.
        `before` is the tally before the second frame. `is_damaged` says that damaged bytes lie between the two frames.
        """
        if read is None:
            return replace(self, is_counted=self.is_counted and not is_damaged)
        fields = ((of.until_ns, of.inferences, of.counted) for of in (read, before))
        # Bounded, because another program may have written any number.
        ns, inferences, counted = (max(0, min(written - n, _MOST_MISSED)) for n, written in zip(*fields, strict=True))
        ns = ns if ns >= TALLY_STEP_NS else 0
        return Missing(self.ns + ns, self.inferences + inferences, self.counted + counted, self.is_counted)

    def lost(self, tally: Tally | None) -> Lost | None:
        """Return what is missing as a `Lost`, or None if nothing is missing.

        `tally` says how much data was written in all; None if unknown.
        """
        # A session whose tally has no single inferences recorded only seconds.
        inferences = self.inferences if tally is None or tally.inferences else self.counted
        if not (self.ns or inferences) and self.is_counted:
            return None
        return Lost(self.ns / NS, inferences if self.is_counted else None, "damaged bytes in the journal")


@frozen
class Progress:
    """How much of the journal has been moved into the tables so far."""

    tally: Tally | None = field(default_factory=Tally)  # None if unknown
    missing: Missing = field(default_factory=Missing)  # what could not be read from the journal
    dropped_bytes: int = 0  # size of the inferences dropped to keep the size limit
    manifest: Manifest | None = None  # final manifest, with what is lost; set once the tables are published


@frozen
class TableJob:
    before: int  # only segments below this number are complete; ignored if `manifest` is set
    progress: Progress = field(default_factory=Progress)
    piece_bytes: int | None = None  # size above which inferences go into a new piece of their table; None: no limit
    room_bytes: int | None = None  # drop the oldest single inferences until the journal's folder is no larger
    manifest: Manifest | None = None  # final manifest; if set, the tables are published


@dataclass(slots=True)
class JournalState:
    """How much data was written to the journal so far and how much is missing, by the counts in the journal's frames.

    The readers of all files of a journal share one such object.
    """

    tally: Tally | None = None  # of everything written up to the last batch; None if unknown
    missing: Missing = field(default_factory=Missing)
    first_tally: Tally | None = None  # of everything written before the first batch that was read
    fsync_interval_ns: int = 0  # the writer's interval between syncs; 0 if unknown
    partial: Seconds = NO_SECONDS  # the last second that was written before it was complete


class SegmentReader:
    """Reads the batches in one file of the journal, which may still be growing."""

    def __init__(self, file: Descriptor, end: int | None = None, state: JournalState | None = None) -> None:
        """Read an open journal file up to the byte offset `end`; None means up to its current end.

        `state` is the reader's state after the earlier journal files, and is updated; None if there are no earlier
        files.
        """
        self.file = file
        self.frames = FrameReader(file.fd, end)
        self._references: dict[int, Frame] = {}
        self._dictionary: tuple[Frame | None, bytes] = (None, b"")  # the last reference, inflated
        self._undecoded_bytes = self._damage_counted = 0
        self.state = state or JournalState()

    @property
    def damaged_bytes(self) -> int:
        """The number of damaged bytes that were skipped."""
        return self.frames.damaged_bytes + self._undecoded_bytes

    @property
    def is_spoilt(self) -> bool:
        """Whether some bytes of the file could not be read."""
        return bool(self.damaged_bytes or self.frames.tail_bytes())

    def read(self, wanted: Collection[str] | None = None, most_inferences: int | None = None) -> Iterator[Batch]:
        """Yield every batch that is complete by now.

        `wanted` are the names of the fields of a batch to decode; None means all. If a batch has more than
        `most_inferences` inferences, only the last inference is kept.
        """
        for frame in self.frames.read():
            if frame.has(REFERENCE):
                self._references[frame.run] = frame
                continue
            try:
                batch = self._batch(frame, wanted, most_inferences)
            except ValueError:
                self._undecoded_bytes += len(frame.payload)
            else:
                self._damage_counted = self.damaged_bytes
                yield batch

    def _batch(self, frame: Frame, wanted: Collection[str] | None, most_inferences: int | None) -> Batch:
        if not frame.has(ALONE) or not frame.has(DEFLATED):
            raise ValueError("a frame of another encoding")
        reference = self._reference_of(frame)
        if self._dictionary[0] is not reference:
            self._dictionary = reference, inflated(reference.payload, reference.unpacked_bytes)
        parts = split(inflated(frame.payload, frame.unpacked_bytes, self._dictionary[1]))
        batch = unpack(parts, frame.number, wanted, most_inferences)
        self._note(frame, parts)
        return batch

    def _reference_of(self, frame: Frame) -> Frame:
        reference = self._references.get(frame.run) or self.frames.next_reference(frame.run)
        if reference is None:
            raise ValueError("its reference is missing")
        self._references = {frame.run: reference}
        return reference

    def _note(self, frame: Frame, parts: Parts) -> None:
        state = self.state
        before, after = tallies_of(parts, frame.number)
        state.fsync_interval_ns = interval_of(parts) or state.fsync_interval_ns
        state.partial = partial_of(parts) or state.partial
        state.missing = state.missing.after(state.tally, before, is_damaged=self.damaged_bytes > self._damage_counted)
        state.tally = after
        state.first_tally = state.first_tally or before


def open_segment(path: Path, state: JournalState | None = None) -> SegmentReader:
    """Return a reader of the journal file at `path`. Raises OSError.

    `state` is the reader's state after the earlier journal files, and is updated; None if there are no earlier files.
    """
    return SegmentReader(Descriptor(open_regular(path)), state=state)


class FellBehindError(Exception):
    """Raised if a part of the journal was removed too early for a reader, which must start again from the tables."""


class Follower:
    """Reads every batch that a writer appends to the journal, from a given file and byte offset on."""

    def __init__(self, folder: Path, number: int = 0, offset: int = 0, file: Descriptor | None = None) -> None:
        """Start at byte `offset` of journal file `number`; by default at the beginning of the journal in `folder`.

        `file` is that journal file if it is already open. Raises OSError if the file was moved into the tables.
        """
        self._folder = folder
        self._number = number
        self._current: SegmentReader | None = None
        if number:
            self._current = SegmentReader(file) if file else open_segment(folder / segment_name(number))
            while self._current.frames.offset < offset and next(self._current.read(()), None) is not None:
                continue  # decoding later frames needs the references before them

    @property
    def place(self) -> tuple[int, int]:
        """The place after the last batch that was read, as (number of the journal file, byte offset)."""
        return self._number, self._current.frames.offset if self._current else 0

    def read(self, most_inferences: int | None = None) -> Iterator[Batch]:
        """Yield every batch that was appended since the last call.

        If a batch has more than `most_inferences` inferences, only the last inference is kept. Raises OSError if the
        journal is gone because the session is over, and FellBehindError if a journal file was removed too early.
        """
        while True:
            try:
                later = [number for number in segments(self._folder) if number > self._number]
            except FileNotFoundError:  # the open segment can still be read
                if self._current:
                    yield from self._current.read(most_inferences=most_inferences)
                raise
            if self._current:
                yield from self._current.read(most_inferences=most_inferences)
            if not later:
                return
            if later[0] != self._number + 1:
                raise FellBehindError
            self._current = open_segment(self._folder / segment_name(later[0]))
            self._number = later[0]


SILENT_NS = 2_000_000_000  # a writer appends about once a second; if it is silent for this long, its lock is checked


class JournalTail:
    """Follows the journal of a live session until the session ends."""

    def __init__(self, folder: FolderHandle, follower: Follower, clock: Clock) -> None:
        self._folder, self.follower, self._clock = folder, follower, clock
        self.has_ended = False  # the session has ended; its tables may be incomplete
        self.is_over = False  # the session has ended, and the whole journal was read
        self.last_read_ns = self._last_checked_ns = clock.monotonic_ns()

    def read(self, most_inferences: int | None = None) -> Batch | None:
        """Return all data that was appended since the last call as one batch, or None if there is no new data.

        If a batch in the journal has more than `most_inferences` inferences, only its last inference is kept. Raises
        FellBehindError if the session must be opened again: a part of the journal was removed, or the writer died.
        """
        batches = []
        try:
            for batch in self.follower.read(most_inferences):
                batches.append(batch)  # one by one, to keep those before an error
                self.has_ended |= batch.manifest is not None and batch.manifest.state != "live"
        except OSError:
            if not self.has_ended:
                raise FellBehindError from None
            self.is_over = True
        now_ns = self._clock.monotonic_ns()
        if batches:
            self.last_read_ns = self._last_checked_ns = now_ns
            return merge(batches)
        if not self.is_over and now_ns - self._last_checked_ns > SILENT_NS:
            self._last_checked_ns = now_ns
            if not is_live(self._folder.path):
                raise FellBehindError
        return None


# A writer that cannot write a single byte any more still notes what the disk has not accepted. The note is the name of
# an empty file in the journal, `unwritten-INFERENCES-NS-UNTIL`, since a file can be renamed on a full disk. No other
# record counts what is missing.
