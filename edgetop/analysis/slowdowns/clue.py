"""One observation that supports the cause of a slowdown, as values.

`edgetop.wording.clue_words` makes it a sentence.
"""

from typing import Literal

from edgetop.analysis.slowdowns.signals import Cause
from edgetop.frozen import frozen

ClueKind = Literal[
    "set",  # the flag `name` was set at `at_s`, in `share` of the slow time
    "set-from-start",  # the flag `name` has been set since the measurement began
    "set-since",  # the flag `name` has been set since `at_s`, by a limit that began with the measurement or soon after
    "in-force",  # the limit `name` was in force before the slowdown
    "state",  # the cooling device `name` went from `usual` to `value`
    "fell",  # the signal `name` fell from `usual` to `value`
    "rose",  # the signal `name` rose from `usual` to `value`
    "was",  # the signal `name` was `value`, beyond a fixed limit, but no further from usual than before the slowdown
    "trip",  # a zone was `value` °C above its trip
    "low-clock",  # the CPU ran at `value` MHz under load where its governor allows `usual`
    "all-along",  # other processes took the CPU before and during the slowdown, in `share` of the slow time
    "stood",  # the signal `name` had this value before and during the slowdown
    "process",  # the process `name` took `value` % of a core
    "process-gpu",  # the process `name` used the GPU for `value` % of the time
    "process-now",  # the process `name` took `value` % of a core in the last seconds
    "process-memory",  # the process `name` took `usual` MiB of memory since the session began, and holds `value` MiB
    "between",  # `value` calls of the stream `name` came between two calls of this one, and `usual` before
    "taken",  # the signal `name` of contention had this mean
    "taken-from-start",  # the signal `name` had this mean since the measurement began, in `share` of the seconds
    "taken-now",  # the signal `name` had this mean in the last seconds; without a name, the taker of the CPU is unknown
    "unchanged",  # nothing changed in the signals of `causes`
    "not-in-force",  # the limits that would be `causes` were not set
    "unreported",  # the board has no sensor for `causes`
]


@frozen
class Clue:
    kind: ClueKind
    name: str = ""  # Name of the signal or the process.
    unit: str = ""
    value: float | None = None
    usual: float | None = None  # Value before the slowdown; None if unknown.
    share: float | None = None  # Share of the slow time.
    at_s: int | None = None  # Second of the session in which it began.
    causes: tuple[Cause, ...] = ()
    also: str = ""  # Cause that this is evidence of, if it is not the cause of the slowdown.
    also_share: float | None = None  # Share of the slow time that this other cause explains.
