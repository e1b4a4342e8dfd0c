"""Which input sizes stand in one row."""

from collections.abc import Sequence

import numpy as np
import pytest

from edgetop.analysis.input_shapes import InputShapes
from edgetop.session.batch import Batch
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import READING
from edgetop.session.seconds import NS
from edgetop.session.sized_calls import sensors_of
from tests.support.sessions import make_manifest


def rows_of(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the sizes of each row, as (least, largest), of calls with these sizes that took a millisecond each."""
    infos = (SensorInfo(name, "", "") for name in sensors_of(0))
    readings = np.zeros(2 * len(sizes), READING)
    for number, size in enumerate(sizes):
        readings[2 * number], readings[2 * number + 1] = (number, 0, size), (number, 1, 1.0)
    shapes = InputShapes()
    shapes.fold(Batch(NS, readings=readings, manifest=make_manifest(*infos)))
    return [one.elements for one in shapes.view(0) or ()]


def test_four_rows_lead_from_one_power_of_two_to_the_next() -> None:
    assert len(rows_of(range(1024, 2048))) == 4
    assert rows_of(range(1024, 2048))[0] == (1024, 1217)  # 2 ** 10.25 = 1217.7


@pytest.mark.parametrize(("size", "rows"), [(1210, 1), (1225, 2)])
def test_a_row_joins_sizes_that_differ_by_less_than_a_fifth(size: int, rows: int) -> None:
    assert len(rows_of([1024, size])) == rows
