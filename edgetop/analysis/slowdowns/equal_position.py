"""Compares times per token at equal position in the context, to find slowdowns of a language model.

Each token attends to all tokens before it, so its time grows with its position: t = a + b * position. (The work of
attention is proportional to the position, and the rest of the work does not depend on it.) The median of each second is
divided by the usual time at that second's mean position. The usual time of a range of positions is learned from the
first seconds that reach the range without being slow. For a range with too few such seconds, a straight line through
all ranges is used.

If several requests run at the same time, a batch has a token of each, and takes longer. So there is a separate line for
each number of simultaneous requests.

Tokens never become faster at later positions. So if the usual times of later positions are clearly shorter than that
of an earlier one, other programs disturbed the earlier one, and it does not count.

At positions that the session reaches for the first time, there is no earlier token to compare with, and the line may be
wrong. A slowdown at these positions is reported only if its cause is proven.
"""

import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.baseline import SLOWER_SHARE
from edgetop.analysis.slowdowns.equal_size import LATEST_S, recent_p50_ns, scale
from edgetop.session.seconds import NS, SECOND, Seconds, emptied

# Number of successive positions that count as equal. Choice: over 32 positions, the time grows by less than a percent.
# Larger: growth within a range looks like drift; smaller: each range is seen too seldom.
RANGE = 32
# Number of seconds of a range from which its usual time is learned. Choice: less than half of a burst, after which a
# board may throttle. Larger: a throttle becomes usual; smaller: the median of a range is rough.
LEARNED = 12
# Number of seconds of a range from which its own median counts instead of the line. Choice: two outliers do not move
# the median of five. Larger: a curve that is no line looks like a slowdown; smaller: noise becomes usual.
OWN = 5
# Number of ranges from which the line is computed. Choice: three ranges of noisy medians are no line. Larger: a
# throttle in the first seconds is taken for growth; smaller: noise is a slope.
LEAST_RANGES = 4
# Largest difference, as a share, between the medians of one range in two requests that count as equal. Choice: the
# limit for a steady burst. Larger: a throttle that began in between becomes usual; smaller: a range that was called
# slow once is never learned.
EQUAL = 0.05
MAX_CURVES = 64  # Most numbers of requests at the same time that are compared.
# Share of the later ranges that must be clearly faster than a range if that one was disturbed. Choice. Larger: the rest
# of a request that was disturbed for long counts; smaller: of many noisy ranges a few are faster by chance, and the
# usual time becomes too short.
FASTER = 0.25
SPEED_S = 10  # Number of seconds from which the present slowness is known when another number of requests begins.
MAX_RANGES = 4096  # Positions beyond this range share one range.
MAX_SPANS = 500  # Number of spans of new positions that are stored.

Rows = npt.NDArray[np.void]


