"""An event that the analysis found, such as the beginning of a slowdown."""

from dataclasses import KW_ONLY

from edgetop.frozen import frozen
from edgetop.session.events import Event

SOURCE = "analysis"


@frozen
class DerivedEvent(Event):
    """An event that the analysis found, such as the beginning of a slowdown. It has no message yet.

    `edgetop.wording.event_words` makes the message from the fields `body` and `about`.
    """

    source: str = SOURCE
    message: str = ""
    _: KW_ONLY
    about: object = None  # The `Slowdown`, `ThrottleAt` or `Alert` that begins or ends; None if the body says it all.
