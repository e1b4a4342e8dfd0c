"""`edgetop replay` on a terminal, as a user types it."""

from pathlib import Path

import pytest

from edgetop.recording.reader import Recording
from tests.support.commands import edgetop, environment
from tests.support.recordings import record
from tests.support.scripts import measured
from tests.support.terminal import LEAVE_ALTERNATE_SCREEN, Terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a recording of a minute among those that have no place of their own, and one beside it."""
    place = tmp_path / "state" / "edgetop"
    place.mkdir(parents=True)
    record(place / "soak-1.edgetop", measured(60).end().batches)
    record(place / "other.edgetop", measured(2).end().batches)
    return tmp_path


def replay(home: Path, *arguments: str) -> Terminal:
    around = {**environment(home), "COLORTERM": "truecolor"}
    return Terminal(["replay", *arguments], 100, 30, around, template="commands")


def test_a_recording_is_played_from_a_place_at_a_speed(home: Path) -> None:
    terminal = replay(home, "soak", "--from", "30s", "--speed", "0.1", "--refresh", "50ms", "--theme", "light")
    try:
        terminal.wait_for(" PLAY    0.1x 00:00:30 of 00:01:01 ", "p50")
        terminal.send("\x1b[F")  # End
        terminal.wait_for("FINISHED", "00:01:01 of")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
        assert LEAVE_ALTERNATE_SCREEN in terminal.output.decode()
        assert terminal.attributes() == terminal.attributes_before
    finally:
        terminal.close()


def test_damage_is_one_line_after_the_screen_is_closed(home: Path) -> None:
    path = home / "state" / "edgetop" / "soak-1.edgetop" / "readings.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    terminal = replay(home, "soak-1", "--ascii")
    try:
        terminal.wait_for(" PLAY ", "-|")
        terminal.send("q")
        assert terminal.wait_for_exit() == 2
        last = terminal.output.decode().rpartition(LEAVE_ALTERNATE_SCREEN)[2]
        assert last.count("edgetop: ") == 1
        assert "readings.parquet: is damaged" in last
        assert "the rest is played" in last
    finally:
        terminal.close()


def test_a_time_behind_the_end_is_refused(home: Path) -> None:
    terminal = replay(home, "soak-1", "--from", "2h")
    try:
        assert terminal.wait_for_exit() == 2
        assert "edgetop: --from: the session ends at 00:01:01" in terminal.text
        assert LEAVE_ALTERNATE_SCREEN not in terminal.output.decode()
    finally:
        terminal.close()


def test_without_a_terminal_it_names_what_works_without_one(home: Path) -> None:
    done = edgetop("replay", "soak-1", home=home)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "edgetop report soak-1" in done.stderr


def test_an_unknown_theme_is_refused_before_the_screen_opens(home: Path) -> None:
    terminal = replay(home, "soak-1", "--theme", "drak")
    try:
        assert terminal.wait_for_exit() == 2
        assert "did you mean dark?" in terminal.text
    finally:
        terminal.close()


def test_enough_of_an_id_names_a_recording(home: Path) -> None:
    recording = Recording(home / "state" / "edgetop" / "other.edgetop")
    (home / "state" / "edgetop" / "soak-1.edgetop" / "session.json").unlink()
    terminal = replay(home, recording.manifest.id[:8])
    try:
        terminal.wait_for(" of 00:00:03 ")
        terminal.send("Q")
        assert terminal.wait_for_exit() == 0
    finally:
        terminal.close()
