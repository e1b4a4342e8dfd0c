"""The commands of the monitor screen: when each applies, and how their keys are written and parsed."""

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
    """A command of a screen: its keys, its settings, and its words in the footer, the help and the palette."""

    id: str  # by which a user's settings give it other keys
    keys: str  # in Textual's names, separated by commas
    words: str  # what it does
    run: Callable[[ScreenT_contra], object]
    help: str = ""  # the line of the help that it shares with its neighbours; "": its words
    footer: str | Callable[[ScreenT_contra], str] = ""  # its words in the last line, which may group it; "": not there
    needs: Can = Can.NOTHING  # of the feed
    replaced_with: Can = Can.NOTHING  # with a feed that can do any of this, another command has its place
    asks: str = ""  # what its key does when it is pressed again, and only then; "": at once
    is_fixed: bool = False  # no settings give it other keys

    def applies(self, can: Can) -> bool:
        """Whether it makes sense with a feed that can do this."""
        return self.needs in can and not self.replaced_with & can

    @property
    def key_words(self) -> list[str]:
        """The name of each of its keys, as it stands on a keyboard."""
        return [key_word(key) for key in self.keys.split(",")]

    def footer_words(self, screen: ScreenT_contra) -> str:
        return self.footer if isinstance(self.footer, str) else self.footer(screen)


AnyCommand = Command[NoReturn]  # a command of whatever screen: it can be described, but not run


class Entry(NamedTuple):
    """An entry of a list that is searched, such as the palette."""

    words: str  # what it does
    keys: str  # that do the same; "": none
    run: Callable[[], object]


# What every kind of feed can do: for which keys can be present together.
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
    """Return the keys of these commands, for `follow_key`."""
    return BindingsMap([Binding(of.keys, f"command({of.id!r})", of.words, id=of.id) for of in commands])


async def follow_key(event: Key, screen: Screen[Any], keys: BindingsMap) -> None:
    """Do what the key is bound to. Textual itself knows the bindings of a class alone, and ours are the user's."""
    for binding in keys.key_to_bindings.get(event.key, ()):
        if await screen.app.run_action(binding.action, screen):
            event.stop()
            return


def remapped(commands: Iterable[Command[ScreenT]], keys: Mapping[str, str]) -> tuple[Command[ScreenT], ...]:
    """The same with other keys, by id."""
    return tuple(replace(command, keys=keys.get(command.id, command.keys)) for command in commands)


def conflict(commands: Sequence[AnyCommand]) -> tuple[str, str, str] | None:
    """A key that would do two things, and the ids of these; None: there is none."""
    for can in FEEDS:
        holders: dict[str, str] = {}
        for command in commands:
            for key in command.keys.split(",") if command.applies(can) else ():
                holder = holders.setdefault(key, command.id)
                if holder != command.id:
                    return key, holder, command.id
    return None


def help_lines(commands: Iterable[AnyCommand]) -> list[tuple[str, str]]:
    """Keys, and what they do. Neighbours that do the same kind of thing share a line."""
    lines: dict[str, list[str]] = {}
    for command in commands:
        lines.setdefault(command.help or command.words, []).extend(command.key_words)
    return [(" ".join(names), words) for words, names in lines.items()]


def footer_keys(commands: Iterable[Command[ScreenT]], screen: ScreenT) -> list[tuple[str, str]]:
    """The first key of each command of the last line, and its words; those with the same words stand together."""
    grouped: dict[str, list[str]] = {}
    for command in commands:
        if command.footer and (words := command.footer_words(screen)):
            key = key_word(command.keys.partition(",")[0])
            grouped.setdefault(words, []).append(key if len(key) == 1 or "+" in key else key.lower())
    return [(f"{keys[0]}-{keys[-1]}" if len(keys) > 2 else "".join(keys), words) for words, keys in grouped.items()]


@cache  # the last line names them at every refresh
def key_word(key: str) -> str:
    *held, last = key.split("+") if len(key) > 1 else [key]
    name = _NAMES.get(last, last if len(last) == 1 else last.capitalize())
    return "+".join([*(part.capitalize() for part in held), name.upper() if held and len(name) == 1 else name])


def key_names() -> Sequence[str]:
    """The names in bindings of keys that are no letters and no digits."""
    punctuation = [key_of(character) for character in string.punctuation]
    return [*(key.value for key in Keys if not key.value.startswith("<")), *punctuation]


def parse_key(text: str) -> str | None:
    """`f`, `?`, `F5`, `ctrl+p` in the names of bindings; None: there is no such key."""
    if len(text) == 1 and text.isprintable() and text != " ":
        return text if text.isalnum() else key_of(text)
    return text.lower() if text.lower() in key_names() else None
