"""What edgetop itself costs, while it measures: starting up is not counted."""

from edgetop.session.batch import Batch
from edgetop.session.records import of_sensors
from edgetop.session.seconds import NS

LOAD = "load/edgetop"


class OwnLoad:
    """The mean of `load/edgetop` over the measured phase, in percent of one core."""

    def __init__(self) -> None:
        self._sensor: int | None = None
        self._sum = 0.0
        self._count = 0

    @property
    def mean(self) -> float | None:
        """None where the measured phase was too short to tell."""
        return self._sum / self._count if self._count else None

    @property
    def count(self) -> int:
        """Of how many readings."""
        return self._count

    def fold(self, batch: Batch, measuring_since_ns: int | None) -> None:
        if batch.manifest is not None:
            ids = [info.id for info in batch.manifest.sensors]
            self._sensor = ids.index(LOAD) if LOAD in ids else None
        if self._sensor is None or measuring_since_ns is None:
            return
        readings = of_sensors(batch.readings, (self._sensor,))
        # A reading is the mean of the second before it.
        readings = readings[readings["t_ns"] >= measuring_since_ns + NS]
        self._sum += float(readings["value"].sum())
        self._count += len(readings)
