"""The result of a session in short, for the list of sessions. It is stored beside the recording."""

from typing import TYPE_CHECKING

from edgetop.analysis.verdict import final_verdict
from edgetop.recording.registry import Outcome
from edgetop.wording import verdict_words

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis


def outcome_of(analysis: "Analysis") -> Outcome:
    """Return the result of a session in short: its verdict in a few words, p50 and p99 in ms.

    For a session that still runs, return its present state.
    """
    verdict, statistics = analysis.verdict(), analysis.statistics()
    manifest = analysis.manifest
    end_reason = manifest.end_reason if manifest else None
    brief = verdict_words.brief(verdict)
    if manifest and end_reason and not brief:  # the event of its end is missing
        brief = verdict_words.state_word(final_verdict(end_reason, None, manifest.watched)).lower()
    p50_ms, p99_ms = (
        None if statistics is None else round(statistics.percentile_ns(quantile) / 1e6, 6) for quantile in (0.50, 0.99)
    )
    return Outcome(brief or verdict_words.state_word(verdict), p50_ms, p99_ms)
