import struct

import flatbuffers
import pytest

from edgetop.models.reading_limits import Budget, MalformedError
from edgetop.models.tflite_file import root


def built():
    """A table: 0 a number, 1 a text, 2 a list of numbers, 3 is absent, 4 a list of tables."""
    builder = flatbuffers.Builder()
    text = builder.CreateString("name")
    builder.StartVector(4, 3, 4)
    for number in (3, 2, -1):
        builder.PrependInt32(number)
    numbers = builder.EndVector()
    builder.StartObject(1)
    builder.PrependInt8Slot(0, 9, 0)
    inner = builder.EndObject()
    builder.StartVector(4, 2, 4)
    for _ in range(2):
        builder.PrependUOffsetTRelative(inner)
    tables = builder.EndVector()
    builder.StartObject(5)
    builder.PrependInt64Slot(0, -5, 0)
    builder.PrependUOffsetTRelativeSlot(1, text, 0)
    builder.PrependUOffsetTRelativeSlot(2, numbers, 0)
    builder.PrependUOffsetTRelativeSlot(4, tables, 0)
    builder.Finish(builder.EndObject())
    return bytearray(builder.Output())


def table(data, budget=1000):
    return root(memoryview(data), Budget(budget))


def contents(data):
    found = table(data)
    return found.scalar(0, "i64"), found.text(1), found.numbers(2), [t.scalar(0, "i8") for t in found.tables(4)]


def test_fields_are_read_by_their_ids():
    assert contents(built()) == (-5, "name", (-1, 2, 3), [9, 9])


def test_absent_fields_have_their_defaults():
    found = table(built())
    assert found.scalar(3, "i32", 7) == 7
    assert found.text(3) == found.text(99) == ""
    assert found.numbers(3) == ()
    assert found.table(3) is None


@pytest.mark.parametrize("size", range(0, 100, 5))
def test_a_table_that_is_cut_is_malformed(size):
    with pytest.raises(MalformedError):
        contents(built()[:size])


def test_a_root_outside_the_file_is_malformed():
    data = built()
    data[:4] = struct.pack("<I", 2**32 - 1)
    with pytest.raises(MalformedError, match="outside"):
        table(data)


def test_a_list_longer_than_the_file_is_malformed():
    data = built()
    where = bytes(data).index(struct.pack("<Ii", 3, -1))
    data[where : where + 4] = struct.pack("<I", 2**31)
    with pytest.raises(MalformedError, match="beyond the end"):
        table(data).numbers(2)


def test_one_part_met_many_times_over_spends_the_budget():
    found = table(built(), budget=10)
    assert found.numbers(2) == found.numbers(2)
    with pytest.raises(MalformedError, match="more parts"):
        found.numbers(2) + found.numbers(2)
