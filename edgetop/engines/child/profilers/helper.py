"""An engine's helper: another process that profiles the same model in a runtime session of its own.

It is used for profilers that might crash, or whose memory or time must not count as the engine's. The helper is started
before the warm-up and sleeps until it is asked for a burst, which is a few instrumented inferences. The engine pauses
during a burst, so neither disturbs the other. Each burst makes a new runtime session and drops it, so no memory is held
between bursts. The helper ends when the engine does.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from typing import Any, Dict, Optional

from ..descriptors import until_readable
from . import Allowance, ProfilingError

READY_PATIENCE_S = 60.0  # enough for imports from a slow SD card
BURST_PATIENCE_S = 120.0  # time beyond that of the runs: a large model is optimised again for each burst
POLL_S = 0.05  # a stop takes effect within this time

MAIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")


class Helper:
    """A profiler whose instrumented inferences run in another process."""

    def __init__(self, spec: Dict[str, Any], service: str, environment: Optional[Dict[str, str]] = None) -> None:
        """Start the process, which uses the class `Service` of the module `service` of this package.

        `spec` has the fields of `EngineSpec` by name. `environment` has environment variables for the helper, in
        addition to those of this process. Raises ProfilingError if the process does not start or refuses to profile.
        """
        control_read, self._control_fd = os.pipe()
        self._data_fd, data_write = os.pipe()
        self._pending = b""
        try:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter and edgetop's own file
                [sys.executable, MAIN, "--helper", "--control", str(control_read), "--data", str(data_write)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the runtime would repeat its messages with each burst
                stderr=subprocess.DEVNULL,
                pass_fds=(control_read, data_write),
                env=dict(os.environ, **(environment or {})),
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
        """Return the helper's next answer, or an empty profile if `is_stopped` says that a stop is requested.

        Raises ProfilingError if the helper refuses, ends, or does not answer within `patience_s` seconds.
        """
        give_up_at = time.monotonic() + patience_s
        while b"\n" not in self._pending:
            if is_stopped():
                return {"run_ns": [], "operators": []}
            if time.monotonic() > give_up_at:
                raise ProfilingError("the helper process said nothing for %g s" % patience_s)
            if until_readable(self._data_fd, POLL_S):
                piece = os.read(self._data_fd, 1 << 20)
                if not piece:
                    raise ProfilingError(self._exit_reason())
                self._pending += piece
        line, self._pending = self._pending.split(b"\n", 1)
        answer: Dict[str, Any] = json.loads(line.decode())
        if "refused" in answer:
            raise ProfilingError(str(answer["refused"]))
        return answer

    @property
    def process_id(self) -> int:
        return self._process.pid

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
