"""What can be true of what a stranger sent; anything else is a ValueError."""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.session.byte_shuffle import Columns, Ints
from edgetop.session.seconds import NS

MAX_SESSION_NS = 10 * 366 * 86_400 * NS

_TIMES = {"t_ns", "until_ns"}


def require(claim: bool) -> None:
    if not claim:
        raise ValueError("a batch that cannot be true")


def is_time(t_ns: int) -> bool:
    """A little before the origin is the work of rounding."""
    return -NS <= t_ns < MAX_SESSION_NS


def are_times(t_ns: Ints) -> bool:
    return lies(t_ns, -NS, MAX_SESSION_NS - 1)


def lies(values: npt.NDArray[Any], low: int, high: int) -> bool:
    return not len(values) or (int(values.min()) >= low and int(values.max()) <= high)


def take_rows(columns: Columns, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    rows = columns.take_table(dtype)
    for name in _TIMES.intersection(dtype.names or ()):
        require(are_times(rows[name]))
    return rows
