"""The distribution of latencies over time: no inference is lost, and batches, replays and merges do not change it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.latency_heat import MOST_BINS
from edgetop.analysis.rolling_latency import RollingLatency
from edgetop.analysis.timeline import Axis, choose_axis
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS, Seconds, concatenate, summed
from tests.support.sessions import make_inferences, seconds_of


def seconds(count: int, seed: int = 0, rate: int = 20) -> Seconds:
    random = np.random.default_rng(seed)
    t_ns = np.sort(random.integers(0, count * NS, count * rate))
    return seconds_of(make_inferences(t_ns, random.lognormal(15.4, 0.2, len(t_ns)).astype(np.int64)))


def folded(*parts: Seconds) -> RollingLatency:
    latency = RollingLatency()
    for part in parts:
        latency.fold(Batch(seconds=part))
    return latency


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 1_500), st.sampled_from([40, 66, 100]))
def test_each_inference_is_in_one_column_and_percentiles_are_the_columns_own(seed: int, count: int, cells: int) -> None:
    whole = seconds(count, seed, rate=5)
    columns = folded(whole).heat(choose_axis(count, True, cells))
    assert sum(column.count for column in columns) == whole.rows["count"].sum()
    for column in columns:
        low, high = (histogram.lower_edge_ns(column.bucket[[0, -1]].astype(np.int64) + side) for side in (0, 1))
        assert low[0] <= column.low_ns <= column.p50_ns <= column.p99_ns <= column.high_ns < high[1]


@pytest.mark.thorough
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_batches_give_the_same_columns(data: st.DataObject) -> None:
    count = data.draw(st.integers(20, 2_000))
    whole = seconds(count, rate=3)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    parts = [whole.between(begin, end) for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    axis = choose_axis(count, data.draw(st.booleans()), 66)
    at_once, in_parts = folded(whole).heat(axis), RollingLatency()
    for part in parts:
        in_parts.fold(Batch(seconds=part))
        in_parts.heat(axis)  # keeps finished columns
    assert described(at_once) == described(in_parts.heat(axis))


def described(columns: object) -> list[tuple[object, ...]]:
    assert isinstance(columns, tuple)
    return [(of.from_s, of.to_s, of.bucket.tolist(), of.counts.tolist(), of.low_ns, of.p99_ns) for of in columns]


@pytest.mark.parametrize("count", [1_500, 9_000])
def test_a_replay_that_adds_up_older_histograms_gives_the_same_columns(count: int) -> None:
    whole = seconds(count, rate=2)
    border = (len(whole) - 900) // 16 * 16
    replayed = concatenate([summed(whole.between(0, border), 16), whole.between(border, len(whole))])
    for axis in (choose_axis(count, True, 66), choose_axis(count, False, 66)):
        assert described(folded(whole).heat(axis)) == described(folded(replayed).heat(axis))


@pytest.mark.thorough
def test_a_long_session_is_shown_whole_in_bins_of_bounded_number() -> None:
    count = 40_000
    latency = folded(seconds(count, rate=1))
    columns = latency.heat(choose_axis(count, True, 100))
    assert sum(column.count for column in columns) == count
    assert len(latency._heat._bins) <= MOST_BINS


def test_a_finished_column_stays_the_same_object() -> None:
    whole = seconds(100)
    latency = folded(whole.between(0, 90))
    axis = Axis(0, 100, 10)
    before = latency.heat(axis)
    latency.fold(Batch(seconds=whole.between(90, 95)))
    after = latency.heat(axis)
    assert all(old is new for old, new in zip(before, after[:-1], strict=True))
    assert after[-1].count == whole.rows["count"][90:95].sum()
