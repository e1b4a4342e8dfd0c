"""Completing the session of a writer that died.

The session's rows are in the journal and in unfinished table files. Three things are missing: the last, incomplete
second, the event of the end, and the final names of the tables. The journal's files are removed only when all data is
on the disk, so a recovery may be killed at any moment and repeated.
"""

import json
import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from edgetop import formatting
from edgetop.errors import RecordingError
from edgetop.files import open_regular, read_file, remove_partials
from edgetop.recording.catalog import CATALOG
from edgetop.recording.journal import JournalState, segment_name
from edgetop.recording.packing import Tally
from edgetop.recording.rows import MAX_SESSION_NS, sound
from edgetop.recording.session_folder import END_NOTE, JOURNAL, MANIFEST, WriterLock, has_journal, read_manifest
from edgetop.recording.snapshot import InferencesSince, Snapshot, aggregator_of
from edgetop.recording.unwritten import Unwritten, read_unwritten
from edgetop.session.batch import Batch
from edgetop.session.clock import boot_id
from edgetop.session.event_kinds import SessionOver
from edgetop.session.events import Event
from edgetop.session.manifest import Lost, Manifest, lost_in_all
from edgetop.session.phases import Phases
from edgetop.session.records import MEASURE, NO_INFERENCES, WARMUP, Inferences, join, last_end_ns, measured
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate
from edgetop.session.token_aggregator import at_their_end

END_NOTE_BYTES = 4096
LONGEST_GAP_S = 3_600  # seconds are rebuilt only up to this time after the last complete second
COARSE_TIME_NS = 3 * NS  # a file's time may be rounded down by less than this; FAT rounds by 2 s
_CLOSING = "closing"  # source of the rows that recovery adds, if the journal has no segment

Recovered = Literal["live", "recovered", "unwritable"]


def recover(folder: Path) -> Recovered:
    """Complete the session in `folder` if its writer is dead. Return one of these texts:

    - "live": the writer is running.
    - "unwritable": the disk or a file does not allow the recovery at present. No row is lost.
    - "recovered": the session is complete now. It may have been complete before.
    """
    try:
        lock = WriterLock(folder, for_recovery=True)
    except RecordingError:
        return "live"
    except OSError:
        return "unwritable"
    try:
        if has_journal(folder):
            remove_partials(folder / MANIFEST)
            _recover(folder)
    except (OSError, ValueError):
        return "unwritable"
    finally:
        lock.release()
    return "recovered"


def _recover(folder: Path) -> None:
    from edgetop.recording.compaction import WaitingRows, compact  # noqa: PLC0415  loads Arrow
    from edgetop.recording.parquet_tables import Tables, seconds_kind  # noqa: PLC0415

    journal = folder / JOURNAL
    before = read_manifest(folder)
    snapshot = Snapshot(folder, before)
    closing = closing_of(snapshot, before, is_live=False)
    assert closing.manifest
    sensor_ids = [info.id for info in closing.manifest.sensors]
    tables = Tables(journal, kind=seconds_kind(closing.manifest))
    missing = snapshot.missing_seconds()
    sources = {_CLOSING: False, CATALOG: snapshot.catalog.is_spoilt}
    for number in snapshot.segments:
        segment = snapshot.again(number)
        compact(segment.read(), segment_name(number), tables, sensor_ids, missing)
        sources[segment_name(number)] = segment.is_spoilt
    if closing.events or len(closing.seconds):
        source = journal / (segment_name(max(snapshot.segments)) if snapshot.segments else _CLOSING)
        os.close(open_regular(source, os.O_RDWR | os.O_CREAT))
        waiting = WaitingRows(tables, source.name)
        waiting.add(closing)
        waiting.flush()
    tables.publish(folder, closing.manifest, sources)


