"""The session of a command that is given none."""

import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.cli.choosing import recorded, running
from edgetop.errors import InputError
from edgetop.recording.session_folder import MANIFEST, WriterLock, write_manifest
from tests.support.recordings import first_manifest


class Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


def types(text: str, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "stdin", Typed(text))
    patch.setattr(sys, "stderr", Typed())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "edgetop"


@pytest.fixture
def three(home: Path) -> list[Path]:
    """The newest is the second."""
    folders = []
    for name, day in (("a", 1), ("b", 3), ("c", 2)):
        (folder := home / f"{name}.edgetop").mkdir(parents=True)
        write_manifest(folder, replace(first_manifest(name), created_utc=f"2026-11-0{day}T10:00:00Z"))
        folders.append(folder)
    return folders


@pytest.fixture
def two_run(three: list[Path]) -> Iterator[list[Path]]:
    with ExitStack() as held:
        for folder in three[1:]:
            (folder / "journal").mkdir()
            held.callback(WriterLock(folder).release)
        yield three


def test_without_a_name_the_newest_is_meant_and_named(three: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert recorded(None) == three[1]
    assert capsys.readouterr() == ("", "edgetop: b, began 2026-11-03 10:00 UTC, model.onnx\n")
    assert recorded("a") == three[0]
    assert capsys.readouterr().err == ""
    (three[1] / MANIFEST).write_text("damaged")
    assert recorded(None) == three[2]


@pytest.mark.usefixtures("home")
def test_where_nothing_is_recorded_that_is_one_line() -> None:
    with pytest.raises(InputError, match="no recorded session"):
        recorded(None)


@pytest.mark.usefixtures("two_run")
@pytest.mark.parametrize("newest", [True, False])
def test_a_script_is_never_asked_and_gets_the_names(newest: bool) -> None:
    with pytest.raises(InputError, match="2 sessions run now") as refused:
        running(None, newest=newest)
    assert "name one: b.edgetop, c.edgetop" in str(refused.value)


@pytest.mark.parametrize(("typed", "newest", "place"), [("2\n", True, 2), ("\n", True, 1), ("7\nx\n2\n", False, 2)])
def test_on_a_terminal_one_chooses(
    two_run: list[Path], monkeypatch: pytest.MonkeyPatch, typed: str, newest: bool, place: int
) -> None:
    types(typed, monkeypatch)
    assert running(None, newest=newest) == two_run[place]
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "2 sessions run now:" in shown
    assert "  1  b, began 2026-11-03 10:00 UTC" in shown


@pytest.mark.parametrize("typed", ["", "q\n", "\x1b\n"], ids=["end of input", "q", "Esc"])
@pytest.mark.usefixtures("two_run")
def test_to_choose_nothing_stops_nothing(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    types(typed, monkeypatch)
    with pytest.raises(InputError, match="no session was chosen"):
        running(None, newest=False)
