"""Start the child process of an engine, and explain why a process ended.

This module does not import numpy: a run starts the child before all else, so that both load at the same time. The child
then waits for the specification of the engine.
"""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from edgetop.errors import InputError

CHILD = Path(__file__).parent / "child" / "__main__.py"


class Child:
    """A child process that runs an engine, or waits for one, and the pipes to this process."""

    def __init__(self, python: str | None = None, prefix: Sequence[str] = ()) -> None:
        """Start a child. Raises InputError if the interpreter cannot be run.

        `python` is the path of the interpreter, by default edgetop's own. `prefix` is put before the child's command
        line, such as ("systemd-run", "--scope").
        """
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
            "PYTHONUNBUFFERED": "1",  # lines that a runtime prints from Python arrive at once, even before a crash
            "OPENBLAS_NUM_THREADS": "1",  # numpy only makes inputs here; its threads would count as the engine's RSS
            **os.environ,
        }
        environment.pop("NOTIFY_SOCKET", None)  # only the conductor notifies the service manager
        return subprocess.Popen(  # noqa: S603  the user's interpreter and edgetop's own file
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
        """Close all pipes. Call this when the child has ended."""
        self.close_pipes()
        self.stdout.close()
        self.stderr.close()

    def discard(self) -> None:
        """Kill the child and close its pipes if no engine has used it. Otherwise do nothing."""
        if self.control_fd >= 0:
            self.process.kill()
            self.process.wait()
            self.close()


def _pipe() -> tuple[int, int]:
    """Make a pipe and return its (read end, write end). Both are above 2, even if edgetop has no standard streams."""
    ends = []
    for fd in os.pipe():
        if fd <= 2:
            ends.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3))
            os.close(fd)
        else:
            ends.append(fd)
    return ends[0], ends[1]


class OomWatch:
    """Tells whether the kernel's OOM killer has killed any process since this object was created.

    It reads `oom_kill` in /proc/vmstat (Linux 4.13 and later), which counts for the whole system. So it also works in a
    container without memory accounting (Raspberry Pi OS). It always reads the real /proc, because the engine's process
    runs on this machine even if `--sysroot` shows another board.
    """

    def __init__(self, vmstat: Path = Path("/proc/vmstat"), limit: int | None = None) -> None:
        """Note the kernel's present count. `vmstat` is the path of the kernel's file.

        `limit` is the memory in bytes that the engine may have; None means no limit.
        """
        self._vmstat = vmstat
        self.limit = limit
        self._before = self._kills()

    def struck(self) -> bool:
        now = self._kills()
        return self._before is not None and now is not None and now > self._before

    def limit_struck(self, status: int) -> bool:
        """Whether the engine's process was killed because it reached its memory limit.

        `status` is its `Popen.returncode`.
        """
        return self.limit is not None and -status == signal.SIGKILL and self.struck()

    def _kills(self) -> int | None:
        try:
            for line in self._vmstat.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        except (OSError, ValueError):
            pass
        return None


def explain_exit(status: int, oom_watch: OomWatch) -> str:
    """Return why a process ended, in words, such as "killed by SIGSEGV (it crashed in native code)".

    `status` is its `Popen.returncode`. `oom_watch` was created before the process was started.
    """
    if status >= 0:
        return f"it ended by itself with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if oom_watch.limit and oom_watch.limit_struck(status):
        return f"out of memory at its limit of {oom_watch.limit / 2**20:g} MiB (SIGKILL of the kernel's OOM killer)"
    hint = _CRASHES.get(-status, "")
    if -status == signal.SIGKILL:
        hint = "out of memory: the kernel's OOM killer" if oom_watch.struck() else "not by the kernel's OOM killer"
    return f"killed by {name} ({hint})" if hint else f"killed by {name}"


_CRASHES: dict[int, str] = {
    signal.SIGSEGV: "it crashed in native code",
    signal.SIGBUS: "it crashed in native code, or a file it had mapped became shorter",
    signal.SIGILL: "an instruction this CPU has not: a build for another CPU?",
    signal.SIGABRT: "the runtime gave up: see its last words",
    signal.SIGFPE: "it crashed in native code",
    signal.SIGXCPU: "its CPU time limit",
}
