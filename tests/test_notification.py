"""What a terminal is sent for a person: one bell, two sequences, and no text that acts."""

import re

import pytest

from edgetop.notification import BELL, MOST_CHARACTERS, notification
from tests.support.scripts import HOSTILE

XTERM = {"TERM": "xterm-256color"}
SEQUENCES = re.compile(
    r"\a\x1b\]9;(?P<nine>[^\x00-\x1f\x7f-\x9f]*)\x1b\\\x1b\]777;notify;(?P<title>[^\x00-\x1f\x7f-\x9f;]*);"
    r"(?P<text>[^\x00-\x1f\x7f-\x9f;]*)\x1b\\"
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_foreign_text_is_one_short_line_that_does_nothing(hostile: str) -> None:
    match = SEQUENCES.fullmatch(notification(hostile, f"a;{hostile}", XTERM))
    assert match
    assert all(len(field) <= MOST_CHARACTERS for field in (match["title"], match["text"]))


@pytest.mark.parametrize("term", ["", "dumb", "linux", "vt220", "screen.xterm-256color"])
def test_a_plain_console_rings_and_shows_nothing(term: str) -> None:
    assert notification("edgetop", "hot", {"TERM": term}) == BELL


def test_tmux_hands_it_on_to_the_terminal_around_it() -> None:
    told = notification("edgetop", "hot", {"TERM": "screen-256color", "TMUX": "/tmp/tmux-0/default,1,0"})
    assert told.startswith("\a\x1bPtmux;\x1b\x1b]9;")
    assert told.endswith("\x1b\x1b\\\x1b\\")
    assert SEQUENCES.fullmatch(
        "\a" + told.removeprefix("\a\x1bPtmux;").removesuffix("\x1b\\").replace("\x1b\x1b", "\x1b")
    )
