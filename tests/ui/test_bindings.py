"""The keys as data: no two things on one key, and other keys by id."""

from edgetop.feeds.protocol import Can
from edgetop.ui.bindings import BINDINGS, IDS, action_of, applies, conflict, remapped
from edgetop.ui.keys import key_lines, key_words


def named(binding_id: str) -> object:
    return next(binding for binding in BINDINGS if binding.id == binding_id)


def test_every_key_has_an_id_of_its_own() -> None:
    assert len(set(IDS)) == len(BINDINGS)


def test_no_key_does_two_things_at_once() -> None:
    assert conflict(BINDINGS) is None


def test_a_key_may_do_another_thing_in_a_replay() -> None:
    assert applies("freeze", Can.STOP)
    assert not applies("freeze", Can.SEEK | Can.SPEED)
    assert applies("play", Can.SEEK | Can.SPEED)
    assert conflict(remapped(BINDINGS, {"play": "f", "freeze": "f"})) is None


def test_a_key_given_twice_is_found() -> None:
    assert conflict(remapped(BINDINGS, {"freeze": "w"})) == ("w", "freeze", "window")
    assert conflict(remapped(BINDINGS, {"theme": "f5", "mark": "f5"})) == ("f5", "mark", "theme")
    assert conflict(remapped(BINDINGS, {"freeze": "w", "window": "space"})) == ("space", "play", "window")
    assert conflict(remapped(BINDINGS, {"freeze": "w", "window": "f"})) is None


def test_other_keys_leave_the_action_as_it_is() -> None:
    binding = next(b for b in remapped(BINDINGS, {"freeze": "f,ctrl+f"}) if b.id == "freeze")
    assert (binding.key, action_of(binding)) == ("f,ctrl+f", "freeze")
    assert key_words(binding) == ["f", "Ctrl+F"]


def test_keys_are_called_as_on_a_keyboard() -> None:
    words = dict(key_lines(BINDINGS))
    assert {"Ctrl+P", "s o", "- + ="} <= {*words}
    assert "PgDn PgUp" in words
    assert words["Tab Shift+Tab"] == "next pane, previous pane"
    assert words["? F1"] == "help"
