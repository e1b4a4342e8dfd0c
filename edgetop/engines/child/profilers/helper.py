"""An engine's helper: a process that profiles the same model for it, in a session of its own.

For ways that take memory or time which must not be the engine's, or that might crash it. It
is started before the warm-up and sleeps but for bursts, during which the engine holds still,
so that it measures undisturbed and disturbs nothing that is measured. Each burst makes its
session anew and drops it, so that its memory is not held. It ends when the engine does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from typing import Any, Dict

from . import Allowance, ProfilingError

READY_PATIENCE_S = 60.0  # imports from a slow SD card
BURST_PATIENCE_S = 120.0  # beyond the runs: a large model is optimised anew each time
POLL_S = 0.05  # how soon a stop takes effect

MAIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")


class Helper:
    """A profiler whose bursts run in a helper process."""

    def __init__(self, spec: Dict[str, Any], service: str) -> None:
        """`service` is a module of this package that has `Service`. Raises ProfilingError where it refuses."""
        control_read, self._control_fd = os.pipe()
        self._data_fd, data_write = os.pipe()
        self._pending = b""
        try:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter and our own file
                [sys.executable, MAIN, "--helper", "--control", str(control_read), "--data", str(data_write)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # what the runtime says of its sessions there, again with each burst
                stderr=subprocess.DEVNULL,
                pass_fds=(control_read, data_write),
            )
        except OSError as error:
            self._close_pipes()
            raise ProfilingError("no helper process: %s" % error) from None
        finally:
            os.close(control_read)
            os.close(data_write)
        try:
            self._send({"service": service, "spec": spec})
            self.way = str(self._receive(READY_PATIENCE_S, lambda: False)["way"])
        except BaseException:
            self.close()
            raise

    def burst(self, allowance: Allowance) -> Dict[str, Any]:
        self._send({"budget_ns": allowance.budget_ns, "max_runs": allowance.max_runs})
        return self._receive(BURST_PATIENCE_S + allowance.budget_ns / 1e9, allowance.is_stopped)

    def _send(self, message: Dict[str, Any]) -> None:
        try:
            os.write(self._control_fd, json.dumps(message).encode() + b"\n")
        except OSError:
            raise ProfilingError(self._exit_reason()) from None

    def _receive(self, patience_s: float, is_stopped: Any) -> Dict[str, Any]:
        """The next line. Raises ProfilingError where it says so, or says nothing."""
        give_up_at = time.monotonic() + patience_s
        while b"\n" not in self._pending:
            if is_stopped():
                return {"run_ns": [], "operators": []}
            if time.monotonic() > give_up_at:
                raise ProfilingError("the helper process said nothing for %g s" % patience_s)
            if select.select([self._data_fd], [], [], POLL_S)[0]:
                piece = os.read(self._data_fd, 1 << 20)
                if not piece:
                    raise ProfilingError(self._exit_reason())
                self._pending += piece
        line, self._pending = self._pending.split(b"\n", 1)
        answer: Dict[str, Any] = json.loads(line.decode())
        if "refused" in answer:
            raise ProfilingError(str(answer["refused"]))
        return answer

    def _exit_reason(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        return "the helper process ended with status %s" % self._process.poll()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        os.close(self._control_fd)
        os.close(self._data_fd)
