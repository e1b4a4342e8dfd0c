"""Counts of a session's inferences while it runs, for its manifest (its description)."""

from dataclasses import replace

import numpy as np

from edgetop.session import histogram
from edgetop.session.distinct import distinct
from edgetop.session.manifest import Watched
from edgetop.session.records import FIRST, MEASURE, WARMUP, Inferences, Overlap, last_end_ns, measured

STREAMS_EVERY_NS = 10_000_000_000


class InferenceCounts:
    """Counts one session's inferences by phase and by stream.

    A stream is one of several models or threads that run at the same time.
    """

    def __init__(self, streams: int, *, follows: bool = False) -> None:
        """Begin with no inferences.

        `follows` says that this session continues an earlier one (`--rotate`), so it has no warm-up of its own.
        """
        self.first_ns: int | None = None  # duration of the first inference
        self.warmup_runs: int | None = None if follows else 0
        self.warmup_ns = 0
        self.measured_runs = 0
        self.last_end_ns = 0  # latest end of an inference
        self._stream_runs = np.zeros(streams, np.int64)
        self._stream_counts: dict[int, histogram.Counts] = {}  # latencies of a watched program, by stream
        self._overlap = Overlap()
        self._streams_due_ns = 0

    @property
    def stream_runs(self) -> tuple[int, ...]:
        """The number of measured inferences of each stream, or () if the engine has only one stream."""
        return tuple(self._stream_runs.tolist()) if len(self._stream_runs) > 1 else ()

    def count(self, inferences: Inferences, *, is_watched: bool) -> None:
        """Add `inferences` to the counts of their phases and streams.

        `is_watched` says that the inferences come from a watched program. Then each stream is one model of the program,
        and its latencies are kept as well.
        """
        of_measure = int(np.count_nonzero(inferences["phase"] == MEASURE))
        self.measured_runs += of_measure
        if of_measure < len(inferences):
            self._count_earlier(inferences)
        self.last_end_ns = max(self.last_end_ns, last_end_ns(inferences))
        if not is_watched and len(self._stream_runs) <= 1:
            return
        counted = measured(inferences)
        if is_watched:
            self._overlap.add(inferences)
            for number in distinct(counted["stream"]).tolist():
                counts = histogram.count_buckets(counted["latency_ns"][counted["stream"] == number])
                self._stream_counts[number] = self._stream_counts.get(number, 0) + counts
        if len(self._stream_runs) > 1:
            self._stream_runs += np.bincount(counted["stream"], minlength=len(self._stream_runs))

    def _count_earlier(self, inferences: Inferences) -> None:
        """Count those of `inferences` that ran before the measured phase."""
        first = inferences[inferences["phase"] == FIRST]
        if len(first):
            self.first_ns = int(first["latency_ns"][0])
        warmup = inferences["phase"] == WARMUP
        if self.warmup_runs is not None:
            self.warmup_runs += int(np.count_nonzero(warmup))
        self.warmup_ns += int(inferences["latency_ns"][warmup].sum())

    def streams_are_due(self, now_ns: int) -> bool:
        """Whether it is time to store the figures of the streams in the manifest: at most every ten seconds.

        `now_ns` is the session time.
        """
        if now_ns < self._streams_due_ns:
            return False
        self._streams_due_ns = now_ns + STREAMS_EVERY_NS
        return True

    def with_streams(self, watched: Watched) -> Watched:
        """Return `watched`, the description of a watched program, with the present figures of each of its models."""
        if not self._stream_counts:
            return watched
        streams = list(watched.streams)
        for number, counts in self._stream_counts.items():
            p50_ns, p99_ns = map(int, histogram.percentiles(counts, (0.5, 0.99), 0, 2**62))
            streams[number] = replace(streams[number], runs=int(counts.sum()), p50_ns=p50_ns, p99_ns=p99_ns)
        mean, outside = self._overlap.mean, self._overlap.outside
        return replace(
            watched, streams=tuple(streams), at_once_mean=None if mean is None else round(mean, 4),
            at_once_max=self._overlap.most, outside_share=None if outside is None else round(outside, 6),
        )  # fmt: skip
