"""Stores the latest inferences, for exact figures of short times, and the latest seconds, for longer times."""

import zlib

import numpy as np
import numpy.typing as npt

from edgetop.session.records import INFERENCE, MEASURE, Inferences, as_bytes, copied, join
from edgetop.session.seconds import NO_SECONDS, NS, SECOND, Seconds, concatenate

EXACT_INFERENCES = 65_536  # At least this many of the latest inferences are stored.

# Smallest buffer in inferences; a buffer this many times larger than needed is replaced.
_LEAST_ROOM, _TOO_LARGE = 1_024, 4
_MOST_PARTS = 64


class LatestInferences:
    """The latest inferences of the measured phase, in whole seconds with at least EXACT_INFERENCES inferences together.

    Which inferences are stored does not depend on how they were cut into batches.
    """

    def __init__(self, since_ns: int = 0) -> None:
        """Begin without inferences.

        Inferences before the session time `since_ns`, a whole second in ns, are ignored.
        """
        self.complete_from_ns = since_ns  # From this time on, every inference is stored.
        self._room = np.empty(_LEAST_ROOM, INFERENCE)
        self._t_ns = np.empty(_LEAST_ROOM, np.int64)  # Start times of the inferences again, contiguous for searches.
        self._begin = self._end = 0

    def keep(self, inferences: Inferences) -> None:
        is_kept = (inferences["phase"] == MEASURE) & (inferences["t_ns"] >= self.complete_from_ns)
        inferences = inferences if is_kept.all() else inferences[is_kept]
        if not len(inferences):
            return
        t_ns = np.ascontiguousarray(inferences["t_ns"])
        if (self._end > self._begin and t_ns[0] < self._t_ns[self._end - 1]) or (np.diff(t_ns) < 0).any():
            # Out of order: an inference took so long that later ones did not wait for it, or the recording is foreign.
            inferences = join([copied(self._held()), inferences])
            inferences = inferences[np.argsort(inferences["t_ns"], kind="stable")]
            t_ns = np.ascontiguousarray(inferences["t_ns"])
            self._begin = self._end = 0
        if self._end + len(inferences) > len(self._room):
            self._move(self._end - self._begin + len(inferences))
        fresh = slice(self._end, self._end + len(inferences))
        as_bytes(self._room)[fresh], self._t_ns[fresh] = as_bytes(inferences), t_ns
        self._end = fresh.stop

    def _held(self) -> Inferences:
        return self._room[self._begin : self._end]

    def _move(self, wanted: int) -> None:
        """Move the stored inferences to the front of a buffer that has room for `wanted` inferences in all.

        A buffer of a suitable size is used again, because filling new memory takes time.
        """
        held, t_ns = as_bytes(self._held()), self._t_ns[self._begin : self._end]
        if not wanted + wanted // 8 <= len(self._room) <= _TOO_LARGE * max(wanted, _LEAST_ROOM):
            size = max(wanted + wanted // 4, _LEAST_ROOM)
            self._room, self._t_ns = np.empty(size, INFERENCE), np.empty(size, np.int64)
        as_bytes(self._room)[: len(held)], self._t_ns[: len(held)] = held, t_ns
        self._begin, self._end = 0, len(held)

    def __getstate__(self) -> tuple[int, int, dict[str, npt.NDArray[np.generic]]]:
        """Return `(complete_from_ns, first_ns, columns)` for pickling, in a form that compresses well.

        All inferences since the session time `complete_from_ns` are stored, and the first of them has the time
        `first_ns`. `columns` is a dict with one array for each field of the inferences. Each time is stored as the
        difference from the previous time.
        """
        held = self._held()
        columns = {name: np.ascontiguousarray(held[name]) for name in INFERENCE.names or ()}
        first_ns = int(held["t_ns"][0]) if len(held) else 0
        return self.complete_from_ns, first_ns, columns | {"t_ns": np.diff(held["t_ns"], prepend=first_ns)}

    def __setstate__(self, state: tuple[int, int, dict[str, npt.NDArray[np.generic]]]) -> None:
        complete_from_ns, first_ns, columns = state
        held = np.empty(len(columns["t_ns"]), INFERENCE)
        for name, column in columns.items():
            held[name] = column
        held["t_ns"] = first_ns + np.cumsum(columns["t_ns"])
        LatestInferences.__init__(self, complete_from_ns)
        self.keep(held)

    def since(self, t_ns: int) -> Inferences:
        """Return the stored inferences that started at the session time `t_ns`, in ns, or later.

        The array shares its memory with this object. The next change of the object makes it invalid.
        """
        begin = int(np.searchsorted(self._t_ns[self._begin : self._end], t_ns))
        return self._room[self._begin + begin : self._end]

    def compare(self, seconds: Seconds) -> None:
        """Find seconds of which not all inferences are stored, and drop these inferences and all earlier ones.

        `seconds` has the number of all inferences of each second.
        """
        rows = seconds.rows
        held = self._t_ns[self._begin : self._end]
        came = np.searchsorted(held, rows["t_ns"] + NS) - np.searchsorted(held, rows["t_ns"])
        lacking = rows["t_ns"][came < rows["count"] + rows["errors"]]
        if len(lacking):
            self._forget_before(int(lacking[-1]) + NS)

    def drop_old(self) -> None:
        """Drop the oldest seconds, as long as at least EXACT_INFERENCES inferences remain."""
        if self._end - self._begin > EXACT_INFERENCES:
            self._forget_before(int(self._t_ns[self._end - EXACT_INFERENCES]) // NS * NS)
        if len(self._room) > _TOO_LARGE * max(self._end - self._begin, _LEAST_ROOM):
            self._move(self._end - self._begin)

    def _forget_before(self, t_ns: int) -> None:
        self.complete_from_ns = max(self.complete_from_ns, t_ns)
        self._begin = self._end - len(self.since(self.complete_from_ns))


class LatestSeconds:
    """The latest rows of the table with one row per second.

    Histograms are compressed when they are a minute or two old, because then only figures of long times need them. At
    thousands of inferences a second, they would otherwise take most of the memory of an analysis.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._old: list[_Compressed] = []
        self._fresh: list[Seconds] = []  # The first item is joined from earlier ones; the rest came since.

    def keep(self, seconds: Seconds) -> None:
        # The last seconds are copied, because a batch may hold a whole day.
        self._fresh.append(seconds.where(np.arange(len(seconds)) >= len(seconds) - self._most))
        if len(self._fresh) > _MOST_PARTS or sum(map(len, self._fresh)) > 2 * self._most:
            first, *rest = self._fresh
            self._fresh = [concatenate(rest)]
            lacking = self._most - len(self._fresh[0])
            self._old = [*self._old, _Compressed(first)] if lacking > 0 else []
            while self._old and sum(len(part.rows) for part in self._old[1:]) >= lacking:
                del self._old[0]

    def rows(self) -> npt.NDArray[np.void]:
        """Return the rows of all stored seconds as one array, without their histograms."""
        rows = [*(part.rows for part in self._old), *(part.rows for part in self._fresh)]
        return np.concatenate(rows, dtype=SECOND) if rows else NO_SECONDS.rows

    def since(self, t_ns: int) -> Seconds:
        """Return the seconds that end after the session time `t_ns`, in ns, with their histograms."""
        parts: list[Seconds] = []
        held: list[Seconds | _Compressed] = [*self._old, *self._fresh]
        for part in reversed(held):
            seconds = part.seconds() if isinstance(part, _Compressed) else part
            begin = seconds.before(t_ns - NS + 1)
            parts.insert(0, seconds.between(begin, len(seconds)))
            if begin:
                break
        return concatenate(parts)


class _Compressed:
    """Rows, one for each second, with compressed histograms.

    The histograms take a quarter of the memory or less, because most buckets of a histogram are neighbours.
    """

    def __init__(self, seconds: Seconds) -> None:
        self.rows, self._offsets = seconds.rows, seconds.offsets
        steps = np.diff(seconds.bucket, prepend=np.int16(0))
        self._steps, self._counts = (zlib.compress(values.tobytes(), 1) for values in (steps, seconds.bucket_count))
        self._response = None if seconds.response is None else _Compressed(seconds.response)

    def seconds(self) -> Seconds:
        bucket = np.cumsum(np.frombuffer(zlib.decompress(self._steps), np.int16), dtype=np.int16)
        counts = np.frombuffer(zlib.decompress(self._counts), np.int32)
        response = None if self._response is None else self._response.seconds()
        return Seconds(self.rows, self._offsets, bucket, counts, response)
