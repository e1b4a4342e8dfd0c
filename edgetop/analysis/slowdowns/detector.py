"""Finds the times in which the model runs slower than its baseline, from the median latencies of windows.

A window is a second, or several seconds with at least five inferences together.

The beginning of a slowdown is found by the generalised likelihood ratio over a limited time (Willsky and Jones 1976,
IEEE Trans. Automatic Control 21; Lai 1995, J. Royal Statistical Society B 57, section 3). The test takes the last
windows, in any number. Their latency must be SLOWER (8 % above the baseline) or more, and surely above TOLERATED (6 %).
The scatter is estimated at the same time. The slowdown begins with the second that best divides the latencies into
lower ones before it and higher ones after it. The slowdown ends at the maximum of Page's cumulative sum (Page 1954,
Biometrika 41) on the way down.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from edgetop.analysis.slowdowns.baseline import SLOWER, Baseline, find_baseline
from edgetop.analysis.slowdowns.levels import EVERY, NEPER, OF_FIVE, POINT, WINDOW, Noise, Points, Windows, median
from edgetop.analysis.slowdowns.slow_span import (
    CERTAIN,
    CHECKED,
    CLIP,
    SPARSE_CLIP,
    SPARSE_S,
    SlowWindow,
    Span,
    clipped,
    first_above,
    relative,
)
from edgetop.session.seconds import NS

# Shortest slowdown. Choice: a reader sees three seconds. Larger: short slowdowns are missed; smaller: one slow second
# is reported.
LEAST_S = 3
# Number of slowest seconds that a slowdown must do without. Choice: a hiccup touches two seconds. Larger: slowdowns
# are reported later; smaller: hiccups are slowdowns.
BLIP_S = 2
CHECK_EVERY, LEAVE_EVERY = 4, 16  # In slow windows: how often they are compared with noise, and the border is moved.
# Shortest interruption that ends a slowdown. Choice: a governor that tries a higher clock drops it within seconds.
# Larger: two slowdowns become one; smaller: one slowdown becomes many.
INTERRUPTION_S = 10
# Rise that is tolerated however long it lasts. Choice: between drift and a slowdown. Larger: a slowdown needs more
# seconds; smaller: drift that lasts is a slowdown.
TOLERATED = round(np.log(1.06) * NEPER)
# Log-likelihood ratio against independent noise that proves a slowdown. Computed: independent windows exceed it once
# in some months. Larger: slowdowns are reported later; smaller: chance is reported.
SURELY = 16.0
# Part of the level of its slowest seconds that a further second must reach. Choice: a hiccup that began late in a
# second slows a small part of it. Larger: slowdowns that rise slowly are reported later; smaller: a hiccup of nearly
# two seconds is a slowdown.
AS_SLOW_PART = 0.5
# Latency, in seconds, from which a hiccup reaches only two inferences. Computed: a third one would begin after it.
# Larger: short slowdowns of slow models are missed; smaller: a hiccup of a model that is seldom called is a slowdown.
REACHED_ONCE_S = 1.0
# Log-likelihood ratio by which a sudden change must also exceed the tolerated rise. Statistics: two standard
# deviations. Larger: sudden small slowdowns are missed; smaller: a step that stays below the limit is reported.
LIKELY = 2.0
# Log-likelihood ratio without the slowest seconds. Statistics: four standard deviations. Larger: slowdowns are
# reported later; smaller: two hiccups in a row are a slowdown.
REST_CERTAIN = 8.0
# Log-likelihood ratio of the single inferences of a slow model in an interruption. Statistics: four standard
# deviations. Larger: the end of a slowdown is seen late; smaller: a few fast inferences split a slowdown.
CALM_CERTAIN = 8.0
# Least number of inferences in a slowdown of a slow model. Choice: two outliers do not move the median of five.
# Larger: short slowdowns of slow models are missed; smaller: a few slow inferences are a slowdown.
FEWEST = 5
# Number of windows before a change that give the level before it. Choice. Larger: a change soon after the burst is
# seen later; smaller: chance before the change counts as a level.
FEW_BEFORE = 8
# Number of windows in which the beginning of a slowdown is searched. Choice. Larger: costs more time; smaller: slight
# slowdowns of noisy models are never certain.
SPAN = 64
# Share of the windows of a slowdown that must be above the level. Choice. Larger: a slowdown that comes and goes is
# missed; smaller: scattered slow windows are one.
MOSTLY = 0.6
# Number of the last windows that are left out when a slowdown is compared with noise. Choice: a further rise shows
# within them. Larger: certainty comes later; smaller: a further rise is taken for noise of this one.
LATEST = 6
# Log-likelihood ratio below which a rise that is over was noise. Choice. Larger: real slowdowns widen the estimate of
# the noise; smaller: noise stays out of it, and more noise is reported.
DOUBTFUL = 5.0
# Longest rise that belongs to a slowdown. Choice. Larger: drift of minutes moves the beginning; smaller: the cause of
# a slow rise came before it, and is missed.
RISE_S = 60
# Share of a rise below which the latency had not risen yet. Choice. Larger: the beginning is late, and its cause came
# before it; smaller: noise before the rise counts as part of it.
SETTLED_PART = 0.2
# Standard errors of the baseline by which a slowdown must exceed its limit. Statistics: one normal value in 15 is
# farther off. Larger: a slowdown just above the limit is missed after a short burst; smaller: a burst that was
# measured too low makes slowdowns.
BASELINE_ERRORS = 1.5
# Standard deviations below the level of a slowdown at which it begins. Choice. Larger: the beginning is too early;
# smaller: it is too late in noise.
BEGIN_SCATTERS = 1.5
# Standard deviations below the level of a slowdown at which a window is no longer slow. Statistics: one normal value
# in 740 is lower. Larger: the end is late; smaller: noise interrupts a slowdown.
LEAVE_SCATTERS = 3.0
# Share of the inferences of a slow model that are wild when the beginning of a slowdown is dated. Choice: of a hundred
# inferences, a few are outliers. Larger: the beginning is less certain than it is; smaller: an outlier before it dates
# it.
WILD = 0.05
WILD_DENSITY = 0.01  # Density of wild inferences, compared with that in the middle of the others.
LEAST_REACH = 20_000  # A single window moves the sum of the calm ones by at most the border, or by this.
MAX_WINDOWS, MAX_POINTS = 2 * SPAN, 1_024  # At least as many as are searched for a beginning.


@dataclass(slots=True)
class Detector:
    """Finds the times in which the model is slow, from its median latency in windows of about a second.

    The slow times are in the list `spans`, from which the caller removes them. A slow time that still continues is the
    last in the list.
    """

    baseline: Baseline | None = None
    spans: list[Span] = field(default_factory=list)
    end_s: float = float("inf")  # End of the measurement, which may lie within a second.
    ended_s: int = 0  # When the last span was over.
    noise: Noise = field(default_factory=Noise)
    # The latest windows. Once there is a baseline, their levels are relative to it.
    windows: Windows = field(default_factory=lambda: np.empty(0, WINDOW))
    points: Points = field(default_factory=lambda: np.empty(0, POINT))
    calm_from: int | None = None  # Second in which an interruption of the open span began; None if there is none.
    calm_sum: int = 0
    calm_count: int = 0
    calm_below: int = 0

    @property
    def open(self) -> Span | None:
        return self.spans[-1] if self.spans and self.spans[-1].end_s is None else None

    def fold(self, windows: Windows, points: Points) -> None:
        """Take the next windows of the measured phase, and `points`, the individual latencies of the same time.

        A window is about a second with its median latency. Each latency is the natural logarithm of a time in ns, times
        a million.
        """
        place = 0
        while self.baseline is None and place < len(windows):
            row = windows[place : place + 1]
            inside = (points["second"] >= row["begin_s"]) & (points["second"] < row["end_s"])
            self._build_baseline(row, points[inside])
            place += 1
        if self.baseline is not None and place < len(windows):
            points = points[points["second"] >= windows["begin_s"][place]]
            self._judge(relative(windows[place:], self.baseline), relative(points, self.baseline))

    def _build_baseline(self, window: Windows, points: Points) -> None:
        self.windows = np.concatenate([self.windows, window], dtype=WINDOW)
        self.points = np.concatenate([self.points, points], dtype=POINT)
        baseline, wanted_s = find_baseline(self.points, int(window["end_s"][0]))
        if baseline is not None:
            self.compare_with(baseline)
        elif len(self.points) and wanted_s > self.points["second"][0]:
            self.windows = self.windows[self.windows["begin_s"] >= wanted_s]
            self.points = self.points[self.points["second"] >= wanted_s]

    def compare_with(self, baseline: Baseline) -> None:
        """Store the baseline, and search the windows after it for slowdowns."""
        windows, points = relative(self.windows, baseline), relative(self.points, baseline)
        inside, later = windows["end_s"] <= baseline.to_s, points["second"] >= baseline.to_s
        self.baseline = baseline
        self.noise.begin(windows[inside], points[~later])
        self.windows, self.points = windows[inside][-MAX_WINDOWS:], points[~later]
        self._judge(windows[~inside], points[later])

    def _judge(self, windows: Windows, points: Points) -> None:
        self.points = np.concatenate([self.points, points], dtype=POINT)
        while len(windows):
            done = self._follow(windows) if self.open else self._watch(windows)
            windows = windows[done:]
        # Only now, so that it makes no difference how much data came at once.
        self.points = self.points[-MAX_POINTS:]

    def _watch(self, windows: Windows) -> int:
        """Search `windows` for the beginning of a slowdown, up to the window in which it is discovered.

        Return how many windows were searched. The caller must search the rest in further calls.
        """
        slow = np.flatnonzero(windows["level"] >= SLOWER)
        if len(slow):  # They are compared with the noise as it was estimated before them.
            calm = max(int(slow[0]) - self.noise.wanted, 0)
            windows = windows[: self.noise.wanted + calm // EVERY * EVERY]
            slow = slow[slow < len(windows)]
        before = len(self.windows)
        joined = np.concatenate([self.windows, windows], dtype=WINDOW)
        for place in slow.tolist():
            upto = before + place + 1
            known = joined[max(0, upto - MAX_WINDOWS) : upto]
            length = self._slow_length(known[-SPAN:])
            if length and self._open(known, len(known) - length):
                self.noise.add(windows["level"][:place])
                self.noise.drop(length - 1)
                self._check(self.spans[-1], int(windows["end_s"][place]))
                return int(place) + 1
        self.noise.add(windows["level"])
        self.windows = joined[-MAX_WINDOWS:]
        return len(windows)

    def _slow_length(self, windows: Windows) -> int:
        """Return approximately how many of the last windows form a slowdown; 0 if they form none.

        The windows form a slowdown if their latency is surely above the tolerated latency (6 % above the baseline), or
        if it is probably above the tolerated latency and surely above the latency before these windows.
        """
        level = clipped(windows)[::-1]
        count, total = np.arange(1, len(level) + 1), np.cumsum(level)
        mean = total / count
        mostly = np.cumsum(level >= SLOWER) >= MOSTLY * count
        lasts = windows["end_s"][-1] - windows["begin_s"][::-1] >= LEAST_S
        assert self.baseline is not None
        enough = mean >= SLOWER + BASELINE_ERRORS * self.baseline.error * NEPER
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
        """Compute how certain it is that the slow time `span` is more than noise, and store the result in `span`.

        `until_s` is the session second at which the last window of `span` ends.
        """
        whole = len(span.first) - LATEST
        first = span.first[:whole] if whole >= LATEST else span.first  # A further rise may have begun since.
        span.ratio = self.noise.rise_ratio(np.empty(0, np.int64), np.array(first, np.int64))
        if span.is_certain and span.sure_s is None:
            span.sure_s = until_s

    def _restart(self, span: Span, windows: Windows) -> bool:
        """Begin a new slow time if the latency surely rises within `span`. Return whether a new slow time began.

        `span` is the present slow time, which may be only noise. `windows` has all windows up to now.
        """
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
        """Whether the windows are slow even if the two slowest ones, a possible interruption, are left out.

        An interruption of less than two seconds is not a slowdown, but can slow two windows of a second each. If a
        window is longer than a second, no window is left out. `before_level` is the latency before the windows: the
        natural logarithm of (latency / baseline), times a million.
        """
        is_dense = bool((windows["end_s"] - windows["begin_s"] == 1).all())
        rest = np.sort(clipped(windows))
        if is_dense:
            rest, slowest = rest[:-BLIP_S], np.sort(windows["level"])[-BLIP_S:]
            if not len(rest) or rest[-1] < AS_SLOW_PART * min(float(np.mean(slowest)), 2.0 * CLIP):
                return False
        return self._is_slow(float(np.mean(rest)) if len(rest) else 0.0, len(rest), before_level, self.noise.sigma)

    @staticmethod
    def _is_slow(level: float, count: int, before_level: float, sigma: float) -> bool:
        """Whether `level` is 8 % (SLOWER) or more above the baseline, and surely above the earlier `before_level`.

        Both are latencies: the natural logarithm of (latency / baseline), times a million. `level` is the mean or
        median of `count` latencies. `sigma` is the standard deviation of one natural logarithm.
        """
        ratio = count * (level - before_level) ** 2 / (2 * (sigma * NEPER) ** 2)
        return level >= SLOWER and ratio >= REST_CERTAIN

    def _is_more_than_a_sparse_blip(self, points: Points, border: float, before_level: float) -> bool:
        """Whether a slow model is surely slower than before, even without the slowest two seconds, a possible hiccup.

        `points` has the individual latencies since the beginning of the slowdown. The two seconds left out are those
        with most latency above `border`. The median of the other latencies is compared with `before_level`, the latency
        before the slowdown. Each latency is the natural logarithm of (latency / baseline), times a million. If an
        inference usually takes REACHED_ONCE_S seconds or more, the result is True.
        """
        assert self.baseline is not None
        if math.exp(self.baseline.level / NEPER) >= REACHED_ONCE_S * NS:
            return True
        second = points["second"]
        level = np.clip(points["level"], -SPARSE_CLIP, SPARSE_CLIP)
        over = np.concatenate([[0], np.cumsum(np.maximum(level - border, 0))])
        after = np.searchsorted(second, second + BLIP_S, side="right")
        worst = int(np.argmax(over[after] - over[: len(points)]))
        rest = np.concatenate([level[:worst], level[after[worst] :]])
        if not len(rest):
            return False
        return self._is_slow(median(rest), len(rest), before_level, self.noise.sigma / OF_FIVE)

    @property
    def _earliest_s(self) -> int:
        """Return the first session second in which a new slowdown can begin.

        It is INTERRUPTION_S seconds after the end of the previous slowdown, or 0 if no slowdown has ended since the
        baseline was measured.
        """
        is_own = self.ended_s and self.baseline is not None and self.baseline.from_s < self.ended_s
        return self.ended_s + INTERRUPTION_S if is_own else 0

    def _open(self, windows: Windows, first: int, floor: int = 0) -> bool:
        """Begin a slow time at about the window with index `first`. Return whether the slow time began.

        It does not begin if the individual latencies of these windows show no slowdown. `windows` has all windows up to
        now. `floor` is for a slow time that rises out of another slowdown: the natural logarithm of (latency of the
        other slowdown / baseline), times a million. It is 0 if no other slowdown is in progress.
        """
        level = median(windows["level"][first:]) - floor
        before_level = min(median(windows["level"][:first]) - floor if first else 0.0, SLOWER / 2)
        from_s = max(int(windows["begin_s"][max(0, first - 2)]) - LEAST_S, self._earliest_s)
        to_s = min(int(windows["end_s"][-1]), self.end_s)
        points = self.points[(self.points["second"] >= from_s) & (self.points["second"] < to_s)]
        if not len(points):  # The measurement ended before these windows, so nothing in it is slow.
            return False
        apart = int(median(np.diff(points["second"]))) if len(points) > 2 else 1
        is_sparse = bool((windows["end_s"][first:] - windows["begin_s"][first:] > 1).any())
        # Level that divides the points before from those after: the slowdown's, or less if it is hardly higher.
        scatter = self.noise.sigma * NEPER * (2 if is_sparse else 1)
        border = float(min(SLOWER, max((before_level + level) / 2, level - BEGIN_SCATTERS * scatter)))
        points["level"] -= floor
        start_s = first_above(points, border, max(min(level - border, border - before_level), 1))
        if is_sparse:
            start_s = self._after_interruptions(points[points["second"] >= start_s], border, level, before_level)
        since = points["level"][points["second"] >= start_s]
        above = np.count_nonzero(since >= border)
        # Each point represents the same time.
        lasts = above * (to_s - int(points["second"][0])) >= LEAST_S * len(points)
        if not lasts or above < max(MOSTLY * len(since), FEWEST if is_sparse else 0):
            return False
        slow_points = points[points["second"] >= start_s]
        if is_sparse and not self._is_more_than_a_sparse_blip(slow_points, border, before_level):
            return False
        span = Span(start_s, self._rise(start_s, level, before_level), apart, self.ended_s, self.noise.sigma)
        if is_sparse:
            span.late_s = self._late(slow_points, level, before_level)
        span.leave = self._leave(level + floor)
        for window in map(SlowWindow._make, windows[first:].tolist()):
            span.observe(window)
            if window.level >= span.leave:
                span.add(window)
        self.spans.append(span)
        self.windows = windows
        self._reset_calm()
        return True

    def _after_interruptions(self, points: Points, border: float, level: float, before_level: float) -> int:
        """Return when the slowdown begins, in session seconds: at the first slow inference after the last interruption.

        Without an interruption, it begins at the first of `points`.

        Slow inferences before an interruption do not belong to the slowdown. An interruption is a time of
        INTERRUPTION_S without a slow inference, in which the inferences fit `before_level` much better than `level`.
        `points` has the inferences from the first slow one on. An inference is slow if it is above `border`. `level` is
        the latency in the slowdown, and `before_level` the latency before it. Each latency is the natural logarithm of
        (latency / baseline), times a million.
        """
        scatter = max(self.noise.sigma / OF_FIVE * NEPER, 1.0)
        gain = np.cumsum((level - before_level) * (level + before_level - 2 * points["level"]) / (2 * scatter**2))
        slow = np.flatnonzero(points["level"] >= border)
        seconds = points["second"][slow]
        calm = gain[slow[1:] - 1] - gain[slow[:-1]]
        interruptions = np.flatnonzero((np.diff(seconds) >= INTERRUPTION_S) & (calm >= CALM_CERTAIN))
        return int(seconds[interruptions[-1] + 1] if len(interruptions) else points["second"][0])

    def _rise(self, start_s: int, level: float, before_level: float) -> int:
        """Return the second in which the latency began to rise, at the latest `start_s`.

        `start_s` is the second in which the slowdown begins. `level` is the latency in the slowdown, and `before_level`
        the latency before the slowdown. Both are the natural logarithm of (latency / baseline), times a million.
        """
        second = self.points["second"]
        earlier = self.points[(second < start_s) & (second >= start_s - RISE_S)]
        settled = earlier["second"][earlier["level"] <= before_level + SETTLED_PART * (level - before_level)]
        return min(int(settled[-1]) + 1, start_s) if len(settled) else start_s

    def _late(self, points: Points, level: float, before_level: float) -> int:
        """Return by how many seconds after the first inference in `points` the slowdown may have begun.

        `points` has all inferences since the assumed beginning of the slowdown. `level` is the latency in the slowdown,
        and `before_level` the latency before it. Both are the natural logarithm of (latency / baseline), times a
        million. An inference far away from both latencies is an outlier, and counts for neither of them (Huber 1964,
        Annals of Mathematical Statistics 35).
        """
        scatter = max(self.noise.sigma / OF_FIVE * NEPER, 1.0)
        slow, usual = (
            (1 - WILD) * np.exp(-(((points["level"] - one) / scatter) ** 2) / 2) + WILD * WILD_DENSITY
            for one in (level, before_level)
        )
        since = np.cumsum((np.log(slow) - np.log(usual))[::-1])[::-1]
        likely = points["second"][since >= since.max() - LIKELY]
        return max(0, int(likely[-1]) - int(points["second"][0]))

    def _leave(self, level: float) -> int:
        return int(min(SLOWER, max(level / 2, level - LEAVE_SCATTERS * self.noise.sigma * NEPER)))

    def _follow(self, windows: Windows) -> int:
        """Search `windows` for the end of the present slowdown, up to the window in which the end is discovered.

        Return how many windows were searched. The caller must search the rest in further calls.
        """
        span, before = self.spans[-1], len(self.windows)
        known = np.concatenate([self.windows, windows], dtype=WINDOW)
        for place, window in enumerate(map(SlowWindow._make, windows.tolist())):
            upto = before + place + 1
            self._count_calm(span, window)
            span.observe(window)
            is_sparse = window.end_s - window.begin_s >= SPARSE_S
            is_slow = window.level >= span.leave
            is_over = self._is_over_by_points(span, window) if is_sparse else not is_slow and self._is_over(window)
            if is_slow and not is_over:
                span.add(window)
                if not span.is_certain and self._restart(span, known[:upto]):
                    self.windows = known[:upto][-MAX_WINDOWS:]
                    return place + 1
                if span.slow % CHECK_EVERY == 0 and len(span.first) < CHECKED:
                    self._check(span, window.end_s)
                if span.slow % LEAVE_EVERY == 0:
                    span.leave = self._leave(float(np.mean(span.recent)))
            elif is_over:
                span.end_s = self.calm_from
                self.ended_s = span.end_s or 0
                latest = known[:upto][-MAX_WINDOWS:]
                if span.ratio < DOUBTFUL:
                    self.noise.add(latest["level"][latest["begin_s"] >= span.start_s])
                self.windows = latest[latest["begin_s"] >= self.ended_s]
                self._reset_calm()
                return place + 1
        self.windows = known[-MAX_WINDOWS:]
        return len(windows)

    def _count_calm(self, span: Span, window: SlowWindow) -> None:
        """Add to Page's cumulative sum how far the latency of `window` is below `span.leave`.

        Below `span.leave`, the slowdown `span` is interrupted or over, so the sum grows. Above it, the sum falls. A sum
        that falls to 0 is reset. The method also stores since which second the sum has been above 0.
        """
        reach = max(span.leave, LEAST_REACH)
        below = min(max(span.leave - window.level, -reach), reach)
        if self.calm_sum + below <= 0:
            self._reset_calm()
            return
        if self.calm_from is None:
            self.calm_from = window.begin_s
        self.calm_sum += below
        self.calm_count += 1
        self.calm_below += below > 0

    def _is_over(self, window: SlowWindow) -> bool:
        if self.calm_from is None or self.calm_count < 2:
            return False
        return window.end_s - self.calm_from >= INTERRUPTION_S and self.calm_below >= MOSTLY * self.calm_count

    def _is_over_by_points(self, span: Span, window: SlowWindow) -> bool:
        """Whether individual inferences show that the slowdown `span` is over, if inferences are seconds apart.

        The slowdown is over if the latencies fit the baseline much better than the slowdown, by the likelihood ratio.
        `window` is the latest window.
        """
        slow = float(np.mean(span.recent)) if span.recent else 2.0 * span.leave
        second = self.points["second"]
        points = self.points[(second >= span.start_s) & (second < window.end_s)][-SPAN:]
        scatter = max(self.noise.sigma / OF_FIVE * NEPER, 1.0)
        most = slow * slow / (2 * scatter**2)
        gain = np.clip(slow * (slow - 2 * points["level"]) / (2 * scatter**2), -most, most)
        before = np.concatenate([[0.0], np.cumsum(gain)])
        since = int(np.flatnonzero(before <= np.minimum.accumulate(before))[-1])  # From here on, Page's sum is above 0.
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
        self.calm_sum = self.calm_count = self.calm_below = 0
