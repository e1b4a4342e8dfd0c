"""The sensors of the running session: those of the board, those of the engine's process, and what the engine samples.

One sampler reads them for all sessions that follow each other; here their times become those of the running session.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from edgetop.engines.engine_protocol import Sampled
from edgetop.runner.session_state import SessionState
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Backlog, Found, Reader, Source, sensor
from edgetop.session.events import Event
from edgetop.session.records import READING, Readings

NEVER_S = 1e9


class SessionSensors:
    def __init__(
        self, sampler: Sampler, board: Found, engine_sensors: Callable[[int], Found], session_state: SessionState
    ) -> None:
        """`board`: its sensors; `engine_sensors` finds those of the engine's process once it has a pid."""
        self._sampler = sampler
        self._board = board
        self._engine_sensors = engine_sensors
        self._state = session_state
        self._ends_with_engine: set[str] = set()  # sources of events
        self._shift_ns = 0  # from the origin of the first session to that of this one

    def start(self) -> None:
        """Begin to read the sensors of the board."""
        self._add(self._board)
        self._sampler.start()

    def of_engine(self, pid: int) -> Sequence[Source]:
        """Find the sensors of the engine's process, and begin to read them as well."""
        found = self._engine_sensors(pid)
        self._ends_with_engine = {f"sensor {info.id}" for source in found.sources for info in source.sensors}
        self._add(found)
        return found.sources

    def stop(self) -> None:
        self._sampler.stop()

    def follow(self, after_ns: int) -> None:
        """Continue in a session that begins this much later than the present one."""
        self._shift_ns += after_ns

    def drain(self) -> tuple[Readings, tuple[Event, ...]]:
        """Return the readings and events since the last drain, on the session's clock."""
        readings, events = self._sampler.drain()
        if self._shift_ns:
            readings = readings.copy()
            readings["t_ns"] = np.maximum(readings["t_ns"] - self._shift_ns, 0)
            events = tuple(replace(event, t_ns=max(0, event.t_ns - self._shift_ns)) for event in events)
        return readings, events

    def with_samples(self, readings: Readings, samples: Sequence[Sampled]) -> Readings:
        """Add the samples that the engine takes of itself to the readings; each kind becomes a sensor of its own."""
        parts = [readings]
        for sampled in samples:
            places = {info.id: place for place, info in enumerate(self._sampler.sensors)}
            if sampled.sensor not in places:
                kind, _, label = sampled.sensor.partition("/")
                info = sensor(kind, label, "the program")
                self._add(Found((Reader((info,), lambda: [Backlog("")], NEVER_S),)))
            rows = np.zeros(len(sampled.samples), READING)
            rows["sensor"] = places.get(sampled.sensor, len(places))
            rows["t_ns"], rows["value"] = zip(*sampled.samples, strict=True)
            rows["t_ns"] = np.maximum(rows["t_ns"] - self._state.manifest.clock.origin_monotonic_ns, 0)
            parts.append(rows)
        return np.concatenate(parts)

    def without_engine(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Drop the "sensor-lost" events of the engine's own sensors: once its process is gone, they are no news."""
        return tuple(
            event for event in events if event.kind != "sensor-lost" or event.source not in self._ends_with_engine
        )

    def _add(self, found: Found) -> None:
        self._sampler.add(found.sources)
        self._state.sensors_known(self._sampler.sensors, found.missing)
