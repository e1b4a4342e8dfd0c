import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.models import protobuf as wire
from edgetop.models.reading_limits import Budget, MalformedError


def fields(data):
    return [
        (number, value if isinstance(value, int) else bytes(value))
        for number, value in wire.fields(memoryview(data), Budget())
    ]


def encoded(number):
    """A varint, written by the definition."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@given(st.integers(0, 2**64 - 1), st.binary(max_size=5))
@settings(deadline=None, max_examples=50)
def test_a_varint_is_read_back_and_what_follows_is_left(number, after):
    data = encoded(number)
    assert wire.varint(memoryview(data + after), 0) == (number, len(data))


def test_fields_of_every_wire_type_are_met_in_order():
    data = b"\x08\x96\x01" + b"\x12\x02hi" + b"\x1d\0\0\x80\x3f" + b"\x21" + bytes(8)
    assert fields(data) == [(1, 150), (2, b"hi"), (3, b"\0\0\x80\x3f"), (4, bytes(8))]


@pytest.mark.parametrize(
    "data",
    [b"\x12\x05hi", b"\x08", b"\x80" * 11, b"\x1d\0\0", b"\x0b", b"\x12" + encoded(2**63)],
    ids=["too long", "no value", "endless number", "half a float", "group", "absurd length"],
)
def test_what_does_not_end_where_it_says_is_malformed(data):
    with pytest.raises(MalformedError):
        fields(data)


def test_negative_numbers_take_ten_bytes():
    assert wire.signed(wire.varint(memoryview(encoded(2**64 - 3)), 0)[0]) == -3


def test_numbers_may_be_packed_or_single():
    assert wire.numbers(memoryview(b"\x01\x02" + encoded(300)), Budget()) == [1, 2, 300]
    assert wire.numbers(7, Budget()) == [7]


def test_a_number_where_a_text_belongs_is_malformed():
    with pytest.raises(MalformedError):
        wire.text(5, Budget())
    with pytest.raises(MalformedError):
        wire.signed(memoryview(b"five"))


def test_bytes_that_are_no_text_keep_names_apart():
    assert wire.text(memoryview(b"a\xff"), Budget()) != wire.text(memoryview(b"a\xfe"), Budget())


def test_more_fields_than_the_budget_allows_are_refused():
    with pytest.raises(MalformedError, match="more parts"):
        list(wire.fields(memoryview(b"\x08\x01" * 20), Budget(10)))
