"""A stream of batches comes back to the last bit; a stranger's bytes are a ValueError and cost little."""

import json
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.recording import packing
from edgetop.recording.packing import pack_part
from edgetop.recording.rows import MAX_SESSION_NS, MAX_VALUE
from edgetop.relay import encoding
from edgetop.relay.encoding import MAX_NUMBERS, MAX_SENSORS, MAX_TEXT, MAX_UNPACKED, NOWHERE, OLD_S, Decoder, Encoder
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.manifest_codec import to_json
from edgetop.session.operators import Burst, OperatorInfo, burst_of
from edgetop.session.records import AGGREGATE, INFERENCE, READING
from edgetop.session.seconds import NS, Seconds
from tests.analysis.test_equal_position import Model, session
from tests.support.recordings import back_to_back, first_manifest
from tests.support.scripts import HOSTILE, measured_with_power, paced, sensor, squeezenet
from tests.support.sessions import differences, make_inferences, make_manifest, seconds_of

quick = settings(max_examples=60, deadline=None)
T_NS = st.integers(-NS, MAX_SESSION_NS - 1)
FINITE = st.floats(-MAX_VALUE, MAX_VALUE, exclude_min=True, exclude_max=True)  # what counts as a value
READINGS = st.lists(st.tuples(T_NS, st.integers(0, 5), FINITE), max_size=20).map(lambda rows: np.array(rows, READING))


def passed(*batches: Batch) -> list[Batch]:
    """Through one encoder and its decoder."""
    encoder, decoder = Encoder(), Decoder()
    return [decoder.decode(encoder.encode(batch, (1, 2, 3)))[0] for batch in batches]


def assert_same(back: Batch, sent: Batch) -> None:
    assert differences(back, sent) == []


@quick
@given(st.lists(READINGS, max_size=4))
def test_readings_come_back_batch_after_batch(pieces):
    for back, sent in zip(passed(*(Batch(1, readings=piece) for piece in pieces)), pieces, strict=True):
        assert back.readings.tobytes() == sent.tobytes()


def test_a_whole_session_comes_back():
    script = measured_with_power(5).profile().measure(2).profile().lose("temp/cpu-thermal").end()
    for back, sent in zip(passed(*script.batches), script.batches, strict=True):
        assert_same(back, sent)


def test_a_paced_session_comes_back_with_response_times():
    script = paced(6).end()
    batches = passed(*script.batches)
    for back, sent in zip(batches, script.batches, strict=True):
        assert_same(back, sent)
    assert merge(batches).seconds.response is not None
    assert (merge(batches).seconds.rows["miss_run_longest"] > 0).any()


SERVICE = seconds_of(make_inferences([0, NS, NS + 5], 5), is_paced=True)


@pytest.mark.parametrize(
    "response",
    [
        SERVICE.where(np.array([True, False])),
        seconds_of(make_inferences([0, 5, NS], 5)),
        replace(SERVICE, rows=SERVICE.rows[::-1].copy(), response=None),
    ],
    ids=["fewer", "others", "another order"],
)
def test_response_times_of_other_seconds_are_refused(response):
    assert passed(Batch(3 * NS, seconds=SERVICE))[0].seconds.response is not None
    refused_batch(Batch(3 * NS, seconds=replace(SERVICE, response=response)))


def token_batch():
    return session(Model(most=40), 4)


def test_tokens_come_back():
    sent = token_batch()
    (back,) = passed(sent)
    assert_same(back, sent)
    assert back.seconds.tokens.rows["tokens_out"].sum() > 50


def changed(tokens, name, value):
    rows = tokens.rows.copy()
    rows[name][1] = value
    return replace(tokens, rows=rows)


@pytest.mark.parametrize(
    "change",
    [
        lambda tokens: changed(tokens, "tokens_out", -1),
        lambda tokens: changed(tokens, "position_mean", np.nan),
        lambda tokens: changed(tokens, "position_mean", 1e300),
        lambda tokens: replace(tokens, itl=tokens.itl.take(np.arange(4)[::-1])),
        lambda tokens: replace(tokens, ttft=replace(tokens.ttft, bucket_count=tokens.ttft.bucket_count + 1)),
    ],
    ids=["a negative number", "no number", "a position beyond all contexts", "other seconds", "another histogram"],
)
def test_tokens_that_cannot_be_true_are_refused(change):
    sent = token_batch()
    refused_batch(replace(sent, seconds=replace(sent.seconds, tokens=change(sent.seconds.tokens))))


def test_a_column_that_says_it_is_huge_is_not_made():
    refused(packing.INFERENCES, struct.pack("<IB", MAX_NUMBERS + 1, 0) * 6)


def test_a_batch_with_two_parts_of_a_kind_is_refused():
    twice = pack_part(packing.EVENTS, b"[]") * 2
    with pytest.raises(ValueError, match="occurs twice"):
        Decoder().decode(deflated(HEAD + twice))


