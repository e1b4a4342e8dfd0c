"""Columns come back to the last bit, and bytes that are none are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session import byte_shuffle
from edgetop.session.byte_shuffle import Columns
from edgetop.session.records import READING

quick = settings(max_examples=80, deadline=None)
LONG = st.integers(-(2**63), 2**63 - 1)


@quick
@given(st.lists(LONG, max_size=30), st.lists(LONG, max_size=30))
def test_columns_come_back_one_after_the_other(first, second):
    columns = Columns(byte_shuffle.pack(first) + byte_shuffle.pack_steps(second))
    assert columns.take().tolist() == first
    assert columns.take_steps(len(second)).tolist() == second
    assert columns.is_over


@quick
@given(st.lists(st.tuples(LONG, st.integers(0, 2**16 - 1), st.floats(allow_nan=False, allow_infinity=False))))
def test_tables_reconnect(rows):
    table = np.array(rows, READING)
    assert Columns(byte_shuffle.pack_table(table)).take_table(READING).tobytes() == table.tobytes()


def test_numbers_near_each_other_take_a_byte_each():
    assert len(byte_shuffle.pack_steps(np.arange(1000) * 100)) < 1_010


@quick
@given(st.binary(max_size=60))
def test_no_bytes_make_it_fail_otherwise_than_it_says(data):
    columns = Columns(data)
    try:
        columns.take()
        columns.take_table(READING)
    except ValueError:
        pass


def test_a_column_of_zeros_cannot_claim_too_many_rows():
    with pytest.raises(ValueError, match="longer than it can be"):
        Columns(b"\xff\xff\xff\xff\x00").take()


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="unequal"):
        Columns(byte_shuffle.pack([1, 2])).take(3)


def test_a_number_too_large_for_its_field_is_refused():
    wide = np.array([(0, 70_000, 1.0)], [("t_ns", "<i8"), ("sensor", "<i8"), ("value", "<f8")])
    with pytest.raises(ValueError, match="sensor has a value that cannot be"):
        Columns(byte_shuffle.pack_table(wide)).take_table(READING)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="value has a value that cannot be"):
        Columns(byte_shuffle.pack_table(np.array([(0, 1, value)], READING))).take_table(READING)


@quick
@given(st.lists(st.integers(0, 255), max_size=20))
def test_small_numbers_have_the_bytes_of_large_ones(numbers):
    assert byte_shuffle.pack(np.array(numbers, np.uint8)) == byte_shuffle.pack(np.array(numbers, np.int64))
    flags = np.array(numbers, np.uint8) > 100
    assert byte_shuffle.pack(flags) == byte_shuffle.pack(flags.astype(np.int64))
