"""`edgetop watch --all`: the processes that run models, and the choice of one of them."""

import json
import shlex
import sys
from dataclasses import asdict

import click

from edgetop.cli.choosing import ask_which
from edgetop.cli.output import print_text
from edgetop.cli.privileges import with_sudo
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.taps.process import ModelProcess, model_processes, why_no_rates, with_rates
from edgetop.taps.runtimes import runtime_of

COMMAND_WIDTH = 30


def choose(*, as_json: bool) -> int | None:
    """The process that the user chooses on a terminal; None: they were only listed. Raises InputError."""
    processes, closed = model_processes()
    why = why_no_rates()
    if processes and not why:
        processes = sorted(with_rates(processes), key=lambda one: -(one.calls_per_s or 0))
    if as_json:
        document = {"processes": [asdict(one) for one in processes], "closed": closed, "why_no_rates": why or None}
        click.echo(json.dumps(document, indent=1))
        return None
    may_choose = sys.stdin.isatty() and sys.stderr.isatty()
    for number, line in enumerate(_lines(processes)):
        print_text(f"{number or '':>3}  {line}" if may_choose else line, err=may_choose)
    for note in _notes(processes, closed, why):
        print_text(f"edgetop: {note}", err=True)
    if not (processes and may_choose):
        return None
    place = ask_which(len(processes))
    if place is None:
        raise InputError("no process was chosen", "give one: edgetop watch --pid N")
    return processes[place].pid


def _lines(processes: list[ModelProcess]) -> list[str]:
    """A table with its head."""
    rows = [("pid", "user", "calls/s", "command", "runtime and models")] if processes else []
    for one in processes:
        rate = "-" if one.calls_per_s is None else f"{one.calls_per_s:.1f}"
        command = clean(shlex.join((one.command[0].rpartition("/")[2], *one.command[1:])))
        short = command if len(command) <= COMMAND_WIDTH else f"{command[: COMMAND_WIDTH - 1]}…"
        runtimes = dict.fromkeys(runtime_of(name) for name in one.runtimes)
        what = clean(", ".join((*runtimes, *(path.rpartition("/")[2] for path in one.models[:3]))))
        rows.append((str(one.pid), one.user, rate, short, what))
    widths = [max(len(row[place]) for row in rows) for place in range(4)] if rows else []
    return ["  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4])) for row in rows]


def _notes(processes: list[ModelProcess], closed: int, why: str) -> list[str]:
    notes = [] if processes else ["no process here has mapped an inference runtime that is known, or a model"]
    if processes and why:
        notes.append(f"rates are not known: {why}")
    if closed:
        number = "1 process" if closed == 1 else f"{closed} processes"
        notes.append(f"{number} of other users could not be looked into: {with_sudo(['watch', '--all'])}")
    return notes
