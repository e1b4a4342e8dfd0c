"""What the user wants kept: no single inferences, or the newest that fit."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import Retention
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.seconds import NS
from tests.support.recordings import back_to_back, first_manifest, kill, record, session, with_phases
from tests.support.sessions import seconds_of

pytestmark = pytest.mark.slow

LIMIT = 2**21


def played(folder: Path) -> Batch:
    recording = Recording(folder)
    batch = merge(list(recording.play(inferences=True)))
    assert recording.problems == []
    return batch


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    """36 seconds, whose inferences take 3.6 MB."""
    return list(session(back_to_back(900_000, 40e3), seed=6))


def test_without_raw_all_is_kept_but_single_inferences(tmp_path: Path) -> None:
    batches = list(session(back_to_back(1_000, 20e6), seed=6))
    back, whole = played(record(tmp_path / "s.edgetop", batches, Retention(raw=False))), merge(batches)
    assert len(back.inferences) == 0
    assert pq.ParquetFile(tmp_path / "s.edgetop/inferences.parquet").metadata.num_rows == 0
    assert back.seconds.rows.tobytes() == whole.seconds.rows.tobytes()
    assert back.readings.tobytes() == whole.readings.tobytes()
    assert back.events == whole.events


def test_without_raw_nothing_of_it_goes_through_the_journal(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest(), Retention(raw=False))
    for batch in session(back_to_back(200_000, 20e3), seed=6):
        recorder.write(batch)
    assert size(tmp_path / "s.edgetop/journal") < 20_000
    recorder.discard()


def test_a_dead_writer_without_raw_leaves_the_partial_second(tmp_path: Path) -> None:
    batches = list(session(with_phases(back_to_back(1_000, 20e6)), seed=6))[:-3]
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest(), Retention(raw=False))
    for batch in batches:
        recorder.write(batch)
    kill(recorder)
    back, whole = played(tmp_path / "s.edgetop"), merge(batches)
    assert back.seconds.rows[:-1].tobytes() == whole.seconds.rows.tobytes()
    singles = whole.inferences[whole.inferences["t_ns"] < back.until_ns]
    assert back.until_ns > whole.until_ns - NS
    assert back.seconds.rows.tobytes() == seconds_of(singles).rows.tobytes()
    assert back.events[-1].body.warmup_runs == 0  # nobody asked for any


def test_without_raw_the_warm_up_had_the_requested_runs(tmp_path: Path) -> None:
    told = [read_event(i, "phase", "info", "engine", p, {"phase": p, "runs": n}) for i, p, n in PHASES_TOLD]
    for count, runs in ((2, 0), (3, 50)):  # none are known to be done until measuring begins
        recorder = Recorder(tmp_path / f"{count}.edgetop", first_manifest(), Retention(raw=False))
        recorder.write(Batch(NS, manifest=first_manifest(), events=tuple(told[:count])))
        kill(recorder)
        assert Recording(tmp_path / f"{count}.edgetop").manifest.methodology.warmup_runs == runs


PHASES_TOLD = ((0, "first", None), (1, "warmup", 50), (2, "measure", None))


def test_the_limit_keeps_new_inferences_and_all_seconds(tmp_path: Path, batches: list[Batch]) -> None:
    folder = record(tmp_path / "s.edgetop", batches, Retention(max_bytes=LIMIT))
    back, whole = played(folder), merge(batches)
    assert LIMIT * 0.6 < size(folder) < LIMIT
    kept = len(back.inferences)
    assert back.inferences.tobytes() == whole.inferences[-kept:].tobytes()
    assert kept > 150_000
    assert back.seconds.rows.tobytes() == whole.seconds.rows.tobytes()
    assert back.readings.tobytes() == whole.readings.tobytes()


@pytest.mark.thorough
def test_the_limit_holds_at_every_moment(tmp_path: Path, batches: list[Batch]) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest(), Retention(max_bytes=LIMIT))
    largest, news = 0, []
    for batch in batches:
        news += recorder.write(batch)
        largest = max(largest, size(folder))
    assert LIMIT * 0.8 < largest <= LIMIT
    assert [event.kind for event in news] == ["raw-dropped"]
    assert "--max-size 2.0 MiB is reached" in news[0].message
    recorder.discard()


def test_a_session_below_the_limit_loses_nothing(tmp_path: Path, batches: list[Batch]) -> None:
    folder = record(tmp_path / "s.edgetop", batches, Retention(max_bytes=2**26))
    assert played(folder).inferences.tobytes() == merge(batches).inferences.tobytes()


@pytest.mark.thorough
def test_a_writer_that_dies_under_a_limit_leaves_the_newest(tmp_path: Path, batches: list[Batch]) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest(), Retention(max_bytes=LIMIT))
    for batch in batches[:-1]:
        recorder.write(batch)
    kill(recorder)
    back, whole = played(tmp_path / "s.edgetop"), merge(batches)
    begin = int(np.searchsorted(whole.inferences["t_ns"], back.inferences["t_ns"][0]))
    assert back.inferences.tobytes() == whole.inferences[begin : begin + len(back.inferences)].tobytes()
    assert whole.inferences["t_ns"][-1] - back.inferences["t_ns"][-1] < NS
