"""Memory: how much the engine uses, of which kind, how much it may use, and whether it leaks.

Every runtime's memory grows while it warms up, and again when an input is larger than all earlier inputs. The growth of
a leak does not stop. A leak is reported if the growth is significant, faster than a MiB an hour, spread over the whole
time, and not levelling off. The growth with its interval is shown from the first minute on.
"""

# ruff: noqa: RUF009  `_of` makes fields of a dataclass

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from edgetop.analysis.blocks import Blocks, Floats, Ints
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks, TrackView
from edgetop.formatting import DIGITS, rounded
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.engine_events import EngineMemory
from edgetop.session.events import Event
from edgetop.session.median import median
from edgetop.session.phases import Phases
from edgetop.session.records import middles_ns, of_sensors
from edgetop.session.seconds import NS

# While a session runs, the growth is measured every eight seconds at most. It changes slowly, and takes 0.5 ms.
RUNNING_S = 8
ANONYMOUS, SWAPPED, RESIDENT = "mem/rss-anon", "mem/swap", "mem/rss"

# Growth that is a leak. Choice: 24 MiB a day; a month of it fills a small board. Larger: slow leaks pass; smaller:
# caches that fill are leaks.
LEAK_MIB_PER_H = 1.0
# Time of measuring from which the growth is told. Choice: its interval says how sure it is. Larger: a fast leak is
# seen late; smaller: the warm-up is extrapolated.
GROWTH_S = 60
# Time of measuring from which growth may be called a leak. Choice: whether growth levels off shows no earlier.
# Larger: a leak is reported late; smaller: a heap that still fills is a leak.
LEAST_S = 120
# Number of points that the slope is made of: three in each part. Choice. Larger: fluctuation counts as independent;
# smaller: the interval is too wide.
POINTS = 24
# Share of the time that is left out at its beginning. Choice: allocators fill their pools then. Larger: a leak is
# seen late; smaller: the warm-up is a leak.
SETTLING = 0.1
# Least rise of a leak. Choice: a heap fluctuates by as much, a page at a time. Larger: slow leaks are seen late;
# smaller: a few pages are a leak.
LEAST_RISE_MIB = 0.5
# Slope of the second half, as a share of that of the first, below which growth levels off. Choice. Larger: a leak
# that slows down passes; smaller: a cache that fills is a leak.
LEVELLED_OFF = 0.5
# Number of parts of the time that are compared. Choice. Larger: fluctuation makes steps; smaller: one jump looks
# spread.
PARTS = 8
# Number of the seven steps from part to part that must rise. Choice: all but one. Larger: a leak with a pause passes;
# smaller: one jump is a leak.
RISING_PARTS = 6
# Least step, as a share of an even one. Choice. Larger: an uneven leak passes; smaller: one jump with noise is a
# leak.
RISES = 0.25
HOUR_S = 3600.0
Z_975 = 1.96
WHOLE_FROM, GIB_FROM = 10, 1000  # MiB/h that are written without decimals


@frozen
class StageView:
    """The engine's memory in MiB at the end of one step of its run. Field names are keys of the JSON report."""

    stage: str  # "interpreter", "runtime", "model", "first" or "steady"
    rss_mib: float
    anon_mib: float | None  # None if the kernel does not report it.
    file_mib: float | None
    arena_mib: float | None = None  # Memory of TFLite's interpreter for tensors; None if unknown, or of another stage.
    arena_from: str | None = None  # "tensors": what its tensors cover; "growth": how much memory grew for them.


