"""Zooming and panning the axis that all timelines share, and what is marked along it."""

import re
from pathlib import Path

import pytest

from edgetop.ui.charts import GUTTER
from edgetop.ui.panes.latency_pane import LATENCY
from tests.support.replays import replayed
from tests.support.scenes import throttled
from tests.support.screens import Opened, area, opened, view_of
from tests.support.scripts import measured, measured_with_power

pytestmark = pytest.mark.slow


def axis(screen: Opened) -> tuple[int, int]:
    """The ends of the timelines in s."""
    shown = screen.monitor.view.axis
    return shown.from_s, shown.to_s


def labels(screen: Opened) -> list[str]:
    """The times that stand in the line that closes the timelines."""
    row = next(row for row in reversed(screen.rows[:-1]) if row.startswith("+"))
    return re.findall(r"(?<= )(?:\d+[hms])+(?= )", row)


async def test_z_looks_closer_in_all_panes_and_goes_on_with_time() -> None:
    async with opened(measured_with_power(320), (200, 60)) as screen:
        whole = axis(screen)
        assert whole[0] <= 0
        assert whole[1] > 320
        await screen.press("z", "z", "z")
        seen = axis(screen)
        assert (seen[1] - seen[0], seen[1]) == (pytest.approx(60, abs=2), pytest.approx(323, abs=3))
        assert "FROZEN" not in screen.header
        assert all(f" {words} " in screen.rows[-1] for words in ("zZ 1m", "{} pan", "0 reset timeline"))
        await screen.go_on(30)
        assert axis(screen) == (pytest.approx(seen[0] + 30, abs=3), pytest.approx(seen[1] + 30, abs=3))
        await screen.press("Z")
        wider = axis(screen)
        assert wider[1] - wider[0] == pytest.approx(120, abs=2)
        await screen.press("0")
        assert axis(screen)[1] - axis(screen)[0] >= whole[1] - whole[0]
        assert " zZ " not in screen.rows[-1]


async def test_the_newest_time_is_at_the_right_from_the_beginning_on() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        for _ in range(4):
            assert 0 < axis(screen)[1] - screen.monitor.view.progress.now_ns / 1e9 <= screen.monitor.view.axis.column_s
            assert labels(screen)
            await screen.go_on(40)


async def test_a_wide_axis_ends_at_the_whole_session() -> None:
    async with opened(measured(75), (120, 40)) as screen:
        await screen.press(*["Z"] * 5)
        assert axis(screen)[0] <= 0
        assert axis(screen)[1] > 75
        await screen.press(*["z"] * 5)
        assert axis(screen) == (pytest.approx(60, abs=2), pytest.approx(80, abs=2))


@pytest.mark.parametrize(("back", "on"), [("left_curly_bracket", "right_curly_bracket")])
async def test_a_step_back_freezes_a_live_screen_until_it_is_resumed(back: str, on: str) -> None:
    async with opened(measured(320), (160, 50)) as screen:
        await screen.press("z", "z", "z", "z")
        before = axis(screen)
        await screen.press(back)
        looked = axis(screen)
        assert screen.header.startswith(" FROZEN ")
        assert looked[1] < before[1]
        await screen.go_on(30)
        assert axis(screen) == looked
        await screen.press(on, on)
        assert axis(screen) == before
        await screen.press(*[back] * 100)
        assert axis(screen)[0] <= 0
        await screen.press("space")
        assert "FROZEN" not in screen.header
        assert axis(screen)[1] == pytest.approx(before[1] + 30, abs=3)


async def test_what_comes_after_the_freezing_is_in_no_frozen_timeline() -> None:
    async with opened(measured(100), (160, 50)) as screen:
        await screen.press("space", "z")
        still = screen.rows[3:-1]
        await screen.go_on(15)
        await screen.press("z", "Z")
        assert screen.rows[3:-1] == still


async def test_windows_can_be_compared_while_zoomed_and_frozen() -> None:
    async with opened(measured(320), (160, 50)) as screen:
        await screen.press("space", "z")
        zoomed = axis(screen)
        await screen.press("w")
        assert axis(screen) == zoomed
        assert " window 1m " in screen.rows[3]


