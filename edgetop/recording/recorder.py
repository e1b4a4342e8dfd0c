"""Writes a session down as it goes on: into the journal first, and from there into its tables.

A disk that fails never stops the run. What it does not take waits in memory while that is
little, then single inferences are given up; both ends of the gap are told. The tables are made
by a `TableWriter`, now and then and at the end.
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
from edgetop.recording.files import (
    JOURNAL,
    HeldFolder,
    Retention,
    WriterLock,
    create_folder,
    has_journal,
    write_manifest,
)
from edgetop.recording.journal import SEGMENT_BYTES, Journal, Unwritten, UnwrittenNote
from edgetop.recording.table_writer import Done, Order, TableWriter
from edgetop.session.batch import Batch, merge
from edgetop.session.events import Event, JsonValue, Severity
from edgetop.session.manifest import Lost, Manifest, lost_in_all
from edgetop.session.records import NO_INFERENCES, NO_READINGS
from edgetop.session.seconds import NO_SECONDS, NS, BegunSecond

# With the conductor's step and the engine's flush, a batch is in the journal well within a second.
JOURNAL_EVERY_NS = 450_000_000
RETRY_TABLES_NS = 10 * NS
# With a limit on the size: how finely old inferences are dropped, how much of the limit a segment may take, and how
# much room is made at once.
_PIECES, _SEGMENTS, _ROOM = 16, 16, 8
_LEAST_SEGMENT_BYTES = 65_536
_TRIES = 2  # to write the tables at the end: who does it may be killed
# What waits for a disk that fails. Seconds: half a day of them.
MAX_WAITING_INFERENCES, MAX_WAITING_ROWS = 65_536, 43_200


class Recorder:
    """One session's folder, from its making to `finish`."""

    def __init__(
        self, folder: Path, manifest: Manifest, keep: Retention | None = None, tables: TableWriter | None = None
    ) -> None:
        """Make the folder. Raises InputError where it cannot be, before anything runs.

        `tables`: who writes them; this process where there is none.
        """
        self._keep = keep or Retention()
        create_folder(folder)
        self._tables = tables or _here()
        self._done = Done()
        self._segment = 0  # that was written when segments were last counted
        self._waiting: list[Batch] = []
        self._manifest: Manifest | None = None  # to be written
        self._now_ns = self._journalled_ns = self._synced_ns = self._tables_after_ns = 0
        self._taken_ns = 0  # up to there the journal has everything but what was given up
        self._came = self._taken = 0  # inferences: in all, and when the journal took a batch last
        self._gap = _Gap()
        self._begun = BegunSecond(manifest.load.deadline_ns, is_paced=manifest.load.is_paced)
        self._tables_failed = self._said_dropped = False
        self._news: list[Event] = []
        try:
            self.held = HeldFolder(folder)
            self._lock = WriterLock(self.held.path)
            self._journal_file = Journal(self.held.path / JOURNAL, self._keep.fsync_interval_ns, self._segment_bytes)
            self._note = UnwrittenNote(self.held.path / JOURNAL)
            write_manifest(self.held.path, manifest)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise InputError(f"{folder}: cannot be written: {error.strerror}", "record elsewhere with -o") from None

    @property
    def folder(self) -> Path:
        """Where it is now: it may have been moved."""
        return self.held.name

    def write(self, batch: Batch) -> tuple[Event, ...]:
        """Take in a batch; what is to be told about the recording itself since the last one."""
        self._now_ns = batch.until_ns
        self._came += len(batch.inferences)
        if not self._keep.raw:
            self._begun.on_event(batch.inferences, batch.seconds)
            batch = replace(batch, inferences=NO_INFERENCES)
        self._waiting.append(batch)
        if batch.manifest is not None and batch.manifest.state == "live":  # else only with all tables there
            self._manifest = batch.manifest
        if self._is_due(batch):
            self._journal()
        if self._now_ns - self._synced_ns >= self._keep.fsync_interval_ns:
            self._synced_ns = self._now_ns
            self._journal_file.sync()
        self._compact()
        news, self._news = self._news, []
        return tuple(news)

    def _is_due(self, batch: Batch) -> bool:
        waiting = sum(len(waiting.inferences) for waiting in self._waiting)
        late = self._now_ns - self._journalled_ns >= JOURNAL_EVERY_NS
        return late or batch.manifest is not None or waiting >= MAX_WAITING_INFERENCES

    @property
    def _segment_bytes(self) -> int:
        if self._keep.max_bytes is None:
            return SEGMENT_BYTES
        return max(_LEAST_SEGMENT_BYTES, min(SEGMENT_BYTES, self._keep.max_bytes // _SEGMENTS))

    def _journal(self) -> None:
        self._journalled_ns = self._now_ns
        try:
            if self._waiting:
                self._waiting = [merge(self._waiting)]
                self._journal_file.append(self._waiting[0], self._begun.seconds())
                self._waiting = []
            if self._manifest is not None:
                write_manifest(self.held.path, self._manifest)
                self._manifest = None
        except OSError as error:
            self._fail(error)
            if self._waiting:
                self._waiting = [self._gap.shortened(self._waiting[0], self._now_ns)]
                inferences = self._gap.missing_before + self._came - self._taken
                self._note.note(Unwritten(inferences, self._gap.ns_before, self._now_ns))
        else:
            self._tell_end_of_gap()
            self._taken, self._taken_ns = self._came, self._now_ns

    def _fail(self, error: OSError) -> None:
        self._gap.error = error
        if not self._gap.is_open:
            self._gap.begin(self._now_ns, self._taken_ns, error)
            text = f"{self._cannot(error)} (the run itself goes on)"
            self._tell("recording-failed", "critical", text, why=self.held.fate or _words(error))

    def _tell_end_of_gap(self) -> None:
        if self._gap.is_open:
            lasted = formatting.duration(self._now_ns - self._gap.began_ns)
            text = f"recording goes on after {lasted}: {self._gap.lost()}"
            data = {"began_ns": self._gap.began_ns, "inferences": self._gap.inferences, "rows": self._gap.rows}
            self._tell("recording-restored", "warning", text, **data)
            self._gap.end()
            self._note.note(Unwritten(self._gap.missing_before, self._gap.ns_before, self._taken_ns))

    def _compact(self) -> None:
        if self._gap.is_open or self._now_ns < self._tables_after_ns:
            return
        try:
            self._collect(wait=False)
            if not self._tables.is_busy and (order := self._order_due()):
                self._tables.begin(self.held, self._lock, order)
                self._collect(wait=order.room_bytes is not None)  # the limit holds at every moment
        except OSError as error:
            self._tables_after_ns = self._now_ns + RETRY_TABLES_NS
            if not self._tables_failed:
                self._tables_failed = True
                why = _words(error)
                text = f"{self.held.name}: the tables cannot be written yet: {why}; the journal keeps everything"
                self._tell("tables-delayed", "warning", text)
        if self._done.dropped_bytes and not self._said_dropped:
            self._said_dropped = True
            limit = formatting.size(self._keep.max_bytes or 0)
            text = f"--max-size {limit} is reached: from here on the oldest single inferences go, all seconds stay"
            self._tell("raw-dropped", "info", text)

    def _collect(self, *, wait: bool) -> None:
        try:
            self._done = self._tables.result(wait=wait) or self._done
        except InterruptedError:  # how far it came is not known
            self._done = replace(self._done, tally=None)
            raise

    def _order_due(self) -> Order | None:
        """What the tables lack, where that is enough, or too much for the limit. Raises OSError."""
        limit = self._keep.max_bytes
        if limit is None and self._journal_file.number == self._segment and not self._tables_after_ns:
            return None
        number = self._journal_file.number if self._journal_file.is_open else self._journal_file.number + 1
        sizes = self._journal_file.sizes()
        if limit is None:
            self._segment = self._journal_file.number
            return Order(number, self._done) if min(sizes, default=number) < number else None
        piece = limit // _PIECES
        most = limit - piece - self._journal_file.segment_bytes  # room for what is being moved
        names = ("catalog", "*.partial")
        pieces = (path for name in names for path in (self.held.path / JOURNAL).glob(name))
        if sum(sizes.values()) + sum(path.stat().st_size for path in pieces) <= most:
            return None
        return Order(number, self._done, piece, most - limit // _ROOM)

    def _tell(self, kind: str, severity: Severity, text: str, **data: JsonValue) -> None:
        self._news.append(Event(self._now_ns, kind, severity, "edgetop", text, data))

    def finish(self, manifest: Manifest) -> Lost | None:
        """Publish the tables and the last manifest; what is not in them.

        Raises RecordingError where something could not be written, then or before. What the disk has not taken
        in tables stays in the journal, and opening the session completes it.
        """
        failure = None
        lost = lost_in_all(manifest.lost, self._gap.in_all())
        try:
            self._write_rest()
            self._journal_file.finish()
            lost = self._publish(replace(manifest, lost=lost)).lost
        except OSError as error:
            failure = error
        finally:
            self._journal_file.close()
            self._tables.close()
            self._lock.release()
        if failure and (fate := self.held.fate):
            raise _failed(f"{self.held.name}: {fate}: it is not complete", _advice(fate), lost)
        if failure and self._waiting:
            raise self._cut_short(manifest, failure)
        if failure:
            tables = f"{self._cannot(failure)}: its tables are not complete"
            raise _failed(tables, self._advice("completes them"), lost)
        if self._gap.first:
            raise _failed(f"{self._cannot(self._gap.first)}: {self._gap.lost()}", "the run itself went on", lost)
        return lost

    def prepare_end(self) -> None:
        """`finish` will be called soon."""
        with contextlib.suppress(OSError):
            if not self._tables.is_busy:
                self._tables.prepare(self.held, self._lock)

    def _publish(self, manifest: Manifest) -> Manifest:
        """The manifest with what is lost. Raises OSError; the journal then stays."""
        for _ in range(_TRIES):
            try:
                if self._tables.is_busy:  # still with the last order
                    self._collect(wait=True)
            except OSError:  # as it may be with this one
                pass
            try:
                self._tables.begin(self.held, self._lock, Order(0, self._done, manifest=manifest))
                self._collect(wait=True)
                break
            except InterruptedError as error:
                killed = error
        else:
            raise killed
        assert self._done.manifest
        return self._done.manifest

    def _write_rest(self) -> None:
        """Raises OSError where the disk does not take it."""
        if self._waiting or self._gap.is_open:
            self._journal()
        if self._news:
            self._waiting.append(Batch(self._now_ns, events=tuple(self._news)))
            self._journal()
        if self._waiting and self._gap.error:
            raise self._gap.error

    def _cut_short(self, manifest: Manifest, failure: OSError) -> RecordingError:
        """The disk did not take the end: what it has taken becomes tables, now or when there is room."""
        from edgetop.recording.recovery import recover  # noqa: PLC0415  loads Arrow

        inferences = self._gap.missing_before + self._came - self._taken
        ns = self._gap.ns_before + self._now_ns - self._taken_ns
        here = Lost(ns / NS, inferences, f"{_words(failure)}, from {formatting.clock_time(self._taken_ns)} on")
        is_complete = recover(self.held.path) == "recovered"
        advice = "the run itself went on" if is_complete else self._advice("makes tables of the rest")
        text = f"{self._cannot(failure)}: {here.words} are missing at its end"
        return _failed(text, advice, lost_in_all(manifest.lost, here))

    def _advice(self, then: str) -> str:
        went_on = "the run itself went on"
        return f"free space; edgetop report {then}. T{went_on[1:]}" if has_journal(self.held.path) else went_on

    def discard(self) -> None:
        """Remove a session in which nothing ran."""
        self._journal_file.close()
        self._tables.close()
        self._lock.release()
        if not self.held.fate:
            shutil.rmtree(self.held.name, ignore_errors=True)

    def _cannot(self, error: OSError) -> str:
        return f"{self.held.name}: cannot be recorded: {self.held.fate or _words(error)}"


def _here() -> TableWriter:
    from edgetop.recording.compaction import HereTableWriter  # noqa: PLC0415  loads Arrow

    return HereTableWriter()


def _advice(fate: str) -> str:
    if "deleted" in fate:
        return "what was moved has come as far as it was then; what was deleted is lost. The run itself went on"
    return "mount it again; edgetop report completes it. The run itself went on"


def _failed(text: str, advice: str, lost: Lost | None) -> RecordingError:
    failure = RecordingError(text, advice)
    failure.lost = lost
    return failure


def _words(error: OSError) -> str:
    """Those of the system: Arrow wraps them in its own."""
    return os.strerror(error.errno) if error.errno else str(error)


class _Gap:
    """What the disk has not taken, from its first refusal on."""

    def __init__(self) -> None:
        self.first: OSError | None = None
        self.error: OSError | None = None  # the last one
        self.is_open = False
        self.began_ns = 0
        self.inferences = self.rows = 0  # given up; rows of the other tables
        self.missing_before = self.ns_before = (
            0  # inferences, and the time in which they ran, of the gaps that are over
        )
        self._ns = self._since_ns = 0  # given up in this gap; what waits is of the time since then

    def begin(self, now_ns: int, since_ns: int, error: OSError) -> None:
        self.first = self.first or error
        self.is_open, self.began_ns, self._since_ns, self._ns = True, now_ns, since_ns, 0

    def end(self) -> None:
        self.is_open = False
        self.missing_before = self.inferences
        self.ns_before += self._ns

    def in_all(self) -> Lost | None:
        """Of the gaps that are over."""
        if not self.ns_before:
            return None
        return Lost(
            self.ns_before / NS, self.missing_before, "the disk took nothing for a time: it was full, or failed"
        )

    def shortened(self, waiting: Batch, now_ns: int) -> Batch:
        """As much of it as may wait."""
        given_up = self.inferences + self.rows
        if len(waiting.inferences) > MAX_WAITING_INFERENCES:
            self.inferences += len(waiting.inferences)
            waiting = replace(waiting, inferences=NO_INFERENCES)
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
        if self.inferences + self.rows > given_up:
            self._ns, self._since_ns = self._ns + now_ns - self._since_ns, now_ns
        return waiting

    def lost(self) -> str:
        if not self.inferences and not self.rows:
            return "nothing is missing"
        rows = f" and {self.rows} other rows" if self.rows else ""
        return f"{self.inferences} inferences{rows} are missing"


MAX_QUEUED_INFERENCES = 1_000_000  # 27 MB; beyond that the seconds are kept, and not each inference


class BackgroundRecorder:
    """The same calls as the recorder it has, which come back at once; `finish` and `discard` wait.

    An SD card that stalls for seconds delays nothing but its thread.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._queue: queue.SimpleQueue[Batch | Literal["prepare"] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_inferences = self._last_ns = 0
        self._behind = self._given_up = self._given_up_ns = 0  # inferences: since the disk fell behind; in all
        self._news: list[Event] = []
        self._defect: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def write(self, batch: Batch) -> tuple[Event, ...]:
        """What is to be told about the recording is that of earlier batches. Raises what the recorder raised."""
        with self._lock:
            self._news += self._fitting(batch)
            defect, self._defect = self._defect, None
            if defect:
                raise defect
            news, self._news = self._news, []
        return tuple(news)

    def _fitting(self, batch: Batch) -> list[Event]:
        """Hand it on, without its inferences where too many wait."""
        news = []
        if self._waiting_inferences + len(batch.inferences) > MAX_QUEUED_INFERENCES:
            if not self._behind:
                text = "the disk is too slow: inferences are not recorded until it has caught up; all seconds are"
                why = {"why": "the disk is too slow"}
                news.append(Event(batch.until_ns, "recording-behind", "critical", "edgetop", text, why))
            self._behind += len(batch.inferences)
            self._given_up += len(batch.inferences)
            self._given_up_ns += batch.until_ns - self._last_ns
            batch = replace(batch, inferences=NO_INFERENCES)
        elif self._behind and len(batch.inferences):
            text = f"the disk has caught up: {self._behind} inferences are missing"
            data = {"count": self._behind}
            news.append(Event(batch.until_ns, "recording-caught-up", "warning", "edgetop", text, data))
            self._behind = 0
        self._last_ns = batch.until_ns
        self._waiting_inferences += len(batch.inferences)
        self._queue.put(batch)
        return news

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            if batch == "prepare":
                self._recorder.prepare_end()
                continue
            news: tuple[Event, ...] = ()
            try:
                news = self._recorder.write(batch)
            except Exception as error:  # noqa: BLE001  a defect of ours: told by the next write, and recording goes on
                self._defect = error
            with self._lock:
                self._news.extend(news)
                self._waiting_inferences -= len(batch.inferences)

    def prepare_end(self) -> None:
        """The end is near: what `finish` needs is started ahead."""
        self._queue.put("prepare")

    def _end(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def finish(self, manifest: Manifest) -> Lost | None:
        """What is not in the recording. Raises RecordingError where something could not be written."""
        self._end()
        if self._news:  # nobody will ask for them any more, but the recording shall tell
            self._recorder.write(Batch(self._last_ns, events=tuple(self._news)))
        here = Lost(self._given_up_ns / NS, self._given_up, "the disk was too slow") if self._given_up else None
        lost = self._recorder.finish(replace(manifest, lost=lost_in_all(manifest.lost, here)))
        if here:
            failure = RecordingError(f"{here.why}: {here.inferences} inferences are missing", "the run itself went on")
            failure.lost = lost
            raise failure
        return lost

    def discard(self) -> None:
        self._end()
        self._recorder.discard()