def closing_of(snapshot: Snapshot, manifest: Manifest, *, is_live: bool) -> Batch:
    """Return a batch with the data that a recovery adds after the last row: seconds, an event and the final manifest.

    `manifest` is the manifest in the folder. If the writer is running (`is_live`), the batch has only the newest
    manifest.
    """
    last = _JournalEnd(manifest)
    last.damaged_bytes = snapshot.catalog.damaged_bytes
    last.state.tally = Tally() if min(snapshot.segments, default=0) == 1 else None
    for number in snapshot.segments:
        segment = snapshot.again(number, last.state)
        for batch in segment.read():
            last.add(batch)
        last.damaged_bytes += segment.damaged_bytes
        last.longest_frame = max(last.longest_frame, segment.frames.longest)
    if is_live:
        return Batch(last.until_ns, manifest=last.manifest)
    if manifest.state != "live" and not snapshot.segments:  # only publishing remains
        return Batch(manifest.duration_ns or 0, manifest=manifest)
    if manifest.state == "recovered":  # an earlier recovery was interrupted after it had read everything
        return _closing(snapshot, last, _missing_seconds(snapshot, last), manifest.end_reason, manifest.lost)
    unwritten = read_unwritten(snapshot.folder / JOURNAL)
    is_complete = last.manifest.state == "finished" and unwritten.until_ns <= last.until_ns
    boot = last.manifest.clock.boot_id
    death = "writer-killed" if boot is not None and boot == boot_id() else "power-loss"
    reason = last.manifest.end_reason if is_complete else death
    if unwritten.until_ns > last.until_ns:
        reason = "disk-full"
    lost = _lost(snapshot, last, unwritten, reason if not is_complete else None)
    if is_complete and not last.damaged_bytes:
        return Batch(last.manifest.duration_ns or 0, manifest=replace(last.manifest, lost=lost))
    seconds = NO_SECONDS if is_complete else _missing_seconds(snapshot, last)
    last.until_ns = max(last.until_ns, min(unwritten.until_ns, MAX_SESSION_NS))
    return _closing(snapshot, last, seconds, reason, lost)


def _lost(snapshot: Snapshot, last: "_JournalEnd", unwritten: Unwritten, death: str | None) -> Lost | None:
    """Return what could not be written or cannot be read, or None if nothing is lost.

    `death` is why the writer did not finish, such as "power-loss"; None if it finished. `unwritten` is what the disk
    did not accept.
    """
    each = [last.manifest.lost, last.state.missing.lost(last.state.tally)]
    first_tally = last.state.first_tally
    catalogued = snapshot.catalogued_inferences()
    is_first = min(snapshot.segments, default=1) == 1  # then `missing` counts what is lost before it
    if first_tally and not is_first and catalogued is not None and first_tally.inferences > catalogued:
        why = "a part of the journal or of the tables is damaged or gone"
        each.append(Lost(None, first_tally.inferences - catalogued, why))
    waited_ns = max(0, unwritten.until_ns - last.until_ns)
    if unwritten.inferences or unwritten.ns or waited_ns:
        why = "the disk took nothing more" if waited_ns else "the disk took nothing for a time"
        ran_out = f"{why} from {formatting.clock_time(last.until_ns)} on" if waited_ns else why
        each.append(Lost((unwritten.ns + waited_ns) / NS, unwritten.inferences, f"{ran_out}: it was full, or failed"))
    elif death and not last.until_ns:
        each.append(Lost(None, None, f"{_DEATHS[death]}, and nothing in its journal can be read"))
    elif death:
        each.append(_lost_at_the_end(snapshot, last, death))
    if death and (tail := snapshot.torn_bytes()) > 2 * last.longest_frame and not snapshot.is_torn():
        each.append(Lost(None, None, f"{tail} bytes at the end of the journal are damaged"))
    return lost_in_all(*each)


