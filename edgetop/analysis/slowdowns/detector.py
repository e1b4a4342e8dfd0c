"""When the model runs slower than its baseline: spans, from the medians of windows.

The beginning of a slowdown is found by the generalised likelihood ratio over a limited
window of time (Willsky and Jones 1976, IEEE Trans. Automatic Control 21; Lai 1995, J. Royal
Statistical Society B 57, section 3): of all spans that end now, does one speak for a level of
8 % and more over one of 6 %? The scatter is estimated on the way. Its first second is then
that which divides the points into before and after best, its end the maximum of Page's
cumulative sum (Page 1954, Biometrika 41) on the way down.
"""

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns import baseline as burst
from edgetop.analysis.slowdowns.baseline import SLOWER, Baseline
from edgetop.analysis.slowdowns.noise import EVERY, OF_FIVE, Noise
from edgetop.analysis.slowdowns.span import CERTAIN, CHECKED, LEAST_S, SlowWindow, Span
from edgetop.analysis.slowdowns.windows import NEPER, POINT, WINDOW, Points, Windows, median

INTERRUPTION_S = 10  # what is shorter belongs to it
TOLERATED = round(np.log(1.06) * NEPER)  # a level that is none yet, however long it lasts
SURELY = 16.0  # log-likelihood ratio: once in some months of independent windows
LIKELY = 2.0  # the same: two standard deviations
REST_CERTAIN = 8.0  # the same, of a slowdown without its two slowest seconds: four standard deviations
CALM_CERTAIN = 8.0  # the same, of single inferences that an interruption is made of
SPARSE_S = 4  # a window that takes so long: few of them lie within an interruption
FEWEST = 5  # inferences in a slowdown of a model that takes seconds, or of a slow pace
FEW_BEFORE = 8  # windows, to know what was before a change
SPAN = 64  # windows that are looked back over
MOSTLY = 0.6  # so many windows of a span are above the level
CLIP = round(np.log(1.3) * NEPER)  # one window speaks for no more
LATEST = 6  # windows of a span, within which a rise out of it shows
DOUBTFUL = 5.0  # log-likelihood ratio of a rise that noise made, sooner than not
NONE = np.empty(0, np.int64)
SPARSE_CLIP = round(np.log(2) * NEPER)
RISE_S = 60  # before the beginning, that a slow rise may have taken
KEPT_WINDOWS, KEPT_POINTS = 2 * SPAN, 1_024  # of the last: at least what is looked back over


