"""Frames come out of a byte stream as they went in, however it was cut."""

import itertools
import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.child import message_frames
from edgetop.session.records import INFERENCE, PHASES

KINDS = st.integers(0, 255)
FRAMES = st.lists(st.tuples(KINDS, st.binary(max_size=40)), max_size=8)

NANOSECONDS = st.integers(-(2**63), 2**63 - 1)
BYTES = st.integers(0, 255)


def pack(
    kind: int, payload: bytes, magic: bytes = message_frames.MAGIC, version: int = message_frames.VERSION
) -> bytes:
    return message_frames.HEADER.pack(magic, version, kind, len(payload)) + payload


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(bounds)]


@settings(deadline=None)
@given(FRAMES, st.lists(st.integers(0, 1000), max_size=12))
def test_a_stream_cut_anywhere_gives_the_frames_that_went_in(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(pack(kind, payload) for kind, payload in sent)
    reader = message_frames.FrameReader()
    assert [pair for piece in pieces(stream, cuts) for pair in reader.feed(piece)] == sent


def test_a_frame_comes_as_soon_as_its_last_byte_does() -> None:
    reader = message_frames.FrameReader()
    stream = pack(message_frames.LOG, b"words")
    assert list(reader.feed(stream[:-1])) == []
    assert list(reader.feed(stream[-1:])) == [(message_frames.LOG, b"words")]


def test_a_long_frame_in_small_pieces_takes_no_longer_for_what_came_before() -> None:
    """Each piece would be copied with all before it, for more than a minute in all."""
    payload, reader = bytes(32_000_000), message_frames.FrameReader()
    stream = memoryview(pack(message_frames.LOG, payload))
    begin, held = time.process_time(), []
    for start in range(0, len(stream), 4096):
        held += reader.feed(bytes(stream[start : start + 4096]))
    assert held == [(message_frames.LOG, payload)]
    assert time.process_time() - begin < 3


def test_a_message_is_one_frame_of_json() -> None:
    message = {"text": "[31m\x1b\n", "lone": "\udc80", "n": 2**60}
    ((kind, payload),) = message_frames.FrameReader().feed(message_frames.pack_message(message_frames.LOG, message))
    assert kind == message_frames.LOG
    assert json.loads(payload) == message


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (pack(1, b"", magic=b"XX"), "not an engine's frame"),
        (b"Traceback (most recent call last)", "Traceba"),
        (pack(1, b"", version=9), "version 9"),
        (
            message_frames.HEADER.pack(message_frames.MAGIC, message_frames.VERSION, 1, message_frames.MAX_PAYLOAD + 1),
            "too long",
        ),
    ],
    ids=["magic", "text", "version", "length"],
)
def test_what_is_not_ours_is_refused(stream: bytes, said: str) -> None:
    with pytest.raises(message_frames.FrameError, match=said):
        list(message_frames.FrameReader().feed(stream))


def test_frames_before_a_broken_one_are_still_given() -> None:
    came = message_frames.FrameReader().feed(pack(message_frames.RECORDS, b"good") + b"not a frame at all")
    assert next(came) == (message_frames.RECORDS, b"good")
    with pytest.raises(message_frames.FrameError):
        next(came)


@settings(deadline=None)
@given(NANOSECONDS, NANOSECONDS, NANOSECONDS, BYTES, st.sampled_from(range(3)), st.booleans())
def test_a_packed_record_is_one_inference_of_the_session(
    start: int, latency: int, wait: int, stream: int, phase: int, ok: bool
) -> None:
    packed = message_frames.RECORD.pack(start, latency, wait, stream, phase, ok)
    (record,) = np.frombuffer(packed, INFERENCE)
    assert record.tolist() == (start, latency, wait, stream, phase, ok, 0)


def test_records_lie_close_in_a_batch() -> None:
    assert message_frames.RECORD.size == INFERENCE.itemsize
    packed = b"".join(message_frames.RECORD.pack(n, n, n, n, n % 3, bool(n % 2)) for n in range(5))
    assert np.frombuffer(packed, INFERENCE)["t_ns"].tolist() == [0, 1, 2, 3, 4]


def test_phases_have_the_sessions_names_and_numbers() -> None:
    assert PHASES == ("first", "warmup", "measure")
    assert (message_frames.PHASE_FIRST, message_frames.PHASE_WARMUP, message_frames.PHASE_MEASURE) == (0, 1, 2)
