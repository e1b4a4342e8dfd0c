"""The text of a file, with a mark on each line that a parser has understood.

The lines without a mark can be counted and shown.
"""

import bisect
import re
from collections.abc import Iterator

from edgetop.captured_text import LeftOut


class Page:
    """The text of one file, with a mark on each line that a parser has understood, and notes for the user."""

    def __init__(self, text: str, removed: tuple[str, ...] = ()) -> None:
        """Hold the text of a file, with no line marked yet.

        `removed` names the programs whose prefixes were removed from the lines, such as `journalctl`.
        """
        self.text = text
        self.notes: list[str] = []  # what the user should know about these figures
        if removed:
            self.notes.append(f"what {' and '.join(removed)} put before each line was removed")
        self._begins = [0, *(match.end() for match in re.finditer("\n", text))]
        self._is_known = bytearray(len(self._begins))

    def know(self, begin: int, end: int) -> None:
        """Mark as understood each line that has a character from `begin` up to, but not including, `end`.

        Both are positions in the text, from 0.
        """
        first = bisect.bisect_right(self._begins, begin) - 1
        last = bisect.bisect_left(self._begins, max(end, begin + 1)) - 1
        self._is_known[first : last + 1] = b"\1" * (last + 1 - first)

    def found(self, pattern: "re.Pattern[str]", begin: int = 0) -> Iterator["re.Match[str]"]:
        """Yield the matches of a pattern from position `begin` of the text on. Their lines are marked as understood."""
        for match in pattern.finditer(self.text, begin):
            self.know(*match.span())
            yield match

    def first(self, pattern: "re.Pattern[str]") -> "re.Match[str] | None":
        return next(self.found(pattern), None)

    def left_out(self) -> LeftOut | None:
        """Return the number of lines that no parser has understood, with the first of them, or None if there are none.

        Blank lines and lines that only separate parts, such as `-----`, do not count.
        """
        count, written, first = 0, 0, ""
        for is_known, line in zip(self._is_known, self.text.split("\n"), strict=True):
            if not line.strip(" \t\r=-*_"):
                continue
            written += 1
            if not is_known:
                first = first or line
                count += 1
        return LeftOut(count, written, "lines", "not understood", first) if count else None
