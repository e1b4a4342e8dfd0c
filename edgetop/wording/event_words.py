"""The messages of events that the analysis found, such as a slowdown. Recorded events have a message already."""

from edgetop.analysis.alerts.alert import Alert, Missed
from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttles import ThrottleAt
from edgetop.session.engine_events import QuadDone, TurnsSettled
from edgetop.session.events import Event
from edgetop.wording.alert_words import ended_words, met_again_words, problem_words
from edgetop.wording.slowdown_words import slowdown_end_words, slowdown_words
from edgetop.wording.throttle_words import throttle_begin_words, throttle_end_words


def worded(event: Event) -> Event:
    """Return the event with a message. A recorded event is returned unchanged, because it has a message already."""
    if not isinstance(event, DerivedEvent):
        return event
    return Event(event.t_ns, event.body, event.severity, event.source, _message(event))


def _message(event: DerivedEvent) -> str:
    match event.body:
        case TurnsSettled(left_out_ns):
            return f"the first {left_out_ns / 1e6:.0f} ms after each switch are left out"
        case QuadDone(number, order):
            return f"quad {number} {order}"
    return _end_message(event) if event.kind in _ENDS else _begin_message(event)


_ENDS = frozenset({"slowdown-ended", "alert-ended", "deadline-end", "throttle-end"})


def _begin_message(event: DerivedEvent) -> str:
    match event.about:
        case Slowdown() as slowdown:
            return slowdown_words(slowdown)
        case ThrottleAt() as throttle:
            return throttle_begin_words(throttle)
        case Alert() as alert:
            return problem_words(alert)
    return event.message


def _end_message(event: DerivedEvent) -> str:
    match event.about:
        case Slowdown() as slowdown:
            return slowdown_end_words(slowdown)
        case ThrottleAt() as throttle:
            return throttle_end_words(throttle)
        case Alert(about=Missed()) as missing:
            return met_again_words(missing)
        case Alert() as alert:
            return ended_words(alert)
    return event.message
