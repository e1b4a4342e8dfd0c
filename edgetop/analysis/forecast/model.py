"""The thermal model of a board: two heat capacities under a step of load, fitted to temperatures with its uncertainty.

Under a constant load, a body that is equally warm throughout approaches its steady temperature exponentially (Incropera
et al., Fundamentals of Heat and Mass Transfer, chapter 5, the lumped capacitance method). The temperature of a chip
with its heat sink is a sum of two exponentials. Where the heat enters, both have the same sign (Skadron et al. 2004,
Temperature-aware microarchitecture, ACM TACO 1(1)). Passively cooled small boards follow this closely enough: De
Vogeleer, Jouvelot and Memmi 2014, Theoretical analysis of radiative cooling for mobile and embedded systems,
arXiv:1410.0628.

    T(t) = T0 + A (1 - exp(-t/tau)) + B (1 - exp(-t/tau'))

The result is a weighted mean over many pairs of time constants, which form a grid. For one pair, the model is linear in
its other terms. The weight of the pair is its marginal likelihood (Bishop 2006, Pattern Recognition and Machine
Learning, 3.4). Values between the points of the grid are reached with the derivatives of the exponentials. Successive
residuals are correlated, so they count as fewer observations (Bayley and Hammersley 1946, The "effective" number of
independent observations in an autocorrelated time series).
"""

import functools

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.session.distinct import distinct

Floats = npt.NDArray[np.float64]

# The time constants of the grid. A heat sink of a minute in a case of ten is such a pair; without it the rise of the
# heat sink is taken for all.
SLOW_S, FAST_S = np.geomspace(10, 5_000, 24), np.geomspace(2, 60, 9)
APART = 2.5  # least ratio of the slow time constant to the fast one: nearer together they are one
# The prior: of heat sinks and boards under load.
USUAL_SLOW_S, SPREAD_SLOW = 250.0, 1.2  # median, and in nepers
RISE_C, SPREAD_RISE_C, SPREAD_FAST_RISE_C = 25.0, 25.0, 10.0
ONE, TWO, BALANCED = range(3)  # kinds of boards
USUAL_SHARES = (0.45, 0.4, 0.15)  # Share of each kind among boards.
BALANCE_C = 1.0  # Change of temperature, in °C, of a board that is in balance with its load.
FLAT = 1e-4  # 1/variance of the temperature at the beginning
NEVER = 1e8  # 1/variance of an absent term
CONTINUED = 1.3  # steps of the grid that its derivatives reach, as a standard deviation of even ones
LEAST_NOISE_C = 0.03
TRIAL_NOISE_C2 = 0.05  # Variance of the fit from which the noise is estimated.
MOST_CORRELATED = 0.9
AMBIENT_C = 0.7  # standard deviation of the changes of the room, and of anything else that is not modelled
# How far a board is from the model, whatever the noise: standard deviation of the time to the trip in nepers, near to
# it, and far beyond the readings. A fit without noise is close, and no surer for that.
LEAST_OFF, MOST_OFF = 0.05, 0.14
STRAIGHT = 0.95  # A rise that keeps this share of its earlier slope does not bend yet.
LEAST_RANGE_S = 1.0  # to either side: readings come once a second
WEIGHTY = 1e-3  # Points with less than this share of the best point's weight are left out.
TERMS = 5  # T0, A, B, and the derivatives by the logarithms of both time constants
# Standard normal samples for each point, used mirrored too. Drawn once: numpy.random would cost 7 MiB.
SAMPLES = np.array((
    (1.6243453636632417, -0.6117564136500754, -0.5281717522634557, -1.0729686221561705, 0.8654076293246785),
    (-2.3015386968802827, 1.74481176421648, -0.7612069008951028, 0.31903909605709857, -0.2493703754774101),
    (1.462107937044974, -2.060140709497654, -0.3224172040135075, -0.38405435466841564, 1.1337694423354374),
    (-1.0998912673140309, -0.17242820755043575, -0.8778584179213718, 0.04221374671559283, 0.5828152137158222),
    (-1.1006191772129212, 1.1447237098396141, 0.9015907205927955, 0.5024943389018682, 0.9008559492644118),
    (-0.6837278591743331, -0.12289022551864817, -0.9357694342590688, -0.2678880796260159, 0.530355466738186),
    (-0.691660751725309, -0.39675352685597737, -0.6871727001195994, -0.8452056414987196, -0.671246130836819),
    (-0.01266459891890136, -1.1173103486352778, 0.23441569781709215, 1.6598021771098705, 0.7420441605773356),
    (-0.19183555236161492, -0.8876289640848363, -0.7471582937508376, 1.6924546010277466, 0.05080775477602897),
    (-0.6369956465693534, 0.19091548466746602, 2.100255136478842, 0.12015895248162915, 0.6172031097074192),
    (0.3001703199558275, -0.35224984649351865, -1.1425181980221402, -0.3493427224128775, -0.2088942333747781),
    (0.5866231911821976, 0.8389834138745049, 0.9311020813035573, 0.2855873252542588, 0.8851411642707281),
))  # fmt: skip
HALF_SAMPLES = len(SAMPLES)