async def test_the_arrows_seek_in_a_replay_and_a_step_back_pauses_it(tmp_path: Path) -> None:
    async with replayed(measured(200).end(), tmp_path, (120, 40), from_s=150) as screen:
        await screen.press("z", "z")
        await screen.press("left_curly_bracket")
        assert " PAUSE " in screen.transport
        looked = axis(screen)
        await screen.pass_time(5)
        assert axis(screen) == looked
        await screen.press("left")
        assert screen.at_s == pytest.approx(140, abs=1)
        assert axis(screen) != looked
        await screen.press("left_curly_bracket", "space")
        assert " PLAY " in screen.transport
        assert axis(screen)[1] > 140


async def test_slowed_time_is_shaded_in_the_same_cells_of_every_chart() -> None:
    async with opened(throttled(), (120, 40), ascii_only=True) as screen:
        begin = screen.panes["heat"][1]
        charts = [row[1 + GUTTER : 65] for row in screen.rows[begin + 1 : -2] if row.startswith("|")]
        heat_map = [row[1 + GUTTER : 65] for row in screen.rows[:begin]]
    shaded = [(row.index(":"), row.rindex(":")) for row in charts if ":" in row]
    marked = next((row.index("T"), row.rindex("T")) for row in heat_map if "TTT" in row)
    assert len(shaded) > 4
    assert all(marked[0] <= first and last <= marked[1] + 1 for first, last in shaded)


async def test_marks_of_the_user_stand_at_their_moment() -> None:
    script = measured(60).tell("mark", source="user", message="fan on").measure(30)
    async with opened(script, (120, 40)) as screen:
        row = next(row for row in reversed(screen.rows[:-1]) if row.startswith("+"))
        from_s, to_s = axis(screen)
    assert row.index("m") - 1 - GUTTER == (61 - from_s) * (66 - 2 - GUTTER) // (to_s - from_s)


async def test_the_arrows_select_a_moment_and_all_its_values_are_shown() -> None:
    async with opened(measured_with_power(75), (120, 40)) as screen:
        assert " at " not in screen.rows[2]
        await screen.press("left")
        assert screen.rows[2].startswith(" at 00:01:16 ")
        column_s = screen.monitor.view.axis.column_s
        await screen.press(*["left"] * 3)
        moment = f" at 00:01:{16 - 3 * column_s:02} "
        assert screen.rows[2].startswith(moment)
        names = re.findall(r"(p50|p99|max|heat|clock|power|memory) +[\d.]+ ", screen.rows[2])
        assert names == ["p50", "p99", "max", "heat", "clock", "power", "memory"]
        count = re.search(r"  n (\d+)  ", screen.rows[2])
        assert count
        assert int(count[1]) == pytest.approx(100 * column_s, rel=0.05)
        await screen.go_on(5)
        assert screen.rows[2].startswith(moment)
        await screen.press("right")
        assert screen.rows[2].startswith(f" at 00:01:{16 - 2 * column_s:02} ")
        await screen.press(*["left"] * 200)
        assert screen.rows[2].startswith(" at 00:00:00 ")
        await screen.press("escape")
        assert " at " not in screen.rows[2]


async def test_enter_zooms_to_the_cursor_and_so_does_g() -> None:
    for key in ("enter", "g"):
        async with opened(measured(320), (120, 40)) as screen:
            await screen.press(*["left"] * 12)
            at_s = screen.monitor.cursor_s
            assert at_s
            await screen.press(key)
            seen = axis(screen)
            assert seen[0] < at_s < seen[1]
            assert seen[1] - seen[0] <= 70
            assert screen.monitor.is_frozen


async def test_what_happened_in_the_column_under_the_cursor_is_said() -> None:
    script = measured(60).tell("mark", source="user", message="fan on").measure(30)
    async with opened(script, (160, 50)) as screen:
        screen.monitor.point_at(61.2)
        assert "then fan on" in screen.rows[2]


async def test_v_goes_round_the_layouts() -> None:
    async with opened(measured_with_power(75), (120, 40)) as screen:
        seen = []
        for _ in range(5):
            seen.append(max(screen.panes, key=lambda name: screen.panes[name][3]))
            await screen.press("v")
    assert seen[0] == seen[4]
    assert seen[1:4] == ["latency", "heat", "hotspots"]


def test_a_low_pane_keeps_its_chart() -> None:
    for height in range(3, 9):
        rows = LATENCY.body(view_of(throttled()), area(120, height))
        assert len(rows) <= height
