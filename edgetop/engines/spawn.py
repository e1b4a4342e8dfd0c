"""The child process of an engine: its interpreter with its pipes, which waits for the spec of its model.

Loads no numpy: a run starts the child before all else, so that both load at the same time.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from edgetop.errors import InputError

CHILD = Path(__file__).parent / "child" / "__main__.py"


class Child:
    """A started child. Raises InputError where the interpreter cannot be run."""

    def __init__(self, python: str | None = None, prefix: Sequence[str] = ()) -> None:
        """`python`: the interpreter; edgetop's own by default. `prefix`: a command that runs the command after it."""
        self.python = python or sys.executable
        control_read, self.control_fd = _pipe()
        self.data_fd, data_write = _pipe()
        try:
            self.process = self._spawn(prefix, control_read, data_write)
        except OSError as error:
            self.close_pipes()
            raise InputError(
                f"--engine-python {self.python}: cannot be run: {error.strerror}",
                "give the path of a Python interpreter",
            ) from None
        finally:
            os.close(control_read)
            os.close(data_write)
        os.set_blocking(self.data_fd, False)
        assert self.process.stdout
        assert self.process.stderr
        self.stdout, self.stderr = self.process.stdout, self.process.stderr

    def _spawn(self, prefix: Sequence[str], control_read: int, data_write: int) -> "subprocess.Popen[bytes]":
        environment = {
            "PYTHONFAULTHANDLER": "1",  # a crash in native code leaves its Python stack in the log
            "PYTHONUNBUFFERED": "1",  # what a runtime prints from Python comes when it does, and not never
            "OPENBLAS_NUM_THREADS": "1",  # numpy only makes inputs here; its threads would be the engine's RSS
            **os.environ,
        }
        environment.pop("NOTIFY_SOCKET", None)  # the service manager is notified by the conductor alone
        return subprocess.Popen(  # noqa: S603  the user's own interpreter and our own file
            [*prefix, self.python, str(CHILD), "--control", str(control_read), "--data", str(data_write)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(control_read, data_write),
            env=environment,
            start_new_session=True,
        )

    def close_pipes(self) -> None:
        for fd in (self.control_fd, self.data_fd):
            if fd >= 0:
                os.close(fd)
        self.control_fd = self.data_fd = -1

    def close(self) -> None:
        """Close everything of a child that has ended."""
        self.close_pipes()
        self.stdout.close()
        self.stderr.close()

    def discard(self) -> None:
        """End a child that no engine has used."""
        if self.control_fd >= 0:
            self.process.kill()
            self.process.wait()
            self.close()


def _pipe() -> tuple[int, int]:
    """A pipe that is no standard stream: where edgetop was started without, its ends would get their numbers."""
    ends = []
    for fd in os.pipe():
        if fd <= 2:
            ends.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3))
            os.close(fd)
        else:
            ends.append(fd)
    return ends[0], ends[1]
