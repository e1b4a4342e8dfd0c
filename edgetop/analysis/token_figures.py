"""The tokens of a language model: times to the first token and between tokens, rates, and how full the context was."""

from dataclasses import dataclass

import numpy as np

from edgetop.analysis.statistics import Statistics, Totals
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.seconds import Seconds, TokenSeconds

RECENT_S = 10  # length in seconds of the span that the present figures cover


@frozen
class GenerationView:
    requests: int
    tokens_in: int  # prompt tokens
    tokens_cached: int  # prompt tokens that a cache already held, so they were not processed
    tokens_out: int  # generated tokens
    ttft: Statistics | None  # None before the first token
    itl: Statistics | None  # None before the second token of a request
    prefill_per_s: float | None  # prompt tokens per second of processing
    decode_per_s: float | None  # tokens per second of one request, without its first token
    used_max: int  # most tokens in a context
    recent_itl_ns: float | None  # median of the last RECENT_S seconds; None if they have no tokens
    recent_decode_per_s: float | None  # of the last RECENT_S seconds; None if they have no tokens
    position: int  # tokens in the context in the last second with tokens


@dataclass(slots=True)
class _Sums:
    requests: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    prefill_ns: int = 0
    tokens_out: int = 0
    position_max: int = 0
    position: int = 0


class GenerationFold:
    """Collects the figures of a language model's tokens, from the table with one row per second."""

    def __init__(self) -> None:
        self._sums = _Sums()
        self._itl, self._ttft = Totals(), Totals()
        self._recent: list[TokenSeconds] = []

    def fold(self, seconds: Seconds) -> None:
        tokens = seconds.tokens
        if tokens is None or not len(tokens):
            return
        self._itl.add(tokens.itl)
        self._ttft.add(tokens.ttft)
        rows, sums = tokens.rows, self._sums
        for name in ("requests", "tokens_in", "tokens_cached", "prefill_ns", "tokens_out"):
            setattr(sums, name, getattr(sums, name) + int(rows[name].sum(dtype=np.int64)))
        sums.position_max = max(sums.position_max, int(rows["position_max"].max()))
        if len(ran := rows["position_max"][rows["tokens_out"] > 0]):
            sums.position = int(ran[-1])
        self._recent.append(tokens.between(max(0, len(tokens) - RECENT_S), len(tokens)))
        while sum(map(len, self._recent[1:])) >= RECENT_S:
            del self._recent[0]

    def counts(self) -> tuple[histogram.Counts, histogram.Counts]:
        """Return two histograms: the times to the first token, and the times between tokens."""
        return self._ttft.buckets, self._itl.buckets

    def view(self) -> GenerationView | None:
        """Return the figures so far, or None if no tokens were recorded."""
        if not self._recent:
            return None
        sums, itl = self._sums, self._itl.statistics(None)
        recent = Totals()
        left = RECENT_S
        for part in reversed(self._recent):
            recent.add(part.itl.between(max(0, len(part) - left), len(part)))
            left = max(0, left - len(part))
        now = recent.statistics(None)
        prefilled = sums.tokens_in - sums.tokens_cached
        return GenerationView(
            requests=sums.requests,
            tokens_in=sums.tokens_in,
            tokens_cached=sums.tokens_cached,
            tokens_out=sums.tokens_out,
            ttft=self._ttft.statistics(None),
            itl=itl,
            prefill_per_s=prefilled / sums.prefill_ns * 1e9 if sums.prefill_ns else None,
            decode_per_s=_rate(itl),
            used_max=sums.position_max,
            recent_itl_ns=now.percentile_ns(0.5) if now else None,
            recent_decode_per_s=_rate(now),
            position=sums.position,
        )


def _rate(itl: Statistics | None) -> float | None:
    return 1e9 / itl.mean_ns if itl and itl.mean_ns else None
