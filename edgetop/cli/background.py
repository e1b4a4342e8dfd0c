"""A run that continues in the background: what it needs before it starts, and how the user comes back to it.

On a machine where logging out ends the processes of the user, the run is started in a scope of the user's own
systemd manager (systemd-run(1)), whose processes are not those of the session that ends. The manager itself
ends with the user's last session unless lingering is enabled (loginctl(1)).
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetop.cli.output import print_text
from edgetop.cli.terminal import Terminal, split
from edgetop.doctor.check import BOOTED
from edgetop.doctor.logout import ask, lingers
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.sensors.root import Root

IN_SCOPE = "EDGETOP_IN_SCOPE"  # in the environment of a run that was started so
PROBE_TIMEOUT_S = 10.0
LINGER = "loginctl enable-linger"


def terminal_for(options: Mapping[str, Any]) -> Terminal:
    """Prepare a run that may outlive its terminal. Call this before anything else is loaded."""
    has_screen = not options["headless"] and sys.stdin.isatty() and sys.stderr.isatty()
    if options["no_record"] or not (options["detach"] or has_screen):
        return Terminal()
    effect = logout_effect(Root(), os.geteuid())
    if effect.message:
        print_text(f"edgetop: {effect.message}", err=True)
    if effect.command:
        move_into_scope(effect.command)
    return split()


def move_into_scope(command: tuple[str, ...]) -> None:
    """Become the same command line, started by `command`; the terminal and the streams stay. Raises OSError."""
    os.execve(  # noqa: S606  no shell is meant
        command[0], [*command, *own_command()], {**os.environ, IN_SCOPE: "1"}
    )


def own_command() -> list[str]:
    """Return the command line of this process, with the interpreter's whole path."""
    return [sys.executable or str(Path(sys.orig_argv[0])), *sys.orig_argv[1:]]


@dataclass(frozen=True, slots=True)
class LogoutEffect:
    """The effect that a logout would have on the run."""

    command: tuple[str, ...] = ()  # the prefix to start it again with; (): as it is
    message: str = ""  # for the user; "": all is well


def logout_effect(root: Root, uid: int, environment: Mapping[str, str] = os.environ) -> LogoutEffect:
    """`root`: of the machine that the run is on, never a captured board."""
    if uid == 0 or environment.get(IN_SCOPE) or not root.exists(BOOTED) or not ask(root):
        return LogoutEffect()
    if "/user@" in root.text("proc/self/cgroup"):  # the user's own manager started it
        return LogoutEffect()
    stays = lingers(root, uid)
    program = shutil.which("systemd-run", path=environment.get("PATH"))
    if program is None:
        why = "a logout ends this run (KillUserProcesses=yes), and there is no systemd-run to prevent it"
        return LogoutEffect(message=f"{why}: stay logged in, or set KillUserProcesses=no in /etc/systemd/logind.conf")
    scope = (program, "--user", "--scope", "--quiet", "--collect")
    if not _works(scope, environment):
        why = "a logout ends this run (KillUserProcesses=yes), and systemd-run --user --scope fails here"
        return LogoutEffect(message=f"{why}: {LINGER}, log in anew and start it again")
    manager = "" if stays else f"; it ends with your last session, unless you linger: {LINGER}"
    message = f"started under your own systemd manager, since a logout ends every process of a session{manager}"
    return LogoutEffect((*scope, "--"), message)


def _works(scope: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Whether a scope can be created, before this process is given up for one."""
    try:
        done = subprocess.run(  # noqa: S603  the user's own systemd-run
            [*scope, "--", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
            env=dict(environment),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def how_to_come_back(folder: Path) -> str:
    """Three lines that say how to attach to a run that continues, and how to stop it."""
    from edgetop.paths import recordings_home  # noqa: PLC0415  the launcher needs none of it
    from edgetop.recording.files import SUFFIX  # noqa: PLC0415
    from edgetop.recording.registry import locate  # noqa: PLC0415

    name = folder.name.removesuffix(SUFFIX)
    try:
        is_unique = not name.startswith("-") and locate(name, recordings_home()).resolve() == folder.resolve()
    except InputError:
        is_unique = False
    shown = clean(shlex.quote(name if is_unique else str(folder)))
    return (
        f"edgetop: the run goes on, recorded in {clean(str(folder))}\n"
        f"  edgetop attach {shown}   shows it again\n"
        f"  edgetop stop {shown}     ends it"
    )