LOW, HIGH = 0.05, 0.95  # the reported range
WITHIN = 0.2  # of the time to the trip, for its sureness
ROUNDS = 3  # of the iteration to the crossing


@frozen
class Estimate:
    """A value, and the range from `low` to `high` that contains the true value in nine of ten cases.

    An infinite time means never.
    """

    value: float
    low: float
    high: float


@frozen
class Fitted:
    steady_c: Estimate
    trip_s: Estimate  # after the beginning, when the trip is reached
    trip_share: float  # the probability that it is reached at all
    trip_sureness: float  # the probability that it is reached within 20 % of `trip_s.value`


class _Grid:
    """The boards among which the fit chooses, each with its prior probability.

    Such a board has two time constants, or one, or a temperature that hardly changes.
    """

    def __init__(self) -> None:
        self.tau_s = np.concatenate([SLOW_S, FAST_S])
        slow, fast = len(SLOW_S), len(FAST_S)
        two = [(i, slow + j, TWO) for i in range(slow) for j in range(fast) if SLOW_S[i] >= APART * FAST_S[j]]
        points = np.array([(i, slow, kind) for kind in (ONE, BALANCED) for i in range(slow)] + two)
        self.slow, self.fast, kind = points.T
        self.is_balanced, has_fast = kind == BALANCED, kind == TWO
        # The columns of the terms: a constant, an exponential for each time constant, and their derivatives.
        count = len(self.tau_s)
        constant, slow_at, fast_at = np.zeros(len(points), np.int64), 1 + self.slow, 1 + self.fast
        self.columns = np.column_stack([constant, slow_at, fast_at, count + slow_at, count + fast_at])
        self.step_slow, self.step_fast = (float(np.log(of[1] / of[0])) for of in (SLOW_S, FAST_S))
        reach = CONTINUED / np.sqrt(12)
        spread_c = np.where(self.is_balanced, BALANCE_C, SPREAD_RISE_C)
        self.precision = np.full((len(points), TERMS), NEVER)
        self.precision[:, 0], self.precision[:, 1] = FLAT, spread_c**-2
        self.precision[:, 3] = (spread_c * self.step_slow * reach) ** -2
        self.precision[has_fast, 2] = SPREAD_FAST_RISE_C**-2
        self.precision[has_fast, 4] = (SPREAD_FAST_RISE_C * self.step_fast * reach) ** -2
        self.expected = np.zeros((len(points), TERMS))
        self.expected[~self.is_balanced, 1] = RISE_C
        alike = ((kind[:, None] == kind) & (self.slow[:, None] == self.slow)).sum(axis=1)
        self.log_prior = -0.5 * (np.log(self.tau_s[self.slow] / USUAL_SLOW_S) / SPREAD_SLOW) ** 2
        self.log_prior += np.log(np.array(USUAL_SHARES)[kind] / alike) + 0.5 * np.log(self.precision).sum(axis=1)
        self.normal = np.concatenate([SAMPLES, -SAMPLES])


@functools.cache
def _grid() -> _Grid:
    return _Grid()


