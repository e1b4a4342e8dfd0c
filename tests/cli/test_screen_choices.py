"""What was chosen on the screen is there in the next one."""

import stat
from pathlib import Path

import pytest

from edgetop.cli.config import CHOICES as NAME
from edgetop.cli.config import load_choices, save_choices, screen_settings
from edgetop.cli.screen_options import ScreenChoices

CHOICES = {"theme": "light", "window": "1m", "layout": "thermal", "orders": {"sensors": "by name"}}
NOTHING = ScreenChoices()  # given on the command line


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "edgetop"


def test_choices_come_back_and_only_their_user_may_read_them(home: Path) -> None:
    save_choices(home, CHOICES)
    assert load_choices(home) == {
        "theme": "light", "window_ns": 60 * 10**9, "layout": "thermal", "orders": {"sensors": "by name"},
    }  # fmt: skip
    save_choices(home, {"window": "all"})
    settings = screen_settings(NOTHING)
    assert (settings.theme, settings.window_ns, settings.layout) == ("light", None, "thermal")
    assert stat.S_IMODE((home / NAME).stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == [NAME]


def test_a_theme_is_of_one_kind_of_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_choices(home, CHOICES)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "theme" not in load_choices(home)


def test_settings_and_the_command_line_win(home: Path, tmp_path: Path) -> None:
    save_choices(home, CHOICES)
    assert screen_settings(ScreenChoices(theme="paper")).theme == "paper"
    (tmp_path / "config/edgetop").mkdir(parents=True)
    (tmp_path / "config/edgetop/edgetop.toml").write_text('window = "10m"\ntheme = "mono"\n')
    settings = screen_settings(NOTHING)
    assert (settings.theme, settings.window_ns, settings.layout) == ("mono", 600 * 10**9, "thermal")


@pytest.mark.parametrize("text", ["{", "[1]", "\x00\xff", "[" * 50_000])
def test_a_file_that_is_damaged_is_ignored_with_a_line(
    home: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    home.mkdir()
    (home / NAME).write_text(text)
    assert load_choices(home) == {}
    assert capsys.readouterr().err.count("\n") == 1
    save_choices(home, {"window": "1m"})
    assert load_choices(home) == {"window_ns": 60 * 10**9}


def test_values_that_there_are_not_are_passed_over(home: Path) -> None:
    save_choices(
        home, {"theme": "none", "window": "5s", "layout": 3, "orders": {"sensors": "best", "x": "y", "heat": 1}}
    )
    assert load_choices(home) == {"orders": {}}


def test_where_nothing_can_be_written_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    save_choices(tmp_path / "file", CHOICES)
    assert (tmp_path / "file").read_text() == ""
