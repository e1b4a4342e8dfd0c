"""A session as lines, to its end."""

import fcntl
import os
import struct
import sys
import termios

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.cli.headless import follow
from edgetop.session.seconds import NS
from tests.support.scripts import ListFeed, measured, throttled_by


def test_it_follows_to_the_end_in_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    script = measured(5).end()
    follow(ListFeed(script.batches, ends=True), Analysis(), live_ns=2 * NS)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert "Measuring" in lines[0] or "Loading" in lines[0]
    assert "Finished" in lines[-1]
    assert all(line.isprintable() for line in lines)


def test_a_signal_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    follow(ListFeed(measured(5).batches), Analysis(), lambda: True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("live_ns", [None, 2 * NS])
def test_ascii_holds_for_lines_as_well(live_ns: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    dropped = measured(5).tell("provider-dropped", "critical", message="caf\u00e9 85 \u00b0C")
    feed = ListFeed([dropped.whole()], ends=True)
    follow(feed, Analysis(), live_ns=live_ns, ascii_only=True)
    err = capsys.readouterr().err
    assert err.isascii()
    assert "caf? 85 C" in err


def test_the_bar_never_wraps_for_then_it_could_not_be_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with open(theirs, "w") as terminal:  # noqa: PTH123  of a descriptor
        monkeypatch.setattr(sys, "stderr", terminal)
        follow(ListFeed([throttled_by("x" * 200).whole()], ends=True), Analysis())
        terminal.flush()
        drawn = os.read(ours, 65536).decode().split("\r")
    os.close(ours)
    lines = [line.removesuffix("\x1b[K") for line in drawn if line.strip()]
    assert max(map(len, lines)) == 39
    assert lines[0].endswith(">")