@frozen
class _Samples:
    """Simulated boards that could have given the readings. `weight` has the probability of each board.

    All arrays have one element per board.
    """

    weight: Floats
    steady_c: Floats
    slow_c: Floats
    fast_c: Floats
    slow_s: Floats
    fast_s: Floats


def fit(t_s: Floats, celsius: Floats, count: Floats, trip_c: float, *, all_alike: bool = True) -> Fitted | None:
    """Return the thermal model fitted to temperatures, or None if no board could have such temperatures.

    The temperatures are means over time blocks of equal length. `t_s` has the mean time of each time block in s since
    the load began. `celsius` has its mean temperature. `count` has its number of readings. `trip_c` is the temperature
    in °C at which the board throttles. `all_alike` is True if all parts of the board heat up together or cool down
    together, as after a rest. It is False after a change to less load or more cooling: one part may cool while another
    still heats up.
    """
    samples = _samples(t_s, celsius, count, all_alike)
    if samples is None:
        return None
    crossing_s = np.maximum(_crossing_s(samples, trip_c), t_s[-1])
    value_s, sureness = _most_probable(crossing_s, samples.weight)
    low_c, middle_c, high_c = _quantiles(samples.steady_c, samples.weight, (LOW, 0.5, HIGH))
    low_s, high_s = _quantiles(_with_model_error(crossing_s, float(t_s[-1])), samples.weight, (LOW, HIGH))
    least_s, most_s = _range_at_least(value_s, float(t_s[-1]))
    least_s = min(least_s, _straight_on_s(t_s, celsius, trip_c))
    return Fitted(
        Estimate(middle_c, min(low_c, middle_c - AMBIENT_C), max(high_c, middle_c + AMBIENT_C)),
        Estimate(value_s, min(low_s, least_s), max(high_s, most_s)),
        float(samples.weight[samples.steady_c > trip_c].sum()),
        sureness,
    )


def _straight_on_s(t_s: Floats, celsius: Floats, trip_c: float) -> float:
    """Return when a straight line through the last readings reaches `trip_c`, in s since the load began.

    The result is infinite if the temperature does not rise, or if its rise slows down. `t_s`, in s, and `celsius`: the
    times and temperatures of the readings.
    """
    third = len(t_s) // 3
    if third == 0:
        return np.inf
    (t0, c0), (t1, c1), (t2, c2) = (
        (float(t_s[part].mean()), float(celsius[part].mean()))
        for part in (slice(0, third), slice(third, 2 * third), slice(2 * third, None))
    )
    first, last = (c1 - c0) / (t1 - t0), (c2 - c1) / (t2 - t1)
    if last <= 0 or last < STRAIGHT * first:
        return np.inf
    now_s = float(t_s[-1])
    return now_s + max(t2 + (trip_c - c2) / last - now_s, 0.0) * float(np.exp(-LEAST_OFF))


def _off(left_s: Floats, seen_s: float) -> Floats:
    """Return how wrong the model may be for each of the times `left_s` that remain until the trip point, in s.

    The result has the standard deviation of the natural logarithm of each time, so 0.1 is about 10 %. `seen_s`: for how
    many seconds the temperature was read.
    """
    return LEAST_OFF + (MOST_OFF - LEAST_OFF) * left_s / (left_s + max(seen_s, 1.0))


