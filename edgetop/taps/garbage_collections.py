"""Find the inferences of a watched Python program during which Python's garbage collector ran.

A collection holds the interpreter's lock, so it delays an inference of any thread that needs the lock meanwhile. The
program reports each collection with its begin and end (`_write_collections` in edgetop_probe.py).
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from edgetop.engines.engine_protocol import GarbageCollected
from edgetop.probe import edgetop_probe as layout
from edgetop.taps.ring import NO_CALLS, Calls, Ring

MOST_KEPT = 4_096  # latest collections of a process; a call that is read later may still overlap them
# Only the slowest such inference of each window is reported. Windows are shorter than a second, because this module
# does not know when a session's seconds begin.
WINDOW_NS = 250_000_000
LEAST_SHARE = 1 / 11  # share of an inference; a shorter collection makes it less than 10 % slower, which is no tail

Times = npt.NDArray[np.int64]


class GarbageCollections:
    def __init__(self) -> None:
        self._kept: dict[int, Calls] = {}  # by process: the latest collections, in order of time

    def inferences(self, reported: Sequence[tuple[Ring, Calls]]) -> Iterator[GarbageCollected]:
        """Yield messages on inferences that a garbage collection made slower: for each model, at most one in 0.25 s.

        `reported` has (ring, new reports) pairs. A ring is the file in which a process reports calls and collections.
        """
        for ring, calls in reported:
            new = calls[calls["kind"] == layout.COLLECT]
            if len(new):
                kept = np.concatenate([self._kept.get(ring.pid, NO_CALLS), new])[-MOST_KEPT:]
                self._kept[ring.pid] = kept[np.argsort(kept["start_ns"], kind="stable")]
        for ring, calls in reported:
            if ring.pid in self._kept:
                yield from _slowest(calls[(calls["kind"] == layout.CALL) & (calls["ok"] != 0)], self._kept[ring.pid])

    def end(self, ring: Ring) -> None:
        """Forget the collections of a process that has ended. `ring` was its file."""
        self._kept.pop(ring.pid, None)


def _slowest(calls: Calls, collections: Calls) -> Iterator[GarbageCollected]:
    """Yield messages on calls that garbage collections made slower: for each model, the slowest in each 0.25 s.

    Only calls count in which `collections` took at least LEAST_SHARE of the time. `calls` come from one process.
    """
    start_ns, latency_ns = calls["start_ns"], calls["end_ns"] - calls["start_ns"]
    took_ns = _before(calls["end_ns"], collections) - _before(start_ns, collections)
    found: dict[tuple[int, int], int] = {}
    for place in np.flatnonzero((took_ns > 0) & (took_ns >= LEAST_SHARE * latency_ns)).tolist():
        key = int(calls["name"][place]), int(start_ns[place]) // WINDOW_NS
        if key not in found or latency_ns[place] > latency_ns[found[key]]:
            found[key] = place
    for place in sorted(found.values()):
        begin, end = int(start_ns[place]), int(calls["end_ns"][place])
        within = collections[(collections["end_ns"] > begin) & (collections["start_ns"] < end)]
        after_ns = max(0, int(within["start_ns"][0]) - begin)
        yield GarbageCollected(begin, end - begin, int(took_ns[place]), after_ns, int(within["number"].max()))


def _before(times_ns: Times, collections: Calls) -> Times:
    """Return, for each of `times_ns`, how many ns the collections before that time took together.

    A collection that runs at that time counts up to it. `collections` are in order of time and do not overlap, because
    Python collects once at a time.
    """
    took_ns = np.cumsum(collections["end_ns"] - collections["start_ns"])
    done = np.searchsorted(collections["start_ns"], times_ns, side="right")  # those that had begun
    last = np.maximum(done - 1, 0)
    unfinished = np.maximum(collections["end_ns"][last] - times_ns, 0)
    return np.asarray(np.where(done > 0, took_ns[last] - unfinished, 0), np.int64)
