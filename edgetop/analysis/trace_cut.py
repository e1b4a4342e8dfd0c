"""Divides a fast power trace by inference and operator: energy, peaks, and the mean waveform of an inference."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgetop.analysis.blocks import Mean
from edgetop.analysis.energy import LEAST_INFERENCES
from edgetop.analysis.trace_alignment import Alignment
from edgetop.frozen import frozen
from edgetop.session.seconds import NS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PHASES = 200  # Points of the mean waveform.
# Share of an inference that the samples of a power trace must cover. Choice: the rest is filled in with the mean.
# Larger: one lost sample drops an inference; smaller: an unknown peak is taken for the mean.
LEAST_COVERED = 0.95
# Number of samples in an inference from which its waveform is shown. Choice: an operator of a tenth then has a sample.
# Larger: slow instruments show no waveform; smaller: the waveform is interpolated.
LEAST_SAMPLES = 10.0
BLOCKS = 20  # Blocks of inferences, from which the interval follows.
T_19 = 2.093  # Student's t, 97.5 %, for BLOCKS - 1 degrees of freedom.
# Time between two samples beyond which the power is unknown, as a multiple of the usual time. Choice: instruments drop
# some samples in a row. Larger: a pause of the instrument is filled with its last value; smaller: lost samples are
# gaps.
GAP = 20.0

Why = Literal["few-inferences", "few-samples", "not-aligned", "negative"]


@frozen
class Peak:
    """The highest sample of a power trace, with its time, and its place in an inference: 0 is the start, 1 the end."""

    watts: float
    t_s: float  # Session time.
    inference: int  # Number of the inference in the recording, from 0.
    phase: float  # Place in the inference, from 0 to 1.
    operator: int | None  # Position of the operator in run order; None if unknown.


@frozen
class OperatorPart:
    position: int
    energy_mj: float
    mean_w: float
    max_w: float  # Highest point of the mean waveform.


@frozen
class TraceView:
    """The energy, power and peaks of the inferences of a session, from a power trace.

    An unknown figure is None, and `unknown` says why.
    """

    alignment: Alignment
    samples: int  # In the inferences that are covered.
    interval_s: float | None  # Usual time between two samples.
    inferences: int  # That samples cover.
    of: int  # Inferences in the recording.
    energy_j: Mean | None = None  # Of one inference.
    mean_w: float | None = None  # During inferences.
    between_w: float | None = None  # Between inferences; None if they follow each other without a pause.
    peak: Peak | None = None
    usual_peak_w: float | None = None  # Median over the inferences of their highest samples.
    usual_peak_phase: float | None = None  # Median of the places of these.
    waveform_w: tuple[float, ...] = ()  # Mean power in PHASES equal phases of an inference.
    waveform_max_w: tuple[float, ...] = ()  # Highest sample in each phase.
    operators: tuple[OperatorPart, ...] = field(default=())
    unknown: Why | None = None


class TraceCut:
    """Adds up the energy of inferences from a power trace, in memory that does not grow with the trace.

    Pass the pieces of the trace to `add` in the order of time. `view` returns the result.
    """

    def __init__(self, alignment: Alignment, starts: Ints, lengths: Ints) -> None:
        """Begin without samples.

        `alignment` converts the trace's times to session times. `starts` and `lengths`: start and latency of the
        measured inferences in ns, in order of time.
        """
        self._alignment, self._starts, self._lengths = alignment, starts, lengths
        count = len(starts)
        self._joules, self._covered_ns = np.zeros(count), np.zeros(count)
        self._most_w, self._most_phase, self._most_ns = np.full(count, -np.inf), np.zeros(count), np.zeros(count)
        self._samples = np.zeros(count, np.int64)
        self._phase_joules, self._phase_ns = np.zeros(PHASES), np.zeros(PHASES)
        self._phase_max_w = np.full(PHASES, -np.inf)
        self._between_joules = self._between_ns = 0.0
        self._last: tuple[float, float] | None = None  # Session time in ns and W of the last sample.
        self._interval_ns = 0.0

    def add(self, t_s: Floats, watts: Floats) -> None:
        """Add samples. `t_s`: their times in the instrument's log in s, ascending. `watts`: their power in W."""
        t_ns = self._alignment.session_ns(t_s)
        if self._last is not None:
            t_ns, watts = np.concatenate([[self._last[0]], t_ns]), np.concatenate([[self._last[1]], watts])
        if len(t_ns) < 2:
            self._last = (float(t_ns[-1]), float(watts[-1])) if len(t_ns) else self._last
            return
        self._last = float(t_ns[-1]), float(watts[-1])
        lasts = np.diff(t_ns)
        if not self._interval_ns:
            self._interval_ns = float(np.median(lasts))
        # A sample belongs to the inference of its own time, as in the alignment, and stands for the time until the next
        # one. At a later time, an inference would lack its end and have the pause before it. Across a gap, the power is
        # unknown.
        is_used = (lasts > 0) & (lasts <= GAP * max(self._interval_ns, 1.0))
        self._count(t_ns[:-1][is_used], watts[:-1][is_used], lasts[is_used])

    def _count(self, at_ns: Floats, watts: Floats, lasts_ns: Floats) -> None:
        starts, lengths = self._starts, self._lengths
        if not len(at_ns) or not len(starts):
            return
        place = np.searchsorted(starts, at_ns, side="right") - 1
        inside = np.maximum(place, 0)
        phase = (at_ns - starts[inside]) / lengths[inside]
        runs = (place >= 0) & (phase < 1)
        rests = ~runs & (at_ns >= starts[0]) & (at_ns <= starts[-1])
        self._between_joules += float(watts[rests] @ lasts_ns[rests]) / NS
        self._between_ns += float(lasts_ns[rests].sum())
        if not runs.any():
            return
        place = place[runs]
        phase, watts, lasts_ns, at_ns = (of[runs] for of in (phase, watts, lasts_ns, at_ns))
        joules, row = watts * lasts_ns / NS, np.minimum((phase * PHASES).astype(np.int64), PHASES - 1)
        self._phase_joules += np.bincount(row, joules, PHASES)
        self._phase_ns += np.bincount(row, lasts_ns, PHASES)
        order = np.argsort(row, kind="stable")
        rows, begins = np.unique(row[order], return_index=True)
        self._phase_max_w[rows] = np.maximum(self._phase_max_w[rows], np.maximum.reduceat(watts[order], begins))
        # Samples are in order of time, so those of an inference stand together.
        which, begins = np.unique(place, return_index=True)
        self._joules[which] += np.add.reduceat(joules, begins)
        self._covered_ns[which] += np.add.reduceat(lasts_ns, begins)
        sizes = np.diff(np.append(begins, len(place)))
        self._samples[which] += sizes
        most = np.maximum.reduceat(watts, begins)
        is_first_most = np.flatnonzero(watts == np.repeat(most, sizes))
        firsts = is_first_most[np.searchsorted(is_first_most, begins)]
        higher = most > self._most_w[which]
        self._most_w[which[higher]] = most[higher]
        self._most_phase[which[higher]] = phase[firsts[higher]]
        self._most_ns[which[higher]] = at_ns[firsts[higher]]

    def view(self, shares: Sequence[float] = ()) -> TraceView:
        """Return the energy and the power of the inferences.

        `shares`: the share (0 to 1) of each operator in the time of an inference, in the order in which they run. The
        shares add up to 1. Without shares, the result has no figures of operators.
        """
        is_covered = self._covered_ns >= LEAST_COVERED * self._lengths
        count, of = int(np.count_nonzero(is_covered)), len(self._starts)
        samples = int(self._samples[is_covered].sum())
        known = TraceView(self._alignment, samples, self._interval_ns / NS or None, count, of)
        why: Why | None = None
        if not self._alignment.is_certain:
            why = "not-aligned"
        elif count < LEAST_INFERENCES:
            why = "few-inferences"
        elif samples < LEAST_SAMPLES * count:
            why = "few-samples"
        if why is not None:
            return replace(known, unknown=why)
        joules = (self._joules * self._lengths / np.maximum(self._covered_ns, 1))[is_covered]
        if joules.sum() <= 0:
            return replace(known, unknown="negative")
        waveform = self._waveform()
        borders = np.concatenate([[0.0], np.cumsum(shares)]) if len(shares) else np.zeros(1)
        highest = int(np.argmax(np.where(is_covered, self._most_w, -np.inf)))
        return replace(
            known,
            energy_j=_mean(joules),
            mean_w=float(joules.sum() / self._lengths[is_covered].sum() * NS),
            between_w=self._between_joules / self._between_ns * NS if self._between_ns > 0 else None,
            peak=Peak(
                float(self._most_w[highest]), float(self._most_ns[highest]) / NS, highest,
                float(self._most_phase[highest]), _operator_at(float(self._most_phase[highest]), borders),
            ),
            usual_peak_w=float(np.median(self._most_w[is_covered])),
            usual_peak_phase=float(np.median(self._most_phase[is_covered])),
            waveform_w=tuple(waveform.tolist()),
            waveform_max_w=tuple(np.where(np.isinf(self._phase_max_w), waveform, self._phase_max_w).tolist()),
            operators=_parts(waveform, borders, float(self._lengths[is_covered].mean()) / NS),
        )  # fmt: skip

    def _waveform(self) -> Floats:
        """Return the mean power in W in each of PHASES equally long parts of an inference.

        The power in a part without samples is interpolated.
        """
        known = np.flatnonzero(self._phase_ns > 0)
        return np.interp(np.arange(PHASES), known, self._phase_joules[known] / self._phase_ns[known] * NS)


