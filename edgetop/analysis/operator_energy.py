"""The energy of each operator, from power readings that are means over times about as long as an inference.

A reading is the mean power since the previous reading. It covers a part of one inference, or of several. An inference
is cut into PHASES equal phases. A reading is then the sum, over the phases, of each phase's power times the phase's
share of the reading's time. Over many readings these shares differ, so the power of each phase follows by least
squares. `PhasePower` sums up the normal equations for the phases. The borders of the operators, which are known from
profiling rounds, are applied when a result is requested. Operators whose power cannot be told apart are joined with
their neighbours.

A reading may be older than its time stamp, because a chip converts at its own pace. If inferences run without pauses,
this lag only moves the power to other phases, so only the borders of the operators reveal the lag. So the equations are
summed up for many lags. The result is the mean over the lags, weighted by how well each lag fits the operators.
"""

from collections import deque
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgetop.analysis.operator_shares import OperatorView
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.engine_events import ProfileBurst
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.median import median
from edgetop.session.records import MEASURE, of_sensors
from edgetop.session.seconds import NS

# Number of equal phases of an inference: a phase is two percent of an inference, as the least operators shown. More
# phases take more memory and time.
PHASES = 48
# Lags of readings that are tried, as shares of the usual time between two readings: up to half of a reading, in steps
# that move borders by a percent or two.
LAGS = tuple(step / 32 for step in range(17))
# How much a lag counts that is not tried, between two. Measured, as for BORDER below.
BETWEEN = (0.15, 0.7, 0.15)
# Largest number of inferences in a reading from which operators are told apart. Computed: the part of a reading that
# differs falls with this number, and its information with the square. Larger: more time, for nothing; smaller: a model
# whose operators could be told apart is refused.
MOST_INFERENCES = 20.0
# Number of blocks of readings from which the precision follows (jackknife): as many as the t statistic needs.
BLOCKS = 8
# Number of power readings from which operators have an energy. Choice: more than ten for each phase. Larger: short
# sessions have no figures; smaller: intervals are too narrow.
LEAST_READINGS = 1_024
LEAST_AT_ONCE = 64  # Number of readings that are added at once.
# Largest half width of the 95 % interval of a group's energy, as a share of it. Choice: a quarter still tells which
# operators matter. Larger: figures that say little are shown; smaller: operators are joined that could be told apart.
TOLD_APART = 0.25
# Number of shares that are drawn from their intervals, to see how much they matter.
DRAWS = 40
# Standard error of an operator's share through the phases, as a share of an inference. With it, intervals of 95 % held
# the truth in 95 to 98 % of generated sessions.
BORDER = 1 / (20 * PHASES)
MOST_OPERATORS = 200  # Of longer models the shortest neighbours are joined at once.
# Difference from one call in an inference from which an operator has no single place in it. Choice: a call in a hundred
# inferences is a rounding error. Larger: the energy of two places is given to one; smaller: rounding refuses figures.
REPEATED = 0.01
WAIT_NS = 3 * NS  # Readings and events of a second may come later than its inferences.
MOST_PENDING = 100_000
LEARNED = 9  # Number of readings from which the usual time between two of them is learned.
EMPTY: npt.NDArray[np.int64] = np.empty(0, np.int64)
MOST_W, MOST_RATE = 1e6, 1e13
T_7 = 2.365  # Student's t, 97.5 %, for BLOCKS - 1 degrees of freedom.

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Why = Literal["no-meter", "several-at-once", "few-readings", "slow-readings", "no-operators", "repeated", "tokens"]


@frozen
class OperatorEnergy:
    """The energy in mJ of a group of neighbouring operators in one inference. Most groups consist of one operator."""

    first: int  # Position of the first operator in run order.
    last: int
    energy_mj: float
    ci95_mj: tuple[float, float]


@frozen
class NotTold:
    """The reason why the energy of the operators is unknown."""

    why: Why
    interval_ns: int = 0  # Usual time between two readings, if they are too slow.
    latency_ns: float = 0.0  # Mean latency of an inference, if readings are too slow for it.
    readings: int = 0  # Number of readings, if they are too few.


@frozen
class OperatorEnergies:
    groups: tuple[OperatorEnergy, ...] = ()
    unknown: NotTold | None = None


