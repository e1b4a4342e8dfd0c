"""Stalls that are over: seconds in a row in which no inference began, far longer than one takes."""

from collections import deque

import numpy as np

from edgetop.analysis.alerts.alert import KEPT
from edgetop.analysis.verdict import STALLED_AFTER_LATENCIES, STALLED_AFTER_NS
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS

KEPT_BURSTS = 8  # of earlier batches: a second comes after the burst that made it empty


class Silences:
    def __init__(self) -> None:
        self._next_s = 0
        self._empty = 0  # seconds since the last with an inference
        self._last_s: int | None = None  # the last second with an inference
        self._least_ns = 0  # in that second, for want of one before it
        self._usual_ns = 0  # the longest latency before it
        self.longest_ns = 0  # and with it
        self._bursts: list[tuple[int, int]] = []  # from and until, in ns: nothing is measured then
        self._spans: deque[tuple[int, int]] = deque(maxlen=KEPT)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """From and until, in ns, oldest first."""
        return tuple(self._spans)

    def fold(self, batch: Batch, rest_ns: int) -> None:
        """`rest_ns`: how long it may be that nothing is due."""
        for event in batch.events:
            if event.kind == "profile-burst" and isinstance(took_ns := event.data.get("duration_ns"), int):
                self._bursts.append((event.t_ns, event.t_ns + took_ns))
        rows = batch.seconds.rows
        rows = rows[int(np.searchsorted(rows["t_ns"], self._next_s * NS)) :]
        if not len(rows):
            return
        self._next_s = int(rows["t_ns"][-1]) // NS + 1
        ran = np.flatnonzero(rows["count"] + rows["errors"])
        if not len(ran):
            self._empty += len(rows)
            return
        second, max_ns, min_ns = rows["t_ns"][ran] // NS, rows["max_ns"][ran], rows["min_ns"][ran]
        before = np.concatenate([[second[0] - 1 if self._last_s is None else self._last_s], second[:-1]])
        empty = np.diff(ran, prepend=-1 - self._empty) - 1
        longest = np.maximum.accumulate(np.concatenate([[self.longest_ns], max_ns]))
        usual = np.concatenate([[self._usual_ns], longest[:-1]])
        least = np.concatenate([[self._least_ns], min_ns])
        limit = STALLED_AFTER_LATENCIES * np.where(usual > 0, usual, least)[:-1]
        is_long = empty * NS > np.maximum(STALLED_AFTER_NS, limit) + rest_ns
        is_whole = empty == second - before - 1  # seconds that were not recorded say nothing
        for i in np.flatnonzero(is_long & is_whole).tolist():
            span = (int(before[i]) + 1) * NS, int(second[i]) * NS
            if not any(begin < span[1] and end > span[0] for begin, end in self._bursts):
                self._spans.append(span)
        self._empty = len(rows) - 1 - int(ran[-1])
        self._last_s, self._least_ns = int(second[-1]), int(least[-1])
        self._usual_ns, self.longest_ns = int(usual[-1]), int(longest[-1])
        self._bursts = self._bursts[-KEPT_BURSTS:]
