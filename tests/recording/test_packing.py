"""A batch goes through the journal unchanged, and nothing hostile comes out of it."""

import contextlib
import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.recording import packing
from edgetop.recording.packing import deflated, inflated, interval_of, pack, pack_interval, split
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.manifest_codec import to_json
from edgetop.session.operators import Burst, OperatorInfo
from edgetop.session.records import INFERENCE, READING
from edgetop.session.second_aggregator import SecondAggregator
from tests.support.recordings import first_manifest
from tests.support.scripted_engine import inferences

quick = settings(max_examples=60, deadline=None)
LONG = st.integers(-(2**63), 2**63 - 1)
INFERENCES = st.lists(
    st.tuples(LONG, LONG, LONG, st.integers(0, 255), st.integers(0, 2), st.booleans(), st.integers(0, 1)),
    max_size=20,
).map(lambda rows: np.array(rows, INFERENCE))
READINGS = st.lists(st.tuples(LONG, st.integers(0, 2**16 - 1), st.floats(allow_nan=False)), max_size=20).map(
    lambda rows: np.array(rows, READING)
)
EVENTS = st.lists(
    st.builds(
        read_event,
        st.integers(1 - 2**63, 2**63 - 1),
        st.text(max_size=9),
        st.sampled_from(["info", "critical"]),
        st.text(),
        st.text(max_size=99),
    ),
    max_size=3,
).map(tuple)
SECONDS = st.lists(st.integers(0, 2**33), max_size=20).map(
    lambda starts: SecondAggregator().add(inferences(sorted(starts)))
)


def unpack(
    payload: bytes, until_ns: int, wanted: tuple[str, ...] | None = None, most_inferences: int | None = None
) -> Batch:
    return packing.unpack(split(payload), until_ns, wanted, most_inferences)


def same(back: Batch, given_in: Batch) -> None:
    assert back.until_ns == given_in.until_ns
    assert back.inferences.tobytes() == given_in.inferences.tobytes()
    assert back.readings.tobytes() == given_in.readings.tobytes()
    assert back.events == given_in.events
    assert back.manifest == given_in.manifest
    assert back.seconds.rows.tobytes() == given_in.seconds.rows.tobytes()
    for name in ("offsets", "bucket", "bucket_count"):
        assert getattr(back.seconds, name).tolist() == getattr(given_in.seconds, name).tolist()


@quick
@given(LONG, INFERENCES, SECONDS, READINGS, EVENTS, st.none() | st.just(first_manifest()))
def test_a_batch_comes_back(until_ns, singles, seconds, readings, events, manifest) -> None:
    batch = Batch(until_ns, singles, seconds, readings, events, manifest)
    same(unpack(pack(batch), until_ns), batch)


def test_only_what_is_wanted_is_unpacked() -> None:
    batch = Batch(1, inferences(range(5)), events=(read_event(1, "mark", "info", "user", "here"),))
    assert len(unpack(pack(batch), 1, ("events",)).inferences) == 0
    assert unpack(pack(batch), 1, ("events",)).events == batch.events


def test_kinds_of_a_later_version_are_passed_over() -> None:
    batch = Batch(1, inferences(range(5)))
    same(unpack(struct.pack("<BI", 200, 3) + b"new" + pack(batch), 1), batch)


def test_the_interval_of_syncing_comes_back_where_it_was_said() -> None:
    assert interval_of(split(pack_interval(7) + pack(Batch(0, inferences([1]))))) == 7
    assert interval_of(split(pack(Batch(0, inferences([1]))))) is None
    assert interval_of(split(b"")) is None


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_payload_that_is_cut_short_is_refused(cut: int) -> None:
    payload = pack(Batch(0, inferences(range(9)), manifest=None))
    with pytest.raises(ValueError, match=r".+"):
        unpack(payload[: len(payload) - cut], 0)


