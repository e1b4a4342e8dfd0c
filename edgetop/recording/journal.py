"""The journal: every batch is written here first, within a second.

It consists of numbered segments of frames in `journal/`, with one writer and any number of readers. A full
segment is turned into table rows and removed (`compaction`); what remains when a writer dies is what its tables
lack. After an error of the disk, writing goes on in a new segment, so that nothing is ever appended to a torn frame.
"""

import contextlib
import os
import re
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgetop.files import open_regular, sync_folder
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
from edgetop.recording.session_folder import (
    Descriptor,
    FolderHandle,
    is_live,
    names_in,
    write_all,
)
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import Clock
from edgetop.session.manifest import Lost, Manifest
from edgetop.session.seconds import NO_SECONDS, NS, Seconds

SEGMENT_BYTES = 8 * 1024 * 1024
SEGMENT_NS = 600 * NS
# From one reference to the next. With a reference small batches take half the space. It is written again with the next
# batch and in the middle of its run, since the whole run is lost without it.
RUN_NS = SEGMENT_NS
REFERENCE_BYTES = 16 * 1024
_GROWS = 8  # a longer sample replaces the reference if it is so many times as long
_PIECE_BYTES = REFERENCE_BYTES // 4  # of one batch at most
_RUNS = 2**24
_MOST_MISSED = 2**60

_NAME = re.compile(r"(\d{8})\.journal")


def segment_name(number: int) -> str:
    return f"{number:08}.journal"


def segments(folder: Path) -> list[int]:
    """The sorted numbers of the segments in `folder`. Raises OSError if it cannot be listed."""
    return sorted(int(match[1]) for name in names_in(folder) if (match := _NAME.fullmatch(name)))


class Journal:
    """Writes the journal, segment after segment."""

    def __init__(self, folder: Path, fsync_interval_ns: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """`fsync_interval_ns`: how often `sync` will be called; it is stored for a recovery."""
        self._folder = folder
        self._fsync_interval_ns = fsync_interval_ns
        self.segment_bytes = segment_bytes
        self._sync = BackgroundSync()
        self._manifest: Manifest | None = None
        self._fd = -1
        self._opened_ns = 0
        self._reference = _Reference()
        self._tally = Tally()
        self.number = 0  # of the current or last segment
        self.size = 0  # of that segment

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def sizes(self) -> dict[int, int]:
        """The size of each segment by its number. Raises OSError."""
        return {number: (self._folder / segment_name(number)).stat().st_size for number in segments(self._folder)}

    def append(self, batch: Batch, partial: Seconds = NO_SECONDS) -> None:
        """`partial`: the second that is not complete, if its inferences are not recorded.

        Raises OSError if the disk does not accept the batch; no part of it is stored then.
        """
        self._manifest = batch.manifest or self._manifest
        try:
            self._sync.raise_failure()
            if self.is_open and (self.size >= self.segment_bytes or batch.until_ns - self._opened_ns >= SEGMENT_NS):
                os.fdatasync(self._fd)  # `sync` will not do it any more
                self.close()
            prologue = b""
            if not self.is_open:
                self.number += 1  # a segment begins with the manifest, which names its sensors
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
        """Leave the complete frames, and go on in another segment."""
        if not self.is_open:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self.size)
        if not self.size:
            with contextlib.suppress(OSError):
                (self._folder / segment_name(self.number)).unlink()
        self.close()

    def sync(self) -> None:
        """Start to sync what was appended, without waiting. The next `append` raises a failure."""
        if self.is_open:
            self._sync.begin(self._fd, self._folder)

    def close(self) -> None:
        """End the segment; the next batch begins another."""
        if self.is_open:
            os.close(self._fd)
            self._fd = -1

    def finish(self) -> None:
        """Close it for good and sync it. Raises OSError if that failed."""
        self._sync.wait()
        self._sync.raise_failure()
        if self.is_open:
            os.fdatasync(self._fd)
            sync_folder(self._folder)
        self.close()


