"""The command line as a user types it, in a process of its own."""

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.support.waiting import scaled

ROOT = Path(__file__).parents[2]


def environment(home, **more):
    """This process's, with recordings and settings under `home`."""
    return {**os.environ, "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config"), **more}


def edgetop(*arguments, home, timeout=60, **more):
    """Runs to the end, in the folder `home`: a process of its own, forked off one that has imported edgetop.

    What the start of a command costs and imports is tested where it is begun anew (`start_edgetop`, `test_main`).
    """
    return _template().run([*map(str, arguments)], home, environment(Path(home), **more), scaled(timeout))


@functools.cache
def _template():
    return _Template()


class _Template:
    """The process of `command_template`, for as long as this one lives."""

    def __init__(self):
        self._channel, theirs = socket.socketpair()
        program = [sys.executable, "-m", "tests.support.command_template"]
        self._process = subprocess.Popen(program, cwd=ROOT, stdin=theirs, stdout=subprocess.DEVNULL)
        theirs.close()
        self._answers = self._channel.makefile("r")
        self._is_free = threading.Lock()
        atexit.register(self._end)

    def run(self, arguments, home, environment, timeout):
        asked = {"arguments": arguments, "cwd": str(home), "environment": environment}
        with (
            self._is_free,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            Path(os.devnull).open() as none,
        ):
            socket.send_fds(self._channel, [json.dumps(asked).encode()], [none.fileno(), out.fileno(), err.fileno()])
            pid = int(self._answers.readline())
            watch = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
            watch.start()
            status = int(self._answers.readline())
            watch.cancel()
            said = [_text(file) for file in (out, err)]
        assert status != -signal.SIGKILL, f"not over after {timeout} s: {said}"
        return subprocess.CompletedProcess(arguments, status, *said)

    def _end(self):
        self._channel.shutdown(socket.SHUT_RDWR)
        self._process.wait()


def _text(file):
    file.seek(0)
    return file.read().decode()


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
