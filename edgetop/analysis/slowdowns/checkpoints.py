"""What was judged of a recorded session at a few of its times: the next seek need not begin at its beginning."""

from dataclasses import dataclass

from edgetop.analysis.slowdowns.judgement import Judgement
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.tail import Tail

MOST = 32  # each holds a quarter of an hour of signals: 4 KiB a sensor
FIRST_APART_S = 1_800


@dataclass(frozen=True, slots=True)
class Checkpoint:
    judgement: Judgement  # never advanced, nor are the others: copies are
    signals: Signals
    tail: Tail

    @property
    def until_s(self) -> int:
        return self.judgement.until_s


class Checkpoints:
    """Of one session. They lie further apart the longer it is."""

    def __init__(self) -> None:
        self._session_id = ""
        self._apart_s = FIRST_APART_S
        self._kept: list[Checkpoint] = []  # in the order of their times

    def begin(self, session_id: str) -> None:
        """Forget those of another session."""
        if session_id != self._session_id:
            self._session_id, self._apart_s, self._kept = session_id, FIRST_APART_S, []

    def before(self, until_s: int) -> Checkpoint | None:
        """The last one up to there."""
        return next((kept for kept in reversed(self._kept) if kept.until_s <= until_s), None)

    def offer(self, judgement: Judgement, signals: Signals, tail: Tail) -> None:
        """Keep a copy of this state where it is far enough behind the last one."""
        if judgement.until_s < (self._kept[-1].until_s if self._kept else 0) + self._apart_s:
            return
        self._kept.append(Checkpoint(judgement.copy(), signals.copy(), tail.copy()))
        if len(self._kept) > MOST:
            self._apart_s *= 2
            self._kept = self._kept[1::2]
