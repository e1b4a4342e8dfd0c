"""A feed that plays a recorded session, at any speed and from any position."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from edgetop.feeds.feed_protocol import Can, Mark, Transport
from edgetop.recording.by_time import BEGINNING, START, Moment, RecordingByTime
from edgetop.recording.reader import Recording
from edgetop.session.batch import Batch
from edgetop.session.clock import Clock
from edgetop.session.events import Order

SLOWEST, FASTEST = 0.1, 1000.0
MAX_CHECKPOINTS = 18
STOPS_AT_ONCE = 2  # stops to read at once when looking ahead, which takes a tenth of a second


class ReplayFeed:
    """A feed of a recorded session, with the controls of a replay. Playing starts at once."""

    trouble = ""
    waiting: Sequence[Batch] = ()  # only reading tells

    def __init__(self, recording: Recording, clock: Clock, *, speed: float = 1.0, from_ns: int = 0) -> None:
        """Read the index of `recording`, which takes a few tenths of a second for a session of a day.

        `speed` is how many seconds of the session are played per second. The replay begins at the session time
        `from_ns`.
        """
        self._recording = RecordingByTime(recording)
        self._clock = clock
        self._marks = _marks(self._recording)
        self._speed = speed
        self._is_playing = True
        self._t_ns = self._clamped(from_ns)
        self._as_of_ns = clock.monotonic_ns()  # time at which playback was at its position
        self._given: Moment | None = (
            None  # moment up to which data were read; None: the next read starts from the beginning
        )
        self._checkpoints: list[Moment] = []  # In order of time.
        self._ahead, self._next_stop, self._is_at_stop = BEGINNING, 0, False

    @property
    def player(self) -> "ReplayFeed":
        return self

    @property
    def can(self) -> Can:
        return Can.SEEK | Can.SPEED

    @property
    def is_over(self) -> bool:
        return self._given is not None and self._given.t_ns >= self._recording.end_ns

    @property
    def transport(self) -> Transport:
        return Transport(self._t_ns, self._recording.end_ns, self._speed, self._is_playing, self._marks)

    def read(self) -> Batch | None:
        self._advance()
        if self._given is None:
            self._given = self._recording.moment(self._t_ns)
            number = bisect_right(self._checkpoints, self._t_ns, key=lambda moment: moment.t_ns)
            if number == 0:
                return self._recording.until(self._given)
            begin = self._checkpoints[number - 1]
            return replace(self._recording.until(self._given, begin), resumes_ns=begin.t_ns)
        if self._t_ns <= self._given.t_ns:
            return None
        begin, self._given = self._given, self._recording.moment(self._t_ns)
        return self._recording.between(begin, self._given)

    def _advance(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._is_playing:
            self._t_ns = self._clamped(self._t_ns + int((now_ns - self._as_of_ns) * self._speed))
            self._is_playing = self._t_ns < self._recording.end_ns
        self._as_of_ns = now_ns

    def _clamped(self, t_ns: int) -> int:
        return min(max(t_ns, 0), self._recording.end_ns)

    def play(self, playing: bool) -> None:
        self._advance()
        if playing and self._t_ns >= self._recording.end_ns:
            self.seek(0)
        self._is_playing = playing

    def set_speed(self, speed: float) -> None:
        self._advance()
        self._speed = min(max(speed, SLOWEST), FASTEST)

    def seek(self, t_ns: int) -> None:
        self._advance()
        self._t_ns = self._clamped(t_ns)
        self._given = None

    def ahead(self) -> Batch | None:
        begin, stops = self._ahead, self._recording.stops_ns
        if begin is not BEGINNING and begin.t_ns >= self._recording.end_ns:
            return None
        self._is_at_stop = self._next_stop < len(stops)
        self._next_stop += min(STOPS_AT_ONCE, self._checkpoint_distance)
        until_ns = stops[min(self._next_stop, len(stops)) - 1] if self._is_at_stop else self._recording.end_ns
        self._ahead = self._recording.moment(until_ns)
        batch = self._recording.until(self._ahead, begin)
        return batch if begin is BEGINNING else replace(batch, restart=False)

    def checkpoint_ns(self) -> int | None:
        if not self._is_at_stop or self._next_stop % self._checkpoint_distance:
            return None
        self._checkpoints.append(self._ahead)
        return self._ahead.t_ns

    @property
    def _checkpoint_distance(self) -> int:
        """Return how many of the recording's `stops_ns` lie between two saved states of the reader.

        Reading up to one of these session times is fastest.
        """
        least = -(-len(self._recording.stops_ns) // MAX_CHECKPOINTS)
        return least if least <= STOPS_AT_ONCE else -(-least // STOPS_AT_ONCE) * STOPS_AT_ONCE

    def order(self, order: Order) -> None:
        """Do nothing, because a recorded session takes no commands."""


def _marks(recording: RecordingByTime) -> tuple[Mark, ...]:
    """Return the important events of the recording, sorted by time, to which the user can jump."""
    table = recording.tables["events"]
    events = (event for some in table.between(START, table.end) for event in some)
    marks = [
        Mark(min(max(event.t_ns, 0), recording.end_ns), event.kind, event.severity)
        for event in events
        if event.is_landmark
    ]
    return tuple(sorted(marks, key=lambda mark: mark.t_ns))
