"""`edgetop relay`: the board's end of `edgetop attach ssh:HOST`. Frames on stdout, talk on stderr."""

import contextlib
import os
import sys
from pathlib import Path

import click

from edgetop.errors import EXIT_DONE, InputError

NICENESS = 10  # it gives way to the model that it tells of


@click.command("relay")
@click.argument("session", required=False)
def command(session: str | None) -> int:
    """Stream SESSION, by default the newest one that runs, to the edgetop that started this over ssh.

    It ends when its standard input does. Nothing listens on a port.
    """
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise InputError("relay talks to another edgetop, not to a person", "edgetop attach ssh:HOST starts it")
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    sink = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints, prints no frame
    from edgetop.relay.serve import Link, serve  # noqa: PLC0415  --help needs none of it
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    clock = SystemClock()
    link = Link(sys.stdin.fileno(), sink, clock)
    serve(link, lambda: _find(session), _give, clock)
    return EXIT_DONE


def _find(given: str | None) -> Path:
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.known import live  # noqa: PLC0415
    from edgetop.recording.locate import locate_live  # noqa: PLC0415

    home = recordings_home()
    if given is None and (running := live(home)):
        return running[0][0]
    return locate_live(given, home)


def _give(folder: Path, order: str, note: str) -> None:
    from edgetop.control.client import give  # noqa: PLC0415
    from edgetop.control.wire import Order  # noqa: PLC0415

    give(folder, Order(order, note))
