"""The vital signs: how far each quantity is from its limit now. A quantity without a sensor is left out."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.memory_use import GrowthView
from edgetop.analysis.rolling_latency import StreamLatency
from edgetop.analysis.slowdowns.baseline import SLOWER_SHARE
from edgetop.analysis.slowdowns.signals import INPUT_FLOOR_V
from edgetop.analysis.usage import PROGRAM_CPU
from edgetop.analysis.verdict import Level
from edgetop.frozen import frozen
from edgetop.session.trips import CLOSE_C

if TYPE_CHECKING:
    from edgetop.analysis.analysis import MonitorView

# Share of a limit from which a quantity is a warning. Choice. Larger: the warning comes with the limit; smaller:
# usual use is a warning.
CLOSE_SHARE = 0.9
# Share of the best clock below which a limit took the rest. Choice: governors step by about as much. Larger: usual
# steps are a warning; smaller: a throttle by one step is not.
SLOW_CLOCK = 0.95
# p99 divided by that of the burst that is a warning. Choice: a tail fluctuates more than the median. Larger: a tail
# that grew is missed; smaller: one slow inference is a warning.
MUCH_SLOWER = 1.5
PI_INPUT = "volt/EXT5V"
# Voltage of a Raspberry Pi's 5 V input below which it is a warning. Datasheet: a USB supply is 5 V less 5 %
# (raspberrypi.com, "Power supply warnings"). Larger: usual supplies are a warning; smaller: the warning comes with
# the under-voltage.
PI_CLOSE_V = 4.75


@frozen
class Tail:
    """p99 with its deadline, or with the p99 of the burst."""

    p99_ns: float
    is_settled: bool  # Whether there are enough inferences for p99.
    deadline_ns: int | None = None
    before_ns: float | None = None  # p99 of the burst; None if it is about the same or unknown.
    stream: str = ""  # The stream with the highest p99, in a session with several streams.


@frozen
class TokenRate:
    per_s: float | None  # None until there are tokens.


@frozen
class TokenTime:
    ns: float | None  # None until there are tokens.


@frozen
class Context:
    """The tokens in the context of a language model."""

    position: int
    size: int  # The number of tokens that fit.


@frozen
class Celsius:
    celsius: float
    trip_c: float | None  # The temperature at which the zone throttles; None if unknown.


@frozen
class InputVolts:
    volts: float


@frozen
class Leak:
    growth: GrowthView


@frozen
class MemoryLeft:
    left_mib: float
    limit_mib: float | None  # Of the cgroup or the board; None if unknown.


@frozen
class Watts:
    watts: float
    is_part: bool  # Whether the sensor measures only a part of the board.


@frozen
class Share:
    share: float
    is_fine: bool = False  # Whether small shares matter, so that they are shown with decimals.


Figure = Tail | TokenRate | TokenTime | Context | Celsius | InputVolts | Leak | MemoryLeft | Watts | Share


@frozen
class Vital:
    name: str
    figure: Figure
    share: float | None = None  # Share of the limit: 1 is full. None if there is no limit.
    level: Level = "good"


def vitals(view: "MonitorView") -> tuple[Vital, ...]:
    """Return the vital signs, the most needed first."""
    makers = (_tokens, _tail, _heat, _clock_and_input, _misses, _program, _memory, _power, _time)
    return tuple(vital for make in makers for vital in make(view))


def _tokens(view: "MonitorView") -> Iterator[Vital]:
    """Yield the rate of a language model, its times to the first token and between tokens, and the context in use."""
    tokens, asked = view.generation, view.manifest and view.manifest.generation
    if tokens is None or not asked or tokens.itl is None:
        return
    yield Vital("decode", TokenRate(tokens.recent_decode_per_s))
    yield Vital("ITL", TokenTime(tokens.recent_itl_ns))
    if tokens.ttft:
        yield Vital("TTFT", TokenTime(tokens.ttft.percentile_ns(0.5)))
    yield Vital("context", Context(tokens.position, asked.context), tokens.position / asked.context, "neutral")


def _tail(view: "MonitorView") -> Iterator[Vital]:
    """Yield p99 with the deadline, or with the p99 of the burst."""
    window, deadline = view.latency.window, view.deadline
    if view.latency.streams and view.ab is None:
        yield from _tail_of_streams(view.latency.streams, deadline)
        return
    # The figures of an A/B session and of a language model without a deadline are shown elsewhere.
    if window is None or view.ab is not None or (view.generation and not deadline):
        return
    # If there are a deadline and a rate, the latency counts from the intended start.
    counted = (view.latency.window_response if deadline else None) or window
    p99_ns, is_settled = counted.percentile_ns(0.99), counted.is_settled(0.99)
    if deadline:
        share = p99_ns / deadline.deadline_ns
        yield Vital("p99", Tail(p99_ns, is_settled, deadline.deadline_ns), share, _level(share))
        return
    first_ns = view.burst.p99_ns if view.burst else None
    ratio = p99_ns / first_ns if first_ns else 1.0
    before_ns = first_ns if first_ns and abs(ratio - 1) > SLOWER_SHARE else None
    level: Level = "warning" if ratio > MUCH_SLOWER and is_settled else "good"
    yield Vital("p99", Tail(p99_ns, is_settled, before_ns=before_ns), None, level)


def _tail_of_streams(streams: Sequence[StreamLatency], deadline: DeadlineView | None) -> Iterator[Vital]:
    """Yield the highest p99 of the streams with the deadline, which all of them have."""
    known = [(one.window, one.name) for one in streams if one.window]
    if not known or not deadline:
        return
    window, name = max(known, key=lambda pair: pair[0].percentile_ns(0.99))
    p99_ns = window.percentile_ns(0.99)
    share = p99_ns / deadline.deadline_ns
    tail = Tail(p99_ns, window.is_settled(0.99), deadline.deadline_ns, stream=name)
    yield Vital("p99", tail, share, _level(share))


def _level(share: float) -> Level:
    return "critical" if share >= 1 else "warning" if share >= CLOSE_SHARE else "good"


def _heat(view: "MonitorView") -> Iterator[Vital]:
    zone, trip_c = view.thermal.zone, view.thermal.trip_c
    if zone is None or zone.value is None or zone.is_lost:
        return
    if trip_c is None:
        yield Vital("heat", Celsius(zone.value, None))
        return
    level: Level = "critical" if zone.value >= trip_c else "warning" if zone.value > trip_c - CLOSE_C else "good"
    yield Vital("heat", Celsius(zone.value, trip_c), max(0.0, zone.value / trip_c), level)


def _clock_and_input(view: "MonitorView") -> Iterator[Vital]:
    throttles = view.throttles
    if throttles.clock_mhz and throttles.best_mhz:
        share = throttles.clock_mhz / throttles.best_mhz
        is_slow = share < SLOW_CLOCK and throttles.now is not None
        yield Vital("clock", Share(share), share, "critical" if is_slow else "good")
    track = next((sensor for sensor in view.sensors if sensor.info.id == PI_INPUT), None)
    if track and track.value is not None and not track.is_lost:
        level: Level = "critical" if track.value < INPUT_FLOOR_V else "warning" if track.value < PI_CLOSE_V else "good"
        yield Vital("input", InputVolts(track.value), None, level)


def _misses(view: "MonitorView") -> Iterator[Vital]:
    deadline = view.deadline
    if deadline:
        level: Level = "warning" if deadline.is_missed else "good"
        yield Vital("missed", Share(deadline.miss_rate, is_fine=True), None, level)


def _program(view: "MonitorView") -> Iterator[Vital]:
    """Yield the CPU use of a program of which no inference was seen, so that there is no latency to show."""
    track = next((sensor for sensor in view.sensors if sensor.info.id == PROGRAM_CPU), None)
    if view.progress.is_program and track and track.value is not None and not track.is_lost:
        yield Vital("CPU", Share(track.value / 100))


def _memory(view: "MonitorView") -> Iterator[Vital]:
    """Yield memory in use with the nearer limit of cgroup or board; for a leak, its rate and end."""
    memory = view.memory
    if memory.growth.is_leak and memory.growth.mib_per_h:
        yield Vital("memory", Leak(memory.growth), None, "warning")
        return
    left, limit_mib = memory.room, memory.board_mib
    if left is None or left.value is None or left.is_lost:
        return
    if left == memory.cgroup_left and memory.cgroup_limit:
        limit_mib = memory.cgroup_limit.value
    share = 1 - left.value / limit_mib if limit_mib else None
    level = "good" if share is None else _level(share)
    yield Vital("memory", MemoryLeft(left.value, limit_mib), share, level)


def _power(view: "MonitorView") -> Iterator[Vital]:
    leading = view.power.leading
    if leading and leading.track.value is not None and not leading.track.is_lost:
        yield Vital("power", Watts(leading.track.value, is_part=view.power.board is None))


def _time(view: "MonitorView") -> Iterator[Vital]:
    """Yield the completed share of the requested runs or duration."""
    progress, totals = view.progress, view.latency.totals
    shares = []
    if progress.duration_ns and progress.measured_ns is not None:
        shares.append(progress.measured_ns / progress.duration_ns)
    if progress.runs and totals:
        shares.append(totals.count / progress.runs)
    if shares and progress.phase == "measure":
        share = min(1.0, max(shares))
        yield Vital("done", Share(share), share, "neutral")
