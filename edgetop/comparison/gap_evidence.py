"""The data by which an application is compared with a loop over its model, and the result: the gap in time."""

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.analysis.program_frames import FramesView
from edgetop.frozen import frozen
from edgetop.session.manifest import Manifest
from edgetop.session.records import Inferences

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MOST_WAITED = 0.99  # if calls waited for more than this share of the time, nothing is left to compare


@frozen
class Evidence:
    """The data of one session (the application or the loop) that may explain its latency."""

    manifest: Manifest
    inferences: Inferences  # successful inferences, in the order of their begins
    readings: Mapping[str, Floats]  # readings by sensor
    frames: FramesView | None = None
    throttled_share: float = 0.0
    times: Mapping[str, Ints] = field(default_factory=dict)  # times of readings by sensor, if `is_timed`

    def mean(self, sensor: str) -> float | None:
        values = self.readings.get(sensor)
        return float(values.mean()) if values is not None and len(values) else None

    def clock_mhz(self, kind: str) -> float | None:
        """Return the mean clock of all CPUs in MHz (`kind` "freq"), or the mean of their limits ("freqcap").

        None if unknown.
        """
        means = [self.mean(name) for name in self.readings if name.startswith(f"{kind}/cpu")]
        known = [mean for mean in means if mean]
        return float(np.mean(known)) if known else None

    @property
    def wait_share(self) -> float:
        """The share (0 to 1) of the time in which the engine's threads could run that they waited for a CPU."""
        waited, used = self.mean("rate/run-queue-wait"), self.mean("load/engine")
        if waited is None or used is None or waited + 10 * used <= 0:
            return 0.0
        return min(waited / (waited + 10 * used), MOST_WAITED)

    @property
    def wanted_pct(self) -> float:
        """The CPU time that the program's threads used or waited for, in percent of a core."""
        used = self.mean("load/application") or self.mean("load/engine") or 0.0
        waited = (self.mean(f"rate/{of}run-queue-wait") or 0.0 for of in ("", "children-"))
        return used + sum(waited) / 10


def is_timed(sensor: str) -> bool:
    """Whether each reading of this sensor belongs to one call, so that the times of the readings are needed.

    `sensor` is the sensor's id.
    """
    return sensor.startswith("input/") or sensor.endswith("-reshaped")


@frozen
class Cause:
    name: str
    ms: float
    evidence: str
    advice: str
    estimated: bool = False  # whether it was derived from other data instead of measured in these calls


@frozen
class Gap:
    of: str  # "inference" or "frame"
    model: str
    app_ms: float
    loop_ms: float
    causes: tuple[Cause, ...]  # the largest first
    not_explained_ms: float
    differences: tuple[str, ...] = ()  # differences in the set-up of both
    counts: tuple[int, int] = (0, 0)  # number of inferences of the application and of the loop

    @property
    def ms(self) -> float:
        return self.app_ms - self.loop_ms

    def to_json(self) -> dict[str, Any]:
        causes = [{**asdict(cause), "share": self.share(cause.ms)} for cause in self.causes]
        rest = {"ms": self.not_explained_ms, "share": self.share(self.not_explained_ms)}
        return {
            "of": self.of, "model": self.model, "app_ms": self.app_ms, "loop_ms": self.loop_ms, "gap_ms": self.ms,
            "inferences": list(self.counts), "causes": causes, "not_explained": rest,
            "differences": list(self.differences),
        }  # fmt: skip

    def share(self, ms: float) -> float | None:
        """Return a time in ms as a share of the whole gap (0.5 is half), or None if the application is not slower."""
        return ms / self.ms if self.ms > 0 else None
