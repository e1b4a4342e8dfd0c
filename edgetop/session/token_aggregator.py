"""The statistics of each second of a session with a language model, including its tokens.

A token belongs to the second in which it was ready. A request belongs to the second in which it ended. A token or
request that arrives after the row of its second was made is counted in the next row: from a watched program, the first
token and the end of a request arrive late. Only tokens and requests of phase `measure` count.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetop.session.records import FINISH_REASONS, MEASURE, Inferences, Requests, Tokens, join
from edgetop.session.second_aggregator import DurationAggregator, SecondAggregator
from edgetop.session.seconds import NS, TOKEN_SECOND, Seconds, TokenSeconds, concatenate

_NO_TIMES: npt.NDArray[np.int64] = np.empty(0, np.int64)
CANCELLED = FINISH_REASONS.index("cancelled")
LEAST_SHARE = 0.1  # of a second's tokens that need one number of requests at the same time, so that it is compared
SETTLED_NS = 50_000_000  # the engine reports a request at most this long after its last token


class TokenAggregator:
    """Makes one row of statistics for each second from inferences, tokens and requests of a language model.

    For other models use SecondAggregator.
    """

    def __init__(self, seconds: SecondAggregator) -> None:
        """Begin without data. `seconds`, which has no data either, makes the statistics of the inferences."""
        self._seconds = seconds
        self._tokens: list[Tokens] = []
        self._requests: list[Requests] = []
        self._itl, self._ttft = DurationAggregator(_NO_TIMES), DurationAggregator(_NO_TIMES)
        self._reached_ns = 0

    def add(self, inferences: Inferences, tokens: Tokens, requests: Requests) -> Seconds:
        """Add all data since the last call, and return the rows of the seconds that became complete."""
        tokens = tokens[~tokens["is_prompt"]]
        counted = tokens[tokens["phase"] == MEASURE]
        self._tokens.append(counted)
        self._requests.append(requests[(requests["phase"] == MEASURE) & (requests["finish"] != CANCELLED)])
        made = [self._seconds.add(at_their_end(inferences))]
        reached_ns = int(tokens["t_ns"].max()) if len(tokens) else 0
        if len(inferences):
            reached_ns = max(reached_ns, int((inferences["t_ns"] + inferences["latency_ns"]).max()))
        self._reached_ns = max(self._reached_ns, reached_ns)
        made.append(self._seconds.complete((self._reached_ns - SETTLED_NS) // NS))
        return self._with_tokens(concatenate(made))

    def close(self) -> Seconds:
        """Return the rows of the last seconds that have inferences or tokens. The aggregator is empty afterwards."""
        until = self._reached_ns // NS + 1 if any(map(len, self._tokens)) else 0
        return self._with_tokens(concatenate([self._seconds.close(), self._seconds.complete(until)]))

    def _with_tokens(self, seconds: Seconds) -> Seconds:
        if not len(seconds):
            return seconds
        until_ns = int(seconds.rows["t_ns"][-1]) + NS
        tokens, requests = join(self._tokens), join(self._requests)
        # They come sequence by sequence or slot by slot, but jitter is that of successive times.
        tokens = tokens[np.lexsort((tokens["gap_ns"], tokens["position"], tokens["t_ns"]))]
        ends_ns = requests["t_ns"] + requests["latency_ns"]
        is_in, has_ended = tokens["t_ns"] < until_ns, ends_ns < until_ns
        self._tokens, self._requests = [tokens[~is_in]], [requests[~has_ended]]
        first = int(seconds.rows["t_ns"][0]) // NS
        tokens, requests = tokens[is_in], requests[has_ended]
        second, ended = (np.maximum(ns // NS, first) for ns in (tokens["t_ns"], ends_ns[has_ended]))
        rows, itl, ttft = np.zeros(len(seconds), TOKEN_SECOND), [], []
        for place, t_ns in enumerate(seconds.rows["t_ns"].tolist()):
            own, over = tokens[second == t_ns // NS], requests[ended == t_ns // NS]
            later = own["is_later"]
            itl.append(self._itl.second(t_ns, own["gap_ns"][later]))
            ttft.append(self._ttft.second(t_ns, own["gap_ns"][~later]))
            row = rows[place : place + 1]
            row["requests"], row["tokens_out"] = len(over), len(own)
            for name in ("tokens_in", "tokens_cached", "prefill_ns"):
                row[name] = over[name].sum(dtype=np.int64)
            row["position_mean"] = own["position"][later].mean() if later.any() else 0
            row["position_max"] = max(own["position"].max(initial=0), over["position"].max(initial=0))
            _count_active(row, own[later])
        return replace(seconds, tokens=TokenSeconds(rows, concatenate(itl), concatenate(ttft)))


def _count_active(row: npt.NDArray[np.void], later: Tokens) -> None:
    """Fill in the `active...` fields of the row of one second: figures of the tokens made while exactly N requests ran.

    N is the smallest number that gives at least LEAST_SHARE of the tokens; without such a number, the fields stay 0.
    `later` has the second's tokens, without the first token of each request.
    """
    counts = np.bincount(later["active"], minlength=1)
    counts[0] = 0  # unknown
    enough = np.flatnonzero(counts >= max(1.0, LEAST_SHARE * len(later)))
    if not len(enough):
        return
    number = int(enough[0])
    same = later[later["active"] == number]
    row["active"], row["active_count"] = number, len(same)
    row["active_p50_ns"], row["active_position"] = np.median(same["gap_ns"]), same["position"].mean()


def at_their_end(inferences: Inferences) -> Inferences:
    """Return a copy of the inferences with the time of the end as `t_ns`, sorted by this time."""
    if not len(inferences):
        return inferences
    ended = inferences.copy()
    ended["t_ns"] += inferences["latency_ns"]
    return np.asarray(ended[np.argsort(ended["t_ns"], kind="stable")])
