"""The list of sessions on the screen, with the commands that do its work."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.cli.stored_sessions import StoredSessions
from edgetop.recording.session_folder import WriterLock, read_manifest, write_manifest
from edgetop.ui.screen_settings import StoredSession, Work
from tests.support.commands import environment
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

V1 = Path(__file__).parents[1] / "recordings/v1"
LONG = "a-detector-with-a-long-name-20261127-101502"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "state" / "edgetop"
    for number, name in enumerate((LONG, "two")):
        folder = place / f"{name}.edgetop"
        shutil.copytree(V1 / "finished.edgetop", folder)
        write_manifest(folder, replace(read_manifest(folder), id=f"{number}" * 8 + "-0000-4000-8000-000000000000"))
    monkeypatch.chdir(tmp_path)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return place


def done(work: Work[object]) -> object:
    wait_until(lambda: work.result() is not None)
    return work.result()


def listed() -> dict[str, StoredSession]:
    found = done(StoredSessions().listed())
    assert isinstance(found, Sequence), found
    return {one.name: one for one in found}


@pytest.mark.usefixtures("home")
def test_sessions_are_listed_with_whole_names_and_compared() -> None:
    found = listed()
    assert set(found) == {LONG, "two"}
    one = found["two"]
    assert (one.is_running, one.path.name) == (False, "two.edgetop")
    assert one.figures.startswith("2026-11-21 10:15 ")
    assert "p50 40.49" in one.figures
    lines = done(StoredSessions().compared(found[LONG], one, 80))
    assert not isinstance(lines, str), lines
    assert any("p50" in line for line in lines)


def test_a_session_is_deleted_and_one_that_is_recorded_is_not(home: Path) -> None:
    found = listed()
    lock = WriterLock(found["two"].path)
    assert "another edgetop is writing it" in str(done(StoredSessions().deleted(found["two"])))
    lock.release()
    (line,) = done(StoredSessions().deleted(found["two"]))
    assert line.startswith("deleted ")
    assert [path.stem for path in home.glob("*.edgetop")] == [LONG]


def test_a_session_is_renamed_and_a_bad_name_has_its_reason(home: Path) -> None:
    found = listed()
    StoredSessions().rename(found["two"], "three")
    assert (home / "three.edgetop").is_dir()
    with pytest.raises(ValueError, match="exists already"):
        StoredSessions().rename(found[LONG], "three")


def test_another_session_is_shown_until_it_is_left(home: Path) -> None:
    argv = ["replay", str(home / "two.edgetop")]
    terminal = Terminal(argv, 80, 24, environment(home.parents[1]), template="commands")
    try:
        terminal.wait_for("FINISHED")
        terminal.send("L")
        terminal.wait_for("Enter open", LONG)
        before = terminal.output.count(b"\x1b[?1049h")
        terminal.send("\r")
        terminal._wait(lambda: terminal.output.count(b"\x1b[?1049h") > before, "the screen of the other session")
        terminal.wait_for("PAUSE", "FINISHED")
        terminal.send("q")
        terminal._wait(lambda: terminal.output.count(b"\x1b[?1049h") > before + 1, "the screen as it was before")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
        assert terminal.attributes() == terminal.attributes_before
    finally:
        terminal.close()
