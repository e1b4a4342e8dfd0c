"""When the screen is drawn: its clock at each call of the timer, everything at every second one or after news."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetop.analysis.findings import StillWarming
from edgetop.session.batch import merge
from edgetop.ui import screen_frame
from edgetop.ui.redraws import Rhythm, can_wait
from edgetop.ui.text import BLANK
from tests.support.replays import replayed
from tests.support.screens import NEVER_S, Opened, opened
from tests.support.scripts import hot, measured

pytestmark = pytest.mark.slow

SIZE = (120, 40)
TWO_CALLS_S = 2 * NEVER_S  # an interval in which the timer would fire twice


async def fire(
    screen: Opened, seconds: float = 1.0, median_ms: float = 5.0, *, is_urgent: bool = False,
    refresh_s: float = TWO_CALLS_S,
) -> list[str]:  # fmt: skip
    """Let the session go on and the timer fire once. Return the rows of the screen.

    `is_urgent`: a sign of throttling has changed.
    """
    screen.monitor.refresh_s = refresh_s
    screen.script.batches.clear()
    waiting = [batch for batch in (screen.feed.read(),) if batch]
    more = replace(screen.script.measure(seconds, median_ms=median_ms).whole(), is_urgent=is_urgent)
    screen.feed.put(merge([*waiting, more]))
    screen.monitor._beat()
    await screen.settle()
    return screen.rows


def changed(before: list[str], now: list[str]) -> set[int]:
    return {y for y, (old, new) in enumerate(zip(before, now, strict=True)) if old != new}


def figures_in(row: str) -> list[str]:
    """Return p50 and p99, each as it stands in a row."""
    return re.findall(r"p(?:50|99) [\d.]+", row)


@pytest.mark.parametrize(
    ("refresh_s", "interval_s", "calls"),
    [(2.0, 1.0, 2), (1.0, 1.0, 1), (0.2, 0.2, 1), (5.0, 1.0, 5), (2.5, 2.5 / 3, 3), (60.0, 1.0, 60)],
)
def test_the_first_line_is_drawn_at_least_every_second(refresh_s: float, interval_s: float, calls: int) -> None:
    rhythm = Rhythm.of(refresh_s, 1.0)
    assert (rhythm.interval_s, rhythm.calls) == (pytest.approx(interval_s), calls)
    assert rhythm.interval_s * rhythm.calls == pytest.approx(refresh_s)


async def test_every_second_call_draws_everything_and_the_others_the_clock() -> None:
    async with opened(measured(60), SIZE) as screen:
        before, folds = screen.rows, screen.monitor.analysis.folds
        first = await fire(screen)
        assert changed(before, first) == {0}
        assert screen.monitor.analysis.folds == folds
        assert screen.monitor.live.progress.now_ns == screen.script.now_ns
        second = await fire(screen)
        assert {0, 2} < changed(first, second)
        await screen.tick()
        assert screen.rows == second


async def test_no_figure_has_two_values_on_one_screen() -> None:
    async with opened(measured(60), SIZE) as screen:
        drawn = figures_in(screen.rows[0])
        assert len(drawn) == 2
        assert figures_in((await fire(screen, median_ms=5.3))[0]) == drawn
        rows = await fire(screen)
        assert figures_in(rows[0]) != drawn
        pane = next(row for row in rows if "p90" in row)
        assert all(figure in pane for figure in figures_in(rows[0]))


async def test_a_silent_feed_is_drawn_when_everything_is_due() -> None:
    async with opened(measured(60), SIZE) as screen:
        first = await fire(screen)
        screen.monitor._beat()
        await screen.settle()
        assert changed(first, screen.rows) - {0}


async def test_the_verdict_is_made_at_every_second_call_however_seldom_all_is_drawn() -> None:
    async with opened(measured(60), SIZE) as screen:
        folds, drawn = [], []
        for _ in range(4):
            before = screen.rows
            rows = await fire(screen, refresh_s=5 * NEVER_S)
            folds.append(screen.monitor.analysis.folds)
            drawn.append(changed(before, rows))
        assert np.diff([1, *folds]).tolist() == [0, 1, 0, 1]
        assert drawn == [{0}] * 4


async def test_a_change_of_throttling_is_analysed_at_once() -> None:
    async with opened(measured(60), SIZE) as screen:
        folds = screen.monitor.analysis.folds
        await fire(screen, is_urgent=True)
        assert screen.monitor.analysis.folds == folds + 1


def test_a_batch_waits_unless_it_has_news() -> None:
    script = measured(2)
    quiet = replace(script.batches[-1], events=())
    slow = replace(quiet, events=script.tell("competing", name="make", cpu_pct=90.0, pid=1).batches[-1].events)
    told = replace(quiet, events=script.tell("mark", source="user", message="the lid").batches[-1].events)
    assert can_wait([quiet, slow])
    for news in (told, replace(quiet, is_urgent=True), replace(quiet, restart=True)):
        assert not can_wait([quiet, news])
        assert not can_wait([merge([quiet, news, quiet])])


async def test_a_tiny_screen_draws_its_numbers_at_every_second_call() -> None:
    async with opened(measured(60), (50, 10)) as screen:
        before = screen.rows
        assert changed(before, await fire(screen, median_ms=5.3)) == {0}
        rows = await fire(screen)
        assert changed(before, rows) > {0}
        screen.monitor.draw()
        await screen.settle()
        assert screen.rows == rows


@pytest.mark.parametrize("key", ["down", "tab", "escape", "w", "left"])
async def test_a_key_draws_everything_at_once(key: str) -> None:
    async with opened(measured(60), SIZE) as screen:
        await fire(screen)
        await screen.press(key)
        rows = screen.rows
        screen.monitor.draw()
        await screen.settle()
        assert screen.rows == rows


async def test_a_click_and_a_new_size_draw_everything_at_once() -> None:
    async with opened(measured(60), SIZE) as screen:
        await fire(screen)
        await screen.pilot.click("#pane-events")
        assert screen.monitor._drawn_folds == screen.monitor.analysis.folds
        await fire(screen)
        await screen.resize(118, 40)
        assert screen.monitor._drawn_folds == screen.monitor.analysis.folds


async def test_an_event_is_drawn_at_once() -> None:
    async with opened(measured(60), SIZE) as screen:
        for message in ("the lid is shut", "the lid is open"):
            await screen.tick()
            screen.monitor.refresh_s = TWO_CALLS_S
            screen.feed.put(screen.script.tell("mark", source="user", message=message).batches[-1])
            screen.monitor._beat()
            await screen.settle()
            assert message in screen.text


async def test_another_verdict_is_drawn_at_once() -> None:
    script = measured(60)
    async with opened(script, SIZE) as screen:
        await fire(screen)
        await fire(screen)
        assert "THROTTL" not in screen.header
        script._weather = hot
        drawn = []
        for _ in range(30):
            before = screen.rows
            now = await fire(screen)
            if "THROTTL" in now[0] and "THROTTL" not in before[0]:
                drawn = [y for y in changed(before, now) if y]
                break
        assert drawn


async def test_the_end_is_drawn_at_once() -> None:
    async with opened(measured(60), SIZE) as screen:
        await fire(screen)
        await fire(screen)
        screen.script.batches.clear()
        screen.feed.put(screen.script.end().whole())
        screen.feed.close()
        screen.monitor._beat()
        await screen.settle()
        rows = screen.rows
        assert "last values" in rows[2]
        screen.monitor.draw()
        await screen.settle()
        assert screen.rows == rows


async def test_a_frozen_screen_counts_how_far_it_is_behind() -> None:
    async with opened(measured(60), SIZE) as screen:
        await fire(screen)
        await screen.press("space")
        frozen = screen.rows
        assert changed(frozen, await fire(screen)) == {0}
        assert screen.header.startswith(" FROZEN 1.0s behind ")
        await fire(screen)
        assert screen.header.startswith(" FROZEN 2.0s behind ")
        assert screen.rows[3:-1] == frozen[3:-1]
        await fire(screen)
        await screen.press("space")
        rows = screen.rows
        screen.monitor.draw()
        await screen.settle()
        assert screen.rows == rows


async def test_a_warning_that_is_held_stays_between_two_drawings() -> None:
    held = (StillWarming("temp/cpu", 2.0),)
    async with opened(measured(60), SIZE) as screen:
        screen.monitor._held.with_held = lambda *_, **__: held  # type: ignore[method-assign]
        screen.monitor.draw()
        await fire(screen, is_urgent=True)
        assert screen.monitor._drawn_folds != screen.monitor.analysis.folds
        assert screen.monitor.live.notices == held


async def test_the_lines_below_the_first_are_made_with_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[float] = []
    monkeypatch.setattr(screen_frame, "vitals_line", lambda view, _: made.append(view.progress.now_ns) or BLANK)
    async with opened(measured(60), SIZE) as screen:
        await screen.tick()
        made.clear()
        await fire(screen)
        assert made == []
        await fire(screen)
        assert made == [screen.script.now_ns]


async def test_a_replay_moves_its_time_bar_at_each_call_and_seeks_at_once(tmp_path: Path) -> None:
    async with replayed(measured(120), tmp_path, SIZE) as screen:
        screen.monitor.refresh_s = TWO_CALLS_S
        screen.clock.advance(10)
        screen.monitor._beat()
        await screen.settle()
        before = screen.rows
        screen.clock.advance(1)
        screen.monitor._beat()
        await screen.settle()
        assert screen.rows[-2] != before[-2]
        await screen.press("end")
        rows = screen.rows
        screen.monitor.draw()
        await screen.settle()
        assert screen.rows == rows
