"""Call functions in forked processes, so that one that crashes, hangs or prints harms no other.

The process that forks must have only one thread, so it must not have imported a runtime.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import time
from typing import Any, Callable

from .descriptors import until_readable
from .engine_error import typed_line

POLL_S = 0.05
MOST_BYTES = 1 << 20  # size of an answer
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class CallFailedError(Exception):
    """Raised if a forked process gave no answer. The message says why."""


class ForkedCall:
    """A call that runs in a process of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        """Start the process. `call` returns a value that JSON can hold. What it prints goes to stderr."""
        self._data_fd, write_fd = os.pipe()
        self._has_ended = False
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _end_with(parent)
            _answer(call, self._data_fd, write_fd)
        os.close(write_fd)

    def result(self, until_s: float) -> Any:
        """Return what the call returned, and end its process with the processes that it started.

        `until_s` is the time of `time.monotonic`, in s, until which to wait. Raises CallFailedError if the call raised
        an exception, if its process ended without an answer, or if the time is over.
        """
        begin_s = time.monotonic()
        try:
            data = self._received(until_s)
            status = self._exit_words()
        finally:
            self.end()
        try:
            answer = json.loads(data)
        except ValueError:
            raise CallFailedError(status or "it said nothing for %.0f s" % (time.monotonic() - begin_s)) from None
        if "raised" in answer:
            raise CallFailedError(answer["raised"])
        return answer["returned"]

    def _received(self, until_s: float) -> bytes:
        """Return what the process has written: a whole line, or less if the process ends or the time `until_s` comes
        first.
        """
        data = b""
        while not data.endswith(b"\n") and len(data) < MOST_BYTES:
            has_ended = bool(self._exit_words())  # asked before the read, which then gets all that it has written
            if until_readable(self._data_fd, 0.0 if has_ended else POLL_S):
                piece = os.read(self._data_fd, 65536)
                if piece:
                    data += piece
                    continue
                if not has_ended:  # it has closed the pipe and will end, or hang
                    time.sleep(POLL_S)
            if has_ended or time.monotonic() > until_s:
                break
        return data

    def _exit_words(self) -> str:
        """Return how the process ended, in words, or "" if it still runs. The process is not reaped."""
        found = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return ""
        if found.si_code == os.CLD_EXITED:
            return "it ended the process with exit status %d" % found.si_status
        return "it crashed: %s" % signal.Signals(found.si_status).name

    def end(self) -> None:
        """End the process and the processes that it started. Do nothing if it was ended before."""
        if self._has_ended:
            return
        self._has_ended = True
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)  # not reaped yet, so the number is still that of its group
        with contextlib.suppress(OSError):
            os.waitpid(self._pid, 0)
        os.close(self._data_fd)


def _end_with(parent: int) -> None:
    """Make the kernel kill this process when the process `parent`, which has forked it, ends (prctl(2)).

    A signal to the group of the parent does not reach this process, which has a group of its own.
    """
    with contextlib.suppress(OSError, AttributeError):  # not Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel knew
        os._exit(1)


def _answer(call: Callable[[], Any], read_fd: int, write_fd: int) -> None:
    """Write what `call` returns to the descriptor `write_fd`, as a line of JSON, and exit the process."""
    try:
        os.close(read_fd)
        os.setsid()  # a group of its own, which is ended as a whole
        os.dup2(2, 1)  # what it prints must not stand before the answer of the process that has forked
        line = json.dumps({"returned": call()})
    except BaseException as error:  # SystemExit too: a runtime that calls exit() does not load
        line = json.dumps({"raised": typed_line(error)})
    with contextlib.suppress(OSError):
        data = line.encode() + b"\n"
        while data:
            data = data[os.write(write_fd, data) :]
    os._exit(0)  # without the destructors of a runtime, which may crash
