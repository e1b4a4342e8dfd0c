"""`edgetop relay`: the remote end of `edgetop attach ssh:HOST`. Sends a session on stdout, and messages on stderr."""

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli.terminal import edgetop_command
from edgetop.engines.child.descriptors import until_readable
from edgetop.errors import EXIT_DONE, EdgetopError, InputError

if TYPE_CHECKING:
    from edgetop.recording.session_folder import FolderHandle
    from edgetop.relay.relay_frames import Frame
    from edgetop.wording.board_summary import Summaries

GRACE_S = 10.0  # time for a clean end
ALIVE_EVERY_S = 5.0
NICENESS = 10  # the model has priority


@click.command("relay")
@click.argument("session", required=False)
@click.option("--past", is_flag=True, hidden=True, help="Write what has been recorded so far, and exit.")
def command(session: str | None, *, past: bool) -> int:
    """Stream SESSION, by default the newest running one, to the edgetop that started this over ssh.

    The command exits when its standard input is closed. No port is opened.
    """
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise InputError("relay talks to another edgetop, not to a person", "edgetop attach ssh:HOST starts it")
    if not past:  # the process for the past inherits this setting
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
    source, sink = sys.stdin.fileno(), os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # stray prints must not get between the messages of the relay
    threading.Thread(target=_end_with, args=(source, sink), daemon=True).start()
    if past and session:
        _write_past(Path(session), sink)
        return EXIT_DONE
    from edgetop.control.control_socket import give  # noqa: PLC0415  --help needs none of it
    from edgetop.relay.serve import Link, serve  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    clock = SystemClock()
    serve(Link(source, sink, clock), lambda: _find(session), give, _read_past, clock, summarize=_summarize)
    return EXIT_DONE


def _end_with(source: int, sink: int) -> None:
    """Wait until the other end has closed the ssh connection. Then end this process after 10 s.

    `source` is the file descriptor from which the connection is read, and `sink` the one to which it is written.
    """
    poll = select.poll()
    poll.register(source, 0)
    poll.register(sink, 0)
    poll.poll()
    time.sleep(GRACE_S)
    os._exit(EXIT_DONE)


def _find(given: str | None) -> Path:
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.registry import live_sessions, locate_live, successor  # noqa: PLC0415
    from edgetop.recording.session_folder import is_live  # noqa: PLC0415

    home = recordings_home()
    if given is None and (running := live_sessions(home)):
        return running[0][0]
    folder = newest = locate_live(given, home)
    while following := successor(newest):  # a viewer that reconnects asks for the last session it saw
        newest = following
    return newest if is_live(newest) else folder


def _summarize(gates: Sequence[str]) -> "Summaries":
    from edgetop.wording.board_summary import Summaries  # noqa: PLC0415  an attached screen judges by itself

    return Summaries(gates)


def _write_past(folder: Path, sink: int) -> None:
    from edgetop.analysis.slowdowns.slowdowns import judged  # noqa: PLC0415
    from edgetop.relay import relay_frames  # noqa: PLC0415
    from edgetop.relay.past import past_frames  # noqa: PLC0415

    with contextlib.suppress(BrokenPipeError), open(sink, "wb", buffering=0) as to:
        to.write(relay_frames.hello())
        try:
            to.writelines(relay_frames.seal(frame.kind, frame.payload) for frame in past_frames(folder, judged))
        except EdgetopError as error:
            to.write(relay_frames.pack_message(relay_frames.FAILED, message=str(error)))


def _read_past(folder: "FolderHandle") -> Iterator["Frame"]:
    """Yield the messages with all that the session in `folder` has recorded so far.

    Another process reads the recording, and frees its memory when it ends. Raises EdgetopError if that process fails.
    """
    from edgetop.relay import relay_frames  # noqa: PLC0415

    line = edgetop_command("relay", "--past", str(folder.name))
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)  # noqa: S603  our own
    assert process.stdout
    parser = relay_frames.FrameParser()
    try:
        while True:
            if not until_readable(process.stdout.fileno(), ALIVE_EVERY_S):
                yield relay_frames.Frame(relay_frames.ALIVE, b"{}")
            elif data := process.stdout.read(65_536):
                yield from (frame for frame in parser.feed(data) if frame.kind != relay_frames.HELLO)
            elif code := process.wait():
                raise EdgetopError(f"{folder.name}: the process that reads its past ended with exit code {code}")
            else:
                return
    finally:
        process.kill()
        process.communicate()
