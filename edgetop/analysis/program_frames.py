"""The frames of a watched program: the time of each stage, and the late and dropped frames.

A frame is the work on one input, such as a camera image. Its parts are stages, which the program reports.
"""

from collections.abc import Mapping

import numpy as np

from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.manifest import Manifest
from edgetop.session.records import of_sensors

KINDS = ("stage", "frame", "drop")
TOTAL, DROPPED = "frame/total", "drop/frames"
# The parts of a frame outside of all stages: between two stages on one thread, and waiting for another thread.
BETWEEN, QUEUE = "frame/between", "frame/queue"
QUANTILES = (0.5, 0.99)
MAX_VALUE = 1e9  # In ms, or number of dropped frames. A program may report any number.


@frozen
class StageView:
    """The times of one stage of the frames, such as preprocessing, over the frames that have this stage."""

    id: str  # "stage/NAME", BETWEEN, QUEUE or TOTAL
    count: int
    mean_ms: float
    p50_ms: float
    p99_ms: float
    share: float  # Share of the time of all frames.

    @property
    def name(self) -> str:
        """Return the name that the program gives to the stage, such as "resize" for the id "stage/resize"."""
        return self.id.partition("/")[2]


@frozen
class FramesView:
    total: StageView
    # In the order in which the program reports them. With the time between them, they add up to the total.
    stages: tuple[StageView, ...]
    dropped: int
    deadline_ms: float | None  # None if the program declares no deadline.
    misses: int | None


class _Times:
    def __init__(self) -> None:
        self.counts = np.zeros(histogram.SIZE, np.int64)
        self.count = 0
        self.sum_ms = 0.0

    def add(self, ms: "np.ndarray[tuple[int], np.dtype[np.float64]]", weight: int = 1) -> None:
        self.counts += weight * histogram.count_buckets((ms * 1e6).astype(np.int64))
        self.count += weight * len(ms)
        self.sum_ms += weight * float(ms.sum())


class Frames:
    """Collects the times of a watched program's frames and of their stages."""

    def __init__(self) -> None:
        self._places: Mapping[int, str] = {}
        self._times: dict[str, _Times] = {}
        self._dropped = self._misses = 0
        self._deadline_ns: int | None = None

    def fold(self, batch: Batch) -> None:
        if batch.manifest is not None:
            sensors = enumerate(batch.manifest.sensors)
            self._places = {place: info.id for place, info in sensors if info.kind in KINDS}
            self._deadline_ns = deadline_ns(batch.manifest)
        if not self._places:
            return
        for aggregate in batch.aggregates[np.isin(batch.aggregates["sensor"], list(self._places))]:
            self._add(
                self._places[int(aggregate["sensor"])], np.array([float(aggregate["mean"])]), int(aggregate["count"])
            )
        readings = of_sensors(batch.readings, self._places)
        for place, name in self._places.items():
            if len(values := readings["value"][readings["sensor"] == place]):
                self._add(name, values.astype(np.float64))

    def _add(self, name: str, values: "np.ndarray[tuple[int], np.dtype[np.float64]]", weight: int = 1) -> None:
        values = values[(values >= 0) & (values < MAX_VALUE)]
        if not len(values):
            return
        if name == DROPPED:
            self._dropped += weight * int(values.sum())
            return
        self._times.setdefault(name, _Times()).add(values, weight)
        if name == TOTAL and self._deadline_ns is not None:
            self._misses += weight * int(np.count_nonzero(values * 1e6 > self._deadline_ns))

    def view(self) -> FramesView | None:
        """Return the times of frames and stages, or None if the program reports no stages."""
        if TOTAL not in self._times:
            return None
        whole_ms = self._times[TOTAL].sum_ms or 1.0
        named = (name for name in self._places.values() if name in self._times and name != TOTAL)
        return FramesView(
            _view(TOTAL, self._times[TOTAL], whole_ms),
            tuple(
                _view(name, self._times[name], whole_ms)
                for name in sorted(named, key=lambda name: name in (BETWEEN, QUEUE))
            ),
            self._dropped,
            None if self._deadline_ns is None else self._deadline_ns / 1e6,
            None if self._deadline_ns is None else self._misses,
        )


def _view(stage_id: str, times: _Times, whole_ms: float) -> StageView:
    p50_ms, p99_ms = (ns / 1e6 for ns in histogram.percentiles(times.counts, QUANTILES, 0, 2**62))
    mean_ms, p50_ms, p99_ms = (round(ms, 6) for ms in (times.sum_ms / times.count, p50_ms, p99_ms))
    return StageView(stage_id, times.count, mean_ms, p50_ms, p99_ms, round(times.sum_ms / whole_ms, 6))


def deadline_ns(manifest: Manifest) -> int | None:
    """Return the deadline of a frame in ns, or None if there is no deadline.

    It is the deadline that the watched program declares for its frames or, without one, that of its inferences.
    """
    declared = manifest.watched.deadline_ns if manifest.watched else None
    return declared if declared is not None else manifest.load.deadline_ns
