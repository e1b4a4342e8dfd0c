"""Finds the session time of a fast power trace, by comparing its pattern with the pattern of the inferences.

First, the mean power is correlated with the share of the time in inferences, for all offsets. Then, in some windows of
full resolution, the offset is found at which the progress of the inference (its phase) explains most of the variance of
the power. Latencies vary, so a trace that is shifted by an inference fits less well, even if inferences follow each
other without a pause. A line through the offsets of the windows gives the offset and the drift of the instrument's
clock. The confidence is the share of the windows whose offset is near the line.

A log may hold several runs. So each part of the log that has the shape of the session is tried in this way. Two runs of
one model at even intervals look alike, except that each latency is a little different: the session's own run fits its
latencies in their order, and another run fits any order as well.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetop.analysis.trace_overview import LEAST_IN_WINDOW, LEAST_WINDOWS, PHASES, Overview, Window
from edgetop.analysis.trace_places import APART, SEARCHED_INFERENCES, SEARCHED_S, even_interval, offsets_of
from edgetop.frozen import frozen
from edgetop.session.seconds import NS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

COARSE = 24  # Offsets that are tried in an inference at first.
# Distance of a window's offset from the line within which the window agrees, as a share of an inference.
AGREES = 0.1
# Share of the variance by which an offset must explain more than one that is half an inference or a whole one away.
# Equal inferences without pauses differ by less.
LEAST_CONTRAST = 0.003
# Share of the windows that must agree on an offset. Choice: more than half. Larger: one disturbed window refuses a
# trace; smaller: an offset by chance is believed.
LEAST_CONFIDENCE = 0.6
# Gain in explained variance that the latencies in their own order give at least, as a part of their scatter and of what
# the phase explains. Choice: in generated traces it is 0.65 or more, and in those of another run 0 at most where the
# load is even. Larger: noisy traces are refused; smaller: the log of another run is cut.
OWN_ORDER = 0.2
# Number of samples in an inference from which the order of the latencies can tell the log of another run. Choice: in
# generated traces, 1 in 25 right logs with fewer was taken for another run's, and none with more. Larger: the log of
# another run is cut; smaller: right logs are refused.
LEAST_SAMPLES = 5
# Part of what the best line through the windows explains, from which a line is tried with other inferences. Choice: one
# of five windows may be disturbed. Larger: the true line is not tried; smaller: many lines are, which takes time.
FITS = 0.8
NEARER = 0.45  # Part of an even interval within which an inference is nearer than the next one.
MOST_DRIFT = 2e-4  # Largest drift that is searched; quartz oscillators are within 1e-4.
LEAST_EXPLAINED = 0.02  # Share of the variance that the phase must explain in a window, beyond what noise does.
MOST_PERIODS = 50  # Largest number of inferences by which an offset may be moved at last.
SURE = 3  # Windows from which the drift is known well enough to expect the next offset.
# Length of a log, in lengths of the session, up to which windows of the whole log are enough. Choice: eight of twelve
# windows then lie in the session. Larger: too few do; smaller: a log is read once more for little.
MOSTLY_SESSION = 1.5
ORDERS = (1, 2, 3, 5)  # By how many inferences latencies are moved, to see whether their order matters.


@frozen
class Alignment:
    """How to convert times of an instrument's log to session times: `offset_s` + (1 + `drift`) x time of the log."""

    offset_s: float
    drift: float = 0.0
    confidence: float | None = None  # Share of the windows that agree; None if the user gave the offset.
    windows: int = 0
    how: str = "pattern"  # "pattern", "offset" or "marker"
    # Whether no other inference fits as well. If not, the offset may be off by a whole number of inferences.
    is_unique: bool = True
    # Log times in s at which runs begin that fit the session equally well, if there are several; else ().
    rivals_s: tuple[float, ...] = ()
    # Whether the inferences in the log take other times than those of the session, so that it is of another run.
    is_foreign: bool = False
    # What the pattern of the inferences says, if it contradicts the offset or the marker of the user.
    pattern: "Alignment | None" = None

    @property
    def is_certain(self) -> bool:
        is_sure = self.confidence is None or self.confidence >= LEAST_CONFIDENCE
        return is_sure and not (self.rivals_s or self.is_foreign)

    def session_ns(self, t_s: Floats) -> Floats:
        """Convert `t_s`, times of the instrument's log in s, to session times in ns."""
        return np.asarray((self.offset_s + (1 + self.drift) * t_s) * NS)


