"""The columnar shapes, and which inferences count."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session.records import (
    AGGREGATE,
    FIRST,
    INFERENCE,
    MEASURE,
    NO_INFERENCES,
    NO_READINGS,
    PHASES,
    READING,
    WARMUP,
    Overlap,
    copied,
    join,
    measured,
)
from tests.support.sessions import make_inferences


def test_only_measured_inferences_that_did_not_raise_count() -> None:
    inferences = make_inferences([0, 1, 2, 3], 5, phase=[FIRST, WARMUP, MEASURE, MEASURE], ok=[True, True, False, True])
    assert measured(inferences)["t_ns"].tolist() == [3]


def test_none_is_copied_where_all_count() -> None:
    inferences = make_inferences([0, 1], 5)
    assert measured(inferences) is inferences


def test_none_of_none_counts() -> None:
    assert len(measured(NO_INFERENCES)) == 0


def test_phases_are_told_by_their_names() -> None:
    assert [PHASES[phase] for phase in (FIRST, WARMUP, MEASURE)] == ["first", "warmup", "measure"]


def test_an_inference_is_packed_in_28_bytes() -> None:
    """As the engine sends it, without a copy: start, latency, wait, stream, phase, ok, and a byte for the variant."""
    row = make_inferences([0x0102], 0x03, phase=MEASURE, wait_ns=4)
    assert row.tobytes().hex() == "0201000000000000" + "0300000000000000" + "0400000000000000" + "00020100"
    assert INFERENCE.itemsize == 28


def test_empty_tables_have_their_columns() -> None:
    assert (NO_INFERENCES.dtype, NO_READINGS.dtype) == (INFERENCE, READING)
    assert np.concatenate([NO_READINGS, np.zeros(1, READING)]).shape == (1,)


def made(*pairs):
    inferences = np.zeros(len(pairs), INFERENCE)
    inferences["t_ns"], inferences["latency_ns"] = zip(*pairs, strict=True)
    return inferences


def test_calls_that_overlap():
    overlap = Overlap()
    overlap.add(made((0, 10), (5, 10), (20, 5), (22, 1), (23, 4)))
    assert (overlap.most, overlap.mean, overlap.outside) == (2, 30 / 22, pytest.approx(5 / 27))


def test_in_pieces_it_is_the_same():
    random = np.random.default_rng(1)
    begins = np.cumsum(random.integers(1, 20, 500))
    whole = made(*zip(begins.tolist(), random.integers(1, 60, 500).tolist(), strict=True))
    one, many = Overlap(), Overlap()
    one.add(whole)
    for piece in np.array_split(whole, 37):
        many.add(piece)
    assert (one.most, one.mean, one.outside) == (many.most, many.mean, many.outside)
    ends = whole["t_ns"] + whole["latency_ns"]
    assert one.most == max(int(((whole["t_ns"] <= t) & (ends > t)).sum()) for t in whole["t_ns"])


def test_nothing_is_not_known():
    assert (Overlap().mean, Overlap().outside) == (None, None)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.sampled_from([INFERENCE, READING, AGGREGATE]))
def test_joined_rows_are_those_that_numpy_would_concatenate(lengths, dtype):
    random = np.random.default_rng(len(lengths))
    parts = [np.frombuffer(random.bytes(length * dtype.itemsize), dtype) for length in lengths]
    every = join([part[::-1] for part in parts])
    assert every.tobytes() == np.concatenate([part[::-1] for part in parts]).tobytes()
    assert every.dtype == dtype


def test_a_copy_may_be_changed():
    rows = np.frombuffer(bytes(INFERENCE.itemsize), INFERENCE)
    mine = copied(rows)
    mine["t_ns"] = 5
    assert rows["t_ns"] == 0
