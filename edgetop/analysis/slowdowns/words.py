"""A slowdown in words and as events, the same in verdict, report and event log.

The events are derived and not recorded: whoever analyses the recording finds them again, or better.
"""

from collections.abc import Iterator

from edgetop.analysis.slowdowns.causes import LIMITS
from edgetop.analysis.slowdowns.judgement import Slowdown, SlowdownsView
from edgetop.analysis.slowdowns.stages import Then
from edgetop.formatting import clock_time, duration
from edgetop.session.events import Event

SOURCE = "analysis"

_AFTER: dict[Then, str] = {"": "full speed again after", "slower": "slower still after", "faster": "less slow after"}


def is_throttling(slowdown: Slowdown) -> bool:
    """Whether the board slows itself, as far as the cause tells; all else is done to it."""
    return slowdown.cause in LIMITS or (slowdown.from_start and slowdown.cause != "contention")


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
    if slowdown.from_start:
        return f"{'throttled' if is_throttling(slowdown) else 'contended'} from the start: {why(slowdown)}"
    return f"{slower(slowdown)}: {why(slowdown)}"


def slowdown_events(view: SlowdownsView) -> list[Event]:
    """The newest first."""
    return [event for slowdown in reversed(view.slowdowns) for event in _events(slowdown)]


def _events(slowdown: Slowdown) -> Iterator[Event]:
    """The newest first."""
    cause = slowdown.cause
    if slowdown.end_ns is not None:
        lasted = duration(slowdown.end_ns - slowdown.start_ns)
        yield Event(slowdown.end_ns, "slowdown-ended", "info", SOURCE, f"{_AFTER[slowdown.then]} {lasted} ({cause})")
    yield Event(slowdown.start_ns, "slowdown-began", "warning", SOURCE, told(slowdown), {"cause": cause})
