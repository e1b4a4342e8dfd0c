"""Recording of a session while it runs. Each batch goes into the journal, and later from the journal into the tables.

A failing disk never stops the run. Batches that the disk does not accept wait in memory; if too many wait, rows are
dropped. Events tell when the disk begins to fail and when it works again. A `TableWriter` makes the tables from time to
time, and at the end.
"""

import contextlib
import os
import queue
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Literal

from edgetop import formatting
from edgetop.errors import InputError, RecordingError
from edgetop.recording.journal import SEGMENT_BYTES, Journal, Progress, TableJob
from edgetop.recording.removal import remove_session
from edgetop.recording.session_folder import (
    JOURNAL,
    FolderHandle,
    Retention,
    WriterLock,
    create_folder,
    has_journal,
    write_manifest,
)
from edgetop.recording.table_writer import InlineTableWriter, TableWriter
from edgetop.recording.unwritten import Unwritten, UnwrittenNote
from edgetop.session.batch import Batch, merge
from edgetop.session.event_kinds import RecordingCaughtUp, RecordingRestored, RecordingTrouble, Remark
from edgetop.session.events import Body, Event, Severity
from edgetop.session.manifest import Lost, Manifest, lost_in_all
from edgetop.session.partial_second import PartialSecond
from edgetop.session.records import NO_INFERENCES, NO_READINGS, NO_REQUESTS
from edgetop.session.seconds import NO_SECONDS, NS

# With the conductor's step and the engine's flush, a batch is in the journal well within a second.
JOURNAL_EVERY_NS = 450_000_000
RETRY_TABLES_NS = 10 * NS
# If the size of a session is limited, fractions of this limit (1/16, 1/16 and 1/8): the size of a piece of inferences,
# which is dropped as a whole; the largest segment; and the space that is freed at once.
_PIECES, _SEGMENTS, _ROOM = 16, 16, 8
_LEAST_SEGMENT_BYTES = 65_536
_TRIES = 2  # attempts to write the tables at the end, since the process that writes them may be killed
# Most rows that wait in memory while the disk fails. The limit of the other tables is half a day of seconds.
MAX_WAITING_INFERENCES, MAX_WAITING_ROWS = 65_536, 43_200
_RUN_WENT_ON = "the run itself went on"


