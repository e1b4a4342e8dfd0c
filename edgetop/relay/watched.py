"""A session as the board's side follows it: what came before, what comes, and where a viewer stands in it.

A position says how much of each table a viewer has been given, so that one who was cut off gets
what was missed, each row once, from wherever it lies by then: journal or tables.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetop.errors import InputError
from edgetop.recording.files import held, is_live
from edgetop.recording.journal import FellBehindError, Follower
from edgetop.recording.pieces import Piece
from edgetop.recording.reader import Recording
from edgetop.recording.rows import Span, give_memory_back
from edgetop.relay.encoding import NOWHERE, Position
from edgetop.relay.past import FINE_S, Judge, past
from edgetop.relay.thinning import SINGLE_HZ, in_pieces, thinned
from edgetop.session.batch import Batch, merge
from edgetop.session.operators import Burst, joined
from edgetop.session.records import NO_INFERENCES, NO_READINGS
from edgetop.session.seconds import NO_SECONDS, NS, concatenate

QUIET_READS = 3  # in which nothing was journalled: a writer writes twice a second, or is dead

Sent = tuple[Batch, Position]


class WatchedSession:
    def __init__(self, folder: Path, judge: Judge | None = None) -> None:
        """`judge`: finds what a past holds that is sent too coarse for a viewer to find it. Raises InputError."""
        self._folder = held(folder)
        self._judge = judge
        self._follower: Follower | None = None
        self._position: Position = (0, 0, 0, 0, -1)
        self._until_ns = 0
        self._quiet_reads = 0
        self.is_over = False  # and everything was given

    def begin(self, position: Position | None) -> Iterator[Sent]:
        """What a viewer lacks who stands there, or who knows nothing.

        Raises InputError where the session cannot be read.
        """
        try:
            recording = Recording(self._folder.path)
        except InputError as error:
            raise InputError(self._folder.in_words(str(error)), self._folder.fate) from None
        tables = {name: recording.pieces(name) for name in ("seconds", "readings", "events")}
        seconds, readings, events = (sum(piece.rows for piece in pieces) for pieces in tables.values())
        missed = None
        if position is not None:
            missed = seconds - position[0], readings - position[1], events - position[2]
        if position is None or missed is None or min(missed) < 0 or missed[0] > FINE_S:
            batches = past(recording, self._judge)
            bursts, last_ns = 0, -1
        else:
            batches = in_pieces(_missed(recording, tables, position))
            bursts, last_ns = position[3:]
        for batch in batches:
            if len(batch.inferences):
                last_ns = int(batch.inferences["t_ns"][-1])
            bursts = _bursts_by(batch, bursts)
            self._until_ns = batch.until_ns
            yield batch, NOWHERE
        self._position = (seconds, readings, events, bursts, last_ns)
        yield Batch(until_ns=self._until_ns), self._position
        self._follower = recording.follow() if recording.is_live else None
        self.is_over = not recording.is_live
        self._quiet_reads = 0
        give_memory_back()

    def read(self) -> Iterator[Sent]:
        """What has come since. Raises InputError where the session cannot be read any more."""
        assert self._follower is not None
        try:
            batches = list(self._follower.read(SINGLE_HZ))
        except (OSError, FellBehindError):
            yield from self.begin(self._position)
            return
        self._quiet_reads = 0 if batches else self._quiet_reads + 1
        if batches:
            yield self._given(merge(batches))
        elif self._quiet_reads >= QUIET_READS and not is_live(self._folder.path):
            yield from self.begin(self._position)

    def _given(self, batch: Batch) -> Sent:
        seconds, readings, events, bursts, last_ns = self._position
        if len(batch.inferences):
            last_ns = int(batch.inferences["t_ns"][-1])
        made = len(batch.seconds), len(batch.readings), len(batch.events)
        bursts = _bursts_by(batch, bursts)
        self._position = (seconds + made[0], readings + made[1], events + made[2], bursts, last_ns)
        span_s = (batch.until_ns - self._until_ns) / NS
        self._until_ns = batch.until_ns
        return thinned(batch, span_s), self._position


def _bursts_by(batch: Batch, before: int) -> int:
    """How many there were by the end of a batch."""
    return batch.bursts[-1].number + 1 if batch.bursts else before


def _missed(recording: Recording, tables: dict[str, list[Piece]], position: Position) -> Batch:
    """What came after a position. Single inferences come in the order in which they started."""
    seconds = concatenate([NO_SECONDS, *_after(tables["seconds"], position[0], _later_seconds)])
    singles = [NO_INFERENCES]
    *_, bursts, last_ns = position
    if last_ns >= 0:
        singles += recording.rows("inferences", Span(last_ns + 1))
    batch = Batch(
        until_ns=recording.end_ns,
        manifest=recording.manifest,
        seconds=seconds,
        readings=np.concatenate([NO_READINGS, *_after(tables["readings"], position[1], _later)]),
        events=tuple(event for rows in _after(tables["events"], position[2], _later) for event in rows),
        inferences=np.concatenate(singles),
        bursts=tuple(burst for burst in joined(_last_bursts(recording)) if burst.number >= bursts),
    )
    return thinned(batch, max(1.0, (recording.end_ns - max(last_ns, 0)) / NS))


def _last_bursts(recording: Recording) -> Iterator[Burst]:
    """Those of as long as a viewer may have been away."""
    for bursts in recording.rows("operators", Span(recording.end_ns - 2 * FINE_S * NS)):
        yield from bursts


def _after(pieces: Sequence[Piece], rows: int, later: Callable[[Any, int], Any]) -> Iterator[Any]:
    """What the pieces hold behind the first `rows` of them."""
    for piece in pieces:
        if piece.rows > rows:
            yield later(piece.read(), rows) if rows else piece.read()
        rows = max(0, rows - piece.rows)


def _later(rows: Any, given: int) -> Any:
    return rows[given:]


def _later_seconds(seconds: Any, given: int) -> Any:
    return seconds.where(np.arange(len(seconds)) >= given)