def _mean(joules: Floats) -> Mean:
    """Return the mean of energies in J, with its 95 % interval.

    The interval is computed from the means of successive blocks of energies.
    """
    means = np.array([block.mean() for block in np.array_split(joules, BLOCKS)])
    return Mean(float(joules.mean()), T_19 * float(means.std(ddof=1)) / math.sqrt(BLOCKS), BLOCKS)


def _operator_at(phase: float, borders: Floats) -> int | None:
    return min(int(np.searchsorted(borders, phase, side="right")), len(borders) - 1) - 1 if len(borders) > 1 else None


def _parts(waveform: Floats, borders: Floats, length_s: float) -> tuple[OperatorPart, ...]:
    """Return the energy of each operator from the mean waveform of an inference.

    `waveform`: the mean power in W in each of PHASES equally long parts of an inference. `borders`: the places in the
    inference where operators begin and end, from 0 to 1. `length_s`: the mean latency in s.
    """
    edges = np.linspace(0, 1, PHASES + 1)
    joules = np.interp(borders, edges, np.concatenate([[0.0], np.cumsum(waveform)]) / PHASES * length_s)
    parts = []
    for position, (begin, end) in enumerate(itertools.pairwise(borders.tolist())):
        energy_j, lasts_s = float(joules[position + 1] - joules[position]), (end - begin) * length_s
        inside = waveform[int(begin * PHASES) : max(int(begin * PHASES) + 1, math.ceil(end * PHASES))]
        mean_w = energy_j / lasts_s if lasts_s > 0 else 0.0
        parts.append(OperatorPart(position, energy_j * 1e3, mean_w, float(inside.max(initial=mean_w))))
    return tuple(parts)
