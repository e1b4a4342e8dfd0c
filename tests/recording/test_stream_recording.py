"""The statistics of single streams in a recording: in the journal, in the tables, after a crash, in a cut."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.recording import packing
from edgetop.recording.columns import SCHEMAS, from_arrow, to_arrow
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.rows import TABLES, Span, sound
from edgetop.recording.session_folder import Retention
from edgetop.recording.stream_columns import SECONDS_OF_STREAMS, with_stream_columns, with_streams_of
from edgetop.session.batch import Batch, merge
from edgetop.session.by_stream import ByStream
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Manifest, Watched, WatchedStream
from edgetop.session.records import Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate
from tests.support.exports import export
from tests.support.sessions import MS, differences, make_inferences, make_manifest, seconds_of

TWO = Watched(("python3", "app.py"), streams=(WatchedStream("detector.onnx"), WatchedStream("classifier.onnx")))
PACED = Load(mode="fixed", rate_hz=30.0, deadline_ns=20 * MS)


def program(count: int = 400, seed: int = 1) -> Inferences:
    """Two models for some ten seconds, a third of them of the second one, with seconds of the first one alone."""
    random = np.random.default_rng(seed)
    starts = np.sort(random.integers(0, 10 * NS, count))
    stream = (random.random(count) < 0.33) & (starts // NS % 3 != 1)
    latency = np.where(stream, 2 * MS, 25 * MS) * random.lognormal(0, 0.2, count)
    return make_inferences(
        starts, latency.astype(np.int64), stream=stream, ok=random.random(count) > 0.05, wait_ns=starts % MS
    )


def manifest_of(watched: Watched | None = TWO, load: Load = PACED) -> Manifest:
    return make_manifest(watched=watched, load=load)


def batches(inferences: Inferences, manifest: Manifest, pieces: int = 20) -> list[Batch]:
    load = manifest.load
    aggregator = SecondAggregator(load.deadline_ns, is_paced=load.is_paced, split_by=manifest.split_by)
    made = [
        Batch(int(piece["t_ns"][-1]), inferences=piece, seconds=aggregator.add(piece))
        for piece in np.array_split(inferences, pieces)
    ]
    return [replace(made[0], manifest=manifest), *made[1:], Batch(11 * NS, seconds=aggregator.close())]


def written(folder: Path, given_in: list[Batch], *, ends: bool = True, keep: Retention | None = None) -> Path:
    """Record batches; `ends` False: as a writer leaves them that is killed."""
    manifest = given_in[0].manifest
    assert manifest is not None
    recorder = Recorder(folder, manifest, keep)
    for batch in given_in:
        recorder.write(batch)
    if ends:
        recorder.finish(replace(manifest, state="finished", duration_ns=11 * NS))
    else:
        recorder._journal()
        recorder._close()
    return folder


def read(folder: Path) -> Seconds:
    return concatenate(list(Recording(folder).rows("seconds")))


@st.composite
def stream_seconds(draw: st.DrawFn) -> Seconds:
    count = draw(st.integers(1, 40))
    starts = np.sort(draw(st.lists(st.integers(0, 6 * NS), min_size=count, max_size=count)))
    latencies = draw(st.lists(st.integers(0, 2**41), min_size=count, max_size=count))
    streams = draw(st.lists(st.sampled_from([0, 1, 255]), min_size=count, max_size=count))
    ok = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    deadline_ns = draw(st.none() | st.integers(0, 2**41))
    rows = make_inferences(starts, latencies, stream=streams, ok=ok, wait_ns=latencies[::-1])
    return seconds_of(rows, deadline_ns, is_paced=draw(st.booleans()), split_by="stream")


@settings(deadline=None, max_examples=40)
@given(stream_seconds())
def test_streams_come_back_from_a_frame(seconds: Seconds) -> None:
    parts = packing.split(packing.pack(Batch(seconds=seconds)))
    assert differences(packing.unpack(parts, 0).seconds, seconds) == []
    partial = packing.partial_of(packing.split(packing.pack_partial(seconds)))
    assert differences(partial, seconds) == []


def test_a_reader_that_knows_no_streams_reads_the_seconds() -> None:
    seconds = seconds_of(program(), split_by="stream")
    parts = dict(packing.split(packing.pack(Batch(seconds=seconds))))
    del parts[packing.STREAMS]
    assert differences(packing.unpack(parts, 0).seconds, replace(seconds, streams=None)) == []


def test_a_frame_of_one_model_has_no_part_for_streams() -> None:
    packed = packing.pack(Batch(seconds=seconds_of(make_inferences([0, 1], MS), split_by="stream")))
    assert packing.STREAMS not in packing.split(packed)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damaged_streams_are_refused_or_sound(data: st.DataObject) -> None:
    seconds = seconds_of(program(60), split_by="stream", is_paced=True)
    parts = dict(packing.split(packing.pack(Batch(seconds=seconds))))
    part = bytearray(parts[packing.STREAMS])
    for _ in range(data.draw(st.integers(1, 3))):
        part[data.draw(st.integers(0, len(part) - 1))] ^= data.draw(st.integers(1, 255))
    parts[packing.STREAMS] = bytes(part[: data.draw(st.sampled_from([len(part), len(part) // 2, 0]))])
    try:
        found = sound("seconds", packing.unpack(parts, 0, most_numbers=10_000).seconds)
    except ValueError:
        return
    for number in ByStream(found).numbers:
        assert ByStream(found).of(number).runs <= found.runs
    each = [ByStream(found).of(number).rows["count"] for number in ByStream(found).numbers]
    assert not each or sum(each).tolist() == found.rows["count"].tolist()


@settings(deadline=None, max_examples=40)
@given(stream_seconds())
def test_streams_come_back_from_a_table(seconds: Seconds) -> None:
    table = with_stream_columns(to_arrow("seconds", seconds), seconds)
    assert table.schema.equals(SECONDS_OF_STREAMS, check_metadata=True)
    assert differences(with_streams_of(table, from_arrow("seconds", table)), seconds) == []
    some = table.slice(len(table) // 2)
    assert (
        differences(with_streams_of(some, from_arrow("seconds", some)), seconds.between(len(table) // 2, len(table)))
        == []
    )


def test_the_columns_name_each_figure_and_are_null_where_stream_0_is_alone() -> None:
    seconds = seconds_of(make_inferences([0, NS, NS + 1], [MS, MS, 9 * MS], stream=[0, 0, 5]), split_by="stream")
    alone, mixed = with_stream_columns(to_arrow("seconds", seconds), seconds).to_pylist()
    assert {name for name in alone if name.startswith("stream") and alone[name] is not None} == set()
    assert (mixed["stream"], mixed["stream_count"], mixed["stream_p50_ns"]) == ([0, 5], [1, 1], [MS, 9 * MS])
    assert mixed["stream_deadline_misses"] == [None, None]
    assert mixed["stream_bucket_count"] == [[1], [1]]
    assert mixed["stream_response_p50_ns"] == [None, None]


@pytest.mark.parametrize("keep", [Retention(), Retention(raw=False), Retention(max_bytes=2**20)])
def test_what_is_recorded_of_streams_is_what_was_made(tmp_path: Path, keep: Retention) -> None:
    given_in = batches(program(), manifest_of())
    folder = written(tmp_path / "s.edgetop", given_in, keep=keep)
    assert differences(read(folder), merge(given_in).seconds) == []
    assert ByStream(read(folder)).numbers == [0, 1]


def test_a_session_of_one_model_has_no_columns_for_streams(tmp_path: Path) -> None:
    folder = written(tmp_path / "s.edgetop", batches(program(), manifest_of(None)))
    assert pq.read_schema(folder / "seconds.parquet").names == SCHEMAS["seconds"].names
    assert read(folder).streams is None


@pytest.mark.parametrize("raw", [True, False])
def test_a_writer_that_is_killed_leaves_the_streams_of_every_second(tmp_path: Path, raw: bool) -> None:
    given_in = batches(program(), manifest_of())[:-1]  # without the last second, which is not complete
    folder = written(tmp_path / "s.edgetop", given_in, ends=False, keep=Retention(raw=raw))
    found = read(folder)
    load = PACED
    wanted = seconds_of(program(), load.deadline_ns, is_paced=load.is_paced, split_by="stream")
    assert differences(found, wanted) == []
    assert "stream" in pq.read_schema(folder / "seconds.parquet").names


def test_a_rare_stream_goes_on_after_a_crash_where_it_was(tmp_path: Path) -> None:
    """Its inference before the last second is long ago in the journal."""
    stream = np.zeros(100, np.uint8)
    stream[[3, 99]] = 1
    inferences = make_inferences(
        np.arange(100) * 100 * MS, np.where(stream, 7 * MS, MS) + np.arange(100), stream=stream
    )
    folder = written(tmp_path / "s.edgetop", batches(inferences, manifest_of())[:-1], ends=False)
    assert ByStream(read(folder)).of(1).rows["jitter_sum_ns"].tolist()[-1] == 96


def test_a_part_of_a_session_has_its_streams(tmp_path: Path) -> None:
    given_in = batches(program(), manifest_of())
    folder = written(tmp_path / "s.edgetop", given_in)
    assert export(folder, "session", tmp_path / "part.edgetop", Span(3 * NS, 7 * NS), TABLES) == []
    part, wanted = read(tmp_path / "part.edgetop"), merge(given_in).seconds.between(3, 7)
    assert part.rows["t_ns"].tolist() == [0, NS, 2 * NS, 3 * NS]
    for number in (0, 1):
        mine, its = ByStream(part).of(number), ByStream(wanted).of(number)
        assert mine.rows["p99_ns"].tolist() == its.rows["p99_ns"].tolist()
        assert np.array_equal(mine.histogram(), its.histogram())
        assert mine.rows["t_ns"].tolist() == part.rows["t_ns"].tolist()


def older(folder: Path) -> Path:
    """Take the columns of streams away, as an earlier version of edgetop wrote the table."""
    path = folder / "seconds.parquet"
    table = pq.read_table(path).select(SCHEMAS["seconds"].names).cast(SCHEMAS["seconds"])
    path.unlink()
    pq.write_table(table, path)
    return folder


def test_streams_of_an_older_session_are_made_of_its_inferences(tmp_path: Path) -> None:
    given_in = batches(program(), manifest_of())
    folder = older(written(tmp_path / "s.edgetop", given_in))
    assert differences(read(folder), merge(given_in).seconds) == []
    pieces = [piece.read() for piece in Recording(folder).pieces("seconds", 2_048)]
    assert differences(concatenate(pieces), merge(given_in).seconds) == []


def test_an_older_session_without_single_inferences_has_no_streams(tmp_path: Path) -> None:
    given_in = batches(program(), manifest_of())
    folder = older(written(tmp_path / "s.edgetop", given_in, keep=Retention(raw=False)))
    assert differences(read(folder), replace(merge(given_in).seconds, streams=None)) == []


def test_an_older_session_has_streams_in_the_seconds_whose_inferences_are_all_there(tmp_path: Path) -> None:
    given_in = batches(program(), manifest_of())
    folder = older(written(tmp_path / "s.edgetop", given_in))
    path = folder / "inferences.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(100), path)
    found, wanted = read(folder), merge(given_in).seconds
    begin = int(program()["t_ns"][100] // NS) + 1
    assert found.between(0, begin).streams is None
    last, whole = found.between(begin, len(found)), wanted.between(begin, len(wanted))
    assert ByStream(last).of(1).rows["count"].tolist() == ByStream(whole).of(1).rows["count"].tolist()


def test_streams_of_a_journal_that_an_older_edgetop_left_are_made_of_its_inferences(tmp_path: Path) -> None:
    given_in = batches(program(), manifest_of())
    plain = [replace(batch, seconds=replace(batch.seconds, streams=None)) for batch in given_in[:-1]]
    found = read(written(tmp_path / "s.edgetop", plain, ends=False))
    for number in (0, 1):
        mine, wanted = ByStream(found).of(number), ByStream(merge(given_in).seconds).of(number)
        assert mine.rows["count"].tolist() == wanted.rows["count"].tolist()
        assert np.array_equal(mine.histogram(), wanted.histogram())


def test_a_second_whose_streams_do_not_add_up_to_it_is_left_out() -> None:
    seconds = seconds_of(program(), split_by="stream")
    assert seconds.streams is not None
    mixed = seconds.streams.owner[0]
    for name, value in (("count", 10**6), ("errors", 99), ("t_ns", NS * 77), ("sum_ns", -1)):
        rows = seconds.streams.seconds.rows.copy()
        rows[name][0] = value
        wrong = replace(seconds.streams, seconds=replace(seconds.streams.seconds, rows=rows))
        kept = sound("seconds", replace(seconds, streams=wrong))
        assert kept.rows["t_ns"].tolist() == np.delete(seconds.rows["t_ns"], mixed).tolist()
    number = seconds.streams.number[::-1].copy()
    assert len(sound("seconds", replace(seconds, streams=replace(seconds.streams, number=number)))) < len(seconds)
    assert sound("seconds", NO_SECONDS) is NO_SECONDS
