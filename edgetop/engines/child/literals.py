"""Input data that is given as numbers in place of a file: `--input sr=16000`, `--input scales=0.667,1,0.8`.

Nothing heavy is imported here, because edgetop's main process imports this too.
"""

from __future__ import annotations

import re
from typing import List, Mapping, Sequence, Union

Number = Union[bool, int, float]

_RANDOM = re.compile(r"random(?::([1-9]\d{0,4}))?")
_TEXT = re.compile(r"text:([1-9]\d{0,5})")
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?"
_VALUE = r"(?:true|false|%s)" % _NUMBER
_LITERAL = re.compile(r"\s*%s\s*(?:,\s*%s\s*)*" % (_VALUE, _VALUE))
MOST_CHARACTERS = 100_000


def random_count(source: str) -> int:
    """Return how many random arrays `source` asks for, or 0 if the source is not random. The arrays are used in turn.

    >>> [random_count(source) for source in ("random", "random:16", "random:0", "zeros")]
    [1, 16, 0, 0]
    """
    found = _RANDOM.fullmatch(source)
    return int(found[1] or 1) if found else 0


def text_length(source: str) -> int:
    """Return the number of characters of each random text that `source` asks for, or 0 if it asks for none.

    >>> [text_length(source) for source in ("text:32", "text:0", "random")]
    [32, 0, 0]
    """
    found = _TEXT.fullmatch(source)
    return int(found[1]) if found else 0


def is_made_up(source: str) -> bool:
    """Whether a source asks for random arrays, random texts or zeros, so that no file is needed.

    >>> [is_made_up(source) for source in ("random:16", "text:8", "zeros", "x.npy")]
    [True, True, True, False]
    """
    return source == "zeros" or random_count(source) > 0 or text_length(source) > 0


def is_literal(source: str) -> bool:
    """Whether a source is a list of numbers, `true` and `false`, with commas between them.

    A file whose name looks like numbers must be given as `./NAME`.

    >>> [is_literal(source) for source in ("0.5, 2,true", "./123", "random")]
    [True, False, False]
    """
    return len(source) <= MOST_CHARACTERS and _LITERAL.fullmatch(source) is not None


def values_of(source: str) -> List[Number]:
    """Return the values in a list such as "0.5, 2,true".

    >>> values_of("0.5, 2,true")
    [0.5, 2, True]
    """
    return [_value(part.strip()) for part in source.split(",")]


def _value(text: str) -> Number:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def source_for(name: str, sources: Mapping[str, str]) -> str:
    """Return the source of the input `name`: its own, or the one for all inputs (under ""), or "random".

    >>> source_for("sr", {"": "zeros", "sr": "16000"})
    '16000'
    """
    return sources.get(name, sources.get("", "random"))


def input_words(sources: Mapping[str, str], names: Sequence[str] = ()) -> str:
    """Return the sources of a run as one text, such as "random, sr=16000".

    `sources` is by input name; "" is for all inputs. `names` are the model's inputs, or () if they are not known yet.

    >>> input_words({"": "random", "sr": "16000"}, ["input", "sr"])
    'random, sr=16000'
    """
    found = {name: source_for(name, sources) for name in names} if names else dict(sources)
    words = {"%s=%s" % (name, source) if name and is_literal(source) else source for name, source in found.items()}
    return ", ".join(sorted(words))
