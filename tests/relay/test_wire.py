"""Frames survive whatever pieces they come in; everything else is told from them."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop import __version__
from edgetop.relay import relay_frames
from edgetop.relay.relay_frames import Frame, FrameParser, WireError
from edgetop.session.manifest import FORMAT_VERSION

quick = settings(max_examples=60, deadline=None)


def fed(*pieces: bytes) -> list[Frame]:
    parser = FrameParser()
    return [frame for piece in pieces for frame in parser.feed(piece)]


@quick
@given(st.lists(st.tuples(st.integers(2, 255), st.binary(max_size=40)), max_size=4), st.data())
def test_frames_come_out_however_they_are_cut(messages, data):
    stream = relay_frames.hello() + b"".join(relay_frames.seal(kind, payload) for kind, payload in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [(frame.kind, frame.payload) for frame in fed(*pieces)][1:] == messages


@quick
@given(st.binary(max_size=200))
def test_output_of_a_shell_before_the_first_frame_is_skipped(noise):
    parser = FrameParser()
    frames = list(parser.feed(noise.replace(b"ETr", b"") + relay_frames.hello()))
    assert [frame.kind for frame in frames] == [relay_frames.HELLO]
    assert parser.noise == noise.replace(b"ETr", b"")


def test_noise_without_end_is_no_relay():
    with pytest.raises(WireError, match="not edgetop relay"):
        fed(b"y\n" * relay_frames.MAX_NOISE)


@quick
@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_byte_is_seen_or_the_frame_never_comes(place, change):
    stream = bytearray(relay_frames.seal(relay_frames.ACK, b"x" * 150))
    stream[place % len(stream)] ^= change
    with contextlib.suppress(WireError):
        assert fed(relay_frames.hello(), bytes(stream))[1:] == []


def test_a_frame_that_says_it_is_huge_is_not_waited_for():
    with pytest.raises(WireError):
        fed(relay_frames.hello(), b"ETr\x03\xff\xff\xff\x7f\x00\x00\x00\x00")


@pytest.mark.parametrize("payload", [b"", b"[1]", b"{", b"[" * 100_000, b"\xff"])
def test_a_message_that_is_none_is_an_error_of_the_wire(payload):
    with pytest.raises(WireError):
        _ = Frame(relay_frames.ACK, payload).message


def test_values_of_another_type_are_as_if_they_were_not_there():
    frame = Frame(relay_frames.ACK, json.dumps({"number": True, "error": 5}).encode())
    assert (frame.number("number"), frame.text("error")) == (-1, "")


def test_words_are_cut_where_nobody_would_read_on():
    assert (
        len(Frame(relay_frames.FAILED, json.dumps({"message": "x" * 10_000}).encode()).text("message"))
        == relay_frames.MAX_WORDS
    )


def theirs(**changed: object) -> Frame:
    told = {"protocol": relay_frames.PROTOCOL, "edgetop": "9.9", "format": FORMAT_VERSION, **changed}
    return Frame(relay_frames.HELLO, json.dumps(told).encode())


def test_equal_versions_fit():
    assert relay_frames.misfit(theirs(), "on pi@board") == ""


@pytest.mark.parametrize(
    ("changed", "theirs_is", "ours_is", "where"),
    [
        ({"protocol": 99}, "speaks relay protocol 99", f"{relay_frames.PROTOCOL}", "here"),
        ({"protocol": 1}, "speaks relay protocol 1", f"{relay_frames.PROTOCOL}", "on pi@board"),
        ({"format": 2}, "records sessions of format 2", "reads 1", "here"),
    ],
)
def test_a_misfit_says_which_side_is_what_and_what_to_do(changed, theirs_is, ours_is, where):
    line = f"edgetop 9.9 on pi@board {theirs_is}, edgetop {__version__} here {ours_is}: update edgetop {where}"
    assert relay_frames.misfit(theirs(**changed), "on pi@board") == line


def test_an_older_format_fits_because_every_edgetop_reads_it():
    assert relay_frames.misfit(theirs(format=0), "on pi@board") == ""
