"""The histogram of the session format: its formula, its error, its merging."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session import histogram
from edgetop.session.histogram import SIZE, bucket_of, count_buckets, lower_edge_ns, nearest_rank, percentiles
from edgetop.session.seconds import QUANTILES

EVERY_BUCKET = np.arange(SIZE)
LAST_NS = int(lower_edge_ns(np.array([SIZE]))[0]) - 1


def bucket_by_the_format(latency_ns: int) -> int:
    """The formula of the session format in whole numbers: u = 10, b = 7."""
    q = latency_ns // 10
    if q < 2**8:
        return q
    e = (q.bit_length() - 1) - 7
    return e * 2**7 + (q >> e)


def latencies(least: int = 0, most: int = LAST_NS) -> st.SearchStrategy[int]:
    """Of every order of magnitude, and on and beside the powers of two where the formula turns."""
    powers = st.integers(8, 45).map(lambda k: 10 * 2**k)
    beside = st.builds(lambda power, by: power + by, powers, st.integers(-11, 11))
    return st.one_of(st.integers(0, 10_000), st.integers(0, LAST_NS), beside).filter(lambda x: least <= x <= most)


@settings(deadline=None)
@given(st.lists(latencies(), min_size=1, max_size=50))
def test_the_bucket_is_that_of_the_format(values: list[int]) -> None:
    assert bucket_of(np.array(values, np.int64)).tolist() == [bucket_by_the_format(value) for value in values]


def test_unit_and_bits_are_those_of_the_format() -> None:
    assert (histogram.UNIT_NS, histogram.SUB_BUCKET_BITS) == (10, 7)


def test_every_bucket_begins_where_the_one_before_ends() -> None:
    edges = lower_edge_ns(EVERY_BUCKET)
    assert edges[0] == 0
    assert bucket_of(edges).tolist() == EVERY_BUCKET.tolist()
    assert bucket_of(edges[1:] - 1).tolist() == EVERY_BUCKET[:-1].tolist()


def test_buckets_grow_with_latency_without_a_gap() -> None:
    edges = lower_edge_ns(np.arange(SIZE + 1))
    assert (np.diff(edges) > 0).all()


def test_a_bucket_is_at_most_one_percent_wide_from_1_us() -> None:
    edges = lower_edge_ns(np.arange(SIZE + 1))
    above = edges[:-1] >= 1_000
    assert (np.diff(edges)[above] <= 0.01 * edges[:-1][above]).all()


def test_below_2_5_us_a_bucket_is_10_ns_wide() -> None:
    edges = lower_edge_ns(np.arange(257))
    assert (np.diff(edges) == 10).all()


def test_an_hour_has_its_own_bucket_and_a_day_the_last() -> None:
    hour, day = bucket_of(np.array([3_600 * 10**9, 86_400 * 10**9])).tolist()
    assert hour < SIZE - 1
    assert day == SIZE - 1


def test_the_longest_possible_latency_counts_in_the_last_bucket() -> None:
    assert bucket_of(np.array([np.iinfo(np.int64).max])).tolist() == [SIZE - 1]


def test_a_negative_latency_counts_as_nothing() -> None:
    assert bucket_of(np.array([-1, -(10**12)])).tolist() == [0, 0]


def test_shapes_are_kept() -> None:
    assert bucket_of(np.full((2, 3), 5_000)).shape == (2, 3)


def test_every_bucket_fits_the_files_int16() -> None:
    assert np.iinfo(np.int16).max >= SIZE


@settings(deadline=None)
@given(st.lists(latencies(), max_size=200), st.lists(latencies(), max_size=200))
def test_the_histogram_of_two_sets_is_the_sum_of_theirs(a: list[int], b: list[int]) -> None:
    both = count_buckets(np.array(a + b, np.int64))
    assert np.array_equal(both, count_buckets(np.array(a, np.int64)) + count_buckets(np.array(b, np.int64)))
    assert both.sum() == len(a) + len(b)


@settings(deadline=None)
@given(st.lists(latencies(), max_size=200))
def test_the_sparse_form_holds_all_of_the_dense_one(values: list[int]) -> None:
    counts = count_buckets(np.array(values, np.int64))
    bucket, held = histogram.sparse(counts)
    dense = np.zeros(SIZE, np.int64)
    dense[bucket] = held
    assert np.array_equal(dense, counts)
    assert (held > 0).all()
    assert (np.diff(bucket) > 0).all()


def distributions() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    n = 20_011
    return {
        "20 us, tight": random.normal(20_000, 200, n),
        "20 us, long tail": 18_000 + random.exponential(4_000, n),
        "10 ms, log-normal": random.lognormal(np.log(1e7), 0.3, n),
        "two modes": np.where(random.random(n) < 0.97, random.normal(5e6, 1e4, n), random.normal(5e7, 1e5, n)),
        "constant": np.full(n, 2_500_000.0),
        "spikes of a minute": np.where(random.random(n) < 0.002, 6e10, random.normal(1e6, 1e3, n)),
        "from 1 us to 40 min": 10 ** random.uniform(3, 12.38, n),
        "few": random.normal(3e8, 1e7, 7),
        "one": np.array([123_456_789.0]),
    }


@pytest.mark.parametrize("name", distributions())
def test_percentiles_are_within_one_percent_of_numpys(name: str) -> None:
    values = distributions()[name].astype(np.int64)
    found = percentiles(count_buckets(values), QUANTILES, int(values.min()), int(values.max()))
    exact = np.quantile(values, QUANTILES, method="inverted_cdf")
    assert (np.abs(np.array(found) - exact) <= 0.01 * exact).all()


@settings(deadline=None)
@given(st.lists(latencies(least=1_000), min_size=1, max_size=100), st.floats(0.001, 1))
def test_a_percentile_is_within_one_percent_of_the_one_by_rank(values: list[int], quantile: float) -> None:
    ordered = sorted(values)
    (found,) = percentiles(count_buckets(np.array(values, np.int64)), (quantile,), ordered[0], ordered[-1])
    exact = ordered[nearest_rank(len(ordered), quantile)]
    assert abs(found - exact) <= 0.01 * exact


@settings(deadline=None)
@given(st.lists(latencies(), min_size=1, max_size=100))
def test_percentiles_rise_and_never_leave_the_extremes(values: list[int]) -> None:
    found = percentiles(count_buckets(np.array(values, np.int64)), QUANTILES, min(values), max(values))
    assert list(found) == sorted(found)
    assert min(values) <= found[0]
    assert found[-1] <= max(values)


def test_an_empty_histogram_has_no_percentiles() -> None:
    with pytest.raises(ValueError, match="empty"):
        percentiles(np.zeros(SIZE, np.int64), QUANTILES, 0, 0)


@settings(deadline=None)
@given(st.integers(1, 100_000), st.integers(1, 1_000))
def test_the_nearest_rank_is_the_first_with_enough_below(count: int, thousandths: int) -> None:
    rank = nearest_rank(count, thousandths / 1_000)
    share = Fraction(thousandths, 1_000)
    assert Fraction(rank + 1, count) >= share
    assert rank == 0 or Fraction(rank, count) < share


@pytest.mark.parametrize("count", [100, 1_000, 3_000])
def test_no_rank_is_lost_to_binary_fractions(count: int) -> None:
    """As floats, 0.07 * 100 is a little more than 7."""
    ranks = [nearest_rank(count, thousandths / 1_000) for thousandths in range(1, 1_001)]
    assert ranks == [-(-count * thousandths // 1_000) - 1 for thousandths in range(1, 1_001)]
