"""The thresholds of latency at equal size, each on both of its sides."""

import numpy as np
import pytest

from edgetop.analysis.slowdowns.equal_size import EqualSize, SizedTimes
from edgetop.session.records import NO_READINGS
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from edgetop.session.sized_calls import sensors_of
from tests.support.sessions import MS, make_inferences, make_manifest, make_sensor

FAST_MS = 10.0


def judged(*sizes_of: list[float]) -> tuple[EqualSize, list[int]]:
    """Return what was learned from calls of these sizes, a list for each second, and the counts of the judged rows."""
    sized, aggregator = SizedTimes(), SecondAggregator()
    sized.register(make_manifest(*map(make_sensor, sensors_of(0))), 0)
    starts = [(at * NS + n * MS, size) for at, sizes in enumerate(sizes_of) for n, size in enumerate(sizes)]
    readings = [row for t_ns, size in starts for row in ((t_ns, 0, size), (t_ns, 1, FAST_MS * size))]
    sized.fold(np.array(readings, NO_READINGS.dtype))
    runs = make_inferences(np.array([t for t, _ in starts]), np.array([int(FAST_MS * s * MS) for _, s in starts]))
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    equal = EqualSize()
    return equal, equal.judged(seconds.rows, sized)["count"].tolist()


@pytest.mark.parametrize(("size", "steps"), [(1045, 1), (1048, 2)])
def test_sizes_within_a_sixteenth_of_an_octave_are_learned_together(size: int, steps: int) -> None:
    equal, _ = judged([1024.0], [float(size)])
    assert len(equal.learned) == steps


@pytest.mark.parametrize(("calls", "counts"), [(4, [5, 0, 0]), (5, [5, 0, 1])])
def test_a_size_is_known_after_five_calls(calls: int, counts: list[int]) -> None:
    assert judged([100.0] * 5, [400.0] * calls, [400.0])[1] == counts


@pytest.mark.parametrize(("large", "count"), [(3_900.0, 1), (4_100.0, 0)])
def test_between_sizes_of_a_ratio_of_four_the_usual_time_is_known(large: float, count: int) -> None:
    assert judged([1_000.0] * 5, [large] * 5, [2_000.0])[1][-1] == count
