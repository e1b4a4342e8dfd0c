"""The median of numbers. `numpy.median` loads `numpy.ma`, which takes 2 MiB, only to ask whether values are masked."""

from typing import Any, overload

import numpy as np
import numpy.typing as npt


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
    along = array.ravel() if axis is None else np.moveaxis(array, axis, -1)
    last = along.shape[-1] - 1
    lower, upper = last // 2, (last + 1) // 2
    ordered = np.partition(along, sorted({lower, upper, last}), axis=-1)
    middle = ordered[..., [lower, upper]].mean(axis=-1)
    if array.dtype.kind == "f":  # NaN is the last in order
        middle = np.where(np.isnan(ordered[..., last]), np.nan, middle)
    return float(middle) if axis is None else middle
