"""Make plain lines of text from files that other programs wrote.

Encodings, colours, prefixes of lines and separators of tables are handled here, so that readers of logs and tables need
not know about them. Sources of the prefixes: `ts` of moreutils; journalctl, "Output options", -o; docker, "docker
compose logs" and "docker logs --timestamps"; Android's logcat, "-v" (brief, tag, time, threadtime).
"""

import codecs
import csv
import io
import math
import re
from collections.abc import Iterator

from edgetop.frozen import frozen

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),  # `>` of PowerShell 5
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 256  # number of bytes that show the encoding of a file without a mark

# ECMA-48: control sequences (colours, cursor movements), operating system commands (titles, links), two-byte escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

_DAY = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ 0-3][0-9]"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_ISO = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}(?: ?(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}}))?"
_UNIT = r"[\w.-]{1,64} [\w.@\\:/-]{1,64}(?:\[[0-9]{1,10}\])?: "  # host and program of the journal
_LEVEL = r"[VDIWEFS]"
_PREFIXES = {
    "journalctl": re.compile(rf"(?:{_DAY} {_CLOCK}|{_ISO}|\[ *[0-9]+\.[0-9]{{6}}\]) {_UNIT}"),
    "docker compose": re.compile(r"[\w.-]{1,64} *\| ?"),
    "logcat": re.compile(
        rf"(?:[0-9]{{4}}-)?[0-9]{{2}}-[0-9]{{2}} {_CLOCK} (?:[+-][0-9]{{4}} )?(?:"
        rf" *(?:\S{{1,32}} +)?[0-9]{{1,10}} +[0-9]{{1,10}} {_LEVEL} [^:\n]{{0,64}}: "
        rf"|{_LEVEL}/[^(\n]{{0,64}}\( *[0-9]{{1,10}}\): )"
        rf"|{_LEVEL}/[^(:\n]{{0,64}}(?:\( *[0-9]{{1,10}}\))? ?: "
    ),
    "ts": re.compile(rf"(?:{_DAY} {_CLOCK}|{_ISO}|{_CLOCK}|[0-9]{{10}}\.[0-9]{{1,9}}) "),
}
# How lines of the known tools begin. What stands before such a beginning is a prefix of some other program.
_BEGINNINGS = re.compile(
    r"(?:[0-9]{2}-[0-9]{2}-[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} )?RAM [0-9]{1,9}/[0-9]{1,9}[kMG]?B\b"
    r"|STARTING!|count=[0-9]+ (?:first|curr)=|Running benchmark for at least |(?:I|Average i)nference timings in us:"
    r"|&&&& \w+ TensorRT|(?:\[[0-9]{2}/[0-9]{2}/[0-9]{4}-[0-9:]{8}\] )?\[[VIWEF]\] |=== [A-Z]"
    r"|Session creation time cost|Total inference |Average inference time cost|Number of inferences per second"
    r"|\tCommand being timed: |Linux [0-9][\w.-]* \(|\{\""
)
_MOST_PREFIX = 200  # number of characters of an unknown prefix
_TOKEN = re.compile(r"[0-9]+|[A-Za-z]+|\s+|.", re.DOTALL)
# Words of a prefix that differ from line to line: levels, months and days.
_CHANGING = re.compile(
    r"[VDIWEFTS]|trace|debug|info|notice|warn|warning|err|error|critical|fatal|verbose"
    r"|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|stdout|stderr",
    re.IGNORECASE,
)
_DEEPEST = 3  # prefixes of several programs may stand before one another, such as those of compose and of a time
_LOOKED_AT = 64 * 1024  # number of characters that show which prefixes a text has
_SHARE = 0.8  # the part of a text's lines that has a prefix, if there is one; a log may begin with lines of its program


