"""The thermal model: what curves with known ends are told to end at, and how sure that is."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.forecast.model import Fitted, Floats, fit

TRIP_C = 80.0


def curve(t_s: np.ndarray, *parts: tuple[float, float], begin_c: float = 40.0) -> np.ndarray:
    """Each part is so many degrees with that time constant."""
    return begin_c + sum(rise * (1 - np.exp(-t_s / tau)) for rise, tau in parts)


def fitted(
    seconds: int, *parts: tuple[float, float], noise_c: float = 0.1, trip_c: float = TRIP_C, begin_c: float = 40.0,
    seed: int = 0,
) -> Fitted:  # fmt: skip
    found = tried(seconds, *parts, noise_c=noise_c, trip_c=trip_c, begin_c=begin_c, seed=seed)
    assert found is not None
    return found


def tried(
    seconds: int, *parts: tuple[float, float], noise_c: float = 0.1, trip_c: float = TRIP_C, begin_c: float = 40.0,
    seed: int = 0, all_alike: bool = True,
) -> Fitted | None:  # fmt: skip
    t_s = np.arange(seconds) + 0.5
    celsius = curve(t_s, *parts, begin_c=begin_c) + np.random.default_rng(seed).normal(0, noise_c, seconds)
    return fit(t_s, celsius, np.ones(seconds), trip_c, all_alike=all_alike)


def holds(found: Fitted, steady_c: float) -> bool:
    return found.steady_c.low <= steady_c <= found.steady_c.high


def test_one_heat_capacity_goes_to_its_steady_temperature() -> None:
    found = fitted(120, (50.0, 100.0))
    assert holds(found, 90.0)
    assert found.steady_c.high - found.steady_c.low < 12
    assert found.trip_s.value == pytest.approx(100 * np.log(50 / 10), rel=0.1)
    assert found.trip_share > 0.95
    assert found.trip_sureness > 0.8


def test_two_heat_capacities_are_told_from_one() -> None:
    found = fitted(128, (12.0, 6.0), (34.0, 100.0), noise_c=0.05)
    assert holds(found, 86.0)
    assert found.trip_s.value == pytest.approx(100 * np.log(34 / 6), rel=0.2)


def test_a_board_that_stays_below_its_trip_does_not_reach_it() -> None:
    found = fitted(128, (25.0, 40.0))
    assert holds(found, 65.0)
    assert found.trip_share < 0.01
    assert np.isinf(found.trip_s.value)


def test_a_board_that_cools_down_goes_lower() -> None:
    found = fitted(128, (-20.0, 60.0), begin_c=70.0)
    assert holds(found, 50.0)
    assert found.trip_share < 0.01


def test_a_board_that_stands_still_stays_where_it_is() -> None:
    for seed in range(10):
        found = fitted(128, begin_c=61.0, seed=seed)
        assert holds(found, 61.0)
        assert found.steady_c.high - found.steady_c.low < 5


def test_a_part_may_cool_while_another_heats_only_after_a_change() -> None:
    parts = ((-8.0, 8.0), (30.0, 120.0))
    changed = tried(128, *parts, begin_c=50.0, noise_c=0.05, all_alike=False)
    assert changed is not None
    assert holds(changed, 72.0)
    assert tried(128, *parts, begin_c=50.0, noise_c=0.05) is None


def test_the_beginning_of_a_curve_leaves_its_end_open() -> None:
    early, late = fitted(20, (50.0, 300.0)), fitted(128, (50.0, 300.0))
    width = [found.steady_c.high - found.steady_c.low for found in (early, late)]
    assert width[0] > 2 * width[1]
    assert holds(early, 90.0)


def test_more_noise_is_less_sure() -> None:
    calm, noisy = (fitted(100, (50.0, 100.0), noise_c=noise_c) for noise_c in (0.05, 1.0))
    assert noisy.steady_c.high - noisy.steady_c.low > calm.steady_c.high - calm.steady_c.low


def test_noise_that_lasts_is_less_sure_than_noise_that_does_not() -> None:
    t_s, widths = np.arange(120) + 0.5, []
    shocks = np.random.default_rng(3).normal(0, 0.2, 130)
    for memory in (0.0, 0.8):
        noise = np.zeros(130)
        for i in range(1, 130):
            noise[i] = memory * noise[i - 1] + np.sqrt(1 - memory**2) * shocks[i]
        found = fit(t_s, curve(t_s, (50.0, 100.0)) + noise[10:], np.ones(120), TRIP_C)
        assert found is not None
        widths.append(found.steady_c.high - found.steady_c.low)
    assert widths[1] > 1.5 * widths[0]


def test_steps_of_a_whole_degree_are_no_certainty() -> None:
    t_s = np.arange(120) + 0.5
    found = fit(t_s, np.round(curve(t_s, (50.0, 100.0))), np.ones(120), TRIP_C)
    assert found is not None
    assert holds(found, 90.0)


def test_wide_blocks_tell_the_same_as_narrow_ones() -> None:
    t_s = np.arange(480) + 0.5
    celsius = curve(t_s, (10.0, 10.0), (40.0, 200.0)) + np.random.default_rng(0).normal(0, 0.05, 480)
    wide = fit(t_s.reshape(-1, 16).mean(1), celsius.reshape(-1, 16).mean(1), np.full(30, 16.0), TRIP_C)
    assert wide is not None
    assert holds(wide, 90.0)
    assert wide.steady_c.high - wide.steady_c.low < 6


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-1e12, 1e12) | st.floats(20, 100) | st.just(50.0), min_size=12, max_size=128),
    st.sampled_from([1.0, 64.0]), st.booleans(), st.floats(-50, 150),
)  # fmt: skip
def test_whatever_was_read_it_is_weighed(celsius: list[float], width_s: float, alike: bool, trip_c: float) -> None:
    t_s = (np.arange(len(celsius)) + 0.5) * width_s
    found = fit(t_s, np.array(celsius), np.full(len(celsius), width_s), trip_c, all_alike=alike)
    if found is not None:
        assert found.steady_c.low <= found.steady_c.value <= found.steady_c.high
        assert found.trip_s.low <= found.trip_s.value <= found.trip_s.high
        assert 0 <= found.trip_share <= 1.0000001
        assert 0 <= found.trip_sureness <= 1.0000001


def test_the_same_readings_give_the_same_forecast() -> None:
    assert fitted(60, (50.0, 100.0)) == fitted(60, (50.0, 100.0))


def _rising(by_second: Callable[[Floats], Floats], seconds: int, trip_c: float) -> Fitted | None:
    t_s = np.arange(seconds) + 0.5
    return fit(t_s, by_second(t_s), np.ones(seconds), trip_c)


RAMPS = {
    "a ramp": (lambda t: 40 + 0.1 * t, 80.0, 400.0, (60, 90, 120, 150)),
    "a slow ramp": (lambda t: 40 + 0.02 * t, 60.0, 1_000.0, (120, 240, 360, 480)),
    "a fast ramp": (lambda t: 40 + 0.5 * t, 80.0, 80.0, (20, 25)),
    "what the model knows": (lambda t: 40 + 50 * (1 - np.exp(-t / 200)), 80.0, 321.9, (60, 120, 240, 318, 320)),
    "in steps of a degree": (lambda t: np.round(40 + 0.1 * t), 80.0, 395.0, (90, 120, 150)),
}


@pytest.mark.parametrize("name", RAMPS)
def test_without_noise_it_is_no_surer_than_the_model(name: str) -> None:
    by_second, trip_c, hit_s, ages_s = RAMPS[name]
    found = [one for age_s in ages_s if (one := _rising(by_second, age_s, trip_c))]
    assert found
    for one in found:
        for told in (one.steady_c, one.trip_s):
            assert told.low < told.value < told.high or not np.isfinite(told.value)
        assert one.trip_s.low <= hit_s <= one.trip_s.high or one.trip_share < 0.6


def test_a_course_without_noise_has_a_range_all_the_same() -> None:
    found = fitted(128, (12.0, 6.0), (34.0, 100.0), noise_c=0.0)
    assert found.steady_c.low + 0.5 < 86.0 < found.steady_c.high - 0.5
    assert found.trip_s.low + 10 < found.trip_s.value < found.trip_s.high - 10
