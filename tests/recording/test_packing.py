"""A batch goes through the journal unchanged, and nothing hostile comes out of it."""

import contextlib
import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.recording import packing
from edgetop.recording.packing import Packer, Unpacker, interval_of, pack, pack_interval, unpack
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.manifest import to_json
from edgetop.session.records import INFERENCE, READING
from edgetop.session.seconds import SecondAggregator
from tests.support.recordings import first_manifest
from tests.support.scripted_engine import inferences

quick = settings(max_examples=60, deadline=None)
LONG = st.integers(-(2**63), 2**63 - 1)
INFERENCES = st.lists(
    st.tuples(LONG, LONG, LONG, st.integers(0, 255), st.integers(0, 2), st.booleans()), max_size=20
).map(lambda rows: np.array(rows, INFERENCE))
READINGS = st.lists(st.tuples(LONG, st.integers(0, 2**16 - 1), st.floats(allow_nan=False)), max_size=20).map(
    lambda rows: np.array(rows, READING)
)
EVENTS = st.lists(
    st.builds(Event, LONG, st.text(max_size=9), st.sampled_from(["info", "critical"]), st.text(), st.text(max_size=99)),
    max_size=3,
).map(tuple)
SECONDS = st.lists(st.integers(0, 2**33), max_size=20).map(
    lambda starts: SecondAggregator().add(inferences(sorted(starts)))
)


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
    batch = Batch(1, inferences(range(5)), events=(Event(1, "mark", "info", "user", "here"),))
    assert len(unpack(pack(batch), 1, ("events",)).inferences) == 0
    assert unpack(pack(batch), 1, ("events",)).events == batch.events


def test_kinds_of_a_later_version_are_passed_over() -> None:
    batch = Batch(1, inferences(range(5)))
    same(unpack(struct.pack("<BI", 200, 3) + b"new" + pack(batch), 1), batch)


def test_the_interval_of_syncing_comes_back_where_it_was_said() -> None:
    assert interval_of(pack_interval(7) + pack(Batch(0, inferences([1])))) == 7
    assert interval_of(pack(Batch(0, inferences([1])))) is None
    assert interval_of(b"") is None


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_a_payload_that_is_cut_short_is_refused(cut: int) -> None:
    payload = pack(Batch(0, inferences(range(9)), manifest=None))
    with pytest.raises(ValueError, match=r".+"):
        unpack(payload[: len(payload) - cut], 0)


@quick
@given(st.data())
def test_a_payload_of_any_content_is_unpacked_or_refused(data: st.DataObject) -> None:
    seconds = SecondAggregator().add(inferences(range(0, 10**10, 10**9)))
    batch = Batch(0, inferences(range(9)), seconds, events=(Event(1, "mark", "info", "user", "here"),))
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


def test_a_list_of_absurd_length_is_refused() -> None:
    seconds = SecondAggregator().add(inferences([*range(7), 10**9], [*range(10**6, 8 * 10**6, 10**6), 1]))
    message = packing._message(packing.columns.seconds_to_arrow(seconds))
    offsets = struct.pack("<ii", 0, 7)
    assert message.count(offsets) >= 2
    for absurd in (2**30, -7, 2**31 - 1):
        with pytest.raises(ValueError, match="not an Arrow message"):
            packing._seconds_from_arrow(message.replace(offsets, struct.pack("<ii", 0, absurd)), packing.SECONDS_TABLE)


def test_a_value_that_is_missing_is_refused() -> None:
    whole = packing._readings_to_arrow(np.array([(1, 0, 1.0), (2, 0, 2.0)], READING))
    columns = [*whole.columns[:2], pa.array([1.0, None])]
    message = packing._message(pa.RecordBatch.from_arrays(columns, names=whole.schema.names))
    with pytest.raises(ValueError, match="a value is missing"):
        packing._readings_from_arrow(message)


@quick
@given(st.lists(st.binary(max_size=300), max_size=8))
def test_consecutive_payloads_are_unpacked_one_by_one(contents: list[bytes]) -> None:
    packer, unpacker = Packer(), Unpacker()
    packed = [(packer.pack(content), len(content)) for content in contents]
    assert [unpacker.unpack(*each) for each in packed] == contents


def test_alike_payloads_cost_little_after_the_first() -> None:
    payload = pack(Batch(0, inferences(range(20))))
    packer = Packer()
    first, second = packer.pack(payload), packer.pack(payload)
    assert len(second) < len(first) / 4


@pytest.mark.parametrize("packed", [b"", b"nothing of the kind", b"\x28\xb5\x2f\xfd" * 9])
def test_what_is_not_compressed_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Unpacker().unpack(packed, 10)


@quick
@given(INFERENCES, st.integers(0, 25))
def test_of_more_inferences_than_are_wanted_the_last_comes_as_it_was(singles, most) -> None:
    got = unpack(pack(Batch(1, singles)), 1, most_inferences=most).inferences
    assert got.tobytes() == (singles if len(singles) <= most else singles[-1:]).tobytes()
