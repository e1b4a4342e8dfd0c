"""When the screen is drawn: its clock every second, everything else more seldom, and all of it at once after news.

The analysis and the panes cost most of a refresh, and rarely show anything new after one second.
"""

from collections.abc import Sequence
from math import ceil

from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.faults import UnavailableError
from edgetop.analysis.recent_events import QUIET
from edgetop.frozen import frozen
from edgetop.session.batch import Batch


@frozen
class Rhythm:
    """The time between two calls of a screen's timer, and after how many calls the whole screen is drawn again."""

    interval_s: float  # time between two calls of the timer
    calls: int  # the whole screen is drawn at every call with this number

    @classmethod
    def of(cls, refresh_s: float, first_line_s: float) -> "Rhythm":
        """Return the rhythm that draws the whole screen every `refresh_s` seconds.

        The first line is drawn at least every `first_line_s` seconds.

        >>> Rhythm.of(2.0, 1.0), Rhythm.of(0.2, 1.0)
        (Rhythm(interval_s=1.0, calls=2), Rhythm(interval_s=0.2, calls=1))
        """
        calls = max(1, ceil(refresh_s / first_line_s))
        return cls(refresh_s / calls, calls)


def can_wait(waiting: Sequence[Batch]) -> bool:
    """Whether data that waits in the feed may be analysed at the next call of the screen's timer.

    It may not if it has an event that is listed, or a change of a sign of throttling.
    """
    return not any(
        batch.restart or batch.is_urgent or any(event.kind not in QUIET for event in batch.events) for batch in waiting
    )


def news(view: MonitorView) -> tuple[object, ...]:
    """Return what the user must see at once: the phase, the verdict without its figures, and the number of events.

    While the result stays equal, only figures have changed. If an internal error makes the verdict or the events
    unavailable, the result is the place of the error.
    """
    try:
        verdict, events = view.verdict, view.events.total
    except UnavailableError as error:
        return (error.fault.name,)
    others = tuple(one.state for one in verdict.also)
    return view.progress.phase, verdict.state, verdict.level, others, len(verdict.past), events
