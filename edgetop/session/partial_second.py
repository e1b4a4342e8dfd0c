"""The statistics of a session's current second, which is not complete yet."""

from edgetop.session.records import NO_INFERENCES, Inferences, SplitBy, join, latest
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate


class PartialSecond:
    """The statistics of a session's current second, which is not complete yet."""

    def __init__(self, deadline_ns: int | None = None, *, is_paced: bool = False, split_by: SplitBy = None) -> None:
        self._deadline_ns = deadline_ns
        self._is_paced = is_paced
        self._split_by: SplitBy = split_by
        self._begin_ns = 0
        self._inferences: Inferences = NO_INFERENCES
        self._last: Inferences = NO_INFERENCES

    def add(self, inferences: Inferences, seconds: Seconds) -> None:
        """Add inferences. `seconds` has the rows of the seconds that became complete since the last call."""
        inferences = join([self._inferences, inferences])
        if len(seconds):
            self._begin_ns = int(seconds.rows["t_ns"][-1]) + NS
            before = inferences[inferences["t_ns"] < self._begin_ns]
            self._last = latest(join([self._last, before]), self._split_by)
        self._inferences = inferences[inferences["t_ns"] >= self._begin_ns]

    def seconds(self) -> Seconds:
        """Return one row with the statistics of the current second so far, or no row if there are no inferences."""
        if not len(self._inferences):
            return NO_SECONDS
        first = self._begin_ns // NS
        aggregator = SecondAggregator(
            self._deadline_ns, first, self._last, is_paced=self._is_paced, split_by=self._split_by
        )
        return concatenate([aggregator.add(self._inferences), aggregator.close()])
