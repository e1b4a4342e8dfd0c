"""The integral of readings over a phase: its ends, its gaps, and how well the mean is known."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.rail_energy import KEPT_READINGS, RailEnergy
from edgetop.session.seconds import NS


def figures(rail: RailEnergy, until_ns: int) -> tuple[float, float, float | None]:
    """Energy, the time it covers, and the maximum."""
    power = rail.until(until_ns)
    return power.energy_j, power.covered_s, power.highest_w if np.isfinite(power.highest_w) else None


def energy(
    times_s: Sequence[float], watts: Sequence[float], began_s: float = 0.0, until_s: float = 1e6
) -> tuple[float, float, float | None]:
    """Energy, the time it covers, and the maximum."""
    rail = RailEnergy()
    rail.began(round(began_s * NS))
    rail.add(np.rint(np.array(times_s) * NS).astype(np.int64), np.array(watts, float))
    return figures(rail, round(until_s * NS))


def test_energy_is_the_area_under_the_line_through_the_readings() -> None:
    assert energy([0, 1, 2, 4], [2, 4, 4, 0]) == (pytest.approx(3 + 4 + 4), pytest.approx(4.0), 4.0)


def test_what_lies_outside_the_phase_is_cut_off_by_interpolation() -> None:
    joules, seconds, highest = energy([0, 1, 2, 3], [0, 10, 20, 30], began_s=0.5, until_s=2.25)
    assert (joules, seconds) == (pytest.approx((5 + 22.5) / 2 * 1.75), pytest.approx(1.75))
    assert highest == 20.0


def test_a_mean_counts_for_all_the_time_since_the_last_reading() -> None:
    rail = RailEnergy(averages=True)
    rail.began(NS // 2)
    rail.add((np.array([0.0, 1.0, 1.5, 3.5, 4.5]) * NS).astype(np.int64), np.array([9.0, 2.0, 8.0, 1.0, 7.0]))
    assert figures(rail, 4 * NS) == (pytest.approx(1.0 + 4.0 + 2.0 + 3.5), pytest.approx(3.5), 8.0)


def test_a_gap_of_few_cadences_is_bridged_and_a_longer_is_not() -> None:
    steady = [float(i) for i in range(10)]
    bridged = [*steady, 9.0 + 4]
    assert energy(bridged, [5.0] * 11)[:2] == (pytest.approx(65.0), pytest.approx(13.0))
    broken = [*steady, 9.5 + 4, 10.5 + 4]
    assert energy(broken, [5.0] * 12)[:2] == (pytest.approx(50.0), pytest.approx(10.0))


@pytest.mark.parametrize(("gap_s", "covered_s"), [(590, 2_390), (610, 1_800)])
def test_a_gap_of_ten_minutes_is_never_bridged(gap_s: float, covered_s: float) -> None:
    rare = [200.0 * i for i in range(10)]
    assert energy([*rare, 1_800.0 + gap_s], [5.0] * 11)[1] == pytest.approx(covered_s)


def test_the_cadence_is_learned_from_the_readings() -> None:
    slow = [30.0 * i for i in range(10)]
    assert energy(slow, [5.0] * 10)[1] == pytest.approx(270.0)
    quick = [0.1 * i for i in range(10)]
    assert energy([*quick, 5.0], [5.0] * 11)[1] == pytest.approx(0.9)


def test_one_late_reading_among_few_does_not_make_a_cadence() -> None:
    assert energy([0.0, 1.0, 40.0], [5.0, 5.0, 5.0])[1] == pytest.approx(1.0)


def test_nothing_is_told_of_a_phase_without_readings() -> None:
    assert energy([], []) == (0.0, 0.0, None)
    assert energy([1.0, 2.0], [5.0, 5.0], began_s=10.0) == (0.0, 0.0, None)
    assert energy([1.0], [5.0]) == (0.0, 0.0, 5.0)


def test_before_the_phase_nothing_counts() -> None:
    rail = RailEnergy()
    rail.add(np.arange(5 * KEPT_READINGS) * NS, np.full(5 * KEPT_READINGS, 7.0))
    assert figures(rail, 10**18) == (0.0, 0.0, None)
    rail.began((5 * KEPT_READINGS - 3) * NS)
    assert figures(rail, 10**18) == (pytest.approx(14.0), pytest.approx(2.0), 7.0)


def test_a_reading_that_is_not_later_than_the_last_is_left_out() -> None:
    assert energy([0, 1, 1, 0.5, 2], [5, 5, 900, 900, 5])[:2] == (pytest.approx(10.0), pytest.approx(2.0))
    rail = RailEnergy()
    rail.began(0)
    for t in (0, 2, 1, 2, 4):
        rail.add(np.array([t * NS]), np.array([5.0]))
    assert figures(rail, 10**18)[:2] == (pytest.approx(20.0), pytest.approx(4.0))


def test_a_sine_over_a_day_in_bounded_memory() -> None:
    rail = RailEnergy()
    rail.began(0)
    for hour in range(24):
        t_s = np.arange(hour * 36_000, (hour + 1) * 36_000) / 10
        rail.add((t_s * NS).astype(np.int64), 5 + 2 * np.sin(t_s / 60))
        assert len(rail._t_ns) <= 36_000 + 2 * KEPT_READINGS
    assert len(rail._t_ns) <= 2 * KEPT_READINGS
    until_s = 24 * 3600 - 0.1
    joules, seconds, highest = figures(rail, round(until_s * NS))
    assert seconds == pytest.approx(until_s)
    assert joules == pytest.approx(5 * until_s + 120 * (1 - math.cos(until_s / 60)), rel=1e-6)
    assert highest == pytest.approx(7.0)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 3_000), max_size=12), st.integers(0, 3_000))
def test_however_readings_are_batched_the_energy_is_the_same(seed: int, cuts: list[int], begin: int) -> None:
    random = np.random.default_rng(seed)
    t_ns = np.cumsum(random.integers(50, 150, 3_000)) * 1_000_000
    watts = 5 + random.normal(0, 1, 3_000)
    whole, parts = RailEnergy(), RailEnergy()
    for rail in (whole, parts):
        rail.began(int(t_ns[0] + begin * 90_000_000))
    whole.add(t_ns, watts)
    edges = [0, *sorted(cuts), 3_000]
    for low, high in itertools.pairwise(edges):
        parts.add(t_ns[low:high], watts[low:high])
    until_ns = int(t_ns[-1]) - 5 * NS
    assert figures(parts, until_ns) == figures(whole, until_ns)


# What comes from afar.


def with_aggregate(*aggregate: float, began_ns: int = 0) -> RailEnergy:
    rail = RailEnergy()
    rail.began(began_ns)
    rail.add_aggregate(*aggregate)  # type: ignore[arg-type]
    return rail


def test_an_aggregate_has_the_energy_of_its_mean() -> None:
    assert figures(with_aggregate(0, 10 * NS, 5.0, 9.0, 4.0), 20 * NS) == (50.0, 10.0, 9.0)


def test_of_an_aggregate_only_what_lies_in_the_phase_counts() -> None:
    assert figures(with_aggregate(0, 10 * NS, 5.0, 9.0, 4.0, began_ns=8 * NS), 20 * NS) == (10.0, 2.0, 9.0)
    assert figures(with_aggregate(0, 10 * NS, 5.0, 9.0, 4.0, began_ns=11 * NS), 20 * NS) == (0.0, 0.0, None)


def test_readings_go_on_where_an_aggregate_ended() -> None:
    rail = with_aggregate(0, 10 * NS, 5.0, 9.0, 4.0)
    rail.add(np.arange(11, 14) * NS, np.array([4.0, 6.0, 6.0]))
    assert figures(rail, 20 * NS) == (50.0 + 4.0 + 5.0 + 6.0, 13.0, 9.0)


@pytest.mark.thorough
@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(0, 400), st.one_of(st.none(), st.integers(0, 1_500)))
def test_asking_on_the_way_changes_nothing(seed: int, at_once: int, began_s: int, ended_s: int | None) -> None:
    """Readings that were counted for an earlier answer are not counted again, nor left out."""
    random = np.random.default_rng(seed)
    t_ns = np.cumsum(random.integers(NS // 3, 2 * NS, 1_400))
    watts = random.normal(5, 1, len(t_ns))
    asked, *silent = [RailEnergy() for _ in range(3)]
    for rail in (asked, *silent):
        rail.add(t_ns[:3], watts[:3])
        rail.began(began_s * NS)
    for begin, end in itertools.pairwise([*range(3, len(t_ns), at_once), len(t_ns)]):
        for rail in (asked, *silent):
            rail.add(t_ns[begin:end], watts[begin:end])
        back = int(random.integers(0, KEPT_READINGS)) if random.random() < 0.1 else 0  # seldom for an earlier time
        asked.until(int(t_ns[max(0, end - 1 - back)]))
    for ended_ns in [] if ended_s is None else [ended_s * NS]:
        for rail in (asked, *silent):
            rail.ended(ended_ns)
            rail.add(t_ns[-1:] + NS, watts[-1:])
    for until_ns, rail in zip((int(t_ns[-1]) + 5 * NS, int(t_ns[-40]) + NS // 5), silent, strict=True):
        given, expected = asked.until(until_ns), rail.until(until_ns)
        assert figures(asked, until_ns) == figures(rail, until_ns)
        assert np.array_equal(given.blocks.sums(), expected.blocks.sums())
        assert asked.precise(given) == rail.precise(expected)
