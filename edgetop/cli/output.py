"""Prints on stdout and stderr. Control characters in text from files, models and programs are made harmless here."""

import csv
import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.errors import InputError
from edgetop.formatting import clean

if TYPE_CHECKING:
    from edgetop.recording.export.export_formats import NamedOutput, StreamOutput
    from edgetop.session.events import Notice

_HELD = "\0"  # stands for a space at which no line is broken; no path and no argument has this character


def print_text(text: str, *, err: bool = False, ascii_only: bool = False) -> None:
    """Print plain text on stdout, or on stderr if `err`. Escape sequences and tabs are made visible.

    `ascii_only` replaces characters outside ASCII.
    """
    click.echo("\n".join(clean(line, ascii_only=ascii_only) for line in text.split("\n")), err=err)


def terminal_columns() -> int:
    """Return the present width of the terminal that is standard output. Without a terminal, return `COLUMNS`, or 0.

    `COLUMNS` is an environment variable with the width at the start, so a terminal that tells its width comes first.
    """
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):  # no terminal; a stream without a descriptor, or a closed one
        columns = 0
    return columns or shutil.get_terminal_size((0, 0)).columns  # a serial terminal may have the width 0


def text_columns() -> int:
    """Return how many columns a line of a printed result may have: 80, or 40 to 80 on a narrower terminal."""
    return max(40, min(80, terminal_columns() or 80)) if sys.stdout.isatty() else 80


def prose_columns() -> int:
    """Return how many characters a line of prose may have: as many as the terminal, but 60 to 100; else 100."""
    return max(60, min(100, terminal_columns() or 100))


def wrapped(line: str, whole: str = "") -> list[str]:
    """Return `line` as lines that fit the terminal, broken at spaces. Without a terminal, return `[line]`.

    Each line after the first is indented by four more spaces. `whole` is a part of the line that is not broken, such as
    a command, so that it can be copied.
    """
    columns = terminal_columns()
    if not columns or len(line) <= columns:
        return [line]
    text = line.lstrip()
    begin = " " * (len(line) - len(text))
    held = text.replace(whole, whole.replace(" ", _HELD)) if whole else text
    parts = textwrap.wrap(
        held,
        columns,
        initial_indent=begin,
        subsequent_indent=f"{begin}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_HELD, " ") for part in parts]


def raise_problems(problems: Sequence[str], rest: str) -> None:
    """Raise InputError if `problems` is not empty. `problems` holds a line about each unreadable part of a recording.

    `rest` says what was done with the readable parts, such as `the rest is compared`.
    """
    if problems:
        more = len(problems) - 1
        raise InputError(problems[0], f"and {more} more; {rest}" if more else rest)


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], words: Collection[str], indent: str = ""
) -> Iterator[str]:
    """Yield the lines of a text table. `heads` has all headings, and `words` those of the columns to align left.

    >>> list(table(["name", "ms"], [["a", "1.5"]], words=["name"]))
    ['name   ms', 'a     1.5']
    """
    lines = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            cell.ljust(width) if head in words else cell.rjust(width)
            for cell, width, head in zip(line, widths, heads, strict=True)
        )
        yield (indent + "  ".join(cells)).rstrip()


def notice_lines(
    word: str, notices: "Iterable[Notice]", details: "Callable[[Notice], Iterable[str]]" = lambda _: ()
) -> Iterator[str]:
    """Yield an empty line, then the message, the details and the advice of each notice (warning or hint).

    Without notices, yield nothing. `word` begins each notice, such as `warning`. `details(notice)` returns more lines.
    """
    for number, notice in enumerate(notices):
        if not number:
            yield ""
        yield f"{word:<10} {clean(notice.message)}"
        yield from (f"           {line}" for line in (*details(notice), clean(notice.advice)))


def gate_lines(results: Sequence[tuple[bool, str]]) -> Iterator[str]:
    """Yield an empty line, then a line for each gate (a condition of `--fail-if`). Without gates, yield nothing.

    `results` are `(whether the gate passed, sentence about it)` pairs.
    """
    if results:
        yield ""
    for ok, words in results:
        yield f"gate       {'passed' if ok else 'FAILED'}  {clean(words)}"


def print_failures(reasons: Sequence[str]) -> bool:
    """Print to stderr why gates (conditions of `--fail-if`) failed. Return whether there are any such reasons."""
    for reason in reasons:
        print_text(f"edgetop: gate failed: {reason}", err=True)
    return bool(reasons)


def print_json(document: object, default: Callable[[object], object] | None = None) -> None:
    """Print `document` on stdout as JSON. `default` converts values that JSON lacks, as in `json.dumps`."""
    click.echo(json.dumps(document, indent=1, default=default))


def csv_output_of(path: str | None, *, as_json: bool, force: bool) -> "NamedOutput | StreamOutput | None":
    """Return where to write the CSV of `--csv`, or None without that option.

    Call this before anything is read, to find errors early.

    `path` is the value of `--csv`; `-` means stdout. `as_json` is whether `--json` is given too, which also needs
    stdout. `force` allows to replace an existing file. Raises InputError and OutputError.
    """
    from edgetop.recording.export.export_formats import NamedOutput, StreamOutput  # noqa: PLC0415  not for --help

    if path == "-":
        if as_json:
            raise InputError("--json and --csv - both need standard output", "write the CSV to a file")
        return StreamOutput(sys.stdout.buffer)
    if path is None:
        return None
    return NamedOutput.of_option("--csv", Path(path), force=force, elsewhere="choose another path with --csv")


def write_csv(output: "NamedOutput | StreamOutput", rows: Iterable[Iterable[object]]) -> None:
    """Write rows as CSV (UTF-8, RFC 4180). None becomes an empty field.

    Raises OutputError if `output` cannot be written.
    """
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    with output.stream(is_text=True) as file:
        file.write(text.getvalue().encode("utf-8", "backslashreplace"))
