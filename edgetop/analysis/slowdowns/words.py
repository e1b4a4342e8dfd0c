"""A slowdown in words, the same in verdict, events and report."""

from edgetop.analysis.slowdowns.causes import LIMITS
from edgetop.analysis.slowdowns.judgement import Slowdown
from edgetop.formatting import clock_time

THROTTLED, SLOWED, FROM_START = "THROTTLED", "SLOWED", "THROTTLED FROM THE START"
CONTENDED_FROM_START = "CONTENDED FROM THE START"


def word(slowdown: Slowdown) -> str:
    return word_of(slowdown.cause, from_start=slowdown.from_start)


def word_of(cause: str, *, from_start: bool) -> str:
    """Throttled is what the board does to itself; slowed is what others do to it."""
    if from_start:
        return CONTENDED_FROM_START if cause == "contention" else FROM_START
    return THROTTLED if cause in LIMITS else SLOWED


def how_much(slowdown: Slowdown) -> str:
    """
    >>> how_much(Slowdown(0, None, "thermal", 1.314, 0.9, ()))
    '31 %'
    """
    return "" if slowdown.latency_ratio is None else f"{(slowdown.latency_ratio - 1) * 100:.0f} %"


def slower(slowdown: Slowdown) -> str:
    return f"{how_much(slowdown)} slower" if slowdown.latency_ratio is not None else "slower"


def why(slowdown: Slowdown) -> str:
    """The cause, with the first that speaks for it."""
    if slowdown.cause == "unknown" or not slowdown.evidence:
        return f"{slowdown.cause} cause" if slowdown.cause == "unknown" else slowdown.cause
    first = slowdown.evidence[0].removesuffix(f" at {clock_time(slowdown.start_ns)}")
    return f"{slowdown.cause} ({first})"


def told(slowdown: Slowdown) -> str:
    """
    >>> told(Slowdown(0, None, "thermal", 1.314, 0.9, ("cpu at 85 C",)))
    '31 % slower: thermal (cpu at 85 C)'
    """
    return f"{word(slowdown).lower() if slowdown.from_start else slower(slowdown)}: {why(slowdown)}"


def since(slowdown: Slowdown) -> str:
    """`31 % since 00:12:03: thermal (...)`."""
    if slowdown.from_start:
        return why(slowdown)
    return f"{how_much(slowdown)} since {clock_time(slowdown.start_ns)}: {why(slowdown)}"
