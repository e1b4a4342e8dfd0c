"""Which readings can tell why: found in pieces, in the order of their seconds wherever they were written."""

import numpy as np
import pytest

from edgetop.analysis.slowdowns.signals import Signals
from edgetop.session.records import FOLDED_AT_ONCE, READING, Readings
from edgetop.session.seconds import NS
from tests.support.sessions import make_sensor

SENSORS = (make_sensor("freq/cpu0"), make_sensor("mem/rss"), make_sensor("throttle/limit"))
COUNT = 2 * FOLDED_AT_ONCE + 100


def readings(*, in_order: bool) -> Readings:
    random = np.random.default_rng(0)
    rows = np.zeros(COUNT, READING)
    rows["t_ns"] = np.arange(COUNT) * NS // 3 - 5 * NS
    if not in_order:
        rows["t_ns"] = random.permutation(rows["t_ns"])
    rows["sensor"], rows["value"] = random.integers(0, 3, COUNT), random.integers(0, 2, COUNT)
    return rows


@pytest.mark.parametrize("in_order", [True, False])
def test_those_that_matter_are_found_in_the_order_of_their_seconds(in_order: bool) -> None:
    rows, signals = readings(in_order=in_order), Signals()
    signals.know(SENSORS)
    places = signals.relevant(rows)
    wanted = np.flatnonzero((rows["sensor"] != 1) & (rows["t_ns"] >= 0))
    expected = wanted[np.argsort(rows["t_ns"][wanted] // NS, kind="stable")]
    assert places.tolist() == expected.tolist()


def test_a_reading_beyond_what_is_kept_is_as_large_as_can_be() -> None:
    """Of a damaged recording; what is told of it is nonsense, but nobody is warned of a cast."""
    signals = Signals()
    signals.know(SENSORS)
    signals.add(np.array([(NS, 0, 1e300), (2 * NS, 0, -1e300)], READING))
    held, _ = signals.held(1, 3)
    assert held[0].tolist() == [pytest.approx(3.4e38, rel=0.01), pytest.approx(-3.4e38, rel=0.01)]
