"""The command line as a user types it, in a process of its own."""

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
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
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open() as none:
        started = template("commands").start(
            [*map(str, arguments)], home, environment(Path(home), **more), none, out, err
        )
        try:
            status = started.wait(scaled(timeout))
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait(scaled(timeout))
            raise
        return subprocess.CompletedProcess(arguments, status, *(_text(file) for file in (out, err)))


@functools.cache
def template(name):
    """The process of `command_template` that runs this, for as long as this one lives."""
    return _Template(name)


class _Template:
    def __init__(self, name):
        self._channel, theirs = socket.socketpair()
        program = [sys.executable, "-m", "tests.support.command_template", name]
        self._process = subprocess.Popen(program, cwd=ROOT, stdin=theirs, stdout=subprocess.DEVNULL)
        theirs.close()
        self._is_free = threading.Lock()
        atexit.register(self._end)

    def start(self, arguments, home, environment, *streams, is_session=False):
        """One at a time: the next when this one has been waited for."""
        self._is_free.acquire()
        asked = {"arguments": arguments, "cwd": str(home), "environment": environment, "is_session": is_session}
        socket.send_fds(self._channel, [json.dumps(asked).encode()], [stream.fileno() for stream in streams])
        return _Forked(self._channel, self._is_free)

    def _end(self):
        self._channel.shutdown(socket.SHUT_RDWR)
        self._process.wait()


class _Forked:
    """Like a Popen of a process that the template has forked."""

    def __init__(self, channel, is_free):
        self._channel, self._is_free, self._said = channel, is_free, b""
        self.returncode = None
        self.pid = int(self._line(None))

    def _line(self, timeout):
        """The next one; None where none comes in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._said:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._channel], [], [], left)[0]:
                return None
            self._said += self._channel.recv(4096)
        line, _, self._said = self._said.partition(b"\n")
        return line

    def poll(self, timeout=0.0):
        if self.returncode is None and (line := self._line(timeout)) is not None:
            self.returncode = int(line)
            self._is_free.release()
        return self.returncode

    def wait(self, timeout=None):
        if self.poll(timeout) is None:
            raise subprocess.TimeoutExpired("what was forked", timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


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
