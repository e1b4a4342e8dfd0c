"""The median is numpy's, also along an axis, and `numpy.ma` stays unloaded."""

import subprocess
import sys

import numpy as np
import pytest

from edgetop.session.median import median


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.int32])
@pytest.mark.parametrize("columns", [1, 2, 3, 8, 9])
def test_it_is_numpys(kind: type, columns: int) -> None:
    values = np.random.default_rng(columns).integers(-1000, 1000, (4, columns)).astype(kind)
    if values.dtype.kind == "f":
        values[2, 0] = np.nan
    np.testing.assert_array_equal(median(values), np.median(values))
    np.testing.assert_array_equal(median(values[:2]), np.median(values[:2]))
    for axis in (0, 1):
        np.testing.assert_array_equal(median(values, axis), np.median(values, axis))


@pytest.mark.parametrize("values", [[2], [3, 1], [0.5, 2.0, 1.0]])
def test_it_takes_lists(values: list[float]) -> None:
    assert median(values) == np.median(values)


def test_numpy_ma_stays_unloaded() -> None:
    script = (
        "import sys; from edgetop.session.median import median; median([1, 2]); sys.exit('numpy.ma' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
