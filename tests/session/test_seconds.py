"""The aggregate of each second: what counts in it, and that it does not depend on how inferences came."""

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session.histogram import count_buckets
from edgetop.session.partial_second import PartialSecond
from edgetop.session.records import FIRST, MEASURE, NO_INFERENCES, WARMUP, Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import ABSENT, NO_SECONDS, NS, PERCENTILE_FIELDS, QUANTILES, Seconds, concatenate
from tests.support.sessions import MS, back_to_back, differences, histogram_of, make_inferences, seconds_of


@st.composite
def inference_runs(draw: st.DrawFn) -> Inferences:
    """Inferences in the order of their starts, over some seconds, of any phase, some failed."""
    count = draw(st.integers(0, 60))
    gaps = draw(st.lists(st.integers(0, 700 * MS), min_size=count, max_size=count))
    latencies = draw(st.lists(st.integers(1, 5 * NS), min_size=count, max_size=count))
    phases = sorted(draw(st.lists(st.integers(FIRST, MEASURE), min_size=count, max_size=count)))
    ok = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return make_inferences(np.cumsum(np.array(gaps, np.int64)), latencies, phase=phases, ok=ok, wait_ns=gaps)


def in_pieces(inferences: Inferences, cuts: Sequence[int], deadline_ns: int | None = None) -> Seconds:
    aggregator = SecondAggregator(deadline_ns, is_paced=True)
    places = sorted(cut % (len(inferences) + 1) for cut in cuts)
    parts = [aggregator.add(piece) for piece in np.split(inferences, places)]
    return concatenate([*parts, aggregator.close()])


@settings(deadline=None, max_examples=50)
@given(inference_runs(), st.lists(st.integers(0, 60), max_size=8), st.sampled_from([None, 900 * MS]))
def test_seconds_do_not_depend_on_how_inferences_came(
    inferences: Inferences, cuts: list[int], deadline_ns: int | None
) -> None:
    assert (
        differences(in_pieces(inferences, cuts, deadline_ns), seconds_of(inferences, deadline_ns, is_paced=True)) == []
    )


