"""The journal: every batch is here within a second, before it is anywhere else.

Numbered segments of frames in `journal/`, one writer, any number of readers. A segment that is
full is turned into table rows and removed (`compaction`); what is still here when a writer has
died is what its tables lack. After an error of the disk, writing goes on in a new segment, so
that nothing is ever appended to a torn frame.
"""

import contextlib
import os
import re
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetop.recording.files import Descriptor, names_in, open_regular, sync_folder, write_all
from edgetop.recording.frames import ALONE, DEFLATED, REFERENCE, Frame, FrameReader, seal
from edgetop.recording.packing import (
    KINDS,
    TALLY_STEP_NS,
    Tally,
    begun_of,
    deflated,
    inflated,
    interval_of,
    pack,
    pack_begun,
    pack_interval,
    pack_tally,
    tallies_of,
    unpack,
)
from edgetop.session.batch import Batch
from edgetop.session.manifest import Lost, Manifest
from edgetop.session.seconds import NO_SECONDS, NS, Seconds

if TYPE_CHECKING:  # loads Arrow
    from edgetop.recording.arrow_frames import EarlierFrames
from edgetop.recording.files import FolderHandle, is_live
from edgetop.session.batch import merge
from edgetop.session.clock import Clock

SEGMENT_BYTES = 8 * 1024 * 1024
SEGMENT_NS = 600 * NS
# From one reference to the next. With it small batches take half of what they would. It is written again with the next
# batch and in the middle of its run, since without it all of the run is lost.
RUN_NS = SEGMENT_NS
REFERENCE_BYTES = 16 * 1024
_GROWS = 8  # a sample so many times as long is a better one
_PIECE_BYTES = REFERENCE_BYTES // 4  # of one batch at most
_RUNS = 2**24
_MOST_MISSED = 2**60

_NAME = re.compile(r"(\d{8})\.journal")


def segment_name(number: int) -> str:
    return f"{number:08}.journal"


def segments(folder: Path) -> list[int]:
    """The numbers of the segments that lie in `folder`, in their order. Raises OSError where it cannot be listed."""
    return sorted(int(match[1]) for name in names_in(folder) if (match := _NAME.fullmatch(name)))


