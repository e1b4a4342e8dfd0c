"""What a writer that died left to be done, and its doing.

Its rows are whole in the journal and in the pieces of its tables; missing are the last, begun
second, the word that it is over, and the tables under their names. The journal's files are
removed only when all of it is on the disk, so a recovery may itself be killed at any moment.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from edgetop import formatting
from edgetop.errors import RecordingError
from edgetop.recording import columns, soundness
from edgetop.recording.compaction import compact, table_rows
from edgetop.recording.files import (
    JOURNAL,
    SOCKET,
    RecoveryLock,
    has_journal,
    open_regular,
    read_manifest,
    sync_folder,
    write_manifest,
)
from edgetop.recording.journal import segment_name
from edgetop.recording.snapshot import Snapshot
from edgetop.recording.tables import Tables
from edgetop.session.batch import Batch
from edgetop.session.clock import boot_id
from edgetop.session.events import Event, JsonValue
from edgetop.session.manifest import Manifest
from edgetop.session.records import NO_INFERENCES, Inferences, last_end_ns, measured
from edgetop.session.seconds import NO_SECONDS, NS, SecondAggregator, Seconds, concatenate

JOURNAL_DELAY_NS = NS  # a batch is in the journal within this time
LONGEST_GAP_S = 3_600  # of seconds without an inference that are made up for
_CLOSING = "closing"  # the source of last rows

Recovered = Literal["live", "recovered", "unwritable"]


@dataclass(frozen=True, slots=True)
class Closing:
    """What belongs behind the last row that was written."""

    manifest: Manifest
    until_ns: int
    seconds: Seconds = NO_SECONDS
    events: tuple[Event, ...] = ()

    def rows(self, name: str) -> Any:
        return {"seconds": self.seconds, "events": self.events}.get(name, ())


def recover(folder: Path) -> Recovered:
    """Complete a session whose writer is dead; "live" where it is not.

    "unwritable": the medium, or what lies there, does not allow it (now), and no row has been lost.
    """
    try:
        lock = RecoveryLock(folder)
    except RecordingError:
        return "live"
    except OSError:
        return "unwritable"
    try:
        if has_journal(folder):
            _recover(folder)
    except (OSError, ValueError, pa.ArrowException):
        return "unwritable"
    finally:
        lock.release()
    return "recovered"


def _recover(folder: Path) -> None:
    journal = folder / JOURNAL
    before = read_manifest(folder)
    snapshot = Snapshot(folder, before)
    closing = closing_of(snapshot, before, is_live=False)
    sensor_ids = [info.id for info in closing.manifest.sensors]
    tables = Tables(journal)
    for number in snapshot.segments:
        for _ in compact(snapshot.again(number), segment_name(number), tables, sensor_ids):
            pass
    if closing.events or len(closing.seconds):
        source = journal / (segment_name(max(snapshot.segments)) if snapshot.segments else _CLOSING)
        os.close(open_regular(source, os.O_RDWR | os.O_CREAT))
        for name, rows in table_rows(Batch(seconds=closing.seconds, events=closing.events), sensor_ids):
            tables.append(name, pa.Table.from_batches([rows]), source.name)
    tables.commit()
    write_manifest(folder, closing.manifest)
    settle(folder, tables, [*map(segment_name, snapshot.segments), _CLOSING])


def settle(folder: Path, tables: Tables, sources: list[str]) -> None:
    """All rows are committed and the manifest is the last one: publish the tables, and remove the journal."""
    for name in sources:
        (folder / JOURNAL / name).unlink(missing_ok=True)
    tables.publish(folder)
    (folder / SOCKET).unlink(missing_ok=True)
    shutil.rmtree(folder / JOURNAL)
    sync_folder(folder)


def closing_of(snapshot: Snapshot, manifest: Manifest, *, is_live: bool) -> Closing:
    """`manifest`: the one in the folder."""
    last = _Last(manifest)
    last.damaged_bytes = snapshot.damaged_bytes()
    for number in snapshot.segments:
        segment = snapshot.again(number)
        for batch in segment.read():
            last.heed(batch)
        last.fsync_interval_ns = segment.fsync_interval_ns or last.fsync_interval_ns
        last.begun = soundness.sound_seconds(segment.begun) if len(segment.begun) else last.begun
        last.damaged_bytes += segment.damaged_bytes
    if is_live:
        return Closing(last.manifest, last.until_ns)
    if manifest.state != "live" and not snapshot.segments:  # only the publishing was left
        return Closing(manifest, manifest.duration_ns or 0)
    is_complete = last.manifest.state == "finished"
    if is_complete and not last.damaged_bytes:
        return Closing(last.manifest, last.manifest.duration_ns or 0)
    seconds = NO_SECONDS if is_complete else _missing_seconds(snapshot, last)
    return _closing(snapshot, last, seconds)


class _Last:
    """The last of everything in the journal."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.until_ns = 0
        self.seconds_until_ns: int | None = None
        self.begun = NO_SECONDS  # where no inferences are kept
        self.inferences: list[Inferences] = []  # of the journal's last minute or so
        self.fsync_interval_ns = 0
        self.damaged_bytes = 0

    def heed(self, batch: Batch) -> None:
        self.until_ns = max(self.until_ns, min(batch.until_ns, soundness.MAX_SESSION_NS))
        if batch.manifest is not None:
            self.manifest = batch.manifest
        seconds = soundness.sound_seconds(batch.seconds)
        if len(seconds):
            self.seconds_until_ns = int(seconds.rows["t_ns"][-1]) + NS
        inferences = soundness.sound_inferences(batch.inferences)
        if len(inferences):
            self.inferences.append(inferences)
        begin = 0 if self.seconds_until_ns is None else self.seconds_until_ns
        while len(self.inferences) > 1 and self.inferences[1]["t_ns"][0] < begin:
            self.inferences.pop(0)


