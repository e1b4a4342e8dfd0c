"""Notifications through the terminal: its bell, and the escape sequences that terminals show as desktop notifications.

The screen stays unchanged. Text in a notification is cleaned and cut, so that it cannot act as a sequence itself.
Terminals know one of two sequences, and skip the other: OSC 9 (iTerm2, "Proprietary escape codes") and OSC 777
(rxvt-unicode, its perl extension `osc-notify`). tmux knows neither. It passes on a wrapped sequence to the terminal
around it, if `allow-passthrough` is set (tmux(1)). GNU screen and plain consoles only get the bell.
"""

from collections.abc import Mapping

from edgetop.formatting import clean

BELL = "\a"
MOST_CHARACTERS = 160
_ESC, _ST = "\x1b", "\x1b\\"
_BELL_ALONE = ("dumb", "linux", "vt", "screen", "cons", "ansi", "unknown")  # beginnings of TERM


def notification(title: str, text: str, environment: Mapping[str, str]) -> str:
    r"""Return the characters that make a terminal show a notification: the bell, then OSC 9, then OSC 777.

    `environment` are the environment variables that describe the terminal (TERM, TMUX). A plain console, such as
    `linux`, gets only the bell.

    >>> notification("edgetop", "hot; 82 C\x1b[2J", {"TERM": "xterm"})
    '\x07\x1b]9;edgetop: hot, 82 C\\x1b[2J\x1b\\\x1b]777;notify;edgetop;hot, 82 C\\x1b[2J\x1b\\'
    >>> notification("edgetop", "hot", {"TERM": "linux"})
    '\x07'
    """
    term, is_tmux = environment.get("TERM", ""), bool(environment.get("TMUX"))
    if not term or (term.startswith(_BELL_ALONE) and not is_tmux):
        return BELL
    title, text = _harmless(title), _harmless(text)
    sequence = f"{_ESC}]9;{title}: {text}{_ST}{_ESC}]777;notify;{title};{text}{_ST}"
    if is_tmux:
        sequence = f"{_ESC}Ptmux;{sequence.replace(_ESC, _ESC * 2)}{_ST}"
    return BELL + sequence


def _harmless(text: str) -> str:
    """Return a text as one short line without semicolons, because semicolons separate the fields of OSC 777."""
    shown = clean(text).replace(";", ",")
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 3]}..."
