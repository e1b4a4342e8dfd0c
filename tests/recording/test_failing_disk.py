"""A disk that fails in mid-session: the run goes on, what can be kept is kept, and it is said."""

import resource
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.engines.engine_protocol import Ended, PhaseBegan
from edgetop.engines.spec import EngineSpec
from edgetop.errors import EXIT_NOT_WRITTEN, InputError, RecordingError
from edgetop.feeds.live import LiveFeed
from edgetop.recording.parquet_tables import ROW_GROUP_ROWS
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import MAX_WAITING_INFERENCES, Recorder
from edgetop.recording.session_folder import Retention, WriterLock, read_manifest
from edgetop.runner.conductor import Conductor
from edgetop.runner.outcome import Outcome
from edgetop.runner.session_sensors import SessionSensors
from edgetop.runner.session_state import SessionState
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Found
from edgetop.session.batch import Batch, merge
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.records import READING, Inferences
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.clocks import ManualClock
from tests.support.recordings import back_to_back, first_manifest, kill, session
from tests.support.scripted_engine import ScriptedEngine, inferences, said

pytestmark = pytest.mark.slow

RUNS = ROW_GROUP_ROWS * 2
BATCH = 5_000
TICK_NS = NS // 4


@contextmanager
def files_may_grow_to(size: int) -> Iterator[None]:
    """Every write beyond it fails with EFBIG, as one to a full disk does with ENOSPC (setrlimit(2))."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def told(recorder: Recorder, batches: Sequence[Batch]) -> list[Event]:
    """What it says of itself while it is given these."""
    return [event for batch in batches for event in recorder.write(batch)]


def finished(recorder: Recorder, manifest: Manifest) -> str | None:
    try:
        recorder.finish(manifest)
    except RecordingError as error:
        return str(error)
    return None


def played(folder: Path) -> Batch:
    recording = Recording(folder)
    batch = merge(list(recording.play(inferences=True)))
    assert recording.problems == []
    return batch


def ticks(inferences_of: Inferences) -> list[Batch]:
    return list(session(inferences_of))


def during(batches: Sequence[Batch], begin_s: float, end_s: float) -> list[Batch]:
    return [batch for batch in batches if begin_s * NS <= batch.until_ns < end_s * NS]


def last_manifest(batches: Sequence[Batch]) -> Manifest:
    manifest = batches[-1].manifest
    assert manifest
    return manifest


def test_both_ends_of_a_full_disk_are_reported_once(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    batches = ticks(back_to_back(600, 20e6))
    assert told(recorder, during(batches, 0, 4)) == []
    with files_may_grow_to(0):
        (failed,) = told(recorder, during(batches, 4, 8))
    assert (failed.kind, failed.severity) == ("recording-failed", "critical")
    assert failed.message == f"{folder}: cannot be recorded: File too large (the run itself goes on)"
    (restored,) = told(recorder, during(batches, 8, 99))
    assert restored.kind == "recording-restored"
    assert "nothing is missing" in restored.message
    assert "File too large" in str(finished(recorder, last_manifest(batches)))


def test_what_a_full_disk_did_not_take_at_first_is_taken_later(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    batches = ticks(back_to_back(600, 20e6))
    told(recorder, during(batches, 0, 4))
    with files_may_grow_to(0):
        told(recorder, during(batches, 4, 8))
    told(recorder, during(batches, 8, 99))
    finished(recorder, last_manifest(batches))
    whole = merge(batches)
    assert played(folder).inferences.tobytes() == whole.inferences.tobytes()
    assert played(folder).seconds.rows.tobytes() == whole.seconds.rows.tobytes()


def test_a_gap_that_ends_with_the_session_is_in_its_recording(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
    batches = ticks(back_to_back(200, 20e6))
    told(recorder, during(batches, 0, 2))
    with files_may_grow_to(0):
        told(recorder, during(batches, 2, 99))
    finished(recorder, last_manifest(batches))
    assert [event.kind for event in played(tmp_path / "s.edgetop").events][-1] == "recording-restored"


def test_a_long_gap_keeps_seconds_and_counts_lost_inferences(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    batches = ticks(back_to_back(RUNS * 2, 40e3))
    events = told(recorder, during(batches, 0, 2))
    with files_may_grow_to(0):
        events += told(recorder, during(batches, 2, 5.5))
    events += told(recorder, during(batches, 5.5, 99))
    complaint = finished(recorder, last_manifest(batches))
    whole, back = merge(batches), played(folder)
    missing = len(whole.inferences) - len(back.inferences)
    assert missing > 60_000
    assert f"{missing} inferences missing" in events[-1].message
    assert events[-1].body.inferences == missing
    assert f"{missing} inferences missing" in str(complaint)
    assert back.seconds.rows.tobytes() == whole.seconds.rows.tobytes()
    assert back.events == whole.events


@pytest.mark.parametrize(("latency_ns", "raw"), [(20e6, True), (40e3, True), (20e6, False)])
def test_what_a_full_disk_did_not_accept_is_counted(tmp_path: Path, latency_ns: float, raw: bool) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest(), Retention(raw=raw))
    batches = ticks(back_to_back(int(12e9 / latency_ns), latency_ns))
    told(recorder, during(batches, 0, 4))
    with files_may_grow_to(0):
        told(recorder, during(batches, 4, 99))
        with pytest.raises(RecordingError) as failed:
            recorder.finish(last_manifest(batches))
    recording, whole = Recording(folder), merge(batches)
    back = merge(list(recording.play(inferences=True)))
    lost = recording.manifest.lost
    assert (recording.manifest.state, recording.manifest.end_reason) == ("recovered", "disk-full")
    assert lost
    missing = len(whole.inferences) - (len(back.inferences) if raw else int(back.seconds.rows["count"].sum()))
    assert lost.inferences == missing > 300
    assert lost.seconds == pytest.approx(whole.until_ns / NS - 3.75, abs=0.6)  # the last it took is half a second old
    assert recording.manifest.duration_ns == whole.until_ns
    assert f"{missing} inferences (free space; edgetop report makes" in str(failed.value)
    (said,) = [event for event in back.events if event.kind == "recovered"]
    assert f"{missing} inferences are lost (the disk took nothing more from 00:00:0" in said.message
    assert "killed" not in said.message
    assert report([back])["lost"]["inferences"] == missing == failed.value.lost.inferences


def test_a_gap_that_was_over_counts_with_one_that_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    batches = ticks(back_to_back(RUNS * 2, 40e3))
    told(recorder, during(batches, 0, 1))
    with files_may_grow_to(0):
        told(recorder, during(batches, 1, 5))
    told(recorder, during(batches, 5, 8))
    with files_may_grow_to(0):
        told(recorder, during(batches, 8, 10))
    kill(recorder)
    recording = Recording(folder)
    back, given = merge(list(recording.play(inferences=True))), merge(during(batches, 0, 10))
    assert recording.manifest.lost
    assert recording.manifest.lost.inferences == len(given.inferences) - len(back.inferences) > 100_000
    assert recording.manifest.end_reason == "disk-full"


def test_what_waits_for_a_disk_is_bounded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
    recorder.write(Batch(0, manifest=first_manifest()))
    with files_may_grow_to(0):
        for tick in range(1, 60):
            recorder.write(Batch(tick * NS, inferences(range(20_000))))
            assert sum(len(batch.inferences) for batch in recorder._waiting) <= MAX_WAITING_INFERENCES + 20_000
    recorder.discard()


def test_tables_that_cannot_be_written_wait_in_the_journal(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder._journal_file.segment_bytes = 5_000
    pieces = [back_to_back(200, 1e6, start_ns=minute * 60 * NS) for minute in range(12)]
    batches = [Batch(0, manifest=first_manifest())]
    batches += [Batch((minute + 1) * 60 * NS, piece) for minute, piece in enumerate(pieces)]
    events = told(recorder, batches[:1])
    (folder / "journal/inferences-0000.partial").symlink_to("/dev/full")
    events += told(recorder, batches[1:])
    (delayed,) = events
    assert (delayed.kind, delayed.severity) == ("tables-delayed", "warning")
    assert "the journal keeps everything" in delayed.message
    assert "its tables are not complete" in str(finished(recorder, first_manifest()))
    assert not list(folder.glob("*.parquet"))
    (folder / "journal/inferences-0000.partial").unlink()
    assert played(folder).inferences.tobytes() == np.concatenate(pieces).tobytes()


def test_delayed_tables_hold_each_row_once(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder._journal_file.segment_bytes = 5_000
    pieces = [back_to_back(200, 1e6, start_ns=minute * 60 * NS) for minute in range(36)]
    batches = [Batch(0, manifest=first_manifest())]
    for minute, piece in enumerate(pieces):
        readings = np.array([(minute * 60 * NS, 0, 1.0)], READING)
        batches.append(Batch((minute + 1) * 60 * NS, piece, readings=readings))
    assert told(recorder, batches[:1]) == []
    (folder / "journal/readings-0000.partial").symlink_to("/dev/full")  # whose turn comes after that of inferences
    (delayed,) = told(recorder, batches[1:20])
    assert delayed.kind == "tables-delayed"
    (folder / "journal/readings-0000.partial").unlink()
    assert told(recorder, batches[20:]) == []
    assert finished(recorder, first_manifest()) is None
    assert played(folder).inferences.tobytes() == np.concatenate(pieces).tobytes()
    assert len(played(folder).readings) == 36


def conducted(recorder: Recorder) -> tuple[Outcome, Batch]:
    """A session of RUNS inferences, to its end."""
    clock = ManualClock()
    origin = clock.monotonic_ns()
    records = back_to_back(RUNS, 20e3, start_ns=origin)
    pieces = [records[i : i + BATCH] for i in range(0, RUNS, BATCH)]
    engine = ScriptedEngine(
        said(PhaseBegan("measure", origin)), *(said(records=piece) for piece in pieces), said(Ended("runs", origin))
    )
    feed = LiveFeed()
    session_state = SessionState(first_manifest(), EngineSpec("model.onnx", "onnx"), clock)
    sensors = SessionSensors(Sampler((), clock, origin), Found(), lambda _: Found(), session_state)
    conductor = Conductor(engine, sensors, recorder, feed, session_state, clock)
    while conductor.outcome is None:
        clock.advance(0.1)
        conductor.step()
    batch = feed.read()
    assert batch
    assert feed.is_over
    return conductor.outcome, batch


def test_a_run_outlives_a_full_disk_and_its_outcome_says_so(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
    recorder.write(Batch(manifest=first_manifest()))
    with files_may_grow_to(1_000):
        outcome, live = conducted(recorder)
    assert outcome.end_reason == "runs"
    assert outcome.error
    assert outcome.error.exit_code == EXIT_NOT_WRITTEN
    assert "File too large" in str(outcome.error)
    assert len(live.inferences) == RUNS
    assert [event.kind for event in live.events].count("recording-failed") == 1


def test_a_journal_left_by_a_full_disk_reports_the_whole_run(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
    with files_may_grow_to(150_000):
        outcome, live = conducted(recorder)
    assert isinstance(outcome.error, RecordingError)
    assert "its tables are not complete" in str(outcome.error)
    before = (tmp_path / "s.edgetop/session.json").read_bytes()
    with files_may_grow_to(0):  # there is still no room: it is read where it lies
        unwritten = report(list(Recording(tmp_path / "s.edgetop").play()))
    assert (tmp_path / "s.edgetop/session.json").read_bytes() == before
    assert unwritten == report(list(Recording(tmp_path / "s.edgetop").play())) == report([live])
    assert unwritten["latency"]["count"] == RUNS
    assert (tmp_path / "s.edgetop/inferences.parquet").exists()


def report(batches: Sequence[Batch]) -> dict[str, Any]:
    analysis = Analysis()
    for batch in batches:
        analysis.fold(batch)
    return report_document(analysis)


def test_a_dead_disk_costs_the_recording_and_not_the_run(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
    with files_may_grow_to(0):
        outcome, live = conducted(recorder)
    assert isinstance(outcome.error, RecordingError)
    assert len(live.inferences) == RUNS
    assert read_manifest(tmp_path / "s.edgetop").state == "live"
    WriterLock(tmp_path / "s.edgetop").release()


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("gone", ["s.edgetop", "s.edgetop/journal"])
def test_a_vanished_folder_costs_the_recording_and_not_the_run(tmp_path: Path, gone: str, begun: bool) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
    if begun:
        recorder.write(Batch(inferences=inferences(range(ROW_GROUP_ROWS))))
    shutil.rmtree(tmp_path / gone)
    outcome, live = conducted(recorder)
    assert isinstance(outcome.error, RecordingError)
    why = "it was deleted" if gone == "s.edgetop" else "No such file or directory"
    assert why in str(outcome.error)
    assert len(live.inferences) == RUNS


def test_a_session_that_cannot_begin_is_refused_without_traces(tmp_path: Path) -> None:
    with files_may_grow_to(0), pytest.raises(InputError, match="cannot be written: File too large"):
        Recorder(tmp_path / "s.edgetop", first_manifest())
    assert list(tmp_path.iterdir()) == []