def test_aggregates_a_restart_and_a_position_reconnect():
    aggregate = np.array([(0, 9 * NS, 3, 10, -1.5, 2.25, 7.0, 0.1)], AGGREGATE)
    sent = Batch(5 * NS, aggregates=aggregate, restart=True)
    assert_same(passed(sent)[0], sent)
    assert Decoder().decode(Encoder().encode(sent, (9, 8, 7)))[1] == (9, 8, 7)
    assert Decoder().decode(Encoder().encode(sent, NOWHERE))[1] == NOWHERE


@pytest.mark.parametrize("text", [text for text in HOSTILE if len(text) < 1_000])
def test_hostile_text_comes_back_as_the_text_that_it_is(text):
    sent = Batch(1, events=(read_event(1, "log", "info", text, text, {text: text}),))
    assert passed(sent)[0].events == sent.events


def test_a_name_that_is_not_utf_8_comes_back_as_a_journal_has_it():
    (back,) = passed(Batch(1, events=(read_event(1, "log", "info", "x", "caf\udce9"),)))
    assert back.events[0].message == "caf\\udce9"


def test_of_long_texts_only_the_beginning_is_taken():
    long = "y" * 100_000
    infos = (OperatorInfo(long, long, long, origin=long),)
    burst = Burst(1, 0, infos, np.array([1]), np.array([1]))
    (back,) = passed(Batch(1, events=(read_event(1, long, "info", long, long),), bursts=(burst,)))
    (event,), (info,) = back.events, back.bursts[0].infos
    assert {len(event.kind), len(event.source), len(event.message)} == {MAX_TEXT}
    assert {len(info.name), len(info.op_type), len(info.provider), len(info.origin)} == {MAX_TEXT}


def test_after_one_sender_another_may_go_on():
    decoder = Decoder()
    for encoder in (Encoder(), Encoder()):
        for until_ns in (1, 2):
            assert decoder.decode(encoder.encode(Batch(until_ns), NOWHERE))[0].until_ns == until_ns


def test_a_similar_second_batch_is_smaller_than_the_first():
    seconds = seconds_of(back_to_back(3_000, 1e6))
    encoder = Encoder()
    sizes = [len(encoder.encode(Batch(1, seconds=seconds), NOWHERE)) for _ in range(2)]
    assert sizes[1] < sizes[0] / 4


@quick
@given(st.binary(max_size=300))
def test_no_bytes_make_the_decoder_fail_otherwise_than_it_says(data):
    with pytest.raises(ValueError, match=r"."):
        Decoder().decode(b"\1\x07" + data)


@quick
@given(st.data())
def test_any_change_of_a_payload_fails_only_as_documented(data):
    payload = bytearray(plain(whole_batch()))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        batch, _ = Decoder().decode(deflated(bytes(payload)))
    except ValueError:
        return
    assert (batch.seconds.rows["t_ns"] % NS == 0).all()
    assert np.isfinite(batch.readings["value"]).all()


def whole_batch() -> Batch:
    return replace(measured_with_power(2).profile().whole(), manifest=None)


def plain(batch: Batch) -> bytes:
    return zlib.decompressobj(wbits=-15).decompress(Encoder().encode(batch, (0, 0, 0))[1:])


def deflated(payload: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return b"\1" + stream.compress(payload) + stream.flush(zlib.Z_SYNC_FLUSH)


def test_a_payload_that_grows_beyond_measure_is_not_unpacked():
    bomb = deflated(bytes(MAX_UNPACKED + 1))
    assert len(bomb) < 10_000
    with pytest.raises(ValueError, match="longer or shorter"):
        Decoder().decode(bomb)


HEAD = encoding._HEAD.pack(1, 0, 0, 0, 0)


def a_part(kind: int, data: bytes) -> bytes:
    return deflated(HEAD + pack_part(kind, data))


def refused_batch(batch: Batch) -> None:
    with pytest.raises(ValueError, match=r"."):
        passed(batch)


def refused(kind: int, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Decoder().decode(a_part(kind, data))


@pytest.mark.parametrize(
    "row",
    [
        [],
        [1, "a", "info", "b", "c"],
        [1.5, "a", "info", "b", "c", {}],
        [True, "a", "info", "b", "c", {}],
        [2**70, "a", "info", "b", "c", {}],
        [1, "a", "fatal", "b", "c", {}],
        [1, "a", "info", None, "c", {}],
    ],
)
def test_an_event_that_cannot_be_is_refused(row):
    refused(packing.EVENTS, json.dumps([row]).encode())


def test_events_nested_beyond_measure_are_refused():
    refused(packing.EVENTS, b"[" * 100_000)


def test_an_event_of_a_later_version_passes_unchanged():
    row = [1, "a", "info", "b", "c", {"x": [1], "n": 2**70, "y": {"z": 1}}]
    content = json.dumps([row], separators=(",", ":")).encode()
    (event,) = Decoder().decode(a_part(packing.EVENTS, content))[0].events
    assert packing.pack(Batch(1, events=(event,))).endswith(content)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"{" * 100_000])