class Recorder:
    """Writes one session's folder, from its creation to `finish`."""

    def __init__(
        self, folder: Path, manifest: Manifest, keep: Retention | None = None, tables: TableWriter | None = None
    ) -> None:
        """Create the session's folder. Raises InputError if that fails.

        `keep` says which data are recorded. `tables` writes the tables; by default, this happens in this process.
        """
        self._keep = keep or Retention()
        create_folder(folder)
        self._tables = tables or InlineTableWriter()
        self._progress = Progress()
        self._segment = 0  # number of the current segment when segments were last counted
        self._waiting: list[Batch] = []
        self._manifest: Manifest | None = None  # waits to be written
        self._now_ns = self._journalled_ns = self._synced_ns = self._tables_after_ns = 0
        self._accepted_ns = 0  # the journal has everything up to this time, except what was dropped
        self._received = self._accepted = 0  # inferences received: in all, and when the journal last accepted a batch
        self._gap = _Gap()
        load = manifest.load
        self._partial = PartialSecond(load.deadline_ns, is_paced=load.is_paced, split_by=manifest.split_by)
        self._tables_failed = self._drop_reported = False
        self._events: list[Event] = []
        max_bytes = self._keep.max_bytes
        segment_bytes = SEGMENT_BYTES
        if max_bytes is not None:
            segment_bytes = max(_LEAST_SEGMENT_BYTES, min(SEGMENT_BYTES, max_bytes // _SEGMENTS))
        try:
            self.handle = FolderHandle(folder)
            self._lock = WriterLock(self.handle.path)
            self._journal_file = Journal(self.handle.path / JOURNAL, self._keep.fsync_interval_ns, segment_bytes)
            self._note = UnwrittenNote(self.handle.path / JOURNAL)
            write_manifest(self.handle.path, manifest)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise InputError(f"{folder}: cannot be written: {error.strerror}", "record elsewhere with -o") from None

    @property
    def folder(self) -> Path:
        """The current path of the session's folder, which changes if the user moves the folder."""
        return self.handle.name

    def write(self, batch: Batch) -> tuple[Event, ...]:
        """Store a batch. Return events about the recording itself since the last call, such as a full disk."""
        self._now_ns = batch.until_ns
        self._received += len(batch.inferences)
        if not self._keep.raw:
            self._partial.add(batch.inferences, batch.seconds)
            batch = replace(batch, inferences=NO_INFERENCES, requests=NO_REQUESTS)
        self._waiting.append(batch)
        if batch.manifest is not None and batch.manifest.state == "live":  # `finish` writes the final one
            self._manifest = batch.manifest
        waiting = sum(len(waiting.inferences) for waiting in self._waiting)
        is_late = self._now_ns - self._journalled_ns >= JOURNAL_EVERY_NS
        if is_late or batch.manifest is not None or waiting >= MAX_WAITING_INFERENCES:
            self._journal()
        if self._now_ns - self._synced_ns >= self._keep.fsync_interval_ns:
            self._synced_ns = self._now_ns
            self._journal_file.sync()
        self._compact()
        events, self._events = self._events, []
        return tuple(events)

    def _journal(self) -> None:
        self._journalled_ns = self._now_ns
        gap = self._gap
        try:
            if self._waiting:
                self._waiting = [merge(self._waiting)]
                self._journal_file.append(self._waiting[0], self._partial.seconds())
                self._waiting = []
            if self._manifest is not None:
                write_manifest(self.handle.path, self._manifest)
                self._manifest = None
        except OSError as error:
            gap.error = error
            if not gap.is_open:
                gap.begin(self._now_ns, self._accepted_ns, error)
                text = f"{self._failure(error)} (the run itself goes on)"
                why = self.handle.why_gone or _reason(error)
                self._report(RecordingTrouble("recording-failed", why), "critical", text)
            if self._waiting:
                self._waiting = [gap.shortened(self._waiting[0], self._now_ns)]
                inferences = gap.missing_before + self._received - self._accepted
                self._note.note(Unwritten(inferences, gap.ns_before, self._now_ns))
        else:
            if gap.is_open:
                text = f"recording goes on after {formatting.duration(self._now_ns - gap.began_ns)}: {gap.missing}"
                self._report(RecordingRestored(gap.began_ns, gap.inferences, gap.rows), "warning", text)
                gap.end()
                self._note.note(Unwritten(gap.missing_before, gap.ns_before, self._accepted_ns))
            self._accepted, self._accepted_ns = self._received, self._now_ns

    def _compact(self) -> None:
        if self._gap.is_open or self._now_ns < self._tables_after_ns:
            return
        try:
            self._collect(wait=False)
            if not self._tables.is_busy and (job := self._job_due()):
                self._tables.begin(self.handle, self._lock, job)
                self._collect(wait=job.room_bytes is not None)  # the limit holds at every moment
        except OSError as error:
            self._tables_after_ns = self._now_ns + RETRY_TABLES_NS
            if not self._tables_failed:
                self._tables_failed = True
                why = _reason(error)
                text = f"{self.handle.name}: the tables cannot be written yet: {why}; the journal keeps everything"
                self._report(Remark("tables-delayed"), "warning", text)
        if self._progress.dropped_bytes and not self._drop_reported:
            self._drop_reported = True
            limit = formatting.size(self._keep.max_bytes or 0)
            text = f"--max-size {limit} is reached: from here on the oldest single inferences go, all seconds stay"
            self._report(Remark("raw-dropped"), "info", text)

    def _collect(self, *, wait: bool) -> None:
        try:
            self._progress = self._tables.result(wait=wait) or self._progress
        except InterruptedError:  # how many rows it moved is unknown
            self._progress = replace(self._progress, tally=None)
            raise

    def _job_due(self) -> TableJob | None:
        """Return a job that moves rows into the tables, or None if no job is needed now. Raises OSError.

        A job is needed if complete journal files wait, or if the folder is too large.
        """
        limit = self._keep.max_bytes
        journal = self._journal_file
        if limit is None and journal.number == self._segment and not self._tables_after_ns:
            return None
        number = journal.number if journal.is_open else journal.number + 1
        sizes = journal.sizes()
        if limit is None:
            self._segment = journal.number
            return TableJob(number, self._progress) if min(sizes, default=number) < number else None
        piece = limit // _PIECES
        most = limit - piece - journal.segment_bytes  # leaves room for the rows that are being moved
        names = ("catalog", "*.partial")
        pieces = (path for name in names for path in (self.handle.path / JOURNAL).glob(name))
        if sum(sizes.values()) + sum(path.stat().st_size for path in pieces) <= most:
            return None
        return TableJob(number, self._progress, piece, most - limit // _ROOM)

    def _report(self, body: Body, severity: Severity, text: str) -> None:
        self._events.append(Event(self._now_ns, body, severity, "edgetop", text))

    def finish(self, manifest: Manifest) -> Lost | None:
        """Publish the tables and the final manifest. Return what the recording lacks, or None if it is complete.

        Raises RecordingError if something could not be written, now or earlier. Rows that are not in the tables then
        stay in the journal, and opening the session later completes the tables.
        """
        failure = None
        lost = lost_in_all(manifest.lost, self._gap.lost_before())
        try:
            self._write_rest()
            self._journal_file.finish()
            lost = self._publish(replace(manifest, lost=lost)).lost
        except OSError as error:
            failure = error
        finally:
            self._close()
        if failure and (why := self.handle.why_gone):
            advice = "mount it again; edgetop report completes it. The run itself went on"
            if "deleted" in why:
                advice = (
                    "what was moved has come as far as it was then; what was deleted is lost. The run itself went on"
                )
            raise _error(f"{self.handle.name}: {why}: it is not complete", advice, lost)
        if failure and self._waiting:
            raise self._cut_short(manifest, failure)
        if failure:
            tables = f"{self._failure(failure)}: its tables are not complete"
            raise _error(tables, self._advice("completes them"), lost)
        if self._gap.first:
            raise _error(f"{self._failure(self._gap.first)}: {self._gap.missing}", _RUN_WENT_ON, lost)
        return lost

    def prepare_end(self) -> None:
        """Start the process that `finish` will need, so that the process is ready in time."""
        with contextlib.suppress(OSError):
            if not self._tables.is_busy:
                self._tables.prepare(self.handle, self._lock)

    def _publish(self, manifest: Manifest) -> Manifest:
        """Publish the tables.

        Return the final manifest, which says what is lost. After an OSError, the journal remains.
        """
        for attempt in range(_TRIES):
            with contextlib.suppress(OSError):  # the last job failed, but this one may succeed
                if self._tables.is_busy:
                    self._collect(wait=True)
            try:
                self._tables.begin(self.handle, self._lock, TableJob(0, self._progress, manifest=manifest))
                self._collect(wait=True)
                break
            except InterruptedError:
                if attempt == _TRIES - 1:
                    raise
        assert self._progress.manifest
        return self._progress.manifest

    def _write_rest(self) -> None:
        """Write the waiting batches and events into the journal. Raises OSError if the disk does not accept them."""
        if self._waiting or self._gap.is_open:
            self._journal()
        if self._events:
            self._waiting.append(Batch(self._now_ns, events=tuple(self._events)))
            self._journal()
        if self._waiting and self._gap.error:
            raise self._gap.error

    def _cut_short(self, manifest: Manifest, failure: OSError) -> RecordingError:
        """Make tables of what is in the journal. Return an error that says how much is missing at the session's end.

        `failure` is the error of the disk.
        """
        from edgetop.recording.recovery import recover  # noqa: PLC0415  loads Arrow

        inferences = self._gap.missing_before + self._received - self._accepted
        ns = self._gap.ns_before + self._now_ns - self._accepted_ns
        here = Lost(ns / NS, inferences, f"{_reason(failure)}, from {formatting.clock_time(self._accepted_ns)} on")
        is_complete = recover(self.handle.path) == "recovered"
        advice = _RUN_WENT_ON if is_complete else self._advice("makes tables of the rest")
        text = f"{self._failure(failure)}: its end lacks {here.words}"
        return _error(text, advice, lost_in_all(manifest.lost, here))

    def _advice(self, then: str) -> str:
        if not has_journal(self.handle.path):
            return _RUN_WENT_ON
        return f"free space; edgetop report {then}. T{_RUN_WENT_ON[1:]}"

    def discard(self) -> None:
        """Close the session and remove its folder. Call this if nothing ran in the session."""
        self._close()
        if not self.handle.why_gone:
            with contextlib.suppress(OSError, RecordingError):
                remove_session(self.handle.name)

    def _close(self) -> None:
        self._journal_file.end()
        self._tables.close()
        self._lock.release()

    def _failure(self, error: OSError) -> str:
        return f"{self.handle.name}: cannot be recorded: {self.handle.why_gone or _reason(error)}"


def _error(text: str, advice: str, lost: Lost | None) -> RecordingError:
    failure = RecordingError(text, advice)
    failure.lost = lost
    return failure


def _reason(error: OSError) -> str:
    """Return the cause of an error in the system's words, such as "No space left on device"."""
    return os.strerror(error.errno) if error.errno else str(error)


class _Gap:
    """Counts the rows that were dropped in gaps: times in which the disk accepted nothing."""

    def __init__(self) -> None:
        self.first: OSError | None = None
        self.error: OSError | None = None  # the last error
        self.is_open = False
        self.began_ns = 0
        self.inferences = self.rows = 0  # dropped inferences, and dropped rows of the other tables
        self.missing_before = self.ns_before = 0  # inferences dropped in closed gaps, and the time in which they ran
        self._ns = self._since_ns = 0  # time dropped in this gap, and when the rows that wait began

    def begin(self, now_ns: int, since_ns: int, error: OSError) -> None:
        self.first = self.first or error
        self.is_open, self.began_ns, self._since_ns, self._ns = True, now_ns, since_ns, 0

    def end(self) -> None:
        self.is_open = False
        self.missing_before = self.inferences
        self.ns_before += self._ns

    def lost_before(self) -> Lost | None:
        """Return what was lost in past gaps, or None if nothing was lost."""
        why = "the disk took nothing for a time: it was full, or failed"
        return Lost(self.ns_before / NS, self.missing_before, why) if self.ns_before else None

    def shortened(self, waiting: Batch, now_ns: int) -> Batch:
        """Return a waiting batch without the rows that exceed the limits of memory, and count the dropped rows.

        `now_ns` is the current session time.
        """
        dropped = self.inferences + self.rows
        if len(waiting.inferences) > MAX_WAITING_INFERENCES:
            self.inferences += len(waiting.inferences)
            waiting = replace(waiting, inferences=NO_INFERENCES, requests=NO_REQUESTS)
        for name, nothing in (("readings", NO_READINGS), ("seconds", NO_SECONDS)):
            if (rows := len(getattr(waiting, name))) > MAX_WAITING_ROWS:
                self.rows += rows
                waiting = replace(waiting, **{name: nothing})  # type: ignore[arg-type]  # a field of its own type
        if len(waiting.events) > MAX_WAITING_ROWS:
            self.rows += len(waiting.events) - MAX_WAITING_ROWS
            waiting = replace(waiting, events=waiting.events[-MAX_WAITING_ROWS:])
        if (operators := sum(map(len, waiting.bursts))) > MAX_WAITING_ROWS:
            self.rows += operators
            waiting = replace(waiting, bursts=())
        if self.inferences + self.rows > dropped:
            self._ns, self._since_ns = self._ns + now_ns - self._since_ns, now_ns
        return waiting

    @property
    def missing(self) -> str:
        if not self.inferences and not self.rows:
            return "nothing is missing"
        rows = f" and {formatting.quantity(self.rows, 'other row')}" if self.rows else ""
        return f"{formatting.quantity(self.inferences, 'inference', str)}{rows} missing"


MAX_QUEUED_INFERENCES = 1_000_000  # 27 MB; if more wait, single inferences are dropped, but seconds are kept


class BackgroundRecorder:
    """Runs a recorder on its own thread, so that an SD card that stalls for seconds does not delay the caller.

    Only `finish` and `discard` wait for the thread.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._queue: queue.SimpleQueue[Batch | Literal["prepare"] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_inferences = self._last_ns = 0
        self._behind = self._dropped = self._dropped_ns = 0  # dropped inferences: since the disk fell behind, in all
        self._events: list[Event] = []
        self._defect: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def write(self, batch: Batch) -> tuple[Event, ...]:
        """Queue a batch. Return the events about the recording of earlier batches.

        Raises the error of recording an earlier batch, if there was one.
        """
        with self._lock:
            self._enqueue(batch)
            defect, self._defect = self._defect, None
            if defect:
                raise defect
            events, self._events = self._events, []
        return tuple(events)

    def _enqueue(self, batch: Batch) -> None:
        """Queue a batch, without its inferences if too many inferences are waiting already."""
        if self._waiting_inferences + len(batch.inferences) > MAX_QUEUED_INFERENCES:
            if not self._behind:
                text = "the disk is too slow: inferences are not recorded until it has caught up; all seconds are"
                body = RecordingTrouble("recording-behind", "the disk is too slow")
                self._events.append(Event(batch.until_ns, body, "critical", "edgetop", text))
            self._behind += len(batch.inferences)
            self._dropped += len(batch.inferences)
            self._dropped_ns += batch.until_ns - self._last_ns
            batch = replace(batch, inferences=NO_INFERENCES, requests=NO_REQUESTS)
        elif self._behind and len(batch.inferences):
            text = f"the disk has caught up: {formatting.quantity(self._behind, 'inference', str)} missing"
            caught_up = RecordingCaughtUp(self._behind)
            self._events.append(Event(batch.until_ns, caught_up, "warning", "edgetop", text))
            self._behind = 0
        self._last_ns = batch.until_ns
        self._waiting_inferences += len(batch.inferences)
        self._queue.put(batch)

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            if batch == "prepare":
                self._recorder.prepare_end()
                continue
            events: tuple[Event, ...] = ()
            try:
                events = self._recorder.write(batch)
            except Exception as error:  # noqa: BLE001  a defect of edgetop: the next write raises it, recording goes on
                self._defect = error
            with self._lock:
                self._events.extend(events)
                self._waiting_inferences -= len(batch.inferences)

    def prepare_end(self) -> None:
        """Prepare for `finish`, which the caller will call soon."""
        self._queue.put("prepare")

    def _end(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def finish(self, manifest: Manifest) -> Lost | None:
        """Finish the recording. Return what the recording lacks, or None if it is complete.

        Raises RecordingError if something could not be written.
        """
        self._end()
        if self._events:  # no caller will ask for them, but the recording must have them
            self._recorder.write(Batch(self._last_ns, events=tuple(self._events)))
        here = Lost(self._dropped_ns / NS, self._dropped, "the disk was too slow") if self._dropped else None
        lost = self._recorder.finish(replace(manifest, lost=lost_in_all(manifest.lost, here)))
        if here:
            missing = formatting.quantity(here.inferences, "inference", str)
            raise _error(f"{here.why}: {missing} missing", _RUN_WENT_ON, lost)
        return lost

    def discard(self) -> None:
        self._end()
        self._recorder.discard()
