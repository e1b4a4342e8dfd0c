"""Slowdowns in words, the same in verdict, report, alerts and event log."""

from edgetop.analysis.slowdowns.slowdown import Slowdown, Then, is_throttling
from edgetop.formatting import clock_time, duration

_AFTER: dict[Then, str] = {"": "full speed again after", "slower": "slower still after", "faster": "less slow after"}


def slower_words(slowdown: Slowdown) -> str:
    """
    >>> slower_words(Slowdown(0, None, "thermal", 1.314, 0.9, ()))
    '31 % slower'
    """
    return "slower" if slowdown.latency_ratio is None else f"{(slowdown.latency_ratio - 1) * 100:.0f} % slower"


def cause_words(slowdown: Slowdown) -> str:
    """Return the cause, with the first piece of evidence."""
    if slowdown.cause == "unknown":
        return "unknown cause"
    if not slowdown.evidence:
        return slowdown.cause
    return f"{slowdown.cause} ({slowdown.evidence[0].removesuffix(f' at {clock_time(slowdown.start_ns)}')})"


def slowdown_words(slowdown: Slowdown) -> str:
    """
    >>> slowdown_words(Slowdown(0, None, "thermal", 1.314, 0.9, ("cpu at 85 C",)))
    '31 % slower: thermal (cpu at 85 C)'
    """
    if slowdown.from_start:
        return f"{'throttled' if is_throttling(slowdown) else 'contended'} from the start: {cause_words(slowdown)}"
    return f"{slower_words(slowdown)}: {cause_words(slowdown)}"


def slowdown_end_words(slowdown: Slowdown) -> str:
    """
    >>> slowdown_end_words(Slowdown(0, 20 * 10**9, "thermal", 1.314, 0.9, (), then="slower"))
    'slower still after 20.0s (thermal)'
    """
    lasted_ns = 0 if slowdown.end_ns is None else slowdown.end_ns - slowdown.start_ns
    return f"{_AFTER[slowdown.then]} {duration(lasted_ns)} ({slowdown.cause})"