@frozen
class _Sums:
    """The least-squares equations of some power readings, once for each assumed delay (lag) of the readings.

    The last row and the last column of the equations are for the time between inferences.
    """

    count: int
    squares: Floats  # Shape (lags, PHASES + 1, PHASES + 1).
    products: Floats  # With the watts; shape (lags, PHASES + 1).
    watts: float  # Sum of the squared watts.

    def __add__(self, other: "_Sums") -> "_Sums":
        return _Sums(
            self.count + other.count, self.squares + other.squares, self.products + other.products,
            self.watts + other.watts,
        )  # fmt: skip


class PhasePower:
    """Estimates the energy of each operator, from the inferences and the readings of the board's power."""

    def __init__(self, sensor_id: str | None = None) -> None:
        """Begin without data. `sensor_id`: the sensor whose readings to use, or None for the total power."""
        self._sensor_id, self._most = sensor_id, MOST_W if sensor_id is None else MOST_RATE
        self._place: int | None = None  # Of the sensor.
        self._why: Why = "no-meter"
        self._starts: Ints = np.empty(0, np.int64)
        self._lengths: Ints = np.empty(0, np.int64)
        self._t_ns: Ints = np.empty(0, np.int64)  # Of the readings that wait for inferences.
        self._watts: Floats = np.empty(0)
        self._rounds: deque[tuple[int, int]] = deque(maxlen=1024)  # Begin and end of the latest profiling rounds.
        self._interval_ns = 0  # Usual time between two readings; 0: not known yet.
        self._blocks: list[_Sums] = []
        self._block_size = 64
        self._open: list[_Sums] = []
        self.count = 0  # Number of inferences.
        self.sum_ns = 0

    def fold(self, batch: Batch) -> None:
        if batch.manifest is not None:
            self._register(batch.manifest)
        if self._place is None:
            return
        self._rounds.extend(
            (event.t_ns, event.t_ns + event.body.duration_ns)
            for event in batch.events if isinstance(event.body, ProfileBurst)
        )  # fmt: skip
        runs = batch.inferences[(batch.inferences["phase"] == MEASURE) & (batch.inferences["latency_ns"] > 0)]
        if len(runs):
            if runs["stream"].any():
                self._refuse("several-at-once")
                return
            self.count += len(runs)
            self.sum_ns += int(runs["latency_ns"].sum())
            if self._is_too_slow():  # Inferences of fast models would fill the memory for nothing.
                self._starts, self._lengths, self._t_ns, self._watts = EMPTY, EMPTY, EMPTY, np.empty(0)
                return
            self._starts = np.concatenate([self._starts, runs["t_ns"].astype(np.int64)])[-MOST_PENDING:]
            self._lengths = np.concatenate([self._lengths, runs["latency_ns"].astype(np.int64)])[-MOST_PENDING:]
        readings = of_sensors(batch.readings, [self._place])
        values = readings["value"].astype(np.float64)
        known = np.abs(values) < self._most  # False for NaN
        if known.any():
            self._t_ns = np.concatenate([self._t_ns, readings["t_ns"][known].astype(np.int64)])[-MOST_PENDING:]
            self._watts = np.concatenate([self._watts, values[known]])[-MOST_PENDING:]
        self._settle(batch.until_ns - WAIT_NS)

    def _register(self, manifest: Manifest) -> None:
        if manifest.generation is not None:  # A request runs the operators once for each token.
            self._refuse("tokens")
            return
        if (
            self._why == "several-at-once"
            or manifest.load.streams > 1
            or manifest.ab is not None
            or manifest.watched is not None
        ):
            self._refuse("several-at-once")
            return
        sensors = enumerate(manifest.sensors)
        self._place = next((n for n, info in sensors if self._is_wanted(info)), None)

    def _is_wanted(self, info: SensorInfo) -> bool:
        """Whether the readings of the sensor `info` are used.

        With a chosen sensor, only its readings are used. Otherwise, those of the board's total power are used if each
        of them is the mean since the previous reading.
        """
        if self._sensor_id is not None:
            return info.id == self._sensor_id
        return info.kind == "power" and info.role == "total" and bool(info.averages)

    @property
    def _mean_ns(self) -> float:
        return self.sum_ns / self.count

    def _is_too_slow(self) -> bool:
        """Whether one reading covers too many inferences to tell operators apart. False while this is unknown."""
        return self._interval_ns > MOST_INFERENCES * self._mean_ns

    def _refuse(self, why: Why) -> None:
        self._place, self._why, self._blocks, self._open = None, why, [], []

    def _settle(self, until_ns: int) -> None:
        """Add the readings up to the session time `until_ns`, in ns.

        All inferences up to this time must have arrived.
        """
        due = int(np.searchsorted(self._t_ns, until_ns))
        if not self._interval_ns and len(self._t_ns) >= LEARNED:
            self._interval_ns = int(median(np.diff(self._t_ns)))
        if due < LEAST_AT_ONCE or not len(self._starts):
            return
        order = np.argsort(self._starts, kind="stable")
        starts, lengths = self._starts[order], self._lengths[order]
        t_ns = self._t_ns[:due]
        longest_ns = round(LAGS[-1] * self._interval_ns)
        if self._interval_ns <= MOST_INFERENCES * median(lengths):
            since, to, watts = t_ns[:-1], t_ns[1:], self._watts[1:due]
            is_used = (to > since) & (to - since <= 3 * self._interval_ns) & (since - longest_ns >= starts[0])
            while self._rounds and self._rounds[0][1] < t_ns[0] - longest_ns:
                self._rounds.popleft()
            for begin, end in self._rounds:
                is_used &= (to < begin) | (since - longest_ns > end)
            if is_used.any():
                used = since[is_used], to[is_used], watts[is_used], starts, lengths
                self._add(self._equations(*used))
        self._t_ns, self._watts = self._t_ns[due - 1 :], self._watts[due - 1 :]
        # The inference that runs at the next reading's beginning, less the longest lag, is still needed.
        kept = max(0, int(np.searchsorted(starts, int(self._t_ns[0]) - longest_ns)) - 1)
        self._starts, self._lengths = starts[kept:], lengths[kept:]

    def _equations(self, since: Ints, to: Ints, watts: Floats, starts: Ints, lengths: Ints) -> _Sums:
        squares, products = [], []
        for lag in LAGS:
            lag_ns = round(lag * self._interval_ns)
            spent = _spent(to - lag_ns, starts, lengths) - _spent(since - lag_ns, starts, lengths)
            shares = spent / (to - since)[:, np.newaxis]
            rows = np.concatenate([shares, 1 - shares.sum(axis=1, keepdims=True)], axis=1)
            squares.append(rows.T @ rows)
            products.append(rows.T @ watts)
        return _Sums(len(watts), np.array(squares), np.array(products), float(watts @ watts))

    def _add(self, sums: _Sums) -> None:
        self._open.append(sums)
        if sum(of.count for of in self._open) < self._block_size:
            return
        self._blocks.append(_joined(self._open))
        self._open = []
        if len(self._blocks) == 2 * BLOCKS:
            self._blocks = [one + other for one, other in zip(self._blocks[::2], self._blocks[1::2], strict=True)]
            self._block_size *= 2

    def view(self, operators: Sequence[OperatorView]) -> OperatorEnergies:
        """Return the energy of the operators, or the reason why it is unknown.

        `operators`: all operators in the order in which they run.
        """
        if self._place is None:
            return _unknown(self._why)
        if not operators or not self.count:
            return _unknown("no-operators")
        if any(abs(operator.calls - 1) > REPEATED and operator.share > 1 / PHASES for operator in operators):
            return _unknown("repeated")
        mean_ns, count = self._mean_ns, sum(of.count for of in (*self._blocks, *self._open))
        too_slow = OperatorEnergies(unknown=NotTold("slow-readings", self._interval_ns, mean_ns))
        if self._is_too_slow():
            return too_slow
        if len(self._blocks) < BLOCKS or count < LEAST_READINGS:
            return OperatorEnergies(unknown=NotTold("few-readings", readings=count))
        size = len(self._blocks) // BLOCKS
        parts = [_joined(self._blocks[n * size : (n + 1) * size]) for n in range(BLOCKS)]
        groups = _told_apart(parts, operators, mean_ns)
        return OperatorEnergies(groups) if len(groups) > 1 or len(operators) == 1 else too_slow


