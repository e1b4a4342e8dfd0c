"""Draw a recorded session on the screen, in a pseudo-terminal that nobody sees."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from edgetop.cli.terminal import edgetop_command
from edgetop.doctor.check import Check, ok, problem
from edgetop.formatting import size

SCREEN = "screen"
ROWS, COLUMNS = 24, 80
MAX_BYTES = 4 * 1024 * 1024  # a hundred times what the first screen takes
LOOK_S = 0.2
LEAVE_S = 2.0
_ALTERNATE = b"\x1b[?1049h"
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX^_\]].*?(?:\x07|\x1b\\)|[@-Z\\-_])", re.DOTALL)


def check_screen(session: Path, environment: Mapping[str, str], until_s: float) -> Check:
    """Replay a session at 80x24 until its latency is drawn. `until_s`: time of time.monotonic at which to give up."""
    began_s = time.monotonic()
    terminal, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(  # noqa: S603  this very program
            edgetop_command("replay", str(session)),
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**_without_size(environment), "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    finally:
        os.close(theirs)
    try:
        drawn = _drawn(terminal, until_s)
    finally:
        _end(process)
        os.close(terminal)
    if _is_whole(drawn):
        took_s = time.monotonic() - began_s
        return ok(SCREEN, f"drew the session at {COLUMNS}x{ROWS} in {took_s:.1f} s, {size(len(drawn))} sent")
    if _ALTERNATE in drawn:
        return problem(SCREEN, "opened, but did not draw the session in time")
    said = b" ".join(_ESCAPES.sub(b"", drawn).split()).decode("utf-8", "replace")
    return problem(SCREEN, f"did not open: {said[:200] or 'edgetop replay printed nothing'}")


def _drawn(terminal: int, until_s: float) -> bytes:
    """Read the terminal until the screen is whole, the program has ended, or the time is over."""
    drawn = b""
    while not _is_whole(drawn) and len(drawn) < MAX_BYTES and (left_s := until_s - time.monotonic()) > 0:
        if select.select([terminal], [], [], min(LOOK_S, left_s))[0]:
            try:
                drawn += os.read(terminal, 65536)
            except OSError:  # EIO: the program has ended
                break
    return drawn


def _is_whole(drawn: bytes) -> bool:
    """Whether the latency of the session is on the screen."""
    _, opened, screen = drawn.partition(_ALTERNATE)
    return bool(opened) and b"p50" in _ESCAPES.sub(b"", screen)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(LEAVE_S)
    process.kill()
    process.wait()


def _without_size(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
