"""Sends the metrics at intervals, on a thread of its own, because the receiver may be slow or gone."""

import queue
import threading
import time
from collections.abc import Callable, Sequence

from edgetop.analysis.analysis import Analysis
from edgetop.metrics.metric_families import Family, families

FAREWELL_S = 3.0  # at the end: what has not been sent by then is given up

Send = Callable[[Sequence[Family]], str]  # what went wrong, in words; "": nothing


class Outlet:
    """An observer of a session. While one sending takes longer than the interval, no other begins."""

    def __init__(self, every_s: float, send: Send, on_trouble: Callable[[str], None]) -> None:
        """`on_trouble` is called when sending begins to fail, with why, and with "" when it works again."""
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
        """Send once more, how it ended."""
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
            self._on_trouble(f"nobody has taken the last ones within {FAREWELL_S:.0f} s")

    def _work(self) -> None:
        while (found := self._waiting.get()) is not None:
            trouble = self._send(found)
            if bool(trouble) != bool(self._trouble):
                self._on_trouble(trouble)
            self._trouble = trouble
