"""The possible causes of a slowdown, the signals that indicate each cause, and the sensors of each signal.

A signal alone is not a slowdown: `evidence` decides whether the signal explains a slowdown. `edgetop help format` lists
the ids of the sensors.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from edgetop.analysis.event_index import EventIndex
from edgetop.analysis.slowdowns.equal_position import EqualPosition
from edgetop.analysis.slowdowns.equal_size import SizedStreams, SizedTimes
from edgetop.analysis.slowdowns.mix import Mix
from edgetop.analysis.stream_names import stream_names
from edgetop.analysis.tracks import Bools, Floats, Tracks
from edgetop.frozen import frozen
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.trips import trips_c

Cause = Literal[
    "thermal", "power-cap", "under-voltage", "contention", "cpu-quota", "memory-high", "memory-pressure",
    "clock-change", "memory-clock", "mix", "inputs", "unknown",
]  # fmt: skip
CAUSES: tuple[Cause, ...] = (
    "under-voltage", "power-cap", "thermal", "clock-change", "memory-clock", "memory-high", "memory-pressure",
    "cpu-quota", "contention", "mix", "inputs",
)  # fmt: skip  # of two that explain as much, the first
# The possible causes of throttling.
GRAVEST_FIRST: tuple[Cause, ...] = ("under-voltage", "thermal", "power-cap", "unknown")
OF_PROGRAM: frozenset[Cause] = frozenset({"mix", "inputs"})  # Causes within a watched program.
OF_CLOCKS: frozenset[Cause] = frozenset({"clock-change", "memory-clock"})  # Clocks that fell for no known limit.
LIMITS: frozenset[Cause] = frozenset({"thermal", "power-cap", "under-voltage"})  # Causes that slow the board itself.

_KINDS = frozenset({"freq", "freqcap", "cooling", "throttle", "volt", "pressure", "rate"})
GPU_OF_OTHERS = "load/gpu-others"  # what other processes take of the GPU
MEMORY_CLOCK: Cause = "memory-clock"
MEMORY_LOAD = "load/emc"
# What a memory whose load is not read moves in a clock cycle: sensors, and the name of the signal.
_TRAFFIC = ("dram/read", "dram/write", "freq/memory")
MEMORY_PER_CYCLE = "memory-per-cycle"
# Labels of clocks of memory: of its controller, of a GPU, and of what has the clock of the controller.
_OF_MEMORY = re.compile(r"memory|uncore|gpu[0-9]*-memory")
_IDS = frozenset({"mem/cgroup-left", "load/cpu", "load/engine", "load/edgetop", "load/others", MEMORY_LOAD, *_TRAFFIC})

# `trip` and `cap` prove nothing without a clock, and `load` never does.
Role = Literal["proof", "clock", "cap", "trip", "load"]
Reduction = Literal["one", "lowest", "highest", "others", "margin", "smooth", "per-cycle"]

# Voltage of a 5 V input below which the board is under-supplied. Datasheet: the firmware of a Raspberry Pi caps the
# clock there (raspberrypi/documentation, under-voltage warning), and the limit of a Jetson Orin's input is near it.
# Larger: a weak supply that does no harm is the cause; smaller: brown-outs are missed.
INPUT_FLOOR_V = 4.63
_INPUTS = ("EXT5V", "VDD_IN", "POM_5V_IN")
SET = 0.5  # a flag is 0 or 1
# Least CPU use of other processes, of one core, that counts. Choice: daemons take less. Larger: another program is
# missed as the cause; smaller: housekeeping is a cause.
OTHERS_PCT = 30.0
# Share of its usual range by which a clock must fall to count. Choice: drivers round to operating points, and means
# fluctuate. Larger: a throttle by one step is missed; smaller: fluctuation is a cause.
CLOCK_FELL = 0.04
# Memory left in a control group from which the kernel reclaims. Choice: a few hundred pages. Larger: a group that
# fits is a cause; smaller: reclaim between two readings is missed.
CGROUP_LEFT_MIB = 2.0
STICKY = "-sticky"
QUOTA, THROTTLED = "pressure/cpu-quota", "rate/cpu-throttled"
# Least stall in each second, through a quota or a wait for a CPU. Choice: 3 % of a second; an engine that wakes up
# waits for less. Larger: slight contention of small models is missed; smaller: waking up is a cause.
STALLS_MS = 30.0
# Least CPU pressure beyond its usual range. Choice: the threads of an engine make a few percent themselves. Larger:
# contention is missed on kernels that report no wait; smaller: the engine's own threads are the cause.
LEAST_PRESSURE_PCT = 10.0
# Stall through a quota that explains a wait, as a multiple of the measured one. Choice: the kernel counts a stall
# when it ends, so a reading may miss that of the last period, one of ten at 100 ms. Larger: as much real contention
# beside a quota is hidden; smaller: the quota is taken for other processes.
STALL_MARGIN = 1.25
PRESSURE_PER_STALLED_MS = 0.1  # percent of the time, that a ms/s of stall adds to the CPU pressure
LOAD_OF_OTHERS = "load-of-others"  # the name of a signal that may have no sensor of its own
OTHER_CALLS = "other-calls"  # the signal of the mix, which has no sensor
# Least rise of the share of other calls that may slow a stream. Choice: in a stream of eight calls a second, chance
# moves the share by 10 %. Larger: a change of the mix is missed; smaller: chance is a change of the mix.
OTHER_CALLS_ROSE_PCT = 15.0
# How well a change of the mix proves its cause. Choice: less than any signal of the board, since the mix of many
# programs changes all the time. Larger: the mix hides what the board reports; smaller: a slowdown by the mix has no
# cause.
OF_MIX = 0.6
# Share of their usual size by which inputs must grow to explain a longer time. Choice: half of the least slowdown.
# Larger: larger inputs are called a slowdown; smaller: chance hides one.
INPUTS_GREW = 0.04
# How well larger inputs prove that they take the time. Choice: better than the mix, since more work does take longer.
# Larger: they hide what the board reports; smaller: larger inputs are called a slowdown.
OF_INPUTS = 0.7
# Seconds over which the size of inputs is averaged. Choice: calls of very different sizes scatter. Larger: growth is
# dated too late; smaller: growth is lost in the scatter.
SMOOTHED_S = 5
# Distance to its trip at which a zone may have been there. Choice: zones are polled once a second. Larger: throttling
# is missed between two readings; smaller: a warm zone is taken for heat at the trip.
AT_TRIP_C = -1.0
# How well a control group without memory left proves its cause alone. Choice: most groups at their limit only drop
# caches. Larger: a full group without effect wins; smaller: reclaim is missed as the cause.
CGROUP_WEIGHT = 0.6
# The same for the load of other processes. Choice: others may run on CPUs that the engine does not need. Larger:
# others that do no harm win; smaller: contention is missed where nothing reports waits.
OTHERS_WEIGHT = 0.5


@frozen
class Channel:
    """A signal that can prove a cause: its sensors, and by how much it must leave its usual range as evidence."""

    name: str
    cause: Cause
    rows: tuple[int, ...]  # Places of its sensors in `Signals.infos`.
    role: Role = "proof"
    reduction: Reduction = "one"
    falls: bool = False  # Whether a fall is evidence, and not a rise.
    fixed: float | None = None  # Value beyond which it always counts. None if it must leave its usual range.
    least: float = 0.0  # Least distance from its usual range, in `unit`.
    share: float = 0.0  # Least distance from its usual range, as a share of it.
    weight: float = 0.0  # How well it alone proves its cause, 0 to 1. For a limit, the clock decides.
    unit: str = ""
    trips_c: tuple[float, ...] = ()  # For the reduction `margin`: the trips of the sensors.
    is_blind: bool = False  # For clocks: whether a cap of the firmware does not show in the readings.
    quota_rows: tuple[int | None, int | None] = (None, None)  # the sensors THROTTLED and QUOTA, whose stall shows in it
    per_stalled_ms: float | None = None  # how much it rises by a ms/s of stall; None: it proves nothing in a stall

    def values(self, held: Floats) -> Floats:
        """Return the value of the signal in each second, as an array; NaN means unknown.

        `held` has the values of the sensors with the shape (sensors, seconds).
        """
        values = self._reduced(held)
        if self.quota_rows == (None, None):
            return values
        unknown = np.full(held.shape[1], np.nan)
        throttled, quota = (unknown if row is None else held[row] for row in self.quota_rows)
        return beyond_quota(values, stalled_ms(throttled, quota), self.per_stalled_ms)

    def _reduced(self, held: Floats) -> Floats:
        rows: Floats = held[list(self.rows)]
        if self.reduction == "others":
            rows = np.maximum(rows[:1] - rows[1:].sum(axis=0), 0.0)
        if self.reduction == "margin":
            rows = rows - np.asarray(self.trips_c)[:, None]
        if self.reduction == "per-cycle":
            with np.errstate(invalid="ignore", divide="ignore"):  # of a clock that stands still
                per_cycle = rows[:-1].sum(axis=0) / (rows[-1] * 1e6)
            return np.asarray(np.where(np.isfinite(per_cycle), per_cycle, np.nan))
        if self.reduction == "smooth":
            return _smooth(rows[0])
        if len(rows) == 1:
            return np.asarray(rows[0])
        known = ~np.isnan(rows).all(axis=0)
        lowest = self.reduction == "lowest"
        filled = np.where(np.isnan(rows), np.inf if lowest else -np.inf, rows)
        return np.asarray(np.where(known, filled.min(axis=0) if lowest else filled.max(axis=0), np.nan))


def _smooth(values: Floats) -> Floats:
    """Return for each second the mean of the known values in the last SMOOTHED_S seconds; NaN if none is known."""
    known = ~np.isnan(values)
    sums, counts = (
        np.convolve(each, np.ones(SMOOTHED_S))[: len(values)] for each in (np.where(known, values, 0.0), known)
    )
    return np.where(counts > 0.5, sums / np.maximum(counts, 1.0), np.nan)


def stalled_ms(throttled: Floats, quota: Floats) -> Floats:
    """Return the longest time in ms of each second for which the engine's own CPU quota may have stopped the engine.

    `throttled` has the measured times in ms/s, or NaN. `quota` has the percentage of periods in which the quota stopped
    the engine. Where the time is NaN, the result is infinite if the percentage is above 0, and 0 otherwise. All arrays
    have one element per second.
    """
    with np.errstate(invalid="ignore"):  # a comparison with an unknown value is false
        unmeasured = np.where(quota > 0, np.inf, 0.0)
    return np.asarray(np.where(np.isnan(throttled), unmeasured, STALL_MARGIN * throttled))


def beyond_quota(values: Floats, stalled: Floats, per_ms: float | None = 1.0) -> Floats:
    """Return a signal of contention without the part that the engine's CPU quota caused; NaN if that part is unknown.

    The kernel counts a thread that the quota stopped as waiting for a CPU. `values` has the signal in each second.
    `stalled` has the ms for which the quota stopped the engine in each second, as `stalled_ms` returns them. `per_ms`
    is by how much 1 ms of such a stop raises the signal. If it is None, the result is NaN in seconds with a stop of 30
    ms or more.
    """
    if not (stalled > 0).any():  # this is nearly always so
        return values
    if per_ms is None:
        return np.where(stalled >= STALLS_MS, np.nan, values)
    return np.where(np.isinf(stalled), np.nan, np.where(stalled > 0, np.maximum(values - per_ms * stalled, 0), values))


def channels(infos: Sequence[SensorInfo], trips_c: Mapping[int, float]) -> tuple[Channel, ...]:
    """Return all signals that these sensors can give.

    `trips_c` has the trip point in °C of each thermal zone, by its index in `infos`.
    """
    row = {info.id: place for place, info in enumerate(infos)}
    zones, trips = tuple(trips_c), tuple(trips_c.values())
    heat = Channel("zone-at-trip", "thermal", zones, "trip", "margin", fixed=AT_TRIP_C, trips_c=trips)
    of_heat = [heat] if zones else []
    return (*_flags(infos), *_counts(row), *of_heat, *_clocks(infos), *_load_and_inputs(infos, row))


def is_flag(info: SensorInfo) -> bool:
    """Whether the sensor is a flag that says that a limit is in force now.

    False for a flag that says that a limit was in force at some time since the last boot.
    """
    return info.kind == "throttle" and not info.label.endswith(STICKY)


# By the label's words; any other (freq-capped, throttled) says that something limits, not what.
_FLAG_CAUSES: tuple[tuple[str, Cause], ...] = (
    ("thermal", "thermal"), ("temp", "thermal"), ("edge-tpu", "thermal"),
    ("under-voltage", "under-voltage"),
    ("power", "power-cap"), ("current", "power-cap"),
)  # fmt: skip


def cause_of_flag(info: SensorInfo) -> Cause | None:
    """Return the cause that the flag reports, such as `thermal`, or None if it does not say why the board is limited.

    For a sensor for which `is_flag` is False, the result is None as well.
    """
    return next((cause for word, cause in _FLAG_CAUSES if word in info.label), None) if is_flag(info) else None


def _flags(infos: Sequence[SensorInfo]) -> Iterator[Channel]:
    for place, info in enumerate(infos):
        cause = cause_of_flag(info)
        if cause:
            yield Channel(info.id, cause, (place,), fixed=SET)
        elif info.kind == "cooling" and info.throttles:
            yield Channel(info.id, "thermal", (place,), least=SET)


# Cause, how far beyond its usual range, by which share of that, how well it proves the cause alone (None for a limit,
# which its clock proves), unit.
_Count = tuple[Cause, float, float, float | None, str]

# How far each of these signals must leave its usual range. Choice: signals that others make too need more, and prove
# less. Larger: a real cause is missed; smaller: usual fluctuation is a cause.
_COUNTS: dict[str, _Count] = {
    "rate/thermal-events": ("thermal", 0.5, 1.0, None, "/s"),
    "rate/core-thermal-events": ("thermal", 0.5, 1.0, None, "/s"),
    "pressure/over-current": ("power-cap", 3.0, 0.5, None, "%"),
    "rate/over-current-events": ("power-cap", 30.0, 0.5, None, "/s"),
    QUOTA: ("cpu-quota", 5.0, 0.5, 0.9, "%"),
    THROTTLED: ("cpu-quota", STALLS_MS, 0.5, 0.9, "ms/s"),
    "rate/run-queue-wait": ("contention", STALLS_MS, 0.5, 0.9, "ms/s"),
    "load/steal": ("contention", 5.0, 0.5, 0.9, "%"),
    "pressure/cpu-some": ("contention", LEAST_PRESSURE_PCT, 0.2, 0.8, "%"),
    GPU_OF_OTHERS: ("contention", 10.0, 0.5, 0.8, "%"),
    "rate/involuntary-switches": ("contention", 30.0, 1.0, 0.5, "/s"),
    "rate/major-faults": ("memory-pressure", 5.0, 1.0, 0.8, "/s"),
    "rate/swap-in": ("memory-pressure", 20.0, 1.0, 0.8, "pages/s"),
    "rate/memory-high-hits": ("memory-high", 0.5, 1.0, 0.9, "/s"),  # a hit may be a sleep of two seconds
    "rate/memory-limit-hits": ("memory-pressure", 20.0, 1.0, 0.5, "/s"),
    "pressure/memory-some": ("memory-pressure", 4.0, 0.5, 0.9, "%"),
    "pressure/memory-full": ("memory-pressure", 3.0, 0.5, 0.9, "%"),
}


# How much a ms/s of stall adds.
_PER_STALLED_MS = {"rate/run-queue-wait": 1.0, "pressure/cpu-some": PRESSURE_PER_STALLED_MS}


def cause_of_count(sensor_id: str) -> Cause | None:
    """Return the cause that the sensor with this id measures, such as `contention`; None for other sensors.

    >>> cause_of_count("load/steal")
    'contention'
    """
    return _COUNTS[sensor_id][0] if sensor_id in _COUNTS else None


def _counts(row: dict[str, int]) -> Iterator[Channel]:
    for sensor_id, (cause, least, share, weight, unit) in _COUNTS.items():
        if sensor_id in row:
            # A hypervisor and a GPU know no quota.
            is_felt = cause == "contention" and sensor_id not in ("load/steal", GPU_OF_OTHERS)
            yield Channel(
                sensor_id, cause, (row[sensor_id],), least=least, share=share, weight=weight or 0.0, unit=unit,
                quota_rows=_quota_rows(row) if is_felt else (None, None), per_stalled_ms=_PER_STALLED_MS.get(sensor_id),
            )  # fmt: skip
    if "mem/cgroup-left" in row:
        left = (row["mem/cgroup-left"],)
        yield Channel(
            "mem/cgroup-left",
            "memory-pressure",
            left,
            falls=True,
            fixed=CGROUP_LEFT_MIB,
            weight=CGROUP_WEIGHT,
            unit="MiB",
        )


def _quota_rows(row: Mapping[str, int]) -> tuple[int | None, int | None]:
    return row.get(THROTTLED), row.get(QUOTA)


def hides_caps(infos: Sequence[SensorInfo]) -> bool:
    """Whether the firmware may lower the CPU clock without a sensor that shows it.

    True if Linux does not report the lowered limit and no sensor reads the actual clock. A Raspberry Pi is such a board
    (raspberrypi/documentation, frequency-management.adoc).
    """
    ids = {info.id for info in infos}
    return "throttle/freq-capped" in ids and "freq/arm" not in ids


def _clocks(infos: Sequence[SensorInfo]) -> Iterator[Channel]:
    """Yield a signal for the clock of each kind of CPU, for each other clock, and for the cap of each of these clocks.

    The clock of a kind of CPU is the highest clock of its CPUs, because some CPUs may be idle. Its cap is the lowest
    cap of its CPUs.
    """
    has_firmware_clock = any(info.id == "freq/arm" for info in infos)
    is_blind = hides_caps(infos)
    for kind, role in (("freq", "clock"), ("freqcap", "cap")):
        groups: dict[tuple[str, float | None], list[int]] = {}
        for place, info in enumerate(infos):
            if info.kind != kind or (has_firmware_clock and kind == "freq" and info.label.startswith("cpu")):
                continue
            key = ("cpu", info.max) if info.label.startswith("cpu") else (info.label, None)
            groups.setdefault(key, []).append(place)
        for rows in groups.values():
            first, last = infos[rows[0]], infos[rows[-1]]
            name = first.id if len(rows) == 1 else f"{first.id} to {last.label}"
            cause = MEMORY_CLOCK if _OF_MEMORY.match(first.label) else "clock-change"
            yield Channel(
                name, cause, tuple(rows), role, "highest" if role == "clock" else "lowest",  # type: ignore[arg-type]
                falls=True, share=CLOCK_FELL, unit="MHz", is_blind=is_blind and first.label.startswith("cpu"),
            )  # fmt: skip


def _load_and_inputs(infos: Sequence[SensorInfo], row: dict[str, int]) -> Iterator[Channel]:
    ids = ("load/others",) if "load/others" in row else ("load/cpu", "load/engine", "load/edgetop")
    if all(sensor_id in row for sensor_id in ids):
        rows = tuple(row[sensor_id] for sensor_id in ids)
        yield Channel(
            LOAD_OF_OTHERS, "contention", rows, reduction="others", least=OTHERS_PCT, weight=OTHERS_WEIGHT, unit="%",
            quota_rows=_quota_rows(row),
        )  # fmt: skip
    if MEMORY_LOAD in row:
        yield Channel(MEMORY_LOAD, MEMORY_CLOCK, (row[MEMORY_LOAD],), "load", share=SET, unit="%")
    elif all(sensor_id in row for sensor_id in _TRAFFIC):
        rows = tuple(row[sensor_id] for sensor_id in _TRAFFIC)
        yield Channel(MEMORY_PER_CYCLE, MEMORY_CLOCK, rows, "load", "per-cycle", share=SET, unit="B")
    for place, info in enumerate(infos):
        if info.kind == "volt" and info.label.startswith(_INPUTS):
            yield Channel(info.id, "under-voltage", (place,), falls=True, fixed=INPUT_FLOOR_V, unit="V")


@frozen
class Machine:
    """Properties of the board and of the load that change the meaning of sensor values."""

    governor: str | None = None
    cores: int | None = None
    cpus: float | None = None  # that a container allows
    threads: int = 0  # of each stream; 0: the runtime chooses
    streams: int = 1
    is_paced: bool = False
    is_program: bool = False  # a watched program has a load of its own
    hides_caps: bool = False  # the firmware caps the clock where Linux does not see it

    @property
    def usable(self) -> float | None:
        """Return the number of CPUs that the engine may use, or None if it is unknown."""
        return min((count for count in (self.cores, self.cpus) if count), default=None)

    @property
    def wanted(self) -> int:
        """Return how many CPUs the engine needs at least: its threads times its streams."""
        return max(1, self.threads) * max(1, self.streams)


class Signals:
    """Gives the values of all signals that can explain a slowdown of one stream.

    The sources are sensors, events, and the calls of other streams.
    """

    def __init__(self, tracks: Tracks) -> None:
        self.number = 0  # of the stream
        self.is_of_tokens = False  # whether what is judged are times per token, and not inferences with their inputs
        self.mix = Mix()
        self.positions = EqualPosition()  # of the context of a language model
        self.sized = SizedTimes()  # latencies of calls with the sizes of their inputs
        self.sizes = SizedStreams()  # those of streams that have not begun; shared by all streams
        self._begun = {0}  # numbers of the streams that have begun; shared by all streams
        self.names: tuple[str, ...] = ()  # of all streams
        self._manifest: Manifest | None = None
        self.infos: tuple[SensorInfo, ...] = ()  # a row of looked-up values each
        self.trips_c: dict[int, float] = {}  # of the zones that have one, by row
        self.channels: tuple[Channel, ...] = ()
        self.unset: frozenset[Cause] = frozenset()  # causes that are limits which are not set
        self.events = EventIndex()
        self.machine = Machine()
        self._tracks = tracks
        self._places: list[int] = []  # of the rows, in the manifest

    def register(self, manifest: Manifest) -> None:
        """Use the sensors in this manifest. It must contain all sensors of the manifest used before."""
        self._manifest = manifest
        board, load = manifest.board, manifest.load
        self.machine = Machine(
            board.governor, board.cores, manifest.constraints.cpus, manifest.engine.threads, load.streams,
            is_paced=load.is_paced or bool(load.delay_ns or load.duty_off_ns), is_program=manifest.watched is not None,
            hides_caps=hides_caps(manifest.sensors),
        )  # fmt: skip
        trips, infos = trips_c(manifest), manifest.sensors
        size = f"input/{self.number}-mean"
        ids = _IDS | _COUNTS.keys() | {size}
        matters = (info.kind in _KINDS or info.id in ids or place in trips for place, info in enumerate(infos))
        self._places = [place for place, is_wanted in enumerate(matters) if is_wanted]
        self.infos = tuple(infos[place] for place in self._places)
        self.trips_c = {row: trips[place] for row, place in enumerate(self._places) if place in trips}
        self.channels = channels(self.infos, self.trips_c)
        has_sensor = {channel.cause for channel in self.channels}
        causes = (cause for one in manifest.unset_limits if (cause := cause_of_count(one)))
        self.unset = frozenset(cause for cause in causes if cause not in has_sensor)
        self.names = stream_names(manifest)
        if not self.is_of_tokens:
            self.sized.register(manifest, self.number)
        if not self.number:
            self.sizes.register(manifest, self._begun)
        if self.machine.is_program:
            row = (-1,)  # after all sensors, of which more may come
            rows = tuple(place for place, info in enumerate(self.infos) if info.id == size)
            if rows and not (self.sized.is_known or self.is_of_tokens):  # else latency is judged at equal size
                self.channels += (
                    Channel(
                        size, "inputs", rows, reduction="smooth", share=INPUTS_GREW, weight=OF_INPUTS, unit="elements"
                    ),
                )
            self.channels += (Channel(OTHER_CALLS, "mix", row, least=OTHER_CALLS_ROSE_PCT, weight=OF_MIX, unit="%"),)

    def of_stream(self, number: int, *, of_tokens: bool = False) -> "Signals":
        """Return the signals of the stream `number` of the same session.

        Both objects share the events and the counts of calls.
        """
        other = copy.copy(self)
        other.number, other.is_of_tokens = number, of_tokens
        other.sized = SizedTimes() if of_tokens else self.sizes.begin(number)
        self._begun.add(number)
        if self._manifest is not None:
            other.register(self._manifest)
        return other

    def held(self, begin_s: int, end_s: int, rows: Sequence[int] | None = None) -> tuple[Floats, Bools]:
        """Return two arrays: the value of each sensor in each second, and whether the sensor was read in that second.

        Both have the shape (sensors, seconds), for the seconds from `begin_s` to `end_s`. Between readings, a value
        stays valid. `rows` has the indexes of the wanted sensors in `infos`; None means all sensors.
        """
        places = self._places if rows is None else [self._places[row] for row in rows]
        return self._tracks.held(places, begin_s, end_s)

    def input_size(self, begin_s: int, end_s: int) -> float | None:
        """Return the mean number of elements in the inputs from `begin_s` to `end_s`, or None if it was not read."""
        rows = next((channel.rows for channel in self.channels if channel.cause == "inputs"), None)
        if rows is None or end_s <= begin_s:
            return None
        held, was_read = self.held(begin_s, end_s, rows)
        return float(held[was_read].mean()) if was_read.any() else None

    def of_channels(self, begin_s: int, end_s: int) -> tuple[Floats, Bools]:
        """Return two arrays: the values from which signals are computed, and whether each was read in that second.

        Both have the shape (values, seconds). The values are those of all sensors. In a watched program, a last row has
        the share of calls of other streams in percent.
        """
        held, was_read = self.held(begin_s, end_s)
        if not self.machine.is_program:
            return held, was_read
        shares = 100 * self.mix.shares(self.number, begin_s, end_s)[np.newaxis]
        return np.concatenate([held, shares]), np.concatenate([was_read, ~np.isnan(shares)])