class Journal:
    """The writer's side."""

    def __init__(self, folder: Path, fsync_interval_ns: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """`fsync_interval_ns`: how often `sync` will be called, for a recovery to know."""
        self._folder = folder
        self._fsync_interval_ns = fsync_interval_ns
        self.segment_bytes = segment_bytes
        self._sync = BackgroundSync()
        self._manifest: Manifest | None = None
        self._fd = -1
        self._begun_ns = 0
        self._reference = _Reference()
        self._tally = Tally()
        self.number = 0  # of the segment that is being written, or was last
        self.size = 0  # of that segment

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def sizes(self) -> dict[int, int]:
        """Of each segment that is not a part of the tables, by its number. Raises OSError."""
        return {number: (self._folder / segment_name(number)).stat().st_size for number in segments(self._folder)}

    def append(self, batch: Batch, begun: Seconds = NO_SECONDS) -> None:
        """`begun`: the second that is not complete, where its inferences are not kept.

        Raises OSError where the disk does not take it; nothing of it is kept then.
        """
        self._manifest = batch.manifest or self._manifest
        try:
            self._sync.raise_failure()
            if self.is_open and (self.size >= self.segment_bytes or batch.until_ns - self._begun_ns >= SEGMENT_NS):
                os.fdatasync(self._fd)  # `sync` will not see it again
                self.close()
            prologue = b""
            if not self.is_open:
                self._open(batch.until_ns)  # it begins with the manifest, which names the sensors of its readings
                batch = replace(batch, manifest=self._manifest)
                prologue = pack_interval(self._fsync_interval_ns)
            after = self._tally.after(batch)
            self._write(prologue, pack(batch) + pack_begun(begun) + pack_tally(self._tally, after), batch.until_ns)
            self._tally = after
        except OSError:
            self._give_up()
            raise

    def _open(self, now_ns: int) -> None:
        self.number += 1
        self._fd = open_regular(self._folder / segment_name(self.number), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self.size, self._begun_ns = 0, now_ns
        self._reference.copies = 0

    def _write(self, prologue: bytes, payload: bytes, until_ns: int) -> None:
        reference, whole = self._reference, prologue + payload
        frames = reference.frame_for(payload, until_ns)
        frames += seal(ALONE | DEFLATED, until_ns, deflated(whole, reference.sample), len(whole), reference.run)
        write_all(self._fd, frames, self.size)
        self.size += len(frames)

    def _give_up(self) -> None:
        """Leave what is whole, and go on in another segment."""
        if not self.is_open:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self.size)
        if not self.size:
            with contextlib.suppress(OSError):
                (self._folder / segment_name(self.number)).unlink()
        self.close()

    def sync(self) -> None:
        """Have the disk keep what was appended, without waiting for it. A failure is told by the next `append`."""
        if self.is_open:
            self._sync.begin(self._fd, self._folder)

    def close(self) -> None:
        """The segment is complete; the next batch begins another."""
        if self.is_open:
            os.close(self._fd)
            self._fd = -1

    def finish(self) -> None:
        """Close it for good, on the disk. Raises OSError where that failed."""
        self._sync.wait()
        self._sync.raise_failure()
        if self.is_open:
            os.fdatasync(self._fd)
            sync_folder(self._folder)
        self.close()


class _Reference:
    """The beginnings of some payloads, as which those of its run are packed."""

    def __init__(self) -> None:
        self.run = 0
        self.sample = b""
        self.copies = 0  # of it in this segment
        self._begun_ns = 0
        self._recent = b""

    def frame_for(self, payload: bytes, until_ns: int) -> bytes:
        """What is to be written before this payload: a new reference, another copy of this one, or nothing."""
        self._recent = (self._recent + payload[:_PIECE_BYTES])[-REFERENCE_BYTES:]
        lasted_ns = until_ns - self._begun_ns
        enough = min(_GROWS * len(self.sample), REFERENCE_BYTES)
        is_better = len(self.sample) < REFERENCE_BYTES and len(self._recent) >= enough
        if lasted_ns >= RUN_NS or is_better:
            self.run, self.sample, self.copies = (self.run + 1) % _RUNS, self._recent, 0
            self._begun_ns = until_ns
        elif self.copies > 2 or (self.copies == 2 and lasted_ns < RUN_NS // 2):
            return b""
        self.copies += 1
        return seal(REFERENCE | DEFLATED, until_ns, deflated(self.sample), len(self.sample), self.run)


class BackgroundSync:
    """fdatasync(2) on a thread: an SD card may take seconds for it, in which batches go on arriving."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    def begin(self, fd: int, folder: Path) -> None:
        """Unless one is still under way."""
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
    """What damaged frames held, as those around them tell."""

    ns: int = 0  # of session time
    inferences: int = 0  # single ones
    counted: int = 0  # inferences that the seconds in them counted
    is_counted: bool = True  # False: inferences may be missing beside these

    def after(self, read: Tally | None, before: Tally, *, is_damaged: bool) -> "Missing":
        """`read`: what was found by then, None: not known; `before`: what had been written by then."""
        if read is None:
            return replace(self, is_counted=self.is_counted and not is_damaged)
        ns = _missed(read.until_ns, before.until_ns)
        inferences, counted = _missed(read.inferences, before.inferences), _missed(read.counted, before.counted)
        return self.with_more(Missing(ns if ns >= TALLY_STEP_NS else 0, inferences, counted))

    def with_more(self, other: "Missing") -> "Missing":
        return Missing(
            self.ns + other.ns,
            self.inferences + other.inferences,
            self.counted + other.counted,
            self.is_counted and other.is_counted,
        )

    def lost(self, tally: Tally | None) -> Lost | None:
        """`tally`: of all that was written; where no single inferences were kept, it is those that seconds counted."""
        inferences = self.inferences if tally is None or tally.inferences else self.counted
        if not (self.ns or inferences) and self.is_counted:
            return None
        return Lost(self.ns / NS, inferences if self.is_counted else None, "damaged bytes in the journal")


def _missed(found: int, written: int) -> int:
    """Bounded: another program may have written any number."""
    return max(0, min(written - found, _MOST_MISSED))


class SegmentReader:
    """The batches of one segment, also while it grows."""

    def __init__(self, file: Descriptor, end: int | None = None, before: Tally | None = None) -> None:
        """`end`: read no further, whatever is appended. `before`: what the segments before it hold, where known."""
        self.file = file
        self.frames = FrameReader(file.fd, end)
        self._earlier: EarlierFrames | None = None
        self._references: dict[int, Frame] = {}
        self._dictionary: tuple[Frame | None, bytes] = (None, b"")  # the reference used last, inflated
        self._undecoded_bytes = self._seen_damage = self._until_ns = 0
        self.missing = Missing()
        self.tally = before  # with the last batch that was read
        self.first_tally: Tally | None = None  # before the first batch that was read
        self.fsync_interval_ns: int | None = None  # of the writer, where the segment has said it
        self.begun = NO_SECONDS  # the last second that was written before it was complete

    @property
    def offset(self) -> int:
        return self.frames.offset

    @property
    def damaged_bytes(self) -> int:
        """What was passed over."""
        return self.frames.damaged_bytes + self._undecoded_bytes

    @property
    def is_spoilt(self) -> bool:
        """There are bytes in it that could not be read."""
        return bool(self.damaged_bytes or self.frames.tail_bytes())

    def read(self, wanted: Collection[str] = tuple(KINDS), most_inferences: int | None = None) -> Iterator[Batch]:
        """Every batch that is whole by now, with what is wanted of it; of more than so many inferences, the last."""
        for frame in self.frames.read():
            if frame.is_reference:
                self._references[frame.run] = frame
                continue
            try:
                batch = self._batch(frame, wanted, most_inferences)
            except ValueError:
                self._undecoded_bytes += len(frame.payload)
            else:
                self._seen_damage = self.damaged_bytes
                yield batch

    def _batch(self, frame: Frame, wanted: Collection[str], most_inferences: int | None) -> Batch:
        if not frame.is_deflated:
            return self._earlier_batch(frame, wanted, most_inferences)
        payload = inflated(frame.payload, frame.unpacked_bytes, self._reference_of(frame))
        batch = unpack(payload, frame.number, wanted, most_inferences)
        self._note(frame, payload, begun_of(payload))
        return batch

    def _reference_frame(self, run: int) -> Frame:
        reference = self._references.get(run) or self.frames.next_reference(run)
        if reference is None:
            raise ValueError("its reference is missing")
        self._references = {run: reference}
        return reference

    def _reference_of(self, frame: Frame) -> bytes:
        reference = self._reference_frame(frame.run)
        if self._dictionary[0] is not reference:
            self._dictionary = reference, inflated(reference.payload, reference.unpacked_bytes)
        return self._dictionary[1]

    def _earlier_batch(self, frame: Frame, wanted: Collection[str], most_inferences: int | None) -> Batch:
        """Of an earlier version, which wrote Arrow messages."""
        if self._earlier is None:
            from edgetop.recording.arrow_frames import EarlierFrames  # noqa: PLC0415  loads Arrow

            self._earlier = EarlierFrames()
        reference = self._reference_frame(frame.run) if frame.is_alone else None
        payload = self._earlier.payload_of(frame, reference, is_gap=self.damaged_bytes > self._seen_damage)
        batch = self._earlier.unpack(payload, frame.number, wanted, most_inferences)
        self._note(frame, payload, self._earlier.begun_of(payload))
        return batch

    def _note(self, frame: Frame, payload: bytes, begun: Seconds | None) -> None:
        self.fsync_interval_ns = interval_of(payload) or self.fsync_interval_ns
        self.begun = begun or self.begun
        is_damaged = self.damaged_bytes > self._seen_damage
        tallies = tallies_of(payload, frame.number)
        if tallies is not None:
            self.missing = self.missing.after(self.tally, tallies[0], is_damaged=is_damaged)
            self.tally = tallies[1]
            self.first_tally = self.first_tally or tallies[0]
        else:  # of an earlier version: the times are all that is known
            if is_damaged:
                missing = self.missing.after(Tally(self._until_ns), Tally(frame.number), is_damaged=True)
                self.missing = replace(missing, is_counted=False)
            self._until_ns = frame.number

    def skip(self) -> None:
        """To the end of what is whole by now, without unpacking it."""
        for _ in self.frames.read():
            pass

    def skip_to(self, offset: int) -> None:
        """Unpack, for the sake of what comes after it, and go on behind `offset`."""
        while self.offset < offset and next(self.read(()), None) is not None:
            pass


class FellBehindError(Exception):
    """A follower must begin anew, with the tables."""


class Follower:
    """Every batch that a writer appends, from a segment on, as it comes."""

    def __init__(self, folder: Path, current: SegmentReader | None, number: int) -> None:
        """`current`: where to go on, in segment `number`; None: at the beginning of the first after it."""
        self._folder = folder
        self._current = current
        self._number = number

    @property
    def place(self) -> tuple[int, int]:
        """Behind what was read: the number of a segment, and bytes of it."""
        return self._number, self._current.offset if self._current else 0

    def read(self, most_inferences: int | None = None) -> Iterator[Batch]:
        """Everything since the last time; of more than `most_inferences` in a batch, the last.

        Raises OSError where the journal is gone: the session is over; FellBehindError where a segment has become
        table rows unread.
        """
        while True:
            try:
                later = [number for number in segments(self._folder) if number > self._number]
            except FileNotFoundError:  # its last words can still be read
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


def follow_from(folder: Path, number: int, offset: int) -> Follower:
    """A follower at the place where another one was. Raises OSError where that segment has become table rows."""
    if not number:
        return Follower(folder, None, 0)
    current = open_segment(folder / segment_name(number))
    current.skip_to(offset)
    return Follower(folder, current, number)


def open_segment(path: Path) -> SegmentReader:
    """Raises OSError where it cannot be read."""
    return SegmentReader(Descriptor(open_regular(path)))


SILENT_NS = 2_000_000_000  # a writer appends twice a second: after this its lock is looked at


class JournalTail:
    def __init__(self, folder: FolderHandle, follower: Follower, clock: Clock) -> None:
        self._folder, self._follower, self._clock = folder, follower, clock
        self.has_ended = False  # the session; its tables may not be complete yet
        self.is_over = False  # and they are: all of the journal was read
        self.last_read_ns = self._last_checked_ns = clock.monotonic_ns()

    @property
    def place(self) -> tuple[int, int]:
        """Behind what was read: the number of a segment, and bytes of it."""
        return self._follower.place

    def read(self, most_inferences: int | None = None) -> Batch | None:
        """What was appended since the last time; of more inferences in a piece than that, the last.

        Raises FellBehindError where the session must be read anew: a part of the journal has become tables, or the
        writer died.
        """
        batches = []
        try:
            for batch in self._follower.read(most_inferences):
                batches.append(batch)  # one by one: what came before an error counts
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


# What the disk has not taken, noted so that it outlives a writer to whom the disk gives no byte any more.
# The note is the name of an empty file in the journal, for a file can be renamed on a full disk:
# `unwritten-INFERENCES-NS-UNTIL`. Nothing is written into it, and nothing else counts what is missing.

_UNWRITTEN = re.compile(r"unwritten-(\d{1,17})-(\d{1,18})-(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Unwritten:
    inferences: int = 0  # neither in the journal nor in the tables, when this was noted
    ns: int = 0  # session time in which they ran, without that since the journal's last batch
    until_ns: int = 0  # session time at which something waited for the disk; behind the last batch: it still does

    @property
    def name(self) -> str:
        return f"unwritten-{self.inferences}-{self.ns}-{self.until_ns}"


class UnwrittenNote:
    """The writer's side."""

    def __init__(self, journal: Path) -> None:
        """Raises OSError."""
        self._journal = journal
        self.noted = Unwritten()
        os.close(open_regular(journal / self.noted.name, os.O_RDWR | os.O_CREAT))

    def note(self, unwritten: Unwritten) -> None:
        """Where even that is not possible, the folder is gone."""
        if unwritten == self.noted:
            return
        is_first = self.noted == Unwritten()
        with contextlib.suppress(OSError):
            (self._journal / self.noted.name).replace(self._journal / unwritten.name)
            self.noted = unwritten
            if is_first:
                sync_folder(self._journal)


def read_unwritten(journal: Path) -> Unwritten:
    """What a writer noted last; nothing, where it is of an earlier version."""
    try:
        found = [match for name in names_in(journal) if (match := _UNWRITTEN.fullmatch(name))]
    except OSError:
        return Unwritten()
    return max((Unwritten(*map(int, match.groups())) for match in found), key=lambda u: u.until_ns, default=Unwritten())
