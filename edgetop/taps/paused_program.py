"""Start a program so that it is ready, but executes its first instruction only when it is told to.

Until then, its cgroups can be found and their counters read, so that what edgetop itself uses to start the program does
not count as use of the program. A small process (`starter.py`) forks the program, and ends. The program then becomes a
child of edgetop (PR_SET_CHILD_SUBREAPER, prctl(2)). If edgetop forked the program itself, the peak that the kernel
reports for the program's memory would never be below edgetop's own memory (exec_mmap of fs/exec.c).
"""

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from edgetop.errors import InputError
from edgetop.taps.starter import GO

STARTER = Path(__file__).with_name("starter.py")
MOST_ANSWER = 64  # bytes of an answer of the starter
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_lock = threading.Lock()


class PausedProgram:
    """A program that waits for `release`. It is a child of this process, and leads a new POSIX session (setsid(2))."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        prefix: Sequence[str] = (),
        cgroups: Sequence[str] = (),
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start the program `command` with the variables `environment`, and wait until it is ready.

        `prefix` is put before the command line of the starter, such as ("systemd-run", "--scope"). `cgroups` are the
        files `cgroup.procs` of the cgroups that the program enters. `stdin`, `stdout` and `stderr` are as in
        subprocess.Popen. Raises OSError if the program cannot be prepared, or InputError if the starter fails.
        """
        variables = [f"{name}={value}" for name, value in environment.items()]
        text = b"".join(os.fsencode(word) + b"\0" for word in (*cgroups, *command, *variables))
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        try:
            for descriptor in (orders, answers):
                os.set_inheritable(descriptor, True)
            numbers = (orders, answers, len(text), len(cgroups), len(command))
            with _adopting():
                starter = subprocess.Popen(  # noqa: S603  edgetop's own file
                    [*prefix, sys.executable, "-I", "-S", str(STARTER), *map(str, numbers)],
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                    close_fds=False,  # descriptors of edgetop are closed by exec; the program inherits the others
                )
                os.close(orders)
                os.close(answers)
                orders = answers = -1
                with contextlib.suppress(BrokenPipeError):
                    _write_all(self._orders, text)
                self.pid = self._ready(starter)
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in (orders, answers):
                if descriptor >= 0:
                    os.close(descriptor)

    def _ready(self, starter: "subprocess.Popen[bytes]") -> int:
        """Wait until the program is ready and its starter has ended. Return the program's id.

        Raises OSError or InputError if it does not become ready.
        """
        ready = self._answer()
        status = starter.wait()
        if ready is None:
            name = starter.args[0] if isinstance(starter.args, list) else starter.args
            raise InputError(f"the program cannot be started: {name!s} ended with exit status {status}")
        if ready < 0:
            raise OSError(-ready, os.strerror(-ready))
        return ready

    def _answer(self) -> int | None:
        """Return the next number that the starter wrote, or None if there is none."""
        text = b""
        while not text.endswith(b"\n") and len(text) < MOST_ANSWER:
            part = os.read(self._answers, 1)
            if not part:
                return None
            text += part
        return int(text)

    def release(self) -> None:
        """Let the program begin. Raises OSError if it cannot be executed."""
        os.write(self._orders, GO)
        failure = self._answer()
        self.close()
        if failure is not None:
            raise OSError(-failure, os.strerror(-failure))

    def close(self) -> None:
        """Close the pipes to the program. A program that still waits for its release then ends."""
        for descriptor in (self._orders, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._orders = self._answers = -1


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Context manager in which descendants whose parent ends become children of this process."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    with _lock:
        if prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        try:
            yield
        finally:
            prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