@frozen
class Slope:
    """The slope of a line: a change per unit of time, with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@frozen
class GrowthView:
    """How the engine's memory grew in the measured phase.

    Memory that was swapped out is included, and pages of files are not.
    """

    mib_per_h: Slope | None = None  # None if the session is too short to tell.
    is_leak: bool | None = None  # None if the session is too short to tell.
    # Time until the limit of the cgroup or the board is reached at this rate. None if the growth is uncertain or ends.
    hours_left: float | None = None


def _of(sensor_id: str) -> Any:  # as `field`, which takes the type of the field
    """Return a dataclass field for `MemoryView`. `sensor_id`: the sensor that the field shows, such as "mem/rss"."""
    return field(metadata={"sensor": sensor_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """The readings of all memory sensors, in MiB or as rates.

    A field is None if the board has no such sensor.
    """

    rss: TrackView | None = _of("mem/rss")
    anon: TrackView | None = _of("mem/rss-anon")
    file: TrackView | None = _of("mem/rss-file")
    shmem: TrackView | None = _of("mem/rss-shmem")
    peak: TrackView | None = _of("mem/rss-peak")
    pss: TrackView | None = _of("mem/pss")
    uss: TrackView | None = _of("mem/uss")
    swap: TrackView | None = _of("mem/swap")
    accelerator: TrackView | None = _of("mem/accelerator")  # GPU memory of the engine
    system_accelerator: TrackView | None = _of("mem/system-accelerator")  # GPU memory of all processes
    available: TrackView | None = _of("mem/system-available")
    system_swap: TrackView | None = _of("mem/system-swap")  # swapped out, of all processes
    application: TrackView | None = _of("mem/application")  # a watched program with all its children
    cgroup: TrackView | None = _of("mem/cgroup")
    cgroup_limit: TrackView | None = _of("mem/cgroup-limit")
    cgroup_left: TrackView | None = _of("mem/cgroup-left")
    oom_kills: TrackView | None = _of("rate/oom-kills")  # 1/s, of the engine's cgroup
    swap_in: TrackView | None = _of("rate/swap-in")  # pages/s, of the system
    swap_out: TrackView | None = _of("rate/swap-out")
    major_faults: TrackView | None = _of("rate/major-faults")  # 1/s, of the engine
    peak_mib: float | None  # the most memory that the engine has used, as in reports
    board_mib: float | None  # how much memory the board has
    stages: tuple[StageView, ...]  # in the order of the run
    rss_points: Points | None
    room_points: Points | None  # timeline of `room`
    growth: GrowthView
    room: TrackView | None  # what is left to the limit of the cgroup or of the board's memory, whichever is nearer

    @property
    def gpu(self) -> TrackView | None:
        """Return the GPU memory of the engine or, if this is unknown, the GPU memory of all processes, or else None."""
        return self.accelerator or self.system_accelerator


class MemoryStages:
    """Collects the engine's memory at each step of its run, from the events in which the engine reports it."""

    def __init__(self) -> None:
        self._stages: dict[str, StageView] = {}

    def fold(self, events: Iterable[Event]) -> None:
        for event in events:
            match event.body:
                case EngineMemory() as memory:
                    self._stages[memory.stage] = _stage_view(memory)

    def views(self) -> tuple[StageView, ...]:
        return tuple(self._stages.values())


def _stage_view(of: EngineMemory) -> StageView:
    anon_mib, file_mib, arena_mib = (
        rounded(None if mib is None else float(mib)) for mib in (of.anon_mib, of.file_mib, of.arena_mib)
    )
    arena_from = of.arena_from if of.arena_from in ("tensors", "growth") and arena_mib is not None else None
    return StageView(
        of.stage, round(float(of.rss_mib), DIGITS), anon_mib, file_mib, arena_mib if arena_from else None, arena_from
    )


def room(tracks: Tracks) -> TrackView | None:
    """Return the sensor of the memory that can still be allocated, in MiB, or None if the board has no such sensor.

    There may be two: the memory left below the cgroup's limit, and the memory left on the board. The result is the
    sensor with the lower value.
    """
    available = tracks.one("mem/system-available")
    left = (tracks.one("mem/cgroup-left"), available)
    known = [track for track in left if track and track.value is not None and not track.is_lost]
    return min(known, key=lambda track: track.value or 0.0, default=available)