def encoding_of(data: bytes) -> tuple[str, int]:
    r"""Return `(encoding, length of the byte order mark in bytes)` of a file. `data` are the file's first bytes.

    >>> encoding_of(b"\xff\xfeR\0A\0M\0"), encoding_of(b"R\0A\0M\0 \0"), encoding_of(b"RAM ")
    (('utf-16-le', 2), ('utf-16-le', 0), ('utf-8', 0))
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name, len(mark)
    sample = data[:_SAMPLE]
    half = len(sample) // 2
    if half > 1 and 0 not in sample[: 2 * half : 2] and sample[1 : 2 * half : 2].count(0) > half * _SHARE:
        return "utf-16-le", 0
    if half > 1 and 0 not in sample[1 : 2 * half : 2] and sample[: 2 * half : 2].count(0) > half * _SHARE:
        return "utf-16-be", 0
    return "utf-8", 0


def decode(data: bytes) -> str:
    r"""Return a file's text, with `\n` as the end of each line. `data` is the content of the file.

    The encoding is detected. Bytes that are invalid in UTF-8 become surrogates, as with `surrogateescape`.
    """
    name, skipped = encoding_of(data)
    text = data[skipped:].decode(name, "surrogateescape" if name == "utf-8" else "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def whole_lines(data: bytes, encoding: str) -> Iterator[tuple[str, int]]:
    r"""Yield `(line, size)` for each complete line: its text with the newline, and its number of bytes in `data`.

    `data` is a part of a file that begins at the beginning of a line, without a byte order mark. `encoding` is as
    `encoding_of` returns it. In the example, the second line is incomplete.

    >>> list(whole_lines(b"1\x002\x00\r\x00\n\x003\x00", "utf-16-le"))
    [('12\r\n', 8)]
    """
    if encoding == "utf-8":
        yield from ((line.decode("utf-8", "replace"), len(line)) for line in io.BytesIO(data) if line.endswith(b"\n"))
        return
    width = len("\n".encode(encoding))
    text = data[: len(data) // width * width].decode(encoding, "surrogatepass")
    for line in text[: text.rfind("\n") + 1].split("\n")[:-1]:
        yield f"{line}\n", len(f"{line}\n".encode(encoding, "surrogatepass"))


def without_escapes(text: str) -> str:
    """Return a text without colours and other escape sequences of terminals.

    >>> without_escapes("\\x1b[32mRAM\\x1b[0m 1/2MB")
    'RAM 1/2MB'
    """
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def without_prefixes(text: str) -> tuple[str, tuple[str, ...]]:
    r"""Return `(text, programs)`: a text without what other programs put before each line, and these programs' names.

    >>> without_prefixes("web-1  | 10:00:00 RAM 1/2MB\nweb-1  | 10:00:01 RAM 1/2MB\n")
    ('RAM 1/2MB\nRAM 1/2MB\n', ('docker compose', 'ts'))
    >>> without_prefixes("[7] app INFO: RAM 1/2MB\n[12] app WARN: RAM 1/2MB\n")
    ('RAM 1/2MB\nRAM 1/2MB\n', ('another program ("[7] app INFO:")',))
    """
    *_, last = without_each_prefix(text)
    return last


def without_each_prefix(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    r"""Yield `(text, programs)`: first the unchanged text, then the text after each removal of one more prefix.

    `programs` are the names of the programs whose prefixes were removed. A reader of a table tries each text, because
    the first column of the table may look like a prefix. The example shows the second pair.

    >>> list(without_each_prefix("10:00:00 12:30:00 7\n10:00:01 12:30:01 7\n"))[1]
    ('12:30:00 7\n12:30:01 7\n', ('ts',))
    """
    removed: tuple[str, ...] = ()
    yield text, removed
    while len(removed) < _DEEPEST and (name := _prefix_of(text)):
        lines = text.split("\n")
        matches = map(_PREFIXES[name].match, lines)
        text = "\n".join(line[match.end() :] if match else line for line, match in zip(lines, matches, strict=True))
        removed = (*removed, name)
        yield text, removed
    if unknown := _unknown_prefix(text):
        pattern, example = unknown
        text = "\n".join(pattern.sub("", line, count=1) for line in text.split("\n"))
        yield text, (*removed, f'another program ("{printable(example)}")')


def _unknown_prefix(text: str) -> "tuple[re.Pattern[str], str] | None":
    """Return `(pattern, example)` for the prefix that an unknown program put before each line, or None without one.

    `pattern` matches the prefix of every line: numbers, levels and dates in it may differ. `example` is the prefix of
    one line. A prefix is only recognised if what follows it looks like a line of a known tool.
    """
    lines = [line for line in text[:_LOOKED_AT].split("\n") if line.strip()]
    shapes: dict[str, str] = {}
    for line in lines:
        begins = _BEGINNINGS.search(line)
        if begins and 0 < begins.start() <= _MOST_PREFIX and line[: begins.start()].strip():
            prefix = line[: begins.start()]
            shapes.setdefault("".join(map(_shape_of, _TOKEN.findall(prefix))), prefix)
    for shape, example in list(shapes.items())[:_DEEPEST]:
        pattern = re.compile(rf"^{shape}")
        # A line without content ends before the blank at the end of the prefix.
        if sum(1 for line in lines if pattern.match(f"{line} ")) >= _SHARE * len(lines):
            return re.compile(rf"^(?:{shape}|{shape.removesuffix(_BLANKS)}$)"), example
    return None


_BLANKS = r"\s+"


def _shape_of(token: str) -> str:
    if token.isspace():
        return _BLANKS
    if token[0].isdigit():
        return "[0-9]+"
    return "[A-Za-z]+" if _CHANGING.fullmatch(token) else re.escape(token)


def _prefix_of(text: str) -> str | None:
    """Return the name of the program that put its prefix before most lines of `text`, such as `docker compose`.

    Return None if most lines have no known prefix.
    """
    lines = [line for line in text[:_LOOKED_AT].split("\n") if line.strip()]
    for name, pattern in _PREFIXES.items():
        if lines and sum(1 for line in lines if pattern.match(line)) >= _SHARE * len(lines):
            return name
    return None


@frozen
class Separators:
    """How a table separates its cells, and how it writes decimal numbers."""

    cell: str | None  # None: any blanks
    has_comma: bool  # whether a comma is a decimal sign

    def cells(self, line: str) -> list[str]:
        """Return the cells of one row of the table, without quotes and surrounding blanks."""
        if self.cell is None:
            return line.split()
        if '"' in line:
            line = line.strip("\r\n")
            return [cell.strip() for cell in next(csv.reader([line], delimiter=self.cell), [])]
        return [cell.strip() for cell in line.split(self.cell)]

    def number(self, cell: str) -> float:
        """Return the number in a cell.

        Raises ValueError for other text, for infinite values, and for digits in groups (`1.234,5`).
        """
        if match := _NUMPY.fullmatch(cell):
            cell = match[1]
        if self.has_comma and "," in cell:
            if "." in cell or cell.count(",") > 1:
                raise ValueError(f"{cell[:40]!r}: a comma beside a point or another comma")
            cell = cell.replace(",", ".")
        value = math.nan if "_" in cell else float(cell)
        if not math.isfinite(value):
            raise ValueError(f"{cell[:40]!r} is no number")
        return value


_NUMPY = re.compile(r"np\.float(?:64|32)\((.*)\)")  # how PyMonsoon prints values with NumPy 2


def separators_of(header: str) -> Separators:
    """Return how a table separates its cells. `header` is the line with the names of the columns.

    If the comma does not separate cells, the comma is the decimal sign.

    >>> separators_of("time_s;power_w").number("3,5"), separators_of("time_s,power_w").cells("1,2")
    (3.5, ['1', '2'])
    """
    for cell in ("\t", ";", ",", "|"):
        if cell in header:
            return Separators(cell, has_comma=cell != ",")
    return Separators(None, has_comma=True)


@frozen
class LeftOut:
    """How much of its input a reader did not use, and why."""

    count: int
    of: int | None  # number of all of them; None if it says nothing
    what: str  # in the plural, such as "lines"
    why: str  # such as "not understood"
    first: str  # the first example, as it stands in the file

    @property
    def words(self) -> str:
        """Return a phrase: how much of the input was not used, why, and the first example.

        >>> LeftOut(2, 9, "lines", "not understood", "Starting ...").words
        '2 of 9 lines not understood, the first: "Starting ..."'
        >>> LeftOut(1, 1, "entries", "not understood", "{}").words
        '1 of 1 entry not understood, the first: "{}"'
        """
        of = "" if self.of is None else f" of {self.of}"
        is_one = (self.count if self.of is None else self.of) == 1
        what = _SINGULARS.get(self.what, self.what.removesuffix("s")) if is_one else self.what
        return f'{self.count}{of} {what} {self.why}, the first: "{printable(self.first)}"'


_SINGULARS = {"entries": "entry"}
MAX_EXAMPLE = 80


def printable(text: str) -> str:
    """Return a text as one line without control characters. A long text is shortened."""
    line = "".join(each if each.isprintable() else " " for each in " ".join(text.split()))
    return line if len(line) <= MAX_EXAMPLE else f"{line[: MAX_EXAMPLE - 3]}..."
