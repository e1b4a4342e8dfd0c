"""A slow time that the detector found, and functions that find the second in which a slow time begins."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.baseline import SLOWER, Baseline
from edgetop.analysis.slowdowns.levels import NEPER, Points, Windows

# Log-likelihood ratio against correlated noise that proves a slowdown. Measured: in 12 hours of generated sessions
# with noise of 6 % that keeps 90 % of itself, chance exceeded it once. Larger: real slowdowns of noisy models are
# doubted; smaller: noise is reported.
CERTAIN = 14.0
# Number of slow windows after which a slowdown is no longer compared with noise. Choice. Larger: a long run costs
# more; smaller: a slow rise is judged by its first half.
CHECKED = 64
RECENT = 64  # Number of windows whose levels are stored.
# Length from which a window is sparse, so that single inferences are judged. Choice: two such windows do not fit into
# an interruption. Larger: the end of a slow model's slowdown is missed; smaller: single inferences are judged where
# windows are better.
SPARSE_S = 4
# Level beyond which a window counts no more. Choice: one outlier must not prove a slowdown. Larger: a single stall
# proves more; smaller: a large slowdown is reported later.
CLIP = round(np.log(1.3) * NEPER)
# The same for a sparse window, the median of inferences that take seconds. Choice: it is no blip. Larger: one wild
# window proves a slowdown; smaller: a large slowdown of a slow model is reported later.
SPARSE_CLIP = round(np.log(2) * NEPER)


class SlowWindow(NamedTuple):
    begin_s: int
    end_s: int
    level: int  # millionths of a neper over the baseline


@dataclass(slots=True)
class Span:
    """One slow time that the detector found. Its times are in seconds of the session."""

    start_s: int
    rise_s: int  # When the level began to rise.
    slack_s: int  # Possible error of the start: the time between two inferences.
    after_s: int = 0  # When the slowdown before it was over.
    sigma: float = 0.0  # Scatter of windows, in nepers.
    end_s: int | None = None  # None while it continues.
    slow: int = 0  # Number of windows above the level.
    slow_s: int = 0  # Number of seconds in these windows.
    recent: list[int] = field(default_factory=list)  # Levels of the last RECENT of these windows.
    leave: int = SLOWER  # Below this level, the slowdown is interrupted or over.
    first: list[int] = field(default_factory=list)  # Levels of the first CHECKED windows, including interruptions.
    ratio: float = 0.0  # Log-likelihood ratio of a step against correlated noise.
    sure_s: int | None = None  # Since when it has been certain; None if it never was.
    is_proven: bool = False  # Whether it follows a span that was no noise.
    is_higher: bool = False  # Whether it rose out of a span that may have been noise.
    new_slow: list[SlowWindow] = field(default_factory=list)  # Windows whose evidence is not collected yet.
    # By how much the start may be later, as far as inferences that take seconds show.
    late_s: int = 0

    @property
    def is_certain(self) -> bool:
        """Whether the slowdown is surely more than noise. If it is not, it is reported only if its cause is known."""
        return self.ratio >= CERTAIN

    def observe(self, window: SlowWindow) -> None:
        if len(self.first) < CHECKED:
            self.first.append(window.level)

    def add(self, window: SlowWindow) -> None:
        self.slow += 1
        self.slow_s += window.end_s - window.begin_s
        self.recent = [*self.recent, window.level][-RECENT:]
        self.new_slow.append(window)


def clipped(windows: Windows) -> npt.NDArray[np.int64]:
    """Return the latencies of windows, limited so that an outlier has less weight.

    Each latency is the natural logarithm of (latency / baseline), times a million. The limit is CLIP, or SPARSE_CLIP
    for windows of SPARSE_S seconds or more.
    """
    reach = np.where(windows["end_s"] - windows["begin_s"] >= SPARSE_S, SPARSE_CLIP, CLIP)
    return np.asarray(np.clip(windows["level"], -reach, reach))


def first_above(points: Points, border: float, reach: float) -> int:
    """Return the second that best divides the points into earlier ones below `border` and later ones above it.

    An outlier counts as at most `reach` away from the border. Latencies, `border` and `reach` are natural logarithms,
    times a million.
    """
    gain = np.clip(points["level"] - border, -reach, reach)[::-1]
    return int(points["second"][len(points) - 1 - int(np.argmax(np.cumsum(gain)))])


def relative(rows: npt.NDArray[np.void], baseline: Baseline) -> npt.NDArray[np.void]:
    """Return a copy of windows or points in which each latency is the logarithm of (latency / baseline)."""
    found: npt.NDArray[np.void] = rows.copy()
    found["level"] -= baseline.level
    return found
