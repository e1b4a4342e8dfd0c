"""Which operator made an instrumented inference slower than usual."""

from typing import Any

import pytest

from edgetop.engines.child.profilers import MOST_TIMES, Profile
from edgetop.engines.child.profilers.interference import Interference
from edgetop.engines.child.usual_times import KEPT, LEAST, UsualTimes

US = 1_000


def burst(*runs: tuple[int, int], disturbed: bool = False) -> dict[str, Any]:
    """Runs in us, each of a convolution and an addition."""
    profile = Profile()
    for conv_us, add_us in runs:
        profile.begin_run((conv_us + add_us) * US, Interference(9, 10**9) if disturbed else None)
        profile.add("conv", "Conv", "CPU", conv_us * US)
        profile.add("add", "Add", "CPU", add_us * US)
    return profile.describe()


def usual(*more: tuple[int, int]) -> UsualTimes:
    times = UsualTimes()
    times.slow_run(burst(*[(80, 20)] * LEAST, *more))
    return times


def test_the_operator_that_took_longer_is_named_with_its_usual_share() -> None:
    assert usual().slow_run(burst((80, 20), (80, 60))) == {
        "slow_ns": 140 * US, "usual_ns": 100 * US, "longer": "add", "longer_ns": 40 * US, "longer_share": 0.2,
    }  # fmt: skip


@pytest.mark.parametrize(("run", "is_slow"), [((80, 29), False), ((80, 31), True)])
def test_an_inference_is_slow_from_a_tenth_above_the_median(run: tuple[int, int], is_slow: bool) -> None:
    assert bool(usual().slow_run(burst(run))) == is_slow


@pytest.mark.parametrize(("run", "longer"), [((90, 30), "conv"), ((89, 31), "add"), ((120, 30), "conv")])
def test_the_operator_that_lost_most_is_named(run: tuple[int, int], longer: str) -> None:
    assert usual().slow_run(burst(run))["longer"] == longer


def test_no_operator_is_named_if_each_lost_less_than_half() -> None:
    times = UsualTimes()
    for _ in range(2):
        profile = Profile()
        for ns in [30] * LEAST + [60]:
            profile.begin_run(3 * ns)
            for name in "abc":
                profile.add(name, "Conv", "CPU", ns)
        found = times.slow_run(profile.describe())
    assert found == {"slow_ns": 180, "usual_ns": 90}


def test_few_runs_show_nothing() -> None:
    times = UsualTimes()
    assert times.slow_run(burst(*[(80, 20)] * (LEAST - 2), (80, 60))) == {}
    assert times.slow_run(burst((80, 60))) != {}


def test_what_is_usual_follows_the_latest_runs() -> None:
    times = usual()
    for _ in range(KEPT):
        times.slow_run(burst((160, 40)))
    assert times.slow_run(burst((160, 40))) == {}


def test_a_disturbed_burst_does_not_count() -> None:
    times = usual()
    assert times.slow_run(burst((80, 60), disturbed=True)) == {}


def test_a_model_of_very_many_operators_is_left_out() -> None:
    profile = Profile()
    profile.begin_run(1)
    for number in range(MOST_TIMES + 1):
        profile.add(f"op{number}", "Conv", "CPU", 1)
    described = profile.describe()
    assert described["runs"] == []
    assert UsualTimes().slow_run(described) == {}
    assert "runs" not in described
