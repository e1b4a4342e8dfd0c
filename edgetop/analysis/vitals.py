"""The vital signs: the distance of each quantity from its limit now. A quantity without a sensor is absent."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgetop import formatting
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.memory_use import leak_ends, leak_rate
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
# Share of the best clock below which something took it. Choice: governors step by about as much. Larger: usual steps
# are a warning; smaller: a throttle by one step is not.
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
class Vital:
    name: str
    text: str  # the figure with its limit and unit
    share: float | None = None  # of the limit: 1 is full; None: there is no limit
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
    yield Vital("decode", f"{formatting.or_unknown(tokens.recent_decode_per_s, formatting.rate)} tok/s")
    yield Vital("ITL", f"{formatting.or_unknown(tokens.recent_itl_ns, formatting.milliseconds)} ms")
    if tokens.ttft:
        yield Vital("TTFT", f"{formatting.milliseconds(tokens.ttft.percentile_ns(0.5))} ms")
    yield Vital("context", f"{tokens.position}/{asked.context}", tokens.position / asked.context, "neutral")


def _tail(view: "MonitorView") -> Iterator[Vital]:
    """Yield p99 with the deadline, or with the p99 of the burst."""
    window, deadline = view.latency.window, view.deadline
    if view.latency.streams and view.ab is None:
        yield from _tail_of_streams(view.latency.streams, deadline)
        return
    if window is None or view.ab is not None or (view.generation and not deadline):  # its figures stand elsewhere
        return
    # Against a deadline it counts from the intended start, if there is a rate.
    counted = (view.latency.window_response if deadline else None) or window
    p99_ns = counted.percentile_ns(0.99)
    doubt = "" if counted.is_settled(0.99) else "?"
    if deadline:
        share = p99_ns / deadline.deadline_ns
        text = f"{formatting.milliseconds(p99_ns)}{doubt} of {deadline.deadline_ns / 1e6:g} ms"
        yield Vital("p99", text, share, _level(share))
        return
    first_ns = view.burst.p99_ns if view.burst else None
    ratio = p99_ns / first_ns if first_ns else 1.0
    before = f", was {formatting.milliseconds(first_ns)}" if first_ns and abs(ratio - 1) > SLOWER_SHARE else ""
    level: Level = "warning" if ratio > MUCH_SLOWER and not doubt else "good"
    yield Vital("p99", f"{formatting.milliseconds(p99_ns)}{doubt} ms{before}", None, level)


def _tail_of_streams(streams: Sequence[StreamLatency], deadline: DeadlineView | None) -> Iterator[Vital]:
    """Yield the highest p99 of the streams with the deadline, which all of them have."""
    known = [(one.window, one.name) for one in streams if one.window]
    if not known or not deadline:
        return
    window, name = max(known, key=lambda pair: pair[0].percentile_ns(0.99))
    p99_ns = window.percentile_ns(0.99)
    doubt, share = "" if window.is_settled(0.99) else "?", p99_ns / deadline.deadline_ns
    text = f"{formatting.milliseconds(p99_ns)}{doubt} of {deadline.deadline_ns / 1e6:g} ms, {formatting.clean(name)}"
    yield Vital("p99", text, share, _level(share))


def _level(share: float) -> Level:
    return "critical" if share >= 1 else "warning" if share >= CLOSE_SHARE else "good"


def _heat(view: "MonitorView") -> Iterator[Vital]:
    zone, trip_c = view.thermal.zone, view.thermal.trip_c
    if zone is None or zone.value is None or zone.is_lost:
        return
    if trip_c is None:
        yield Vital("heat", f"{zone.value:.0f} C")
        return
    level: Level = "critical" if zone.value >= trip_c else "warning" if zone.value > trip_c - CLOSE_C else "good"
    yield Vital("heat", f"{zone.value:.0f} of {trip_c:.0f} C", max(0.0, zone.value / trip_c), level)


def _clock_and_input(view: "MonitorView") -> Iterator[Vital]:
    throttles = view.throttles
    if throttles.clock_mhz and throttles.best_mhz:
        share = throttles.clock_mhz / throttles.best_mhz
        is_slow = share < SLOW_CLOCK and throttles.now is not None
        yield Vital("clock", formatting.whole_percent(share), share, "critical" if is_slow else "good")
    track = next((sensor for sensor in view.sensors if sensor.info.id == PI_INPUT), None)
    if track and track.value is not None and not track.is_lost:
        level: Level = "critical" if track.value < INPUT_FLOOR_V else "warning" if track.value < PI_CLOSE_V else "good"
        yield Vital("input", f"{track.value:.2f} V, needs {INPUT_FLOOR_V}", None, level)


def _misses(view: "MonitorView") -> Iterator[Vital]:
    deadline = view.deadline
    if deadline:
        level: Level = "warning" if deadline.is_missed else "good"
        yield Vital("missed", f"{formatting.fine_percent(deadline.miss_rate)}", None, level)


def _program(view: "MonitorView") -> Iterator[Vital]:
    """Yield the CPU use of a program of which no inference was seen, so that there is no latency to show."""
    track = next((sensor for sensor in view.sensors if sensor.info.id == PROGRAM_CPU), None)
    if view.progress.is_program and track and track.value is not None and not track.is_lost:
        yield Vital("CPU", formatting.whole_percent(track.value / 100))


def _memory(view: "MonitorView") -> Iterator[Vital]:
    """Yield memory in use with the nearer limit of cgroup or board; for a leak, its rate and end."""
    memory = view.memory
    if rate := leak_rate(memory.growth):
        full = leak_ends(memory.growth)
        yield Vital("memory", f"+{rate}{full and ', '}{full}", None, "warning")
        return
    left, limit = memory.room, memory.board_mib
    if left is None or left.value is None or left.is_lost:
        return
    if left == memory.cgroup_left and memory.cgroup_limit:
        limit = memory.cgroup_limit.value
    text = f"{formatting.size(left.value * 2**20)} free"
    if limit:
        used, of = (formatting.size(max(0.0, mib) * 2**20) for mib in (limit - left.value, limit))
        text = f"{used.removesuffix(of[-4:])} of {of}"  # the unit once, where it is the same
    share = 1 - left.value / limit if limit else None
    yield Vital("memory", text, share, "good" if share is None else _level(share))


def _power(view: "MonitorView") -> Iterator[Vital]:
    leading = view.power.leading
    if leading and leading.track.value is not None and not leading.track.is_lost:
        part = "" if view.power.board else ", a part"
        yield Vital("power", f"{formatting.reading(leading.track.value, 'W')} W{part}")


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
        yield Vital("done", formatting.whole_percent(share), share, "neutral")


def elapsed(view: "MonitorView") -> str:
    """Describe the elapsed time, the requested duration, and the wall-clock time of its end."""
    progress, manifest = view.progress, view.manifest
    now = formatting.stopwatch(progress.now_ns)
    if not progress.duration_ns or progress.measured_ns is None or progress.phase != "measure":
        return now
    of = f"{now} of {formatting.stopwatch(progress.duration_ns)}"
    wall = manifest.wall_time() if manifest and manifest.state == "live" else None
    if wall is None:
        return of
    end_ns = progress.now_ns + progress.duration_ns - progress.measured_ns
    return f"{of}, ends at {wall.local(end_ns):%H:%M}"
