"""Sums over time: the same in whatever pieces and order readings come, and no more of them than there is room for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.forecast.history import BLOCKS, WIDTHS_S, History
from edgetop.session.records import FOLDED_AT_ONCE, READING, Readings
from edgetop.session.seconds import NS
from tests.support.sessions import make_readings, make_sensor

SENSORS = tuple(make_sensor(f"temp/{label}") for label in "abc")


def history(*parts: Readings) -> History:
    """Of sensors a and c."""
    found = History()
    found.know(SENSORS, [0, 2])
    for part in parts:
        found.add(part)
    return found


def many(count: int, seed: int = 0) -> Readings:
    random = np.random.default_rng(seed)
    rows = np.zeros(count, READING)
    rows["t_ns"] = np.sort(random.integers(0, 3_000 * NS, count))
    rows["sensor"], rows["value"] = random.integers(0, 3, count), random.normal(60, 5, count)
    return rows


def shown(of: History) -> list[np.ndarray]:
    stretches = [of.stretch(level, 0, 3_000) for level in range(len(WIDTHS_S))]
    return [np.stack([part.mean, part.mid_s, part.count]) for part in stretches]


def test_a_block_tells_its_mean_when_that_was_and_of_how_many() -> None:
    found = history(make_readings((4 * NS, 0, 50.0), (5 * NS + NS // 2, 0, 53.0), (6 * NS, 1, 99.0), (7 * NS, 2, 1.0)))
    four = found.stretch(1, 0, 8)
    assert (four.first, four.width_s) == (0, 4)
    assert four.mean[0, 1] == 51.5
    assert four.mid_s[0, 1] == 4.75
    assert four.count[0].tolist() == [0, 2]
    assert np.isnan(four.mean[0, 0])
    assert four.mean[1, 1] == 1.0


def test_only_whole_blocks_within_the_time_are_given() -> None:
    found = history(many(5_000))
    assert found.stretch(1, 2_590.5, 2_999).first * 4 == 2_592
    assert found.stretch(1, 2_590.5, 2_999).mean.shape[1] == (2_996 - 2_592) // 4
    assert found.stretch(0, 2_999, 2_990).mean.shape[1] == 0


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 5_000), max_size=6), st.integers(0, 50))
def test_however_readings_are_batched_the_sums_are_the_same(cuts: list[int], seed: int) -> None:
    rows = many(5_000, seed)
    whole, parts = history(rows), history(*np.split(rows, sorted(cuts)))
    for one, other in zip(shown(whole), shown(parts), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_reading_that_comes_late_counts_where_it_belongs() -> None:
    rows = many(5_000)
    late = rows["t_ns"] // NS == rows["t_ns"][-1] // NS - 30
    assert late.any()
    for one, other in zip(shown(history(rows)), shown(history(rows[~late], rows[late])), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_older_than_there_is_room_for_is_left_out() -> None:
    rows = many(5_000)
    found = history(rows)
    assert found.stretch(0, 0, 3_000).first == found.newest_s - BLOCKS + 1
    before = shown(found)
    found.add(rows[:100])
    for one, other in zip(before[:1], shown(found)[:1], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("value", [1e300, -1e300, float("inf")])
def test_no_reading_overflows_a_sum(value: float) -> None:
    rows = make_readings(*((second * NS, 0, value) for second in range(64)))
    assert np.sign(history(rows).stretch(3, 0, 64).mean[0, 0]) == np.sign(value)


def test_sensors_that_are_found_later_have_rows_of_their_own() -> None:
    found = History()
    found.know(SENSORS[:1], [0])
    found.add(make_readings((0, 0, 40.0)))
    found.know(SENSORS, [0, 2])
    found.add(make_readings((0, 2, 50.0), (NS, 0, 41.0)))
    assert found.stretch(0, 0, 1).mean[:, 0].tolist() == [40.0, 50.0]


@pytest.mark.parametrize("in_order", [True, False])
def test_a_day_at_once_is_the_same_as_in_parts(in_order: bool) -> None:
    rows = many(2 * FOLDED_AT_ONCE + 100)
    rows["t_ns"] *= 20  # further than any block reaches back
    if not in_order:
        rows = np.random.default_rng(0).permutation(rows)
    whole, parts = history(rows), history(*np.array_split(rows, 37))
    for level, width_s in enumerate(WIDTHS_S):
        one, other = (of.stretch(level, 60_000 - BLOCKS * width_s, 60_000) for of in (whole, parts))
        assert one.count.sum() > 0
        for name in ("mean", "mid_s", "count"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
