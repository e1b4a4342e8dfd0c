"""Markdown for pull requests and wikis, as GitHub renders it (https://github.github.com/gfm/).

Text from models, files and programs must not act as Markdown. Names are code spans, in which GitHub interprets nothing:
no markup, no HTML, no mention, no link, no number of an issue. Sentences that contain names are escaped.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from edgetop.errors import InputError
from edgetop.formatting import UNKNOWN, clean
from edgetop.recording.export.export_formats import NamedOutput, StreamOutput

MOST_CODE = 200  # characters of a name
_MARKUP = re.compile(r"[\\`*_\[\]|~$]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# GitHub looks for these after the markup is gone, so that a backslash does not stop it. A space without width does.
_MENTION, _LINK = re.compile(r"([@#])(?=\w)"), re.compile(r"(:(?=//)|\bwww(?=\.)|\bGH(?=-\d))", re.IGNORECASE)
_NO_SPACE = "\u200b"
_BLOCK = re.compile(r"\d+(?=[.)](?:\s|$))|(?=[-+#=])")  # before what begins a list or a heading


def escaped(text: str) -> str:
    r"""Return one line of text, escaped so that nothing in it acts as Markdown or as HTML.

    >>> escaped("a|b <i> *c* 1_000"), escaped("- no list")
    ('a\\|b &lt;i&gt; \\*c\\* 1\\_000', '\\- no list')
    """
    line = clean(" ".join(text.split()))
    line = _MARKUP.sub(r"\\\g<0>", line).translate(_ENTITIES)
    line = _LINK.sub(rf"\1{_NO_SPACE}", _MENTION.sub(rf"\1{_NO_SPACE}", line))
    return f"{begin[0]}\\{line[begin.end() :]}" if (begin := _BLOCK.match(line)) else line


def code(text: str) -> str:
    r"""Return a name as a code span, which is allowed in a cell of a table.

    >>> code("conv_1"), code("a|b"), code("`x`"), code("")
    ('`conv_1`', '`a\\|b`', '`` `x` ``', '-')
    """
    shown = clean(" ".join(text.split()))
    if not shown:
        return UNKNOWN
    if len(shown) > MOST_CODE:
        shown = f"{shown[: MOST_CODE // 2]}...{shown[-MOST_CODE // 2 :]}"
    shown = re.sub(r"(\\*)\|", r"\1\1\\|", shown)  # the parser of tables takes one backslash away
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()) -> Iterator[str]:
    """Yield an empty line and the lines of a Markdown table. Without rows, yield nothing.

    Cells must already be Markdown. `right` names the headings of columns to align right.
    """
    lines = list(rows)
    if not lines:
        return
    marks = ["---:" if head in right else "---" for head in heads]
    yield ""
    yield from (f"| {' | '.join(cell or ' ' for cell in line)} |" for line in (heads, marks, *lines))


def bullets(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the title in bold and a list. Without lines, yield nothing. The lines must already be Markdown."""
    listed = [f"- {line}" for line in lines]
    if listed:
        yield from ("", f"**{title}**", "", *listed)


def advised(message: str, advice: str) -> str:
    """Return one line: what is wrong, and after an arrow what to do about it. Both are plain text."""
    return f"{escaped(message)} \u2192 {escaped(advice)}"


def folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a section that shows only its title until a reader clicks on it. Without lines, yield nothing.

    The lines must already be Markdown, and the first one must be empty.
    """
    hidden = list(lines)
    if hidden:
        yield from ("", f"<details><summary>{title}</summary>", *hidden, "", "</details>")


def block(text: str, language: str = "text") -> Iterator[str]:
    """Yield an empty line and the lines of a code block. `language` is its language, such as `sh`."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield from ("", f"{fence}{language}", *text.split("\n"), fence)


def markdown_output(path: str | None, *, as_json: bool, csv: str | None = None, force: bool) -> (
    NamedOutput | StreamOutput | None
):  # fmt: skip
    """Return where to write the Markdown of `--md`, or None without that option.

    Call this before anything is read, to find errors early.

    `path` is the value of `--md`; `-` means stdout. `as_json` is whether `--json` is given. `csv` is the value of
    `--csv`, or None. `force` allows to replace an existing file. Raises InputError if `--json` or `--csv` writes to the
    same place. Raises InputError or OutputError if the file cannot be written.
    """
    if path is None:
        return None
    if path == "-":
        if as_json or csv == "-":
            other = "--json" if as_json else "--csv -"
            raise InputError(f"{other} and --md - both need standard output", "write the Markdown to a file")
        return StreamOutput(sys.stdout.buffer)
    if csv not in (None, "-") and Path(path) == Path(csv or ""):
        raise InputError(f"--csv and --md name the same file: {path}")
    return NamedOutput.of_option("--md", Path(path), force=force, elsewhere="choose another path with --md")


def write_markdown(output: NamedOutput | StreamOutput, lines: Iterable[str]) -> None:
    """Write the lines of a Markdown document. Raises OutputError if they cannot be written."""
    with output.stream(is_text=True) as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