def align(overview: Overview, windows: Sequence[Window], starts: Ints, lengths: Ints) -> Alignment:
    """Return the offset and the drift that convert times of a power trace to session times.

    `overview`: the whole trace in coarse steps. `windows`: some parts of the trace in full resolution. `starts` and
    `lengths`: start and latency of all inferences in ns, in order of time. The confidence of the result is 0 if no
    offset is found.
    """
    places_s, bin_s = places(overview, starts, lengths)
    tried = [_aligned_at(place_s, bin_s, overview, windows, starts, lengths) for place_s in places_s]
    if not tried:
        return Alignment(0.0, confidence=0.0)
    distinct: list[_Fit] = []
    length_s = float(starts[-1] + lengths[-1] - starts[0]) / NS
    for fit in tried:  # a search may end at the same offset as an earlier one
        if all(abs(fit.alignment.offset_s - other.alignment.offset_s) > APART * length_s for other in distinct):
            distinct.append(fit)
    fitting = [fit for fit in distinct if fit.alignment.is_certain]
    if not fitting:
        return max((fit.alignment for fit in distinct), key=lambda one: one.confidence or 0.0)
    for is_better in (_Fit.is_in_order, _Fit.is_whole):
        better = [fit for fit in fitting if is_better(fit)]
        fitting = better or fitting
    runs = [fit for fit in distinct if fit.covered]
    if len(fitting) == 1 and fitting[0].is_proven_against(runs):
        return fitting[0].alignment
    begin_s, rivals = float(starts[0]) / NS, fitting if len(fitting) > 1 else runs
    return replace(fitting[0].alignment, rivals_s=tuple(sorted(begin_s - fit.alignment.offset_s for fit in rivals)))


def compared(given: Alignment, pattern: Alignment, starts: Ints, lengths: Ints) -> Alignment:
    """Return `given`, the alignment by an offset or a marker, with `pattern` added if `pattern` contradicts it.

    Both contradict each other if they differ by more than AGREES of an inference at the first or the last inference. A
    pattern that is uncertain, or fits other inferences as well, contradicts nothing. `starts` and `lengths`: start and
    latency of all inferences in ns, in order of time.
    """
    if not (pattern.is_certain and pattern.is_unique and pattern.windows):
        return given
    ends_s = starts[[0, -1]] / NS
    log_s = (ends_s - pattern.offset_s) / (1 + pattern.drift)
    off_ns = np.abs(given.session_ns(log_s) - ends_s * NS)
    is_off = bool(off_ns.max() > AGREES * float(np.median(lengths)))
    return replace(given, pattern=pattern) if is_off else given


@frozen
class _Fit:
    """How well a session fits at one offset in the log."""

    alignment: Alignment
    order: float  # Mean share of the variance that the order of the latencies explains.
    covered: float  # Share of the windows with inferences in which an offset was found.

    def is_in_order(self) -> bool:
        """Whether the latencies explain the power clearly better in their own order than in other orders."""
        return self.order >= LEAST_CONTRAST

    def is_whole(self) -> bool:
        """Whether most windows of the trace fit the session at this offset, and not a few inferences off."""
        return self.alignment.is_unique and self.covered >= LEAST_CONFIDENCE

    def is_proven_against(self, runs: Sequence["_Fit"]) -> bool:
        """Whether this offset is proven to be that of the session.

        `runs` are the fits at all offsets that were found in the log, including this fit. The offset is proven if there
        is no other fit, if the trace fits the whole session (`is_whole`), or if the order of the latencies explains at
        least as much of the power as at any other offset.
        """
        is_best = self.is_in_order() and self.order >= max(run.order for run in runs)
        return len(runs) == 1 or self.is_whole() or is_best


