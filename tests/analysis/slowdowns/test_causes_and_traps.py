"""Each cause by the signals that prove it, and each signal where it proves nothing."""

import pytest

from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.session.seconds import NS
from tests.support.slow_sessions import slowdowns_of, stretch

HEALTHY, SLOW = 70, 40
SLOWER = stretch((HEALTHY, 10.0), (SLOW, 14.0))
STEADY = stretch((HEALTHY + SLOW, 10.0))
NONE = float("nan")


def changing(before: float, during: float) -> list[float]:
    """A sensor that changes when the model slows down."""
    return stretch((HEALTHY, before), (SLOW, during))


def the_one(sensors: dict[str, list[float]], latency_ms: list[float] = SLOWER, **more: object) -> Slowdown:
    (found,) = slowdowns_of(latency_ms, sensors, **more)
    return found


def mostly(before: float, during: float) -> list[float]:
    """A sensor that changes with the slowdown, and is as before in two of each twelve of its seconds."""
    return stretch((HEALTHY, before), *[(1, before if at % 12 in (5, 11) else during) for at in range(SLOW)])


# The kernel counts the stall through the quota as waiting for a CPU.
MOSTLY_STALLED = {
    "pressure/cpu-quota": mostly(0, 100),
    "rate/cpu-throttled": mostly(0, 480),
    "rate/run-queue-wait": changing(4, 490),
    "pressure/cpu-some": changing(3, 49),
    "rate/involuntary-switches": changing(2, 60),
}

