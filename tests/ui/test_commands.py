"""The keys as data: no two things on one key, and other keys by id."""

import string

import pytest
from textual.binding import Binding

from edgetop.feeds.feed_protocol import Can
from edgetop.ui.key_commands import COMMANDS, IDS
from edgetop.ui.keys import FEEDS, Command, conflict, footer_keys, help_lines, key_of, remapped


def named(command_id: str) -> Command:
    return next(command for command in COMMANDS if command.id == command_id)


def test_every_command_has_an_id_of_its_own() -> None:
    assert len({command.id for command in COMMANDS}) == len(COMMANDS)
    assert set(IDS) == {command.id for command in COMMANDS} - {"interrupt", "interrupt-other"}


def test_no_key_does_two_things_at_once() -> None:
    assert conflict(COMMANDS) is None


def test_ctrl_c_ends_every_feed() -> None:
    for can in FEEDS:
        assert len([command for command in COMMANDS if command.is_fixed and command.applies(can)]) == 1


def test_a_key_may_do_another_thing_in_a_replay() -> None:
    assert named("freeze").applies(Can.STOP)
    assert not named("freeze").applies(Can.SEEK | Can.SPEED)
    assert named("play").applies(Can.SEEK | Can.SPEED)
    assert conflict(remapped(COMMANDS, {"play": "f", "freeze": "f"})) is None


def test_a_key_given_twice_is_found() -> None:
    assert conflict(remapped(COMMANDS, {"freeze": "w"})) == ("w", "freeze", "window")
    assert conflict(remapped(COMMANDS, {"theme": "f5", "mark": "f5"})) == ("f5", "mark", "theme")
    assert conflict(remapped(COMMANDS, {"freeze": "w", "window": "space"})) == ("space", "play", "window")
    assert conflict(remapped(COMMANDS, {"freeze": "w", "window": "f"})) is None


def test_other_keys_leave_the_command_as_it_is() -> None:
    command = next(c for c in remapped(COMMANDS, {"freeze": "f,ctrl+f"}) if c.id == "freeze")
    assert (command.keys, command.run) == ("f,ctrl+f", named("freeze").run)
    assert command.key_words == ["f", "Ctrl+F"]


def test_keys_are_called_as_on_a_keyboard() -> None:
    words = dict(help_lines(COMMANDS))
    assert {"Ctrl+P", "s o", "+ = -"} <= {*words}
    assert "PgDn PgUp" in words
    assert words["Tab Shift+Tab"] == "next pane, previous pane"
    assert words["? F1"] == "help"


def test_the_last_line_has_first_keys_joined_where_words_agree() -> None:
    names = ("help", "palette", "slower", "faster", "zoom-latency", "zoom-heat", "zoom-power", "redraw")
    keys = footer_keys([named(name) for name in names], None)
    assert keys == [("?", "help"), ("Ctrl+P", "commands"), ("<>", "speed"), ("1-3", "panes")]


@pytest.mark.parametrize("character", sorted({*string.punctuation} - {","}))
def test_a_character_has_the_key_name_that_textual_gives_it(character: str) -> None:
    (binding,) = Binding.make_bindings([Binding(character, "")])
    assert key_of(character) == binding.key
