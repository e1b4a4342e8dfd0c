"""The reader: what was recorded is played as it was, or the file that spoils it is named."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.errors import InputError
from edgetop.recording.parquet_tables import ROW_GROUP_ROWS
from edgetop.recording.reader import Recording
from edgetop.session.batch import Batch, merge
from edgetop.session.records import READING
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.recordings import back_to_back, first_manifest, record, session, with_phases

PLAYED = ("inferences", "readings", "events", "seconds", "operators")


def report(batches: list[Batch]) -> dict[str, Any]:
    analysis = Analysis()
    for batch in batches:
        analysis.fold(batch)
    return report_document(analysis)


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    """A session of half a minute."""
    return list(session(with_phases(back_to_back(1_500, 20e6)), seed=5))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, batches: list[Batch]) -> Path:
    return record(tmp_path_factory.mktemp("original") / "s.edgetop", batches)


@pytest.fixture
def recorded(tmp_path: Path, original: Path) -> Path:
    """A copy that a test may spoil."""
    return shutil.copytree(original, tmp_path / "s.edgetop")


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 400), latency_ms=st.floats(0.5, 60), step_s=st.integers(1, 40))
def test_a_recording_gives_the_report_of_the_live_run(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, latency_ms: float, step_s: int
) -> None:
    live = list(session(with_phases(back_to_back(count, latency_ms * 1e6, seed)), seed))
    folder = record(tmp_path_factory.mktemp("played") / "s.edgetop", live)
    assert report(list(Recording(folder).play(step_s=step_s))) == report(live)
    assert report(list(Recording(folder).play(step_s=step_s, inferences=True))) == report(live)


@pytest.mark.parametrize("step_s", [1, 7, 600])
def test_batches_come_in_order_and_the_first_is_a_restart(recorded: Path, step_s: int) -> None:
    played = list(Recording(recorded).play(inferences=True, step_s=step_s))
    assert [batch.restart for batch in played] == [True] + [False] * (len(played) - 1)
    assert [batch.manifest is not None for batch in played] == [True] + [False] * (len(played) - 1)
    until = [batch.until_ns for batch in played]
    assert until == sorted(until)
    assert until[-1] == Recording(recorded).manifest.duration_ns
    for earlier, later in pairwise(played):
        for rows in (later.inferences, later.seconds.rows):
            assert all(earlier.until_ns <= t <= later.until_ns for t in rows["t_ns"].tolist())


def test_each_row_is_played_once_whatever_the_step(recorded: Path, batches: list[Batch]) -> None:
    given_in = merge(batches)
    for step_s in (1, 7, 600):
        played = merge(list(Recording(recorded).play(inferences=True, step_s=step_s)))
        assert played.inferences.tobytes() == given_in.inferences.tobytes()
        assert played.readings.tobytes() == given_in.readings.tobytes()
        assert played.seconds.rows.tobytes() == given_in.seconds.rows.tobytes()
        assert played.events == given_in.events


def test_inferences_are_read_only_where_they_are_asked_for(recorded: Path) -> None:
    (recorded / "inferences.parquet").unlink()
    assert len(merge(list(Recording(recorded).play())).inferences) == 0


def test_a_reading_that_came_late_is_not_lost(tmp_path: Path) -> None:
    times = [NS, 5 * NS, 2 * NS, 6 * NS]  # a read that hung gives the time of its middle
    readings = np.array([(t, 0, t / NS) for t in times], READING)
    manifest = replace(first_manifest(), duration_ns=7 * NS)
    folder = record(tmp_path / "s.edgetop", [Batch(manifest=manifest, readings=readings)])
    played = merge(list(Recording(folder).play(step_s=1)))
    assert played.readings["t_ns"].tolist() == times


def test_a_row_belongs_to_the_batch_in_which_its_time_lies(tmp_path: Path) -> None:
    readings = np.array([(t * NS // 2, 0, 1.0) for t in range(6)], READING)
    manifest = replace(first_manifest(), duration_ns=3 * NS)
    folder = record(tmp_path / "s.edgetop", [Batch(manifest=manifest, readings=readings)])
    assert [len(batch.readings) for batch in Recording(folder).play(step_s=1)] == [2, 2, 2, 0]


def test_a_session_with_a_silent_end_is_played_to_its_end(tmp_path: Path) -> None:
    manifest = replace(first_manifest(), duration_ns=60 * NS)
    folder = record(tmp_path / "s.edgetop", [Batch(manifest=manifest, inferences=back_to_back(3, 1e6))])
    assert list(Recording(folder).play(step_s=1))[-1].until_ns == 60 * NS


@pytest.mark.slow
def test_no_more_than_a_few_row_groups_are_in_memory(tmp_path: Path) -> None:
    count = ROW_GROUP_ROWS * 12
    given_in = back_to_back(count, 100e3)
    folder = record(tmp_path / "s.edgetop", [Batch(manifest=first_manifest(), inferences=given_in)])
    group = pq.ParquetFile(folder / "inferences.parquet").read_row_group(0).nbytes
    before = pa.total_allocated_bytes()
    peak = read = 0
    for batch in Recording(folder).play(inferences=True, step_s=1):
        peak = max(peak, pa.total_allocated_bytes() - before)
        read += len(batch.inferences)
    assert read == count
    assert peak < 4 * group


def complaint(folder: Path) -> str:
    """What playing it complains of, in one line."""
    recording = Recording(folder)
    list(recording.play(inferences=True))
    (problem,) = recording.problems
    assert "\n" not in problem
    return problem


@pytest.mark.parametrize("name", PLAYED)
def test_a_table_that_is_missing_is_named(recorded: Path, name: str) -> None:
    (recorded / f"{name}.parquet").unlink()
    assert complaint(recorded) == f"{recorded}/{name}.parquet: is missing"


def spoilt(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "filled with zeros": lambda data: b"\0" * len(data),
    "something else": lambda data: b'{"not": "parquet"}',
    "with a hole": lambda data: data[:4] + b"\0" * 200 + data[204:],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", PLAYED)
def test_a_table_that_is_damaged_is_named(recorded: Path, name: str, damage: str) -> None:
    spoilt(recorded / f"{name}.parquet", DAMAGE[damage])
    assert f"{recorded}/{name}.parquet: is damaged" in complaint(recorded)


@pytest.mark.parametrize("column", ["t_ns", "latency_ns"])
def test_one_flipped_bit_in_the_data_is_told_and_not_played(recorded: Path, column: str) -> None:
    path = recorded / "inferences.parquet"
    group = pq.ParquetFile(path).metadata.row_group(0)
    (place,) = (group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == column)
    middle = place.data_page_offset + place.total_compressed_size // 2
    spoilt(path, lambda data: data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    assert f"{path}: is damaged" in complaint(recorded)


@pytest.mark.parametrize(
    ("name", "lacking"),
    [("inferences", "ok"), ("readings", "value"), ("events", "message"), ("seconds", "bucket"), ("seconds", "t_ns")],
)
def test_a_table_without_a_column_is_named(recorded: Path, name: str, lacking: str) -> None:
    path = recorded / f"{name}.parquet"
    pq.write_table(pq.read_table(path).drop_columns(lacking), path)
    message = complaint(recorded)
    assert f"{path}: is damaged" in message
    assert lacking in message


def test_a_folder_in_a_tables_place_is_named(recorded: Path) -> None:
    (recorded / "events.parquet").unlink()
    (recorded / "events.parquet").mkdir()
    assert f"{recorded}/events.parquet: is damaged" in complaint(recorded)


def test_a_session_without_a_manifest_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a recorded session"):
        Recording(tmp_path)
