"""`edgetop rm`: whole sessions, after a question, and never one that is being recorded."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.recording.removal import ASIDE
from edgetop.recording.session_folder import MANIFEST, WriterLock, read_manifest, write_manifest
from tests.support.commands import edgetop, environment
from tests.support.terminal import Terminal, as_its_own

pytestmark = pytest.mark.slow

V1 = Path(__file__).parents[1] / "recordings/v1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for number, name in enumerate(("one", "two", "two-b")):
        folder = tmp_path / f"{name}.edgetop"
        shutil.copytree(V1 / "finished.edgetop", folder)
        write_manifest(folder, replace(read_manifest(folder), id=f"{number}" * 8 + "-0000-4000-8000-000000000000"))
    return tmp_path


def left(home: Path) -> list[str]:
    return sorted(path.stem for path in home.glob("*.edgetop"))


def test_named_sessions_are_deleted_and_no_other(home: Path) -> None:
    done = edgetop("rm", "one", "two", "./one.edgetop", "--yes", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["deleted one.edgetop", "deleted two.edgetop"]
    assert left(home) == ["two-b"]


def test_what_edgetop_did_not_write_stays(home: Path) -> None:
    (home / "one.edgetop" / "notes.txt").write_text("mine")
    done = edgetop("rm", "one", "--yes", home=home)
    assert "; notes.txt stay" in done.stdout
    assert [path.name for path in (home / "one.edgetop").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("one", "nothing"), "nothing: no such recording"),
        (("one", ""), "an empty name is no session"),
        (("link",), "link: is a link"),
    ],
)
def test_nothing_is_deleted_if_one_name_is_wrong(names: tuple[str, ...], words: str, home: Path) -> None:
    (home / "link.edgetop").symlink_to(home / "one.edgetop")
    before = left(home)
    done = edgetop("rm", *names, "--yes", home=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert left(home) == before


@pytest.mark.parametrize("beginning", ["on", "0000"])
def test_without_a_question_a_beginning_is_not_enough(beginning: str, home: Path) -> None:
    state = home / "state" / "edgetop"
    state.mkdir(parents=True)
    (home / "one.edgetop").rename(state / "one.edgetop")
    done = edgetop("rm", beginning, "--yes", home=home, XDG_STATE_HOME=str(home / "state"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"edgetop: {beginning}: is only the beginning of one (edgetop rm one --yes)\n" == done.stderr
    whole_id = f"{beginning * 2}-0000-4000-8000-000000000000" if beginning == "0000" else "one"
    assert edgetop("rm", whole_id, "--yes", home=home, XDG_STATE_HOME=str(home / "state")).returncode == 0
    assert left(state) == []


def test_a_session_that_is_being_recorded_is_never_deleted(home: Path) -> None:
    (home / "two.edgetop" / "journal").mkdir()
    lock = WriterLock(home / "two.edgetop")
    try:
        done = edgetop("rm", "one", "two", "--yes", home=home)
        assert (done.returncode, done.stdout) == (2, "")
        assert "edgetop: two: is being recorded (edgetop stop two ends it)" in done.stderr
        assert left(home) == ["one", "two", "two-b"]
        first, second = (read_manifest(home / f"{name}.edgetop") for name in ("one", "two"))
        later = replace(second.clock, origin_monotonic_ns=first.clock.origin_monotonic_ns + 1)
        write_manifest(home / "one.edgetop", replace(first, followed_by=second.id))
        write_manifest(home / "two.edgetop", replace(second, clock=later))
        done = edgetop("rm", "one", "--yes", home=home)
        assert (done.returncode, "one: its run goes on in two" in done.stderr) == (2, True)
    finally:
        lock.release()
    assert edgetop("rm", "one", "--yes", home=home).returncode == 0


def test_it_asks_on_a_terminal_and_needs_yes_without(home: Path) -> None:
    done = edgetop("rm", "one", home=home)
    assert (done.returncode, "no terminal (add --yes)" in done.stderr) == (2, True)
    for answer, remaining in (("\r", ["one", "two", "two-b"]), ("y\r", ["two", "two-b"])):
        argv = ["sh", "-c", 'cd "$0"; exec "$@"', str(home), sys.executable, "-m", "edgetop", "rm", "one"]
        terminal = Terminal(as_its_own(argv), 100, 30, environment(home))
        try:
            terminal.wait_for("one.edgetop", "2026-", "Delete this session? [y/N]")
            terminal.send(answer)
            assert terminal.wait_for_exit() == 0
        finally:
            terminal.close()
        assert left(home) == remaining


def test_a_removal_that_was_killed_is_completed(home: Path) -> None:
    folder = home / "one.edgetop"
    (folder / ASIDE).mkdir()
    (folder / MANIFEST).rename(folder / ASIDE / MANIFEST)
    assert edgetop("rm", "one", "--yes", home=home).returncode == 0
    assert left(home) == ["two", "two-b"]