def _with_model_error(crossing_s: Floats, now_s: float) -> Floats:
    left_s = np.where(np.isfinite(crossing_s), crossing_s - now_s, 0.0)
    chance = np.tile(_grid().normal[::-1, 1], len(crossing_s) // (2 * HALF_SAMPLES))
    return np.where(np.isfinite(crossing_s), now_s + left_s * np.exp(_off(left_s, now_s) * chance), np.inf)


def _range_at_least(value_s: float, now_s: float) -> tuple[float, float]:
    """Return `(low, high)`: the narrowest range to report for the time at which the board reaches the trip point.

    The range follows from how wrong the model may be. `value_s`: the estimate of that time. `now_s`: the present time.
    All times are in s since the load began.
    """
    if not np.isfinite(value_s):
        return value_s, value_s
    left_s = value_s - now_s
    factor = float(np.exp(_off(np.array([left_s]), now_s)[0]))
    return min(now_s + left_s / factor, value_s - LEAST_RANGE_S), max(now_s + left_s * factor, value_s + LEAST_RANGE_S)


def _samples(t_s: Floats, celsius: Floats, count: Floats, all_alike: bool) -> _Samples | None:
    grid = _grid()
    begin_c = float(celsius[0])
    rises = 1.0 if float((celsius[len(celsius) // 2 :] - begin_c).mean()) >= 0 else -1.0
    rises *= all_alike  # 0: it may be either
    columns = _columns(grid, t_s, celsius - begin_c) * np.sqrt(count / count.mean())
    # Not by a matrix product: that would wake up the threads of the linear algebra.
    products = np.einsum("in,jn->ij", columns, columns)
    normal = products[grid.columns[:, :, None], grid.columns[:, None, :]]
    seen = products[grid.columns, -1]
    expected = grid.expected * rises
    wanted = grid.precision * expected
    noise_c2 = _noise_c2(grid, columns, products, normal, seen, wanted)
    precision = normal / noise_c2 + _diagonal(grid.precision)
    towards = seen / noise_c2 + wanted
    mean = np.linalg.solve(precision, towards[..., None])[..., 0]
    log_weight = 0.5 * (mean * towards).sum(axis=1) - 0.5 * np.linalg.slogdet(precision)[1] + grid.log_prior
    weight = np.exp(log_weight - log_weight.max())
    kept = weight > WEIGHTY
    root = np.linalg.cholesky(precision[kept])
    apart = np.linalg.solve(root.transpose(0, 2, 1), np.broadcast_to(grid.normal.T, (len(root), *grid.normal.T.shape)))
    drawn = mean[kept][:, None, :] + apart.transpose(0, 2, 1)
    ambient_c = AMBIENT_C * np.tile(grid.normal[::-1, 0], len(root))
    return _possible(grid, np.flatnonzero(kept), weight[kept], drawn.reshape(-1, TERMS), begin_c, rises, ambient_c)


def _columns(grid: _Grid, t_s: Floats, rise_c: Floats) -> Floats:
    """Return the matrix of the fit, with a row for each term and a column for each time block of readings.

    The rows are a constant, the exponential of each time constant, the derivative of each exponential, and the
    readings. `grid` has the time constants. `t_s` is the mean time of each time block in s. `rise_c` is its temperature
    rise in °C.

    The mean of an exponential over a time block is its value in the middle, times a factor that is equal for all time
    blocks.
    """
    ratio = t_s / grid.tau_s[:, None]
    left = np.exp(-ratio)
    return np.vstack([np.ones((1, len(t_s))), 1 - left, -ratio * left, rise_c[None, :]])


def _diagonal(of: Floats) -> Floats:
    matrices = np.zeros((*of.shape, TERMS))
    matrices[:, range(TERMS), range(TERMS)] = of
    return matrices


def _noise_c2(grid: _Grid, columns: Floats, products: Floats, normal: Floats, seen: Floats, wanted: Floats) -> float:
    """Return the variance of the readings around the best fit, in °C².

    The variance is increased to allow for the correlation of successive readings. `grid` has the pairs of time
    constants. `columns` is the matrix of the fit, and `products` has the products of its rows. `normal` is the left
    side and `seen` the right side of the normal equations of each pair of time constants. `wanted` is what the prior
    adds to `seen`.
    """
    trial = normal / TRIAL_NOISE_C2 + _diagonal(grid.precision)
    terms = np.linalg.solve(trial, (seen / TRIAL_NOISE_C2 + wanted)[..., None])[..., 0]
    squares = products[-1, -1] - 2 * (terms * seen).sum(axis=1) + np.einsum("pi,pij,pj->p", terms, normal, terms)
    best = int(np.argmin(squares))
    residual = columns[-1] - terms[best] @ columns[grid.columns[best]]
    count, square = len(residual), float(residual @ residual)
    variance = max(square / max(count - TERMS, 1), LEAST_NOISE_C**2)
    correlation = float(residual[1:] @ residual[:-1]) / max(square, 1e-12) + 2 / count
    correlation = min(max(correlation, 0.0), MOST_CORRELATED)
    return variance * (1 + correlation) / (1 - correlation)


def _possible(
    grid: _Grid, point: npt.NDArray[np.int64], weight: Floats, terms: Floats, begin_c: float, rises: float,
    ambient_c: Floats,
) -> _Samples | None:  # fmt: skip
    """Return the simulated boards with their probabilities, or None if all of them are impossible.

    `grid` has the pairs of time constants. `point` has the indexes of the pairs for which boards were simulated, and
    `weight` the weight of each of these pairs. `terms` has a row of five terms for each board: a constant, the slow and
    the fast exponential, and the derivatives of both. `begin_c` is the temperature at the beginning in °C. `ambient_c`
    is a change of the room temperature for each board, in °C.

    A board is impossible if a part of it changes against the direction `rises` (1: heats up, -1: cools down, 0:
    either). It is also impossible if a time constant is 1.5 grid steps or more from its grid point.
    """
    point, weight = np.repeat(point, 2 * HALF_SAMPLES), np.repeat(weight, 2 * HALF_SAMPLES)
    slow_c, fast_c = terms[:, 1], terms[:, 2]
    shift_slow = np.where(grid.is_balanced[point], 0.0, terms[:, 3] / np.where(slow_c == 0, 1.0, slow_c))
    has_fast = np.abs(fast_c) > LEAST_NOISE_C
    shift_fast = np.where(has_fast, terms[:, 4] / np.where(has_fast, fast_c, 1.0), 0.0)
    is_possible = (slow_c * rises >= 0) & ((fast_c * rises >= 0) | ~has_fast)
    is_possible &= (np.abs(shift_slow) < 1.5 * grid.step_slow) & (np.abs(shift_fast) < 1.5 * grid.step_fast)
    if not is_possible.any():
        return None
    shift_slow, shift_fast = (
        np.clip(shift_slow, -grid.step_slow, grid.step_slow), np.clip(shift_fast, -grid.step_fast, grid.step_fast)
    )  # fmt: skip
    weight = np.where(is_possible, weight, 0.0)
    return _Samples(
        weight / weight.sum(),
        begin_c + terms[:, :3].sum(axis=1) + ambient_c,
        slow_c,
        fast_c,
        grid.tau_s[grid.slow[point]] * np.exp(shift_slow),
        grid.tau_s[grid.fast[point]] * np.exp(shift_fast),
    )


def _crossing_s(samples: _Samples, trip_c: float) -> Floats:
    """Return when each simulated board reaches `trip_c`, in s since the load began; infinite if it never does."""
    above = samples.steady_c - trip_c
    with np.errstate(all="ignore"):
        at_s = samples.slow_s * np.log(samples.slow_c / above)
        for _ in range(ROUNDS):  # correct for the rise that the fast part still lacks then
            left = samples.fast_c * np.exp(-np.maximum(at_s, 0) / samples.fast_s)
            at_s = samples.slow_s * np.log(samples.slow_c / (above - left))
    return np.where((above > 0) & ~np.isnan(at_s), at_s, np.inf)


def _quantiles(values: Floats, weight: Floats, shares: tuple[float, ...]) -> list[float]:
    order = np.argsort(values)
    place = np.searchsorted(np.cumsum(weight[order]), np.array(shares))
    return [float(value) for value in values[order][np.minimum(place, len(values) - 1)]]


def _most_probable(crossing_s: Floats, weight: Floats) -> tuple[float, float]:
    """Return the most probable time in s at which the trip point is reached, and the probability of this time.

    The probability is the sum over all boards whose time is within 20 % of the returned time. `crossing_s` has the time
    of each simulated board; infinite means never. `weight` has the probability of each board. If all times are
    infinite, the result is infinity and 0.
    """
    tried = distinct(np.array(_quantiles(crossing_s, weight, tuple(np.linspace(LOW, HIGH, 19)))))
    tried = tried[np.isfinite(tried)]
    if not len(tried):
        return np.inf, 0.0
    near = np.abs(crossing_s[None, :] / tried[:, None] - 1) <= WITHIN
    agree = (near * weight).sum(axis=1)
    best = int(np.argmax(agree))
    return float(tried[best]), float(agree[best])
