"""The conditions of a session: temperatures at the start, other processes, and the engine's scheduler and CPUs.

A comparison of two sessions needs these conditions. Each condition is read once, or derived from readings that are made
anyway.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from edgetop.sensors.sensor_protocol import Source, SurveysProcesses
from edgetop.session.manifest import BackgroundProcess, Constraints, Methodology, SensorInfo
from edgetop.session.records import Readings
from edgetop.session.seconds import NS

SURVEY_FIRST_NS, SURVEY_MOST_NS = 10 * NS, 600 * NS  # first measurement of other processes; then at doubled times
LATE_NS = 5 * NS  # a sensor without a reading before measuring began may have its first one this much later

# sched(7), "Scheduling policies". A number that is not among these is shown as it is.
_POLICIES = {getattr(os, name): name for name in ("SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_FIFO", "SCHED_RR")}
_HEAT, AIR = ("temp", "ambient"), "ambient/"  # kinds of sensors whose first values are kept; ids of those of the air
_REAL_TIME = ("SCHED_FIFO", "SCHED_RR")


class Surroundings:
    def __init__(self) -> None:
        self._pid: int | None = None
        self._process_surveys: tuple[SurveysProcesses, ...] = ()
        self._began_ns: int | None = None
        self._sensors = 0  # number of sensors
        self._ids: dict[int, str] = {}  # ids of the temperature sensors, by place in the manifest
        self._temperatures: dict[str, float] = {}
        self._latest: dict[str, float] = {}  # temperatures by id, as long as measuring may begin anew
        self._may_begin_anew = False
        self._scheduler: str | None = None
        self._cpus: float | None = None  # number of CPUs on which the engine may run
        self._cpus_at_start: float | None = None
        self._background: tuple[BackgroundProcess, ...] = ()
        self._unseen: str | None = None  # why other processes cannot all be seen
        self._survey_due_ns = 0
        self._has_changed = False  # whether a condition has changed since `take_change`

    def watch_engine(self, pid: int, sources: Sequence[Source]) -> None:
        """Watch the engine's process `pid`. `sources` are the sources of its sensors.

        Call this again if another process takes the place of the engine's process. A survey of other processes
        continues.
        """
        self._pid, self._cpus_at_start = pid, None
        # Before the runtime loads: OpenVINO pins the main thread to a CPU of its own.
        with contextlib.suppress(OSError):
            self._cpus_at_start = float(len(os.sched_getaffinity(pid)))
        if self._began_ns is not None:
            return
        self._process_surveys = tuple(source for source in sources if isinstance(source, SurveysProcesses))

    def follow(self) -> "Surroundings":
        """Return the Surroundings of the next session of the same engine, whose measured phase begins at its time 0."""
        following = Surroundings()
        air = {sensor: celsius for sensor, celsius in self._temperatures.items() if sensor.startswith(AIR)}
        following.__dict__.update(self.__dict__, _temperatures=air)
        following.began(0)
        return following

    def began(self, t_ns: int, *, may_begin_anew: bool = False) -> None:
        """Note that the measured phase begins at the session time `t_ns`.

        From then on, the CPU use of other processes counts. `may_begin_anew` says that the phase may begin once more,
        when a watched program runs its first inference.
        """
        if self._may_begin_anew and self._latest:
            self._temperatures = self._latest
        self._may_begin_anew, self._latest = may_begin_anew, {}
        self._has_changed = True
        self._began_ns, self._survey_due_ns, self._background = t_ns, t_ns + SURVEY_FIRST_NS, ()
        for source in self._process_surveys:
            source.begin_survey()
        self._unseen = next((source.unseen for source in self._process_surveys), None)
        if self._pid is not None:
            self._scheduler, self._cpus = _scheduler(self._pid), self._cpus_at_start

    def take_readings(self, readings: Readings, sensors: Sequence[SensorInfo]) -> None:
        """Take the start temperatures from `readings`, and survey other processes if the next survey is due.

        A start temperature is a sensor's last reading before the measured phase, or else its first reading in that
        phase. `sensors` are the session's sensors, to which readings refer by index.
        """
        if len(sensors) > self._sensors:
            self._sensors = len(sensors)
            self._ids = {place: info.id for place, info in enumerate(sensors) if info.kind in _HEAT}
        now_ns = int(readings["t_ns"].max()) if len(readings) else 0
        if self._began_ns is not None and len(readings) and now_ns >= self._survey_due_ns:
            # A session that is killed cannot do this at its end.
            self._background, self._has_changed = self.background(), True
            self._survey_due_ns = now_ns + min(now_ns - self._began_ns, SURVEY_MOST_NS)
        is_late = self._began_ns is not None and (not len(readings) or readings["t_ns"][0] > self._began_ns + LATE_NS)
        if is_late and not self._may_begin_anew:
            return
        for t_ns, place, value in readings.tolist():
            if self._may_begin_anew and place in self._ids:
                self._latest[self._ids[place]] = value
            is_early = self._began_ns is None or t_ns <= self._began_ns
            if place in self._ids and (is_early or self._ids[place] not in self._temperatures):
                self._temperatures[self._ids[place]], self._has_changed = value, True

    def take_change(self) -> bool:
        """Return whether one of the conditions has changed since the last call."""
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

    def constraints(self, before: Constraints) -> Constraints:
        return replace(before, cpus=self._cpus)

    def methodology(self, before: Methodology) -> Methodology:
        """Return `before` with the conditions that were measured so far. Nothing is added before the measured phase."""
        if self._began_ns is None:
            return before
        heat = {sensor: celsius for sensor, celsius in self._temperatures.items() if not sensor.startswith(AIR)}
        room = self._temperatures.get(before.ambient_sensor or "", before.ambient_c)
        return replace(before, start_temperatures=heat, ambient_c=room, scheduler=self._scheduler,
                       background=self._background, background_unseen=self._unseen)  # fmt: skip

    def background(self) -> tuple[BackgroundProcess, ...]:
        """Return the CPU time of each other process since measuring began, in percent of a core, the busiest first."""
        if self._began_ns is None:
            return ()
        found = [pair for source in self._process_surveys for pair in source.survey()]
        return tuple(BackgroundProcess(name, round(percent, 1)) for name, percent in found)


def _scheduler(pid: int) -> str | None:
    """Return a process's scheduling policy, such as `SCHED_OTHER, nice 0` or `SCHED_FIFO, priority 50`.

    Return None if the process is gone, or if this user may not examine it.
    """
    try:
        number = os.sched_getscheduler(pid)
        policy = _POLICIES.get(number, f"policy {number}")
        if policy in _REAL_TIME:
            return f"{policy}, priority {os.sched_getparam(pid).sched_priority}"
        return f"{policy}, nice {os.getpriority(os.PRIO_PROCESS, pid)}"
    except OSError:
        return None
