"""Counts how often calls of other models come between the calls of one model, in a watched program.

After calls of another model, the weights and code of a model are no longer in the caches. So a change of this mix can
make a model slower without any change on the board.
"""

import numpy as np
import numpy.typing as npt

from edgetop.analysis.tracks import SECONDS, Floats
from edgetop.frozen import frozen
from edgetop.session.distinct import distinct
from edgetop.session.seconds import NS, Seconds

# Number of own calls over which the share of other calls is taken. Choice: fewer than ten seconds of a model with one
# call a second. Larger: a change of the mix is dated too late; smaller: the share scatters.
OWN_CALLS = 8
# Longest time in which these calls are searched. Choice: a slow model of 2.5 s has 24 calls in it. Larger: a share of
# minutes ago is compared; smaller: models with few calls have no share.
LOOK_BACK_S = 60


@frozen
class Between:
    """How many calls of another stream came for each call of this stream, before and during a slowdown."""

    number: int  # Of the other stream.
    before: float | None  # None if the calls before are not stored any more.
    during: float


class Mix:
    """Counts the calls of each stream (one model of a program) in each recent second, and adds up their time."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}  # By stream number.
        # Shape (2, streams, SECONDS): the number of calls, and the ns in them. A second's place is its remainder.
        self._sums = np.zeros((2, 0, SECONDS))
        self._newest_s = -1

    def fold(self, seconds: Seconds) -> None:
        """Add complete seconds, which have the statistics of each stream."""
        if not len(seconds):
            return
        rows, streams = seconds.rows, seconds.streams
        self._clear(max(int(rows["t_ns"][-1]) // NS, self._newest_s))
        alone = rows["count"] > 0
        if streams is not None:
            alone &= np.diff(streams.offsets) == 0
            second = rows["t_ns"][streams.owner] // NS
            for number in distinct(streams.number).tolist():
                is_own = streams.number == number
                self._store(number, second[is_own], streams.seconds.rows[is_own])
        if alone.any():
            self._store(0, rows["t_ns"][alone] // NS, rows[alone])

    def _clear(self, newest_s: int) -> None:
        first_s = max(self._newest_s + 1, newest_s - SECONDS + 1)
        self._sums[:, :, np.arange(first_s, newest_s + 1) % SECONDS] = 0.0
        self._newest_s = newest_s

    def _store(self, number: int, second: npt.NDArray[np.int64], rows: npt.NDArray[np.void]) -> None:
        if number not in self._row:
            self._row[number] = len(self._row)
            self._sums = np.concatenate([self._sums, np.zeros((2, 1, SECONDS))], axis=1)
        is_held = second > self._newest_s - SECONDS
        place = second[is_held] % SECONDS
        self._sums[0, self._row[number], place] = rows["count"][is_held]
        self._sums[1, self._row[number], place] = rows["sum_ns"][is_held]

    def shares(self, number: int, begin_s: int, end_s: int) -> Floats:
        """Return, for each second, the share (0..1) of other streams (models of the program) in the latest calls.

        The latest calls are those since the eighth last call of the stream `number`. The result is the smaller of two
        shares: in the number of calls, and in their time. (A short call leaves most of the caches as they are.) It is
        NaN if the stream had fewer than eight calls in the last minute. `begin_s` and `end_s`: the first session
        second, and the second after the last.
        """
        if number not in self._row:
            return np.full(end_s - begin_s, np.nan)
        sums = self._between(begin_s - LOOK_BACK_S, end_s)
        own, others = sums[:, self._row[number]], sums.sum(axis=1) - sums[:, self._row[number]]
        own, others = (np.concatenate([np.zeros((2, 1)), np.cumsum(each, axis=1)], axis=1) for each in (own, others))
        last = np.arange(LOOK_BACK_S + 1, LOOK_BACK_S + 1 + end_s - begin_s)
        first = np.searchsorted(own[0], own[0][last] - OWN_CALLS, side="right") - 1
        known = first >= 0
        first = np.maximum(first, 0)
        own, others = own[:, last] - own[:, first], others[:, last] - others[:, first]
        with np.errstate(invalid="ignore"):  # The shares without a call are not used.
            return np.where(known, (others / (own + others)).min(axis=0), np.nan)

    def _between(self, begin_s: int, end_s: int) -> Floats:
        """Return the number of calls of each stream in each second, and the time in these calls in ns.

        The array has the shape (2, streams, seconds). `begin_s` and `end_s`: the first session second, and the second
        after the last. A second that is not stored has zeros.
        """
        second = np.arange(begin_s, end_s)
        is_held = (second > self._newest_s - SECONDS) & (second <= self._newest_s) & (second >= 0)
        return np.where(is_held, self._sums[:, :, second % SECONDS], 0.0)

    def risen(self, number: int, before_s: tuple[int, int], during_s: tuple[int, int]) -> Between | None:
        """Return the other stream whose time between the calls of the stream `number` rose most.

        The time is measured per call of the stream `number`, and its rise from the span `before_s` to the span
        `during_s`. Each span is a (begin, end) pair of session seconds. The result is None if the stream `number` has
        no calls in `during_s`.
        """
        if number not in self._row:
            return None
        own = self._row[number]
        (calls, spent), (during, spent_during) = (self._between(*span).sum(axis=2) for span in (before_s, during_s))
        if not during[own]:
            return None
        is_known = calls[own] > 0
        rise = spent_during / during[own] - (spent / calls[own] if is_known else 0.0)
        rise[own] = -np.inf
        most = int(np.argmax(rise))
        other = next(each for each, row in self._row.items() if row == most)
        before = float(calls[most] / calls[own]) if is_known else None
        return Between(other, before, float(during[most] / during[own]))
