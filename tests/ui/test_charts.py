"""Charts show the extremes of everything that falls into a column, each cell in the style of what stands in it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.timeline import POINTS, Axis, Points
from edgetop.ui.characters import CharacterSet
from edgetop.ui.charts import GUTTER, Curve, Floats, Plot, Scale, _chart, bar, nice_scale, strip, time_line
from edgetop.ui.text import Line, width
from tests.support.screens import plain

BRAILLE, ASCII, BOXES = CharacterSet(), CharacterSet(ascii_only=True), CharacterSet(boxes=True)
NOTHING = np.full(1, math.nan)

examples = settings(deadline=None, max_examples=60)
sizes = st.tuples(st.integers(1, 60), st.integers(1, 20))
values = st.lists(st.floats(-1e12, 1e12) | st.just(math.nan), min_size=1, max_size=700)
character_sets = st.sampled_from((BRAILLE, ASCII, BOXES))


def drawn(
    curves: list[Curve], cells: int, height: int, characters: CharacterSet = BRAILLE, top: float = 4.0
) -> list[str]:
    rows = Plot(Scale(0.0, top), cells, height, characters).rows(curves, {})
    return [plain(row)[GUTTER:] for row in rows]


def line_of(*data: float) -> Curve:
    return Curve(np.array(data), "p50")


def styles_at(row: Line) -> list[str]:
    """Of each cell beside the gutter."""
    return [span.style for span in row[1:] for _ in span.text]


@examples
@given(values, values, sizes, character_sets)
def test_a_chart_has_exactly_its_rows_and_cells(
    data: list[float], more: list[float], size: tuple[int, int], characters: CharacterSet
) -> None:
    cells, height = size
    area, other = np.array(data), np.array(more)
    curves = [Curve(area, "band", np.fmin, upto=area + 1), Curve(other, "limit", is_dashed=True), Curve(area, "p50")]
    rows = Plot(Scale(-1.0, 1.0), cells, height, characters, np.arange(cells) % 2 == 0, cells // 2).rows(curves, {})
    assert len(rows) == height
    assert {width(row) for row in rows} == {GUTTER + cells}


@examples
@given(
    values,
    st.lists(st.tuples(st.integers(0, 699), st.floats(-2.0, 2.0) | st.just(math.nan)), max_size=5),
    sizes,
    character_sets,
)
def test_what_changed_of_a_chart_is_drawn_as_all_of_it_is(
    data: list[float], later: list[tuple[int, float]], size: tuple[int, int], characters: CharacterSet
) -> None:
    cells, height = size

    def drawn_with(values: Floats) -> list[Line]:
        curves = [
            Curve(values, "band", np.fmin, upto=values + 1), Curve(values, "bars", is_filled=len(values) % 2 == 0),
            Curve(values / 2, "limit", is_dashed=True), Curve(values, "p50"),
        ]  # fmt: skip
        shades = np.arange(cells) < np.nansum(values[:3] > 0)
        return Plot(Scale(-1.0, 1.0), cells, height, characters, shades, cells // 2).rows(curves, {0: ("1", "dim")})

    area = np.array(data)
    for place, value in later:
        drawn_with(area)
        area = area.copy()
        area[place % len(area)] = value
    after = drawn_with(area)
    _chart.cache_clear()
    assert after == drawn_with(area)


def test_a_line_is_joined_where_it_jumps() -> None:
    assert drawn([line_of(0.5, 0.5, 3.5, 3.5)], 2, 1) == ["⣀⠏"]
    assert drawn([line_of(3.5, 0.5)], 1, 1) == ["⢱"]


def test_a_line_has_a_hole_where_nothing_was_measured() -> None:
    nan = math.nan
    assert drawn([line_of(0.5, 0.5, nan, nan, 3.5, 3.5)], 3, 1) == ["⣀ ⠉"]
    assert drawn([Curve(NOTHING, "p50")], 3, 2) == ["   ", "   "]


@examples
@given(st.integers(0, 599), st.integers(5, 60))
def test_one_spike_among_many_values_is_seen_in_its_column(place: int, cells: int) -> None:
    data = np.full(POINTS, 1.0)
    data[place] = 100.0
    top = drawn([Curve(data, "p50")], cells, 5)[0]
    at = next(x for x, character in enumerate(top) if character != " ")
    assert abs(at - place * cells // POINTS) <= 1


def test_a_band_is_thin_and_gives_way_to_lines() -> None:
    low, high, middle = np.full(8, 0.0), np.full(8, 3.9), np.full(8, 0.1)
    rows = Plot(Scale(0.0, 4.0), 4, 2, BRAILLE).rows([Curve(low, "band", upto=high), Curve(middle, "p50")], {})
    assert [plain(row)[GUTTER:] for row in rows] == ["⡪⡪⡪⡪", "⣀⣀⣀⣀"]
    assert [set(styles_at(row)) for row in rows] == [{"band"}, {"p50"}]


def test_lines_in_one_cell_are_both_seen_in_the_last_ones_style() -> None:
    rows = Plot(Scale(0.0, 4.0), 1, 1, BRAILLE).rows([Curve(np.full(2, 3.5), "p99"), Curve(np.full(2, 0.5), "p50")], {})
    assert plain(rows[0])[GUTTER:] == "⣉"
    assert styles_at(rows[0]) == ["p50"]


def test_a_limit_is_dashed_and_stands_in_its_row() -> None:
    of = Plot(Scale(0.0, 100.0), 4, 4, ASCII)
    rows = of.rows([Curve(np.full(1, 85.0), "limit", glyph="-", is_dashed=True)], {of.row_of(85.0): ("85", "limit")})
    assert [plain(row) for row in rows] == ["    85 - - ", *["           "] * 3]


def test_shaded_time_has_a_glyph_and_lines_in_it_a_background() -> None:
    shades = np.array([False, True, True, False])
    for characters, glyph in ((BRAILLE, "⡀"), (ASCII, ":"), (BOXES, "░")):
        rows = Plot(Scale(0.0, 4.0), 4, 2, characters, shades).rows([Curve(np.full(4, 0.5), "p50")], {})
        assert plain(rows[0])[GUTTER:] == f" {glyph}{glyph} "
        assert styles_at(rows[0]) == ["text", "shade", "shade", "text"]
        assert styles_at(rows[1]) == ["p50", "p50~", "p50~", "p50"]


def test_where_the_user_points_a_whole_column_is_marked() -> None:
    rows = Plot(Scale(0.0, 4.0), 3, 3, BRAILLE, cursor=1).rows([line_of(1.0)], {})
    assert [styles_at(row)[1] for row in rows] == ["focus"] * 3


def test_a_chart_without_room_is_blank() -> None:
    for cells in (0, -1, -4):
        assert Plot(Scale(0.0, 1.0), cells, 2, BRAILLE).rows([line_of(1.0)], {}) == [(), ()]


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
    assert nice_scale(45.3, 45.3, least=10) == Scale(44.0, 54.0)


def points_at(*places: int, axis: Axis) -> Points:
    marks: Floats = np.full(POINTS, np.nan)
    marks[list(places)] = 1.0
    return Points(axis, marks, marks, marks, marks)


@examples
@given(st.integers(-3, 100), st.integers(0, 10**6), st.integers(1, 10**6), character_sets)
def test_a_time_axis_is_as_wide_as_its_chart(cells: int, start: int, span: int, characters: CharacterSet) -> None:
    axis = Axis(start, start + span)
    drawn = time_line(axis, cells, points_at(0, 300, 599, axis=axis), [start, start + span], ("-", "frame"), characters)
    assert width(drawn) == max(cells, 0)


def test_a_time_axis_has_round_times_ticks_for_bursts_and_marks() -> None:
    axis = Axis(45, 105)
    drawn = time_line(axis, 50, points_at(30, axis=axis), [100.0], ("-", "frame"), ASCII)
    assert plain(drawn) == "--'------- 1m -------------------- 1m30s ----m----"
    shifted = time_line(Axis(51, 111), 50, points_at(axis=axis), [], ("-", "frame"), ASCII)
    assert plain(shifted) == "----- 1m -------------------- 1m30s --------------"
    assert "1m30s" not in plain(time_line(axis, 50, points_at(axis=axis), [90.0], ("-", "frame"), ASCII))
    assert plain(time_line(axis, 8, points_at(axis=axis), [], ("-", "frame"), ASCII)) == "-" * 8


@pytest.mark.parametrize(
    ("characters", "half", "odd"), [(BRAILLE, "⣿⣿  ", "⣿⣿⡇ "), (ASCII, "##  ", "##  "), (BOXES, "██  ", "██▌ ")]
)
def test_a_bar_is_as_long_as_its_share(characters: CharacterSet, half: str, odd: str) -> None:
    assert bar(0.5, 4, characters) == half
    assert bar(0.625, 4, characters).startswith(odd[:2])
    assert bar(0.625, 4, characters)[2] == (odd[2] if characters is not ASCII else bar(0.625, 4, characters)[2])
    assert bar(2.0, 3, characters) == half[0] * 3
    assert bar(-1.0, 3, characters, rest=".") == "..."


def test_a_strip_shows_whatever_is_not_nothing() -> None:
    shares = np.array([0.0, 0.001, 0.5, 1.0])
    assert [strip(shares, characters) for characters in (ASCII, BRAILLE, BOXES)] == [" .=#", " ⡀⣤⣿", " ▁▄█"]
