"""Integers as the kernel prints them: ASCII digits, at most 64 bits.

`int` alone takes more than that: `1_0`, digits of other scripts, and a thousand digits,
which no float can hold.
"""

import re

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


def parse_int(text: str) -> int:
    """Raises ValueError where the text is anything else.

    >>> parse_int("-274000")
    -274000
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"not a number: {text[:40]!r}")
    return int(text)
