"""One slowdown as the detector finds it: from when to when, and its slow windows."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from edgetop.analysis.slowdowns.windows import NEPER

LEAST_S = 3  # a slowdown lasts at least
# Log-likelihood ratio. In 12 hours of generated sessions with correlated noise of 6 %, one rise by chance had more.
CERTAIN = 14.0
CHECKED = 64  # windows by which it is told from noise
RECENT = 64  # windows whose levels are kept


class SlowWindow(NamedTuple):
    begin_s: int
    end_s: int
    level: int  # millionths of a neper over the baseline


@dataclass(slots=True)
class Span:
    """One slowdown, in seconds of the session."""

    start_s: int
    rise_s: int  # when the level began to leave where it had been
    slack_s: int  # by how much the start may be off: inferences are so far apart
    after_s: int = 0  # when the one before was over
    sigma: float = 0.0  # how much windows scatter, in nepers
    end_s: int | None = None  # None: it goes on
    slow: int = 0  # windows above the level
    slow_s: int = 0  # seconds in them
    recent: list[int] = field(default_factory=list)  # levels of the last RECENT of them
    leave: int = round(np.log(1.08) * NEPER)  # under that it is interrupted, or over
    first: list[int] = field(default_factory=list)  # levels of its first CHECKED windows, interruptions too
    ratio: float = 0.0  # log-likelihood ratio of a step, over correlated noise
    sure_s: int | None = None  # since when it was certain; None: it never was
    is_proven: bool = False  # it goes on from one that was no noise
    is_higher: bool = False  # it rose out of the one before, which noise may have made
    new_slow: list[SlowWindow] = field(default_factory=list)  # whose evidence is not yet looked at

    @property
    def is_certain(self) -> bool:
        """Correlated noise does not explain it; else there must be evidence of a cause."""
        return self.ratio >= CERTAIN

    @property
    def is_short(self) -> bool:
        """Over, and perhaps shorter than a slowdown: windows that a blip of two seconds touches are three."""
        return self.end_s is not None and min(self.slow_s, self.end_s - self.start_s) <= LEAST_S

    def copy(self) -> "Span":
        return replace(self, recent=list(self.recent), first=list(self.first), new_slow=list(self.new_slow))

    def pass_by(self, window: SlowWindow) -> None:
        if len(self.first) < CHECKED:
            self.first.append(window.level)

    def take(self, window: SlowWindow) -> None:
        self.slow += 1
        self.slow_s += window.end_s - window.begin_s
        self.recent.append(window.level)
        if len(self.recent) > RECENT:
            del self.recent[0]
        self.new_slow.append(window)

    def take_new(self) -> list[SlowWindow]:
        """Those that were not looked at yet, once."""
        new, self.new_slow = self.new_slow, []
        return new
