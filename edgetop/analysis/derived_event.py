"""An event that the analysis found. It carries the object that it is about instead of a message."""

from dataclasses import KW_ONLY

from edgetop.frozen import frozen
from edgetop.session.events import Event

SOURCE = "analysis"


@frozen
class DerivedEvent(Event):
    """An event without a message: `edgetop.wording.event_words` makes the message from `about`."""

    source: str = SOURCE
    message: str = ""
    _: KW_ONLY
    about: object = None  # the `Slowdown` or the `Alert` that begins or ends
