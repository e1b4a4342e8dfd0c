"""How many inferences overlap, and how long none runs."""

import numpy as np
import numpy.typing as npt

from edgetop.session.records import Inferences

NOTHING: npt.NDArray[np.int64] = np.empty(0, np.int64)


class Overlap:
    """Folds inferences in the order of their begins."""

    def __init__(self) -> None:
        self._open_ns = NOTHING  # the ends of those that were in progress when the last one began
        self._began_ns: int | None = None
        self._reached_ns = self._busy_ns = self._sum_ns = 0
        self.most = 0

    def add(self, inferences: Inferences) -> None:
        if not len(inferences):
            return
        begin_ns = inferences["t_ns"].astype(np.int64)
        end_ns = begin_ns + inferences["latency_ns"]
        if self._began_ns is None:
            self._began_ns = int(begin_ns[0])
        ends_ns = np.sort(np.concatenate([self._open_ns, end_ns]))
        begun = len(self._open_ns) + 1 + np.arange(len(begin_ns))
        self.most = max(self.most, int((begun - np.searchsorted(ends_ns, begin_ns, "right")).max()))
        reached_ns = np.maximum.accumulate(np.append(self._reached_ns, end_ns))
        self._busy_ns += int(np.maximum(0, end_ns - np.maximum(begin_ns, reached_ns[:-1])).sum())
        self._sum_ns += int(inferences["latency_ns"].sum())
        self._reached_ns = int(reached_ns[-1])
        self._open_ns = ends_ns[ends_ns > begin_ns[-1]]

    @property
    def mean(self) -> float | None:
        """Return the mean number of inferences in progress while any was; None: there was none."""
        return self._sum_ns / self._busy_ns if self._busy_ns else None

    @property
    def outside(self) -> float | None:
        """The share of the time in which none was in progress."""
        whole_ns = self._reached_ns - (self._began_ns or 0)
        return None if self._began_ns is None or whole_ns <= 0 else max(0.0, 1 - self._busy_ns / whole_ns)
