"""Commands of a screen: when they can be used, and how their keys are written and parsed."""

import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from textual.binding import Binding, BindingsMap
from textual.events import Key
from textual.keys import KEY_NAME_REPLACEMENTS, Keys
from textual.screen import Screen

from edgetop.feeds.feed_protocol import Can
from edgetop.frozen import frozen

ScreenT = TypeVar("ScreenT")
ScreenT_contra = TypeVar("ScreenT_contra", contravariant=True)


@frozen
class Command(Generic[ScreenT_contra]):
    """A command of a screen: its keys, what it does, and its words in the last line, the help and the palette."""

    id: str  # name in the settings, where a user can give it other keys
    keys: str  # names of keys in Textual, separated by commas
    words: str  # description
    run: Callable[[ScreenT_contra], object]
    help: str = ""  # line of the help that neighbouring commands share; "" uses `words`
    footer: str | Callable[[ScreenT_contra], str] = ""  # words in the last line, shared by a group; "" hides it there
    needs: Can = Can.NOTHING  # abilities that the feed must have
    replaced_with: Can = Can.NOTHING  # hidden if the feed has any of these abilities; another command replaces it
    asks: str = ""  # what a second press of the key does, shown after the first; "" runs the command at once
    is_fixed: bool = False  # whether settings cannot change its keys

    def applies(self, can: Can) -> bool:
        """Whether the command can be used. `can` has the abilities of the data source, such as seeking in a replay."""
        return self.needs in can and not self.replaced_with & can

    @property
    def key_words(self) -> list[str]:
        """Return the names of the command's keys as on a keyboard, such as `["PgDn", "?"]`."""
        return [key_word(key) for key in self.keys.split(",")]

    def footer_words(self, screen: ScreenT_contra) -> str:
        return self.footer if isinstance(self.footer, str) else self.footer(screen)


AnyCommand = Command[NoReturn]  # a command of any screen, which can be described but not run


class Entry(NamedTuple):
    """An entry of a list that the user can search, such as the command palette."""

    words: str  # description
    keys: str  # keys that do the same; "" for none
    run: Callable[[], object]


# The abilities of each kind of feed, to find which commands can be present together.
FEEDS = (Can.NOTHING, Can.ORDERS, Can.ORDERS | Can.DETACH, Can.ORDERS | Can.VISIT, Can.SEEK | Can.SPEED)


def key_of(character: str) -> str:
    """Return Textual's name of the key that types this character.

    >>> key_of("?"), key_of("a")
    ('question_mark', 'a')
    """
    name = character if character.isalnum() else unicodedata.name(character, character).lower()
    name = name.replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


_NAMES = {key_of(character): character for character in "?!/,.<>+-=[]{}"}
_NAMES |= {"pagedown": "PgDn", "pageup": "PgUp"}


def bindings(commands: Iterable[AnyCommand]) -> BindingsMap:
    """Return a map from the keys of `commands` to the commands, as `follow_key` needs it."""
    return BindingsMap([Binding(of.keys, f"command({of.id!r})", of.words, id=of.id) for of in commands])


async def follow_key(event: Key, screen: Screen[Any], keys: BindingsMap) -> None:
    """Run the command that `keys` has for the pressed key. Do nothing if there is none.

    Textual's own bindings belong to a class, but these keys depend on the user's settings.
    """
    for binding in keys.key_to_bindings.get(event.key, ()):
        if await screen.app.run_action(binding.action, screen):
            event.stop()
            return


def remapped(commands: Iterable[Command[ScreenT]], keys: Mapping[str, str]) -> tuple[Command[ScreenT], ...]:
    """Return the commands with the user's keys.

    `keys` has the new keys by the id of the command, such as `{"mark": "b"}`. Other commands keep their keys.
    """
    return tuple(replace(command, keys=keys.get(command.id, command.keys)) for command in commands)


