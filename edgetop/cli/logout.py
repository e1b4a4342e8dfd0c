"""A run that must outlive a logout, on a machine where logging out ends the processes of the user.

There it is started in a scope of the user's own systemd manager (systemd-run(1)), whose processes
are not those of the session that ends. The manager itself ends with the user's last session
unless he lingers (loginctl(1)).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetop.doctor.check import BOOTED
from edgetop.doctor.logout import ask, lingers
from edgetop.sensors.root import Root

IN_SCOPE = "EDGETOP_IN_SCOPE"  # the environment of a run that was started so
PROBE_TIMEOUT_S = 10.0
LINGER = "loginctl enable-linger"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a logout would do to the run."""

    command: tuple[str, ...] = ()  # to start it in place of this process; (): as it is
    said: str = ""  # to the user; "": all is well


def outlook(root: Root, uid: int, environment: Mapping[str, str] = os.environ) -> Outlook:
    """`root`: of the machine that the run is on, never a captured board."""
    if uid == 0 or environment.get(IN_SCOPE) or not root.exists(BOOTED) or not ask(root):
        return Outlook()
    if _is_under_own_manager(root):
        return Outlook()
    stays = lingers(root, uid)
    program = shutil.which("systemd-run", path=environment.get("PATH"))
    if program is None:
        why = "a logout ends this run (KillUserProcesses=yes), and there is no systemd-run to prevent it"
        return Outlook(said=f"{why}: stay logged in, or set KillUserProcesses=no in /etc/systemd/logind.conf")
    scope = (program, "--user", "--scope", "--quiet", "--collect")
    if not _works(scope, environment):
        why = "a logout ends this run (KillUserProcesses=yes), and systemd-run --user --scope fails here"
        return Outlook(said=f"{why}: {LINGER}, log in anew and start it again")
    manager = "" if stays else f"; it ends with your last session, unless you linger: {LINGER}"
    said = f"started under your own systemd manager, since a logout ends every process of a session{manager}"
    return Outlook((*scope, "--"), said)


def _is_under_own_manager(root: Root) -> bool:
    try:
        return "/user@" in root.read_text("proc/self/cgroup")
    except OSError:
        return False


def _works(scope: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Whether a scope can be had, before this process is given up for one."""
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


def move_into_scope(command: tuple[str, ...]) -> None:
    """Become the same command line, started by `command`; the terminal and the streams stay. Raises OSError."""
    os.execve(  # noqa: S606  no shell is meant
        command[0], [*command, *own_command()], {**os.environ, IN_SCOPE: "1"}
    )


def own_command() -> list[str]:
    """How this process was started, with the interpreter's whole path."""
    return [sys.executable or str(Path(sys.orig_argv[0])), *sys.orig_argv[1:]]