@dataclass(slots=True)
class Curve:
    """The usual time per token at each position in the context, for one number of simultaneous requests."""

    learned: dict[int, list[float]] = field(default_factory=dict)  # By range, the medians of its first LEARNED seconds.
    medians: dict[int, float] = field(default_factory=dict)  # By range, the median of these.
    longest: dict[int, float] = field(default_factory=dict)  # By range, its longest plausible time in ns.
    slow: dict[int, float] = field(default_factory=dict)  # By range, its median if it was slow when first reached.
    line: tuple[float, float] | None = None  # Time at position 0 and growth per position, in ns. None until known.
    last_range: int = -1
    passes: int = 0  # Number of times that the position fell because a new request began.
    slow_in: dict[int, int] = field(default_factory=dict)  # By range, the value of `passes` when it was slow.
    # Ranges that were slow when first reached: range, median in ns, and ratio to the line. At most LATEST_S.
    grown: list[tuple[int, float, float]] = field(default_factory=list)

    def usual(self, position: float, median_ns: float, speed: float) -> tuple[float, bool]:
        """Return `(usual_ns, is_new)`: the usual time per token at `position`, and whether it had to be estimated.

        `is_new` is True if no usual time was learned in this range of positions. If no usual time is known at all,
        `usual_ns` is `median_ns / speed`. `median_ns` is the median time per token in the present second. `speed` is by
        which factor tokens took longer than usual in the last seconds, or 1 if unknown. The usual times are updated
        with the present second.
        """
        place = _place(position)
        if place < self.last_range:
            self.passes += 1
        self.last_range = place
        usual_ns = self._known(place, position) or median_ns / speed
        # Until the line is known, growth cannot be distinguished from a slowdown.
        is_slow = self.line is not None and median_ns > (1 + SLOWER_SHARE) * usual_ns
        is_new = place not in self.learned
        if not is_slow or self._was_as_slow(place, median_ns):
            self._learn(place, median_ns if self.line else min(median_ns, median_ns / speed))
        elif is_new:
            self._note_growth(place, median_ns, median_ns / usual_ns)
        return usual_ns, is_new

    def _known(self, place: int, position: float) -> float | None:
        """Return the usual time per token at `position` in ns, or None if it is unknown.

        `place` is the index of the position's range.
        """
        # Without a line, there are too few undisturbed ranges yet.
        if self.line is None or len(self.learned.get(place, ())) >= OWN:
            return self.medians.get(place)
        return self.line[0] + self.line[1] * position

    def _was_as_slow(self, place: int, median_ns: float) -> bool:
        """Whether an earlier request took the same time per token in this range of positions.

        If so, this time is usual in the range, although it is above the line through the usual times. `place` is the
        index of the range. `median_ns` is the present median time per token, which is stored for later requests if it
        is the first of the range. The result is False for a range whose usual time is known.
        """
        if place in self.learned:
            return False
        before_ns, passed = self.slow.get(place), self.slow_in.get(place, self.passes)
        if before_ns is not None and passed < self.passes and abs(median_ns / before_ns - 1) <= EQUAL:
            return True
        if before_ns is None:
            self.slow[place], self.slow_in[place] = median_ns, self.passes
        return False

    def _note_growth(self, place: int, median_ns: float, ratio: float) -> None:
        """Store a range of positions in which tokens take longer than the line through the usual times says.

        If the ratios of the stored times to the line keep growing, these times become the usual times of their ranges.
        Throttling multiplies all times by the same factor, so the ratio to the line jumps once. A ratio that goes on
        growing shows that the line was too flat. For example, llama.cpp enlarges the cache that it reads in steps of
        256 tokens, and in a small model one step can look like a slowdown. `place` is the index of the range.
        `median_ns` is its median time per token. `ratio` is this median divided by the line.
        """
        self.grown = [*self.grown[1 - LATEST_S :], (place, median_ns, ratio)]
        count = len(self.grown)
        if count < 3 * OWN:
            return
        middle = (count - OWN) // 2
        starts = 0, middle, count - OWN
        ratios = [each[2] for each in self.grown]
        first, half, last = (float(np.median(ratios[at : at + OWN])) for at in starts)
        rise = last - first
        if rise > SLOWER_SHARE * first and rise / 4 < half - first < rise * 3 / 4:
            grown, self.grown = self.grown, []
            for reached, reached_ns, _ in grown:
                self._learn(reached, reached_ns)

    def _learn(self, place: int, median_ns: float) -> None:
        own = self.learned.setdefault(place, [])
        if len(own) >= LEARNED:
            return
        own.append(median_ns)
        self.medians[place] = float(np.median(own))
        bounds = list(self._bounds())
        self.longest = {one: min(ns, most_ns) for one, ns, most_ns in bounds}
        undisturbed = [(one, ns) for one, ns, most_ns in bounds if ns <= (1 + SLOWER_SHARE) * most_ns]
        self.line = None
        if len(undisturbed) >= LEAST_RANGES:
            places, medians = np.array(undisturbed).T
            weights = np.array([len(self.learned[one]) for one, _ in undisturbed], np.float64)
            self.line = _line((places + 0.5) * RANGE, medians, weights)

    def _bounds(self) -> Iterator[tuple[int, float, float]]:
        """Yield `(place, median_ns, most_ns)` for each learned range, the last range first.

        `place` is the index of the range, `median_ns` its median, and `most_ns` its longest plausible time: that which
        FASTER of the ranges after it do not exceed, and at least two of them, because one second may be chance. A range
        of at least OWN seconds counts as two. Without such ranges it is infinite.
        """
        later: list[float] = []  # in ascending order
        for place in sorted(self.medians, reverse=True):
            median_ns = self.medians[place]
            yield place, median_ns, later[max(1, int(FASTER * len(later)))] if len(later) > 1 else math.inf
            insort(later, median_ns)
            if len(self.learned[place]) >= OWN:
                insort(later, median_ns)


