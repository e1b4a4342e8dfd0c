"""The sensors of a board as a table, lines or JSON, once or again and again. Foreign text in it is made safe."""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from edgetop import formatting
from edgetop.cli.output import print_text
from edgetop.formatting import UNKNOWN, clean
from edgetop.sensors.protocol import Gap, Missing
from edgetop.sensors.survey import Row, Survey
from edgetop.session.manifest import Board

HEAD = ("SENSOR", "VALUE", "UNIT", "ROLE", "READ")
INDENT = "    "
HOME, CLEAR_LINE, CLEAR_BELOW, CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


def document(survey: Survey) -> dict[str, Any]:
    """Return the document that `sensors --json` prints (edgetop help sensors)."""
    return {
        "board": asdict(survey.board),
        "sensors": [_sensor(row) for row in survey.rows],
        "missing": [asdict(missing) for missing in survey.missing],
    }


def _sensor(row: Row) -> dict[str, Any]:
    is_gap = isinstance(row.value, Gap)
    return {
        "id": row.info.id,
        "value": None if is_gap else row.value,
        "unit": row.info.unit,
        "source": row.info.source,
        "role": row.info.role,
        "read_us": None if row.read_us is None else round(row.read_us, 1),
        "cadence_s": row.cadence_s,
        "note": _note(row) or None,
    }


def board_line(board: Board) -> str:
    """The identity of the board, as far as it is known."""
    parts = (board.model, board.cpu, board.os, board.kernel and f"kernel {board.kernel}", board.power_mode)
    return ", ".join(clean(text) for text in parts if text) or "unknown board"


def table(survey: Survey, columns: int | None) -> list[str]:
    """Return one line per sensor, or two where it would be wider than `columns`. None: no limit."""
    lines = [board_line(survey.board), "", *_rows(survey.rows, columns)]
    if survey.missing:
        lines += ["", "MISSING", *(line for missing in survey.missing for line in _missing(missing))]
    return lines


def _rows(rows: Sequence[Row], columns: int | None) -> Iterator[str]:
    if not rows:
        yield "no sensor was found"
        return
    cells = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    heads = [_aligned(row, widths) for row in cells]
    tails = ["SOURCE, NOTE", *(", ".join(filter(None, (clean(row.info.source), clean(_note(row))))) for row in rows)]
    widest = max(len(head) + 2 + len(tail) for head, tail in zip(heads, tails, strict=True))
    fits = columns is None or widest <= columns
    for head, tail in zip(heads, tails, strict=True):
        if fits:
            yield f"{head}  {tail}"
        else:
            yield head.rstrip()
            yield from _wrapped(tail, columns or widest)


def _cells(row: Row) -> tuple[str, ...]:
    value = UNKNOWN if isinstance(row.value, Gap) else formatting.reading(row.value, row.info.unit)
    return (clean(row.info.id), value, row.info.unit, row.info.role or "", cost(row.read_us))


def cost(microseconds: float | None) -> str:
    """
    >>> cost(7.31), cost(14_200.0), cost(None)
    ('7 us', '14.2 ms', '-')
    """
    if microseconds is None:
        return UNKNOWN
    return f"{microseconds:.0f} us" if microseconds < 999.5 else f"{microseconds / 1000:.1f} ms"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Values and costs to the right, words to the left."""
    sides = ("<", ">", "<", "<", ">")
    return "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True))


def _note(row: Row) -> str:
    """Why there is no value; or how a power was measured, and what the value stands for."""
    if isinstance(row.value, Gap):
        return row.value.reason
    measured = row.info.accuracy.replace("-", " ") if row.info.accuracy else ""
    return "; ".join(filter(None, (measured, row.info.note)))


def _missing(missing: Missing) -> Iterator[str]:
    yield f"{clean(missing.what)}: {clean(missing.why)}"
    if missing.fix:
        yield f"{INDENT}fix: {clean(missing.fix)}"


def _wrapped(text: str, columns: int) -> Iterator[str]:
    """Cut anywhere: a path has no spaces to break at."""
    width = max(20, columns - len(INDENT))
    yield from (INDENT + text[at : at + width] for at in range(0, len(text), width))


def value_lines(survey: Survey, at_s: float) -> list[str]:
    """A line each, for a pipe or a log: seconds, id, value and unit or why there is none."""
    return [f"{at_s:.1f}\t{clean(row.info.id)}\t{_value(row)}" for row in survey.rows]


def _value(row: Row) -> str:
    if isinstance(row.value, Gap):
        return f"{UNKNOWN}\t{clean(row.value.reason)}"
    return f"{formatting.reading(row.value, row.info.unit)}\t{row.info.unit}"


def list_once(survey: Survey, *, as_json: bool) -> None:
    survey.read_whole()
    if as_json:
        click.echo(json.dumps(document(survey), indent=1))
    else:
        print_text("\n".join(table(survey, columns=_size()[0] if _is_terminal() else None)))


def watch_on(survey: Survey, refresh_s: float, *, as_json: bool) -> None:
    """Print until KeyboardInterrupt or the end of a pipe. The terminal's modes are never changed."""
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
