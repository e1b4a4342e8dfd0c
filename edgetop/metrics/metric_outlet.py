"""Sends metrics at intervals, on a separate thread, because the receiver may be slow or gone."""

import queue
import threading
import time
from collections.abc import Callable, Sequence

from edgetop.analysis.analysis import Analysis
from edgetop.metrics.metric_families import Family, families

FAREWELL_S = 3.0  # time limit for the last metrics at the end

Send = Callable[[Sequence[Family]], str]  # sends the metrics; returns an error message, or ""


class Outlet:
    """Sends the metrics of a session at intervals, while the session runs. A slow transmission delays the next one."""

    def __init__(self, every_s: float, send: Send, on_trouble: Callable[[str], None]) -> None:
        """Begin to send. `send` is called every `every_s` seconds, and returns an error message, or "" if all is well.

        `on_trouble` is called with the error message when sending begins to fail, and with "" when sending works again.
        """
        self._every_s = every_s
        self._send = send
        self._on_trouble = on_trouble
        self._due_s = 0.0
        self._analysis: Analysis | None = None
        self._waiting: queue.Queue[Sequence[Family] | None] = queue.Queue(1)
        self._trouble = ""
        self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)
        self._thread.start()

    def observe(self, analysis: Analysis) -> None:
        self._analysis = analysis
        if time.monotonic() >= self._due_s and self._waiting.empty() and (found := families(analysis)):
            self._due_s = time.monotonic() + self._every_s
            self._waiting.put(found)

    def close(self) -> None:
        """Send the metrics for the last time, with the end of the session. This takes a few seconds at most."""
        until_s = time.monotonic() + FAREWELL_S
        try:
            if self._analysis:
                with self._analysis.lock:
                    found = families(self._analysis)
                self._waiting.put(found, timeout=FAREWELL_S)
            self._waiting.put(None, timeout=max(0.0, until_s - time.monotonic()))
            self._thread.join(max(0.0, until_s - time.monotonic()))
        except queue.Full:
            pass
        if self._thread.is_alive() and not self._trouble:
            self._on_trouble(f"the last metrics were not accepted within {FAREWELL_S:.0f} s")

    def _work(self) -> None:
        while (found := self._waiting.get()) is not None:
            trouble = self._send(found)
            if bool(trouble) != bool(self._trouble):
                self._on_trouble(trouble)
            self._trouble = trouble