def _unknown(why: Why) -> OperatorEnergies:
    return OperatorEnergies(unknown=NotTold(why))


def _joined(sums: Sequence[_Sums]) -> _Sums:
    whole = sums[0]
    for other in sums[1:]:
        whole = whole + other
    return whole


def _spent(at_ns: Ints, starts: Ints, lengths: Ints) -> Floats:
    """Return for how many ns each phase has run, over all inferences, until each of the times `at_ns`.

    A phase is one of PHASES equal parts of an inference. The result has the shape (times, PHASES). `starts`: the start
    of each inference. `lengths`: its latency. All times are in ns.
    """
    before = np.concatenate([[0], np.cumsum(lengths)])
    place = np.searchsorted(starts, at_ns, side="right") - 1
    inside = np.maximum(place, 0)
    each = (lengths[inside] / PHASES)[:, np.newaxis]
    into = np.where(place >= 0, at_ns - starts[inside], 0)[:, np.newaxis]
    whole = np.where(place >= 0, before[inside], 0)[:, np.newaxis] / PHASES
    return np.asarray(whole + np.clip(into - np.arange(PHASES) * each, 0.0, each))


def _told_apart(
    blocks: Sequence[_Sums], operators: Sequence[OperatorView], mean_ns: float
) -> tuple[OperatorEnergy, ...]:
    """Return the energy of each group of neighbouring operators. The groups are as small as the readings allow.

    `blocks`: the equations of the readings, for successive times. `operators`: all operators in the order in which they
    run. `mean_ns`: the mean latency of an inference in ns. The power of each operator is estimated by itself, and the
    energy of a group is the sum over its operators. One power for a whole group would be wrong, and would distort the
    power of its neighbours.
    """
    shares = np.array([operator.share for operator in operators])
    errors = np.hypot([_share_error(operator) for operator in operators], BORDER)
    groups = _short_joined(shares)
    energy, covariance = _estimate(blocks, shares, errors, groups, mean_ns)
    while True:
        half = T_7 * np.sqrt(np.maximum(np.diag(covariance), 1e-18))
        if len(groups) == 1 or (half <= TOLD_APART * np.abs(energy)).all():
            break
        rough = half / np.maximum(np.abs(energy), 1e-12)
        worst = int(np.argmax(rough))
        # The rougher neighbour is joined, so that a large operator keeps its own figure.
        first = min(worst, max((n for n in (worst - 1, worst + 1) if 0 <= n < len(groups)), key=lambda n: rough[n]))
        groups = [*groups[:first], (groups[first][0], groups[first + 1][1]), *groups[first + 2 :]]
        energy = np.add.reduceat(energy, _without(len(energy), first + 1))
        for axis in (0, 1):
            covariance = np.add.reduceat(covariance, _without(covariance.shape[axis], first + 1), axis=axis)
    return tuple(
        OperatorEnergy(first, last - 1, float(joules), (float(joules - by), float(joules + by)))
        for (first, last), joules, by in zip(groups, energy.tolist(), half.tolist(), strict=True)
    )


