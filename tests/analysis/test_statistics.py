"""Totals of seconds equal the figures of all their latencies; which percentiles are settled."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.statistics import SETTLED_COUNTS, Statistics, Totals, of_inferences
from edgetop.session.seconds import NO_SECONDS, NS, QUANTILES, Seconds
from tests.support.sessions import MS, back_to_back, differences, make_inferences, seconds_of


def latencies(seed: int, count: int) -> np.ndarray:
    """Log-normal around 20 ms, so that some seconds hold many and some hold few."""
    return (np.random.default_rng(seed).lognormal(0, 0.8, count) * 20 * MS).astype(np.int64)


def totals_of(*parts: Seconds) -> Totals:
    totals = Totals()
    for part in parts:
        totals.add(part)
    return totals


def split(seconds: Seconds, cuts: list[int]) -> list[Seconds]:
    place = np.arange(len(seconds))
    borders = [0, *sorted(cut % (len(seconds) + 1) for cut in cuts), len(seconds)]
    return [seconds.where((place >= begin) & (place < end)) for begin, end in pairwise(borders)]


@pytest.mark.parametrize("count", [1, 2, 7, 100, 3_000])
def test_totals_of_seconds_are_the_figures_of_all_latencies(count: int) -> None:
    latency = latencies(count, count)
    statistics = totals_of(seconds_of(back_to_back(0, latency))).statistics(10 * NS)
    assert statistics is not None
    assert statistics.count == count
    assert (statistics.min_ns, statistics.max_ns) == (latency.min(), latency.max())
    assert statistics.mean_ns == pytest.approx(latency.mean(), rel=1e-14)
    if count > 1:
        assert statistics.stdev_ns == pytest.approx(latency.std(ddof=1), rel=1e-9)
        assert statistics.jitter_ns == pytest.approx(np.abs(np.diff(latency)).mean(), rel=1e-14)
    exact = np.quantile(latency, QUANTILES, method="inverted_cdf")
    assert (np.abs(np.array(statistics.percentiles_ns) - exact) <= 0.01 * exact).all()
    assert statistics.throughput_hz == count / 10


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.integers(1, 400), st.lists(st.integers(0, 60), max_size=6))
def test_totals_are_bit_identical_however_seconds_came(seed: int, count: int, cuts: list[int]) -> None:
    seconds = seconds_of(back_to_back(0, latencies(seed, count)))
    one_by_one = split(seconds, list(range(len(seconds))))
    whole = totals_of(seconds)
    assert differences(totals_of(*split(seconds, cuts)), whole) == []
    assert differences(totals_of(*one_by_one), whole) == []


def test_the_spread_of_tight_slow_latencies_survives_rounding() -> None:
    latency = 3_000 * MS + np.arange(1_000) % 7
    statistics = totals_of(seconds_of(back_to_back(0, latency))).statistics(None)
    assert statistics is not None
    assert statistics.stdev_ns == pytest.approx(float((np.arange(1_000) % 7).std(ddof=1)), rel=1e-6)


def test_one_latency_has_neither_spread_nor_jitter() -> None:
    for statistics in (
        totals_of(seconds_of(back_to_back(0, [5]))).statistics(1),
        of_inferences(back_to_back(0, [5]), 1),
    ):
        assert statistics is not None
        assert statistics.stdev_ns is statistics.jitter_ns is None
        assert set(statistics.percentiles_ns) == {5.0}


def test_nothing_measured_gives_no_figures() -> None:
    failed = make_inferences([0, 2 * NS], 5, ok=False)
    assert totals_of(NO_SECONDS).statistics(NS) is None
    assert totals_of(seconds_of(failed)).statistics(NS) is None
    assert of_inferences(failed, NS) is None
    assert totals_of(seconds_of(failed)).errors == 2


def test_seconds_without_inferences_change_nothing_but_errors() -> None:
    inferences = make_inferences([0, NS, 4 * NS], [5, 9, 7], ok=[True, False, True])
    totals = totals_of(seconds_of(inferences))
    assert (totals.count, totals.errors, totals.min_ns, totals.max_ns, totals.sum_ns) == (2, 1, 5, 7, 12)


def test_misses_are_known_only_with_a_deadline() -> None:
    inferences = make_inferences([0, NS, 4 * NS], [5, 9, 7])
    assert totals_of(seconds_of(inferences)).misses is None
    assert totals_of(seconds_of(inferences, deadline_ns=6)).misses == 2
    assert totals_of(seconds_of(inferences, deadline_ns=99)).misses == 0


def test_throughput_is_unknown_without_a_span() -> None:
    statistics = totals_of(seconds_of(back_to_back(0, [5]))).statistics(None)
    assert statistics is not None
    assert statistics.throughput_hz is None


def test_totals_with_more_leave_those_before_as_they_were() -> None:
    seconds = seconds_of(back_to_back(0, latencies(1, 200)))
    before, after = split(seconds, [2])
    totals = totals_of(before)
    kept = totals_of(before)
    assert differences(totals.plus(after), totals_of(seconds)) == []
    assert differences(totals, kept) == []


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=300))
def test_figures_of_single_inferences_are_exact(values: list[int]) -> None:
    latency = np.array(values)
    statistics = of_inferences(make_inferences(np.arange(len(values)), latency), NS)
    assert statistics is not None
    exact = np.quantile(latency, QUANTILES, method="inverted_cdf").tolist()
    assert list(statistics.percentiles_ns) == pytest.approx(exact, rel=0, abs=0)
    assert (statistics.min_ns, statistics.max_ns, statistics.count) == (min(values), max(values), len(values))
    assert statistics.mean_ns == pytest.approx(sum(values) / len(values), rel=1e-12)
    if len(values) > 1:
        assert statistics.stdev_ns == pytest.approx(latency.std(ddof=1), rel=1e-9)
        assert statistics.jitter_ns == pytest.approx(np.abs(np.diff(latency)).mean(), rel=1e-12)


def test_failed_inferences_count_only_as_errors() -> None:
    statistics = of_inferences(make_inferences([0, 1, 2], [5, 900, 7], ok=[True, False, True]), NS)
    assert statistics is not None
    assert (statistics.count, statistics.errors, statistics.max_ns, statistics.jitter_ns) == (2, 1, 7, 2.0)


@pytest.mark.parametrize(("quantile", "count"), [(0.50, 11), (0.90, 64), (0.95, 130), (0.99, 662), (0.999, 6_636)])
def test_a_percentile_is_settled_from_so_many_inferences(quantile: float, count: int) -> None:
    """MLPerf's LoadGen asks for as many: at 99 % confidence, one above the percentile allowed."""
    assert not statistics_with(count - 1).is_settled(quantile)
    assert statistics_with(count).is_settled(quantile)


def statistics_with(count: int, percentiles_ns: tuple[float, ...] = (1.0,) * 5) -> Statistics:
    return Statistics(
        count=count, mean_ns=1.0, stdev_ns=None, min_ns=1, max_ns=1, percentiles_ns=percentiles_ns, jitter_ns=None,
        throughput_hz=None,
    )  # fmt: skip


def test_every_percentile_has_its_settled_count() -> None:
    assert tuple(SETTLED_COUNTS) == QUANTILES


def test_percentiles_are_told_by_their_quantile() -> None:
    statistics = statistics_with(9, (1.0, 2.0, 3.0, 4.0, 5.0))
    assert [statistics.percentile_ns(quantile) for quantile in QUANTILES] == [1.0, 2.0, 3.0, 4.0, 5.0]
