"""The fold: seconds and readings in, slowdowns with their causes out, the same live and from a recording.

So is the tail, which is explained by the same signals, and settled at the same times.
"""

import numpy as np

from edgetop.analysis.progress import measured_until
from edgetop.analysis.slowdowns.causes import Channel, channels
from edgetop.analysis.slowdowns.checkpoints import Checkpoints
from edgetop.analysis.slowdowns.judgement import Judgement, SlowdownsView
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.tail import Tail, TailView
from edgetop.analysis.witnesses import Witnesses
from edgetop.session.batch import Batch
from edgetop.session.seconds import NO_SECONDS, NS

LATE_S = 4  # a reading may come so much later than the seconds of its time
SETTLED_AT_ONCE_S = 8  # at least: each time costs as much
STEP_S = 256  # of a long batch: readings are kept for no more than Signals holds


class Slowdowns:
    """Folds batches. What is younger than LATE_S is judged anew at each view: readings of it may yet come."""

    def __init__(self, checkpoints: Checkpoints | None = None) -> None:
        """`checkpoints`: where folds of recorded sessions, which begin anew at each seek, leave what they judged."""
        self._checkpoints = checkpoints
        self._signals = Signals()
        self._channels: tuple[Channel, ...] = ()
        self._governor: str | None = None
        self._end_s = float("inf")  # of the measurement
        self._rows = NO_SECONDS.rows  # not settled yet
        self._judgement = Judgement()
        self._tail = Tail()
        self._witnesses = Witnesses()
        self._views: tuple[SlowdownsView, Tail] | None = None

    def fold(self, batch: Batch) -> None:
        checkpoints = self._checkpoints_of(batch)
        rows = batch.seconds.rows
        known_s = self._resume(checkpoints, int(rows["t_ns"][-1]) // NS + 1) if checkpoints and len(rows) else 0
        if batch.manifest is not None:
            self._governor = batch.manifest.board.governor
            self._signals.know(batch.manifest.sensors)
            self._channels = channels(self._signals.infos)
        readings = self._signals.relevant(batch.readings)
        self._signals.note_flags(readings)
        self._witnesses.heed(batch.events)
        self._end_s = min((end_ns / NS for end_ns in map(measured_until, batch.events) if end_ns), default=self._end_s)
        if len(rows) or len(readings) or batch.events:
            self._views = None
        self._rows = np.concatenate([self._rows, rows[rows["t_ns"] >= self._newest_s * NS]])
        second = readings["t_ns"] // NS
        begin, newest_s = int(np.searchsorted(second, known_s)), self._newest_s
        for until_s in range(self._judgement.until_s + STEP_S, newest_s - LATE_S, STEP_S):
            end = int(np.searchsorted(second, until_s + LATE_S))
            self._signals.add(readings[begin:end])
            self._settle(until_s)
            begin = end
            if checkpoints and until_s + 2 * LATE_S <= newest_s:
                checkpoints.offer(self._judgement, self._signals, self._tail)
        self._signals.add(readings[begin:])
        self._witnesses.forget(newest_s - LATE_S)
        if newest_s - LATE_S >= self._judgement.until_s + SETTLED_AT_ONCE_S:
            self._settle(newest_s - LATE_S)
            self._rows = self._rows.copy()  # not a view of all that came

    def _checkpoints_of(self, batch: Batch) -> Checkpoints | None:
        """Where this batch has all from the beginning of a session that is over; None elsewhere."""
        if not (self._checkpoints and batch.restart and batch.manifest and batch.manifest.state != "live"):
            return None
        self._checkpoints.begin(batch.manifest.id)
        return self._checkpoints

    def _resume(self, checkpoints: Checkpoints, newest_s: int) -> int:
        """Go on from the last one that fits; up to which second its signals know all readings."""
        found = checkpoints.before(newest_s - LATE_S)
        if found is None:
            return 0
        self._judgement, self._signals, self._tail = found.judgement.copy(), found.signals.copy(), found.tail.copy()
        return found.judgement.until_s + LATE_S

    @property
    def last_flag_ns(self) -> int | None:
        """When a flag of a limit was set last."""
        return self._signals.last_flag_ns

    @property
    def _newest_s(self) -> int:
        """Until when every second is known."""
        return int(self._rows["t_ns"][-1]) // NS + 1 if len(self._rows) else self._judgement.until_s

    def _settle(self, until_s: int) -> None:
        most = max(0, until_s - int(self._rows["t_ns"][0]) // NS) if len(self._rows) else 0  # a row a second
        due = int(np.searchsorted(self._rows["t_ns"][:most], until_s * NS))
        rows, self._rows = self._rows[:due], self._rows[due:]
        self._judgement.advance(rows, until_s, self._signals, self._channels, self._governor, self._witnesses)
        self._tail.advance(rows, self._signals, self._channels, self._witnesses)

    def view(self) -> SlowdownsView:
        """The same object until something comes."""
        return self._viewed()[0]

    def tail(self, p50_ns: float | None) -> TailView:
        """`p50_ns`: of the session; None where nothing was measured."""
        if p50_ns is None:
            return TailView()
        view, tail = self._viewed()
        seen = tail.view(p50_ns, view.slowdowns, self._signals, self._channels, self._witnesses)
        self._tail.remember(tail, self._judgement.until_s)
        return seen

    def _viewed(self) -> tuple[SlowdownsView, Tail]:
        """With what is not settled yet."""
        if self._views is None:
            judgement, tail = self._judgement.copy(), self._tail.copy()
            judgement.detector.end_s = self._end_s
            judgement.advance(
                self._rows, self._newest_s, self._signals, self._channels, self._governor, self._witnesses
            )
            tail.advance(self._rows, self._signals, self._channels, self._witnesses)
            self._views = judgement.view(self._signals, self._witnesses), tail
        return self._views
