"""The recorder: nothing is there twice, nothing is missing, and nobody else may read it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.errors import InputError
from edgetop.recording.columns import SCHEMAS
from edgetop.recording.compaction import ROW_GROUP_BYTES
from edgetop.recording.parquet_tables import ROW_GROUP_ROWS
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import WriterLock, read_manifest
from edgetop.session.batch import Batch, merge
from edgetop.session.records import READING
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from tests.support.recordings import back_to_back, first_manifest, record, session
from tests.support.scripted_engine import inferences

TABLES = {f"{name}.parquet" for name in SCHEMAS}


def modes(folder: Path) -> set[tuple[str, int]]:
    paths = [folder, *folder.rglob("*")]
    return {("folder" if path.is_dir() else "file", path.stat().st_mode & 0o7777) for path in paths}


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def played(folder: Path) -> Batch:
    return merge(list(Recording(folder).play(inferences=True)))


def test_a_session_written_in_many_batches_comes_back_whole(tmp_path: Path) -> None:
    batches = list(session(back_to_back(2_000, 20e6), seed=1))
    assert len(batches) > 100
    back, given = played(record(tmp_path / "s.edgetop", batches)), merge(batches)
    assert back.inferences.tobytes() == given.inferences.tobytes()
    assert back.readings.tobytes() == given.readings.tobytes()
    assert back.events == given.events
    assert back.seconds.rows.tobytes() == given.seconds.rows.tobytes()
    assert back.seconds.histogram().tolist() == given.seconds.histogram().tolist()
    assert back.manifest == given.manifest


def test_tables_appear_only_when_they_are_whole(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    for batch in session(back_to_back(ROW_GROUP_ROWS * 2, 20e3)):
        recorder.write(batch)
        assert not TABLES & {path.name for path in folder.iterdir()}
    assert (folder / "journal").is_dir()
    recorder.finish(first_manifest())
    assert {path.name for path in folder.iterdir()} == TABLES | {"session.json", "session.json.lock"}


def test_nobody_else_may_ever_read_a_session(tmp_path: Path, open_umask: None) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder.write(Batch(inferences=back_to_back(ROW_GROUP_ROWS, 20e3), manifest=first_manifest()))
    assert {path.name for path in (folder / "journal").iterdir()} == {"00000001.journal", "unwritten-0-0-0"}
    assert modes(folder) == {("folder", 0o700), ("file", 0o600)}
    recorder.finish(first_manifest())
    assert modes(folder) == {("folder", 0o700), ("file", 0o600)}


def test_a_session_in_which_nothing_happened_has_empty_tables(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
    recorder.finish(first_manifest())
    assert {pq.ParquetFile(tmp_path / "s.edgetop" / name).metadata.num_rows for name in TABLES} == {0}


def test_the_manifest_exists_from_the_start_and_is_updated(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    manifest = first_manifest()
    recorder = Recorder(folder, manifest)
    assert read_manifest(folder) == manifest
    recorder.write(Batch(manifest=replace(manifest, labels={"fan": "off"})))
    assert read_manifest(folder).labels == {"fan": "off"}
    recorder.finish(replace(manifest, state="finished"))
    assert read_manifest(folder).state == "finished"


def test_a_session_that_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    for batches in ([], list(session(back_to_back(ROW_GROUP_ROWS, 20e3)))):
        recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
        for batch in batches:
            recorder.write(batch)
        recorder.discard()
        assert list(tmp_path.iterdir()) == []


def test_the_lock_is_held_until_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    with pytest.raises(Exception, match="another edgetop"):
        WriterLock(folder)
    recorder.finish(first_manifest())
    WriterLock(folder).release()


def test_a_folder_that_cannot_be_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "s.edgetop").mkdir()
    with pytest.raises(InputError, match="exists already"):
        Recorder(tmp_path / "s.edgetop", first_manifest())
    assert list((tmp_path / "s.edgetop").iterdir()) == []


def row_groups(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


@pytest.mark.parametrize("batch", [7_000, ROW_GROUP_ROWS, ROW_GROUP_ROWS * 2 + 1])
def test_row_groups_are_full_and_no_larger(tmp_path: Path, batch: int) -> None:
    given = back_to_back(ROW_GROUP_ROWS * 3 + 5, 20e3)
    pieces = np.split(given, range(batch, len(given), batch))
    folder = record(tmp_path / "s.edgetop", [Batch(manifest=first_manifest()), *(Batch(inferences=p) for p in pieces)])
    assert row_groups(folder / "inferences.parquet") == [ROW_GROUP_ROWS] * 3 + [5]
    assert played(folder).inferences.tobytes() == given.tobytes()


def test_row_groups_of_large_rows_are_bounded_by_their_size(tmp_path: Path) -> None:
    latencies = 1_000_000 + np.arange(2_000) * 40_000  # many buckets of the histogram
    (second,) = [SecondAggregator().add(inferences([0] * 2_000 + [NS], [*latencies, 1]))]
    fifties = [Batch(i * NS, seconds=concatenate([second] * 50)) for i in range(50)]
    for number, batch in enumerate(fifties):
        batch.seconds.rows["t_ns"] = (50 * number + np.arange(50)) * NS
    folder = record(tmp_path / "s.edgetop", [Batch(manifest=first_manifest()), *fifties])
    file = pq.ParquetFile(folder / "seconds.parquet")
    sizes = [file.read_row_group(i).nbytes for i in range(file.num_row_groups)]
    assert len(played(folder).seconds) == 2_500
    assert len(sizes) > 1
    assert max(sizes) < ROW_GROUP_BYTES * 1.1


def test_sensors_that_come_later_are_recorded_under_their_names(tmp_path: Path) -> None:
    first = replace(first_manifest(), sensors=first_manifest().sensors[:1])
    readings = np.array([(1, 0, 1.0)], READING), np.array([(2, 0, 1.5), (3, 2, 2.0)], READING)
    batches = [Batch(manifest=first, readings=readings[0]), Batch(manifest=first_manifest(), readings=readings[1])]
    folder = record(tmp_path / "s.edgetop", batches)
    sensors = pq.read_table(folder / "readings.parquet")["sensor"].to_pylist()
    assert sensors == ["temp/cpu-thermal", "temp/cpu-thermal", "load/edgetop"]


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 12 * NS), max_size=30).map(sorted),
    segment_bytes=st.integers(200, 20_000),
    count=st.integers(0, 400),
)
def test_however_a_session_is_split_its_tables_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], segment_bytes: int, count: int
) -> None:
    whole = list(session(back_to_back(count, 20e6), seed=count))
    folder = tmp_path_factory.mktemp("split")
    recorder = Recorder(folder / "split.edgetop", first_manifest())
    recorder._journal_file.segment_bytes = segment_bytes
    for batch in recut(whole, cuts):
        recorder.write(batch)
    manifest = whole[-1].manifest
    assert manifest
    recorder.finish(manifest)
    record(folder / "whole.edgetop", whole)
    for name in TABLES:
        tables = [pq.read_table(folder / f"{side}.edgetop/{name}") for side in ("split", "whole")]
        assert tables[0].to_pylist() == tables[1].to_pylist()


def recut(batches: list[Batch], cuts: list[int]) -> Iterator[Batch]:
    """The same session, in other batches."""
    bounds = [*sorted(set(cuts)), batches[-1].until_ns + 1]
    rest = batches
    for bound in bounds:
        now, rest = [b for b in rest if b.until_ns < bound], [b for b in rest if b.until_ns >= bound]
        if now:
            yield merge(now)


def test_a_session_in_which_nothing_ran_goes_without_the_files_of_others(tmp_path: Path) -> None:
    for name, others in (("a", []), ("b", ["notes.txt"])):
        recorder = Recorder(tmp_path / f"{name}.edgetop", first_manifest())
        for other in others:
            (tmp_path / f"{name}.edgetop" / other).touch()
        recorder.discard()
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "b.edgetop",
        "b.edgetop/notes.txt",
    ]
