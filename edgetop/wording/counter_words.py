"""What the counters of the CPU and the kernel say about an inference, in words."""

from edgetop import formatting
from edgetop.analysis.event_counts import EventFigures

_NAMED = {
    "cache_misses": "cache misses", "branch_misses": "branch misses", "page_faults": "page faults",
    "context_switches": "context switches", "migrations": "migrations",
}  # fmt: skip
FEW = 100  # numbers below it have two digits


def counter_words(figures: EventFigures | None) -> str:
    """Return the known counts for a mean inference, or "" if nothing is known.

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


def _amount(value: float) -> str:
    return f"{value:.2g}" if value < FEW else formatting.count(round(value))