def _lost_at_the_end(snapshot: Snapshot, last: "_JournalEnd", death: str) -> Lost | None:
    """Return what a dead writer had not written yet. The amounts in it are None if the engine left no note of its end.

    `death` is why the writer did not finish, such as "power-loss".
    """
    if death == "writer-killed" and (note := _end_note(snapshot.folder)):
        until_ns = note[0] - last.manifest.clock.origin_monotonic_ns
        if last.until_ns <= until_ns < MAX_SESSION_NS:
            return _after_the_last_batch(last, until_ns, note[1])
    wall = last.manifest.wall_time()
    later_ns = snapshot.changed_ns() - wall.origin_us * 1_000 - last.until_ns if wall else 0
    changed = f"; its journal was changed {formatting.duration(later_ns)} after its last batch"
    is_cut = NS + COARSE_TIME_NS < later_ns <= LONGEST_GAP_S * NS
    why = "the engine left no word of how long it went on"
    if death == "power-loss" and last.state.fsync_interval_ns:
        why = f"the journal was flushed every {formatting.duration(last.state.fsync_interval_ns)} while edgetop ran"
    return Lost(None, None, f"{_DEATHS[death]}, and how much was not written yet is not known: {why}{changed * is_cut}")


def _after_the_last_batch(last: "_JournalEnd", until_ns: int, sent: int) -> Lost:
    """Return what was lost after the last batch.

    `until_ns` is the session time at which the engine ended, and `sent` the number of all inferences that the engine
    made.
    """
    tally = last.state.tally or Tally()
    is_counted = tally.counted <= tally.inferences <= sent and tally.inferences  # all single inferences are recorded
    seconds = (until_ns - last.until_ns) / NS
    words = f"{_KILLED}, and its engine went on for {seconds:.1f} s after the last batch"
    return Lost(seconds, sent - tally.inferences if is_counted else None, words)


