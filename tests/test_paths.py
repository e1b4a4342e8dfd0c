"""The XDG Base Directory Specification for edgetop, and where there is room."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edgetop.paths import config_home, has_room, recordings_home

PLACES = pytest.mark.parametrize(
    ("place", "variable", "default"),
    [(recordings_home, "XDG_STATE_HOME", ".local/state"), (config_home, "XDG_CONFIG_HOME", ".config")],
)


@PLACES
def test_the_variable_says_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Callable[[], Path], variable: str, default: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    assert place() == tmp_path / "edgetop"


@PLACES
@pytest.mark.parametrize("value", [None, "", "relative/path"])
def test_unset_or_relative_variables_mean_the_home_folder(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    place: Callable[[], Path],
    variable: str,
    default: str,
    value: str | None,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(variable, raising=False)
    if value is not None:
        monkeypatch.setenv(variable, value)
    assert place() == tmp_path / default / "edgetop"


def test_a_folder_has_room_where_it_is_large_and_writable(tmp_path):
    assert has_room(tmp_path, 1)
    assert not has_room(tmp_path, 2**62)
    assert not has_room("/proc", 1)
    assert not has_room(tmp_path / "nowhere", 1)
