"""Read the wire format of protocol buffers in place, field by field, without copying contents.

Source: https://protobuf.dev/programming-guides/encoding/. A file may be cut short, hostile or larger than memory. So
every length is checked against the end of the file, and a budget limits the number of fields.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edgetop.models.reading_limits import Budget, MalformedError

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5

Value = int | memoryview  # value of a field: an integer, or a view of the contents
Reader = Callable[[Value, Budget], Any]
_NONE: Mapping[int, Reader] = {}


def fields(value: Value, budget: Budget, steps: int = 1) -> Iterator[tuple[int, Value]]:
    """Yield the number and the content of each field of a message. The content is an int or a view of bytes.

    `value` is a view of the message's bytes. Each field takes `steps` from `budget`. Raises MalformedError if the
    message is invalid.
    """
    data = message(value)
    position, end = 0, len(data)
    while position < end:
        budget.spend(steps)
        tag, position = varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, position = varint(data, position)
            yield number, value
            continue
        if wire_type == LENGTH_DELIMITED:
            length, position = varint(data, position)
        elif wire_type in {FIXED64, FIXED32}:
            length = 8 if wire_type == FIXED64 else 4
        else:
            raise MalformedError(f"a field of wire type {wire_type}")
        if length > end - position:
            raise MalformedError("a field that reaches beyond the end")
        yield number, data[position : position + length]
        position += length


def read(
    value: Value,
    budget: Budget,
    single: Mapping[int, Reader],
    repeated: Mapping[int, Reader] = _NONE,
    each: int = 0,
    most: int = 2**62,
) -> defaultdict[int, Any]:
    """Return the values of those fields of a message that have a reader, by field number.

    A reader takes a field's content and `budget`, and returns the field's value. The last value counts for a field in
    `single`. A field in `repeated` gives a list of at most `most` values. `value` is a view of the message's bytes.
    Every field takes 1 + `each` steps from the budget.
    """
    known: defaultdict[int, Any] = defaultdict(list)
    for number, part in fields(value, budget, 1 + each):
        if reader := single.get(number):
            known[number] = reader(part, budget)
        elif reader := repeated.get(number):
            items = known[number]
            if len(items) < most:
                items.append(reader(part, budget))
    return known


def varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return the varint at `position` as an unsigned number of 64 bits, and the position after it.

    Positions are in bytes from the beginning of `data`. Raises MalformedError if the varint has no end.
    """
    if position < len(data) and (byte := data[position]) < 0x80:  # nearly all are this short
        return byte, position + 1
    value = 0
    for shift, byte in zip(range(0, 70, 7), data[position : position + 10], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + shift // 7 + 1
    raise MalformedError("a number without an end")


def signed(value: Value, _: Budget | None = None) -> int:
    """Return the signed integer of an int64 or int32 field. `value` is the field's unsigned content."""
    number = whole(value)
    return number - 2**64 if number >= 2**63 else number


def whole(value: Value, _: Budget | None = None) -> int:
    if not isinstance(value, int):
        raise MalformedError("a text where a number belongs")
    return value


def message(value: Value, _: Budget | None = None) -> memoryview:
    if isinstance(value, int):
        raise MalformedError("a number where a message belongs")
    return value


def text(value: Value, budget: Budget) -> str:
    r"""Return the text of a string field from its bytes. Bytes that are not UTF-8 become escapes, such as `\xff`."""
    data = message(value)
    budget.spend(len(data) // 16)
    return bytes(data).decode("utf-8", "backslashreplace")


def numbers(value: Value, budget: Budget) -> list[int]:
    """Return the integers in one occurrence of a repeated int64 or int32 field.

    `value` is the occurrence's content: a single integer, or a packed list of integers as bytes.
    """
    if isinstance(value, int):
        return [signed(value)]
    result, position = [], 0
    while position < len(value):
        budget.spend(1)
        number, position = varint(value, position)
        result.append(signed(number))
    return result


def real(value: Value, _: Budget | None = None) -> float:
    """Return the number of a float field from its 4 bytes."""
    data = message(value)
    if len(data) != 4:
        raise MalformedError("a float of another size")
    return float(struct.unpack("<f", data)[0])


def reals(value: Value, budget: Budget) -> list[float]:
    """Return the numbers in one occurrence of a repeated float field, which are one float or a packed list."""
    data = message(value)
    if len(data) % 4:
        raise MalformedError("floats of another size")
    budget.spend(len(data) // 4)
    return list(struct.unpack(f"<{len(data) // 4}f", data))
