"""Makes the man page edgetop(1) from the commands and their options, when a wheel is built (.ci/build_hook.py).

This module imports click and nothing else from outside, because the build environment has only that.
"""

import re
from collections.abc import Iterator

import click

from edgetop import __version__
from edgetop.cli.command_group import edgetop
from edgetop.cli.overview import ABOUT, COMMANDS, EXAMPLES

EXIT_CODES = (
    ("0", "Done."),
    ("1", "A gate of --fail-if failed, or doctor or self-test found a problem."),
    ("2", "Invalid usage or input; one line on standard error says what, where and what to do."),
    ("3", "The engine died."),
    ("4", "Something could not be written."),
    ("130", "Interrupted; the recording is complete."),
)
FILES = (
    ("~/.local/state/edgetop", "Recordings ($XDG_STATE_HOME/edgetop)."),
    ("~/.config/edgetop/edgetop.toml", "Settings ($XDG_CONFIG_HOME/edgetop/edgetop.toml)."),
    ("~/.config/edgetop/themes", "Themes."),
    ("~/.cache/edgetop", "What can be made again ($XDG_CACHE_HOME/edgetop)."),
)


def page() -> str:
    """Return the man page as roff source (man(7))."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield f'.TH EDGETOP 1 "" "edgetop {__version__}" "User Commands"'
    yield from (".SH NAME", r"edgetop \- watch a model run on an edge board")
    yield from (".SH SYNOPSIS", r".B edgetop", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGS\fR]...")
    yield from (".SH DESCRIPTION", roff(" ".join(ABOUT.split())))
    yield from (".SH OPTIONS", *_options(edgetop.params))
    yield ".SH COMMANDS"
    for name in COMMANDS:
        yield from _command(name)
    yield from (".SH EXIT STATUS", *_terms(EXIT_CODES))
    yield from (".SH FILES", *_terms(FILES))
    yield from (".SH EXAMPLES", *_verbatim(EXAMPLES.splitlines()))
    yield from (
        ".SH SEE ALSO",
        roff("edgetop help lists the topics of the documentation; edgetop help quickstart is the first."),
    )


def _command(name: str) -> Iterator[str]:
    context = click.Context(edgetop, info_name="edgetop")
    command = edgetop.get_command(context, name)
    assert command
    words = " ".join(command.collect_usage_pieces(click.Context(command, info_name=name, parent=context)))
    yield from (f'.SS "edgetop {roff(name)} {roff(words)}"', *_text(command.help or ""))
    yield from _options(command.params)
    yield from _text(command.epilog or "")


def _options(params: list[click.Parameter]) -> Iterator[str]:
    for param in params:
        if isinstance(param, click.Option) and not param.hidden:
            yield from (
                ".TP",
                rf"\fB{roff(', '.join((*param.opts, *param.secondary_opts)))}\fR{_value(param)}",
                _help(param),
            )


def _value(param: click.Option) -> str:
    if param.is_flag:
        return ""
    if isinstance(param.type, click.Choice):
        kind = "|".join(map(str, param.type.choices))
    else:  # Click names its ranges "integer range"
        kind = param.type.name.removesuffix(" range").upper()
    return rf" \fI{roff(param.metavar or kind)}\fR"


def _help(param: click.Option) -> str:
    default = f" Default: {param.default}." if param.show_default is True and param.default is not None else ""
    return roff(f"{param.help or ''}{default}")


def _terms(terms: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for term, text in terms:
        yield from (".TP", rf"\fB{roff(term)}\fR", roff(text))


def _text(text: str) -> Iterator[str]:
    """Yield roff lines for a help text.

    A paragraph that begins with a backspace character keeps its lines, as in click.
    """
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.splitlines() if line.strip()]
        if lines and lines[0].strip(" ") == "\b":
            yield from _verbatim(lines[1:])
        elif lines:
            yield from (".PP", *(roff(line.strip()) for line in lines))


def _verbatim(lines: list[str]) -> Iterator[str]:
    yield from (".PP", ".nf", *(roff(line) for line in lines), ".fi")


def roff(text: str) -> str:
    r"""Return a line of text escaped for roff, the language of man pages.

    >>> roff(".5 s --json \\ 'a'")
    "\\&.5 s \\-\\-json \\e 'a'"
    """
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