def peak_mib(tracks: Tracks, stages: Iterable[StageView]) -> float | None:
    """Return the most memory that the engine has used at any time, in MiB, or None if unknown.

    The result is the highest of three: the kernel's own maximum, which is read seldom; the readings of RSS; and
    `stages`, the memory that the engine reports at the steps of its run. In a short run, only `stages` may be known.
    """
    tops = [track.max for track in (tracks.one("mem/rss-peak"), tracks.one(RESIDENT)) if track]
    return max((mib for mib in (*tops, *(one.rss_mib for one in stages)) if mib is not None), default=None)


def view_memory(
    tracks: Tracks,
    board_bytes: int | None,
    axis: Axis,
    stages: tuple[StageView, ...] = (),
    growth: GrowthView | None = None,
) -> MemoryView:
    left = room(tracks)
    return MemoryView(
        **{of.name: tracks.one(of.metadata["sensor"]) for of in fields(MemoryView) if of.metadata},
        peak_mib=peak_mib(tracks, stages),
        board_mib=None if board_bytes is None else board_bytes / 2**20,
        stages=stages,
        rss_points=tracks.points("mem/rss", axis),
        room_points=tracks.points(left.info.id, axis) if left else None,
        growth=growth or GrowthView(),
        room=left,
    )


class MemoryGrowth:
    """Measures how the engine's memory grows, from the readings of its memory sensors."""

    def __init__(self, phases: Phases | None = None) -> None:
        self._phases = phases or Phases()
        self._places: dict[int, str] = {}
        self._held = {name: Blocks(2) for name in (ANONYMOUS, SWAPPED, RESIDENT)}  # KiB, readings
        self._judged_for: tuple[int, int, int] | None = None
        self._view = GrowthView()

    def fold(self, batch: Batch) -> None:
        if batch.manifest is not None:
            self._places = {i: info.id for i, info in enumerate(batch.manifest.sensors) if info.id in self._held}
        self._phases.fold(batch.events)
        readings = of_sensors(batch.readings, self._places)
        for place, name in self._places.items():
            past = batch.aggregates[batch.aggregates["sensor"] == place] if len(batch.aggregates) else batch.aggregates
            if len(past):  # an aggregate is no longer than a block of as long a session
                self._add(name, middles_ns(past), past["mean"], past["count"])
            rows = readings[readings["sensor"] == place]
            if len(rows):
                self._add(name, rows["t_ns"], rows["value"], np.ones(len(rows), np.int64))

    def _add(self, name: str, t_ns: Ints, mib: Floats, count: Ints) -> None:
        kib = np.rint(np.clip(mib, 0, 2**32) * 1024 * count).astype(np.int64)
        self._held[name].add(t_ns // NS, np.column_stack([kib, count.astype(np.int64)]))

    def view(self, until_ns: int, room_mib: float | None = None, *, is_over: bool = True) -> GrowthView:
        """Return the growth up to the session time `until_ns`, in ns.

        `room_mib`: how much more memory the engine may use, in MiB; None if unknown. `is_over`: whether the session is
        over. Otherwise, the growth may be some seconds older.
        """
        name = ANONYMOUS if len(self._held[ANONYMOUS].sums()) else RESIDENT
        blocks = self._held[name]
        # Only complete blocks count: the last one may still change.
        whole = min(len(blocks.sums()) - 1, (until_ns // NS - blocks.first_s) // blocks.width_s)
        if not is_over and whole > 0:
            whole -= whole % max(1, RUNNING_S // blocks.width_s)
        seen = (whole, blocks.width_s, self._phases.measured_from_ns or -1)
        if seen != self._judged_for:
            self._judged_for, self._view = seen, self._judged(name, whole)
        view, slope = self._view, self._view.mib_per_h
        if view.is_leak is False or slope is None or slope.low <= 0 or room_mib is None:
            return view
        return replace(view, hours_left=room_mib / slope.value)

    def _judged(self, name: str, whole: int) -> GrowthView:
        t_s, mib = self._series(name, whole)
        if len(t_s) < POINTS or t_s[-1] - t_s[0] < GROWTH_S * (1 - SETTLING):
            return GrowthView()
        is_early = t_s[-1] - t_s[0] < LEAST_S * (1 - SETTLING)
        # Neighbours are averaged: a fluctuation of some seconds is no trend.
        t_h, mib = (np.array([part.mean() for part in np.array_split(of, POINTS)]) for of in (t_s / HOUR_S, mib))
        slope = robust_slope(t_h, mib)
        return GrowthView(slope, None if is_early else bool(_is_leak(slope, t_h, mib)))

    def _series(self, name: str, whole: int) -> tuple[Floats, Floats]:
        """Return two arrays with an entry for each block of time: its middle in s, and the engine's memory in MiB.

        `name`: the memory sensor, such as "mem/rss". `whole`: the number of complete blocks, to which the result is
        limited. The beginning of the measured phase is left out.
        """
        nothing = np.empty(0)
        blocks, swapped = self._held[name], self._held[SWAPPED]
        if self._phases.measured_from_ns is None or whole <= 0:
            return nothing, nothing
        sums = blocks.sums()[:whole]
        read = sums[:, 1] > 0
        t_s = blocks.first_s + (np.arange(whole) + 0.5) * blocks.width_s
        mib = sums[:, 0] / np.maximum(sums[:, 1], 1) / 1024
        if name == ANONYMOUS and (swapped.first_s, swapped.width_s) == (blocks.first_s, blocks.width_s):
            out = swapped.sums()[:whole]
            mib[: len(out)] += out[:, 0] / np.maximum(out[:, 1], 1) / 1024
        began_s = self._phases.measured_from_ns / NS
        wanted = read & (t_s >= began_s + SETTLING * (t_s[-1] - began_s))
        return t_s[wanted], mib[wanted]


def _is_leak(slope: Slope, t_h: Floats, mib: Floats) -> bool:
    if slope.low <= 0 or slope.value <= LEAK_MIB_PER_H or slope.value * (t_h[-1] - t_h[0]) < LEAST_RISE_MIB:
        return False
    middle = len(t_h) // 2
    early, late = slope_between(t_h[:middle], mib[:middle]), slope_between(t_h[middle:], mib[middle:])
    if late <= LEAK_MIB_PER_H or late < LEVELLED_OFF * early:
        return False
    levels = np.array([median(part) for part in np.array_split(mib, PARTS)])
    even = float(levels[-1] - levels[0]) / (PARTS - 1)
    return int(np.count_nonzero(np.diff(levels) > RISES * even)) >= RISING_PARTS


def slope_between(t: Floats, y: Floats) -> float:
    """Return the median of the slopes of the lines through all pairs of points.

    `t` and `y` are the coordinates of the points. See Theil 1950, A rank-invariant method of linear regression, and Sen
    1968.
    """
    i, j = np.triu_indices(len(t), 1)
    return float(median((y[j] - y[i]) / (t[j] - t[i])))


def robust_slope(t: Floats, y: Floats) -> Slope:
    """Return the median slope of the lines through all pairs of points, with its 95 % interval.

    `t`: at least ten times at even intervals. `y`: the value at each time. The memory of a process is its earlier
    memory plus a change, so a fitted line would seem more certain than it is. So the interval is computed for a random
    walk with drift, from the scatter of its steps. The slope of a line has 6/5 of the variance of the steps' mean
    (Durlauf and Phillips 1988, Trends versus random walks in time series analysis, Econometrica 56(6)). If the errors
    of the points are independent, the interval is wider than necessary.
    """
    value = slope_between(t, y)
    steps = np.diff(y) / np.diff(t)
    # Student's t, to 1 % from eight degrees of freedom on (Fisher's expansion).
    t_975 = Z_975 + (Z_975**3 + Z_975) / (4 * (len(steps) - 1))
    half = t_975 * math.sqrt(6 / 5 / len(steps)) * float(steps.std(ddof=1))
    return Slope(value, value - half, value + half)
