"""The file of settings: what it may say, and that every mistake in it is told in one line that says where."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.cli.config import MAX_BYTES, Config, load_config, screen_settings
from edgetop.cli.screen_options import ScreenChoices
from edgetop.errors import InputError
from edgetop.ui.key_commands import IDS
from edgetop.ui.keys import key_names, parse_key
from tests.support import onnx_models
from tests.support.commands import edgetop

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
    (folder / "edgetop.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as caught:
        load_config(folder)
    words = str(caught.value)
    assert words.startswith(f"{folder / 'edgetop.toml'}: ")
    assert "\n" not in words
    return words.removeprefix(f"{folder / 'edgetop.toml'}: ")


def test_without_a_file_nothing_is_set(tmp_path: Path) -> None:
    assert load_config(tmp_path / "nowhere") == Config()


def test_a_file_may_say_all_that_can_be_set(tmp_path: Path) -> None:
    (tmp_path / "edgetop.toml").write_text(WHOLE)
    config = load_config(tmp_path)
    assert (config.theme, config.refresh_ns, config.window, config.ascii_only) == ("light", 5 * 10**8, "all", True)
    assert config.keys == {"freeze": "f", "mark": "f5,ctrl+n", "filter": "question_mark", "help": "f1"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("them = 'dark'", "unknown setting them (did you mean theme?)"),
        ("theme = 'drak'", "theme: unknown: drak (did you mean dark?)"),
        ("theme = 1", "theme: is not a string (edgetop help keys)"),
        ("refresh = 'often'", "refresh: 'often' is not a duration; write 500ms, 10s, 5m or 2h (edgetop help keys)"),
        ("refresh = 1", "refresh: is not a string (edgetop help keys)"),
        ("window = '5m'", "window: '5m' is none of 10s, 1m, 10m, all (edgetop help keys)"),
        ("ascii = 'yes'", "ascii: is neither true nor false (edgetop help keys)"),
        ("keys = 'vi'", "keys: is not a table (edgetop help keys)"),
        ("[keys]\nfreze = 'f'", "keys: unknown id freze (did you mean freeze?)"),
        ("[keys]\nfreeze = 'spce'", "keys.freeze: unknown key 'spce' (did you mean space?)"),
        ("[keys]\nfreeze = 'ctrl+shift+alt'", "keys.freeze: unknown key 'ctrl+shift+alt' ("),
        ("[keys]\nfreeze = ''", "keys.freeze: unknown key '' (known: "),
        ("[keys]\nfreeze = 7", "keys.freeze: is not a string"),
        ("[keys]\nfreeze = 'Ctrl+C'", "keys.freeze: Ctrl+C is reserved: it always ends the program"),
        ("[keys]\nfreeze = 'w'", "keys.freeze: w is also the key of window (give window another key)"),
        ("[keys]\nwindow = 'space'", "keys.window: Space is also the key of freeze (give freeze another key)"),
        ("[keys]\nmark = 'z, /'", "keys.mark: z is also the key of closer (give closer another key)"),
        ("[keys", "cannot be read: "),
        ("\udcff", "cannot be read: "),
    ],
)
def test_a_mistake_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    assert wrong(tmp_path, text).startswith(told)


def test_two_actions_may_change_places(tmp_path: Path) -> None:
    (tmp_path / "edgetop.toml").write_text("[keys]\nmark = 'x'\nreset = 'm'\n")
    assert load_config(tmp_path).keys == {"mark": "x", "reset": "m"}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["folder", "pipe", "endless", "long", "nested", "dangling", "binary"])
def test_what_is_no_file_of_settings_is_told_in_one_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "edgetop.toml"
    made: dict[str, Callable[[], object]] = {
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "endless": lambda: path.symlink_to("/dev/zero"),
        "long": lambda: path.write_text("#" * (MAX_BYTES + 1)),
        "nested": lambda: path.write_text("keys = " + "[" * 5_000 + "]" * 5_000),
        "dangling": lambda: path.symlink_to("nowhere"),
        "binary": lambda: path.write_bytes(b"\xff\xfe\x00"),
    }
    told = {
        "pipe": "cannot be read: not a regular file",
        "endless": "cannot be read: not a regular file",
        "long": "cannot be read: larger than",
        "nested": "cannot be read: nested too deep",
    }
    made[kind]()
    for for_screen in (True, False):
        with pytest.raises(InputError) as caught:
            load_config(tmp_path, for_screen=for_screen)
        assert str(caught.value).startswith(f"{path}: {told.get(kind, 'cannot be read: ')}")
        assert "\n" not in str(caught.value)


def test_links_are_followed_and_the_old_name_is_a_fallback(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text("refresh = '2s'")
    (tmp_path / "config.toml").symlink_to(tmp_path / "dotfiles")
    assert load_config(tmp_path).refresh_ns == 2 * 10**9
    (tmp_path / "edgetop.toml").write_text("ascii = true")
    assert load_config(tmp_path) == Config(ascii_only=True)


def test_a_file_that_is_named_says_its_part_over_the_other(tmp_path: Path) -> None:
    (tmp_path / "edgetop.toml").write_text("refresh = '2s'\nascii = true\n")
    (tmp_path / "lab.toml").write_text("refresh = '5s'\nwindow = '1m'\n")
    found = load_config(tmp_path, tmp_path / "lab.toml")
    assert (found.refresh_ns, found.ascii_only, found.window) == (5 * 10**9, True, "1m")
    (tmp_path / "edgetop.toml").write_text("[keys]\nfreeze = 'f'\nmark = 'F5'\n")
    (tmp_path / "lab.toml").write_text("[keys]\nmark = 'F6'\n")
    assert load_config(tmp_path, tmp_path / "lab.toml").keys == {"freeze": "f", "mark": "f6"}
    (tmp_path / "lab.toml").write_text("[keys]\ntheme = 'f'\n")
    with pytest.raises(InputError, match=r"lab.toml: keys.theme: f is also the key of freeze"):
        load_config(tmp_path, tmp_path / "lab.toml")
    with pytest.raises(InputError, match=r"gone.toml: cannot be read: No such file"):
        load_config(tmp_path, tmp_path / "gone.toml")


RUN = ("run", "model.onnx", "--headless", "--live", "--runs", "3", "--profile-every", "0", "--no-record")


@pytest.mark.slow
def test_lines_use_the_file_and_are_refused_where_it_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_tiny())
    (tmp_path / "config/edgetop").mkdir(parents=True)
    settings = tmp_path / "config/edgetop/edgetop.toml"
    settings.write_text("refresh = 'often'")
    done = edgetop(*RUN, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "refresh: 'often' is not a duration" in done.stderr
    settings.write_text("refresh = '1h'\n")
    done = edgetop(*RUN, home=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 2)  # one at the beginning, one at the end
    (tmp_path / "lab.toml").write_text("ascii = 1")
    done = edgetop(*RUN, "--config", "lab.toml", home=tmp_path)
    assert (done.returncode, done.stderr) == (
        2, "edgetop: lab.toml: ascii: is neither true nor false (edgetop help keys)\n"
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.sampled_from(IDS), st.text(max_size=8) | st.sampled_from(list(key_names())))
def test_any_text_is_a_key_or_a_mistake(tmp_path_factory: pytest.TempPathFactory, binding_id: str, text: str) -> None:
    folder = tmp_path_factory.mktemp("config")
    quoted = "".join(f"\\U{ord(character):08x}" for character in text)
    (folder / "edgetop.toml").write_text(f'[keys]\n{binding_id} = "{quoted}"\n', encoding="utf-8")
    try:
        keys = load_config(folder).keys
    except InputError:
        return
    assert all(parse_key(part.strip()) for part in text.split(","))
    assert set(keys) == {binding_id}


def test_the_command_line_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "edgetop").mkdir()
    (tmp_path / "edgetop" / "edgetop.toml").write_text(WHOLE)
    own = screen_settings(ScreenChoices())
    asked = screen_settings(ScreenChoices(refresh_ns=2 * 10**9, theme="dark", ascii_only=False))
    assert (own.refresh_s, own.theme, own.ascii_only, own.window_ns) == (0.5, "light", True, None)
    assert (asked.refresh_s, asked.theme, asked.ascii_only) == (2.0, "dark", False)
    assert asked.keys["freeze"] == "f"


def test_every_id_stands_in_the_help() -> None:
    text = (Path(__file__).parents[2] / "edgetop" / "docs" / "keys.md").read_text()
    assert [binding_id for binding_id in IDS if f"`{binding_id}`" not in text] == []