def places(overview: Overview, starts: Ints, lengths: Ints) -> tuple[list[float], float]:
    """Return `(offsets, precision)`: the possible offsets of the session in the trace, and their precision, in s.

    The arguments are those of `align`. The list is empty if the session is too short for this trace.
    """
    if len(starts) < LEAST_IN_WINDOW or not len(overview.watts):
        return [], overview.bin_s
    if overview.bin_s * LEAST_IN_WINDOW > float(starts[-1] - starts[0]) / NS:  # The log is far longer than the session.
        return [], overview.bin_s
    return offsets_of(overview.watts, overview.begin_s, overview.bin_s, starts, lengths)


def needs_closer_look(overview: Overview, starts: Ints, lengths: Ints) -> bool:
    """Whether windows should be taken only from parts of the log in which the session may lie.

    The result is True if the log is clearly longer than the session, or if several offsets are possible. Such windows
    need a second reading of the log: see `TraceOverview`. The arguments are those of `align`.
    """
    found = places(overview, starts, lengths)[0]
    if not found:
        return False
    session_s, log_s = float(starts[-1] + lengths[-1] - starts[0]) / NS, overview.bin_s * len(overview.watts)
    return log_s > MOSTLY_SESSION * session_s or len(found) > 1


def _aligned_at(
    expected_s: float, bin_s: float, overview: Overview, windows: Sequence[Window], starts: Ints, lengths: Ints
) -> _Fit:
    """Return how well the session fits at the exact offset that is found near `expected_s`.

    `bin_s`: the precision of `expected_s`. Both are in s. The other arguments are those of `align`.
    """
    latency_s = float(np.median(lengths)) / NS
    middle_s = float(starts[len(starts) // 2]) / NS - expected_s
    ends_s = overview.begin_s, overview.begin_s + overview.bin_s * len(overview.watts)
    middle_s = min(max(middle_s, ends_s[0]), ends_s[1])
    # Beyond half an even interval, an inference looks like the next one.
    interval_ns = even_interval(starts, lengths)
    unlike_s = (interval_ns or math.inf) * NEARER / NS
    found: list[tuple[float, float]] = []  # Time of the log in s, and its offset.
    folds = [_Fold(window, starts, lengths, expected_s) for window in windows]
    for fold in sorted(folds, key=lambda one: abs(one.at_s - middle_s)):
        if found:
            drift = _line(found)[1]
            near_s, near_offset_s = min(found, key=lambda one: abs(one[0] - fold.at_s))
            center_s = near_offset_s + drift * (fold.at_s - near_s)
            # As long as the drift is not known, it may move the offset of a window that is far away.
            far_s = MOST_DRIFT * abs(fold.at_s - near_s) if len(found) < SURE else 0.0
            reach_s = max(min(far_s, unlike_s), latency_s)
        else:
            center_s = expected_s
            reach_s = max(2 * bin_s, min(SEARCHED_S, SEARCHED_INFERENCES * latency_s))
        best_s = fold.best(center_s, reach_s, latency_s / COARSE)
        if best_s is not None:
            found.append((fold.at_s, best_s))
    if not found:
        return _Fit(Alignment(expected_s, confidence=0.0), 0.0, 0.0)
    line = _line(found)
    if interval_ns and (unwrapped := _unwrapped(folds, *line, interval_ns / NS)) != line:
        nearby = ((fold.at_s, unwrapped[0] + unwrapped[1] * fold.at_s, fold) for fold in folds)
        again = [(at_s, fold.best(center_s, latency_s, latency_s / COARSE)) for at_s, center_s, fold in nearby]
        found = [(at_s, best_s) for at_s, best_s in again if best_s is not None] or found
        line = _line(found)
    offset_s, drift = _refined(folds, *line, latency_s)
    agree = sum(abs(offset_s + drift * at_s - best_s) <= AGREES * latency_s for at_s, best_s in found)
    period_s = float(np.median(np.diff(starts))) / NS
    later, is_unique = _inferences_later(folds, offset_s, drift, period_s)
    confidence = agree / max(len(found), LEAST_WINDOWS - 1)
    used = [fold for fold in folds if not fold.is_empty]
    offset_s += later * period_s
    order = float(np.mean([fold.explained_by_order(offset_s + drift * fold.at_s) for fold in used])) if used else 0.0
    whole = float(np.mean([fold.explained(offset_s + drift * fold.at_s) for fold in used])) if used else 0.0
    is_dense = bool(used) and latency_s >= LEAST_SAMPLES * float(np.median([fold.step_s for fold in used]))
    is_foreign = is_dense and _is_foreign(order, whole, lengths)
    return _Fit(
        Alignment(offset_s, drift, confidence, len(found), is_unique=is_unique, is_foreign=is_foreign),
        order,
        len(found) / max(len(used), 1),
    )


def _is_foreign(order: float, explained: float, lengths: Ints) -> bool:
    """Whether the latencies explain the power hardly better in their own order than in others, although they should.

    At even intervals, the inferences of any run of the model fit those of any other. Only the latencies differ. If they
    scatter too little, they cannot tell, and the result is False. `order`: the share of the power's variance by which
    their own order is better. `explained`: the share that the phase explains. `lengths`: the latencies in ns.
    """
    low, high = np.quantile(np.log(lengths), (0.16, 0.84))  # One standard deviation on each side.
    scatter = min(float(high - low) / 2, 0.5)  # More than half an inference blurs the pattern no further.
    expected = OWN_ORDER * scatter * explained
    return expected >= LEAST_CONTRAST and order < expected


def _inferences_later(folds: Sequence["_Fold"], offset_s: float, drift: float, period_s: float) -> tuple[int, bool]:
    """Return `(later, is_certain)`: by how many inferences the trace must move to fit best, and if that is certain.

    Inferences at even intervals look alike, so the offset may be wrong by some of them. Only a part of the trace in
    which the load begins, ends or pauses can show by how many. `later` is certain if each other number fits clearly
    less well in at least one part.
    `folds`: the parts of the trace in full resolution. `offset_s` and `drift`: the offset and drift found so far.
    `period_s`: the usual time from the start of an inference to the next start, in s.
    """
    reach = min(max(math.ceil(SEARCHED_S / period_s), int(SEARCHED_INFERENCES)), MOST_PERIODS)
    tried = range(-reach, reach + 1)
    scores = np.array(
        [[fold.explained(offset_s + drift * fold.at_s + later * period_s) for fold in folds] for later in tried]
    )
    best = min(tried, key=lambda later: (-round(float(scores[later + reach].sum()), 6), abs(later)))
    others = np.delete(scores, best + reach, axis=0)
    # Another number of inferences must explain less in some part of the trace.
    lead = min(float((scores[best + reach] - other).max()) for other in others)
    return best, lead >= LEAST_CONTRAST


def _unwrapped(folds: Sequence["_Fold"], offset_s: float, drift: float, interval_s: float) -> tuple[float, float]:
    """Return `(offset in s, drift)` of the line that fits best if each window may be whole intervals off.

    From one window to the next, a drift moves inferences at even intervals to where others were expected, so that one
    more or one less interval between two windows looks the same: only the order of the latencies tells. `folds`: the
    parts of the trace in full resolution. `offset_s` and `drift`: the line that was found. `interval_s`: the interval.
    """
    used = sorted((fold for fold in folds if not fold.is_empty), key=lambda fold: fold.at_s)
    if len(used) < LEAST_WINDOWS:
        return offset_s, drift

    def score(line: tuple[float, float]) -> float:
        return sum(fold.explained(line[0] + line[1] * fold.at_s) for fold in used) / len(used)

    # The line was found from windows in this distance of each other, or twice this, and so on.
    apart_s = max(float(np.median(np.diff([fold.at_s for fold in used]))), interval_s)
    tilts = {
        round(by * interval_s / (windows * apart_s), 9)
        for windows in range(1, len(used))
        for by in range(-len(used), len(used) + 1)
    }
    # A window where the line fits holds it while it is tilted.
    middle_s = max(used, key=lambda fold: fold.explained(offset_s + drift * fold.at_s)).at_s
    tilted = [(offset_s - tilt * middle_s, drift + tilt) for tilt in tilts if abs(drift + tilt) <= MOST_DRIFT]
    fits = [score(line) for line in tilted]
    # Most tilts move some windows by a part of an interval, and fit no inferences there.
    least, reach = FITS * max(fits, default=0.0), int(SEARCHED_INFERENCES)
    lines = [
        (at + later * interval_s, tilt)
        for (at, tilt), fit in zip(tilted, fits, strict=True)
        for later in range(-reach, reach + 1)
        if fit >= least
    ]
    best = max(lines, key=score, default=(offset_s, drift))
    return best if score(best) - score((offset_s, drift)) >= LEAST_CONTRAST else (offset_s, drift)


def _refined(folds: Sequence["_Fold"], offset_s: float, drift: float, latency_s: float) -> tuple[float, float]:
    """Return the pair `(offset in s, drift)` that explains the power in all parts of the trace best.

    `folds`: the parts of the trace in full resolution. `offset_s` and `drift`: the values near which to search.
    `latency_s`: the median latency in s.
    """
    times = [fold.at_s for fold in folds]
    middle_s, half_s = (max(times) + min(times)) / 2, (max(times) - min(times)) / 2

    def score(shift_s: float, tilt_s: float) -> float:
        """Return the explained share of the power's variance at changed offsets, summed over all parts of the trace.

        `shift_s`, in s, is added to all offsets. `tilt_s`, in s, is added to the offset of the last part of the trace
        and subtracted from the offset of the first part. In between, the change is linear.
        """
        tilts = [tilt_s * (at_s - middle_s) / half_s if half_s else 0.0 for at_s in times]
        pairs = zip(folds, times, tilts, strict=True)
        return sum(fold.explained(offset_s + drift * at_s + shift_s + tilt) for fold, at_s, tilt in pairs)

    shift_s = tilt_s = 0.0
    for reach in (0.5, 0.05, 0.01):
        tried = np.linspace(-reach, reach, 17) * latency_s
        shift_s = max((shift_s + float(one) for one in tried), key=lambda one: score(one, tilt_s))
        if half_s > 0:
            tilt_s = max((tilt_s + float(one) for one in tried), key=lambda one: score(shift_s, one))
    tilt = tilt_s / half_s if half_s else 0.0
    return offset_s + shift_s - tilt * middle_s, drift + tilt


def _line(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return `(offset, drift)` of the line through the points `found`, which are `(time, offset)` pairs in s.

    `offset` is the line's offset in s at time 0. `drift` is the line's slope: the median of the slopes between pairs of
    points. `offset` is the median of each point's offset minus drift x time (Theil, Sen).
    """
    times, offsets = np.array(found).T
    if len(times) < 2:
        return float(offsets[0]), 0.0
    first, second = np.triu_indices(len(times), 1)
    apart = np.abs(times[first] - times[second]) > 1.0
    slopes = ((offsets[first] - offsets[second]) / (times[first] - times[second]))[apart]
    drift = float(np.clip(np.median(slopes), -MOST_DRIFT, MOST_DRIFT)) if len(slopes) else 0.0
    return float(np.median(offsets - drift * times)), drift


def _highest_near(scores: Floats, middle: int) -> int:
    """Return the position of the highest peak. Of several peaks of about this height, take the nearest to `middle`."""
    padded = np.concatenate([[-np.inf], scores, [-np.inf]])
    is_peak = (scores >= padded[:-2]) & (scores >= padded[2:]) & (scores >= scores.max() - LEAST_CONTRAST / 3)
    peaks = np.flatnonzero(is_peak)
    return int(peaks[np.argmin(np.abs(peaks - middle))])


class _Fold:
    """A part of the power trace in full resolution, and the inferences that may have run during it.

    The object computes how well the progress of the inferences explains the power at an offset.
    """

    def __init__(self, window: Window, starts: Ints, lengths: Ints, expected_s: float) -> None:
        self.at_s = float(window.t_s.mean())
        far_s = SEARCHED_S + SEARCHED_INFERENCES * float(np.median(lengths)) / NS + MOST_DRIFT * abs(self.at_s)
        begin, end = ((float(window.t_s[place]) + expected_s) * NS for place in (0, -1))
        begin, end = begin - far_s * NS - lengths.max(), end + far_s * NS
        self._count = int(np.diff(np.searchsorted(starts, [begin, end]))[0])
        # The line and the whole may each be moved by some intervals from where the session was expected.
        more = 2 * SEARCHED_INFERENCES * float(np.median(np.diff(starts)))
        chosen = slice(*np.searchsorted(starts, [begin - more, end + more]))
        self._starts, self._lengths = starts[chosen], lengths[chosen]
        self._at_ns, self._watts = window.t_s * NS, window.watts - window.watts.mean()
        self._total = float(self._watts @ self._watts)

    @property
    def step_s(self) -> float:
        """The usual time between two samples in s."""
        return float(np.median(np.diff(self._at_ns))) / NS

    @property
    def is_empty(self) -> bool:
        return self._count < LEAST_IN_WINDOW or self._total <= 0

    def explained(self, offset_s: float) -> float:
        """Return the share (0 to 1) of the power's variance that the progress of the inferences explains.

        `offset_s`: the tried offset between the trace's times and session times, in s.
        """
        return 0.0 if self.is_empty else self._explained(offset_s, self._lengths)

    def explained_by_order(self, offset_s: float) -> float:
        """Return how much more of the power's variance the latencies explain in their own order than in other orders.

        The result is a share, and 0 or less if the order does not matter. `offset_s`: the tried offset between the
        trace's times and session times, in s.
        """
        if self.is_empty:
            return 0.0
        others = (self._explained(offset_s, np.roll(self._lengths, by)) for by in ORDERS)
        return self._explained(offset_s, self._lengths) - max(others)

    def _explained(self, offset_s: float, lengths: Ints) -> float:
        t_ns = self._at_ns + offset_s * NS
        inside = np.maximum(np.searchsorted(self._starts, t_ns, side="right") - 1, 0)
        phase = (t_ns - self._starts[inside]) / lengths[inside] * PHASES
        row = np.where((phase >= 0) & (phase < PHASES), phase, PHASES).astype(np.int64)
        counts = np.bincount(row, minlength=PHASES + 1)
        sums = np.bincount(row, self._watts, minlength=PHASES + 1)
        return float((sums**2 / np.maximum(counts, 1)).sum()) / self._total

    def best(self, center_s: float, reach_s: float, step_s: float) -> float | None:
        """Return the offset in s that explains most of the power's variance.

        The result is None if this offset explains too little, or hardly more than the offsets near it. `center_s` and
        `reach_s`: the middle and half the length of the searched range in s. `step_s`: the distance in s between the
        offsets that are tried first. Then, smaller steps are tried around the best of these offsets.
        """
        if self.is_empty:
            return None
        offset_s, score = center_s, 0.0
        for reach, step in ((reach_s, step_s), (step_s, step_s / 6)):
            tried = offset_s + np.arange(-round(reach / step), round(reach / step) + 1) * step
            scores = np.array([self.explained(float(one)) for one in tried])
            place = _highest_near(scores, len(tried) // 2)
            offset_s, score = float(tried[place]), float(scores[place])
        chance = PHASES / max(len(self._watts), 1)  # What phases explain of noise.
        if score < LEAST_EXPLAINED + 2 * chance:
            return None
        # Equal inferences without pauses fit at any offset.
        shifts = (part * COARSE * step_s for part in (-1.0, -0.5, 0.5, 1.0))
        rival = max(self.explained(offset_s + shift_s) for shift_s in shifts)
        return offset_s if score - rival >= LEAST_CONTRAST else None
