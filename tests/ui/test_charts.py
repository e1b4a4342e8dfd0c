"""Charts show the extremes of everything that falls into a column."""

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgetop.analysis.timeline import Axis
from edgetop.ui.charts import (
    GUTTER,
    Floats,
    Scale,
    area_rows,
    bar,
    chart,
    ends_line,
    nice_scale,
    time_axis,
)
from edgetop.ui.look import Look
from edgetop.ui.text import width
from tests.support.screens import plain

BRAILLE, ASCII = Look(ascii_only=False), Look(ascii_only=True)
# Dots of a braille cell from the bottom, for both columns (Unicode, Braille Patterns).
DOTS = ((0x40, 0x80), (0x04, 0x20), (0x02, 0x10), (0x01, 0x08))

examples = settings(deadline=None, max_examples=60)
sizes = st.tuples(st.integers(1, 60), st.integers(1, 20))
values = st.lists(st.floats(-1e12, 1e12) | st.just(math.nan), min_size=1, max_size=300)


def nothing(like: Floats) -> Floats:
    return np.full_like(like, np.nan)


def heights(rows: list[str]) -> list[int]:
    """How many dots from the bottom the highest one of every dot column is."""
    found = [0] * (2 * len(rows[0]))
    for level, row in enumerate(reversed(rows)):
        for x, character in enumerate(row):
            code = ord(character) - 0x2800 if character != " " else 0
            for dot, bits in enumerate(DOTS):
                for side in (0, 1):
                    if code & bits[side]:
                        found[2 * x + side] = 4 * level + dot + 1
    return found


@examples
@given(values, sizes, st.sampled_from((BRAILLE, ASCII)))
def test_a_chart_has_exactly_its_rows_and_cells(data: list[float], size: tuple[int, int], look: Look) -> None:
    cells, height = size
    area = np.array(data)
    rows = area_rows(area, area, Scale(-1.0, 1.0), cells, height, look)
    assert len(rows) == height
    assert {len(row) for row in rows} == {cells}


@examples
@given(values, sizes)
def test_the_maximum_is_always_seen_at_its_height(data: list[float], size: tuple[int, int]) -> None:
    cells, height = size
    area = np.array(data)
    assume(not np.isnan(area).all())
    scale = nice_scale(float(np.nanmin(area)), float(np.nanmax(area)))
    share = (float(np.nanmax(area)) - scale.low) / (scale.high - scale.low)
    level = min(max(math.ceil(share * height * 4), 1), height * 4)
    assert max(heights(area_rows(area, nothing(area), scale, cells, height, BRAILLE))) == level
    assert max(heights(area_rows(nothing(area), area, scale, cells, height, BRAILLE))) == level


