"""The columnar shapes, and which inferences count."""

import numpy as np

from edgetop.session.records import (
    FIRST,
    INFERENCE,
    MEASURE,
    NO_INFERENCES,
    NO_READINGS,
    PHASES,
    READING,
    WARMUP,
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
