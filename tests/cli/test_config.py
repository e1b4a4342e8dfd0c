"""The file of settings: what it may say, and that every mistake in it is told in one line that says where."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.cli.config import Config, load_config
from edgetop.cli.viewing import screen_settings
from edgetop.errors import InputError
from edgetop.ui.bindings import IDS
from edgetop.ui.keys import key_names, parse_key

WHOLE = """
theme = "light"
refresh = "500ms"
window = "all"
ascii = true

[keys]
freeze = "f"
mark = "F5, ctrl+n"
filter = "?"
help = "f1"
"""


def wrong(folder: Path, text: str) -> str:
    (folder / "config.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as caught:
        load_config(folder)
    words = str(caught.value)
    assert words.startswith(f"{folder / 'config.toml'}: ")
    assert "\n" not in words
    return words.removeprefix(f"{folder / 'config.toml'}: ")


def test_without_a_file_nothing_is_set(tmp_path: Path) -> None:
    assert load_config(tmp_path / "nowhere") == Config()


def test_a_file_may_say_all_that_can_be_set(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(WHOLE)
    config = load_config(tmp_path)
    assert (config.theme, config.refresh_ns, config.window_ns, config.ascii_only) == ("light", 5 * 10**8, None, True)
    assert config.keys == {"freeze": "f", "mark": "f5,ctrl+n", "filter": "question_mark", "help": "f1"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("them = 'dark'", "unknown setting them (did you mean theme?)"),
        ("theme = 'drak'", "theme: unknown: drak (did you mean dark?)"),
        ("theme = 1", "theme: is not a text (edgetop help keys)"),
        ("refresh = 'often'", "refresh: 'often' is not a duration; write 500ms, 10s, 5m or 2h (edgetop help keys)"),
        ("refresh = 1", "refresh: is not a text (edgetop help keys)"),
        ("window = '5m'", "window: '5m' is none of 10s, 1m, 10m, all (edgetop help keys)"),
        ("ascii = 'yes'", "ascii: is neither true nor false (edgetop help keys)"),
        ("keys = 'vi'", "keys: is not a table (edgetop help keys)"),
        ("[keys]\nfreze = 'f'", "keys: unknown id freze (did you mean freeze?)"),
        ("[keys]\nfreeze = 'spce'", "keys.freeze: unknown key 'spce' (did you mean space?)"),
        ("[keys]\nfreeze = 'ctrl+shift+alt'", "keys.freeze: unknown key 'ctrl+shift+alt' ("),
        ("[keys]\nfreeze = ''", "keys.freeze: unknown key '' (known: "),
        ("[keys]\nfreeze = 7", "keys.freeze: is not a text"),
        ("[keys]\nfreeze = 'Ctrl+C'", "keys.freeze: Ctrl+C always stops and leaves"),
        ("[keys]\nfreeze = 'w'", "keys.freeze: w is the key of window too (give window another one)"),
        ("[keys]\nwindow = 'space'", "keys.window: Space is the key of freeze too (give freeze another one)"),
        ("[keys]\nmark = 'z, /'", "keys.mark: / is the key of filter too (give filter another one)"),
        ("[keys", "cannot be read: "),
        ("\udcff", "cannot be read: "),
    ],
)
def test_a_mistake_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    assert wrong(tmp_path, text).startswith(told)


def test_two_actions_may_change_places(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[keys]\nmark = 'x'\nreset = 'm'\n")
    assert load_config(tmp_path).keys == {"mark": "x", "reset": "m"}


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path)


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(IDS), st.text(max_size=8) | st.sampled_from(list(key_names())))
def test_any_text_is_a_key_or_a_mistake(tmp_path_factory: pytest.TempPathFactory, binding_id: str, text: str) -> None:
    folder = tmp_path_factory.mktemp("config")
    quoted = "".join(f"\\U{ord(character):08x}" for character in text)
    (folder / "config.toml").write_text(f'[keys]\n{binding_id} = "{quoted}"\n', encoding="utf-8")
    try:
        keys = load_config(folder).keys
    except InputError:
        return
    assert all(parse_key(part.strip()) for part in text.split(","))
    assert set(keys) == {binding_id}


def test_the_command_line_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "edgetop").mkdir()
    (tmp_path / "edgetop" / "config.toml").write_text(WHOLE)
    own, asked = screen_settings(None, None, None), screen_settings(2 * 10**9, "dark", ascii_only=False)
    assert (own.refresh_s, own.theme, own.ascii_only, own.window_ns) == (0.5, "light", True, None)
    assert (asked.refresh_s, asked.theme, asked.ascii_only) == (2.0, "dark", False)
    assert asked.keys["freeze"] == "f"


def test_every_id_stands_in_the_help() -> None:
    text = (Path(__file__).parents[2] / "edgetop" / "docs" / "keys.md").read_text()
    assert [binding_id for binding_id in IDS if f"`{binding_id}`" not in text] == []
