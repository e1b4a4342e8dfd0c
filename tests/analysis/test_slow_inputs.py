"""Which input arrays take longer, by how often they are the slowest of a tenth of a second."""

import numpy as np
import pytest

from edgetop.analysis.slow_inputs import CHANCE, SlowInputs
from edgetop.session.engine_events import SlowInference


def counted(numbers: list[int], inputs: int) -> SlowInputs:
    found = SlowInputs()
    for number in numbers:
        found.add(SlowInference(10, input=number, inputs=inputs))
    return found


def test_an_array_that_is_always_the_slowest_is_slow() -> None:
    found = counted([5] * 20 + [1, 2], 11)
    assert [number for number in range(11) if found.is_slow(number)] == [5]


def test_several_arrays_may_be_slow() -> None:
    found = counted([3, 7, 9] * 10, 16)
    assert [number for number in range(16) if found.is_slow(number)] == [3, 7, 9]


def test_arrays_that_are_alike_are_not_slow() -> None:
    """In one of a thousand sessions, chance may name one."""
    random, named = np.random.default_rng(43), 0
    for _ in range(400):
        found = counted(random.integers(0, 8, 60).tolist(), 8)
        named += any(found.is_slow(number) for number in range(8))
    assert named <= 400 * CHANCE * 3


@pytest.mark.parametrize(("reports", "is_slow"), [(4, False), (5, True)])
def test_an_array_is_reported_five_times_at_least(reports: int, is_slow: bool) -> None:
    assert counted([5] * reports, 1000).is_slow(5) is is_slow


@pytest.mark.parametrize(("others", "is_slow"), [(139, True), (161, False)])
def test_an_array_is_reported_twice_as_often_as_its_share(others: int, is_slow: bool) -> None:
    numbers = [number % 7 + 1 for number in range(others)]
    assert counted([0] * 50 + numbers, 8).is_slow(0) is is_slow


def test_a_slow_array_needs_more_than_chance() -> None:
    assert not counted([0] * 5 + [1] * 10, 4).is_slow(0)
    assert counted([0] * 40 + [1, 2, 3] * 10, 4).is_slow(0)


@pytest.mark.parametrize(("number", "inputs"), [(None, 3), (1, None), (3, 3), (-1, 3), (0, 10**9)])
def test_impossible_numbers_do_not_count(number: int | None, inputs: int | None) -> None:
    found = SlowInputs()
    for _ in range(50):
        found.add(SlowInference(10, input=number, inputs=inputs))
    assert not any(found.is_slow(one) for one in range(3))


@pytest.mark.parametrize(("reports", "others", "is_slow"), [(6, 0, True), (8, 1, False)])
def test_a_slow_array_is_one_chance_in_a_thousand(reports: int, others: int, is_slow: bool) -> None:
    """Of four arrays: six of six reports have 0.00098, and eight of nine have 0.00106."""
    assert counted([0] * reports + [1] * others, 4).is_slow(0) is is_slow