def _without(count: int, place: int) -> Ints:
    return np.delete(np.arange(count), place)


def _share_error(operator: OperatorView) -> float:
    low, high = operator.share_ci95 or (operator.share, operator.share)
    return (high - low) / (2 * 1.96)


def _short_joined(shares: Floats) -> list[tuple[int, int]]:
    """Return groups of neighbouring operators as `(first, last + 1)` pairs. Each group lasts at least one phase.

    `shares`: the share (0 to 1) of each operator in the time of an inference, which is cut into PHASES phases.
    """
    least = 1 / PHASES if len(shares) <= MOST_OPERATORS else 2 / PHASES
    groups, first = [], 0
    for place in range(len(shares)):
        if shares[first : place + 1].sum() >= least * shares.sum():
            groups.append((first, place + 1))
            first = place + 1
    if first < len(shares):  # The rest belongs to the last group.
        groups[-1:] = [(groups[-1][0] if groups else 0, len(shares))]
    return groups


def _estimate(
    blocks: Sequence[_Sums], shares: Floats, errors: Floats, groups: Sequence[tuple[int, int]], mean_ns: float
) -> tuple[Floats, Floats]:
    """Return the energy of each group of operators in mJ, and the covariance matrix of these estimates.

    `blocks`: the equations of the readings, for successive times. `shares`: the share of each operator in an inference.
    `errors`: the standard error of each share. `groups`: `(first, last + 1)` of each group. `mean_ns`: the mean latency
    in ns. The covariance has three parts: the noise of the readings (each of `blocks` is left out in turn), the error
    of the operators' shares (they are drawn anew at random), and the lag of the readings.
    """
    whole, length = _joined(blocks), _lengths(shares, groups)
    energy, weights, each = _over_lags(whole, length, mean_ns)
    without = np.array([_over_lags(_less(whole, block), length, mean_ns, weights)[0] for block in blocks])
    apart = without - without.mean(axis=0)
    covariance = (len(blocks) - 1) / len(blocks) * (apart.T @ apart)
    if errors.any():
        random = np.random.default_rng(0)
        drawn = np.abs(shares + errors * random.standard_normal((DRAWS, len(shares))))
        moved = np.array([_over_lags(whole, _lengths(one, groups), mean_ns, weights)[0] for one in drawn]) - energy
        covariance = covariance + moved.T @ moved / DRAWS
    off = each - energy
    return energy, np.asarray(covariance + (off.T * weights) @ off)


