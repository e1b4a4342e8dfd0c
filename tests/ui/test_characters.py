"""What a terminal can draw, as its environment says."""

import os
import subprocess
import sys

import pytest
from rich.console import Console

from edgetop.ui.characters import choose_characters, choose_theme, is_plain, is_utf8


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "POSIX"}, False),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "en_GB.utf8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "de_DE@euro"}, False),
        ({"LC_CTYPE": "UTF-8"}, True),  # what macOS sends over SSH
        ({"LC_CTYPE": "de_DE.UTF-8", "LANG": "C"}, True),
        ({"LC_CTYPE": "C", "LANG": "de_DE.UTF-8"}, False),
        ({"LC_ALL": "C", "LC_CTYPE": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}, False),
        ({"LC_ALL": "de_DE.UTF-8", "LANG": "C"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "de_DE.UTF-8"}, True),
        # Python's own doing in a C locale (PEP 538), which says nothing of the terminal.
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": ""}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "POSIX"}, False),
        # Somebody's own, where the locale was not one that Python changes.
        ({"LC_CTYPE": "C.UTF-8", "LANG": "de_DE.ISO-8859-1"}, True),
        ({"LC_ALL": "C.UTF-8", "LC_CTYPE": "C.UTF-8"}, True),
    ],
)
def test_the_locale_says_whether_there_is_utf8(environment: dict[str, str], expected: bool) -> None:
    assert is_utf8(environment) is expected


def test_what_python_sets_in_a_c_locale_is_what_is_passed_over() -> None:
    """The real coercion, in a child that starts with no locale at all."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    code = "import os; print(os.environ.get('LC_CTYPE'), os.environ.get('LANG'))"
    child = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=True)
    ctype, lang = child.stdout.split()
    assert lang == "None"
    assert not is_utf8({} if ctype == "None" else {"LC_CTYPE": ctype})


@pytest.mark.parametrize("term", ["linux", "linux-16color", "vt100", "vt220", "dumb", "ansi"])
def test_a_console_gets_ascii_and_the_terminals_own_colours(term: str) -> None:
    environment = {"TERM": term, "LANG": "C.UTF-8"}
    assert is_plain(environment)
    assert choose_characters(ascii_asked=False, environment=environment).ascii_only
    assert choose_theme(environment) == "16"


@pytest.mark.parametrize("term", ["xterm-256color", "tmux-256color", "screen.xterm-256color", "xterm-kitty"])
def test_other_terminals_get_braille_and_colours(term: str) -> None:
    environment = {"TERM": term, "LANG": "C.UTF-8"}
    assert not choose_characters(ascii_asked=False, environment=environment).ascii_only
    assert choose_theme(environment) == "dark"


@pytest.mark.parametrize("term", ["xterm", "screen", "alacritty", "xterm-16color", ""])
def test_a_sixteen_colour_terminal_gets_its_own_sixteen_colours(term: str) -> None:
    environment = {"TERM": term, "LANG": "C.UTF-8"}
    assert not choose_characters(ascii_asked=False, environment=environment).ascii_only
    assert choose_theme(environment) == "16"
    assert choose_theme({**environment, "COLORTERM": "truecolor"}) == "dark"
    assert Console(force_terminal=True, _environ=environment).color_system in ("standard", "16")


def test_no_color_is_heeded_where_it_says_something() -> None:
    environment = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
    assert choose_theme({**environment, "NO_COLOR": "1"}) == "mono"
    assert choose_theme({**environment, "NO_COLOR": ""}) == "dark"


def test_without_utf8_or_where_asked_for_it_is_ascii() -> None:
    assert choose_characters(ascii_asked=False, environment={"TERM": "xterm"}).ascii_only
    assert choose_characters(ascii_asked=True, environment={"TERM": "xterm", "LANG": "C.UTF-8"}).ascii_only
