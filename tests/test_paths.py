"""The XDG Base Directory Specification for edgetop, and where there is room."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.paths import as_component, component, config_home, has_room, home, recordings_home

NO_USER = 4_000_000_000  # has no entry in /etc/passwd

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


HOSTILE = ("", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", "-rf", "--output", "a\nb", "\x1b[2J", "\ud800", ".ssh",
           "x" * 201, "ü" * 150, "a\u202eb")  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_becomes_one_harmless_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"the name .* cannot be a part of a path"):
        component(text, "the name")
    name = as_component(text)
    assert component(name, "the name") == name
    (tmp_path / f"{name}.edgetop").mkdir()
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.edgetop"]


@pytest.mark.parametrize("text", ["soak-42", "net v2.onnx", "naïve", "a..b", "5f0c9c1e-6b0a-4c49-8f0e-6f6b5d1f3a52"])
def test_a_usual_name_stays_as_it_is(text: str) -> None:
    assert component(text, "the name") == as_component(text) == text


def test_a_user_without_a_home_gets_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.getuid", lambda: NO_USER)
    with pytest.raises(InputError, match="home folder of this user is not known"):
        home()
    with pytest.raises(InputError, match="set HOME"):
        recordings_home()
    monkeypatch.setenv("XDG_STATE_HOME", "/var/lib/boards")
    assert recordings_home() == Path("/var/lib/boards/edgetop")
