"""The keys of a replay, on the recording of a session of a minute."""

import asyncio
import shutil
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.widgets import Input

from edgetop.feeds.feed_protocol import Mark, Transport
from edgetop.formatting import elapsed
from edgetop.recording import by_time
from edgetop.session.seconds import NS
from edgetop.ui.dialogs import Dialog
from edgetop.ui.key_commands import COMMANDS
from edgetop.ui.playback import SPEEDS, next_mark
from tests.support.recordings import record
from tests.support.replays import Replay, replayed
from tests.support.screens import keys_that_stay, opened
from tests.support.scripts import SENSORS, Script, manifest, measured, sensor
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

LONG = 61.0
DOOR, LOST, THROTTLED = 11.5, 31.5, 40.0  # when something happens


@cache
def eventful() -> Script:
    """A mark, a warning, and from the fortieth second on a limit in force."""

    def weather(second: float) -> dict[str, float]:
        return {
            "temp/cpu-thermal": 60.0,
            "throttle/thermal": float(second >= THROTTLED),
            "throttle/under-voltage-sticky": 1.0,
        }

    flags = (sensor("throttle/thermal"), sensor("throttle/under-voltage-sticky"))
    script = Script(manifest(sensors=(*SENSORS, *flags)), weather).load().warm_up(48).begin()
    script.measure(DOOR - script.now_ns / NS).tell("mark", source="user", message="door closed")
    script.measure(LOST - script.now_ns / NS).tell("records-lost", "warning", message="12 records lost")
    return script.measure(LONG - script.now_ns / NS).end("duration")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The eventful session, recorded once for all who copy it."""
    return record(tmp_path_factory.mktemp("recorded") / "s.edgetop", eventful().batches)


@pytest.fixture
def session(recorded: Path, tmp_path: Path) -> Path:
    """The folder of a recording of the eventful session."""
    shutil.copytree(recorded, tmp_path / "s.edgetop")
    return tmp_path


def dialog(screen: Replay) -> str:
    top = screen.app.screen
    return top.heading if isinstance(top, Dialog) else ""


async def test_it_plays_by_the_clock(session: Path) -> None:
    async with replayed(eventful(), session) as screen:
        assert screen.transport.startswith(" PLAY      1x 00:00:00 of 00:01:01 ")
        assert screen.rows[1].endswith(" recorded ")
        await screen.pass_time(20)
        assert screen.transport.startswith(" PLAY      1x 00:00:20 of 00:01:01 ")
        assert screen.header.rstrip().endswith(" 20s")
        assert "MEASURING" in screen.header


async def test_it_looks_ahead_so_that_one_may_go_anywhere_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_time, "SECONDS_AT_ONCE", 1)
    script = Script(step_s=60).load().warm_up().begin().measure(2_000, rate_hz=2).end()
    async with replayed(script, tmp_path) as screen:
        await screen.pass_time(5)
        assert screen.header.rstrip().endswith(" 5s")
        assert screen.feed.ahead() is None  # type: ignore[attr-defined]  all of it was
        await screen.press("end")
        assert "FINISHED" in screen.header
        screen.feed.seek(1_500 * NS)  # type: ignore[attr-defined]
        batch = screen.feed.read()
        assert batch is not None
        assert len(batch.seconds) < 700
        assert batch.resumes_ns is not None


async def test_space_pauses_and_plays(session: Path) -> None:
    async with replayed(eventful(), session) as screen:
        await screen.pass_time(5)
        await screen.press("space")
        assert screen.transport.startswith(" PAUSE ")
        assert "space play" in screen.rows[-1]
        await screen.pass_time(5)
        assert screen.at_s == 5
        assert "FROZEN" not in screen.header
        await screen.press("space")
        await screen.pass_time(5)
        assert screen.at_s == 10
        assert "space pause" in screen.rows[-1]


async def test_speed_goes_up_and_down_its_steps(session: Path) -> None:
    slower, faster = "less_than_sign", "greater_than_sign"
    async with replayed(eventful(), session) as screen:
        speeds = [screen.monitor.transport.speed]  # type: ignore[union-attr]
        for key in [slower] * 4 + [faster] * (len(SPEEDS) + 1):
            await screen.press(key)
            speeds.append(screen.monitor.transport.speed)  # type: ignore[union-attr]
        assert speeds == [1, 0.5, 0.2, 0.1, 0.1, *SPEEDS[1:], 1000, 1000]
        assert " 1000x " in screen.transport


async def test_a_speed_between_steps_goes_to_the_next_on_that_side(session: Path) -> None:
    async with replayed(eventful(), session) as screen:
        player = screen.monitor.feed.player
        assert player
        for key, speed in (("greater_than_sign", 10), ("less_than_sign", 5)):
            player.set_speed(7)
            await screen.press(key)
            assert player.transport.speed == speed


KEYS = {
    "right": 40, "l": 40, "left": 20, "h": 20, "shift+right": LONG, "shift+left": 0, "home": 0, "end": LONG,
    "n": THROTTLED, "right_square_bracket": LOST, "left_square_bracket": DOOR, "T": THROTTLED,
}  # fmt: skip


@pytest.mark.parametrize("key", mostly_thorough(KEYS, "right", "h", "end", "n", "left_square_bracket"))
async def test_a_key_goes_to_its_place_and_is_drawn_at_once(session: Path, key: str) -> None:
    async with replayed(eventful(), session, from_s=30) as screen:
        await screen.press("space", key)
        assert screen.at_s == KEYS[key]
        at = f"00:0{KEYS[key] // 60:.0f}:{KEYS[key] % 60 // 1:02.0f}"
        assert f" {at} of " in screen.transport
        assert screen.header.rstrip().endswith(f" {elapsed(KEYS[key] * 1e9)}")


async def test_the_end_is_the_end_of_the_run_and_playing_begins_anew(session: Path) -> None:
    async with replayed(eventful(), session) as screen:
        await screen.press("end")
        assert screen.header.startswith(" FINISHED ")
        await screen.pass_time(1)
        assert screen.transport.startswith(" PAUSE ")
        await screen.press("space")
        assert screen.at_s == 0
        assert screen.transport.startswith(" PLAY ")


async def test_what_happened_is_shown_where_one_goes_to(session: Path) -> None:
    async with replayed(eventful(), session, from_s=5) as screen:
        await screen.press("right_square_bracket")
        assert "door closed" in screen.text
        await screen.press("right_square_bracket")
        assert "12 records lost" in screen.text
        await screen.press("left_square_bracket")
        assert "12 records lost" not in screen.text


async def test_going_back_while_playing_skips_the_event_just_reached(session: Path) -> None:
    async with replayed(eventful(), session, from_s=LOST) as screen:
        await screen.pass_time(1)
        await screen.press("left_square_bracket")
        assert screen.at_s == DOOR


async def test_where_nothing_more_happened_it_is_said(session: Path) -> None:
    async with replayed(eventful(), session) as screen:
        await screen.press("end", "right_square_bracket")
        assert "no event after this" in screen.text
        assert screen.at_s == LONG
        await screen.press("home", "left_square_bracket")
        assert "no event before this" in screen.text


async def test_the_first_throttling_is_a_command_of_the_palette_too(session: Path) -> None:
    async with replayed(eventful(), session) as screen:
        await screen.press("space", "ctrl+p", *"first throttling", "enter")
        assert screen.at_s == pytest.approx(THROTTLED, abs=1)


async def test_where_nothing_throttled_it_is_said(tmp_path: Path) -> None:
    async with replayed(measured(5).end(), tmp_path) as screen:
        await screen.press("T")
        assert "reported no throttling" in screen.text
        assert screen.at_s == 0


@pytest.mark.parametrize(("typed", "stands"), [("00:00:40", 40), ("12.5", 12.5), ("1m", 60), ("2h", LONG)])
async def test_g_goes_to_a_time(session: Path, typed: str, stands: float) -> None:
    async with replayed(eventful(), session) as screen:
        await screen.press("g")
        assert "up to 00:01:01" in screen.text
        screen.app.screen.query_one(Input).value = typed
        await screen.press("enter")
        assert dialog(screen) == ""
        assert screen.at_s == stands


async def test_what_is_no_time_stays_in_the_dialog_with_a_word_on_it(session: Path) -> None:
    async with replayed(eventful(), session) as screen:
        await screen.press("g", *"[x", "enter")
        assert "'[x' is not a time; write 01:02:05" in screen.text
        await screen.press("escape")
        assert dialog(screen) == ""
        assert screen.at_s == 0


async def test_a_click_in_the_bar_goes_there(session: Path) -> None:
    async with replayed(eventful(), session) as screen:
        await screen.pilot.click("#transport", offset=(57, 0))
        await screen.settle()
        assert 25 < screen.at_s < 36
        before = screen.at_s
        await screen.pilot.click("#transport", offset=(3, 0))
        await screen.settle()
        assert screen.at_s == before


async def test_the_recording_of_a_run_that_failed_to_start_stays_shown(tmp_path: Path) -> None:
    async with replayed(Script().load().end("input-error"), tmp_path) as screen:
        await screen.press("end")
        await screen.pass_time(1)
        assert not screen.app._exit


@pytest.mark.parametrize("key", ["q", "Q", "ctrl+c"])
async def test_a_replay_is_left_without_a_question(session: Path, key: str) -> None:
    async with replayed(eventful(), session, from_s=20) as screen:
        await screen.press(key)
        assert screen.app._exit


async def test_help_names_the_keys_of_a_replay_and_not_those_of_a_run(session: Path) -> None:
    async with replayed(eventful(), session, (100, 60)) as screen:
        await screen.press("question_mark")
        for words in (
            "play, pause",
            "slower, faster",
            "Shift+Left",
            "seek -1 min",
            "first throttling",
            "go to a",
        ):
            assert words in screen.text
        assert "freeze" not in screen.text
        assert "mark this moment" not in screen.text


async def test_a_live_screen_has_neither_line_nor_keys_of_a_replay() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        before = screen.text
        assert " of 00:" not in before
        await screen.press("less_than_sign", "shift+left", "n", "N", "T", "g", "home", "end")
        assert screen.text == before
        await screen.press("question_mark")
        assert "throttling" not in screen.text


async def test_statistics_reset_in_a_replay_and_a_seek_restores_them(session: Path) -> None:
    async with replayed(eventful(), session, from_s=20) as screen:
        await screen.press("x", "x")
        await screen.pass_time(10)
        assert "since x" in screen.text
        await screen.press("left")
        assert "since x" not in screen.text


@pytest.mark.parametrize("size", [(50, 12), (80, 24), (60, 16), (20, 4)])
async def test_the_line_fits_every_size(session: Path, size: tuple[int, int]) -> None:
    async with replayed(eventful(), session, size, from_s=20) as screen:
        for keys in ((), ("1",), ("escape",)):
            await screen.press(*keys)
            shown = [y for y, row in enumerate(screen.rows) if " PLAY " in row]
            assert shown == [size[1] - (1 if size[0] < 60 else 2)]


async def test_n_and_p_go_from_one_throttling_to_the_next_only(tmp_path: Path) -> None:
    def weather(second: float) -> dict[str, float]:
        return {"throttle/thermal": float(15 <= second < 20 or 40 <= second < 45)}

    script = Script(manifest(sensors=(sensor("throttle/thermal"),)), weather).load().warm_up(48).begin()
    script = script.measure(10).tell("mark", message="door").measure(50).end("duration")
    async with replayed(script, tmp_path) as screen:
        await screen.press("space")
        assert [glyph for glyph in screen.transport.split(" of ")[1] if glyph in "!m|X"] == [
            "m",
            "X",
            "|",
            "X",
            "|",
            "|",
        ]
        places = []
        for key in "nnnpp":
            await screen.press(key)
            places.append(round(screen.at_s))
        assert places == [15, 40, 40, 15, 15]
        assert "no throttling before this" in screen.text


def test_the_nearest_event_on_either_side_is_the_next_one() -> None:
    marks = tuple(Mark(t * NS, "mark", "info") for t in (1, 5, 9))

    def from_(t_s: float, step: int, *, is_playing: bool = False, speed: float = 1.0) -> int | None:
        found = next_mark(Transport(int(t_s * NS), 10 * NS, speed, is_playing, marks), step)
        return None if found is None else found // NS

    assert [from_(t, 1) for t in (0, 1, 4.9, 5, 9)] == [1, 5, 5, 9, None]
    assert [from_(t, -1) for t in (1, 5, 5.1, 10)] == [None, 1, 5, 9]
    assert from_(6, -1, is_playing=True) == 1
    assert from_(6, -1, is_playing=True, speed=0.1) == 5


def test_events_of_one_second_are_one_step_to_the_last_of_them() -> None:
    at = (int(1.2 * NS), int(1.7 * NS), 3 * NS)
    marks = tuple(Mark(t_ns, kind, "info") for t_ns, kind in zip(at, ("mark", "ended", "mark"), strict=True))
    assert next_mark(Transport(0, 10 * NS, 1.0, False, marks), 1) == at[1]
    assert next_mark(Transport(0, 10 * NS, 1.0, False, marks), 1, "mark") == at[0]


sizes = st.tuples(st.integers(1, 210), st.integers(1, 62))
PRESSED = tuple(key for key in keys_that_stay(COMMANDS) if key != "q")  # which leaves at once


async def walk(folder: Path, todo: list[tuple[int, int] | str | float]) -> None:
    async with replayed(eventful(), folder, from_s=20) as screen:
        for step in todo:
            if isinstance(step, tuple):
                await screen.resize(*step)
            elif isinstance(step, float):
                await screen.pass_time(step)
            else:
                await screen.press(step)
            size = screen.app.size
            assert not screen.app._exit
            assert {cell_len(row) for row in screen.rows} <= {size.width}
            assert len(screen.rows) == size.height
            assert 0 <= screen.at_s <= LONG + 1


@pytest.mark.thorough
@settings(deadline=None, max_examples=4)
@example(todo=[(1, 4), "1"])
@given(st.lists(sizes | st.sampled_from(PRESSED) | st.sampled_from((0.0, 3.0, 60.0)), max_size=12))
def test_no_key_breaks_the_screen_of_a_replay(
    recorded: Path, tmp_path_factory: pytest.TempPathFactory, todo: list[tuple[int, int] | str | float]
) -> None:
    folder = tmp_path_factory.mktemp("replay")
    shutil.copytree(recorded, folder / "s.edgetop")
    asyncio.run(walk(folder, todo))
