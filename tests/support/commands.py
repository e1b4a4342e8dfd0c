"""The command line as a user types it, in a process of its own."""

import atexit
import functools
import json
import os
import re
import select
import selectors
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

    What the start of a command costs and imports is tested where it is begun anew (`start_python`, `test_main`).
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
        self._lock = threading.Lock()
        self._said, self._started, self._ended = b"", [], {}
        atexit.register(self._end)

    def start(self, arguments, home, environment, *streams, is_session=False, has_terminal=False):
        """`is_session`: the process leads a session, whose terminal is its standard input if it `has_terminal`."""
        asked = {
            "arguments": arguments, "cwd": str(home), "environment": environment, "is_session": is_session,
            "has_terminal": has_terminal,
        }  # fmt: skip
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(asked).encode()], [stream.fileno() for stream in streams])
            while not self._started:
                self._listen(None)
            return Forked(self, self._started.pop())

    def status_of(self, pid, timeout):
        """The exit status of this process, or None where it does not end in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                self._listen(0)
                if pid in self._ended:
                    return self._ended.pop(pid)
            left = SLICE_S if until is None else min(SLICE_S, until - time.monotonic())
            if left <= 0:
                return None
            _wait_for(self._channel, left)  # without the lock: others may start, and hear of this one's end

    def _listen(self, timeout):
        if not _wait_for(self._channel, timeout):
            return
        *lines, self._said = (self._said + self._channel.recv(4096)).split(b"\n")
        for word, *numbers in map(bytes.split, lines):
            if word == b"started":
                self._started.append(int(numbers[0]))
            else:
                self._ended[int(numbers[0])] = int(numbers[1])

    def _end(self):
        self._channel.shutdown(socket.SHUT_RDWR)
        self._process.wait()


SLICE_S = 0.05  # after which a thread looks if another one has heard of what it waits for


def _wait_for(channel, timeout):
    poll = select.poll()  # unlike select, for descriptors above 1023
    poll.register(channel, select.POLLIN)
    return poll.poll(None if timeout is None else timeout * 1000)


class Forked:
    """Like a Popen of a process that the template has forked."""

    def __init__(self, template, pid):
        self._template, self.pid, self._said = template, pid, {}
        self.stdout = self.stderr = self.returncode = None

    def poll(self, timeout=0.0):
        if self.returncode is None:
            self.returncode = self._template.status_of(self.pid, timeout)
        return self.returncode

    def wait(self, timeout=None):
        if self.poll(timeout) is None:
            raise subprocess.TimeoutExpired("what was forked", timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """What it writes to its standard streams until it ends, as text; again, once it is over."""
        until = None if timeout is None else time.monotonic() + timeout
        self._said = self._said or dict.fromkeys((self.stdout, self.stderr), b"")
        with selectors.DefaultSelector() as selector:
            for stream in self._said:
                if not stream.closed:
                    selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                left = None if until is None else max(0.0, until - time.monotonic())
                if not (ready := selector.select(left)) and left == 0:
                    raise subprocess.TimeoutExpired("what was forked", timeout)
                for key, _ in ready:
                    piece = os.read(key.fd, 65_536)
                    self._said[key.fileobj] += piece
                    if not piece:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
        self.wait(None if until is None else max(0.0, until - time.monotonic()))
        return tuple(text.decode() for text in self._said.values())

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stdout.close()
        self.stderr.close()
        self.wait()


def complaints(done):
    """The lines on stderr, but for those that tell of a model which takes seconds to load, as on a busy machine."""
    return [line for line in done.stderr.splitlines() if not re.match(r"\d\d:\d\d:\d\d LOADING", line)]


def _text(file):
    file.seek(0)
    return file.read().decode()


def start_edgetop(*arguments, home, **more):
    """Starts it and returns at once: a process like that of `edgetop`, with pipes as its output."""
    (out, theirs_out), (err, theirs_err) = os.pipe(), os.pipe()
    with Path(os.devnull).open() as none, os.fdopen(theirs_out, "wb") as to_out, os.fdopen(theirs_err, "wb") as to_err:
        forked = template("commands").start(
            [*map(str, arguments)], home, environment(Path(home), **more), none, to_out, to_err
        )
    forked.stdout, forked.stderr = os.fdopen(out), os.fdopen(err)
    return forked


def start_python(*arguments, home, **more):
    """Starts edgetop in an interpreter of its own, which reads its environment (PYTHONPATH) anew."""
    return subprocess.Popen(
        [sys.executable, "-m", "edgetop", *map(str, arguments)],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(Path(home), **more),
    )