def conflict(commands: Sequence[AnyCommand]) -> tuple[str, str, str] | None:
    """Return a key that two commands share, as (key, first id, second id), or None if there is none.

    Commands that are never on the same screen may share a key, such as those of a live run and of a replay.
    """
    for can in FEEDS:
        holders: dict[str, str] = {}
        for command in commands:
            for key in command.keys.split(",") if command.applies(can) else ():
                holder = holders.setdefault(key, command.id)
                if holder != command.id:
                    return key, holder, command.id
    return None


def help_lines(commands: Iterable[AnyCommand]) -> list[tuple[str, str]]:
    """Return (keys, description) pairs for the help, such as `("s o", "sort")`.

    Commands with the same `help` text share a pair.
    """
    lines: dict[str, list[str]] = {}
    for command in commands:
        lines.setdefault(command.help or command.words, []).extend(command.key_words)
    return [(" ".join(names), words) for words, names in lines.items()]


@frozen
class FooterEntry(Generic[ScreenT_contra]):
    """An entry of the last line of the screen: one command, or several that share their words, such as `zZ zoom`."""

    keys: str  # the first key of each command; of more than two commands the first and the last, such as `1-8`
    words: str
    commands: tuple[Command[ScreenT_contra], ...]


class FooterGroup(NamedTuple):
    """Commands that share an entry of the last line of the screen, with their keys as the entry shows them."""

    keys: str
    commands: tuple[Command[Any], ...]


def footer_groups(commands: Iterable[Command[Any]]) -> list[FooterGroup]:
    """Return the commands of each possible entry of the last line of the screen.

    Commands share an entry if their `footer` is the same object. Words that are equal by chance, such as the span of
    the timelines and the window of the percentiles, are entries of their own.
    """
    grouped: dict[str | Callable[[Any], str], list[Command[Any]]] = {}
    for command in commands:
        if command.footer:
            grouped.setdefault(command.footer, []).append(command)
    groups = []
    for each in grouped.values():
        keys = [footer_key(command) for command in each]
        groups.append(FooterGroup(f"{keys[0]}-{keys[-1]}" if len(keys) > 2 else "".join(keys), tuple(each)))
    return groups


def footer_entries(groups: Iterable[FooterGroup], screen: Any) -> list[FooterEntry[Any]]:
    """Return the entries of the last line of the screen now. A group without words now has no entry."""
    worded = ((group, group.commands[0].footer_words(screen)) for group in groups)
    return [FooterEntry(group.keys, words, group.commands) for group, words in worded if words]


def footer_keys(commands: Iterable[Command[ScreenT]], screen: ScreenT) -> list[tuple[str, str]]:
    """Return (key, words) pairs for the last line of the screen, such as `("q", "leave")` or `("zZ", "zoom")`."""
    return [(entry.keys, entry.words) for entry in footer_entries(footer_groups(commands), screen)]


def footer_key(command: Command[Any]) -> str:
    """Return the first key of a command as the last line of the screen shows it, such as `z` or `f5`."""
    key = key_word(command.keys.partition(",")[0])
    return key if len(key) == 1 or "+" in key else key.lower()


@cache  # used at every refresh of the last line
def key_word(key: str) -> str:
    *held, last = key.split("+") if len(key) > 1 else [key]
    name = _NAMES.get(last, last if len(last) == 1 else last.capitalize())
    return "+".join([*(part.capitalize() for part in held), name.upper() if held and len(name) == 1 else name])


def key_names() -> Sequence[str]:
    """Return Textual's names of all keys that are neither letters nor digits, such as `pageup`."""
    punctuation = [key_of(character) for character in string.punctuation]
    return [*(key.value for key in Keys if not key.value.startswith("<")), *punctuation]


def parse_key(text: str) -> str | None:
    """Return Textual's name of a key that a user wrote, or None if there is no such key.

    >>> parse_key("f"), parse_key("?"), parse_key("F5"), parse_key("hello")
    ('f', 'question_mark', 'f5', None)
    """
    if len(text) == 1 and text.isprintable() and text != " ":
        return text if text.isalnum() else key_of(text)
    return text.lower() if text.lower() in key_names() else None