def test_a_manifest_that_is_none_is_refused(data):
    refused(packing.MANIFEST, data)


def test_a_board_with_sensors_beyond_measure_is_refused():
    many = make_manifest(*(sensor(f"temp/zone-{i}") for i in range(MAX_SENSORS + 1)))
    refused(packing.MANIFEST, json.dumps(to_json(many)).encode())


def test_a_histogram_of_another_count_is_refused():
    seconds = seconds_of(back_to_back(300, 1e6))
    wrong = Seconds(seconds.rows, seconds.offsets, seconds.bucket, seconds.bucket_count + 1)
    refused_batch(Batch(1, seconds=wrong))


def test_only_seconds_outside_all_windows_may_share_histograms():
    seconds = seconds_of(make_inferences([0, NS], [5, 5]))
    shared = replace(seconds, offsets=np.array([0, 0, 2], np.int32))
    old = Batch((OLD_S + 1) * NS, seconds=shared)
    assert passed(old)[0].seconds.offsets.tolist() == [0, 0, 2]
    with pytest.raises(ValueError, match="cannot be true"):
        passed(replace(old, until_ns=OLD_S * NS))


@pytest.mark.parametrize(("name", "value"), [("t_ns", 5), ("count", -1), ("m2_ns2", np.inf), ("t_ns", 2**62)])
def test_a_second_that_cannot_be_is_refused(name, value):
    seconds = seconds_of(back_to_back(300, 1e6))
    rows = seconds.rows.copy()
    rows[name][0] = value
    refused_batch(Batch(1, seconds=replace(seconds, rows=rows)))


@pytest.mark.parametrize(("name", "value"), [("until_ns", -1), ("count", 0), ("sensor", 60_000), ("mean", np.nan)])
def test_an_aggregate_that_cannot_be_is_refused(name, value):
    rows = np.array([(0, 9, 3, 10, 1.0, 2.0, 3.0, 2.0)], AGGREGATE)
    rows[name] = value
    refused_batch(Batch(1, aggregates=rows))


@pytest.mark.parametrize(("name", "value"), [("phase", 3), ("latency_ns", -1), ("t_ns", 2**62)])
def test_an_inference_that_cannot_be_is_refused(name, value):
    rows = np.array([(0, 9, 0, 0, 2, True, 0)], INFERENCE)
    rows[name] = value
    refused_batch(Batch(1, inferences=rows))


def test_a_part_of_a_kind_that_came_later_is_passed_over():
    assert Decoder().decode(a_part(99, b"whatever"))[0].is_empty


def test_a_manifest_comes_back():
    sent = Batch(0, manifest=first_manifest())
    assert_same(passed(sent)[0], sent)


BURST = (5, 0, [["conv1", "Conv", "CPU", 9, None, None]], [2], [7_000])


def test_of_a_burst_what_is_new_costs_the_most():
    first, second = (burst_of(t_ns, t_ns, squeezenet(3, 5_000_000)) for t_ns in (1, 2))
    encoder = Encoder()
    sizes = [len(encoder.encode(Batch(9, bursts=(burst,)), NOWHERE)) for burst in (first, second)]
    assert sizes[1] < sizes[0] / 2
    assert passed(Batch(9, bursts=(first, second)))[0].bursts == (first, second)


def test_a_burst_is_read_as_it_stands():
    (burst,) = Decoder().decode(a_part(packing.BURSTS, json.dumps([BURST]).encode()))[0].bursts
    assert burst == Burst(5, 0, (OperatorInfo("conv1", "Conv", "CPU", 9),), np.array([2]), np.array([7_000]))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 2**63), (0, "now"), (1, -1), (1, 2**40), (2, "all"), (2, [["conv1", "Conv", "CPU", 9, None]]),
        (2, [[1, "Conv", "CPU", 9, None, None]]), (2, [["a", "b", "c", -9, None, None]]), (2, []),
        (2, [["a", "b", "c", 9, None, 5]]), (3, [0]), (3, [1, 2]), (4, [-1]),
        (4, [2**63]), (4, []),
    ],
)  # fmt: skip
def test_a_burst_that_cannot_be_is_refused(place, value):
    row = [*BURST[:place], value, *BURST[place + 1 :]]
    refused(packing.BURSTS, json.dumps([row]).encode())


def test_a_burst_of_operators_that_nobody_named_is_refused():
    refused(packing.BURSTS, json.dumps([[5, 0, None, [2], [7_000]]]).encode())
