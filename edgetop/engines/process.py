"""The engine in a process of its own: the default.

The GIL of the app cannot reach the measurement, resident memory is the model's own, and a
crash or an OOM kill takes nothing else with it. The child runs in a session of its own, so
that Ctrl+C and a hang-up of the terminal reach the app alone, and it ends by itself when
its control pipe closes, so that no load outlives its conductor.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from edgetop.engines.child import frames
from edgetop.engines.child.errors import is_out_of_memory
from edgetop.engines.child.outlet import PIPE_BYTES, widen
from edgetop.engines.decode import InOrder, LineReader, decode
from edgetop.engines.postmortem import OomWitness, explain_exit
from edgetop.engines.protocol import Died, Ended, EngineUpdate, Failed, Message, PhaseBegan
from edgetop.engines.spec import EngineSpec
from edgetop.errors import InputError

CHILD = Path(__file__).parent / "child" / "__main__.py"
CLOSE_TIMEOUT_S = 5.0
HELLO_TIMEOUT_S = 60.0  # a cold start of Python and numpy from a slow SD card takes several seconds


class ProcessEngine:
    isolation = "process"

    def __init__(
        self,
        spec: EngineSpec,
        python: str | None = None,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        hello_timeout_s: float = HELLO_TIMEOUT_S,
        prefix: Sequence[str] = (),
        memory_limit: int | None = None,
    ) -> None:
        """`python`: the interpreter to run the child in; edgetop's own by default.

        `prefix`: a command that executes what follows it, within limits; `memory_limit`: of these, in bytes.
        """
        self._spec = spec
        self._hello_timeout_s = hello_timeout_s
        self._silent_until_s = 0.0
        self._close_timeout_s = close_timeout_s
        self._python = python or sys.executable
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = frames.FrameReader()
        self._logs: list[LineReader] = []
        self._control_fd = self._data_fd = -1
        self._order = InOrder(spec.streams)
        self._prefix = tuple(prefix)
        self._witness = OomWitness(limit=memory_limit)
        self._over = self._is_up = self._began = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        control_read, self._control_fd = _pipe()
        self._data_fd, data_write = _pipe()
        try:
            self._process = self._spawn(control_read, data_write)
        except OSError as error:
            self._close_pipes()
            raise InputError(
                f"--engine-python {self._python}: cannot be run: {error.strerror}",
                "give the path of a Python interpreter",
            ) from None
        finally:
            os.close(control_read)
            os.close(data_write)
        os.set_blocking(self._data_fd, False)
        assert self._process.stdout
        assert self._process.stderr
        self._logs = [
            LineReader(self._process.stdout.fileno(), "engine stdout"),
            LineReader(self._process.stderr.fileno(), "engine stderr"),
        ]
        for stream in (self._process.stdout, self._process.stderr):
            widen(stream.fileno())  # what a runtime prints between two polls must not make it wait
        self._silent_until_s = time.monotonic() + self._hello_timeout_s
        self._send(self._spec.to_json())

    def _spawn(self, control_read: int, data_write: int) -> "subprocess.Popen[bytes]":
        environment = {
            "PYTHONFAULTHANDLER": "1",  # a crash in native code leaves its Python stack in the log
            "PYTHONUNBUFFERED": "1",  # what a runtime prints from Python comes when it does, and not never
            "OPENBLAS_NUM_THREADS": "1",  # numpy only makes inputs here; its threads would be the engine's RSS
            **os.environ,
        }
        return subprocess.Popen(  # noqa: S603  the user's own interpreter and our own file
            [*self._prefix, self._python, str(CHILD), "--control", str(control_read), "--data", str(data_write)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(control_read, data_write),
            env=environment,
            start_new_session=True,
        )

    def poll(self) -> EngineUpdate:
        if self._over or self._process is None or self._data_fd < 0:
            return EngineUpdate()
        exit_status = self._process.poll()  # before the read: what it sent before it went is still read
        update = decode(self._reader.feed(self._read()))
        messages: list[Message] = [*[line for log in self._logs for line in log.read()], *update.messages]
        self._follow(update.messages)
        if exit_status is not None and not self._over:
            self._over = True
            messages.append(self._died(exit_status))
        elif not self._is_up and time.monotonic() > self._silent_until_s:
            self._over = True
            self._kill()
            messages.append(self._cannot_run(f"it said nothing for {self._hello_timeout_s:g} s"))
        return self._order.release(EngineUpdate(update.records, tuple(messages)))

    def _follow(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            self._is_up = True
            self._began |= isinstance(message, PhaseBegan)
            self._over |= isinstance(message, Ended | Failed)
            if isinstance(message, Failed):  # nonsense comes from what may not obey the control pipe either
                self._kill()

    def _read(self) -> bytes:
        pieces = []
        for _ in range(8):
            try:
                piece = os.read(self._data_fd, PIPE_BYTES)
            except BlockingIOError:
                break
            if not piece:
                break
            pieces.append(piece)
        return b"".join(pieces)

    def _died(self, exit_status: int) -> Message:
        last_words = self._logs[1].last_line
        if not self._is_up and not self._witness.limit_struck(exit_status):
            return self._cannot_run(last_words or explain_exit(exit_status, self._witness))
        return Died(explain_exit(exit_status, self._witness), loading=not self._began, last_words=last_words)

    def _cannot_run(self, why: str) -> Failed:
        if is_out_of_memory(why):
            return Failed("engine", f"out of memory: {why}")
        return Failed(
            "start", f"{self._python} cannot run the engine: {why}", "it needs Python 3.8 or later with numpy"
        )

    def stop(self) -> None:
        self._send({"command": "stop"})

    def profile(self) -> None:
        self._send({"command": "profile"})

    def take_turns(self, turns: list[list[int]]) -> None:
        """Say when it has its turns, as pace.Turns takes them: it waits for that after its warm-up."""
        self._send({"command": "turns", "turns": turns})

    def _send(self, command: dict[str, object]) -> None:
        if self._control_fd < 0:
            return
        with contextlib.suppress(BrokenPipeError):  # it is gone; the next poll says so
            os.write(self._control_fd, json.dumps(command).encode() + b"\n")

    def close(self) -> None:
        """Close the control pipe, which ends the child; kill it if that does not."""
        if self._process is None or self._control_fd < 0:
            return
        os.close(self._control_fd)
        self._control_fd = -1
        self._wait_or_kill(self._process)
        self._close_pipes()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream
            stream.close()

    def _close_pipes(self) -> None:
        for fd in (self._control_fd, self._data_fd):
            if fd >= 0:
                os.close(fd)
        self._control_fd = self._data_fd = -1

    def _wait_or_kill(self, process: "subprocess.Popen[bytes]") -> None:
        try:
            process.wait(self._close_timeout_s)
        except subprocess.TimeoutExpired:
            self._kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # unkillable: in a driver's call
                process.wait(self._close_timeout_s)

    def _kill(self) -> None:
        """The child and, where `--engine-python` is a wrapper that waits for one, the interpreter too."""
        if self._process and self._process.poll() is None:  # so its group is not another's yet
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _pipe() -> tuple[int, int]:
    """A pipe that is no standard stream: where edgetop was started without, its ends would get their numbers."""
    read_fd, write_fd = os.pipe()
    return _past_the_streams(read_fd), _past_the_streams(write_fd)


def _past_the_streams(fd: int) -> int:
    if fd > 2:
        return fd
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved
