"""Sums over blocks of time: never many, the same however they came; and how well a mean is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.blocks import LEAST_BATCHES, LEAST_FREEDOM, MOST_BATCHES, MOST_BLOCKS, T_975, Blocks, batch_mean


def blocks_of(seconds: np.ndarray, values: np.ndarray, cuts: list[int] | None = None) -> Blocks:
    blocks = Blocks(1)
    for begin, end in itertools.pairwise([0, *sorted(cuts or []), len(seconds)]):
        blocks.add(seconds[begin:end], values[begin:end, None])
    return blocks


def test_a_block_is_a_second_while_there_are_few() -> None:
    blocks = blocks_of(np.array([7, 7, 9]), np.array([1, 2, 5]))
    assert (blocks.first_s, blocks.width_s) == (7, 1)
    assert blocks.sums()[:, 0].tolist() == [3, 0, 5]


@pytest.mark.parametrize("first", [0, 1, 6, 7])
def test_blocks_join_in_pairs_and_lose_nothing(first: int) -> None:
    seconds = first + np.arange(5 * MOST_BLOCKS)
    blocks = blocks_of(seconds, np.ones(len(seconds), np.int64))
    sums = blocks.sums()[:, 0]
    assert blocks.width_s == 8
    assert sums.sum() == len(seconds)
    assert set(sums[1:-1]) == {8}
    assert blocks.first_s == first // 8 * 8


def test_what_is_older_than_the_first_block_is_left_out() -> None:
    blocks = blocks_of(np.array([10, 4, 11]), np.array([1, 50, 2]), [1])
    assert blocks.sums()[:, 0].tolist() == [1, 2]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 1000), max_size=10))
def test_however_they_come_they_are_the_same(seed: int, cuts: list[int]) -> None:
    random = np.random.default_rng(seed)
    seconds = np.cumsum(random.integers(0, 4, 1000)) + random.integers(0, 100)
    values = random.integers(-(10**12), 10**12, 1000)
    whole, parts = blocks_of(seconds, values), blocks_of(seconds, values, cuts)
    assert (whole.width_s, whole.first_s) == (parts.width_s, parts.first_s)
    assert np.array_equal(whole.sums(), parts.sums())


def test_a_copy_goes_its_own_way() -> None:
    blocks = blocks_of(np.array([1]), np.array([5]))
    twin = blocks.copy()
    twin.add(np.array([1]), np.array([[7]]))
    assert (blocks.sums()[0, 0], twin.sums()[0, 0]) == (5, 12)


# Means.


def mean_of(watts: np.ndarray, least: float = 1.0, lacking: float = 0.0) -> object:
    """Of blocks of a million each."""
    weight = np.full(len(watts), 10**6)
    return batch_mean(np.rint(watts * weight).astype(np.int64), weight, least * 10**6, lacking * 10**6)


def test_too_few_batches_are_no_mean() -> None:
    assert mean_of(np.ones(LEAST_BATCHES - 1)) is None
    assert mean_of(np.ones(LEAST_BATCHES)).batches == LEAST_BATCHES
    assert mean_of(np.ones(20), least=20 / (LEAST_BATCHES - 1)) is None
    assert mean_of(np.ones(0)) is None


def test_the_t_table_covers_the_fewest_to_the_most_batches() -> None:
    assert (2 * LEAST_BATCHES - 2) // 3 == LEAST_FREEDOM
    assert LEAST_FREEDOM + len(T_975) - 1 == (2 * MOST_BATCHES - 2) // 3


def test_what_does_not_vary_is_known_exactly() -> None:
    mean = mean_of(np.full(100, 5.0))
    assert (mean.value, mean.half_width) == (5.0, 0.0)


def test_the_interval_holds_the_truth_in_95_of_100_noisy_cases() -> None:
    random = np.random.default_rng(5)
    means = [mean_of(10 + random.normal(0, 1, random.integers(5, 120))) for _ in range(800)]
    assert 0.93 <= np.mean([abs(mean.value - 10) <= mean.half_width for mean in means]) <= 0.975


def test_a_slow_change_is_no_doubt_about_the_mean() -> None:
    ramp = mean_of(np.linspace(5, 10, 120))
    assert ramp.value == pytest.approx(7.5)
    assert ramp.half_width < 0.1


def test_what_is_lacking_may_be_like_any_of_the_rest() -> None:
    ramp = np.linspace(5, 10, 120)
    assert mean_of(ramp, lacking=12).half_width > 0.2 > mean_of(ramp).half_width


def test_blocks_count_for_what_they_hold() -> None:
    weight = np.tile([10**6, 10**3], 30)
    mean = batch_mean(weight * np.tile([5, 7], 30), weight, 1.0)
    assert mean.value == pytest.approx(5.002, abs=1e-3)
