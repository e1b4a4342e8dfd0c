"""The probability that an inference misses its deadline, in words."""

from collections.abc import Mapping

from edgetop import formatting
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.miss_risk import MissRisk
from edgetop.session.typed_json import Document

# Ratio of an estimate to the upper end of its interval below which only the upper end is shown. Choice: a tiny estimate
# with a much higher upper end would read as a promise. Larger: estimates are hidden that say something; smaller: a
# promise is shown.
FAR_BELOW = 1e-3
# Longest mean time between misses that is shown. Choice: ten years, since no board runs longer. Larger: figures that
# nobody can check; smaller: the rare miss of a product has no figure.
LONGEST_BETWEEN_S = 3.2e8

REFUSED: Mapping[str, str] = {
    "few-inferences": "there are too few inferences",
    "few-independent": "slow inferences come in too few groups",
    "slowdown": "the model slowed down, so its inferences have no common law",
    "drift": "slow inferences became more or fewer during the session",
    "no-law": "slow inferences follow no law of extremes, as with two modes",
}


def refusal_words(risk: MissRisk) -> str:
    """Return why the probability of missing the deadline is unknown.

    >>> refusal_words(MissRisk(None, None, "few-inferences", 5000))
    'there are too few inferences (5000 are needed)'
    """
    needed = "" if risk.wanted is None else f" ({risk.wanted} are needed)"
    return f"{REFUSED[risk.refused]}{needed}"


def risk_words(risk: MissRisk, rate_hz: float | None) -> str:
    """Return the probability of missing the deadline with its interval, and the mean time between misses.

    `rate_hz` is the number of inferences per second. If it is None, the time is left out.

    >>> risk_words(MissRisk(1.234e-5, (4e-6, 3.1e-5)), 30.0)
    '1.2e-05 an inference (95 %: 4e-06 to 3.1e-05, estimated), a miss every 45m01s'
    >>> risk_words(MissRisk(2.1e-19, (0.0, 4.2e-7)), 30.0)
    'at most 4.2e-07 an inference (95 %, estimated)'
    >>> risk_words(MissRisk(None, None, "drift"), 30.0)
    'unknown: slow inferences became more or fewer during the session'
    """
    if risk.per_inference is None or risk.ci95 is None:
        return f"unknown: {refusal_words(risk)}"
    low, high = risk.ci95
    if risk.per_inference <= high * FAR_BELOW:
        return f"at most {high:.2g} an inference (95 %, estimated)"
    how = "counted" if risk.is_counted else "estimated"
    seconds = between_misses_s(risk, rate_hz)
    every = "" if seconds is None else f", a miss every {formatting.duration(seconds * 1e9)}"
    return f"{risk.per_inference:.2g} an inference (95 %: {low:.2g} to {high:.2g}, {how}){every}"


def between_misses_s(risk: MissRisk, rate_hz: float | None) -> float | None:
    """Return the mean time between two missed deadlines in seconds. Return None if it is unknown or over ten years."""
    if not rate_hz or not risk.per_inference:
        return None
    seconds = 1 / (risk.per_inference * rate_hz)
    return seconds if seconds < LONGEST_BETWEEN_S else None


def risk_document(deadline: DeadlineView) -> Document | None:
    """Return the probability of missing a deadline as JSON, or None if it was not computed.

    The keys must stay the same, because programs of users read them.
    """
    risk = deadline.risk
    if risk is None:
        return None
    return {
        "per_inference": risk.per_inference,
        "ci95": None if risk.ci95 is None else list(risk.ci95),
        "refused": refusal_words(risk) if risk.refused else None,
        "counted": risk.is_counted,
        "wanted": risk.wanted,
    }
