"""Finds the session that a command is about: the one that the user named, the newest, or a running one."""

import sys
from pathlib import Path

import click

from edgetop import formatting
from edgetop.cli.output import print_text
from edgetop.errors import InputError
from edgetop.paths import recordings_home
from edgetop.recording.registry import all_sessions, live_sessions, locate, locate_live, newest_first
from edgetop.recording.session_folder import SUFFIX
from edgetop.session.manifest import Manifest


def recorded(given: str | None) -> Path:
    """Return the folder of the recorded session `given`, a name, path or id.

    None means the newest session, whose name is then printed to stderr. Raises InputError if there is no session.
    """
    if given is not None:
        return locate(given, recordings_home())
    sessions = newest_first(all_sessions(recordings_home(), Path.cwd()))
    if not sessions:
        raise InputError("there is no recorded session", "edgetop demo records one")
    return _say(*sessions[0])


def running(given: str | None, *, newest: bool) -> Path:
    """Return the folder of the running session `given`, a name, path or id.

    If `given` is None, return the only running session. If several sessions run, the user chooses one on the terminal.
    With `newest`, the newest session is the default of this choice, and the name of the only session is printed. Raises
    InputError if there is no session, or no terminal to choose on.
    """
    home = recordings_home()
    sessions = live_sessions(home, Path.cwd()) if given is None else []
    if len(sessions) > 1 and sys.stdin.isatty() and sys.stderr.isatty():
        print_text(f"{len(sessions)} sessions run now:", err=True)
        for number, one in enumerate(sessions, 1):
            print_text(f"{number:>3}  {_words(*one)}", err=True)
        place = ask_which(len(sessions), default="1" if newest else None)
        if place is None:
            raise InputError("no session was chosen", "edgetop sessions lists them")
        return sessions[place][0]
    if len(sessions) == 1 and newest:
        return _say(*sessions[0])
    return locate_live(given, home)


def ask_which(count: int, default: str | None = None) -> int | None:
    """Ask the user to choose one of `count` numbered things. Return its index from 0, or None if the user cancels.

    `default` is the number that Enter chooses, such as `"1"` for the first thing; None for no default.
    """

    def place(answer: str) -> int | None:
        text = answer.strip().lower()
        if text in ("q", "\x1b"):
            return None
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= count):
            raise click.UsageError(f"type a number from 1 to {count}, or q")
        return int(text) - 1

    try:
        chosen: int | None = click.prompt("Which one (q: none)", value_proc=place, default=default, err=True)
    except click.Abort:
        return None
    return chosen


def _say(folder: Path, manifest: Manifest) -> Path:
    print_text(f"edgetop: {_words(folder, manifest)}", err=True)
    return folder


def _words(folder: Path, manifest: Manifest) -> str:
    began = manifest.created_utc[:16].replace("T", " ")
    return formatting.clean(f"{folder.name.removesuffix(SUFFIX)}, began {began} UTC, {Path(manifest.model.path).name}")
