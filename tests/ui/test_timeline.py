"""Zooming and panning the axis that all timelines share, and what is marked along it."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from edgetop.ui.panes.latency import LATENCY
from edgetop.ui.panes.thermal import THERMAL
from tests.support.replays import replayed
from tests.support.scenes import throttled
from tests.support.screens import Opened, area, opened, plain, text_of, view_of
from tests.support.scripts import measured, measured_with_power


def axes(screen: Opened) -> list[tuple[str, str]]:
    """The ends of every timeline that is seen."""
    found = [re.search(r"(\d\d:\d\d:\d\d) {20,}(\d\d:\d\d:\d\d)", row) for row in screen.rows[2:-1]]
    return [(match[1], match[2]) for match in found if match]


async def test_z_looks_closer_in_all_panes_and_goes_on_with_time() -> None:
    async with opened(measured_with_power(320), (200, 60)) as screen:
        assert set(axes(screen)) == {("00:00:00", "00:10:00")}
        await screen.press("z", "z", "z")
        assert len(axes(screen)) >= 4
        assert set(axes(screen)) == {("00:04:25", "00:05:25")}
        assert "FROZEN" not in screen.header
        assert " zZ 1m  {} pan  0 reset timeline " in screen.rows[-1]
        await screen.go_on(30)
        assert set(axes(screen)) == {("00:04:55", "00:05:55")}
        await screen.press("Z")
        assert set(axes(screen)) == {("00:03:55", "00:05:55")}
        await screen.press("0")
        assert set(axes(screen)) == {("00:00:00", "00:10:00")}
        assert " zZ " not in screen.rows[-1]


async def test_a_wide_axis_ends_at_the_whole_session() -> None:
    async with opened(measured(75), (120, 40)) as screen:
        await screen.press(*["Z"] * 5)
        assert set(axes(screen)) == {("00:00:00", "00:02:00")}
        await screen.press(*["z"] * 5)
        assert set(axes(screen)) == {("00:01:00", "00:01:20")}


@pytest.mark.slow
@pytest.mark.parametrize(("back", "on"), [("left", "right"), ("h", "l"), ("left_curly_bracket", "right_curly_bracket")])
async def test_a_step_back_freezes_a_live_screen_and_going_on_brings_it_to_now(back: str, on: str) -> None:
    async with opened(measured(320), (160, 50)) as screen:
        await screen.press("z", "z", "z", back)
        assert screen.header.startswith(" FROZEN ")
        assert set(axes(screen)) == {("00:04:10", "00:05:10")}
        await screen.go_on(30)
        assert set(axes(screen)) == {("00:04:10", "00:05:10")}
        await screen.press(on, on)
        assert set(axes(screen)) == {("00:04:25", "00:05:25")}
        await screen.press(*[back] * 100)
        assert set(axes(screen)) == {("00:00:00", "00:01:00")}
        await screen.press("space")
        assert "FROZEN" not in screen.header
        assert set(axes(screen)) == {("00:04:55", "00:05:55")}


async def test_what_comes_after_the_freezing_is_in_no_frozen_timeline() -> None:
    async with opened(measured(100), (160, 50)) as screen:
        await screen.press("space", "z")
        still = screen.rows[2:-1]
        await screen.go_on(15)
        await screen.press("z", "Z")
        assert screen.rows[2:-1] == still


async def test_windows_can_be_compared_while_zoomed_and_frozen() -> None:
    async with opened(measured(320), (160, 50)) as screen:
        await screen.press("space", "z", "w")
        assert set(axes(screen)) == {("00:00:30", "00:05:30")}
        assert any(row.startswith("1m") for row in screen.rows)


async def test_the_arrows_seek_in_a_replay_and_a_step_back_pauses_it(tmp_path: Path) -> None:
    async with replayed(measured(200).end(), tmp_path, (120, 40), from_s=150) as screen:
        await screen.press("z", "z")
        assert set(axes(screen)) == {("00:01:35", "00:02:35")}
        await screen.press("left_curly_bracket")
        assert " PAUSE " in screen.transport
        looked = set(axes(screen))
        await screen.pass_time(5)
        assert set(axes(screen)) == looked
        await screen.press("left")
        assert screen.at_s == pytest.approx(140, abs=1)
        assert set(axes(screen)) != looked
        await screen.press("left_curly_bracket", "space")
        assert " PLAY " in screen.transport
        assert axes(screen)[0][1] > "00:02:20"


def test_slowdowns_are_shaded_in_every_chart_and_named_in_a_row() -> None:
    view = view_of(throttled())
    latency = LATENCY.body(view, area(120, 20))
    row = next(of for of in latency if plain(of).startswith("    slow "))
    begin, end = plain(row).index("\u2836"), plain(row).rindex("\u2836")
    for line in (*latency, *THERMAL.body(view, area(120, 20))):
        if line is row:
            continue
        x = 0
        for span in line:
            if span.style == "graph_hot" and span.text.strip():
                assert begin <= x <= end + 1
            x += cell_len(span.text)
    heat = [span for line in THERMAL.body(view, area(120, 20)) for span in line]
    assert any(span.style == "graph_hot" and span.text.strip() for span in heat)
    assert "    slow " in text_of(LATENCY.body(view, area(120, 20, ascii_only=True)))
    assert text_of(LATENCY.body(view, area(120, 20, ascii_only=True))).isascii()


def test_a_session_without_trouble_has_no_row_for_it() -> None:
    text = text_of(LATENCY.body(view_of(measured(75)), area(120, 20)))
    assert "slow" not in text
    assert "marks" not in text


def test_marks_of_the_user_stand_at_their_moment() -> None:
    script = measured(60).tell("mark", source="user", message="fan on").measure(30)
    rows = [plain(line) for line in LATENCY.body(view_of(script), area(100, 20))]
    row = next(row for row in rows if row.startswith("   marks "))
    assert row.index("m", 9) - 9 == 61 * 91 // 120


def test_a_low_pane_keeps_its_chart() -> None:
    for height in range(3, 9):
        rows = LATENCY.body(view_of(throttled()), area(120, height))
        assert len(rows) <= height
