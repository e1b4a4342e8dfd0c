"""The vital signs of a session: quantities, such as temperature or memory, with the used share of their limits.

A quantity without a sensor is left out.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.memory_use import GrowthView
from edgetop.analysis.rolling_latency import StreamLatency
from edgetop.analysis.slowdowns.baseline import SLOWER_SHARE
from edgetop.analysis.slowdowns.signals import INPUT_FLOOR_V
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.usage import PROGRAM_CPU
from edgetop.analysis.verdict_data import Level
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
    """The p99 of the latency, together with the deadline or with the p99 in the first steady 30 s."""

    p99_ns: float | None  # None if nothing was measured in the window.
    is_settled: bool  # Whether there are enough inferences for p99.
    deadline_ns: int | None = None
    before_ns: float | None = None  # p99 of the burst; None against a deadline.
    stream: str = ""  # The stream with the highest p99, in a session with several streams.


@frozen
class TokenRate:
    per_s: float | None  # None until there are tokens.


@frozen
class TokenTime:
    ns: float | None  # None until there are tokens.


@frozen
class Context:
    """The number of tokens in the context of a language model."""

    position: int
    size: int  # The number of tokens that fit.


@frozen
class Celsius:
    celsius: float | None  # None if the sensor is lost.
    trip_c: float | None  # The temperature at which the zone throttles; None if unknown.


@frozen
class InputVolts:
    volts: float


@frozen
class Leak:
    growth: GrowthView


@frozen
class MemoryLeft:
    left_mib: float | None  # None if the sensor is lost.
    limit_mib: float | None  # Of the cgroup or the board; None if unknown.


@frozen
class Watts:
    watts: float
    is_part: bool  # Whether the sensor measures only a part of the board.
    limit_w: float | None = None  # What may be drawn; None if unknown.


@frozen
class Share:
    share: float
    is_fine: bool = False  # Whether small shares matter, so that they are shown with decimals.


Figure = Tail | TokenRate | TokenTime | Context | Celsius | InputVolts | Leak | MemoryLeft | Watts | Share


@frozen
class Vital:
    name: str
    figure: Figure
    share: float | None = None  # Used share of the limit: 1 is all of it. None if there is no limit.
    level: Level = "good"

    @property
    def is_gauge(self) -> bool:
        """Whether the quantity has a limit, so that it can be shown as a bar."""
        return self.share is not None


def vitals(view: "MonitorView") -> tuple[Vital, ...]:
    """Return the vital signs of the session, in a fixed order. Quantities with a limit come first."""
    limited = (_tail, _heat, _memory, _context, _time)
    found = [vital for make in (*limited, *_OTHERS) for vital in make(view)]
    return tuple(sorted(found, key=lambda vital: not vital.is_gauge))


def _tokens(view: "MonitorView") -> Iterator[Vital]:
    """Yield a language model's tokens per second, its time between tokens, and its time to the first token."""
    tokens = view.generation
    if tokens is None or tokens.itl is None:
        return
    yield Vital("decode", TokenRate(tokens.recent_decode_per_s))
    yield Vital("ITL", TokenTime(tokens.recent_itl_ns))
    if tokens.ttft:
        yield Vital("TTFT", TokenTime(tokens.ttft.percentile_ns(0.5)))


def _context(view: "MonitorView") -> Iterator[Vital]:
    """Yield how much of a language model's context is used."""
    tokens, asked = view.generation, view.manifest and view.manifest.generation
    if tokens and asked and asked.context and tokens.itl:
        yield Vital("context", Context(tokens.position, asked.context), tokens.position / asked.context, "neutral")


def _tail(view: "MonitorView") -> Iterator[Vital]:
    """Yield the p99 of the latency, or of response times if the load sets start times, with the deadline."""
    if not view.deadline or view.ab is not None:
        return
    if view.latency.streams:
        yield from _tail_of_streams(view.latency.streams, view.deadline)
    else:
        window = view.latency.window_response or view.latency.window
        yield _against(window, view.deadline, is_settled=window is not None and view.is_settled(window, 0.99))


def _against(counted: Statistics | None, deadline: DeadlineView, stream: str = "", *, is_settled: bool) -> Vital:
    """Return the p99 latency with its deadline.

    `counted`: the latency statistics; None if nothing was measured. `deadline`: the deadline and how often it was
    missed. `stream`: the name of the stream with this latency; "" if there is only one stream. `is_settled`: whether
    there are enough inferences for the p99.
    """
    if counted is None:
        return Vital("p99", Tail(None, is_settled=True, deadline_ns=deadline.deadline_ns), 0.0, "neutral")
    p99_ns = counted.percentile_ns(0.99)
    share = p99_ns / deadline.deadline_ns
    return Vital("p99", Tail(p99_ns, is_settled, deadline.deadline_ns, stream=stream), share, _level(share))


