"""Slowdowns as events: derived from what was recorded, and shown among what happened.

They are not recorded themselves: whoever analyses the recording finds them again, or better.
"""

from collections.abc import Iterator

from edgetop.analysis.slowdowns.judgement import Slowdown, SlowdownsView
from edgetop.analysis.slowdowns.stages import Then
from edgetop.analysis.slowdowns.words import told
from edgetop.formatting import duration
from edgetop.session.events import Event

SOURCE = "analysis"

_AFTER: dict[Then, str] = {"": "full speed again after", "slower": "slower still after", "faster": "less slow after"}


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
