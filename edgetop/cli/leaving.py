"""Before a run that may outlive its terminal: the launcher and a scope. After it: how to come back."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetop.cli.logout import move_into_scope, outlook
from edgetop.cli.output import print_text
from edgetop.cli.terminal import Terminal, split
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.sensors.root import Root


def terminal_for(options: Mapping[str, Any]) -> Terminal:
    """Call this before anything else is loaded."""
    has_screen = not options["headless"] and sys.stdin.isatty() and sys.stderr.isatty()
    if options["no_record"] or not (options["detach"] or has_screen):
        return Terminal()
    found = outlook(Root(), os.geteuid())
    if found.said:
        print_text(f"edgetop: {found.said}", err=True)
    if found.command:
        move_into_scope(found.command)
    return split()


def how_to_come_back(folder: Path) -> str:
    """Three lines that say how to attach to a run that continues, and how to stop it."""
    name = clean(shlex.quote(_shortest_name(folder)))
    return (
        f"edgetop: the run goes on, recorded in {clean(str(folder))}\n"
        f"  edgetop attach {name}   shows it again\n"
        f"  edgetop stop {name}     ends it"
    )


def _shortest_name(folder: Path) -> str:
    """The shortest name or path that finds that session from anywhere."""
    from edgetop.paths import recordings_home  # noqa: PLC0415  the launcher needs none of it
    from edgetop.recording.files import SUFFIX  # noqa: PLC0415
    from edgetop.recording.registry import locate  # noqa: PLC0415

    name = folder.name.removesuffix(SUFFIX)
    try:
        is_it = locate(name, recordings_home()).resolve() == folder.resolve()
    except InputError:
        is_it = False
    return name if is_it and not name.startswith("-") else str(folder)
