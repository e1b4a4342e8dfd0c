"""Read every sensor of a board once, and measure how long each read takes, for `edgetop sensors` and `edgetop doctor`.

Each read has its own thread and a time limit, since a driver in D state cannot be cancelled and must not keep other
sensors from being listed.
"""

import math
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from edgetop.formatting import quantity
from edgetop.frozen import frozen
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Found, Gap, Source, Values, begin_call
from edgetop.session.manifest import Board, SensorInfo

DEADLINE_S = 3.0  # longer than the time limit of a board's commands
RATE_INTERVAL_S = 1.0

Answer = tuple[Values | Gap, float]  # result of a read, and its duration in microseconds


@frozen
class Row:
    """One sensor with its last value. It becomes one row in a list of sensors."""

    info: SensorInfo
    value: float | Gap
    read_us: float | None  # duration of a read of its whole source; None if no read has returned
    cadence_s: float


@dataclass(slots=True)
class _Entry:
    source: Source
    values: Values = ()
    read_us: float | None = None
    read_at_s: float = -math.inf
    answer: "queue.SimpleQueue[Answer] | None" = None  # of a read that has not returned
    is_unfinished: bool = False  # whether a second read may give a value that the first could not, such as a rate

    def __post_init__(self) -> None:
        self.put(Gap("not read yet"))

    def put(self, values: Values | Gap) -> None:
        """Store one value for each sensor, or the same gap for all. Infinite values and NaN become gaps."""
        count = len(self.source.sensors)
        if not isinstance(values, Gap) and len(values) != count:
            values = Gap(f"internal error: {quantity(len(values), 'value')} for {quantity(count, 'sensor')}")
        if isinstance(values, Gap):
            values = [values] * count
        self.values = [
            value if isinstance(value, Gap) or math.isfinite(value) else Gap(f"reads {value}, which is no number")
            for value in values
        ]


class Survey:
    """Reads all sensors of one board, and keeps the last value of each.

    Sensors are read only during `read_whole` and `read_due`.
    """

    def __init__(
        self,
        board: Board,
        found: Found,
        *,
        stands_still: bool = False,
        deadline_s: float = DEADLINE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Survey the sensors in `found`, of the board that `board` describes. Nothing is read yet.

        `stands_still` says that the board is a captured one, whose counters do not move. Rates would be 0, so they are
        not computed. `deadline_s` is the longest time in seconds for a read, and `now_s` returns the present time in
        seconds.
        """
        self.board = board
        self._stands_still = stands_still
        self.missing = found.missing
        self._deadline_s = deadline_s
        self._now_s = now_s
        self._entries = [_Entry(source) for source in found.sources]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(info, value, entry.read_us, entry.source.cadence_s)
            for entry in self._entries
            for info, value in zip(entry.source.sensors, entry.values, strict=True)
        )

    def read_whole(self, pause: Callable[[float], object] = time.sleep) -> None:
        """Read every source once. After a second, read again the sources of rates, because a rate needs two readings.

        `pause` waits for a number of seconds.
        """
        self.read_due()
        unfinished = [entry for entry in self._entries if entry.is_unfinished]
        if unfinished and not self._stands_still:
            pause(RATE_INTERVAL_S)
            for entry in unfinished:
                self._read(entry)

    def read_due(self) -> None:
        """Read every source whose interval has passed since its last read."""
        for entry in self._entries:
            if self._now_s() - entry.read_at_s >= entry.source.cadence_s * 0.95:  # ticks may be early
                self._read(entry)

    def _read(self, entry: _Entry) -> None:
        entry.read_at_s = self._now_s()
        patience_s = self._deadline_s if entry.answer is None else 0.0  # wait only once for the same read
        if entry.answer is None:
            entry.answer = begin_call(partial(_timed_read, entry.source), "survey")
        try:
            values, entry.read_us = entry.answer.get(timeout=patience_s) if patience_s else entry.answer.get_nowait()
        except queue.Empty:
            entry.put(Gap(f"did not answer within {self._deadline_s:g} s"))
            entry.is_unfinished = False
            return
        entry.answer = None
        # A source that failed raised an error. One that returned a gap may only have begun an interval.
        entry.is_unfinished = not isinstance(values, Gap) and any(isinstance(value, Gap) for value in values)
        entry.put(values)


def survey_board(root: Root) -> Survey:
    return Survey(read_board(root), discover_board(root), stands_still=not root.is_host)


def _timed_read(source: Source) -> Answer:
    begin = time.perf_counter_ns()
    values = read_source(source)
    return values, (time.perf_counter_ns() - begin) / 1000
