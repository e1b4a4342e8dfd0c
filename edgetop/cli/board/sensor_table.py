"""The sensors of a board as a table, as lines or as JSON, printed once or repeatedly.

Control characters in texts of the board are replaced.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from edgetop import formatting
from edgetop.cli import output
from edgetop.cli.output import print_json, print_text
from edgetop.formatting import UNKNOWN, clean, quantity
from edgetop.sensors.sensor_protocol import Gap
from edgetop.sensors.survey import Row, Survey
from edgetop.session.manifest import Board
from edgetop.session.typed_json import Document

HEAD, TAIL = ("SENSOR", "VALUE", "UNIT", "ROLE", "READ"), "SOURCE, NOTE"
WORDS = ("SENSOR", "UNIT", "ROLE")
INDENT = "    "
HOME, CLEAR_LINE, CLEAR_BELOW, CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


def document(survey: Survey) -> Document:
    """Return the JSON document that `sensors --json` prints (edgetop help sensors)."""
    sensors = [
        {
            "id": row.info.id,
            "value": None if isinstance(row.value, Gap) else row.value,
            "unit": row.info.unit,
            "source": row.info.source,
            "role": row.info.role,
            "read_us": None if row.read_us is None else round(row.read_us, 1),
            "cadence_s": row.cadence_s,
            "note": _note(row) or None,
        }
        for row in survey.rows
    ]
    return {"board": asdict(survey.board), "sensors": sensors, "missing": [asdict(gap) for gap in survey.missing]}


def board_line(board: Board) -> str:
    """Return one line about the board: its model, CPU, system, kernel and power mode, as far as they are known."""
    parts = (board.model, board.cpu, board.os, board.kernel and f"kernel {board.kernel}", board.power_mode)
    return ", ".join(clean(text) for text in parts if text) or "unknown board"


def table(survey: Survey, columns: int | None) -> list[str]:
    """Return the lines of the table of sensors, followed by the missing sensors.

    `columns` is the greatest width of a line; None means no limit. Each sensor has one line. If one of these lines
    would be too wide, each sensor has two or more lines.
    """
    lines = [board_line(survey.board), "", *_rows(survey.rows, columns)]
    if survey.missing:
        lines += ["", "MISSING"]
    for gap in survey.missing:
        lines.append(f"{clean(gap.what)}: {clean(gap.why)}")
        if gap.fix:
            lines.append(f"{INDENT}fix: {clean(gap.fix)}")
    return lines


def _rows(rows: Sequence[Row], columns: int | None) -> Iterator[str]:
    if not rows:
        yield "no sensor was found"
        return
    cells = [(clean(row.info.id), *_value(row), row.info.role or "", cost(row.read_us)) for row in rows]
    tails = [", ".join(filter(None, (clean(row.info.source), clean(_note(row))))) for row in rows]
    lines = list(
        output.table((*HEAD, TAIL), [(*each, tail) for each, tail in zip(cells, tails, strict=True)], (*WORDS, TAIL))
    )
    if columns is None or max(map(len, lines)) <= columns:
        yield from lines
        return
    width = max(20, columns - len(INDENT))
    for head, tail in zip(output.table(HEAD, cells, WORDS), (TAIL, *tails), strict=True):
        yield head
        # Cut anywhere, because a path has no spaces.
        yield from (INDENT + tail[at : at + width] for at in range(0, len(tail), width))


def _value(row: Row) -> tuple[str, str]:
    """Return the value of a sensor as text, such as "48.3" or "-", and its unit."""
    value = UNKNOWN if isinstance(row.value, Gap) else formatting.reading(row.value, row.info.unit)
    return value, row.info.unit


def cost(microseconds: float | None) -> str:
    """Return the time that a reading takes as text, or a dash for None.

    >>> cost(7.31), cost(14_200.0), cost(None)
    ('7 us', '14.2 ms', '-')
    """
    if microseconds is None:
        return UNKNOWN
    return f"{microseconds:.0f} us" if microseconds < 999.5 else f"{microseconds / 1000:.1f} ms"


def _note(row: Row) -> str:
    """Return a sensor's note: why its value is missing, or else how power was measured and what the value means."""
    if isinstance(row.value, Gap):
        return row.value.reason
    measured = row.info.accuracy.replace("-", " ") if row.info.accuracy else ""
    return "; ".join(filter(None, (measured, row.info.note)))


def value_lines(survey: Survey, at_s: float) -> list[str]:
    """Return a tab-separated line for each sensor, for a pipe or a log: time, sensor id, value, unit.

    `at_s` is the time in s since the first lines. If a value is missing, the reason stands in place of the unit.
    """
    lines = []
    for row in survey.rows:
        value, unit = _value(row)
        more = clean(row.value.reason) if isinstance(row.value, Gap) else unit
        lines.append(f"{at_s:.1f}\t{clean(row.info.id)}\t{value}\t{more}")
    return lines


def list_once(survey: Survey, *, as_json: bool) -> None:
    survey.read_whole()
    if as_json:
        print_json(document(survey))
    else:
        print_text("\n".join(table(survey, columns=shutil.get_terminal_size()[0] if _is_terminal() else None)))


def watch_on(survey: Survey, refresh_s: float, *, as_json: bool) -> None:
    """Print the sensors every `refresh_s` seconds, until Ctrl+C or until the reader of a pipe ends.

    `as_json` prints one JSON document per line. Without `as_json`, a new table overwrites the previous table on a
    terminal; elsewhere, plain lines are printed.
    """
    draws = _is_terminal() and not as_json and os.environ.get("TERM", "dumb") != "dumb"
    begin = due = time.monotonic()
    if draws:
        _write(CLEAR)
    while True:
        survey.read_due()
        if draws:
            columns, height = shutil.get_terminal_size()
            lines = table(survey, columns)
            if len(lines) >= height:  # print how many lines do not fit
                room = max(1, height - 2)
                lines = [
                    *lines[:room],
                    f"... {quantity(len(lines) - room, 'more line')}: use a taller terminal, or omit --watch",
                ]
            # Overwrite the previous table line by line, so that nothing flickers.
            _write(HOME + "".join(f"{line}{CLEAR_LINE}\r\n" for line in lines) + CLEAR_BELOW)
        elif as_json:
            _write(json.dumps(document(survey)) + "\n")
        else:
            _write("\n".join(value_lines(survey, time.monotonic() - begin)) + "\n")
        due, now = due + refresh_s, time.monotonic()
        if due <= now:  # skip missed refreshes
            due = now + refresh_s
        time.sleep(due - now)


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _write(text: str) -> None:
    click.echo(text, nl=False)  # flushes, unlike print
