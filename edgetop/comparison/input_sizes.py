"""Find out how the time of calls depends on the size of their inputs, and on whether the input shape has just changed.

time = fixed + each * elements + change, by least squares, with one observation per call. `change` only applies to a
call whose input shape differs from the previous call's. The effects of the size and of a change can only be separated
if each occurs without the other.
"""

import math

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.session.distinct import distinct

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Number of calls that give a mean. Choice: its error is then a fifth of their scatter. Larger: short sessions explain
# less; smaller: a few calls explain much.
LEAST_CALLS = 30
# Standard errors in half of an interval. Statistics: 95 % lie within it. Larger: a real effect of the size is not
# told; smaller: chance is one.
ERRORS = 1.96


@frozen
class Sized:
    """How the time of calls depends on the size of their inputs. Each error is half of a 95 % interval."""

    fixed_ms: float
    each_ms: float  # of one element; 0 if all calls have one size
    each_error_ms: float
    change_ms: float | None  # of a change of shape; None if it cannot be told from the rest
    change_error_ms: float
    explained: float  # share of the variance of the calls' times, 0 to 1
    sizes: int  # number of different sizes
    mean: float  # number of elements of a call, on average


def fit_sizes(took_ms: Floats, elements: Floats, is_changed: Bools) -> Sized | None:
    """Return how the time of calls depends on their input size, or None if there are too few calls.

    The arrays have one entry per call: its time in ms, its number of input elements, and whether its shape differs from
    the previous call's.
    """
    count = len(took_ms)
    if count < LEAST_CALLS:
        return None
    mean, spread = float(elements.mean()), float(elements.std())
    has_sizes = spread > 0
    tells_change = min(np.count_nonzero(is_changed), np.count_nonzero(~is_changed)) >= LEAST_CALLS
    columns = [np.ones(count)]
    columns += [(elements - mean) / spread] if has_sizes else []
    columns += [is_changed.astype(np.float64)] if tells_change else []
    known = np.column_stack(columns)
    found, _, rank, _ = np.linalg.lstsq(known, took_ms, rcond=None)
    if rank < known.shape[1]:
        return None
    rest = took_ms - known @ found
    variance = float(rest @ rest) / max(count - known.shape[1], 1)
    errors = ERRORS * np.sqrt(variance * np.diag(np.linalg.inv(known.T @ known)))
    each_ms, each_error_ms = (found[1] / spread, errors[1] / spread) if has_sizes else (0.0, 0.0)
    whole = float(((took_ms - took_ms.mean()) ** 2).sum())
    return Sized(
        fixed_ms=float(found[0] - each_ms * mean), each_ms=float(each_ms), each_error_ms=float(each_error_ms),
        change_ms=float(found[-1]) if tells_change else None,
        change_error_ms=float(errors[-1]) if tells_change else 0.0,
        explained=1 - float(rest @ rest) / whole if whole else 0.0, sizes=len(distinct(elements)), mean=mean,
    )  # fmt: skip


def beyond_equal_size(took_ms: Floats, elements: Floats, size: float) -> tuple[float, float, int] | None:
    """Compare the mean time of all calls with that of the calls that have `size` input elements.

    Return by how many ms the mean of all calls is higher, the half-width in ms of the 95 % confidence interval, and the
    number of calls of that size. Return None if there are too few of these calls.
    """
    equal = took_ms[elements == size]
    if len(equal) < LEAST_CALLS:
        return None
    return float(took_ms.mean() - equal.mean()), ERRORS * float(equal.std()) / math.sqrt(len(equal)), len(equal)
