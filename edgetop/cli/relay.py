"""`edgetop relay`: the board's end of `edgetop attach ssh:HOST`. Frames on stdout, talk on stderr."""

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.errors import EXIT_DONE, InputError

if TYPE_CHECKING:
    from edgetop.session.batch import Batch
    from edgetop.session.events import JsonValue

GRACE_S = 10.0  # for an end in order
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
    from edgetop.control.client import give  # noqa: PLC0415  --help needs none of it
    from edgetop.relay.serve import Link, serve  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    clock = SystemClock()
    link = Link(sys.stdin.fileno(), sink, clock)
    threading.Thread(target=_end_with, args=(sys.stdin.fileno(), sink), daemon=True).start()
    serve(link, lambda: _find(session), give, clock, judge=_judge)
    return EXIT_DONE


def _end_with(source: int, sink: int) -> None:
    """End this process a while after the link, whatever it is busy with: only its reader wanted that.

    Asked for no event, poll(2) tells of an end alone.
    """
    poll = select.poll()
    poll.register(source, 0)
    poll.register(sink, 0)
    poll.poll()
    time.sleep(GRACE_S)
    os._exit(EXIT_DONE)


def _judge(batches: Iterator["Batch"], from_s: int) -> Mapping[str, "JsonValue"] | None:
    from edgetop.analysis.slowdowns.slowdowns import judged  # noqa: PLC0415  only where the past is long

    return judged(batches, from_s)


def _find(given: str | None) -> Path:
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.locate import locate_live  # noqa: PLC0415
    from edgetop.recording.registry import live  # noqa: PLC0415

    home = recordings_home()
    if given is None and (running := live(home)):
        return running[0][0]
    return locate_live(given, home)
