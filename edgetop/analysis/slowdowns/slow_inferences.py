"""The tail: the slowest inferences, each with its probable cause.

The slowest inference of each second is examined. The row of that second has it, so the analysis does not need each
inference. What the engine counted around an inference (its wait for a CPU, its page faults) proves a cause. Sensor
readings of the same second may be a coincidence, and count only if nothing is proven.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from edgetop.analysis.longer_operators import LongerOperators
from edgetop.analysis.slow_inputs import SlowInputs
from edgetop.analysis.slowdowns.counted_causes import (
    PART,
    PREEMPTED_NS,
    UNSEEN_NS,
    lacks_others,
    measured,
    unmeasured,
)
from edgetop.analysis.slowdowns.evidence import BEFORE_S, NEAR_S, normal_range
from edgetop.analysis.slowdowns.signals import (
    GPU_OF_OTHERS,
    LIMITS,
    LOAD_OF_OTHERS,
    QUOTA,
    THROTTLED,
    Signals,
    stalled_ms,
)
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.tracks import Bools, Floats
from edgetop.frozen import frozen
from edgetop.session.engine_events import GarbageCollected, ProfileBurst
from edgetop.session.engine_events import SlowInference as Counted
from edgetop.session.event_kinds import Competing, GpuCompeting, SensorSlow
from edgetop.session.median import median
from edgetop.session.seconds import NS

KEPT = 40  # slowest of the session
KEPT_RECENT = 20
RECENT_S = 600
# Least latency of a slow inference, in medians of the session. Choice: less is no tail. Larger: slow inferences of a
# steady model have no cause; smaller: usual scatter is explained.
STANDS_OUT = 1.1
# Share of the half minute before, in which a signal may have left its range to be rare. Choice. Larger: what happens
# all the time coincides by chance; smaller: one earlier spike hides a cause.
RARE = 0.05
LASTS_S = NEAR_S  # left out at the end of that half minute: what began then may still last
# Least time before an inference that tells what is rare. Choice. Larger: the first slow inferences have no cause;
# smaller: chance makes things rare.
LEAST_BEFORE_S = 10
# Time after a profiling round in which caches are cold. Choice. Larger: others' effects are put down to profiling;
# smaller: profiling is blamed on others.
AFTER_BURST_NS = 100_000_000

# Time that a cache miss costs. Choice: a read of DRAM takes about 100 ns, and misses overlap. Larger: misses are blamed
# for what others did; smaller: caches that another program empties are no cause.
CACHE_MISS_NS = 50
# Time that a move to another CPU costs, at most. Choice: its caches are filled again, 1 MiB at 1 GB/s. Larger: long
# delays are put down to a move by chance; smaller: moves are no cause on a slow memory.
MIGRATION_NS = 1_000_000
# Load of other processes above its median, in percent of a core, that disturbs an engine which waits for no CPU.
# Choice: half a core beside the engine. Larger: shared caches and cores are no cause; smaller: housekeeping is one.
BESIDE_PCT = 50.0
# Share of the half minute before in which others may have been as busy. Choice: more is no news of this inference.
# Larger: what is often there is a cause by chance; smaller: a program that is busy now and then never is one.
OFTEN = 0.25
USUAL_S = 30  # the seconds before an inference whose median count is the usual one

DISK_PRESSURE = "pressure/io-some"  # percentage of time in which at least one task waited for a disk
# Sensors of what the CPU and the kernel counted of the engine's threads.
CYCLES, RAN_MS, CACHE_MISSES, MIGRATIONS = "rate/cycles", "rate/task-clock", "rate/cache-misses", "rate/migrations"

# Causes of slowdowns that delay edgetop's own reads as well. A slow read beside them proves nothing.
DELAY_READS = ("contention", "memory-pressure")
# Causes of slowdowns that concern one stream and not the others of the program.
OF_ONE_STREAM = ("mix", "unknown")

# In the order in which coincidences are believed.
CAUSES = (
    "cpu-quota", "fewer-cpus", "contention", "garbage-collection", "page-faults", "small-cores", "stopped", "burst",
    "sensor-read", "slowdown", "memory-pressure", "limit", "clock", "cache-misses", "migration", "beside",
    "input", "operator", "unexplained",
)  # fmt: skip

Rows = npt.NDArray[np.void]

SLOWEST = np.dtype([("second", "<i8"), ("max_ns", "<i8"), ("p50_ns", "<i8")])


@frozen
class SlowInference:
    """The slowest inference of one second, with its probable cause."""

    t_ns: int  # Its start, or the start of its second if its own is unknown.
    latency_ns: int
    cause: str = "unexplained"  # one of CAUSES
    who: str = ""  # The process that took the CPU, the cause of the slowdown, or the operator; "" if unknown.
    is_proven: bool = False  # Whether the cause was measured around the inference, by the engine or the program.
    stream: str = ""  # Name of its stream, in a session with several streams.
    share: float | None = None  # Share of the lost time that the cause took; None if that was not measured.
    began: bool = False  # Whether the process `who` began at that time.
    input: tuple[int, int] | None = None  # Which of its input arrays it got, from 0, and their number; None if unknown.
    # Other causes whose time was measured, each with its share (0..1) of the lost time, the largest first.
    also: tuple[tuple[str, float], ...] = ()
    # Those of these causes that took at most their share: it is known how long threads stood, not all of what for.
    at_most: tuple[str, ...] = ()


@frozen
class TailPart:
    cause: str
    count: int
    who: tuple[tuple[str, int], ...]  # (process, number of inferences that it slowed), the highest number first.


@frozen
class TailView:
    slowest: tuple[SlowInference, ...] = ()  # Those of the session that stand out, the slowest first.
    parts: tuple[TailPart, ...] = ()  # The causes of `slowest`, the most frequent first, and `unexplained` last.
    recent: tuple[SlowInference, ...] = ()  # Those of the last ten minutes, the slowest first.
    recent_parts: tuple[TailPart, ...] = ()


@dataclass(slots=True)
class Tail:
    """Collects the slowest inferences of a stream, at most one of each second.

    The result is the same however the seconds were divided into batches.
    """

    _slowest: list[SlowInference] = field(default_factory=list)
    _recent: Rows = field(default_factory=lambda: np.empty(0, SLOWEST))
    # By second, of recent ones. The slowdown that explains an inference is added when it is viewed.
    examined: dict[int, SlowInference] = field(default_factory=dict)

    def copy(self) -> "Tail":
        return replace(self, _slowest=list(self._slowest), examined=dict(self.examined))

    def advance(self, rows: Rows, signals: Signals) -> None:
        """Examine the slowest inference of each of these seconds.

        All sensor readings and events of these seconds must have been added to `signals` before.
        """
        rows = rows[rows["count"] > 0]
        if not len(rows):
            return
        fresh = np.empty(len(rows), SLOWEST)
        fresh["second"], fresh["max_ns"], fresh["p50_ns"] = rows["t_ns"] // NS, rows["max_ns"], rows["p50_ns"]
        recent = np.concatenate([self._recent, fresh])
        self._recent = recent[recent["second"] > recent["second"][-1] - RECENT_S - USUAL_S]
        for row in _largest(fresh, KEPT):
            if len(self._slowest) < KEPT or row["max_ns"] > self._slowest[-1].latency_ns:
                found = _examine(row, _usual_ns(row, recent), signals)
                self.examined[int(row["second"])] = found
                self._slowest = sorted([*self._slowest, found], key=lambda one: (-one.latency_ns, one.t_ns))[:KEPT]
        oldest = int(recent["second"][-1]) - RECENT_S + 1
        self.examined = {second: found for second, found in self.examined.items() if second >= oldest}

    def remember(self, later: "Tail", until_s: int) -> None:
        """Copy the results of the seconds before `until_s` from `later`, a copy of this object that is ahead.

        These seconds need then not be examined again.
        """
        oldest = int(self._recent["second"][0]) if len(self._recent) else until_s
        fresh = {second: found for second, found in later.examined.items() if oldest <= second < until_s}
        self.examined.update(fresh)

    def view(self, p50_ns: float, slowdowns: Sequence[Slowdown], signals: Signals) -> TailView:
        """Return the slowest inferences with their causes, and how often each cause occurs.

        `p50_ns` is the median latency of the session in ns. Inferences less than 10 % slower than this are left out. A
        slowdown in `slowdowns` explains the inferences in its time that have no better explanation.
        """
        least_ns, longer = STANDS_OUT * p50_ns, signals.events.longer
        rows, recent = self._recent, []
        if len(rows):
            rows = rows[rows["second"] > rows["second"][-1] - RECENT_S]
        for row in _largest(rows, KEPT_RECENT):
            second = int(row["second"])
            if second not in self.examined and row["max_ns"] >= least_ns:
                self.examined[second] = _examine(row, _usual_ns(row, self._recent), signals)
            if row["max_ns"] >= least_ns:
                recent.append(_explained(self.examined[second], slowdowns))
        slowest = [_explained(found, slowdowns) for found in self._slowest if found.latency_ns >= least_ns]
        inputs = signals.events.slow_inputs
        each = ([_of_input(found, inputs) for found in one] for one in (slowest, recent))
        return tail_of(*([_of_operator(found, p50_ns, longer) for found in one] for one in each))


def tail_of(slowest: Sequence[SlowInference], recent: Sequence[SlowInference]) -> TailView:
    """Return a view of the 40 slowest inferences of the session, and of the 20 slowest recent ones.

    The arguments may have more inferences, in any order.
    """
    slowest, recent = (
        tuple(sorted(found, key=lambda one: (-one.latency_ns, one.t_ns))[:most])
        for found, most in ((slowest, KEPT), (recent, KEPT_RECENT))
    )
    return TailView(slowest, tail_parts(slowest), recent, tail_parts(recent))


def _usual_ns(row: np.void, rows: Rows) -> float:
    """Return the usual latency in ns at the time of `row`, one of `rows`.

    That is the median of its second, or the median of the half minute before if that is less: where a second has few
    inferences, a slow one is its median.
    """
    begin, end = np.searchsorted(rows["second"], (row["second"] - USUAL_S, row["second"]))
    p50_ns = float(row["p50_ns"])
    return min(p50_ns, median(rows["p50_ns"][begin:end])) if begin < end else p50_ns


def _largest(rows: Rows, count: int) -> Rows:
    """Return the `count` rows with the slowest inferences, the slowest first and, of equal rows, the earlier first."""
    return np.asarray(rows[np.lexsort((rows["second"], -rows["max_ns"]))[:count]])


def _examine(row: np.void, usual_ns: float, signals: Signals) -> SlowInference:
    second, max_ns, events = int(row["second"]), int(row["max_ns"]), signals.events
    # The events in which the engine reported this inference, or None.
    told = next((dated for dated in events.in_second(Counted, second) if dated[1].latency_ns == max_ns), None)
    collected = next(
        (dated for dated in events.in_second(GarbageCollected, second) if dated[1].latency_ns == max_ns), None
    )
    known = told or collected
    t_ns, until_ns = (known[0], known[0] + max_ns) if known else (second * NS, (second + 1) * NS)
    lost_ns, counted = int(max_ns - usual_ns), told[1] if told else None
    disk_ns = _disk_ns(signals, second, until_ns // NS + 1)
    shown = [] if counted is None else measured(counted, max(lost_ns, 1), disk_ns)
    proven = "" if counted is None else shown[0].cause if shown else unmeasured(counted, lost_ns, disk_ns)
    taken: type[Competing | GpuCompeting] = Competing
    if collected and not proven and collected[1].took_ns >= PART * lost_ns:
        took_share = min(collected[1].took_ns / max(lost_ns, 1), 1.0)
        return SlowInference(t_ns, max_ns, "garbage-collection", is_proven=True, share=took_share)
    if _is_of_quota(counted, proven, lost_ns, signals, (second, until_ns // NS + 1)):
        return SlowInference(t_ns, max_ns, "cpu-quota")
    if proven == "stopped" and lost_ns < PREEMPTED_NS and _coincided(second, signals, is_counted=False) == "contention":
        cause, proven, shown = "contention", "", []  # It waited for a thread that waited for a CPU, not for itself.
    elif proven:
        cause = proven
    elif events.overlaps(ProfileBurst, t_ns, until_ns, AFTER_BURST_NS):
        cause = "burst"
    elif events.overlaps(SensorSlow, t_ns, until_ns):
        cause = "sensor-read"
    else:
        # The engine's counters would prove a wait of its loop for a CPU: a contention that they do not prove is of the
        # GPU, unless other threads of the engine did not run.
        is_counted = counted is not None and not lacks_others(counted, max(lost_ns, 1))
        cause = _coincided(second, signals, is_counted=is_counted)
        taken = GpuCompeting if cause == "contention" and is_counted else Competing
        if cause == "unexplained":
            cause = _counted_by_cpu(second, max_ns, lost_ns, signals) or cause
        if cause == "unexplained" and counted is not None and _moved(counted, second, lost_ns, signals):
            cause = "migration"
        if cause == "unexplained" and _others_were_busy(second, signals):
            cause = "beside"
    who, began = events.competitor_at(second, taken) if cause in ("contention", "beside") else ("", False)
    share = shown[0].share if shown else None
    also = tuple((one.cause, one.share) for one in shown[1:])
    at_most = tuple(one.cause for one in shown if one.is_limit)
    place = (counted.input, counted.inputs or 0) if counted and counted.input is not None else None
    return SlowInference(
        t_ns, max_ns, cause, who, bool(proven), share=share, began=began, input=place, also=also, at_most=at_most
    )


def _disk_ns(signals: Signals, begin_s: int, end_s: int) -> float:
    """Return for how many ns one thread may have waited for a disk between two session seconds, the second excluded.

    The result is infinite if the kernel does not tell, or if a reading is missing: the next one then covers more than
    its second. The kernel's share of time in which a task waited is a mean over the CPUs, each weighted by the time in
    which it had something to do or to wait for (kernel/sched/psi.c). So a wait of t on one CPU shows as
    t x t / (CPUs x length) at least.
    """
    row = next((row for row, info in enumerate(signals.infos) if info.id == DISK_PRESSURE), None)
    if row is None or not signals.machine.cores:
        return float("inf")
    held, was_read = signals.held(begin_s - 1, end_s + 1, [row])
    if not was_read.all():
        return float("inf")
    covering = held[0, 1:]  # A reading covers the time since the one before.
    cpu_seconds = signals.machine.cores * len(covering)
    return float(np.sqrt(covering.sum() / 100 * cpu_seconds)) * NS + UNSEEN_NS


def _is_of_quota(
    counted: Counted | None, proven: str, lost_ns: int, signals: Signals, seconds: tuple[int, int]
) -> bool:
    """Whether the inference was slow because its CPU quota stopped the engine.

    True if the inference waited for a CPU, as `proven` says, and the quota stopped the engine for most of the wait. If
    nothing was counted, True if the quota stopped the engine for at least `lost_ns`. `counted` is what the engine
    counted around the inference; None if nothing. `proven` is the cause that `counted` proves, or "". `lost_ns` is by
    how many ns the inference was slower than usual. `signals` gives the values of the sensors. `seconds` are the first
    second of the inference and the second after its last one.
    """
    rows = {info.id: row for row, info in enumerate(signals.infos) if info.id in (THROTTLED, QUOTA)}
    if not rows or proven not in ("", "contention", "fewer-cpus", "stopped"):
        return False
    held, _ = signals.held(seconds[0], seconds[1] + 1, list(rows.values()))
    known = dict(zip(rows, held, strict=True))
    unknown = np.full(held.shape[1], np.nan)
    stalled_ns = float(stalled_ms(known.get(THROTTLED, unknown), known.get(QUOTA, unknown)).sum()) * 1e6
    if proven:
        waited_ns = lost_ns if counted is None or counted.waited_ns is None else counted.waited_ns
        if proven == "stopped" and counted is not None:
            waited_ns = counted.idle_ns or 0
        return stalled_ns > 0 and waited_ns - stalled_ns < PART * lost_ns
    return counted is None and max(lost_ns, 1) <= stalled_ns < float("inf")


def _usual(values: Floats) -> float | None:
    """Return the median of the known values, or None if fewer than LEAST_BEFORE_S are known. NaN means unknown."""
    known = values[~np.isnan(values)]
    return float(median(known)) if len(known) >= LEAST_BEFORE_S else None


def _counts(second: int, signals: Signals, *names: str) -> tuple[dict[str, Floats], int]:
    """Return the values of some sensors around `second`, as a dict of arrays, and the index of `second` in the arrays.

    The arrays begin up to half a minute before `second`, and end with the next second. `names` are the ids of the
    sensors. A sensor that the session does not have is NaN throughout.
    """
    begin_s = max(0, second - USUAL_S)
    rows = {info.id: row for row, info in enumerate(signals.infos) if info.id in names}
    held, _ = signals.held(begin_s, second + 2, list(rows.values()))
    known = dict(zip(rows, held, strict=True))
    unknown = np.full(second + 2 - begin_s, np.nan)
    return {name: known.get(name, unknown) for name in names}, second - begin_s


def _counted_by_cpu(second: int, latency_ns: int, lost_ns: int, signals: Signals) -> str:
    """Return which CPU counter explains a slow inference: "clock", "cache-misses", or "" for neither.

    `second` is the session second of the inference, `latency_ns` its latency, and `lost_ns` by how many ns it was
    slower than usual. A reading covers a whole second. So it is evidence only if it changed by as much as a loss of
    `lost_ns` requires.
    """
    values, at = _counts(second, signals, CYCLES, RAN_MS, CACHE_MISSES)
    with np.errstate(invalid="ignore", divide="ignore"):
        clocks = values[CYCLES] / values[RAN_MS]
    usual_clock, usual_misses = _usual(clocks[:at]), _usual(values[CACHE_MISSES][:at])
    if usual_clock is not None and usual_clock > 0:
        lowest = float(np.nanmin(clocks[at:], initial=usual_clock))
        if latency_ns * (1 - lowest / usual_clock) >= PART * lost_ns:
            return "clock"
    if usual_misses is not None:
        most = float(np.nanmax(values[CACHE_MISSES][at:], initial=0.0))
        is_rare = most > np.nanmax(values[CACHE_MISSES][:at])
        if is_rare and (most - usual_misses) * CACHE_MISS_NS >= PART * lost_ns:
            return "cache-misses"
    return ""


def _moved(counted: Counted, second: int, lost_ns: int, signals: Signals) -> bool:
    """Whether moves of threads to another CPU explain why the inference took `lost_ns` longer than usual.

    False if such moves are frequent in this session, or if their usual number is unknown. `counted` is what the engine
    counted around the inference. `second` is its second in the session.
    """
    if not counted.migrations or lost_ns > MIGRATION_NS * counted.migrations:
        return False
    values, at = _counts(second, signals, MIGRATIONS)
    usual = _usual(values[MIGRATIONS][:at])
    return usual is not None and usual * counted.span_ns / NS < RARE


def _others_were_busy(second: int, signals: Signals) -> bool:
    """Whether other processes used much more CPU than usual in this session second or the next one.

    Their usual CPU use is the median of the half minute before. The result is False if they were often as busy in that
    half minute, or if their load is unknown.
    """
    channel = next((one for one in signals.channels if one.name == LOAD_OF_OTHERS), None)
    begin_s = max(0, second - USUAL_S)
    if channel is None:
        return False
    held, _ = signals.of_channels(begin_s, second + 2)
    load, at = channel.values(held), second - begin_s
    usual_pct = _usual(load[:at])
    if usual_pct is None:
        return False
    with np.errstate(invalid="ignore"):  # of a load that is unknown
        busy: Bools = load >= usual_pct + BESIDE_PCT
    return bool(busy[at:].any() and np.count_nonzero(busy[:at]) <= OFTEN * at)


_AS_TAIL = {
    "contention": "contention", "memory-pressure": "memory-pressure", "memory-high": "memory-pressure",
    "clock-change": "clock", "memory-clock": "clock",
    "cpu-quota": "cpu-quota",
}  # fmt: skip


def _coincided(second: int, signals: Signals, *, is_counted: bool) -> str:
    """Return the cause whose signal left its usual range in session second `second` or the next, or "unexplained".

    `is_counted` says that the engine itself counted waits for a CPU. Then signals of contention are ignored. Of several
    causes, the first in CAUSES is returned.
    """
    begin_s = max(0, second - BEFORE_S)
    held, was_read = signals.of_channels(begin_s, second + 2)
    at = second - begin_s
    if at < LEAST_BEFORE_S:
        return "unexplained"
    seen = set()
    for channel in signals.channels:
        of_cpu = channel.cause == "contention" and channel.name != GPU_OF_OTHERS
        if channel.role in ("trip", "load") or (is_counted and of_cpu):
            continue  # the engine's own counters are better evidence of a wait for the CPU
        values = channel.values(held)
        _, threshold = normal_range(channel, values[:at])
        with np.errstate(invalid="ignore"):  # of a threshold that there is not
            beyond: Bools = values <= threshold if channel.falls else values >= threshold
        read = np.logical_or.reduce(was_read[list(channel.rows)])
        before = beyond[: at - LASTS_S]
        if (beyond & read)[at:].any() and np.count_nonzero(before) < RARE * len(before):
            seen.add("limit" if channel.cause in LIMITS else _AS_TAIL.get(channel.cause, ""))
    return next((cause for cause in CAUSES if cause in seen), "unexplained")


def _explained(found: SlowInference, slowdowns: Sequence[Slowdown]) -> SlowInference:
    second_ns = found.t_ns // NS * NS
    within = [one for one in slowdowns if one.start_ns <= second_ns and (one.end_ns is None or second_ns < one.end_ns)]
    if not within or found.is_proven or found.cause in ("burst", "cpu-quota"):
        return found
    if found.cause == "sensor-read" and within[-1].cause not in DELAY_READS:
        return found
    return replace(found, cause="slowdown", who=within[-1].cause)


def explained_by_others(found: SlowInference, slowdowns: Sequence[Slowdown]) -> SlowInference:
    """Return the slow inference `found` with the cause `slowdown`, if a slowdown of the whole board explains it.

    Otherwise, or if a better cause is known, `found` is returned unchanged. `slowdowns` has the slowdowns of all
    streams: a stream with few or noisy inferences may not show a slowdown of the board itself.
    """
    if found.cause not in ("unexplained", "sensor-read", "operator"):
        return found
    return _explained(found, [one for one in slowdowns if one.cause not in OF_ONE_STREAM])


def _of_input(found: SlowInference, inputs: SlowInputs) -> SlowInference:
    """Return the slow inference `found` with its input array as its cause, if this array is often slow.

    If a better cause is known, `found` is returned unchanged.
    """
    if found.cause not in ("unexplained", "beside") or found.input is None or not inputs.is_slow(found.input[0]):
        return found
    number, count = found.input
    return replace(found, cause="input", who=f"{number + 1}/{count}", began=False)


def _of_operator(found: SlowInference, p50_ns: float, longer: LongerOperators) -> SlowInference:
    """Return the slow inference `found` with the operator that probably took longer as its cause.

    If another cause is known, or if no operator probably took longer, `found` is returned unchanged. `p50_ns` is the
    median latency in ns. `longer` knows which operator probably took longer.
    """
    if found.cause != "unexplained":
        return found
    name = longer.explain(PART * (found.latency_ns - p50_ns))
    return replace(found, cause="operator", who=name) if name else found


def tail_parts(slowest: Sequence[SlowInference]) -> tuple[TailPart, ...]:
    counts = Counter(one.cause for one in slowest)
    who = {cause: Counter(one.who for one in slowest if one.cause == cause and one.who) for cause in counts}
    order = sorted(counts, key=lambda cause: (cause == "unexplained", -counts[cause], cause))
    return tuple(TailPart(cause, counts[cause], tuple(who[cause].most_common())) for cause in order)