class Detector:
    """Folds windows; every span that it finds stands in `spans` until it is taken, the open one last."""

    def __init__(self) -> None:
        self.baseline: Baseline | None = None
        self.spans: list[Span] = []
        self.end_s = float("inf")  # of the measurement, which may have ended within a second
        self.ended_s = 0  # when the last one was over
        self.noise = Noise()
        self.kept_windows: Windows = np.empty(0, WINDOW)  # the last ones, relative to the baseline once there is one
        self.kept_points: Points = np.empty(0, POINT)
        self.calm_from: int | None = None  # the second in which an interruption of the open span began
        self._calm_sum = self._calm_count = self._calm_below = 0

    @property
    def open(self) -> Span | None:
        return self.spans[-1] if self.spans and self.spans[-1].end_s is None else None

    def pop_closed(self) -> Span | None:
        """The oldest span that is over, once."""
        return self.spans.pop(0) if self.spans and self.spans[0].end_s is not None else None

    def copy(self) -> "Detector":
        other = Detector()
        for name, value in vars(self).items():
            setattr(other, name, value)
        other.noise = self.noise.copy()
        other.spans = [span.copy() for span in self.spans]
        return other

    def fold(self, windows: Windows, points: Points) -> None:
        """More windows of the measured phase, and the points in them."""
        if self.baseline is None:
            self._build(windows, points)
            return
        self._judge(_relative(windows, self.baseline), _relative(points, self.baseline))

    def _build(self, windows: Windows, points: Points) -> None:
        for window in windows:
            row = np.array([window], WINDOW)
            inside = (points["second"] >= window["begin_s"]) & (points["second"] < window["end_s"])
            if self.baseline is None:
                self._grow(row, points[inside])
            else:
                self._judge(_relative(row, self.baseline), _relative(points[inside], self.baseline))

    def _grow(self, window: Windows, points: Points) -> None:
        self.kept_windows = np.concatenate([self.kept_windows, window])
        self.kept_points = np.concatenate([self.kept_points, points])
        found, wanted_s = burst.find_baseline(self.kept_points)
        first_s = int(self.kept_points["second"][0]) if len(self.kept_points) else 0
        if found is None and len(self.kept_points) and int(window["end_s"][0]) - first_s > burst.PATIENCE_S:
            found = burst.partial(self.kept_points)
        if found is not None:
            self.settle(found)
        elif wanted_s > first_s:
            self.kept_windows = self.kept_windows[self.kept_windows["begin_s"] >= wanted_s]
            self.kept_points = self.kept_points[self.kept_points["second"] >= wanted_s]

    def provisional(self) -> Baseline | None:
        """The baseline; where there is none yet, what has come of it."""
        return self.baseline or burst.partial(self.kept_points)

    def settle(self, found: Baseline) -> None:
        """Compare with this from here on, and what came meanwhile."""
        windows, points = _relative(self.kept_windows, found), _relative(self.kept_points, found)
        inside = windows["end_s"] <= found.to_s
        self.baseline = found
        self.noise.begin(windows[inside], points[points["second"] < found.to_s])
        self.kept_windows = windows[inside][-KEPT_WINDOWS:]
        later = points["second"] >= found.to_s
        self.kept_points = points[~later]
        self._judge(windows[~inside], points[later])

    def _judge(self, windows: Windows, points: Points) -> None:
        self.kept_points = np.concatenate([self.kept_points, points])
        while len(windows):
            done = self._follow(windows) if self.open else self._watch(windows)
            windows = windows[done:]
        # Never what is yet to be judged: how much came at once must not matter.
        self.kept_points = self.kept_points[-KEPT_POINTS:]

    def _watch(self, windows: Windows) -> int:
        """Look for the beginning of a slowdown; how many windows that took."""
        slow = np.flatnonzero(windows["level"] >= SLOWER)
        if len(slow):  # what is slow is compared with the noise that was estimated last before it
            calm = max(int(slow[0]) - self.noise.wanted, 0)
            windows = windows[: self.noise.wanted + calm // EVERY * EVERY]
            slow = slow[slow < len(windows)]
        before = len(self.kept_windows)
        joined = np.concatenate([self.kept_windows, windows])
        for place in slow.tolist():
            upto = before + place + 1
            known = joined[max(0, upto - KEPT_WINDOWS) : upto]
            length = self._slow_length(known[-SPAN:])
            if length and self._open(known, len(known) - length):
                self.noise.add(windows["level"][:place])
                self.noise.drop(length - 1)
                self._check(self.spans[-1], int(windows["end_s"][place]))
                return int(place) + 1
        self.noise.add(windows["level"])
        self.kept_windows = joined[-KEPT_WINDOWS:]
        return len(windows)

    def _slow_length(self, windows: Windows) -> int:
        """How many of the last of these windows are a slowdown, about; 0: none.

        Either they are surely above what is tolerated for ever, or they surely changed from what
        was before them, and are likely above it.
        """
        level = _clipped(windows)[::-1]
        count, total = np.arange(1, len(level) + 1), np.cumsum(level)
        mean = total / count
        mostly = np.cumsum(level >= SLOWER) >= MOSTLY * count
        lasts = windows["end_s"][-1] - windows["begin_s"][::-1] >= LEAST_S
        assert self.baseline is not None
        enough = mean >= SLOWER + 1.5 * self.baseline.error * NEPER
        variance = 2 * (self.noise.sigma * NEPER) ** 2
        above = count * np.maximum(mean - TOLERATED, 0) ** 2 / variance
        before = np.maximum(len(level) - count, 1)
        rise = np.maximum(mean - (total[-1] - total) / before, 0)
        changed = np.where(
            len(level) - count >= FEW_BEFORE, count * before / (count + before) * rise**2 / variance, 0.0
        )
        surely = (above >= SURELY) | ((changed >= SURELY) & (above >= LIKELY))
        ratio = np.where(mostly & lasts & enough & surely, np.maximum(above, changed), 0.0)
        best = int(np.argmax(ratio))
        if ratio[best] == 0 or median(level[: best + 1]) < SLOWER:
            return 0
        before_level = (total[-1] - total[best]) / before[best] if best < len(level) - FEW_BEFORE else 0.0
        return best + 1 if self._is_more_than_a_blip(windows[-best - 1 :], min(before_level, TOLERATED)) else 0

    def _check(self, span: Span, until_s: int) -> None:
        """Whether correlated noise explains it; `until_s`: where its last window ends."""
        whole = len(span.first) - LATEST
        first = span.first[:whole] if whole >= LATEST else span.first  # a rise out of it may have begun since
        span.ratio = self.noise.rise_ratio(NONE, np.array(first, np.int64))
        if span.is_certain and span.sure_s is None:
            span.sure_s = until_s

    def _restart(self, span: Span, windows: Windows) -> bool:
        """Begin another span where a certain rise begins within one that is not certain. `windows`: up to now."""
        floor = int(median(np.array(span.first)))
        higher = windows[-SPAN:].copy()
        higher["level"] -= floor
        length = self._slow_length(higher) if higher["level"][-1] >= SLOWER else 0
        of_span = windows["level"][windows["begin_s"] >= span.start_s]
        if not length or self.noise.rise_ratio(of_span[:-length], of_span[-length:]) < CERTAIN:
            return False
        ended_s, self.ended_s = self.ended_s, 0
        if not self._open(windows, len(windows) - length, floor):
            self.ended_s = ended_s
            return False
        begun = self.spans[-1]
        span.end_s = self.ended_s = begun.after_s = begun.start_s
        begun.is_higher = True
        self.noise.add(of_span[:-length])
        self._check(begun, int(windows["end_s"][-1]))
        return True

    def _is_more_than_a_blip(self, windows: Windows, before_level: float) -> bool:
        """Whether they are slow without those that a blip of two seconds could have made slow."""
        is_dense = bool((windows["end_s"] - windows["begin_s"] == 1).all())
        rest = np.sort(_clipped(windows))[: len(windows) - (2 if is_dense else 0)]
        mean = float(np.mean(rest)) if len(rest) else 0.0
        ratio = len(rest) * (mean - before_level) ** 2 / (2 * (self.noise.sigma * NEPER) ** 2)
        return mean >= SLOWER and ratio >= REST_CERTAIN

    def _open(self, windows: Windows, first: int, floor: int = 0) -> bool:
        """`windows`: up to now; `first`: of the slowdown, about. False: it is none, looked at closely."""
        level = median(windows["level"][first:]) - floor
        before_level = min(median(windows["level"][:first]) - floor if first else 0.0, SLOWER / 2)
        earliest_s = self.ended_s + INTERRUPTION_S if self.ended_s else 0  # no slowdown has ended at 0
        from_s = max(int(windows["begin_s"][max(0, first - 2)]) - LEAST_S, earliest_s)
        to_s = min(int(windows["end_s"][-1]), self.end_s)
        points = self.kept_points[(self.kept_points["second"] >= from_s) & (self.kept_points["second"] < to_s)]
        apart = int(median(np.diff(points["second"]))) if len(points) > 2 else 1
        is_sparse = bool((windows["end_s"][first:] - windows["begin_s"][first:] > 1).any())
        border = self._border(level, before_level, is_sparse=is_sparse)
        points["level"] -= floor
        start_s = _first_above(points, border, max(min(level - border, border - before_level), 1))
        since = points["level"][points["second"] >= start_s]
        above = np.count_nonzero(since >= border)
        lasts = above * (to_s - int(points["second"][0])) >= LEAST_S * len(points)  # each stands for as long as any
        if not lasts or above < max(MOSTLY * len(since), FEWEST if is_sparse else 0):
            return False
        span = Span(start_s, self._rise(start_s, level, before_level), apart, self.ended_s, self.noise.sigma)
        span.leave = self._leave(level + floor)
        for window in map(SlowWindow._make, windows[first:].tolist()):
            span.pass_by(window)
            if window.level >= span.leave:
                span.take(window)
        self.spans.append(span)
        self.kept_windows = windows
        self._reset_calm()
        return True

    def _border(self, level: float, before_level: float, *, is_sparse: bool) -> float:
        """What divides points before from those after: the level of a slowdown, or less where it is hardly more."""
        scatter = self.noise.sigma * NEPER * (2 if is_sparse else 1)
        return float(min(SLOWER, max((before_level + level) / 2, level - 1.5 * scatter)))

    def _rise(self, start_s: int, level: float, before_level: float) -> int:
        """The second in which the level began to rise to that of `start_s`."""
        second = self.kept_points["second"]
        earlier = self.kept_points[(second < start_s) & (second >= start_s - RISE_S)]
        settled = earlier["second"][earlier["level"] <= before_level + (level - before_level) / 5]
        return min(int(settled[-1]) + 1, start_s) if len(settled) else start_s

    def _leave(self, level: float) -> int:
        return int(min(SLOWER, max(level / 2, level - 3 * self.noise.sigma * NEPER)))

    def _follow(self, windows: Windows) -> int:
        """Follow the open slowdown to its end; how many windows that took."""
        span, before = self.spans[-1], len(self.kept_windows)
        known = np.concatenate([self.kept_windows, windows])
        for place, window in enumerate(map(SlowWindow._make, windows.tolist())):
            self._count_calm(span, window)
            span.pass_by(window)
            is_sparse = window.end_s - window.begin_s >= SPARSE_S
            is_slow = window.level >= span.leave
            is_over = self._is_over_by_points(span, window) if is_sparse else not is_slow and self._is_over(window)
            if is_slow and not is_over:
                span.take(window)
                if not span.is_certain and self._restart(span, known[: before + place + 1]):
                    self.kept_windows = known[: before + place + 1][-KEPT_WINDOWS:]
                    return place + 1
                if span.slow % 4 == 0 and len(span.first) < CHECKED:
                    self._check(span, window.end_s)
                if span.slow % 16 == 0:
                    span.leave = self._leave(float(np.mean(span.recent)))
            elif is_over:
                span.end_s = self.calm_from
                self.ended_s = span.end_s or 0
                self.kept_windows = np.concatenate([self.kept_windows, windows[: place + 1]])[-KEPT_WINDOWS:]
                if span.ratio < DOUBTFUL:
                    self.noise.add(self.kept_windows["level"][self.kept_windows["begin_s"] >= span.start_s])
                self.kept_windows = self.kept_windows[self.kept_windows["begin_s"] >= self.ended_s]
                self._reset_calm()
                return place + 1
        self.kept_windows = np.concatenate([self.kept_windows, windows])[-KEPT_WINDOWS:]
        return len(windows)

    def _count_calm(self, span: Span, window: SlowWindow) -> None:
        """Page's cumulative sum of how far windows are below the level, and since when it grows."""
        reach = max(span.leave, 20_000)
        below = min(max(span.leave - window.level, -reach), reach)
        if self._calm_sum + below <= 0:
            self._reset_calm()
            return
        if self.calm_from is None:
            self.calm_from = window.begin_s
        self._calm_sum += below
        self._calm_count += 1
        self._calm_below += below > 0

    def _is_over(self, window: SlowWindow) -> bool:
        if self.calm_from is None or self._calm_count < 2:
            return False
        lasts = window.end_s - self.calm_from >= INTERRUPTION_S
        return lasts and self._calm_below >= MOSTLY * self._calm_count

    def _is_over_by_points(self, span: Span, window: SlowWindow) -> bool:
        """Of inferences that are seconds apart few windows lie within an interruption, so they are told one by one.

        They are over where they speak for the level of the baseline over that of the slowdown, by the likelihood ratio.
        """
        slow = float(np.mean(span.recent)) if span.recent else 2.0 * span.leave
        second = self.kept_points["second"]
        points = self.kept_points[(second >= span.start_s) & (second < window.end_s)][-SPAN:]
        scatter = max(self.noise.sigma / OF_FIVE * NEPER, 1.0)
        most = slow * slow / (2 * scatter**2)
        gain = np.clip(slow * (slow - 2 * points["level"]) / (2 * scatter**2), -most, most)
        since = _last_run(gain)
        total = np.cumsum(gain[since:])
        upto = since + int(np.argmax(total)) + 1 if len(total) else since
        calm = points[since:upto]
        if len(calm) < 2 or float(total.max()) < CALM_CERTAIN or median(calm["level"]) >= SLOWER:
            return False
        to_s = int(points["second"][upto]) if upto < len(points) else window.end_s
        if to_s - int(calm["second"][0]) < INTERRUPTION_S:
            return False
        self.calm_from = int(calm["second"][0])
        return True

    def _reset_calm(self) -> None:
        self.calm_from = None
        self._calm_sum = self._calm_count = self._calm_below = 0


def _clipped(windows: Windows) -> npt.NDArray[np.int64]:
    """The levels, of which one speaks for so much at most; a median of five that take seconds is no blip."""
    reach = np.where(windows["end_s"] - windows["begin_s"] >= SPARSE_S, SPARSE_CLIP, CLIP)
    return np.asarray(np.clip(windows["level"], -reach, reach))


def _last_run(gain: npt.NDArray[np.float64]) -> int:
    """From where on Page's cumulative sum is above 0, at its end."""
    total = np.concatenate([[0.0], np.cumsum(gain)])
    lowest = np.minimum.accumulate(total)
    return int(np.flatnonzero(total <= lowest)[-1])


def _first_above(points: Points, border: float, reach: float) -> int:
    """The second that divides points below the border from those above best; one counts for no more than `reach`."""
    gain = np.clip(points["level"] - border, -reach, reach)[::-1]
    return int(points["second"][len(points) - 1 - int(np.argmax(np.cumsum(gain)))])


def _relative(rows: npt.NDArray[np.void], baseline: Baseline) -> npt.NDArray[np.void]:
    relative: npt.NDArray[np.void] = rows.copy()
    relative["level"] -= baseline.level
    return relative
