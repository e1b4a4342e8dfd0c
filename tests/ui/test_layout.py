"""At every size the panes share the screen without touching one another, the header or the status line."""

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.ui.layout import ABSENT, HEADER_ROWS, LAYOUTS, MOST_CHART_ROWS, PANES, STATUS_ROWS, Place, arrange, is_tiny

SIZES = [(60, 16), (80, 24), (100, 30), (120, 40), (160, 50), (200, 60), (300, 80)]
widths, heights = st.integers(1, 300), st.integers(1, 100)
panes, layouts = st.sampled_from(PANES), st.sampled_from(list(LAYOUTS))
charts = st.fixed_dictionaries(
    {
        "heat": st.integers(-1, 3),
        "power": st.integers(-1, 1),
        "memory": st.integers(0, 1),
        "hotspots": st.integers(0, 1),
    }
)

examples = settings(deadline=None, max_examples=400)


def overlap(a: Place, b: Place) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def placed(
    width: int, height: int, selected: str = "events", layout: str = "overview", **moving: int
) -> dict[str, Place]:
    places = arrange(width, height, selected, None, layout=layout, charts=moving or None)
    return {place.name: place for place in places}


@pytest.mark.slow
@examples
@given(widths, heights, panes, st.none() | panes, layouts, st.none() | charts, st.integers(0, 1))
def test_places_are_inside_the_screen_and_never_overlap(
    width: int, height: int, selected: str, zoomed: str | None, layout: str, moving: dict[str, int] | None, more: int
) -> None:
    places = arrange(width, height, selected, zoomed, layout=layout, charts=moving, more_rows=more)
    top, bottom = (1, height - more) if is_tiny(width, height) else (HEADER_ROWS, height - STATUS_ROWS - more)
    assert all(place.width >= 1 and place.height >= 1 for place in places)
    assert all(place.x >= 0 and place.x + place.width <= width for place in places)
    assert all(place.y >= top and place.y + place.height <= bottom for place in places)
    assert not any(overlap(a, b) for a, b in combinations(places, 2))
    assert len({place.name for place in places}) == len(places)
    if places:
        assert sum(place.width * place.height for place in places) == width * (bottom - top)  # all of it is used


@pytest.mark.slow
@examples
@given(widths, heights, panes, panes)
def test_a_zoomed_pane_is_alone(width: int, height: int, selected: str, zoomed: str) -> None:
    names = [place.name for place in arrange(width, height, selected, zoomed)]
    assert names == ([zoomed] if height > 2 else [])


@pytest.mark.parametrize("size", SIZES)
def test_every_screen_has_the_selected_pane_and_the_board_state(size: tuple[int, int]) -> None:
    for selected in PANES:
        assert {"latency", "heat", "power", "memory", selected} <= {*placed(*size, selected), "memory"}
    for layout, selected in product(LAYOUTS, PANES):
        assert {LAYOUTS[layout][0], selected} <= set(placed(*size, selected, layout))


def test_latency_gets_the_rows_that_other_charts_do_not_need() -> None:
    large = placed(200, 60, heat=1, power=0, memory=0)
    assert large["heat"].height == 1 + MOST_CHART_ROWS
    assert large["latency"].height == 56 - 1 - 1 - large["heat"].height
    alone = placed(200, 60, layout="thermal", heat=1, power=0, memory=0)
    assert alone["heat"].height > 1 + MOST_CHART_ROWS


def test_a_small_screen_has_two_large_panes_and_lines_for_others() -> None:
    def heights(selected: str, layout: str = "overview") -> dict[str, int]:
        return {name: place.height for name, place in placed(80, 24, selected, layout).items()}

    assert heights("events") == {"latency": 8, "hotspots": 1, "heat": 1, "power": 1, "memory": 1, "events": 8}
    assert heights("latency") == {"latency": 16, "hotspots": 1, "heat": 1, "power": 1, "memory": 1}
    assert heights("heat") == {"latency": 8, "hotspots": 1, "power": 1, "memory": 1, "heat": 9}
    assert heights("events", "operators") == {
        "hotspots": 8, "latency": 1, "heat": 1, "power": 1, "memory": 1, "events": 8,
    }  # fmt: skip


@pytest.mark.parametrize("size", [(120, 40), (160, 50), (200, 60)])
def test_a_large_screen_stacks_timelines_with_hotspots_beside(size: tuple[int, int]) -> None:
    places = placed(*size)
    stack = [places[name] for name in ("latency", "heat", "power")]
    assert {(place.x, place.width, place.is_stacked) for place in stack} == {(0, size[0] * 11 // 20, True)}
    assert [place.is_last for place in stack] == [False, False, True]
    rows = {name: places[name].height for name in ("latency", "heat", "power")}
    assert rows["heat"] >= 2 * 4
    assert rows["power"] - 1 >= 4  # a title and three rows, less the line that closes the frame
    assert rows["latency"] >= 2 + 1 + 3
    assert {"hotspots", "memory", "events"} <= set(places)


def test_steady_panes_shrink_to_a_line_and_moving_ones_get_room() -> None:
    full, calm = placed(120, 40), placed(120, 40, heat=1, power=0)
    assert calm["power"].height == 2  # with the line that closes the frame
    assert calm["latency"].height > full["latency"].height
    leaking = placed(120, 40, heat=1, power=0, memory=1)
    assert leaking["memory"].is_stacked
    assert not placed(120, 40)["memory"].is_stacked


@pytest.mark.parametrize("size", SIZES)
def test_what_the_board_has_no_sensor_of_takes_no_room(size: tuple[int, int]) -> None:
    assert not {"heat", "power"} & set(placed(*size, heat=ABSENT, power=ABSENT))
    assert "heat" in placed(*size, "heat", heat=ABSENT)  # which says why


def test_a_wide_screen_shows_every_pane() -> None:
    assert set(placed(200, 60)) == set(PANES)


def test_a_tiny_screen_has_no_panes_until_one_is_zoomed() -> None:
    assert arrange(59, 24, "events", None) == ()
    assert arrange(80, 15, "events", None) == ()
    assert arrange(50, 12, "events", "latency") == (Place("latency", 0, 1, 50, 11),)


def test_hotspots_without_operators_leave_their_room_to_the_others() -> None:
    full, empty = (placed(120, 40, heat=1, hotspots=many) for many in (1, 0))
    assert empty["hotspots"].height == 3 < full["hotspots"].height
    assert "session" in empty
    assert "session" not in full


@pytest.mark.parametrize("rows", [24, 29])
def test_memory_that_moves_has_a_chart_on_a_small_screen(rows: int) -> None:
    assert placed(80, rows, heat=1, memory=0)["memory"].height == 1
    assert placed(80, rows, heat=1, memory=1)["memory"].height == 4
    assert placed(80, 18, heat=1, memory=1)["memory"].height == 1
