"""The engine as a thread of edgetop, for small boards and debugging. It runs the same loop as the child process.

It shares edgetop's GIL and memory, and a crash ends both. While a screen was busy, p99 was measured 60 % too high. So
the child process is the default.
"""

import contextlib
import os
import sys
import threading
from dataclasses import replace

from edgetop import standard_streams
from edgetop.engines.child.child_program import run_model
from edgetop.engines.child.loop import Control
from edgetop.engines.child.record_outlet import Outlet
from edgetop.engines.decode import InOrder, LineReader, decode
from edgetop.engines.engine_protocol import Ended, EngineUpdate, Failed, Message, Started
from edgetop.engines.spec import EngineSpec
from edgetop.errors import EdgetopError

# The longest time that the screen may hold the GIL while an inference waits for it. With Python's default of 5 ms, p99
# was 60 % too high; with 0.1 ms, 13 %.
SWITCH_INTERVAL_S = 0.0001
CLOSE_TIMEOUT_S = 5.0


class OutputCapture:
    """Context manager that redirects descriptors 1 and 2. Their output can be read from `stdout_fd` and `stderr_fd`.

    The runtime shares edgetop's descriptors, so output of its native code would appear on the screen. Python's own
    streams are moved to duplicates of the real descriptors, so edgetop can still print.
    """

    def __init__(self) -> None:
        self.stdout_fd, self._stdout_write = os.pipe()
        self.stderr_fd, self._stderr_write = os.pipe()
        # A runtime that prints more than a pipe can hold between two polls must not have to wait.
        os.set_blocking(self._stdout_write, False)
        os.set_blocking(self._stderr_write, False)
        self._streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        self._saved = (-1, -1)

    def __enter__(self) -> "OutputCapture":  # noqa: PYI034  Self is in typing from Python 3.11 on
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved = (os.dup(1), os.dup(2))
        os.dup2(self._stdout_write, 1)
        os.dup2(self._stderr_write, 2)
        sys.stdout = sys.__stdout__ = standard_streams.output(self._saved[0])  # type: ignore[misc]
        sys.stderr = standard_streams.talk(self._saved[1])
        # The screen is drawn through this stream, and must notice that the terminal is gone.
        sys.__stderr__ = open(self._saved[1], "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._saved[0], 1)
        os.dup2(self._saved[1], 2)
        for stream in (sys.stdout, sys.stderr, sys.__stderr__):
            if stream not in self._streams:
                with contextlib.suppress(OSError, EdgetopError):  # the terminal may be gone
                    stream.close()  # type: ignore[union-attr]
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc]
        for fd in (*self._saved, self.stdout_fd, self.stderr_fd, self._stdout_write, self._stderr_write):
            os.close(fd)


class ThreadEngine:
    isolation = "thread"

    def __init__(self, spec: EngineSpec, capture: OutputCapture) -> None:
        """Prepare an engine that runs the model of `spec`. Output that `capture` catches becomes log lines."""
        self._spec = spec
        self._outlet = Outlet()
        self._control = Control()
        self._logs = [LineReader(capture.stdout_fd, "engine stdout"), LineReader(capture.stderr_fd, "engine stderr")]
        self._thread = threading.Thread(
            target=run_model, args=(spec.to_json(), self._outlet, self._control), name="engine", daemon=True
        )
        self._hello: tuple[Message, ...] = (Started(os.getpid(), sys.version.split()[0]),)
        self._order = InOrder(spec.at_once)
        self._over = False
        self._switch_interval_s = sys.getswitchinterval()

    def start(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._thread.start()

    def poll(self) -> EngineUpdate:
        if self._over:
            return EngineUpdate()
        update = decode(self._outlet.take())
        hello, self._hello = self._hello, ()
        logs = tuple(line for log in self._logs for line in log.read())
        self._over = any(isinstance(message, Ended | Failed) for message in update.messages)
        return self._order.release(replace(update, messages=(*hello, *logs, *update.messages)))

    def stop(self) -> None:
        self._control.stop_requested = True

    def profile(self) -> None:
        self._control.profile_requested = True

    def close(self) -> None:
        """End the thread. If it hangs in its runtime, it cannot be ended, and ends with edgetop."""
        self.stop()
        self._over = True
        if self._thread.ident:
            self._thread.join(CLOSE_TIMEOUT_S)
        sys.setswitchinterval(self._switch_interval_s)