def _end_note(folder: Path) -> tuple[int, int] | None:
    """Return the engine's note of its end, or None if there is no valid note.

    The note has the end in ns of CLOCK_MONOTONIC, and the number of inferences that the engine made.
    """
    try:
        note = json.loads(read_file(folder / END_NOTE, END_NOTE_BYTES))
        t_ns, count = note["t_ns"], note["inferences"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    is_sound = type(t_ns) is int and type(count) is int and 0 < t_ns < 2**62 and 0 <= count < 2**62
    return (t_ns, count) if is_sound else None


class _JournalEnd:
    """The last rows of each kind in the journal, and how much data is missing. Add all batches in order."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.until_ns = 0
        self.seconds_until_ns: int | None = None
        self.since = InferencesSince()  # the last complete second
        self.damaged_bytes = self.longest_frame = 0
        self.state = JournalState()

    def add(self, batch: Batch) -> None:
        self.until_ns = max(self.until_ns, min(batch.until_ns, MAX_SESSION_NS))
        if batch.manifest is not None:
            self.manifest = batch.manifest
        seconds = sound("seconds", batch.seconds)
        if len(seconds):
            self.seconds_until_ns = int(seconds.rows["t_ns"][-1]) + NS
        self.since.add(sound("inferences", batch.inferences))
        self.since.begin(self.seconds_until_ns or 0, self.manifest.split_by)


def _missing_seconds(snapshot: Snapshot, last: _JournalEnd) -> Seconds:
    """Return rows for the seconds after the last recorded row of `seconds`, rebuilt from inferences.

    If inferences were not recorded individually, the result is the incomplete second in the journal.
    """
    begin = last.seconds_until_ns
    if begin is None:
        rows = next(snapshot.last_rows("seconds"), None)
        begin = last.seconds_until_ns = 0 if rows is None else int(rows.rows["t_ns"][-1]) + NS
    # Row groups back to the first one that began before `begin`, needed if the journal begins later.
    earlier: list[Inferences] = []
    pieces = last.since.pieces
    first_ns = int(pieces[0]["t_ns"][0]) if pieces else begin
    for rows in snapshot.last_rows("inferences") if first_ns >= begin else ():
        earlier.insert(0, sound("inferences", rows))
        first_ns = int(earlier[0]["t_ns"][0]) if len(earlier[0]) else first_ns
        if first_ns < begin:
            break
    inferences = join([NO_INFERENCES, *earlier, last.since.joined()])
    if last.manifest.generation is not None:
        inferences = at_their_end(inferences)
    later = inferences[inferences["t_ns"] >= begin]
    if not len(later):
        partial: Seconds = sound("seconds", last.state.partial)  # the recording has no single inferences
        return partial.where(partial.rows["t_ns"] >= begin)
    before = inferences[inferences["t_ns"] < begin]
    first = max(begin // NS, int(later["t_ns"][0]) // NS - LONGEST_GAP_S)
    later = later[later["t_ns"] < (first + 2 * LONGEST_GAP_S) * NS]
    aggregator = aggregator_of(last.manifest, first, measured(before))
    return concatenate([aggregator.add(later), aggregator.close()])


def _closing(snapshot: Snapshot, last: _JournalEnd, seconds: Seconds, reason: str | None, lost: Lost | None) -> Batch:
    begin = last.seconds_until_ns or 0
    until_ns = max(last.until_ns, begin)
    recorded = last.since.pieces or [sound("inferences", rows) for rows in islice(snapshot.last_rows("inferences"), 1)]
    otherwise_ns = until_ns if len(seconds) else begin  # without single inferences
    warmup_runs, warmup_ns, measured_runs = _counts(snapshot, seconds)
    over = SessionOver(
        "recovered",
        reason=reason,
        last_end_ns=max((last_end_ns(piece) for piece in recorded if len(piece)), default=otherwise_ns),
        warmup_runs=warmup_runs,
        warmup_ns=warmup_ns,
        torn_bytes=snapshot.torn_bytes(),
        damaged_bytes=last.damaged_bytes,
        lost_s=lost.seconds if lost else 0,
        lost_inferences=lost.inferences if lost else 0,
    )
    event = Event(until_ns, over, "warning", "edgetop", _recovery_text(snapshot, last, until_ns, lost))
    methodology = replace(last.manifest.methodology, warmup_runs=warmup_runs, measure_runs=measured_runs)
    manifest = replace(
        last.manifest, state="recovered", end_reason=reason, duration_ns=until_ns, methodology=methodology, lost=lost
    )
    return Batch(until_ns, seconds=seconds, events=(event,), manifest=manifest)


_KILLED = "edgetop was killed"
_DEATHS = {"writer-killed": _KILLED, "power-loss": "power was lost"}


def _recovery_text(snapshot: Snapshot, last: _JournalEnd, until_ns: int, lost: Lost | None) -> str:
    at, torn, damaged = formatting.clock_time(until_ns), snapshot.torn_bytes(), last.damaged_bytes
    what = f"a torn batch of {torn} bytes" if torn and snapshot.is_torn() else f"{torn} damaged bytes at the end"
    spoilt = [what] * bool(torn) + [f"{damaged} damaged bytes"] * bool(damaged)
    aside = f"; {' and '.join(spoilt)}: kept beside the tables" if spoilt else ""
    return f"completed after {at}: {f'{lost.words} are lost ({lost.why})' if lost else 'nothing is lost'}{aside}"


def _counts(snapshot: Snapshot, missing: Seconds) -> tuple[int, int, int]:
    """Return the number of warm-up runs, the time in ns that they took, and the number of measured runs.

    The time is 0 if inferences were not recorded individually. `missing` are the seconds that the recovery adds.
    """
    runs, total_ns = _warmup_runs(snapshot), 0
    for place, inferences in enumerate(snapshot.rows("inferences")):
        runs = runs if place else 0
        warmup = inferences["phase"] == WARMUP
        runs += int(np.count_nonzero(warmup))
        total_ns += int(inferences["latency_ns"][warmup].sum())
        if inferences["phase"][-1] == MEASURE:
            break
    each = [*snapshot.rows("seconds"), missing]
    return runs, total_ns, sum(seconds.runs for seconds in each)


def _warmup_runs(snapshot: Snapshot) -> int:
    """Return the requested number of warm-up runs according to the events, or 0 if measuring never began."""
    phases = Phases()
    for events in snapshot.rows("events"):
        phases.fold(events)
        if phases.measured_from_ns is not None:
            return phases.warmup_runs or 0
    return 0
