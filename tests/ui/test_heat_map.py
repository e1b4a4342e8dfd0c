"""The heat map: small changes of the medians are seen, one outlier rules nothing, and little is sent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.latency_heat import HeatColumn, choose_latency_axis
from edgetop.analysis.rolling_latency import RollingLatency
from edgetop.analysis.timeline import Axis
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from edgetop.ui.characters import CharacterSet
from edgetop.ui.charts import GUTTER, Bools
from edgetop.ui.heat_map import Canvas, HeatMap, levels_of
from edgetop.ui.text import Line
from edgetop.ui.themes import HEAT_LEVELS
from tests.support.screens import plain
from tests.support.sessions import make_inferences, seconds_of

TIME = Axis(0, 100, 2)
HALVES, CELLS, ASCII = CharacterSet(boxes=True), CharacterSet(), CharacterSet(ascii_only=True)
SHADES = CharacterSet(boxes=True, has_colours=False)


def columns_of(median_ms: object, *, spread: float = 0.01, outliers_ms: float = 0.0) -> tuple[HeatColumn, ...]:
    """Return the columns of 100 s with 50 inferences a second. `median_ms`: one value, or one for each second."""
    random = np.random.default_rng(1)
    t_ns = np.arange(100 * 50) * (NS // 50)
    medians = np.repeat(np.broadcast_to(np.asarray(median_ms, float), 100), 50)
    latency = medians * np.exp(random.normal(0, spread, len(t_ns))) * 1e6
    if outliers_ms:
        latency[777] = outliers_ms * 1e6
    rolling = RollingLatency()
    rolling.fold(Batch(seconds=seconds_of(make_inferences(t_ns, latency.astype(np.int64)))))
    return rolling.heat(TIME)


def map_of(
    columns: tuple[HeatColumn, ...], characters: CharacterSet, deadline_ns: int | None = None,
    throttled: Bools | None = None,
) -> HeatMap:  # fmt: skip
    cells = 50
    nowhere = np.zeros(cells, np.bool_)
    axis = choose_latency_axis(columns, deadline_ns)
    marked = nowhere if throttled is None else throttled
    return HeatMap(TIME, columns, axis, deadline_ns, cells, 10, characters, marked, nowhere)


def rows(lines: list[Line]) -> list[str]:
    return [plain(row)[GUTTER:] for row in lines]


def test_a_throttle_by_nine_percent_moves_the_band() -> None:
    steps = np.where(np.arange(100) < 50, 10.0, 10.9)
    columns = columns_of(steps)
    axis = choose_latency_axis(columns, None)
    before, after = (int(levels_of(columns[place], axis, 16).argmax()) for place in (0, 40))
    assert after >= before + 2
    drawn = rows(map_of(columns, ASCII).lines())
    assert {row.index("o") for row in drawn if "o" in row} == {0, 25}


def test_one_outlier_rules_no_axis_and_is_named_beside_the_top_row() -> None:
    calm, disturbed = columns_of(10.0), columns_of(10.0, outliers_ms=900.0)
    assert choose_latency_axis(calm, None) == choose_latency_axis(disturbed, None)
    lines = map_of(disturbed, ASCII).lines()
    assert plain(lines[0]).split()[0] == "900.0"
    assert rows(lines)[0].strip(" ") in (".", ":", "^")
    assert rows(lines)[0].index(rows(lines)[0].strip()) == 15 // 2  # second 15, in columns of 2 s


@settings(deadline=None, max_examples=60)
@given(st.floats(0.0005, 5_000), st.floats(0.0, 1.0), st.integers(2, 40), st.integers(-6, 6))
def test_no_inference_is_lost_and_percentiles_lie_in_coloured_rows(
    median_ms: float, spread: float, height: int, zoom: int
) -> None:
    columns = columns_of(median_ms, spread=spread)
    axis = choose_latency_axis(columns, None, zoom)
    for column in columns[::7]:
        levels = levels_of(column, axis, height)
        assert levels.max() >= 1
        assert levels.max() <= HEAT_LEVELS
        assert levels[axis.row_of(column.p50_ns, height)] >= 1


def test_levels_are_shares_of_the_column() -> None:
    wide, narrow = columns_of(10.0, spread=0.1)[0], columns_of(10.0, spread=0.001)[0]
    axis = choose_latency_axis([wide, narrow], None)
    assert levels_of(narrow, axis, 16).max() == HEAT_LEVELS
    assert levels_of(wide, axis, 16).max() < HEAT_LEVELS


@pytest.mark.parametrize(("deadline_ms", "is_shown"), [(12.0, True), (19.0, True), (33.0, False)])
def test_a_deadline_within_twice_the_medians_is_on_the_axis(deadline_ms: float, is_shown: bool) -> None:
    axis = choose_latency_axis(columns_of(10.0), deadline_ms * 1e6)
    assert (axis.low_ns < deadline_ms * 1e6 < axis.high_ns) == is_shown
    drawn = rows(map_of(columns_of(10.0), ASCII, int(deadline_ms * 1e6)).lines())
    assert any("--" in row for row in drawn) == is_shown


@pytest.mark.parametrize(
    ("characters", "glyphs"),
    [(HALVES, set(" ▀")), (CELLS, set(" ")), (ASCII, set(" .:=%#o^-Ts")), (SHADES, set(" .░▒▓█o^-Ts"))],
)
def test_each_terminal_gets_glyphs_that_it_has(characters: CharacterSet, glyphs: set[str]) -> None:
    throttled = np.arange(50) > 40
    lines = map_of(columns_of(10.0, spread=0.1), characters, 12_000_000, throttled=throttled).lines()
    assert set("".join(rows(lines))) <= glyphs
    assert {len(row) for row in rows(lines)} == {50}
    assert len({span.style for row in lines for span in row[1:]}) > 3


def test_throttled_time_is_marked_at_the_bottom_edge_alone() -> None:
    throttled = np.arange(50) >= 40
    drawn = rows(map_of(columns_of(10.0), ASCII, throttled=throttled).lines())
    assert drawn[-1][40:] == "T" * 10
    assert not any("T" in row for row in drawn[:-1])


def test_only_the_newest_column_changes_while_time_goes_on() -> None:
    all_columns = columns_of(10.0, spread=0.05)
    before = rows(map_of(all_columns[:-1], ASCII).lines())
    after = rows(map_of(all_columns, ASCII).lines())
    assert [row[:49] for row in before] == [row[:49] for row in after]
    assert before != after


@pytest.mark.parametrize("characters", [HALVES, ASCII])
def test_a_map_that_moved_is_the_one_that_is_drawn_anew(characters: CharacterSet) -> None:
    """The time moves, columns come and go, the axis and its zoom change: each drawing follows the one before."""
    calm, slower = columns_of(10.0), columns_of(np.where(np.arange(100) < 60, 10.0, 14.0))
    states = [
        (Axis(0, 100, 2), calm[:20], 0), (Axis(0, 100, 2), calm[:21], 0), (Axis(2, 102, 2), calm[1:22], 0),
        (Axis(2, 102, 2), slower[1:40], 0), (Axis(2, 102, 2), slower[1:40], 2), (Axis(2, 102, 2), slower[5:30], 2),
        (Axis(20, 120, 2), slower[5:], 0), (Axis(0, 200, 4), slower[5:7], 0),
    ]  # fmt: skip
    nowhere, follower = np.zeros(50, np.bool_), Canvas(10, 50, characters)
    for time, columns, zoom in states:
        axis = choose_latency_axis(columns, None, zoom)
        of = HeatMap(time, columns, axis, 12_000_000, 50, 10, characters, nowhere, nowhere)
        assert follower.draw(of) == Canvas(10, 50, characters).draw(of)


def test_where_there_is_no_room_there_is_no_map() -> None:
    columns = columns_of(10.0)
    none = np.zeros(0, np.bool_)
    assert HeatMap(TIME, columns, choose_latency_axis(columns, None), None, 0, 1, ASCII, none, none).lines() == [()]
