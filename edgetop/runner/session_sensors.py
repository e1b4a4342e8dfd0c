"""The sensors of the running session: those of the board and of the engine's process, and the engine's own samples.

One sampler reads the sensors for all sessions of a rotation. This module converts the sampler's times to the time of
the running session.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from edgetop.engines.engine_protocol import Sampled
from edgetop.runner.session_state import SessionState
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Backlog, Change, Found, Reader, Source, sensor
from edgetop.session.event_kinds import Remark
from edgetop.session.events import Event
from edgetop.session.records import READING, Readings

NEVER_S = 1e9


class SessionSensors:
    def __init__(
        self, sampler: Sampler, board: Found, engine_sensors: Callable[[int], Found], session_state: SessionState
    ) -> None:
        """Use `sampler` to read the sensors in `board`.

        `engine_sensors` takes the engine's pid and returns the sensors of the engine's process.
        """
        self._sampler = sampler
        self._board = board
        self._engine_sensors = engine_sensors
        self._state = session_state
        self._ends_with_engine: set[str] = set()  # sources of the events of the engine's sensors
        self._is_engine_away = False  # whether its process ends, and another one is going to be started
        self._silenced: set[str] = set()  # sources of the engine whose loss was not reported
        self._known = 0  # number of sensors in the manifest
        self._unset: dict[str, None] = {}  # ids of sensors of limits that are not set
        self._unknown: set[str] = set()  # ids of those of which this was not known for a part of the session
        self._watches: Sequence[Callable[[], Change | None]] = ()  # of the engine's sensors
        self._shift_ns = 0  # time from the first session's origin to that of this one

    def start(self, on_throttling: Callable[[], object] = lambda: None) -> None:
        """Begin to read the sensors of the board. A thread calls `on_throttling` when a throttle signal changes."""
        self._add(self._board)
        self._sampler.start(on_throttling)

    def of_engine(self, pid: int) -> Sequence[Source]:
        """Begin to read the sensors of the engine's process `pid`, in place of the sensors of an earlier process.

        Return the sources of these sensors.
        """
        found = self._engine_sensors(pid)
        if self._is_engine_away:  # it was reported with the first process what cannot be read
            found, self._is_engine_away = replace(found, missing=()), False
        self._watches = found.watches
        self._ends_with_engine = {f"sensor {info.id}" for source in found.sources for info in source.sensors}
        self._add(found)
        return found.sources

    def stop(self) -> None:
        self._sampler.stop()

    def follow(self, after_ns: int) -> None:
        """Continue in the next session, whose time 0 is `after_ns` (in ns) later than time 0 of the present session."""
        self._shift_ns += after_ns

    def drain(self) -> tuple[Readings, tuple[Event, ...]]:
        """Return `(readings, events)` since the last call, with their times in session time.

        A latent source (one that has had no value above 0 so far) gets its sensors into the manifest when `readings`
        has its first value above 0. If something has changed for the engine, such as its cgroup, the sources that
        replace others are read from now on.
        """
        for watch in self._watches:
            if change := watch():
                self._unknown |= self._unset.keys() - {*change.found.unset, *self._board.unset}
                self._add(change.found)
                if event := change.event:
                    self._state.add_event(event.body, event.severity, "edgetop", event.message)
        readings, events = self._sampler.drain()
        if len(readings) and int(readings["sensor"].max()) >= self._known:
            self._add(Found())
        if self._shift_ns:
            readings = readings.copy()
            readings["t_ns"] = np.maximum(readings["t_ns"] - self._shift_ns, 0)
            events = tuple(replace(event, t_ns=max(0, event.t_ns - self._shift_ns)) for event in events)
        return readings, events

    def with_samples(self, readings: Readings, samples: Sequence[Sampled]) -> Readings:
        """Return `readings` together with the samples that the engine took of itself.

        Each kind of sample becomes a sensor.
        """
        if not samples:
            return readings
        parts = [readings]
        for sampled in samples:
            places = {info.id: place for place, info in enumerate(self._sampler.sensors)}
            if sampled.sensor not in places:
                kind, _, label = sampled.sensor.partition("/")
                info = sensor(kind, label, "the program")
                self._add(Found((Reader((info,), lambda: [Backlog("")], NEVER_S),)))
                places = {info.id: place for place, info in enumerate(self._sampler.sensors)}
            rows = np.zeros(len(sampled.samples), READING)
            rows["sensor"] = places[sampled.sensor]
            rows["t_ns"], rows["value"] = zip(*sampled.samples, strict=True)
            rows["t_ns"] = np.maximum(rows["t_ns"] - self._state.manifest.clock.origin_monotonic_ns, 0)
            parts.append(rows)
        return np.concatenate(parts)

    def without_engine(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Return the events except reports of lost sensors of the engine's process, which has ended."""
        return tuple(
            event
            for event in events
            if event.body != Remark("sensor-lost") or event.source not in self._ends_with_engine
        )

    def engine_reloads(self) -> None:
        """Do not report the loss of the present engine process's sensors, because another process takes its place."""
        self._is_engine_away = True

    def of_one_engine(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Return the events without those that were only caused by the replacement of the engine's process."""
        kept = []
        for event in events:
            if self._is_engine_away and event not in self.without_engine([event]):
                self._silenced.add(event.source)
            elif event.body == Remark("sensor-back") and event.source in self._silenced:
                self._silenced.remove(event.source)
            else:
                kept.append(event)
        return tuple(kept)

    def _add(self, found: Found) -> None:
        self._sampler.add(found.sources)
        sensors = self._sampler.sensors
        self._known, known = len(sensors), {info.id for info in sensors}
        self._unset |= dict.fromkeys(found.unset)
        unset = (one for one in self._unset if one not in known and one not in self._unknown)
        self._state.sensors_known(sensors, found.missing, tuple(unset))