PROOFS = {
    "thermal by its flag": ("thermal", {"throttle/thermal": changing(0, 1)}),
    "thermal by a soft limit": ("thermal", {"throttle/soft-temp-limit": changing(0, 1)}),
    "thermal by an Edge TPU's": ("thermal", {"throttle/edge-tpu:0": changing(0, 1)}),
    "thermal by a cooling device": (
        "thermal", {"cooling/0-cpufreq-cpu0": changing(0, 3), "freq/cpu0": changing(1800, 1300)}),
    "thermal by one that goes further": (
        "thermal", {"cooling/0-cpufreq-cpu0": changing(1, 4), "freq/cpu0": changing(1700, 1200)}),
    "thermal by a clock at the trip": (
        "thermal", {"freq/cpu0": changing(1800, 1300), "temp/cpu-thermal": changing(80, 85.2)}),
    "thermal by counters": ("thermal", {"rate/thermal-events": changing(0, 4)}),
    "power by a limit": ("power-cap", {"throttle/power-limit": changing(0, 1), "freq/cpu0": changing(1800, 1300)}),
    "power by over-current": (
        "power-cap", {"throttle/over-current": changing(0, 1), "pressure/over-current": changing(0.4, 35)}),
    "power by a mode for CPU and GPU": (
        "power-cap",
        {"freqcap/cpu0": changing(1800, 1300), "freqcap/gpu": changing(1000, 600), "freq/cpu0": changing(1800, 1300)}),
    "under-voltage by its flag": ("under-voltage", {"throttle/under-voltage": changing(0, 1)}),
    "under-voltage by the input": (
        "under-voltage", {"volt/EXT5V": changing(5.02, 4.55), "freq/cpu0": changing(1800, 1300)}),
    "contention by waiting": ("contention", {"rate/run-queue-wait": changing(6, 290)}),
    "contention by pressure": ("contention", {"pressure/cpu-some": changing(4, 45)}),
    "contention by a hypervisor": ("contention", {"load/steal": changing(0.2, 28)}),
    "contention by another program on the GPU": ("contention", {"load/gpu-others": changing(0, 40)}),
    "contention by others' load": (
        "contention",
        {"load/cpu": changing(105, 260), "load/engine": changing(98, 75), "load/edgetop": changing(1, 1)}),
    "a quota": ("cpu-quota", {"pressure/cpu-quota": changing(0, 60)}),
    "a quota, by which it waits as well": (
        "cpu-quota", {"pressure/cpu-quota": changing(0, 60), "rate/run-queue-wait": changing(6, 290)}),
    "a quota whose reading misses two seconds of twelve, beside others": (
        "cpu-quota", {**MOSTLY_STALLED, "load/others": changing(5, 60)}),
    "the same in a recording without throttled time": (
        "cpu-quota", {name: values for name, values in MOSTLY_STALLED.items() if name != "rate/cpu-throttled"}),
    "others, beside a quota that is used up as ever": (
        "contention", {
            "pressure/cpu-quota": changing(80, 80), "rate/cpu-throttled": changing(200, 200),
            "rate/run-queue-wait": changing(200, 700)}),
    "memory by its limit": ("memory-pressure", {"rate/memory-limit-hits": changing(0, 900)}),
    "memory by few but long sleeps above memory.high": ("memory-high", {"rate/memory-high-hits": changing(0, 2)}),
    "memory.high, with the pressure and the faults that it makes": ("memory-high", {
        "rate/memory-high-hits": changing(0, 2), "pressure/memory-some": changing(0, 40),
        "rate/major-faults": changing(0, 90)}),
    "memory by faults": ("memory-pressure", {"rate/major-faults": changing(0.1, 80)}),
    "memory by swapping": ("memory-pressure", {"rate/swap-in": changing(0, 900)}),
    "memory by pressure": ("memory-pressure", {"pressure/memory-full": changing(0, 22)}),
    "memory by its cgroup": (
        "memory-pressure", {"mem/cgroup-left": changing(400, 0.1), "rate/major-faults": changing(0, 9)}),
    "a clock and nothing else": (
        "clock-change", {"freq/cpu0": changing(1800, 1300), "temp/cpu-thermal": changing(60, 60)}),
    "a cap of a user": ("clock-change", {"freqcap/cpu0": changing(1800, 1300), "freq/cpu0": changing(1800, 1300)}),
    "nothing at all": ("unknown", {"throttle/thermal": changing(0, 0), "freq/cpu0": changing(1800, 1800)}),
    "no sensors": ("unknown", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROOFS)
def test_each_cause_is_found_by_what_proves_it(name: str) -> None:
    cause, sensors = PROOFS[name]
    found = the_one(sensors)
    assert found.cause == cause
    assert abs(found.start_ns / NS - HEALTHY) <= 1
    assert found.latency_ratio == pytest.approx(1.4, rel=0.02)
    assert (found.confidence >= 0.4) == bool(sensors)


def test_the_evidence_has_its_values_and_times() -> None:
    sensors = {
        "freq/cpu0": changing(1800, 1200),
        "throttle/thermal": changing(0, 1),
        "temp/cpu-thermal": changing(80, 85),
    }
    assert the_one(sensors).evidence == (
        Clue("set", "throttle/thermal", share=1.0, at_s=70),
        Clue("fell", "freq/cpu0", "MHz", 1200, 1800, at_s=70),
        Clue("trip", value=0.0),
    )


def test_what_was_looked_at_is_told_where_nothing_explains_it() -> None:
    looked, untold = the_one({"freq/cpu0": changing(1800, 1800)}).evidence
    assert (looked.kind, looked.causes) == ("unchanged", ("clock-change",))
    assert (untold.kind, "thermal" in untold.causes) == ("unreported", True)


# What proves nothing of itself.
DECOYS = {
    "a sticky bit from before": {
        "throttle/under-voltage-sticky": changing(1, 1),
        "throttle/under-voltage": changing(0, 0),
    },
    "a sticky bit that rises": {"throttle/thermal-sticky": changing(0, 1)},
    "a zone that was hot before": {"temp/cpu-thermal": changing(86, 86), "freq/cpu0": changing(1800, 1800)},
    "a fan": {"cooling/1-pwm-fan": changing(1, 4), "fan/cpu": changing(900, 3000)},
    "a hot surface": {"cooling/9-hot-surface-alert": changing(0, 1)},
    "a flag long before": {"throttle/thermal": stretch((35, 0), (20, 1), (55, 0))},
    "a flag long after": {"throttle/thermal": stretch((HEALTHY + 15, 0), (25, 1))},
    "over-current events as ever": {
        "rate/over-current-events": changing(7.6, 8.1),
        "pressure/over-current": changing(0.8, 0.8),
    },
    "a clock that idles between inferences": {"freq/cpu0": [1800.0, 600.0] * ((HEALTHY + SLOW) // 2)},
    "one core that idles": {"freq/cpu0": changing(1800, 1800), "freq/cpu1": changing(1800, 400)},
    "pressure as ever": {"pressure/cpu-some": changing(60, 61), "rate/run-queue-wait": changing(200, 202)},
    "a firmware's clock that did not fall": {"freq/cpu0": changing(1800, 600), "freq/arm": changing(1800, 1800)},
    "a supply that is low but holds": {"volt/EXT5V": changing(4.78, 4.77)},
    "a sensor that fell silent": {"throttle/thermal": changing(0, NONE), "freq/cpu0": changing(1800, NONE)},
}


@pytest.mark.parametrize("name", DECOYS)
def test_a_signal_that_did_not_begin_with_it_is_no_cause(name: str) -> None:
    assert the_one(DECOYS[name]).cause == "unknown"


@pytest.mark.slow
@pytest.mark.parametrize("name", {**PROOFS, **DECOYS})
def test_no_signal_is_a_slowdown_by_itself(name: str) -> None:
    sensors = PROOFS[name][1] if name in PROOFS else DECOYS[name]
    assert slowdowns_of(STEADY, sensors) == ()


def test_the_cause_that_explains_more_of_the_time_wins() -> None:
    long, short = changing(0, 1), stretch((HEALTHY, 0), (14, 200), (26, 0))
    found = the_one({"throttle/thermal": long, "rate/major-faults": short})
    assert found.cause == "thermal"
    assert [clue.also_share for clue in found.evidence if clue.also == "memory-pressure"] == [
        pytest.approx(0.35, abs=0.005)
    ]
    long, short = changing(0, 200), stretch((HEALTHY, 0), (14, 1), (26, 0))
    assert the_one({"throttle/thermal": short, "rate/major-faults": long}).cause == "memory-pressure"


def test_slower_clocks_that_crowd_the_cpu_are_no_contention() -> None:
    found = the_one(
        {"freq/cpu0": changing(1800, 1300), "pressure/cpu-some": changing(5, 30), "throttle/thermal": changing(0, 1)}
    )
    assert found.cause == "thermal"


def test_heat_that_began_before_explains_a_clock_that_falls_now() -> None:
    sensors = {"throttle/thermal": stretch((30, 0), (80, 1)), "freq/cpu0": stretch((30, 1800), (40, 1750), (40, 1200))}
    assert the_one(sensors).cause == "thermal"


def test_sensors_read_seldom_get_the_time_they_need() -> None:
    found = the_one({"throttle/thermal": changing(0, 1)}, every_s=5)
    assert found.cause == "thermal"


def test_a_clock_is_not_compared_with_the_slowdown_before() -> None:
    latency = stretch((60, 10.0), (30, 14.0), (20, 10.0), (40, 14.0))
    clock = stretch((60, 1800), (30, 1300), (20, 1800), (40, 1300))
    assert [found.cause for found in slowdowns_of(latency, {"freq/cpu0": clock})] == ["clock-change"] * 2


def test_a_low_voltage_that_rose_is_not_said_to_have_fallen() -> None:
    """It had sagged further a moment before, so that what was usual then is lower still."""
    sensors = {
        "throttle/under-voltage": stretch((60, 0.0), (20, 1.0)),
        "volt/EXT5V": stretch((34, 5.05), (20, 4.50), (6, 5.05), (20, 4.60)),
    }
    (found,) = slowdowns_of(stretch((60, 10.0), (20, 14.0)), sensors)
    assert Clue("was", "volt/EXT5V", "V", pytest.approx(4.6), at_s=60) in found.evidence