def _less(whole: _Sums, block: _Sums) -> _Sums:
    return _Sums(
        whole.count - block.count, whole.squares - block.squares, whole.products - block.products,
        whole.watts - block.watts,
    )  # fmt: skip


def _lengths(shares: Floats, groups: Sequence[tuple[int, int]]) -> Floats:
    """Return the share (0 to 1) of each group of operators in the time of an inference.

    `shares`: the share of each operator. `groups`: `(first, last + 1)` of each group.
    """
    length = np.array([shares[first:end].sum() for first, end in groups])
    return np.asarray(length / length.sum())


def _over_lags(
    sums: _Sums, length: Floats, mean_ns: float, weights: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return three arrays: the energy of each group in mJ, the weight of each lag, and the energy by lag and group.

    The first array is the mean of the third over the lags, weighted by the second. `sums`: the equations of the
    readings, a set for each lag. `length`: the share of each group in the time of an inference. `mean_ns`: the mean
    latency in ns. `weights`: the weights of the lags; None to compute them from how well each lag fits.
    """
    within = _within(length)
    each, misfit = [], []
    for squares, products in zip(sums.squares, sums.products, strict=True):
        normal, right = within.T @ squares @ within, within.T @ products
        watts, missed = _solved(normal, right, sums.watts)
        each.append(watts[:-1] * length * mean_ns / 1e6)
        misfit.append(missed)
    if weights is None:
        likelihood = -0.5 * sums.count * np.log(np.array(misfit) / min(misfit))
        weights = np.convolve(np.exp(likelihood), BETWEEN, "same")  # The lag may lie between two that were tried.
        weights = weights / weights.sum()
    energies = np.array(each)
    return np.asarray(weights @ energies), weights, energies


def _solved(normal: Floats, right: Floats, squared: float) -> tuple[Floats, float]:
    """Return `(solution, residuals)` of normal equations. `residuals` is the sum of the squared residuals.

    `normal`: the matrix of the equations. `right`: their right side. `squared`: the sum of the squared readings.
    """
    found: Floats = np.asarray(np.linalg.lstsq(normal, right, rcond=1e-12)[0], np.float64)
    return found, max(squared - 2 * float(found @ right) + float(found @ normal @ found), 1e-12)


def _within(length: Floats) -> Floats:
    """Return a matrix with the share of each phase (row) that belongs to each group of operators (column).

    The last row and the last column are for the time between inferences. `length`: the share of each group in the time
    of an inference.
    """
    edges = np.concatenate([[0.0], np.cumsum(length)]) * PHASES
    phase = np.arange(PHASES)[:, np.newaxis]
    overlap = np.clip(np.minimum(phase + 1, edges[1:]) - np.maximum(phase, edges[:-1]), 0.0, 1.0)
    found = np.zeros((PHASES + 1, len(length) + 1))
    found[:PHASES, :-1], found[PHASES, -1] = overlap, 1.0
    return found
