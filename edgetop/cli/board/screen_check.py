"""The check whether edgetop's screen can be drawn. It draws a session in a pseudo-terminal."""

import time
from collections.abc import Mapping
from pathlib import Path

from edgetop.cli.board.own_terminal import ALTERNATE_SCREEN, OwnTerminal
from edgetop.cli.terminal import edgetop_command
from edgetop.doctor.check import Check, ok, problem
from edgetop.files import why
from edgetop.formatting import size

SCREEN = "screen"
ROWS, COLUMNS = 24, 80


def check_screen(session: Path, environment: Mapping[str, str], until_s: float) -> Check:
    """Replay the session on a screen of 80x24 until its latency is drawn. Return the result of this check.

    `environment` are the environment variables. The check gives up at `until_s`, a time of time.monotonic().
    """
    began_s = time.monotonic()
    try:
        terminal = OwnTerminal(edgetop_command("replay", str(session)), environment, COLUMNS, ROWS)
    except OSError as error:
        return problem(SCREEN, f"no pseudo-terminal can be opened: {why(error)}")
    try:
        is_drawn = terminal.read_until(lambda: ALTERNATE_SCREEN in terminal.output and b"p50" in terminal.text, until_s)
        sent, said = len(terminal.output), b" ".join(terminal.text.split()).decode("utf-8", "replace")
        has_opened = ALTERNATE_SCREEN in terminal.output
    finally:
        terminal.close()
    if is_drawn:
        took_s = time.monotonic() - began_s
        return ok(SCREEN, f"drew the session at {COLUMNS}x{ROWS} in {took_s:.1f} s, {size(sent)} sent")
    if has_opened:
        return problem(SCREEN, "opened, but did not draw the session in time")
    return problem(SCREEN, f"did not open: {said[:200] or 'edgetop replay printed nothing'}")
