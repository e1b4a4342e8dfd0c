"""The messages of the events that the analysis derives."""

from edgetop.analysis.alerts.alert import Alert, Missed
from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.session.events import Event
from edgetop.wording.alert_words import ended_words, met_again_words, problem_words
from edgetop.wording.slowdown_words import slowdown_end_words, slowdown_words


def worded(event: Event) -> Event:
    """Return the event with its message: the same object if it was recorded with one."""
    if not isinstance(event, DerivedEvent):
        return event
    return Event(event.t_ns, event.body, event.severity, event.source, _message(event))


def _message(event: DerivedEvent) -> str:
    is_end = event.kind in ("slowdown-ended", "alert-ended", "deadline-end")
    match event.about:
        case Slowdown() as slowdown:
            return slowdown_end_words(slowdown) if is_end else slowdown_words(slowdown)
        case Alert(about=Missed()) as missing if is_end:
            return met_again_words(missing)
        case Alert() as alert:
            return ended_words(alert) if is_end else problem_words(alert)
    return event.message
