"""The median of numbers. `numpy.median` loads `numpy.ma`, which takes 2 MiB, only to ask whether values are masked."""

from typing import Any, overload

import numpy as np
import numpy.typing as npt

_EXACT = (np.dtype(np.int64), np.dtype(np.float64))  # their mean is the same in numpy and in Python


@overload
def median(values: npt.ArrayLike) -> float: ...
@overload
def median(values: npt.ArrayLike, axis: int) -> npt.NDArray[np.float64]: ...


def median(values: npt.ArrayLike, axis: int | None = None) -> Any:
    """Return the median of all values, or the medians along an axis. There must be at least one value.

    The median of an even number of values is the mean of the two in the middle. If a value is NaN, so is the median.

    >>> median([3, 1, 2, 10]), median([[1.0, 2.0, 5.0]], axis=1).tolist()
    (2.5, [2.0])
    """
    array = np.asarray(values)
    if axis is None and array.dtype in _EXACT:  # nearly always, and three times as fast as the general way
        flat = array.flatten()
        lower, upper = (len(flat) - 1) // 2, len(flat) // 2
        flat.partition((lower, upper, len(flat) - 1))
        return float(flat[-1]) if np.isnan(flat[-1]) else (float(flat[lower]) + float(flat[upper])) / 2
    along = array.ravel() if axis is None else np.moveaxis(array, axis, -1)
    last = along.shape[-1] - 1
    lower, upper = last // 2, (last + 1) // 2
    ordered = np.partition(along, sorted({lower, upper, last}), axis=-1)
    middle = ordered[..., [lower, upper]].mean(axis=-1)
    if array.dtype.kind == "f":  # NaN is the last in order
        middle = np.where(np.isnan(ordered[..., last]), np.nan, middle)
    return float(middle) if axis is None else middle