def _grown(view: "MonitorView") -> Iterator[Vital]:
    """Yield the p99 with the p99 of the burst (the first steady 30 s), if the two clearly differ.

    Nothing is yielded for a session with a deadline, because `_tail` shows the p99 then. Nothing is yielded either for
    several streams, an A/B session or a language model.
    """
    window, burst = view.latency.window, view.burst
    if view.deadline or view.latency.streams or view.ab is not None or view.generation or not (window and burst):
        return
    p99_ns, is_settled = window.percentile_ns(0.99), view.is_settled(window, 0.99)
    ratio = p99_ns / burst.p99_ns if burst.p99_ns else 1.0
    if abs(ratio - 1) > SLOWER_SHARE:
        level: Level = "warning" if ratio > MUCH_SLOWER and is_settled else "good"
        yield Vital("p99", Tail(p99_ns, is_settled, before_ns=burst.p99_ns), None, level)


def _tail_of_streams(streams: Sequence[StreamLatency], deadline: DeadlineView) -> Iterator[Vital]:
    """Yield the p99 of the stream with the highest p99, with the deadline."""
    known = [(one.window, one.name) for one in streams if one.window]
    if known:
        window, name = max(known, key=lambda pair: pair[0].percentile_ns(0.99))
        yield _against(window, deadline, name, is_settled=window.is_settled(0.99))


def _level(share: float) -> Level:
    return "critical" if share >= 1 else "warning" if share >= CLOSE_SHARE else "good"


def _heat(view: "MonitorView") -> Iterator[Vital]:
    zone, trip_c = view.thermal.zone, view.thermal.trip_c
    if zone is None:
        return
    celsius = None if zone.is_lost else zone.value
    if trip_c is None:
        if celsius is not None:
            yield Vital("heat", Celsius(celsius, None))
    elif celsius is None:
        yield Vital("heat", Celsius(None, trip_c), 0.0, "neutral")
    else:
        level: Level = "critical" if celsius >= trip_c else "warning" if celsius > trip_c - CLOSE_C else "good"
        yield Vital("heat", Celsius(celsius, trip_c), max(0.0, celsius / trip_c), level)


def _clock_and_input(view: "MonitorView") -> Iterator[Vital]:
    throttles = view.throttles
    if throttles.clock_mhz and throttles.best_mhz:
        share = throttles.clock_mhz / throttles.best_mhz
        is_slow = share < SLOW_CLOCK and throttles.now is not None
        yield Vital("clock", Share(share), None, "critical" if is_slow else "good")
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
    """Yield the CPU use of a watched program without inferences."""
    track = next((sensor for sensor in view.sensors if sensor.info.id == PROGRAM_CPU), None)
    if view.progress.is_program and track and track.value is not None and not track.is_lost:
        yield Vital("CPU", Share(track.value / 100))


def _memory(view: "MonitorView") -> Iterator[Vital]:
    """Yield the used memory with its limit: the limit of the cgroup or of the board, whichever is nearer."""
    memory = view.memory
    left, limit_mib = memory.room, memory.board_mib
    if left is None:
        return
    if left == memory.cgroup_left and memory.cgroup_limit:
        limit_mib = memory.cgroup_limit.value
    left_mib = None if left.is_lost else left.value
    if limit_mib and left_mib is not None:
        share = max(0.0, 1 - left_mib / limit_mib)
        yield Vital("memory", MemoryLeft(left_mib, limit_mib), share, _level(share))
    elif limit_mib:
        yield Vital("memory", MemoryLeft(None, limit_mib), 0.0, "neutral")
    elif left_mib is not None:
        yield Vital("memory", MemoryLeft(left_mib, None))


def _leak(view: "MonitorView") -> Iterator[Vital]:
    """Yield how fast memory leaks, and how long it takes until the memory is full."""
    growth = view.memory.growth
    if growth.is_leak and growth.mib_per_h:
        yield Vital("leak", Leak(growth), None, "warning")


def _power(view: "MonitorView") -> Iterator[Vital]:
    """Yield the power, with its limit if a limit is known.

    The power is shown as critical only while the limit slows the board.
    """
    limit, now, leading = view.power_limit, view.throttles.now, view.power.leading
    if limit and limit.now_w is not None:
        level: Level = "critical" if now is not None and now.cause == "power-cap" else "good"
        yield Vital("power", Watts(limit.now_w, is_part=False, limit_w=limit.limit_w), None, level)
    elif leading and leading.track.value is not None and not leading.track.is_lost:
        yield Vital("power", Watts(leading.track.value, is_part=view.power.board is None))


def _time(view: "MonitorView") -> Iterator[Vital]:
    """Yield which share of the requested inferences or of the requested duration is done."""
    progress, totals = view.progress, view.latency.totals
    shares = []
    if progress.duration_ns and progress.measured_ns is not None:
        shares.append(progress.measured_ns / progress.duration_ns)
    if progress.runs and totals:
        shares.append(totals.count / progress.runs)
    if shares and progress.phase == "measure":
        share = min(1.0, max(shares))
        yield Vital("done", Share(share), share, "neutral")


_OTHERS = (_clock_and_input, _misses, _program, _power, _tokens, _leak, _grown)
