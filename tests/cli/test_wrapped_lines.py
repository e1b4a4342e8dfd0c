"""Lines of text on terminals of any width."""

import fcntl
import os
import pty
import struct
import termios

import pytest

from edgetop.cli.output import text_columns, wrapped


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        ("80", ["  net: rx-bytes tx-bytes"]),
        ("16", ["  net: rx-bytes", "      tx-bytes"]),
        ("9", ["  net:", "      rx-bytes", "      tx-bytes"]),
        ("0", ["  net: rx-bytes tx-bytes"]),  # no terminal
    ],
)
def test_a_line_is_broken_at_spaces_to_fit_the_terminal(columns, lines, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.__stdout__", None)
    assert wrapped("  net: rx-bytes tx-bytes") == lines


def test_a_command_to_copy_is_not_broken(monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setattr("sys.__stdout__", None)
    command = "edgetop stop '/srv/my runs/one'"
    assert wrapped(f"  {command}     ends it", command) == [f"  {command}", "      ends it"]
    assert wrapped(f"more: {command}", command) == ["more:", f"    {command}"]


@pytest.mark.parametrize(("columns", "of_text"), [(200, 80), (80, 80), (57, 57), (9, 40), (0, 72)])
def test_text_has_the_present_width_of_the_terminal_whatever_it_was_at_the_start(columns, of_text, monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as terminal:
        monkeypatch.setenv("COLUMNS", "72")  # at the start
        monkeypatch.setattr("sys.stdout", terminal)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        assert text_columns() == of_text
