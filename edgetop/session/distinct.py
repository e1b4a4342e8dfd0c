"""The distinct values of an array. `numpy.unique` loads `numpy.ma` to ask whether values are masked.

That takes 2 MiB and 10 ms, or 50 ms beside a model on all cores.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Kind = TypeVar("Kind", bound=np.generic)


def distinct(values: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
    """Return each value once, in ascending order, as an array of one dimension. NaN is not equal to NaN.

    >>> distinct(np.array([[3, 1], [3, 2]])).tolist()
    [1, 2, 3]
    """
    ordered = np.sort(values, axis=None)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return np.asarray(ordered[is_new])
