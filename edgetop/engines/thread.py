"""The same loop in a thread of the app, for small boards and debugging.

It shares the app's GIL, memory and fate: p99 was measured 60 % too high beside a busy
screen, so the child process is the default.
"""

import os
import sys
import threading

from edgetop.engines.capture import OutputCapture
from edgetop.engines.child.loop import Control
from edgetop.engines.child.outlet import QueueOutlet
from edgetop.engines.child.program import run_model
from edgetop.engines.decode import decode
from edgetop.engines.lines import LineReader
from edgetop.engines.order import InOrder
from edgetop.engines.protocol import Ended, EngineUpdate, Failed, Message, Started
from edgetop.engines.spec import EngineSpec

# Python's default of 5 ms is how long the screen may hold the GIL while an inference waits for
# it; 0.1 ms was measured to bring p99 from +60 % to +13 %.
SWITCH_INTERVAL_S = 0.0001
CLOSE_TIMEOUT_S = 5.0


class ThreadEngine:
    isolation = "thread"

    def __init__(self, spec: EngineSpec, capture: OutputCapture) -> None:
        """`capture` holds the process's native output; what it catches is told as log lines."""
        self._spec = spec
        self._outlet = QueueOutlet()
        self._control = Control()
        self._logs = [LineReader(capture.stdout_fd, "engine stdout"), LineReader(capture.stderr_fd, "engine stderr")]
        self._thread = threading.Thread(
            target=run_model, args=(spec.to_json(), self._outlet, self._control), name="engine", daemon=True
        )
        self._hello: tuple[Message, ...] = (Started(os.getpid(), sys.version.split()[0]),)
        self._order = InOrder(spec.streams)
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
        return self._order.settle(EngineUpdate(update.records, (*hello, *logs, *update.messages)))

    def stop(self) -> None:
        self._control.stop_requested = True

    def profile(self) -> None:
        self._control.profile_requested = True

    def close(self) -> None:
        """A thread cannot be killed: one that hangs in its runtime ends with the app."""
        self.stop()
        self._over = True
        if self._thread.ident:
            self._thread.join(CLOSE_TIMEOUT_S)
        sys.setswitchinterval(self._switch_interval_s)
