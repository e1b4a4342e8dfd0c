"""The names of all alerts and their meanings, for `--on-event` and shell completion.

This module loads no NumPy, so that completion is fast.
"""

from collections.abc import Mapping

from edgetop.analysis.alerts.alert_codes import ANY, ENDED, INTERNAL_ERROR, NEAR_TRIP, RULE

# name -> its meaning: for `--on-event`, JSON, and the documentation (`edgetop help alerts`).
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
    INTERNAL_ERROR: "a part of the analysis failed: an error of edgetop",
    RULE: "a rule of --alert holds",
    ENDED: "the session is over",
}

__all__ = ["ANY", "NAMES"]