def _missing_seconds(snapshot: Snapshot, last: _Last) -> Seconds:
    """The seconds behind the last complete one, from the inferences that came to be written, or as they were."""
    begin = last.seconds_until_ns
    if begin is None:
        begin = max((int(rows["t_ns"][-1].as_py()) + NS for rows in _last_group(snapshot, "seconds")), default=0)
        last.seconds_until_ns = begin
    inferences = np.concatenate([*_earlier(snapshot, last, begin), *last.inferences, NO_INFERENCES])
    later = inferences[inferences["t_ns"] >= begin]
    if not len(later):
        return last.begun.where(last.begun.rows["t_ns"] >= begin)
    counted = measured(inferences[inferences["t_ns"] < begin])
    first = max(begin // NS, int(later["t_ns"][0]) // NS - LONGEST_GAP_S)
    later = later[later["t_ns"] < (first + 2 * LONGEST_GAP_S) * NS]
    load = last.manifest.load
    aggregator = SecondAggregator(load.deadline_ns, first, counted, is_paced=load.is_paced)
    return concatenate([aggregator.add(later), aggregator.close()])


def _earlier(snapshot: Snapshot, last: _Last, begin: int) -> list[Inferences]:
    """Row groups back to the first that began before `begin`, where the journal does not reach so far."""
    earlier: list[Inferences] = []
    first_ns = int(last.inferences[0]["t_ns"][0]) if last.inferences else begin
    for rows in snapshot.last_rows("inferences"):
        if first_ns < begin:
            break
        earlier.insert(0, soundness.sound_inferences(columns.inferences_from_arrow(rows)))
        first_ns = int(earlier[0]["t_ns"][0]) if len(earlier[0]) else first_ns
    return earlier


def _last_group(snapshot: Snapshot, name: str) -> Iterator[pa.Table]:
    for rows in snapshot.last_rows(name):
        yield rows
        return


def _closing(snapshot: Snapshot, last: _Last, seconds: Seconds) -> Closing:
    """With the manifest and the event that say how it ended."""
    begin = last.seconds_until_ns or 0
    until_ns = max(last.until_ns, begin)
    reason = last.manifest.end_reason or _death(last.manifest)
    warmup_runs, warmup_ns, measured_runs = _counts(snapshot, seconds)
    text = _how_much(reason, until_ns, last.fsync_interval_ns, snapshot.torn_bytes(), last.damaged_bytes)
    data: dict[str, JsonValue] = {
        "reason": reason,
        "last_end_ns": _last_end_ns(snapshot, last, until_ns if len(seconds) else begin),
        "warmup_runs": warmup_runs,
        "warmup_ns": warmup_ns,
        "torn_bytes": snapshot.torn_bytes(),
        "damaged_bytes": last.damaged_bytes,
    }
    event = Event(until_ns, "recovered", "warning", "edgetop", text, data)
    methodology = replace(last.manifest.methodology, warmup_runs=warmup_runs, measure_runs=measured_runs)
    manifest = replace(
        last.manifest, state="recovered", end_reason=reason, duration_ns=until_ns, methodology=methodology
    )
    return Closing(manifest, until_ns, seconds, (event,))


def _last_end_ns(snapshot: Snapshot, last: _Last, otherwise_ns: int) -> int:
    """When the last inference that was kept ended; `otherwise_ns` where no single ones were."""
    kept = last.inferences or [
        soundness.sound_inferences(columns.inferences_from_arrow(rows)) for rows in _last_group(snapshot, "inferences")
    ]
    return max((last_end_ns(piece) for piece in kept if len(piece)), default=otherwise_ns)


def _death(manifest: Manifest) -> str:
    """Whether the kernel under the writer is still the same."""
    same = manifest.clock.boot_id is not None and manifest.clock.boot_id == boot_id()
    return "writer-killed" if same else "power-loss"


def _how_much(reason: str, until_ns: int, fsync_interval_ns: int, torn_bytes: int, damaged_bytes: int) -> str:
    at = formatting.clock_time(until_ns)
    delay_s = JOURNAL_DELAY_NS / NS
    lost = {
        "writer-killed": f"edgetop was killed after {at}: at most {delay_s:g} s is lost",
        "power-loss": f"power was lost after {at}: at most {fsync_interval_ns / NS + delay_s:g} s is lost",
    }.get(reason, f"completed after {at}")
    torn = f"; a torn batch of {torn_bytes} bytes was dropped" if torn_bytes else ""
    damaged = f"; {damaged_bytes} damaged bytes of the journal were passed over" if damaged_bytes else ""
    return lost + torn + damaged


def _counts(snapshot: Snapshot, missing: Seconds) -> tuple[int, int, int]:
    """Warm-up runs, their time in ns (0 where single inferences were not kept), measured runs."""
    runs, total_ns = _asked_for(snapshot), 0
    for place, table in enumerate(snapshot.rows("inferences")):
        runs = runs if place else 0
        phases = np.asarray(table["phase"].cast(pa.string()))
        warmup = phases == "warmup"
        runs += int(np.count_nonzero(warmup))
        total_ns += int(np.asarray(table["latency_ns"])[warmup].sum())
        if len(phases) and phases[-1] == "measure":
            break
    seconds = [np.asarray(table[name]).sum() for table in snapshot.rows("seconds") for name in ("count", "errors")]
    return runs, total_ns, int(sum(seconds)) + int(missing.rows["count"].sum() + missing.rows["errors"].sum())


def _asked_for(snapshot: Snapshot) -> int:
    """How many warm-up runs were done by the time that measuring began, as it was told."""
    runs = 0
    for table in snapshot.rows("events"):
        kinds = np.asarray(table["kind"].cast(pa.string()))
        for event in columns.events_from_arrow(table.filter(pa.array(kinds == "phase"))):
            asked = event.data.get("runs")
            if event.data.get("phase") == "warmup":
                runs = asked if type(asked) is int else 0
            elif event.data.get("phase") == "measure":
                return runs
    return 0
