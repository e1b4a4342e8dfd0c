"""The events that the CPU and the kernel counted in an inference, in words."""

from collections.abc import Mapping, Sequence

from edgetop import formatting
from edgetop.analysis.event_counts import EventFigures
from edgetop.analysis.operator_counts import OperatorEvents

_NAMED = {
    "cache_misses": "cache misses", "branch_misses": "branch misses", "page_faults": "page faults",
    "context_switches": "context switches", "migrations": "migrations",
}  # fmt: skip
RARE = 0.001  # events in an inference below which their number is not written
FEW = 100  # numbers below it have two digits


def counter_words(figures: EventFigures | None) -> str:
    """Return the mean number of events of each kind in an inference, or "" if no kind was counted.

    >>> counter_words(EventFigures(cycles=2_104_000, ipc=1.874, clock_mhz=1795.2, cache_misses=310, migrations=0.066))
    '2.10 M cycles at 1795 MHz, 1.87 instructions a cycle, 310 cache misses, 0.066 migrations'
    """
    if figures is None:
        return ""
    parts = []
    if figures.cycles is not None:
        at = "" if figures.clock_mhz is None else f" at {figures.clock_mhz:.0f} MHz"
        parts.append(f"{_amount(figures.cycles)} cycles{at}")
    if figures.ipc is not None:
        parts.append(f"{figures.ipc:.2f} instructions a cycle")
    counted = ((getattr(figures, name), words) for name, words in _NAMED.items())
    parts += [f"{_amount(value)} {words}" for value, words in counted if value is not None]
    if figures.bytes is not None:
        parts.append(f"at least {formatting.size(round(figures.bytes))} from memory")
    if figures.bound is not None:
        parts.append(f"{figures.bound} by these bytes")
    return ", ".join(parts)


def operator_counter_words(events: OperatorEvents | None) -> str:
    """Return the mean number of events of each kind in one operator of an inference, or "" if no kind was counted.

    Each estimated number has its 95 % interval in brackets. The number of page faults has none, because it is exact.

    >>> operator_counter_words(OperatorEvents(page_faults=12, cycles=2e6, ci95={"cycles": (1.8e6, 2.2e6)}))
    '2.00 M cycles (1.80 M to 2.20 M), 12 page faults'
    """
    if events is None:
        return ""
    limits = events.ci95 or {}

    def within(name: str) -> str:
        low, high = limits.get(name, (0.0, 0.0))
        return f" ({_amount(low)} to {_amount(high)})" if low != high else ""

    parts = [f"{_amount(events.cycles)} cycles{within('cycles')}"] if events.cycles is not None else []
    if events.ipc is not None:
        parts.append(f"{events.ipc:.2f} instructions a cycle")
    counted = ((name, getattr(events, name, None), words) for name, words in _NAMED.items())
    parts += [f"{_amount(value)} {words}{within(name)}" for name, value, words in counted if value is not None]
    if events.bytes is not None:
        parts.append(f"at least {formatting.size(round(events.bytes))} from memory")
    estimated = " (estimate: by regression)" if events.by == "regression" else ""
    return ", ".join(parts) + estimated


def operator_counter_columns(events: Sequence[OperatorEvents | None]) -> Mapping[str, Sequence[str]]:
    """Return a table of the events that were counted in operators, as a dict of each column's cells by heading.

    Kinds of events that were not counted have no column, so the result may be {}.
    """
    return {
        heading: [formatting.or_unknown(None if one is None else getattr(one, name), shown) for one in events]
        for heading, name, shown in (
            ("cycles", "cycles", _amount),
            ("instr/cycle", "ipc", "{:.2f}".format),
            ("cache misses", "cache_misses", _amount),
            ("MB", "bytes", lambda value: f"{value / 1e6:.2f}"),
            ("branch misses", "branch_misses", _amount),
            ("page faults", "page_faults", _amount),
        )
        if any(one and getattr(one, name) for one in events)
    }


def notes_words(every: Mapping[str, int]) -> str:
    """Return a note on which numbers of events in operators are estimates, or "" if all are exact.

    `every` has n for each kind of event of which the profiler recorded every n-th event. If n is 1, the number is
    exact.

    >>> notes_words({"cycles": 100_000, "page-faults": 1})
    'counted by notes of one in 100000 cycles: estimates'
    """
    sparse = [f"one in {number} {event}" for event, number in every.items() if number > 1]
    return f"counted by notes of {', '.join(sparse)}: estimates" if sparse else ""


def _amount(value: float) -> str:
    if 0 < value < RARE:
        return f"under {RARE:g}"
    return f"{value:.2g}" if value < FEW else formatting.count(round(value))
