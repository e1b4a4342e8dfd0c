"""A batch: the data of a session that arrived since the previous batch. All times in a batch are on one clock."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from edgetop.frozen import frozen
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.operators import Burst
from edgetop.session.records import (
    NO_AGGREGATES,
    NO_INFERENCES,
    NO_READINGS,
    NO_REQUESTS,
    Aggregates,
    Inferences,
    Readings,
    Requests,
    join,
)
from edgetop.session.seconds import NO_SECONDS, Seconds, concatenate


@frozen
class Batch:
    """The data of a span of a session's time. Rows of each kind are in the order in which they were made.

    - `seconds` has the statistics of each second that became complete, made from all its inferences.
    - `inferences` may lack some of these inferences, because a reader fell behind or they were not recorded.
    - `aggregates` are summaries of old readings. A reading is never also in an aggregate, and the aggregates of a
      sensor come before its readings.
    """

    until_ns: int = 0  # the session's time at which this batch was made
    inferences: Inferences = field(default_factory=lambda: NO_INFERENCES)
    seconds: Seconds = NO_SECONDS
    readings: Readings = field(default_factory=lambda: NO_READINGS)
    events: tuple[Event, ...] = ()
    manifest: Manifest | None = None  # the new manifest, if it has changed
    restart: bool = False  # whether earlier batches are void: after a seek or a reconnect
    requests: Requests = field(default_factory=lambda: NO_REQUESTS)  # to a language model
    bursts: tuple[Burst, ...] = ()  # of instrumented inferences, which are not in `inferences`
    aggregates: Aggregates = field(default_factory=lambda: NO_AGGREGATES)  # replace readings of the distant past
    # Of a restart: the time of the checkpoint that the data follows, which the reader has saved. None: the beginning.
    resumes_ns: int | None = None
    judged: Mapping[str, object] | None = None  # what was found in that past; made and read by the analysis alone
    is_urgent: bool = False  # of a live session: whether a sign of throttling has changed, so a screen must not wait

    @property
    def is_empty(self) -> bool:
        """Whether the batch has no data of any kind."""
        rows = len(self.inferences) + len(self.seconds) + len(self.readings) + len(self.aggregates)
        rows += len(self.events) + len(self.bursts) + len(self.requests)
        return not (rows or self.manifest or self.restart or self.judged)


def merge(batches: Sequence[Batch]) -> Batch:
    """Merge consecutive batches into one. An analysis of this batch gives the same results as one of all batches.

    A batch with `restart` makes all earlier batches void, so these are left out. Raises ValueError if `batches` is
    empty.
    """
    if not batches:
        raise ValueError("nothing to merge")
    starts = [i for i, batch in enumerate(batches) if batch.restart]
    batches = batches[starts[-1] :] if starts else batches
    if len(batches) == 1:
        return batches[0]
    manifests = [batch.manifest for batch in batches if batch.manifest is not None]
    judged = [batch.judged for batch in batches if batch.judged is not None]
    return Batch(
        until_ns=batches[-1].until_ns,
        inferences=join([batch.inferences for batch in batches]),
        requests=join([batch.requests for batch in batches]),
        seconds=concatenate([batch.seconds for batch in batches]),
        readings=join([batch.readings for batch in batches]),
        aggregates=join([batch.aggregates for batch in batches]),
        events=tuple(event for batch in batches for event in batch.events),
        bursts=tuple(burst for batch in batches for burst in batch.bursts),
        manifest=manifests[-1] if manifests else None,
        restart=bool(starts),
        resumes_ns=batches[0].resumes_ns,
        judged=judged[-1] if judged else None,
        is_urgent=any(batch.is_urgent for batch in batches),
    )