@quick
@given(st.data())
def test_a_payload_of_any_content_is_unpacked_or_refused(data: st.DataObject) -> None:
    seconds = SecondAggregator().add(inferences(range(0, 10**10, 10**9)))
    batch = Batch(0, inferences(range(9)), seconds, events=(read_event(1, "mark", "info", "user", "here"),))
    payload = bytearray(pack(batch))
    for _ in range(data.draw(st.integers(1, 8))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        unpack(bytes(payload), 0)


def test_a_phase_that_is_none_is_refused() -> None:
    rows = inferences([1])
    rows["phase"] = 3
    with pytest.raises(ValueError, match="no known phase"):
        unpack(pack(Batch(0, rows)), 0)


def test_a_manifest_that_is_none_is_refused() -> None:
    for content in (b"{", b"[]", json.dumps({**to_json(first_manifest()), "sensors": 3}).encode()):
        with pytest.raises(ValueError, match=r".+"):
            unpack(struct.pack("<BI", packing.MANIFEST, len(content)) + content, 0)


def part(kind: int, document: object) -> bytes:
    content = json.dumps(document).encode()
    return struct.pack("<BI", kind, len(content)) + content


@pytest.mark.parametrize(
    "row",
    [
        3,
        [1],
        [1, "mark", "info", "user", "here"],
        ["1", "mark", "info", "user", "here", {}],
        [2**63, "mark", "info", "user", "here", {}],
        [1, "mark", "info", "user", ["here"], {}],
    ],
)
def test_an_event_that_is_none_is_refused(row: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(part(packing.EVENTS, [row]), 0)


INFO = ["conv", "Conv", "CPU", None, 1, None]


@pytest.mark.parametrize(
    "row",
    [
        3,
        [1, 0, [INFO], [1]],
        [1, 0, [INFO], [1, 2], [3]],
        [1, 0, None, [1], [1]],
        [1, 0, [INFO], [2**63], [1]],
        [1, 0, [["conv", 3, "CPU", None, None, None]], [1], [1]],
        [1, 0, [["conv", "Conv", "CPU", 1.5, None, None]], [1], [1]],
        [1, 0, [["conv"]], [1], [1]],
    ],
)
def test_a_burst_that_is_none_is_refused(row: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(part(packing.BURSTS, [row]), 0)


def test_histograms_of_another_length_are_refused() -> None:
    seconds = SecondAggregator().add(inferences([*range(7), 10**9], [*range(10**6, 8 * 10**6, 10**6), 1]))
    content = packing._pack_seconds(replace(seconds, offsets=seconds.offsets + np.int32([0, 1])))
    with pytest.raises(ValueError, match="of another length"):
        unpack(struct.pack("<BI", packing.SECONDS, len(content)) + content, 0)


def test_bursts_come_back_and_their_operators_are_one_object() -> None:
    infos = (OperatorInfo("conv\udc80", "Conv", "CPU", None, 7, None),)
    bursts = [Burst(i, i, infos, np.array([3]), np.array([i * 10**6])) for i in range(3)]
    back = unpack(pack(Batch(bursts=tuple(bursts))), 0).bursts
    assert [(b.t_ns, b.number, b.calls.tolist(), b.total_ns.tolist()) for b in back] == [
        (i, i, [3], [i * 10**6]) for i in range(3)
    ]
    assert back[0].infos is back[2].infos
    assert back[0].infos == (OperatorInfo("conv\\udc80", "Conv", "CPU", None, 7, None),)


@quick
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_a_payload_is_inflated_with_its_reference(payload: bytes, reference: bytes) -> None:
    assert inflated(deflated(payload, reference), len(payload), reference) == payload


def test_a_payload_like_its_reference_costs_little() -> None:
    payload = pack(Batch(0, inferences(range(20)), readings=np.array([(i, i, i / 7) for i in range(20)], READING)))
    assert len(deflated(payload, payload)) < len(deflated(payload)) / 4


@pytest.mark.parametrize("packed", [b"", b"nothing of the kind", b"\x28\xb5\x2f\xfd" * 9])
def test_what_is_not_deflated_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        inflated(packed, 1_000)


@quick
@given(INFERENCES, st.integers(0, 25))
def test_of_too_many_inferences_the_last_comes_unchanged(singles, most) -> None:
    got = unpack(pack(Batch(1, singles)), 1, most_inferences=most).inferences
    assert got.tobytes() == (singles if len(singles) <= most else singles[-1:]).tobytes()
