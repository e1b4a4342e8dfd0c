"""Keys in words, for the help and the last line, made from the bindings themselves; and from words."""

import string
from collections.abc import Iterable, Sequence

from textual.binding import Binding
from textual.keys import Keys, _character_to_key

_SHOWN = {
    "question_mark": "?",
    "slash": "/",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
}


def key_lines(bindings: Iterable[Binding]) -> list[tuple[str, str]]:
    """What is pressed, and what it does. Neighbours that do the same kind of thing share a line."""
    lines: dict[str, list[str]] = {}
    for binding in bindings:
        lines.setdefault(binding.description, []).extend(key_words(binding))
    return [(" ".join(names), does) for does, names in lines.items()]


def key_words(binding: Binding) -> list[str]:
    """The name of each of its keys, as it stands on a keyboard."""
    return [key_word(key) for key in binding.key.split(",")]


def key_word(key: str) -> str:
    *held, last = key.split("+") if len(key) > 1 else [key]
    named = _SHOWN.get(last, last if len(last) == 1 else last.capitalize())
    return "+".join([*(part.capitalize() for part in held), named.upper() if held and len(named) == 1 else named])


def key_names() -> Sequence[str]:
    """Of keys that are no letters and no digits, as bindings call them."""
    punctuation = [_character_to_key(character) for character in string.punctuation]
    return [*(key.value for key in Keys if not key.value.startswith("<")), *punctuation]


def parse_key(text: str) -> str | None:
    """`f`, `?`, `F5`, `ctrl+p`, as bindings call it; None: there is no such key."""
    if len(text) == 1 and text.isprintable() and text != " ":
        return text if text.isalnum() else _character_to_key(text)
    return text.lower() if text.lower() in key_names() else None
