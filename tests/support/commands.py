"""The command line as a user types it, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import scaled


def environment(home, **more):
    """This process's, with recordings and settings under `home`."""
    return {**os.environ, "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config"), **more}


def edgetop(*arguments, home, timeout=60, **more):
    """Runs to the end, in the folder `home`."""
    return subprocess.run(  # noqa: PLW1510  callers look at the exit status
        [sys.executable, "-m", "edgetop", *map(str, arguments)],
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=scaled(timeout),
        env=environment(Path(home), **more),
    )


def start_edgetop(*arguments, home, **more):
    """Starts it and returns at once."""
    return subprocess.Popen(
        [sys.executable, "-m", "edgetop", *map(str, arguments)],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(Path(home), **more),
    )