class _Reference:
    """The beginnings of some payloads: the deflate dictionary of a run of frames."""

    def __init__(self) -> None:
        self.run = 0
        self.sample = b""
        self.copies = 0  # in this segment
        self._since_ns = 0
        self._recent = b""

    def frame_for(self, payload: bytes, until_ns: int) -> bytes:
        """What to write before this payload: a new reference, another copy of this one, or nothing."""
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
    """fdatasync(2) on a thread: an SD card may take seconds for it, while batches go on arriving."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    def begin(self, fd: int, folder: Path) -> None:
        """Start a sync unless one is still running."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._run, args=(os.dup(fd), folder), name="journal sync", daemon=True
            )
            self._thread.start()

    def _run(self, fd: int, folder: Path) -> None:
        try:
            os.fdatasync(fd)
            sync_folder(folder)
        except OSError as error:
            self._failure = error
        finally:
            os.close(fd)

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure:
            raise failure

    def wait(self) -> None:
        if self._thread:
            self._thread.join()


@dataclass(frozen=True, slots=True)
class Missing:
    """What damaged frames held, as the tallies around them show."""

    ns: int = 0  # session time
    inferences: int = 0  # single ones
    counted: int = 0  # inferences counted by the seconds in them
    is_counted: bool = True  # False: more inferences may be missing

    def after(self, read: Tally | None, before: Tally, *, is_damaged: bool) -> "Missing":
        """`read`: the tally of what was read so far, None if unknown; `before`: of what had been written by then."""
        if read is None:
            return replace(self, is_counted=self.is_counted and not is_damaged)
        fields = ((of.until_ns, of.inferences, of.counted) for of in (read, before))
        # Bounded: another program may have written any number.
        ns, inferences, counted = (max(0, min(written - n, _MOST_MISSED)) for n, written in zip(*fields, strict=True))
        ns = ns if ns >= TALLY_STEP_NS else 0
        return Missing(self.ns + ns, self.inferences + inferences, self.counted + counted, self.is_counted)

    def lost(self, tally: Tally | None) -> Lost | None:
        """`tally`: of all that was written; without single inferences, those counted by seconds are the lost ones."""
        inferences = self.inferences if tally is None or tally.inferences else self.counted
        if not (self.ns or inferences) and self.is_counted:
            return None
        return Lost(self.ns / NS, inferences if self.is_counted else None, "damaged bytes in the journal")


@dataclass(frozen=True, slots=True)
class Progress:
    """What has become table rows so far."""

    tally: Tally | None = field(default_factory=Tally)  # None: unknown
    missing: Missing = field(default_factory=Missing)  # what could not be read from the journal
    dropped_bytes: int = 0  # of inferences, to respect the limit
    manifest: Manifest | None = None  # the final one, with what is lost: the tables are published


@dataclass(frozen=True, slots=True)
class TableJob:
    before: int  # the number of the first segment that is still written
    progress: Progress = field(default_factory=Progress)
    piece_bytes: int | None = None  # the size from which on inferences go into a new piece of their table; None: never
    room_bytes: int | None = None  # drop the oldest single inferences until the journal's folder is that small
    manifest: Manifest | None = None  # the final one: publish the tables


@dataclass(slots=True)
class JournalState:
    """What the frames read so far tell in addition to their batches. Segments are read in order with the same one."""

    tally: Tally | None = None  # of all that was written up to the last batch; None: unknown
    missing: Missing = field(default_factory=Missing)
    first_tally: Tally | None = None  # before the first batch that was read
    fsync_interval_ns: int = 0  # of the writer; 0: unknown
    partial: Seconds = NO_SECONDS  # the last second that was written before it was complete


class SegmentReader:
    """Reads the batches of one segment, also while it grows."""

    def __init__(self, file: Descriptor, end: int | None = None, state: JournalState | None = None) -> None:
        """`end`: read no further, whatever is appended. `state`: after earlier segments, continued here."""
        self.file = file
        self.frames = FrameReader(file.fd, end)
        self._references: dict[int, Frame] = {}
        self._dictionary: tuple[Frame | None, bytes] = (None, b"")  # the last reference, inflated
        self._undecoded_bytes = self._damage_counted = 0
        self.state = state or JournalState()

    @property
    def damaged_bytes(self) -> int:
        """How many bytes were skipped."""
        return self.frames.damaged_bytes + self._undecoded_bytes

    @property
    def is_spoilt(self) -> bool:
        """Whether some bytes could not be read."""
        return bool(self.damaged_bytes or self.frames.tail_bytes())

    def read(self, wanted: Collection[str] | None = None, most_inferences: int | None = None) -> Iterator[Batch]:
        """Every batch that is complete by now; `wanted`, `most_inferences`: as for `packing.unpack`."""
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
    """Raises OSError."""
    return SegmentReader(Descriptor(open_regular(path)), state=state)


