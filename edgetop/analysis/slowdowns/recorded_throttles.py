"""Combines the throttling that a run recorded as events with the throttling that the analysis finds in sensor readings.

If the same throttling is in both, the recorded times, cause and figures are used. An imported session has no such
events, and a session that crashed lacks the last events. Throttling without events is taken from the readings alone.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import replace

from edgetop.analysis.slowdowns.signals import GRAVEST_FIRST, Cause
from edgetop.analysis.slowdowns.throttle_spans import MAX_SPANS, Span, Spans
from edgetop.frozen import frozen
from edgetop.session.event_kinds import ThrottleBegan, ThrottleEnded
from edgetop.session.events import Event


@frozen
class RecordedThrottle:
    """One throttling of the board, as the run recorded it: its beginning, and its end if this was recorded."""

    t_ns: int
    cause: Cause
    sensor: str
    began: ThrottleBegan
    begin: Event
    ended: ThrottleEnded | None = None
    end: Event | None = None

    def is_of(self, cause: Cause) -> bool:
        """Whether this may be the same throttling as one that was found in sensor readings with the cause `cause`.

        True if both causes are equal, or if one of them is unknown.
        """
        return self.cause == cause or "unknown" in (self.cause, cause)


class RecordedThrottles:
    """Collects the throttling that a run recorded, from its events."""

    def __init__(self) -> None:
        self._latest: list[RecordedThrottle] = []  # At most MAX_SPANS, in the order of their beginnings.

    def fold(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event.body, ThrottleBegan):
                self._begin(event, event.body)
        for event in events:  # If both are at one moment, the end may come before its beginning.
            if isinstance(event.body, ThrottleEnded):
                self._end(event, event.body)

    def _begin(self, event: Event, began: ThrottleBegan) -> None:
        cause = _known_cause(began.cause)
        if cause is None or any(one.begin == event for one in self._latest):
            return
        one = RecordedThrottle(event.t_ns, cause, began.sensor, began, event)
        insort(self._latest, one, key=lambda one: one.t_ns)
        del self._latest[:-MAX_SPANS]

    def _end(self, event: Event, ended: ThrottleEnded) -> None:
        """Add a recorded end to the latest recorded beginning with the same sensor and cause.

        If several ends fit the same beginning, the last end is used.
        """
        cause = _known_cause(ended.cause)
        before = bisect_right(self._latest, event.t_ns, key=lambda one: one.t_ns)
        for place in reversed(range(before if cause else 0)):
            one = self._latest[place]
            if one.sensor == ended.sensor and cause and one.is_of(cause):
                self._latest[place] = replace(one, cause=cause, ended=ended, end=event)
                return

    def adopted(self, spans: Spans) -> list[tuple[Span, RecordedThrottle | None]]:
        """Return a `(span, recorded)` pair for each throttling, oldest first; `recorded` may be None.

        `spans` has the throttling that was found in readings. `spans` is changed to the recorded times and causes, and
        gets the throttling that only the recording has. A recorded end is ignored if later readings contradict it.
        Throttling so old that `spans` has dropped it is not added again.
        """
        begins = [one.t_ns for one in self._latest]
        found: list[tuple[Span, RecordedThrottle | None]] = []
        left = {
            place: one
            for place, one in enumerate(self._latest)
            if not spans.dropped or one.t_ns > spans.dropped_until_ns
        }
        for span in spans.spans:
            end = len(begins) if span.in_force else bisect_right(begins, span.until_ns)
            places = range(end - 1, bisect_left(begins, span.start_ns) - 1, -1)
            place = next((at for at in places if at in left and left[at].is_of(span.cause)), None)
            one = None if place is None else _uncontradicted(left.pop(place), span)
            if one:
                span.start_ns, span.until_ns = one.t_ns, max(span.until_ns, one.t_ns)
            if one and (one.end or one.cause != "unknown"):
                span.cause = one.cause
            if one and one.end:
                span.until_ns = one.end.t_ns
            found.append((span, one))
        found += [(_alone(one), one) for one in left.values()]
        found.sort(key=lambda pair: pair[0].start_ns)
        spans.spans = [span for span, _ in found]
        return found


def _known_cause(name: str) -> Cause | None:
    return next((cause for cause in GRAVEST_FIRST if cause == name), None)


def _uncontradicted(one: RecordedThrottle, span: Span) -> RecordedThrottle:
    is_over = one.end is not None and not span.in_force and span.until_ns <= one.end.t_ns
    return one if is_over else replace(one, ended=None, end=None)


def _alone(one: RecordedThrottle) -> Span:
    """Return a recorded throttling as a span without readings. Its length is 0 if no end was recorded."""
    span = Span(one.t_ns, one.cause, one.sensor, [], one.end.t_ns if one.end else one.t_ns)
    span.min_clock_mhz = _or_nan(one.began.clock_mhz)
    span.max_temp_c = _or_nan(one.began.temp_c)
    return span


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
