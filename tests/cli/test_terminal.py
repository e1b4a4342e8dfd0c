"""Letting go of a terminal: what it says goes to a file that does not grow for ever."""

import os
import stat
import sys
from pathlib import Path

import pytest

from edgetop.cli.terminal import KEPT_LOG_BYTES, MAX_LOG_BYTES, trim_log
from tests.support.terminal import Terminal

pytestmark = pytest.mark.slow

LET_GO = """
import os, sys
from pathlib import Path
from edgetop.cli.terminal import Terminal
terminal, copy = Terminal(), os.dup(1)
pipe = os.pipe()[1]
print("before", flush=True)
terminal.release(Path(sys.argv[1]))
print("after", flush=True)
os.write(copy, b"copy\\n")
assert not any(map(os.isatty, (0, 1, 2, copy)))
assert sys.stdin.read() == ""
os.fstat(pipe)
"""


def test_every_descriptor_of_the_terminal_is_let_go_and_no_other(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    terminal = Terminal([sys.executable, "-c", LET_GO, str(log)], 80, 24, {})
    try:
        assert terminal.wait_for_exit() == 0
        assert terminal.text.split() == ["before"]
        assert log.read_text().split() == ["after", "copy"]
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
    finally:
        terminal.close()


DRAWN_TOO_LATE = """
import contextlib, os, signal, sys
from pathlib import Path
from edgetop.cli.terminal import Terminal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
terminal = Terminal()
print("drawing", flush=True)
with contextlib.suppress(OSError):
    while os.read(0, 1):  # until it hangs up
        pass
for stream in (sys.stderr, sys.__stdout__):
    with contextlib.suppress(OSError):
        stream.write("\\x1b[2Jlast picture")
        stream.flush()
terminal.release(Path(sys.argv[1]))
print("after", flush=True)
print("after", file=sys.stderr, flush=True)
"""


def test_unsent_output_of_a_closed_terminal_is_not_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    terminal = Terminal([sys.executable, "-c", DRAWN_TOO_LATE, str(log)], 80, 24, {"PYTHONUNBUFFERED": ""})
    terminal.wait_for("drawing")
    terminal.hang_up()
    assert terminal.wait_for_end() == 0
    terminal.close()
    assert log.read_text() == "after\nafter\n"


def test_a_long_log_keeps_its_end_and_is_written_on(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    lines = [f"{number:07}\n" for number in range(MAX_LOG_BYTES // 8 + 1)]
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, "".join(lines[:-1]).encode())
    trim_log(log)
    assert log.stat().st_size == MAX_LOG_BYTES
    os.write(fd, lines[-1].encode())
    trim_log(log)
    os.write(fd, b"more\n")
    os.close(fd)
    kept = log.read_text().splitlines(keepends=True)
    assert kept[:-1] == lines[-len(kept) + 1 :]
    assert KEPT_LOG_BYTES - 8 <= log.stat().st_size <= KEPT_LOG_BYTES + 8


def test_a_log_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"x" * (MAX_LOG_BYTES + 1))
    (tmp_path / "run.log").symlink_to(tmp_path / "other")
    trim_log(tmp_path / "run.log")
    trim_log(tmp_path / "none")
    assert (tmp_path / "other").stat().st_size == MAX_LOG_BYTES + 1
