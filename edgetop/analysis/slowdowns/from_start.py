"""Finds whether a board is limited from the start, and whether other processes take CPU time that the engine needs.

A rise of the latency can be found only if there is a level before it. There is none for a limit that exists from the
start, so such a limit is found here. Contention (other processes take CPU time that the engine needs) is found here at
any time.

A board is limited from the start if the flag of a limit is set for most of the first seconds. It is also limited if no
CPU clock comes near the frequency that its governor allows, although the engine keeps one CPU busy. Then there is no
burst (a first steady 30 s) with which later latencies could be compared.

The engine's own threads do not count as other processes. So the engine's waiting time counts only up to the CPU time
that other processes used, and only up to the CPU time that the engine left free. An engine with more threads than CPUs
does not contend with itself. A watched program does more than inferences, so only the waiting time within its calls
counts. The engine's own CPU quota is no contention either: the time for which it stopped the threads is subtracted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetop.analysis.slowdowns.clue import Clue, ClueKind
from edgetop.analysis.slowdowns.detector import INTERRUPTION_S
from edgetop.analysis.slowdowns.signals import (
    AT_TRIP_C,
    OTHERS_PCT,
    PRESSURE_PER_STALLED_MS,
    QUOTA,
    SET,
    STALLS_MS,
    THROTTLED,
    Cause,
    Machine,
    Signals,
    beyond_quota,
    cause_of_flag,
    is_flag,
    stalled_ms,
)
from edgetop.analysis.tracks import Bools, Floats
from edgetop.frozen import frozen
from edgetop.session.manifest import SensorInfo

# Limits. Number of seconds at the beginning in which a limit is judged. Choice. Larger: a throttle that began soon
# after the start counts as one from the start; smaller: one odd reading decides.
LIMITED_OPENING_S = 6
# Share of the allowed clock below which a board without a flag is limited. Measured: clocks of healthy PCs with all
# cores or vector units in use are above it. Larger: such PCs are limited from the start; smaller: a lowered cap is
# missed.
FAR_BELOW = 0.6
# The same share where a zone is at its trip. Choice: drivers round to operating points, a few percent apart. Larger:
# rounding is a limit; smaller: the first steps of a throttle are missed.
FULL_CLOCK = 0.95
# CPU use of the engine, of one core, from which a low clock is not its own choice. Kernel: schedutil and ondemand
# raise the clock of a CPU that is 80 % busy. Larger: a limit is missed for paced loads; smaller: a governor that
# saves power is a limit.
BUSY_PCT = 80.0
# Confidence in a clock that is low without a flag. Choice. Larger: the governor's choice is called a limit too
# surely; smaller: a real cap looks like a guess.
LOW_CLOCK_BELIEF = 0.7
MOST_CONFIDENCE = 0.95  # Nothing before the start shows how it would be without the cause.
# These governors choose low clocks by themselves (Documentation/admin-guide/pm/cpufreq.rst).
_LOW_GOVERNORS = frozenset({"powersave", "userspace", "conservative"})

# Contention. Number of seconds at the beginning in which contention is judged. Choice. Larger: a short burst of
# others at the start counts; smaller: their first seconds decide.
CONTENDED_OPENING_S = 10
# Number of these seconds that must be contended. Choice: most. Larger: contention that flickers enters the burst;
# smaller: another program's start counts as contention.
LEAST_CONTENDED_S = 7
# Number of the last seconds in which contention now is judged. Choice. Larger: it is shown later, and longer;
# smaller: it flickers.
RECENT_S = 6
# Number of these seconds that must be contended. Choice: most. Larger: contention that comes and goes is not shown;
# smaller: a cron job is.
LEAST_RECENT_S = 4
RELEASED_S = INTERRUPTION_S  # Contention or a limitation is over after this many seconds without it.
# Share of its time that an engine must wait for a CPU to be contended. Computed: a model is then 11 % slower, which
# is a slowdown. Larger: a contended start is taken for the burst; smaller: usual background load is contention.
LOST = 0.1
# The same share if the loads of the engine and of others are unknown. Choice: the engine's own threads may wait for
# each other. Larger: contention is missed on boards without these sensors; smaller: an engine with more threads than
# CPUs contends with itself.
LOST_ALONE = 0.25
# Least wait for a CPU, in CPUs. Measured: a paced engine waits for nearly as much whenever it wakes up. Larger:
# contention of small loads is missed; smaller: every paced engine is contended.
LEAST_LOST = 0.03
# Share of all CPUs from which some process has to wait. Choice. Larger: contention is missed beside an idle corner of
# a CPU; smaller: a busy board without waits is contended.
FULL = 0.9
# CPU pressure, where the load of others is known. Choice. Larger: contention is missed on kernels that report no
# wait; smaller: the engine's own threads make it.
PRESSED_PCT = 30.0
# CPU pressure, where nothing reports what others ran. Choice. Larger: contention in a container is missed; smaller:
# the engine's own threads make it.
PRESSED_ALONE_PCT = 75.0
# Share of the wanted CPU time that a hypervisor must steal. Choice: as a slowdown. Larger: a slow virtual machine
# looks healthy; smaller: every virtual machine is contended.
STOLEN = 0.08
# Least stolen time, of one core. Choice. Larger: theft from small loads is missed; smaller: counting errors are
# theft.
LEAST_STOLEN_PCT = 5.0
# Share of the periods of its CPU quota, in percent, that the engine must use up so that others take nothing from it.
# Computed: it then has all of the CPU time that it may have. Larger: a quota beside other load is contention; smaller:
# contention beside a quota that is reached now and then is missed.
USED_UP_PCT = 90.0
# Share of the CPU time that the engine asks for, with which it lacks nothing. Choice: less than a slowdown is missing
# then. Larger: an engine that waits for memory is contended; smaller: contention beside it is missed.
WHOLE = 0.93

WAIT, ENGINE, OWN, OTHERS, BUSY, STEAL, PRESSURE, FELT = ROWS = (
    "rate/run-queue-wait", "load/engine", "load/edgetop", "load/others", "load/cpu", "load/steal", "pressure/cpu-some",
    "rate/call-run-queue-wait",
)  # fmt: skip
READ = frozenset({*ROWS, THROTTLED, QUOTA})
REPORTED = (STEAL, OTHERS, WAIT, PRESSURE)  # The first of these that is high names the reason.


@frozen
class Limits:
    """What limits the speed of the board in each second. The arrays have one element per second."""

    flags: dict[str, Bools]  # By id, only for flags that were set.
    causes: dict[Cause, Bools]
    low_clock: Bools
    clock_mhz: Floats
    allowed_mhz: Floats
    was_read: bool  # Whether every flag of `flags` was read in the first second.

    @property
    def any(self) -> Bools:
        return np.asarray(np.logical_or.reduce([self.low_clock, *self.flags.values()]))


def read_limits(signals: Signals, begin_s: int, end_s: int) -> Limits:
    held, _ = signals.held(begin_s, end_s)
    at_trip = np.zeros(held.shape[1], np.bool_)  # Whether a zone is at the temperature at which it throttles.
    for row, trip_c in signals.trips_c.items():
        at_trip |= held[row] - trip_c >= AT_TRIP_C
    low, clock, allowed = _low_clock(signals.infos, held, signals.machine.governor, at_trip)
    is_full = (clock >= FULL_CLOCK * allowed) & (not signals.machine.hides_caps)  # False if unknown.
    flags: dict[str, Bools] = {}
    causes: dict[Cause, Bools] = {"thermal": low & at_trip} if (low & at_trip).any() else {}
    was_read = True
    for info, values in zip(signals.infos, held, strict=True):
        cause = cause_of_flag(info)
        is_set = values >= SET
        if cause == "under-voltage":  # While the clock is as high as it should be, this flag is only a warning.
            is_set &= ~is_full
        # The kernel's alarm on a Raspberry Pi only repeats the firmware's flag, less reliably.
        if is_flag(info) and not info.label.endswith("-alarm") and is_set.any():
            flags[info.id] = is_set
            was_read &= not np.isnan(values[0])
            if cause:
                causes[cause] = causes.get(cause, is_set) | is_set
    return Limits(flags, causes, low, clock, allowed, was_read)


@dataclass(slots=True)
class Limited:
    """Counts how long each limit was in force, on a board that was limited at the start or soon after."""

    from_s: int | None = None  # Second in which it began; None if the board was limited from the start.
    flags: dict[str, int] = field(default_factory=dict)  # Number of seconds by id.
    causes: dict[Cause, int] = field(default_factory=dict)  # Number of seconds by cause.
    low_clock: int = 0  # Number of seconds with a low clock.
    clock_mhz: float = 0.0
    allowed_mhz: float = 0.0
    seconds: int = 0
    free_s: int = 0  # Number of seconds at the end without a limit.
    level_sum: int = 0  # Sum of the seconds' median levels, in millionths of a neper.
    level_count: int = 0

    @classmethod
    def at_opening(cls, signals: Signals, opening_s: int) -> "Limited | None":
        """Return an object for a board that is limited in most of the first seconds, or None if it is not.

        `opening_s` is the first of these seconds, as a second of the session.
        """
        limits = read_limits(signals, opening_s, opening_s + LIMITED_OPENING_S)
        if np.count_nonzero(limits.any) * 2 <= LIMITED_OPENING_S:
            return None
        lead_s = 0 if limits.low_clock.any() or not limits.was_read else int(np.argmax(limits.any))
        return cls(opening_s + lead_s if lead_s else None)

    def count(self, signals: Signals, begin_s: int, end_s: int) -> int | None:
        """Count the seconds from `begin_s` to `end_s` in which a limit is in force, until the limitation is over.

        The limitation is over after RELEASED_S seconds without a limit. Return how many seconds were examined until
        then, or None if the limitation continues. `signals` gives the values of the sensors.
        """
        limits = read_limits(signals, begin_s, end_s)
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
        most = max(self.causes.values(), default=self.low_clock * LOW_CLOCK_BELIEF)
        return round(min(MOST_CONFIDENCE, MOST_CONFIDENCE * most / self.slow_seconds), 2)

    def clues(self) -> Iterator[Clue]:
        kind: ClueKind = "set-from-start" if self.from_s is None else "set-since"
        for name, times in self.flags.items():
            if times:
                yield Clue(kind, name, share=times / self.slow_seconds, at_s=self.from_s)
        if self.low_clock:
            yield Clue("low-clock", unit="MHz", value=self.clock_mhz, usual=self.allowed_mhz)


def _low_clock(
    infos: Sequence[SensorInfo], held: Floats, governor: str | None, at_trip: Bools
) -> tuple[Bools, Floats, Floats]:
    """Return `(is_low, clock, limit)`: whether all CPU clocks are too low, and the clock that is nearest to its limit.

    The result has arrays with an element per second; `clock` and `limit` are in MHz, and NaN if unknown. `held` has the
    values of the sensors `infos` with the shape (sensors, seconds). `governor` is the name of the CPU governor.
    `at_trip` says in which seconds a thermal zone is at its trip point. In these seconds, a clock slightly below its
    limit is too low. In all others, it must be well below.
    """
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
    busy = held[row["load/engine"]] >= BUSY_PCT if "load/engine" in row else np.zeros(seconds, np.bool_)
    low = (
        (nearest >= 0) & (nearest < np.where(at_trip, FULL_CLOCK, FAR_BELOW)) & busy & (governor not in _LOW_GOVERNORS)
    )
    return low, clock, limit


@frozen
class Taken:
    """The seconds in which other processes took CPU time that the engine needed, and how much CPU time they took.

    Each array has one element per second; NaN means unknown.
    """

    is_contended: Bools
    values: dict[str, Floats]  # By name in REPORTED; values that are not high are NaN.


def read_taken(signals: Signals, begin_s: int, end_s: int) -> Taken:
    rows = [row for row, info in enumerate(signals.infos) if info.id in READ]
    held, _ = signals.held(begin_s, end_s, rows)
    return taken_of([signals.infos[row] for row in rows], held, signals.machine)


def taken_of(infos: Sequence[SensorInfo], held: Floats, machine: Machine) -> Taken:
    """Return the CPU time that other processes took in each second, and whether the engine lacked it.

    `infos` are sensors. `held` has their values with the shape (sensors, seconds). `machine` describes the board and
    the load.
    """
    seconds = held.shape[1]
    unknown = np.full(seconds, np.nan)
    known = {info.id: values for info, values in zip(infos, held, strict=True)}
    values = {name: known.get(name, unknown) for name in (*ROWS, THROTTLED, QUOTA)}
    beside = np.maximum(values[BUSY] - values[ENGINE] - np.nan_to_num(values[OWN]), 0.0)
    values[OTHERS] = np.where(np.isnan(values[OTHERS]), beside, values[OTHERS])
    # This is nearly always so.
    if (values[OTHERS] < OTHERS_PCT).all() and not (values[STEAL] >= LEAST_STOLEN_PCT).any():
        high = {STEAL: unknown, OTHERS: unknown, WAIT: values[WAIT], PRESSURE: values[PRESSURE]}
        return Taken(np.zeros(seconds, np.bool_), high)
    stalled = stalled_ms(values[THROTTLED], values[QUOTA])
    is_waited = ~np.isnan(values[WAIT])
    values[WAIT], values[FELT] = (beyond_quota(values[name], stalled) for name in (WAIT, FELT))
    values[PRESSURE] = beyond_quota(values[PRESSURE], stalled, PRESSURE_PER_STALLED_MS)
    with np.errstate(invalid="ignore"):  # a comparison with an unknown value is false
        wanted = np.where(np.isnan(values[BUSY]), 100.0 * (machine.cores or 1), values[BUSY]) + values[STEAL]
        is_stolen = (values[STEAL] >= STOLEN * wanted) & (values[STEAL] >= LEAST_STOLEN_PCT)
        is_missed = np.zeros(seconds, np.bool_)
        if is_waited.any():
            is_missed |= is_waited & _by_wait(values, machine) & ~np.isnan(values[WAIT])
        if not (machine.is_program or is_waited.all()):
            by_load = _by_load(values, machine)
            is_missed |= ~is_waited & by_load & (stalled < STALLS_MS)  # else its quota may be why it gets less
        is_missed &= ~(values[QUOTA] >= USED_UP_PCT)
        is_missed &= ~(values[FELT] < 1000 * LOST)  # other threads of a program may wait while its calls do not
        high = {STEAL: np.where(is_stolen, values[STEAL], np.nan), WAIT: values[WAIT], PRESSURE: values[PRESSURE]}
        high[OTHERS] = np.where(values[OTHERS] >= OTHERS_PCT, values[OTHERS], np.nan)
    return Taken(is_stolen | is_missed, high)


def _by_wait(values: dict[str, Floats], machine: Machine) -> Bools:
    """Return in which seconds other processes slowed the engine, found from how long its threads waited for a CPU.

    The result has one element per second. `values` has arrays by sensor id, with a value for each second. `machine`
    describes the board and the load.
    """
    lost, engine, others = values[WAIT] / 1000, values[ENGINE] / 100, values[OTHERS] / 100
    runs = np.where(np.isnan(engine), float(machine.wanted), engine)
    if machine.usable is not None:
        unknown = machine.usable if machine.wanted <= machine.usable else 0.0
        lost = np.minimum(lost, np.where(np.isnan(engine), unknown, np.maximum(machine.usable - runs, 0.0)))
    lost = np.fmin(lost, others)
    share = np.where(np.isnan(engine) & np.isnan(others), LOST_ALONE, LOST)
    return np.asarray((lost >= LEAST_LOST) & (lost >= share * (runs + lost)) & ~(values[OTHERS] < OTHERS_PCT))


def _by_load(values: dict[str, Floats], machine: Machine) -> Bools:
    """Return in which seconds other processes slowed the engine, found from their load while all CPUs are busy.

    If the load of other processes is unknown, the kernel's CPU pressure is used. The result has one element per second.
    `values` has arrays by sensor id, with a value for each second. `machine` describes the board and the load.
    """
    engine, others, pressure = values[ENGINE], values[OTHERS], values[PRESSURE]
    has_all = engine >= WHOLE * 100 * machine.wanted
    if not machine.threads:  # The runtime chooses: one thread, or one per CPU.
        has_all &= engine <= (2 - WHOLE) * 100 * machine.wanted
    if machine.cores is None:
        is_full = np.full(len(engine), not machine.is_paced)
    else:
        runs = np.where(np.isnan(engine), 100.0, engine)
        is_full = others + runs + np.nan_to_num(values[OWN]) >= FULL * 100 * machine.cores
    by_load = (others >= OTHERS_PCT) & is_full & ~(pressure < PRESSED_PCT) & ~has_all
    fills_all = engine >= FULL * 100 * (machine.usable or machine.wanted)
    return np.asarray(by_load | (np.isnan(others) & (pressure >= PRESSED_ALONE_PCT) & ~fills_all))


def taken_now(signals: Signals, until_s: int, name: str, name_pct: float) -> Clue:
    """Return an observation on what took the CPU in the last seconds before the session second `until_s`.

    `signals` gives the values of the sensors. `name` is the busiest process, or "" if it is unknown. `name_pct` is its
    CPU use in % of a core.
    """
    high = read_taken(signals, max(0, until_s - RECENT_S), until_s).values
    means = {kind: float(np.nanmean(values)) for kind, values in high.items() if not np.isnan(values).all()}
    if STEAL in means:
        return Clue("taken-now", STEAL, value=means[STEAL])
    if name:
        return Clue("process-now", name, value=name_pct)
    kind = next((kind for kind in (OTHERS, WAIT, PRESSURE) if kind in means), "")
    return Clue("taken-now", kind, value=means.get(kind))


@dataclass(slots=True)
class Contention:
    """Counts the seconds in which other processes took CPU time that the engine needed.

    `sums`, `counts`, `seconds` and `contended_s` cover the first seconds of the measurement. If contention began with
    the measurement, they cover the whole time until it ended.
    """

    recent: int = 0  # The last seconds, one bit each.
    is_now: bool = False
    free_s: int = 0  # Number of seconds at the end without contention.
    opening_s: int = 0  # Number of judged seconds, up to CONTENDED_OPENING_S.
    from_start: bool = False
    over_s: int | None = None  # When the contention that began with the measurement was over; None while it continues.
    seconds: int = 0
    contended_s: int = 0
    # Sums over contended seconds in thousandths, by name in REPORTED.
    sums: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # Number of seconds in each sum.
    named: Clue | None = None  # The process that took most CPU, once the contention is over; None if unknown.
    level_sum: int = 0  # Sum of the seconds' median levels, in millionths of a neper.
    level_count: int = 0

    @property
    def is_open(self) -> bool:
        """Whether other processes slowed the engine when the measurement began, and have slowed it ever since."""
        return self.from_start and self.over_s is None

    def count(self, signals: Signals, from_s: int, until_s: int) -> None:
        """Count the seconds from `from_s` to `until_s` in which other processes took CPU time that the engine needed.

        The seconds must follow those that were counted before. `signals` gives the values of the sensors.
        """
        taken = read_taken(signals, from_s, until_s)
        for place, is_contended in enumerate(taken.is_contended.tolist()):
            self.recent = (self.recent << 1 | is_contended) & ((1 << RECENT_S) - 1)
            self.free_s = 0 if is_contended else self.free_s + 1
            if self.is_open or self.opening_s < CONTENDED_OPENING_S:
                self._add(taken, place)
            if self.opening_s < CONTENDED_OPENING_S:
                self.opening_s += 1
                self.from_start = self.opening_s == CONTENDED_OPENING_S and self.contended_s >= LEAST_CONTENDED_S
            if self.free_s >= RELEASED_S:
                self.over_s = from_s + place + 1 - RELEASED_S if self.is_open else self.over_s
                self.is_now = False
            self.is_now |= self.recent.bit_count() >= LEAST_RECENT_S

    def _add(self, taken: Taken, place: int) -> None:
        self.seconds += 1
        if not taken.is_contended[place]:
            return
        self.contended_s += 1
        for kind, values in taken.values.items():
            if not np.isnan(values[place]):
                self.sums[kind] = self.sums.get(kind, 0) + round(float(values[place]) * 1000)
                self.counts[kind] = self.counts.get(kind, 0) + 1

    def clues(self) -> Iterator[Clue]:
        means = [(kind, self.sums[kind] / self.counts[kind] / 1000) for kind in REPORTED if kind in self.sums]
        for kind, mean in means[:1]:
            yield Clue("taken-from-start", kind, value=mean, share=self.share)
        for kind, mean in means[1:]:
            yield Clue("taken", kind, value=mean)

    @property
    def share(self) -> float:
        """Return the share (0..1) of seconds in which other processes took CPU time that the engine needed.

        It is the share of the seconds from the start of the measurement to the end of the contention.
        """
        return self.contended_s / max(1, self.seconds - (self.free_s if self.is_open else RELEASED_S))
