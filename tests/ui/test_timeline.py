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


def axis(screen: Opened) -> tuple[str, str]:
    """The ends of the timelines, as they stand in the line that closes their frame."""
    row = next(row for row in screen.rows[3:-1] if row.startswith(f"+{'-' * GUTTER} "))
    times = re.findall(r"(?<= )\d+:\d\d(?= )", row)
    return times[0], times[-1]


async def test_z_looks_closer_in_all_panes_and_goes_on_with_time() -> None:
    async with opened(measured_with_power(320), (200, 60)) as screen:
        assert axis(screen) == ("0:00", "10:00")
        await screen.press("z", "z", "z")
        assert axis(screen) == ("4:25", "5:25")
        assert "FROZEN" not in screen.header
        assert all(f" {words} " in screen.rows[-1] for words in ("zZ 1m", "{} pan", "0 reset timeline"))
        await screen.go_on(30)
        assert axis(screen) == ("4:55", "5:55")
        await screen.press("Z")
        assert axis(screen) == ("3:55", "5:55")
        await screen.press("0")
        assert axis(screen) == ("0:00", "10:00")
        assert " zZ " not in screen.rows[-1]


async def test_a_wide_axis_ends_at_the_whole_session() -> None:
    async with opened(measured(75), (120, 40)) as screen:
        await screen.press(*["Z"] * 5)
        assert axis(screen) == ("0:00", "1:40")
        await screen.press(*["z"] * 5)
        assert axis(screen) == ("1:00", "1:20")


@pytest.mark.parametrize(("back", "on"), [("left_curly_bracket", "right_curly_bracket")])
async def test_a_step_back_freezes_a_live_screen_until_it_is_resumed(back: str, on: str) -> None:
    async with opened(measured(320), (160, 50)) as screen:
        await screen.press("z", "z", "z", back)
        assert screen.header.startswith(" FROZEN ")
        assert axis(screen) == ("4:10", "5:10")
        await screen.go_on(30)
        assert axis(screen) == ("4:10", "5:10")
        await screen.press(on, on)
        assert axis(screen) == ("4:25", "5:25")
        await screen.press(*[back] * 100)
        assert axis(screen) == ("0:00", "1:00")
        await screen.press("space")
        assert "FROZEN" not in screen.header
        assert axis(screen) == ("4:55", "5:55")


async def test_what_comes_after_the_freezing_is_in_no_frozen_timeline() -> None:
    async with opened(measured(100), (160, 50)) as screen:
        await screen.press("space", "z")
        still = screen.rows[3:-1]
        await screen.go_on(15)
        await screen.press("z", "Z")
        assert screen.rows[3:-1] == still


async def test_windows_can_be_compared_while_zoomed_and_frozen() -> None:
    async with opened(measured(320), (160, 50)) as screen:
        await screen.press("space", "z", "w")
        assert axis(screen) == ("0:30", "5:30")
        assert " window 1m " in screen.rows[3]


async def test_the_arrows_seek_in_a_replay_and_a_step_back_pauses_it(tmp_path: Path) -> None:
    async with replayed(measured(200).end(), tmp_path, (120, 40), from_s=150) as screen:
        await screen.press("z", "z")
        assert axis(screen) == ("1:35", "2:35")
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
        assert axis(screen)[1] > "2:20"


async def test_slowed_time_is_shaded_in_the_same_cells_of_every_chart() -> None:
    async with opened(throttled(), (120, 40), ascii_only=True) as screen:
        charts = [row[1 + GUTTER : 65] for row in screen.rows[5:-2] if row.startswith("|") and "spread" not in row]
    shaded = [(row.index(":"), row.rindex(":")) for row in charts if ":" in row]
    cells = 64 - GUTTER
    assert len(shaded) > 6
    assert all(30 * cells // 100 - 1 <= first and last <= 92 * cells // 100 for first, last in shaded)


async def test_marks_of_the_user_stand_at_their_moment() -> None:
    script = measured(60).tell("mark", source="user", message="fan on").measure(30)
    async with opened(script, (120, 40)) as screen:
        row = next(row for row in screen.rows if row.startswith(f"+{'-' * GUTTER} "))
    assert row.index("m") - 1 - GUTTER == 61 * (66 - 2 - GUTTER) // 100


async def test_the_arrows_select_a_moment_and_all_its_values_are_shown() -> None:
    async with opened(measured_with_power(75), (120, 40)) as screen:
        assert " at " not in screen.rows[2]
        await screen.press("left")
        assert screen.rows[2].startswith(" at 00:01:16 ")
        await screen.press(*["left"] * 5)
        assert screen.rows[2].startswith(" at 00:01:11 ")
        names = re.findall(r"(p50|p99|heat|clock|power|memory) +[\d.]+ (ms|C|MHz|W|MiB)", screen.rows[2])
        assert [name for name, _ in names] == ["p50", "p99", "heat", "clock", "power", "memory"]
        await screen.go_on(5)
        assert screen.rows[2].startswith(" at 00:01:11 ")
        await screen.press("right")
        assert screen.rows[2].startswith(" at 00:01:12 ")
        await screen.press(*["left"] * 200)
        assert screen.rows[2].startswith(" at 00:00:00 ")
        await screen.press("escape")
        assert " at " not in screen.rows[2]


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
