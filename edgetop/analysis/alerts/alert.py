"""One alert, and the names of all that there are."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgetop.session.events import Severity

KEPT = 200  # of each kind, the latest

RULE = "alert"
ENDED = "ended"
ANY = "any"
NEAR_TRIP = "near-trip"

# name -> what it tells: of `--on-event`, of JSON, and of the documentation (`edgetop help alerts`).
NAMES: Mapping[str, str] = {
    "throttled": "the board slows itself: heat, power, voltage",
    "slowed": "inferences take longer for another cause",
    NEAR_TRIP: "a zone is within 5 C of the temperature at which it throttles",
    "misses": "1 % of the last minute's inferences missed the deadline",
    "overloaded": "a paced load asks for more than the engine can do",
    "stalled": "an inference does not come back",
    "leak": "the engine's memory grows and does not level off",
    "recording-failed": "nothing is recorded: a full disk",
    "engine-died": "the engine ended by itself",
    "gate-failed": "a gate ended the session",
    RULE: "a rule of --alert holds",
    ENDED: "the session is over",
}


@dataclass(frozen=True, slots=True)
class Figures:
    """What a value was while an alert lasted."""

    unit: str
    min: float
    mean: float
    max: float
    is_worst_low: bool = False

    @property
    def worst(self) -> float:
        return self.min if self.is_worst_low else self.max


@dataclass(frozen=True, slots=True)
class Alert:
    name: str  # of NAMES
    severity: Severity
    begin_ns: int
    end_ns: int | None  # None: it goes on, or did to the end of the session
    text: str  # what is the matter, in words
    rule: str = ""  # as it was written; "": edgetop's own
    figures: Figures | None = None  # None: it is not about a value
    is_told_once: bool = False  # a person hears of the first only
    repeat_ns: int | None = None  # a person is told again so long after, while it goes on

    @property
    def key(self) -> tuple[str, str]:
        """Of which there can be one at a time."""
        return self.name, self.rule


@dataclass(frozen=True, slots=True)
class AlertsView:
    newest_first: tuple[Alert, ...]  # by their beginnings
    now_ns: int
    missing: tuple[Alert, ...] = ()  # when the deadline was missed, oldest first: for the log, and told to nobody
