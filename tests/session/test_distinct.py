"""Distinct values are numpy's, and `numpy.ma` stays unloaded, also in a session that is shown."""

import subprocess
import sys

import numpy as np
import pytest

from edgetop.session.distinct import distinct


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_they_are_numpys(kind: type, count: int) -> None:
    values = np.random.default_rng(count).integers(0, 9, count).astype(kind)
    np.testing.assert_array_equal(distinct(values), np.unique(values))
    np.testing.assert_array_equal(distinct(values.reshape(-1, 1)), np.unique(values))
    assert distinct(values).dtype == values.dtype


def test_infinity_is_one_value() -> None:
    assert distinct(np.array([np.inf, 1.0, np.inf, -np.inf])).tolist() == [-np.inf, 1.0, np.inf]


SESSION = """
import sys
import numpy as np
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.forecast.model import fit
from tests.support.scripts import measured

Analysis.of(measured(60).profile().batches).view(None).freeze()
t_s = np.arange(120.0)
assert fit(t_s, 90 - 50 * np.exp(-t_s / 100), np.ones(120), 85.0, all_alike=True)
sys.exit("numpy.ma" in sys.modules)
"""


def test_a_session_with_a_forecast_loads_no_masked_arrays() -> None:
    assert subprocess.run([sys.executable, "-c", SESSION], check=False).returncode == 0
