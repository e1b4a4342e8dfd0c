"""The slope of a series, whatever a few of its points are, and how well it is known."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Z_975 = 1.96
LEAST_POINTS = 10  # under which the interval is not told


@dataclass(frozen=True, slots=True)
class Slope:
    """A change in a unit of time, with its 95 % confidence interval."""

    value: float
    low: float
    high: float


def slope_between(t: Floats, y: Floats) -> float:
    """The median slope of all pairs (Theil 1950, A rank-invariant method of linear regression; Sen 1968)."""
    i, j = np.triu_indices(len(t), 1)
    return float(np.median((y[j] - y[i]) / (t[j] - t[i])))


def robust_slope(t: Floats, y: Floats) -> Slope | None:
    """The same of points at even times, with an interval; None where they are too few.

    What a process holds is what it held before and a change: a line drawn through such a series seems sure where
    nothing is. So the interval is that of a walk with drift, by the scatter of its steps, of which
    the slope of a line has 6/5 of the variance of their mean (Durlauf and Phillips 1988, Trends
    versus random walks in time series analysis, Econometrica 56(6)). Where each point errs by
    itself it is wider than need be.
    """
    if len(t) < LEAST_POINTS:
        return None
    value = slope_between(t, y)
    steps = np.diff(y) / np.diff(t)
    half = _t_975(len(steps) - 1) * math.sqrt(6 / 5 / len(steps)) * float(steps.std(ddof=1))
    return Slope(value, value - half, value + half)


def _t_975(freedom: int) -> float:
    """Student's t, to 1 % from eight degrees of freedom on (Fisher's expansion)."""
    return Z_975 + (Z_975**3 + Z_975) / (4 * freedom)
