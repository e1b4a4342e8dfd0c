"""How a survey of the sensors reaches the user: once, or again and again."""

import json
import os
import shutil
import sys
import time

import click

from edgetop.cli.sensor_table import document, table, value_lines
from edgetop.cli.tell import tell
from edgetop.sensors.survey import Survey

HOME, CLEAR_LINE, CLEAR_BELOW, CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


def list_once(survey: Survey, *, as_json: bool) -> None:
    survey.read_whole()
    if as_json:
        click.echo(json.dumps(document(survey), indent=1))
    else:
        tell("\n".join(table(survey, columns=_size()[0] if _is_terminal() else None)))


def watch_on(survey: Survey, refresh_s: float, *, as_json: bool) -> None:
    """Until the reader leaves: KeyboardInterrupt, or the end of a pipe. The terminal is left as it is, always."""
    draws = _is_terminal() and not as_json and os.environ.get("TERM", "dumb") != "dumb"
    begin = due = time.monotonic()
    if draws:
        _write(CLEAR)
    while True:
        survey.read_due()
        if draws:
            _write(_frame(table(survey, columns=_size()[0]), _size()[1]))
        elif as_json:
            _write(json.dumps(document(survey)) + "\n")
        else:
            _write("\n".join(value_lines(survey, time.monotonic() - begin)) + "\n")
        due, now = due + refresh_s, time.monotonic()
        if due <= now:  # never a burst to catch up
            due = now + refresh_s
        time.sleep(due - now)


def _frame(lines: list[str], rows: int) -> str:
    """Drawn over the last one, line by line, so that nothing flickers; what does not fit is counted."""
    if len(lines) >= rows:
        room = max(1, rows - 2)
        lines = [*lines[:room], f"... {len(lines) - room} more lines: a taller terminal, or without --watch"]
    return HOME + "".join(f"{line}{CLEAR_LINE}\r\n" for line in lines) + CLEAR_BELOW


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _size() -> tuple[int, int]:
    return tuple(shutil.get_terminal_size())  # type: ignore[return-value]


def _write(text: str) -> None:
    click.echo(text, nl=False)  # it flushes
