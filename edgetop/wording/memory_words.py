"""Memory that grows without end, in words."""

from edgetop import formatting
from edgetop.analysis.memory_use import GIB_FROM, HOUR_S, WHOLE_FROM, GrowthView
from edgetop.session.seconds import NS


def leak_rate(growth: GrowthView) -> str:
    """Return how fast the engine's memory grows, such as `12 MiB/h`, or "" if the growth is no leak."""
    if not growth.is_leak or growth.mib_per_h is None:
        return ""
    value = growth.mib_per_h.value
    return f"{value:.0f} MiB/h" if WHOLE_FROM <= value < GIB_FROM else f"{formatting.size(value * 2**20)}/h"


def leak_ends(growth: GrowthView) -> str:
    """Return when the memory will be full because of a leak, such as `full in 12h32m`, or "" if unknown."""
    left = growth.hours_left
    return "" if left is None else f"full in {formatting.duration(left * HOUR_S * NS)}"
