"""The statistics of single streams over a link: whole in the last minutes, merged before, and checked on arrival."""

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.recording import packing
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.relay import encoding, past
from edgetop.relay.encoding import MAX_NUMBERS, NOWHERE, Decoder, Encoder, in_pieces
from edgetop.relay.relay_frames import MAX_PAYLOAD
from edgetop.session.batch import Batch, merge
from edgetop.session.by_stream import ByStream
from edgetop.session.manifest import Watched, WatchedStream
from edgetop.session.records import Inferences
from edgetop.session.seconds import NS, Seconds, concatenate
from tests.support.sessions import MS, differences, make_inferences, make_manifest, seconds_of
from tests.support.thorough import mostly_thorough


def program(streams: int, seconds: int, rate: int = 20, seed: int = 1) -> Inferences:
    """Some models, of which the first is alone in every third second."""
    random = np.random.default_rng(seed)
    starts = np.sort(random.integers(0, seconds * NS, seconds * rate))
    stream = np.where(starts // NS % 3 == 1, 0, random.integers(0, streams, len(starts)))
    latency = (1 + stream) * MS * random.lognormal(0, 0.2, len(starts))
    return make_inferences(starts, latency.astype(np.int64), stream=stream, wait_ns=starts % MS)


def split(inferences: Inferences) -> Seconds:
    return seconds_of(inferences, 20 * MS, is_paced=True, split_by="stream")


def sent(batches: list[Batch]) -> list[Batch]:
    encoder, decoder = Encoder(), Decoder()
    return [decoder.decode(encoder.encode(batch, NOWHERE))[0] for batch in batches]


def test_streams_arrive_as_they_were() -> None:
    seconds = split(program(3, 300))
    arrived = sent(list(in_pieces(Batch(300 * NS, seconds=seconds))))
    assert len(arrived) > 2
    assert differences(merge(arrived).seconds, seconds) == []


def test_each_frame_of_a_program_of_255_models_fits() -> None:
    seconds = split(program(255, 30, rate=5_000))
    pieces = list(in_pieces(Batch(30 * NS, seconds=seconds)))
    assert all(piece.seconds.streams is None or len(piece.seconds.streams) < MAX_NUMBERS / 25 for piece in pieces)
    assert all(len(Encoder().encode(piece, NOWHERE)) < MAX_PAYLOAD for piece in pieces)
    assert differences(merge(sent(pieces)).seconds, seconds) == []


def frame_with(seconds: Seconds) -> Batch:
    return Batch(10 * NS, seconds=seconds)


@pytest.mark.parametrize(
    ("name", "value"),
    [("t_ns", NS), ("t_ns", 5), ("count", -1), ("count", 10**6), ("errors", 1), ("m2_ns2", np.inf), ("sum_ns", -1)],
)
def test_a_row_of_a_stream_that_cannot_be_is_refused(name: str, value: float) -> None:
    seconds = split(make_inferences([0, 1, 2], MS, stream=[0, 1, 1]))
    assert seconds.streams is not None
    rows = seconds.streams.seconds.rows.copy()
    rows[name][0] = value
    wrong = replace(seconds.streams, seconds=replace(seconds.streams.seconds, rows=rows))
    with pytest.raises(ValueError, match="cannot be"):
        sent([frame_with(replace(seconds, streams=wrong))])


def test_streams_out_of_order_or_of_another_histogram_are_refused() -> None:
    seconds = split(make_inferences([0, 1, 2], MS, stream=[0, 1, 1]))
    streams = seconds.streams
    assert streams is not None
    same = replace(streams, number=np.array([1, 1], np.uint8))
    turned = replace(streams, number=np.array([1, 0], np.uint8))
    more = replace(streams, seconds=replace(streams.seconds, bucket_count=streams.seconds.bucket_count[::-1]))
    longer = replace(streams, offsets=np.array([0, 3], np.int32))
    no_response = replace(streams, seconds=replace(streams.seconds, response=None))
    for wrong in (same, turned, more, longer, no_response):
        with pytest.raises(ValueError, match=r"cannot be|streams"):
            sent([frame_with(replace(seconds, streams=wrong))])


def a_frame(payload: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    head = encoding._HEAD.pack(10 * NS, 0, 0, 0, 0)
    return encoding._BEGINS + stream.compress(head + payload) + stream.flush(zlib.Z_SYNC_FLUSH)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_damaged_streams_raise_nothing_else(data: st.DataObject) -> None:
    parts = packing.split(packing.pack(frame_with(split(program(3, 5)))))
    part = bytearray(parts[packing.STREAMS])
    for _ in range(data.draw(st.integers(1, 4))):
        part[data.draw(st.integers(0, len(part) - 1))] ^= data.draw(st.integers(1, 255))
    packed = packing.pack_part(packing.SECONDS, parts[packing.SECONDS])
    damaged = packed + packing.pack_part(packing.STREAMS, bytes(part))

    frame = a_frame(damaged)
    try:
        found = Decoder().decode(frame)[0].seconds
    except ValueError:
        return
    each = [ByStream(found).of(number).rows["count"] for number in ByStream(found).numbers]
    assert not each or sum(each).tolist() == found.rows["count"].tolist()


@pytest.fixture(scope="module", params=mostly_thorough([2, 40], 2))
def long_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seconds]:
    """An hour and a half of some models."""
    inferences, names = (
        program(request.param, 5_400, rate=5),
        tuple(WatchedStream(f"{i}") for i in range(request.param)),
    )
    manifest = make_manifest(watched=Watched(("app",), streams=names))
    folder = tmp_path_factory.mktemp("streams") / "s.edgetop"
    seconds = seconds_of(inferences, split_by="stream")
    recorder = Recorder(folder, manifest)
    recorder.write(Batch(5_400 * NS, inferences=inferences, seconds=seconds, manifest=manifest))
    recorder.finish(replace(manifest, state="finished", duration_ns=5_400 * NS))
    return folder, seconds


def test_the_past_keeps_each_streams_counts_and_histogram(long_session: tuple[Path, Seconds]) -> None:
    folder, whole = long_session
    batches = sent(list(past.past(Recording(folder))))
    seconds = concatenate([batch.seconds for batch in batches])
    assert len(seconds) < len(whole) / 2
    assert ByStream(seconds).numbers == ByStream(whole).numbers
    for number in ByStream(whole).numbers:
        found, wanted = ByStream(seconds).of(number), ByStream(whole).of(number)
        for name in ("count", "errors", "sum_ns"):
            assert found.rows[name].sum(dtype=np.int64) == wanted.rows[name].sum(dtype=np.int64)
        assert found.rows["max_ns"].max() == wanted.rows["max_ns"].max()
        assert np.array_equal(found.histogram(), wanted.histogram())
    fine = whole.between(whole.before(4_800 * NS), len(whole))
    assert differences(seconds.between(seconds.before(4_800 * NS), len(seconds)), fine) == []
