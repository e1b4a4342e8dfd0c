"""An event that the analysis found: it has no message, but what it is about."""

from dataclasses import KW_ONLY

from edgetop.frozen import frozen
from edgetop.session.events import Event

SOURCE = "analysis"


@frozen
class DerivedEvent(Event):
    """Its message is made by `edgetop.wording.event_words`."""

    source: str = SOURCE
    message: str = ""
    _: KW_ONLY
    about: object = None  # the `Slowdown` or the `Alert` that begins or ends
