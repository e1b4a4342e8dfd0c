"""At every size the panes share the screen without touching one another, the header or the status line."""

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.ui.layout import HEADER_ROWS, PANES, STATUS_ROWS, Place, arrange, is_tiny

widths, heights = st.integers(1, 300), st.integers(1, 100)
panes = st.sampled_from(PANES)
ALL_BARE = [frozenset(names) for names in ((), ("heat",), ("power",), ("heat", "power"))]
bare_panes = st.sampled_from(ALL_BARE)

examples = settings(deadline=None, max_examples=300)


def overlap(a: Place, b: Place) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def names(width: int, height: int, selected: str = "events", zoomed: str | None = None) -> set[str]:
    return {place.name for place in arrange(width, height, selected, zoomed)}


@examples
@given(widths, heights, panes, st.none() | panes, bare_panes)
def test_places_are_inside_the_screen_and_never_overlap(
    width: int, height: int, selected: str, zoomed: str | None, bare: frozenset[str]
) -> None:
    places = arrange(width, height, selected, zoomed, bare=bare)
    assert all(place.width >= 1 and place.height >= 1 for place in places)
    assert all(place.x >= 0 and place.x + place.width <= width for place in places)
    assert all(place.y >= 0 and place.y + place.height <= height for place in places)
    assert not any(overlap(a, b) for a, b in combinations(places, 2))
    assert len({place.name for place in places}) == len(places)


@examples
@given(widths, heights, panes, st.none() | panes)
def test_the_rows_of_the_header_and_of_the_status_line_are_left_alone(
    width: int, height: int, selected: str, zoomed: str | None
) -> None:
    places = arrange(width, height, selected, zoomed)
    if is_tiny(width, height):
        assert all(place.y >= 1 for place in places)
    else:
        assert all(place.y >= HEADER_ROWS for place in places)
        assert all(place.y + place.height <= height - STATUS_ROWS for place in places)


@examples
@given(widths, heights, panes, panes)
def test_a_zoomed_pane_is_alone_and_fills_what_there_is(width: int, height: int, selected: str, zoomed: str) -> None:
    places = arrange(width, height, selected, zoomed)
    if is_tiny(width, height):
        assert places == ((Place(zoomed, 0, 1, width, height - 1),) if height > 2 else ())
    else:
        assert places == (Place(zoomed, 0, HEADER_ROWS, width, height - HEADER_ROWS - STATUS_ROWS),)


@examples
@given(st.integers(60, 300), st.integers(16, 100), panes)
def test_latency_heat_power_memory_and_the_selected_pane_are_seen_on_every_screen_that_is_not_tiny(
    width: int, height: int, selected: str
) -> None:
    assert {"latency", "heat", "power", "memory", selected} <= names(width, height, selected)


def test_a_small_screen_shows_latency_three_lines_and_the_selected_pane() -> None:
    places = arrange(80, 24, "events", None)
    assert [place.name for place in places] == ["latency", "heat", "power", "memory", "events"]
    assert [place.height for place in places] == [10, 1, 1, 1, 8]
    assert names(80, 24, "session") == {"latency", "heat", "power", "memory", "session"}
    assert [(place.name, place.height) for place in arrange(80, 24, "heat", None)] == [
        ("latency", 10), ("power", 1), ("memory", 1), ("heat", 9),
    ]  # fmt: skip
    assert [(place.name, place.height) for place in arrange(80, 24, "latency", None)] == [
        ("latency", 18), ("heat", 1), ("power", 1), ("memory", 1),
    ]  # fmt: skip


def test_a_medium_screen_has_latency_over_its_whole_width() -> None:
    places = {place.name: place for place in arrange(120, 40, "events", None)}
    assert set(places) == {"latency", "heat", "power", "memory", "events", "session"}
    assert places["latency"].width == 120
    assert names(120, 40, "sensors") == {"latency", "heat", "power", "memory", "events", "sensors"}


def test_a_wide_screen_shows_every_pane_with_the_timelines_above_one_another() -> None:
    places = {place.name: place for place in arrange(200, 60, "events", None)}
    assert set(places) == set(PANES)
    assert len({(places[name].x, places[name].width) for name in ("latency", "heat", "power", "memory")}) == 1


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)])
@pytest.mark.parametrize("bare", ALL_BARE)
def test_what_the_board_has_no_sensor_of_is_one_line_and_others_have_its_room(
    size: tuple[int, int], bare: frozenset[str]
) -> None:
    full, places = (
        {place.name: place for place in arrange(*size, "events", None, bare=of)} for of in (frozenset(), bare)
    )
    assert set(places) == set(full)
    assert all(places[name].height == 1 for name in bare)
    smaller = {name for name in places if places[name].height < full[name].height - 1}
    assert smaller <= bare


def test_the_whole_screen_is_used() -> None:
    for width, height in ((80, 24), (120, 40), (160, 50), (200, 60)):
        for name, bare in product(PANES, ALL_BARE):
            places = arrange(width, height, name, None, bare=bare)
            for column in (0, width - 1):
                rows = [place.height for place in places if place.x <= column < place.x + place.width]
                assert sum(rows) == height - HEADER_ROWS - STATUS_ROWS


def test_a_tiny_screen_has_no_panes_until_one_is_zoomed() -> None:
    assert arrange(59, 24, "events", None) == ()
    assert arrange(80, 15, "events", None) == ()
    assert names(50, 12, zoomed="latency") == {"latency"}
