import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.errors import InputError
from edgetop.recording.export.to_parquet import Grid, from_inferences, from_seconds, grid_of, sensor_values
from edgetop.session.seconds import ABSENT, NS
from tests.support.sessions import back_to_back, make_inferences, make_readings, seconds_of

NAMES = ("count", "errors", "sum_ns", "min_ns", "max_ns", "p50_ns", "p90_ns", "p99_ns", "deadline_misses")


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([1, 3, 7, 30, 60, 1000]), st.integers(-NS, 10**18))
def test_a_time_lies_within_its_cell(hz, t_ns):
    grid = Grid(per_second=hz)
    cell = grid.cell_of(np.array([t_ns]))
    assert grid.start_ns(cell) <= t_ns < grid.start_ns(cell + 1)


def test_cells_of_several_seconds_begin_at_their_multiples():
    grid = grid_of(0.1)
    np.testing.assert_array_equal(grid.cell_of(np.array([0, 10 * NS - 1, 10 * NS])), [0, 0, 1])
    np.testing.assert_array_equal(grid.start_ns(np.array([0, 1, 7])), [0, 10 * NS, 70 * NS])


def test_a_minute_is_a_cell_too():
    assert grid_of(0.0166667) == Grid(seconds=60)


@pytest.mark.parametrize("hz", [0, -1, 0.3, 1.5, 1001, float("nan"), float("inf")])
def test_what_does_not_fit_into_seconds_is_refused(hz):
    with pytest.raises(InputError, match="does not fit into seconds"):
        grid_of(hz)


def latencies(count, seed=3):
    return np.random.default_rng(seed).integers(5_000_000, 60_000_000, count)


def test_a_row_and_its_inferences_give_the_same_figures():
    inferences = back_to_back(NS // 2, latencies(200))
    inferences["ok"][::9] = False
    seconds = seconds_of(inferences, deadline_ns=30_000_000)
    cells = len(seconds)
    one = from_seconds(seconds, np.arange(cells), cells)
    other = from_inferences(inferences, inferences["t_ns"] // NS, cells, 30_000_000)
    some = one["count"] > 0
    for name in NAMES:
        np.testing.assert_array_equal(one[name][some], other[name][some], name)


def test_percentiles_of_several_seconds_are_within_a_percent():
    inferences = back_to_back(0, latencies(3_000))
    seconds = seconds_of(inferences)
    figures = from_seconds(seconds, np.zeros(len(seconds), np.int64), 1)
    exact = from_inferences(inferences, np.zeros(len(inferences), np.int64), 1, None)
    for name in ("p50_ns", "p90_ns", "p99_ns"):
        assert figures[name] == pytest.approx(exact[name], rel=0.01)
    for name in ("count", "sum_ns", "min_ns", "max_ns"):
        assert figures[name] == exact[name]


def test_percentiles_of_a_cell_are_nearest_ranks():
    inferences = make_inferences(np.arange(100), np.random.default_rng(1).permutation(100) + 1)
    figures = from_inferences(inferences, np.zeros(100, np.int64), 2, None)
    assert [int(figures[f"{name}_ns"][0]) for name in ("min", "p50", "p90", "p99", "max")] == [1, 50, 90, 99, 100]
    assert (figures["p50_ns"][1], figures["count"][1]) == (ABSENT, 0)


def test_only_what_was_measured_counts():
    inferences = make_inferences([1, 2, 3], [10, 20, 30], phase=[0, 1, 2])
    figures = from_inferences(inferences, np.zeros(3, np.int64), 1, None)
    assert (figures["count"][0], figures["sum_ns"][0]) == (1, 30)


def test_a_sensor_has_its_mean_and_a_flag_its_highest_value():
    readings = make_readings((0, 0, 1.0), (1, 0, 2.0), (2, 1, 0.0), (3, 1, 1.0), (4, 1, 0.0))
    values = sensor_values(readings, np.array([0, 0, 2, 2, 2]), 3, [False, True, False])
    np.testing.assert_array_equal(values, [[1.5, np.nan, np.nan], [np.nan, np.nan, 1.0], [np.nan] * 3])