@dataclass(slots=True)
class EqualPosition:
    """Converts the times per token of each second to what they would be at the context position of the first second.

    A second is compared only with seconds in which the same number of requests ran at the same time.
    """

    # Usual time at the position of the first second, to which all times are converted. None before the first second.
    usual_ns: float | None = None
    first: tuple[int, float] = (0, 0.0)  # Number of requests at the same time and position in the first second.
    curves: dict[int, Curve] = field(default_factory=dict)  # By number of requests at the same time.
    # The last seconds: session second, and time per token divided by the usual time. At most SPEED_S.
    latest: tuple[tuple[int, float], ...] = ()
    new: list[list[int]] = field(default_factory=list)  # Spans [begin, end) in s in which all positions were new.
    rows: Rows = field(default_factory=lambda: np.empty(0, SECOND))  # Converted rows of the last LATEST_S seconds.

    def judged(self, seconds: Seconds) -> Seconds:
        """Return `seconds` with times per token as latencies, converted to the position of the session's first second.

        A position is a number of tokens in the context. The copy has no histograms.
        """
        tokens = seconds.tokens
        bare = replace(emptied(seconds), response=None, streams=None, tokens=None)
        if tokens is None or not len(seconds):
            return bare
        rows = tokens.itl.rows.copy()
        # Several tokens may arrive at once from a server. If most did in a second, nothing is known of its speed.
        at_once = (rows["count"] > 0) & (rows["p50_ns"] <= 0)
        rows[at_once] = emptied(tokens.itl).rows[at_once]
        for place in np.flatnonzero(rows["count"]).tolist():
            row, of = rows[place : place + 1], tokens.rows[place]
            median_ns, position, number = float(row["p50_ns"][0]), float(of["position_mean"]), int(of["active"])
            if number and of["active_p50_ns"] > 0:
                # The time between tokens when this number of requests ran, without prompts in between.
                scale(row, float(of["active_p50_ns"]) / max(1.0, median_ns))
                median_ns, position = float(of["active_p50_ns"]), float(of["active_position"])
            scale(row, self._factor(number, position, median_ns, int(row["t_ns"][0]) // NS))
        rows["errors"] = seconds.rows["errors"]
        self.rows = np.concatenate([self.rows, rows])[-LATEST_S:]
        return replace(bare, rows=rows)

    def _factor(self, number: int, position: float, median_ns: float, second: int) -> float:
        """Return the factor that converts a time per token at `position` to the position in the session's first second.

        `number` is how many requests ran at the same time; 0 if unknown. `median_ns` is the median time per token in
        this second. `second` is the second of the session.
        """
        if self.usual_ns is None:
            self.first, self.usual_ns = (number, position), median_ns
        curve = self.curves.get(number)
        if curve is None:
            curve = self.curves[number] = Curve()
            if len(self.curves) > MAX_CURVES:
                del self.curves[next(iter(self.curves))]
        usual_ns, is_new = curve.usual(position, median_ns, self._speed(second))
        if is_new:
            self._note_new(second)
        self.latest = (*self.latest[1 - SPEED_S :], (second, median_ns / usual_ns))
        if number == self.first[0]:
            longest_ns = curve.longest.get(_place(self.first[1]), math.inf)
            if self.usual_ns > (1 + EQUAL) * longest_ns:  # The first second was disturbed.
                self.usual_ns = longest_ns
        return self.usual_ns / usual_ns

    def _speed(self, second: int) -> float:
        """Return by which factor tokens took longer than usual in the last seconds before `second`.

        The result is 1 if the factor is hardly above 1, or unknown. It is unknown while the number of simultaneous
        requests has always been the same.
        """
        if len(self.curves) < 2:
            return 1.0
        ratios = [ratio for at, ratio in self.latest if at >= second - SPEED_S]
        ratio = float(np.median(ratios)) if ratios else 1.0
        return ratio if ratio > 1 + SLOWER_SHARE else 1.0

    def _note_new(self, second: int) -> None:
        if self.new and second <= self.new[-1][1]:
            self.new[-1][1] = max(self.new[-1][1], second + 1)
        else:
            self.new = [*self.new[1 - MAX_SPANS :], [second, second + 1]]

    def is_new(self, from_s: int, to_s: int) -> bool:
        """Whether most seconds from `from_s` to `to_s` had positions that the session reached for the first time."""
        inside = sum(max(0, min(end, to_s) - max(begin, from_s)) for begin, end in self.new)
        return 2 * inside > max(1, to_s - from_s)

    def recent_p50_ns(self, until_ns: int) -> float | None:
        """Return the median time per token of the last 10 s in ns, converted to the position of the first second.

        The result is None if there were no tokens. `until_ns` is the present session time in ns.
        """
        return recent_p50_ns(self.rows, until_ns)


def _place(position: float) -> int:
    """Return the index of the range of positions that contains `position`."""
    return min(int(position) // RANGE, MAX_RANGES)


def _line(places: npt.NDArray[np.float64], medians: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> (
    tuple[float, float]
):  # fmt: skip
    """Return the value at 0 and the slope (0 or more) of the straight line that fits weighted points best.

    `places` and `medians` are the coordinates of the points, and `weights` are their weights. The sum of the squares of
    the relative errors is least.
    """
    weights = weights / medians**2
    middle, mean = np.average(places, weights=weights), np.average(medians, weights=weights)
    spread = float(np.sum(weights * (places - middle) ** 2))
    slope = float(np.sum(weights * (places - middle) * (medians - mean))) / spread if spread else 0.0
    slope = max(0.0, slope)
    return max(float(mean - slope * middle), float(mean) / 100), slope
