"""Panes that are alone: every quantity with its own course, in every size and state."""

import pytest

from edgetop.analysis.analysis import PLAIN, Analysis, MonitorView
from edgetop.ui.charts import GUTTER
from edgetop.ui.panes import DRAWINGS
from edgetop.ui.panes.sensor_series import SIDE_CELLS, with_figures
from edgetop.ui.text import line, width
from tests.support.scenes import limited
from tests.support.screens import area, opened, plain, text_of
from tests.support.scripts import HOSTILE, SENSORS, Script, hostile, measured, measured_with_power, scarce

DETAILED = [name for name, drawing in DRAWINGS.items() if drawing.details]


def alone(script: Script, name: str) -> MonitorView:
    analysis = Analysis()
    analysis.fold(script.whole())
    return analysis.view(10 * 10**9, PLAIN, DRAWINGS[name].details)


def drawn(script: Script, name: str, columns: int = 100, rows: int = 40, *, ascii_only: bool = False) -> list[str]:
    body = DRAWINGS[name].body(alone(script, name), area(columns, rows, ascii_only=ascii_only))
    return text_of(body).splitlines()


def test_heat_power_and_memory_have_more_to_show_alone() -> None:
    assert DETAILED == ["heat", "power", "memory"]


def test_every_zone_and_clock_has_a_chart_and_clocks_their_caps() -> None:
    rows = drawn(limited(), "heat", rows=60)
    for name in ("bigcore0-thermal", "nvme:Composite", "cpu0", "cpu4", "gpu "):
        at = next(y for y, row in enumerate(rows) if row.startswith(name))
        assert any("\u2800" < character <= "\u28ff" for character in "".join(rows[at + 1 : at + 5]))
    assert any(row.startswith("cpu4                 1608 MHz  cap 1608  max 2400, best seen 2400") for row in rows)
    assert any(row.startswith("bigcore0-thermal     86.2 C  max 86.2, 1.2 above its trip at 85.0") for row in rows)
    assert rows[-1].split() == ["0s", "1m"]


def test_throttled_time_is_shaded_in_every_chart() -> None:
    shaded = {
        span.style.partition("~")[0]
        for row in DRAWINGS["heat"].body(alone(limited(), "heat"), area(100, 60))
        for span in row
        if span.style.endswith("~")
    }
    assert {"hot", "clock"} <= shaded
    rows = drawn(limited(), "heat", rows=60)
    at = next(row.index("\u2840") for row in rows if "\u2840" in row)
    axis = alone(limited(), "heat").axis
    assert at - GUTTER == pytest.approx((61 - axis.from_s) * (100 - GUTTER) / (axis.to_s - axis.from_s), abs=1)
    calm = DRAWINGS["heat"].body(alone(measured(75), "heat"), area(100, 60))
    assert not [span for row in calm for span in row if span.style.endswith("~") or span.style == "shade"]


def test_zones_keep_their_places_while_they_change_ranks() -> None:
    def weather(second: float) -> dict[str, float]:
        return {"temp/cpu-thermal": 70.0 + second % 2, "temp/gpu-thermal": 70.5, "temp/soc-thermal": 60.0}

    script = Script(weather=weather).load().warm_up().begin()
    orders = set()
    for _ in range(4):
        rows = drawn(script.measure(1), "heat")
        orders.add(tuple(row.split()[0] for row in rows if "-thermal" in row))
    assert orders == {("cpu-thermal", "gpu-thermal", "soc-thermal")}


def test_every_rail_has_its_course_and_the_total_is_first() -> None:
    rows = drawn(measured_with_power(75), "power")
    names = [row.split()[0] for row in rows if " mean " in row or " - " in row]
    assert names == ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC", "gpu"]
    assert rows[0].startswith("energy")


def test_memory_has_the_course_of_what_decides() -> None:
    rows = drawn(scarce(), "memory", 120, 40)
    assert [row[:11].strip() for row in rows if " min " in row] == ["engine RSS", "PSS", "GPU", "cgroup", "system left"]


@pytest.mark.parametrize("name", DETAILED)
@pytest.mark.parametrize(
    "script",
    [Script, lambda: measured(5), limited, lambda: measured_with_power(20), lambda: hostile(HOSTILE[1]),
     lambda: measured(9).lose(*(info.id for info in SENSORS)), lambda: hostile(HOSTILE[5])],
)  # fmt: skip
def test_a_pane_that_is_alone_fits_in_every_state_and_size(name: str, script: object) -> None:
    of: Script = script()  # type: ignore[operator]
    view = alone(of, name)
    for columns, rows in ((200, 57), (120, 37), (80, 21), (60, 13), (50, 10), (20, 12), (9, 30)):
        for ascii_only in (False, True):
            lines = DRAWINGS[name].body(view, area(columns, rows, ascii_only=ascii_only))
            assert len(lines) <= rows
            assert all(width(line) <= columns or columns < 30 for line in lines)
            assert text_of(lines).isascii() or not ascii_only


async def test_only_the_pane_that_is_alone_makes_the_view_dearer() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        assert screen.monitor.view.sensor_series == {}
        await screen.press("2")
        assert {name.partition("/")[0] for name in screen.monitor.view.sensor_series} == {"temp", "freq", "freqcap"}
        await screen.press("escape")
        assert screen.monitor.view.sensor_series == {}


async def test_a_frozen_pane_alone_shows_nothing_of_later() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        await screen.press("2", "space")
        still = screen.rows[3:-1]
        await screen.go_on(9)
        await screen.press("escape", "2")
        assert screen.rows[3:-1] == still
        assert len(screen.monitor.view.sensor_series) > 3


def test_a_chart_and_the_figures_beside_it_keep_their_columns() -> None:
    chart, figures = [line("a"), line("b")], [line("c")]
    rows = with_figures(lambda room: chart[: room.height], lambda room: figures, area(SIDE_CELLS + 5, 2))
    assert [plain(row) for row in rows] == [f"a    c{' ' * (SIDE_CELLS - 1)}", f"b    {' ' * SIDE_CELLS}"]
    assert with_figures(lambda room: [], lambda room: [], area(SIDE_CELLS + 5, 2)) == []