@settings(deadline=None, max_examples=50)
@given(inference_runs())
def test_each_second_tells_of_what_started_in_it(inferences: Inferences) -> None:
    seconds = seconds_of(inferences)
    for i, row in enumerate(seconds.rows):
        started = inferences[inferences["t_ns"] // NS == row["t_ns"] // NS]
        measure = started[started["phase"] == MEASURE]
        counted = measure["latency_ns"][measure["ok"]].astype(np.int64)
        assert row["count"] == len(counted)
        assert row["errors"] == np.count_nonzero(~measure["ok"])
        assert row["sum_ns"] == counted.sum()
        assert row["min_ns"] == counted.min(initial=np.iinfo(np.int64).max if len(counted) else ABSENT)
        assert row["max_ns"] == counted.max(initial=ABSENT)
        assert row["m2_ns2"] == pytest.approx(len(counted) * counted.var() if len(counted) else 0, rel=1e-9, abs=1e-3)
        dense = np.zeros_like(count_buckets(counted))
        bucket, held = histogram_of(seconds, i)
        dense[bucket] = held
        assert np.array_equal(dense, count_buckets(counted))


@settings(deadline=None, max_examples=50)
@given(inference_runs())
def test_seconds_follow_one_another_from_zero_to_the_last_start(inferences: Inferences) -> None:
    starts = seconds_of(inferences).rows["t_ns"].tolist()
    wanted = int(inferences["t_ns"][-1] // NS) + 1 if len(inferences) else 0
    assert starts == [second * NS for second in range(wanted)]


@settings(deadline=None, max_examples=50)
@given(inference_runs())
def test_jitter_runs_on_across_seconds(inferences: Inferences) -> None:
    rows = seconds_of(inferences).rows
    counts = (inferences["phase"] == MEASURE) & inferences["ok"]
    steps = np.abs(np.diff(inferences["latency_ns"][counts].astype(np.int64)))
    assert rows["jitter_sum_ns"].sum() == steps.sum()
    assert rows["jitter_count"].sum() == len(steps)


def test_percentiles_of_a_second_are_exactly_numpys() -> None:
    random = np.random.default_rng(3)
    for count in (1, 2, 3, 10, 99, 100, 101, 997, 5_003):
        latency = (random.lognormal(0, 0.5, count) * 100_000).astype(np.int64)
        (row,) = seconds_of(make_inferences(np.linspace(0, NS - 1, count).astype(np.int64), latency)).rows
        exact = np.quantile(latency, QUANTILES, method="inverted_cdf").tolist()
        assert [row[name] for name in PERCENTILE_FIELDS] == exact


def test_an_inference_belongs_to_the_second_in_which_it_started() -> None:
    rows = seconds_of(make_inferences([NS - 1, NS], [5 * MS, 7 * MS])).rows
    assert rows["t_ns"].tolist() == [0, NS]
    assert rows["sum_ns"].tolist() == [5 * MS, 7 * MS]


def test_jitter_at_the_border_of_two_seconds_counts_in_the_later() -> None:
    rows = seconds_of(make_inferences([NS - 5, NS - 1, NS], [10, 13, 20])).rows
    assert rows["jitter_sum_ns"].tolist() == [3, 7]
    assert rows["jitter_count"].tolist() == [1, 1]


def test_a_second_without_inferences_has_no_percentiles() -> None:
    rows = seconds_of(make_inferences([0, 3 * NS], MS)).rows
    assert rows["count"].tolist() == [1, 0, 0, 1]
    for name in ("min_ns", "max_ns", *PERCENTILE_FIELDS):
        assert rows[name].tolist() == [MS, ABSENT, ABSENT, MS]
    assert rows["sum_ns"].tolist() == [MS, 0, 0, MS]


def test_a_model_of_two_seconds_fills_every_other_second() -> None:
    rows = seconds_of(back_to_back(0, [2 * NS] * 3)).rows
    assert rows["count"].tolist() == [1, 0, 1, 0, 1]
    assert rows["max_ns"].tolist() == [2 * NS, ABSENT, 2 * NS, ABSENT, 2 * NS]


def test_first_and_warm_up_inferences_do_not_count() -> None:
    rows = seconds_of(make_inferences([0, 10, 20], [9 * NS, 9 * NS, MS], phase=[FIRST, WARMUP, MEASURE])).rows
    assert rows["count"].tolist() == [1]
    assert rows["max_ns"].tolist() == [MS]


def test_failures_are_counted_only_in_the_measured_phase() -> None:
    inferences = make_inferences([0, 10, 20], MS, phase=[WARMUP, MEASURE, MEASURE], ok=[False, False, True])
    rows = seconds_of(inferences).rows
    assert (rows["errors"].tolist(), rows["count"].tolist()) == ([1], [1])


def test_misses_are_absent_without_a_deadline() -> None:
    rows = seconds_of(make_inferences([0, 2 * NS], 5 * NS)).rows
    assert rows["deadline_misses"].tolist() == [ABSENT] * 3


def test_misses_count_response_times_above_the_deadline() -> None:
    inferences = make_inferences([0, 1, 2, 3, 2 * NS], [5, 5, 5, 6, 9], wait_ns=[0, 5, 6, 5, 0])
    rows = seconds_of(inferences, deadline_ns=10).rows
    assert rows["deadline_misses"].tolist() == [2, 0, 0]


def test_a_failed_inference_misses_no_deadline() -> None:
    rows = seconds_of(make_inferences([0, 1], 50, ok=[False, True]), deadline_ns=10).rows
    assert rows["deadline_misses"].tolist() == [1]


def test_a_second_is_complete_only_when_a_later_one_has_begun() -> None:
    aggregator = SecondAggregator()
    assert len(aggregator.add(make_inferences([0, NS - 1], MS))) == 0
    assert aggregator.add(make_inferences([NS], MS)).rows["count"].tolist() == [2]
    assert aggregator.close().rows["count"].tolist() == [1]
    assert len(aggregator.close()) == 0


def test_the_first_second_can_be_a_later_one() -> None:
    aggregator = SecondAggregator(first_second=5)
    assert len(aggregator.add(make_inferences([5 * NS], MS))) == 0
    assert aggregator.close().rows["t_ns"].tolist() == [5 * NS]


def test_nothing_gives_nothing() -> None:
    aggregator = SecondAggregator()
    assert len(aggregator.add(NO_INFERENCES)) == 0
    assert len(aggregator.close()) == 0
    assert len(concatenate([])) == len(concatenate([NO_SECONDS, NO_SECONDS])) == 0


def test_the_spread_of_long_latencies_is_not_lost_to_rounding() -> None:
    latency = np.array([3_600 * NS, 3_600 * NS + 2, 3_600 * NS + 4])
    (row,) = seconds_of(make_inferences([0, 1, 2], latency)).rows
    assert row["m2_ns2"] == 8.0


def test_no_thread_of_numpy_spins_beside_a_fast_model() -> None:
    inferences = back_to_back(0, [MS // 50] * 2_000_000)  # 40 s
    before_s, before_all_s = time.thread_time(), time.process_time()
    SecondAggregator().add(inferences)
    own_s = time.thread_time() - before_s
    assert time.process_time() - before_all_s < 1.2 * own_s


def test_the_dense_histogram_is_of_all_rows() -> None:
    latency = np.random.default_rng(1).integers(1_000, 10**9, 500)
    seconds = seconds_of(make_inferences(np.arange(500) * 10 * MS, latency))
    assert np.array_equal(seconds.histogram(), count_buckets(latency))


@settings(deadline=None, max_examples=50)
@given(inference_runs(), st.integers(0, 2**63))
def test_the_rows_that_are_wanted_keep_their_histograms(inferences: Inferences, bits: int) -> None:
    seconds = seconds_of(inferences)
    wanted = np.array([bits >> i & 1 for i in range(len(seconds))], bool)
    chosen = seconds.where(wanted)
    assert chosen.rows.tolist() == seconds.rows[wanted].tolist()
    for place, row in enumerate(np.flatnonzero(wanted)):
        assert differences(histogram_of(chosen, place), histogram_of(seconds, row)) == []


@settings(deadline=None, max_examples=50)
@given(inference_runs(), st.lists(st.integers(0, 60), max_size=4))
def test_seconds_joined_are_the_same_as_seconds_whole(inferences: Inferences, cuts: list[int]) -> None:
    seconds = seconds_of(inferences)
    place = np.arange(len(seconds))
    borders = [0, *sorted(cut % (len(seconds) + 1) for cut in cuts), len(seconds)]
    parts = [seconds.where((place >= begin) & (place < end)) for begin, end in pairwise(borders)]
    assert differences(concatenate(parts), seconds) == []


@settings(max_examples=60, deadline=None)
@given(inference_runs(), st.lists(st.integers(0, 60)).map(sorted))
def test_a_partial_second_is_as_if_the_session_ended_now(inferences: Inferences, cuts: list[int]) -> None:
    aggregator, begun, done = SecondAggregator(), PartialSecond(), []
    for piece in np.split(inferences, [cut for cut in cuts if cut < len(inferences)]):
        complete = aggregator.add(piece)
        done.append(complete)
        begun.add(piece, complete)
    assert differences(concatenate([*done, begun.seconds()]), seconds_of(inferences)) == []


def test_nothing_is_begun_before_the_first_inference() -> None:
    assert len(PartialSecond().seconds()) == 0


@settings(deadline=None, max_examples=50)
@given(inference_runs())
def test_response_is_the_same_of_latency_and_wait(inferences: Inferences) -> None:
    response = seconds_of(inferences, is_paced=True).response
    responding = inferences.copy()
    responding["latency_ns"] += responding["wait_ns"]
    wanted = seconds_of(responding)
    wanted.rows["errors"] = 0  # they stand beside service time alone
    assert response is not None or not len(inferences)
    assert response is None or differences(response, wanted) == []


def test_under_a_closed_load_there_is_no_response_time() -> None:
    assert seconds_of(back_to_back(0, [MS] * 5)).response is None


def test_some_seconds_keep_their_response_times() -> None:
    seconds = seconds_of(back_to_back(0, [300 * MS] * 12, wait_ns=5 * MS), is_paced=True)
    kept = seconds.where(np.array([False, True, True, False]))
    assert kept.response is not None
    assert kept.response.rows["min_ns"].tolist() == [305 * MS] * 2


def test_runs_of_misses_are_told_for_each_second() -> None:
    late = [1, 1, 0, 1, 1, 1, 0, 1, 0, 0]
    seconds = seconds_of(back_to_back(0, [100 * MS] * 10, wait_ns=[50 * MS * n for n in late]), 120 * MS)
    names = ("deadline_misses", "miss_run_first", "miss_run_last", "miss_run_longest")
    assert seconds.rows[list(names)].tolist() == [(6, 2, 0, 3)]


def test_a_far_time_makes_no_row_for_each_second_up_to_it():
    """Times are foreign data: of a program that is watched, of a file."""
    aggregator = SecondAggregator(is_paced=True)
    done = [aggregator.add(make_inferences([start * NS], [MS])) for start in (0, 10, 3_000_000_000, 3_000_000_001)]
    seconds = concatenate([*done, aggregator.close()])
    assert seconds.rows["t_ns"][[0, 1, 10, 11]].tolist() == [0, NS, 10 * NS, 3_000_000_000 * NS]
    assert len(seconds) == 13
    assert seconds.runs == 4


def test_a_pause_is_as_many_seconds_as_if_they_came_one_by_one():
    aggregator = SecondAggregator(deadline_ns=5, is_paced=True)
    seconds = concatenate([aggregator.add(make_inferences([start * NS], [MS])) for start in (0, 4)])
    empty = seconds.rows[1:]
    assert empty["t_ns"].tolist() == [NS, 2 * NS, 3 * NS]
    assert (empty["count"] == 0).all()
    assert seconds.response is not None
    assert seconds.response.rows["t_ns"].tolist() == seconds.rows["t_ns"].tolist()
    assert (empty["p50_ns"] == ABSENT).all()