class FellBehindError(Exception):
    """Raised where a follower must begin again, with the tables."""


class Follower:
    """Reads every batch that a writer appends, from a segment on."""

    def __init__(self, folder: Path, number: int = 0, offset: int = 0, file: Descriptor | None = None) -> None:
        """Go on at a `place`; default: at the beginning of the journal. `file`: that segment, if it is open already.

        Raises OSError if that segment has become table rows.
        """
        self._folder = folder
        self._number = number
        self._current: SegmentReader | None = None
        if number:
            self._current = SegmentReader(file) if file else open_segment(folder / segment_name(number))
            while self._current.frames.offset < offset and next(self._current.read(()), None) is not None:
                continue  # later frames need those before them

    @property
    def place(self) -> tuple[int, int]:
        """The position after what was read: the number of a segment, and an offset in it."""
        return self._number, self._current.frames.offset if self._current else 0

    def read(self, most_inferences: int | None = None) -> Iterator[Batch]:
        """Everything since the last call; of more than `most_inferences` in a batch, only the last.

        Raises OSError if the journal is gone: the session is over; FellBehindError if a segment has become table rows
        before it was read.
        """
        while True:
            try:
                later = [number for number in segments(self._folder) if number > self._number]
            except FileNotFoundError:  # its last batches can still be read
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


SILENT_NS = 2_000_000_000  # a writer appends twice a second: after this its lock is checked


class JournalTail:
    """Follows a live session to its end."""

    def __init__(self, folder: FolderHandle, follower: Follower, clock: Clock) -> None:
        self._folder, self.follower, self._clock = folder, follower, clock
        self.has_ended = False  # the session; its tables may be incomplete
        self.is_over = False  # the session has ended and the whole journal was read
        self.last_read_ns = self._last_checked_ns = clock.monotonic_ns()

    def read(self, most_inferences: int | None = None) -> Batch | None:
        """What was appended since the last call; of more than `most_inferences` in a batch, only the last.

        Raises FellBehindError if the session must be read again: a part of the journal has become tables, or the
        writer died.
        """
        batches = []
        try:
            for batch in self.follower.read(most_inferences):
                batches.append(batch)  # one by one: those before an error count
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


# What the disk has not accepted, noted so that it outlives a writer that cannot write a single byte any more.
# The note is the name of an empty file in the journal, since a file can be renamed on a full disk:
# `unwritten-INFERENCES-NS-UNTIL`. Nothing else counts what is missing.

_UNWRITTEN = re.compile(r"unwritten-(\d{1,17})-(\d{1,18})-(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Unwritten:
    inferences: int = 0  # neither in the journal nor in the tables, when this was noted
    ns: int = 0  # session time in which they ran, without the time since the journal's last batch
    until_ns: int = 0  # session time at which something waited for the disk; it still does if the last batch is older

    @property
    def name(self) -> str:
        return f"unwritten-{self.inferences}-{self.ns}-{self.until_ns}"


class UnwrittenNote:
    """Writes what the disk did not take into the name of an empty file, which needs no space."""

    def __init__(self, journal: Path) -> None:
        """Raises OSError."""
        self._journal = journal
        self.noted = Unwritten()
        os.close(open_regular(journal / self.noted.name, os.O_RDWR | os.O_CREAT))

    def note(self, unwritten: Unwritten) -> None:
        """Rename the note. If even that fails, the folder is gone."""
        if unwritten == self.noted:
            return
        is_first = self.noted == Unwritten()
        with contextlib.suppress(OSError):
            (self._journal / self.noted.name).replace(self._journal / unwritten.name)
            self.noted = unwritten
            if is_first:
                sync_folder(self._journal)


def read_unwritten(journal: Path) -> Unwritten:
    """Return what a writer noted last."""
    try:
        notes = [match for name in names_in(journal) if (match := _UNWRITTEN.fullmatch(name))]
    except OSError:
        return Unwritten()
    return max((Unwritten(*map(int, match.groups())) for match in notes), key=lambda u: u.until_ns, default=Unwritten())
