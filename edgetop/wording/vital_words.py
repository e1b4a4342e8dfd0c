"""The vital signs of a session (temperature, power, memory and so on) in words: each with its limit and unit."""

from typing import TYPE_CHECKING

from edgetop import formatting
from edgetop.analysis import vitals as of
from edgetop.analysis.slowdowns.signals import INPUT_FLOOR_V
from edgetop.analysis.vitals import Figure
from edgetop.formatting import milliseconds
from edgetop.wording.memory_words import leak_ends, leak_rate

if TYPE_CHECKING:
    from edgetop.analysis.analysis import MonitorView


MS_CELLS = 5  # width of a latency in ms
SECONDS_FROM_NS = 10e9  # from this latency on, a figure is in seconds instead of milliseconds
TAIL_CELLS = MS_CELLS + len(" ms, usual ") + MS_CELLS  # width of a p99 with the usual one


def vital_words(figure: Figure) -> str:  # noqa: C901, PLR0911  a text for each figure
    """Return a vital sign with its limit and unit. A `?` follows a p99 of too few inferences.

    Short values are padded with spaces, so that the text has the same width for all usual values.

    >>> vital_words(of.Celsius(71.0, 85.0)), vital_words(of.Tail(31.2e6, is_settled=False, before_ns=20e6))
    (' 71 of 85 C', '31? ms, usual 20.00  ')
    >>> vital_words(of.MemoryLeft(1024.0, 4096.0)), vital_words(of.MemoryLeft(1024.0, None))
    ('3.0 of 4.0 GiB', '   1.0 GiB free')
    """
    match figure:
        case of.Tail():
            return _tail(figure)
        case of.TokenRate(per_s):
            return f"{formatting.or_unknown(per_s, formatting.rate):>5} tok/s"
        case of.TokenTime(ns):
            return f"{formatting.or_unknown(ns, milliseconds):>{MS_CELLS}} ms"
        case of.Context(position, size):
            return f"{position:>{len(str(size))}} of {size}"
        case of.Celsius(celsius, trip_c):
            value = f"{formatting.or_unknown(celsius, lambda celsius: f'{celsius:.0f}'):>3}"
            return f"{value} C" if trip_c is None else f"{value} of {trip_c:.0f} C"
        case of.InputVolts(volts):
            return f"{volts:.2f} V{' <' if volts < INPUT_FLOOR_V else ', needs'} {INPUT_FLOOR_V}"
        case of.Leak(growth):
            return ", ".join(filter(None, (f"+{leak_rate(growth)}", leak_ends(growth))))
        case of.MemoryLeft():
            return _memory(figure)
        case of.Watts(watts, _, float(limit_w)):
            return f"{formatting.reading(watts, 'W'):>5} of {limit_w:g} W"
        case of.Watts(watts, is_part):
            return f"{formatting.reading(watts, 'W'):>5} W{', a part' if is_part else ''}"
        case of.Share(share, is_fine):
            return f"{formatting.fine_percent(share):>7}" if is_fine else f"{formatting.whole_percent(share):>5}"


def _tail(tail: of.Tail) -> str:
    words = milliseconds if tail.is_settled else formatting.unsettled_ms
    p99 = formatting.doubted(formatting.or_unknown(tail.p99_ns, words), settled=tail.is_settled)
    if tail.deadline_ns is not None and (tail.p99_ns or 0) >= SECONDS_FROM_NS:
        seconds = (tail.p99_ns or 0) / 1e9
        told = formatting.doubted(f"{seconds:.{1 if tail.is_settled else 0}f}", settled=tail.is_settled)
        return f"{told} s of {tail.deadline_ns / 1e6:g} ms"
    if tail.deadline_ns is not None:
        stream = f", {formatting.clean(tail.stream)}" if tail.stream else ""
        return f"{p99:>{MS_CELLS + 1}} of {tail.deadline_ns / 1e6:g} ms{stream}"
    return f"{p99} ms{'' if tail.before_ns is None else f', usual {milliseconds(tail.before_ns)}'}".ljust(TAIL_CELLS)


def _memory(memory: of.MemoryLeft) -> str:
    if not memory.limit_mib:
        return f"{formatting.or_unknown(memory.left_mib, lambda mib: formatting.size(mib * 2**20)):>10} free"
    limit_mib, limit = memory.limit_mib, formatting.size(memory.limit_mib * 2**20)
    number = limit.partition(" ")[0]
    unit_mib = limit_mib / float(number)  # The used memory has the unit of the limit, so that it keeps its width.
    used = formatting.or_unknown(memory.left_mib, lambda left: f"{max(0.0, limit_mib - left) / unit_mib:.1f}")
    return f"{used:>{len(number)}} of {limit}"


def elapsed_words(view: "MonitorView") -> str:
    """Return the elapsed time of the session. A requested duration follows, and the time of day of its end."""
    progress, manifest = view.progress, view.manifest
    now = formatting.elapsed(progress.now_ns)
    if not progress.duration_ns or progress.measured_ns is None or progress.phase != "measure":
        return now
    asked = f"{now} of {formatting.span(progress.duration_ns)}"
    wall = manifest.wall_time() if manifest and manifest.state == "live" else None
    if wall is None:
        return asked
    end_ns = progress.now_ns + progress.duration_ns - progress.measured_ns
    return f"{asked}, ends at {wall.local(end_ns):%H:%M}"
