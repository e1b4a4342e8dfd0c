"""Whether a board is limited from the start, so that there is no burst to compare with.

This is so if a limit's flag is set for most of the first seconds, or if no CPU's clock comes near
the one that its governor allows although the engine keeps one CPU busy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetop.analysis.slowdowns.signals import AT_TRIP_C, SET, Cause, Signals, cause_of_flag, hides_caps, is_flag
from edgetop.analysis.tracks import Bools, Floats
from edgetop.formatting import clock_time, percent, reading
from edgetop.session.manifest import SensorInfo
from edgetop.session.seconds import NS

OPENING_S = 6  # of the measurement, in which it is judged
RELEASED_S = 10  # without a limit: an interruption is shorter
FAR_BELOW = 0.6  # of the allowed clock: above it are all-core and vector clocks of healthy PCs
FULL = 0.95
BUSY = 80.0  # percent of one core
# These governors choose low clocks by themselves (Documentation/admin-guide/pm/cpufreq.rst).
_LOW_GOVERNORS = frozenset({"powersave", "userspace", "conservative"})


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the board in each of some seconds."""

    flags: dict[str, Bools]  # by id; only those that were set
    causes: dict[Cause, Bools]
    low_clock: Bools
    clock_mhz: Floats
    allowed_mhz: Floats
    was_read: bool  # every flag of `flags`, in the first second

    @property
    def lead_s(self) -> int:
        """Return for how many seconds nothing limited the board, as far as known."""
        return 0 if self.low_clock.any() or not self.was_read else int(np.argmax(self.any))

    @property
    def any(self) -> Bools:
        return np.asarray(np.logical_or.reduce([self.low_clock, *self.flags.values()]))


def read_limits(signals: Signals, begin_s: int, end_s: int) -> Limits:
    held, _ = signals.held(begin_s, end_s)
    at_trip = _at_trip(signals.trips_c, held)
    low, clock, allowed = _low_clock(signals.infos, held, signals.machine.governor, at_trip)
    is_full = (clock >= FULL * allowed) & (not hides_caps(signals.infos))  # False where not known
    flags: dict[str, Bools] = {}
    causes: dict[Cause, Bools] = {"thermal": low & at_trip} if (low & at_trip).any() else {}
    was_read = True
    for info, values in zip(signals.infos, held, strict=True):
        cause = cause_of_flag(info)
        is_set = values >= SET
        if cause == "under-voltage":  # only a warning while the clock is as high as it should be
            is_set &= ~is_full
        # The kernel's alarm of a Raspberry Pi only repeats the firmware's flag, less surely.
        if is_flag(info) and not info.label.endswith("-alarm") and is_set.any():
            flags[info.id] = is_set
            was_read &= not np.isnan(values[0])
            if cause:
                causes[cause] = causes.get(cause, is_set) | is_set
    return Limits(flags, causes, low, clock, allowed, was_read)


@dataclass(slots=True)
class Limited:
    """How long each limit was in force while the board was limited from the start, or before a burst."""

    from_s: int | None = None  # the second in which it began; None: it was so from the start
    flags: dict[str, int] = field(default_factory=dict)  # seconds by id
    causes: dict[Cause, int] = field(default_factory=dict)  # seconds
    low_clock: int = 0  # seconds
    clock_mhz: float = 0.0
    allowed_mhz: float = 0.0
    seconds: int = 0
    free_s: int = 0  # the last seconds, in which no limit was in force
    level_sum: int = 0  # of the medians of seconds, in millionths of a neper
    level_count: int = 0

    def count(self, limits: Limits) -> int | None:
        """Count the limits in force, up to the release. Returns how many seconds that was; None: no release."""
        for place, is_limited in enumerate(limits.any.tolist()):
            self.free_s = 0 if is_limited else self.free_s + 1
            if self.free_s == RELEASED_S:
                self._add(limits, place + 1)
                return place + 1
        self._add(limits, len(limits.low_clock))
        return None

    def _add(self, limits: Limits, upto: int) -> None:
        for name, is_set in limits.flags.items():
            self.flags[name] = self.flags.get(name, 0) + int(np.count_nonzero(is_set[:upto]))
        for cause, is_set in limits.causes.items():
            self.causes[cause] = self.causes.get(cause, 0) + int(np.count_nonzero(is_set[:upto]))
        low = limits.low_clock[:upto]
        self.low_clock += int(np.count_nonzero(low))
        if low.any():
            self.clock_mhz, self.allowed_mhz = (
                float(values[:upto][low][-1]) for values in (limits.clock_mhz, limits.allowed_mhz)
            )
        self.seconds += upto

    @property
    def slow_seconds(self) -> int:
        return max(1, self.seconds - self.free_s)

    @property
    def cause(self) -> Cause:
        if self.causes:
            return max(self.causes, key=lambda cause: self.causes[cause])
        return "clock-change" if self.low_clock else "unknown"

    @property
    def confidence(self) -> float:
        most = max(self.causes.values(), default=self.low_clock * 0.7)
        return round(min(0.95, 0.95 * most / self.slow_seconds), 2)

    def sentences(self) -> Iterator[str]:
        for name, times in self.flags.items():
            if times:
                since = "from the start," if self.from_s is None else f"at {clock_time(self.from_s * NS)}, and"
                yield f"{name} was set {since} in {percent(times / self.slow_seconds)} of the seconds"
        if self.low_clock:
            mhz, allowed = reading(self.clock_mhz, "MHz"), reading(self.allowed_mhz, "MHz")
            yield f"the CPU ran at {mhz} MHz under load where its governor allows {allowed} MHz"


def _at_trip(trips_c: Mapping[int, float], held: Floats) -> Bools:
    """Return in which seconds a zone is at the trip at which it throttles."""
    is_there = np.zeros(held.shape[1], np.bool_)
    for row, trip_c in trips_c.items():
        is_there |= held[row] - trip_c >= AT_TRIP_C
    return is_there


def _low_clock(
    infos: Sequence[SensorInfo], held: Floats, governor: str | None, at_trip: Bools
) -> tuple[Bools, Floats, Floats]:
    """Return when every CPU is far below its allowed clock; the clock nearest to it, and the allowed clock."""
    row = {info.id: place for place, info in enumerate(infos)}
    seconds = held.shape[1]
    unknown = np.full(seconds, np.nan)
    clocks = [place for place, info in enumerate(infos) if info.id == "freq/arm"] or [
        place for place, info in enumerate(infos) if info.kind == "freq" and info.label.startswith("cpu")
    ]
    known = [place for place in clocks if infos[place].max]
    if not known:
        return np.zeros(seconds, np.bool_), unknown, unknown
    allowed = np.array([np.full(seconds, infos[place].max) for place in known])
    for at, place in enumerate(known):
        label = "cpu0" if infos[place].label == "arm" else infos[place].label
        if f"freqcap/{label}" in row:
            allowed[at] = np.fmin(allowed[at], held[row[f"freqcap/{label}"]])
    share = np.where(np.isnan(held[known]), -1.0, held[known] / allowed)
    best = share.argmax(axis=0)
    nearest = np.take_along_axis(share, best[None], axis=0)[0]
    clock = np.take_along_axis(held[known], best[None], axis=0)[0]
    limit = np.take_along_axis(allowed, best[None], axis=0)[0]
    busy = held[row["load/engine"]] >= BUSY if "load/engine" in row else np.zeros(seconds, np.bool_)
    low = (nearest >= 0) & (nearest < np.where(at_trip, FULL, FAR_BELOW)) & busy & (governor not in _LOW_GOVERNORS)
    return low, clock, limit