@examples
@given(st.integers(0, 599), st.integers(5, 60))
def test_one_spike_among_many_values_is_seen_in_its_column(place: int, cells: int) -> None:
    area = np.full(600, 1.0)
    area[place] = 10.0
    found = heights(area_rows(area, nothing(area), Scale(0.0, 10.0), cells, 5, BRAILLE))
    assert found.count(20) == 1
    assert abs(found.index(20) - place * 2 * cells // 600) <= 1


def test_a_spike_beyond_the_scale_is_seen_at_the_top() -> None:
    area = np.array([1.0, 1.0, 500.0, 1.0])
    assert max(heights(area_rows(area, nothing(area), Scale(0.0, 10.0), 4, 3, BRAILLE))) == 12


def test_where_nothing_was_measured_nothing_is_drawn() -> None:
    nan = np.full(600, np.nan)
    for look in (BRAILLE, ASCII):
        assert area_rows(nan, nan, Scale(0.0, 1.0), 3, 2, look) == ["   ", "   "]
    half = np.where(np.arange(600) < 300, 5.0, np.nan)
    assert area_rows(half, nothing(half), Scale(0.0, 5.0), 4, 1, BRAILLE) == ["⣿⣿  "]


def test_a_value_at_the_foot_of_the_scale_still_shows() -> None:
    low = np.zeros(8)
    assert area_rows(low, nothing(low), Scale(0.0, 5.0), 4, 2, BRAILLE) == ["    ", "⣀⣀⣀⣀"]


def test_every_dot_stands_where_its_value_does() -> None:
    ramp = np.arange(1.0, 5.0)
    assert area_rows(ramp, nothing(ramp), Scale(0.0, 4.0), 2, 1, BRAILLE) == ["⣠⣾"]
    assert area_rows(nothing(ramp), ramp, Scale(0.0, 4.0), 2, 1, BRAILLE) == ["⡠⠊"]


def test_a_single_value_fills_the_width() -> None:
    one = np.array([1.0])
    assert area_rows(one, nothing(one), Scale(0.0, 1.0), 5, 1, BRAILLE) == ["⣿⣿⣿⣿⣿"]


def test_ascii_draws_an_area_and_a_mark_above_it() -> None:
    area, mark = np.array([1.0, 2.0, 2.0]), np.array([3.0, 3.0, np.nan])
    assert area_rows(area, mark, Scale(0.0, 3.0), 3, 3, ASCII) == ["** ", " ::", ":::"]


def test_a_chart_without_room_is_blank() -> None:
    for cells in (0, -1, -4):
        for look in (BRAILLE, ASCII):
            assert area_rows(np.ones(3), np.ones(3), Scale(0.0, 1.0), cells, 2, look) == ["", ""]


@examples
@given(st.floats(-1e12, 1e12), st.floats(0, 1e12), st.sampled_from((0.0, 1.0, 10.0)))
def test_a_nice_scale_holds_the_data_and_is_not_much_wider(low: float, span: float, least: float) -> None:
    high = low + span
    scale = nice_scale(low, high, least=least)
    slack = 1e-6 * max(abs(low), abs(high), 1e-6)
    assert scale.low <= low + slack
    assert scale.high >= high - slack
    assert scale.high - scale.low <= 2 * max(high - low, abs(high) * 0.02, least, 1e-9) + slack


@examples
@given(st.floats(0.001, 1e9), st.floats(1.1, 3.0), st.integers(2, 500))
def test_a_nice_scale_changes_rarely_as_the_data_grows(low: float, growth: float, steps: int) -> None:
    tops = {nice_scale(low, low * (1 + (growth - 1) * i / steps)).high for i in range(steps + 1)}
    assert len(tops) <= 30


def test_the_ends_of_a_nice_scale_are_round() -> None:
    assert nice_scale(5.02, 5.61) == Scale(5.0, 5.7)
    assert nice_scale(0, 0) == Scale(0.0, 1e-9)
    assert nice_scale(1.02, 1.09) == Scale(1.02, 1.1)
    assert nice_scale(45.3, 45.3, least=10) == Scale(44.0, 54.0)


def test_the_ends_of_a_scale_stand_in_the_gutter() -> None:
    lines = [plain(row) for row in chart(["aa", "bb", "cc"], ("10.0", "0"))]
    assert lines == ["    10.0 aa", "         bb", "       0 cc"]
    assert plain(chart(["aa"], ("10.0", "0"))[0]) == "    10.0 aa"


@examples
@given(st.integers(0, 100), st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_time_axis_is_never_wider_than_its_chart(cells: int, start: int, span: int) -> None:
    assert width(time_axis(Axis(start, start + span), cells)) <= max(cells, 0)


def test_an_axis_names_both_ends_or_as_many_as_fit() -> None:
    assert plain(time_axis(Axis(60, 120), GUTTER + 20)) == " " * GUTTER + "00:01:00    00:02:00"
    assert plain(ends_line("left", "right", GUTTER + 6)) == " " * GUTTER + "left  "
    assert plain(ends_line("left", "right", GUTTER + 3)).strip() == ""


def test_a_bar_is_as_long_as_its_share() -> None:
    assert bar(0.5, 4, BRAILLE) == "⣿⣿  "
    assert bar(0.625, 4, BRAILLE) == "⣿⣿⡇ "
    assert bar(2.0, 3, ASCII) == "###"
    assert bar(-1.0, 3, ASCII) == "   "
