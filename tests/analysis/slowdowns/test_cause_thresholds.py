"""Each threshold of the search for a cause, on both of its sides."""

import numpy as np
import pytest

from edgetop.analysis.slowdowns.cause_finding import Finding, find_cause
from edgetop.analysis.slowdowns.evidence import Evidence, normal_range
from edgetop.analysis.slowdowns.signals import LOAD_OF_OTHERS, Cause, Channel, channels
from edgetop.analysis.slowdowns.tally import Tally
from tests.analysis.slowdowns.test_causes_and_traps import HEALTHY, SLOW, changing, the_one
from tests.analysis.slowdowns.test_thresholds import correlated
from tests.support.sessions import make_sensor
from tests.support.slow_sessions import sensor, slowdowns_of, stretch

LEVEL = 0.3  # of the slowdown, in nepers


def found(
    seconds: dict[Cause, int], *, weight: float = 1.0, clock: float | None = None, stood: int = 0,
    named: Cause = "unknown", weights: dict[Cause, float] | None = None,
) -> Finding:  # fmt: skip
    """The cause of 100 slow seconds, of which these causes explain so many; `clock`: the part that a clock explains."""
    weights = weights or {}
    proofs = [Channel(cause, cause, (0,), weight=weights.get(cause, weight)) for cause in seconds]
    tallies = [Tally(0.0, 0.5, False, 0, before_s=0, first_s=1, beyond=n, known=100) for n in seconds.values()]
    if clock is not None:
        proofs.append(Channel("freq/cpu0", "clock-change", (0,), "clock"))
        milli = round(100 * 1_800_000 * np.exp(-LEVEL * clock))
        tallies.append(Tally(1800.0, 1700.0, False, 0, before_s=0, first_s=1, beyond=100, known=100, sum_milli=milli))
    evidence = Evidence(
        channels=tuple(proofs), floor=0, start_s=0, until_s=100, near_s=4, seconds=100, tallies=tallies, stood=stood
    )
    evidence.explained |= seconds
    return find_cause(evidence, LEVEL, named)


@pytest.mark.parametrize(("seconds", "cause"), [(19, "unknown"), (21, "memory-pressure")])
def test_a_cause_explains_a_fifth_of_the_slow_time(seconds: int, cause: str) -> None:
    assert found({"memory-pressure": seconds}).cause == cause


@pytest.mark.parametrize(("seconds", "cause"), [(9, "unknown"), (11, "memory-pressure")])
def test_half_of_that_suffices_for_the_cause_that_was_named_before(seconds: int, cause: str) -> None:
    assert found({"memory-pressure": seconds}, named="memory-pressure").cause == cause


@pytest.mark.parametrize(("seconds", "cause"), [(84, "memory-pressure"), (86, "contention")])
def test_of_causes_that_explain_about_as_much_the_better_proven_one_wins(seconds: int, cause: str) -> None:
    """As much is up to 15 % of the time less."""
    weights: dict[Cause, float] = {"memory-pressure": 0.5, "contention": 0.9}
    assert found({"memory-pressure": 100, "contention": seconds}, weights=weights).cause == cause


@pytest.mark.parametrize(("weight", "cause"), [(0.62, "memory-pressure"), (0.66, "contention")])
def test_the_cause_that_was_named_before_is_believed_by_a_fifth_more(weight: float, cause: str) -> None:
    weights: dict[Cause, float] = {"memory-pressure": 0.8, "contention": weight}
    seconds: dict[Cause, int] = {"memory-pressure": 100, "contention": 100}
    assert found(seconds, weights=weights, named="contention").cause == cause


@pytest.mark.parametrize(("clock", "cause"), [(0.24, "unknown"), (0.26, "clock-change")])
def test_a_clock_explains_a_quarter_of_the_slowdown_to_be_its_cause(clock: float, cause: str) -> None:
    assert found({"clock-change": 100}, clock=clock).cause == cause


@pytest.mark.parametrize(("stood", "cause"), [(59, "unknown"), (61, "contention")])
def test_others_that_were_there_before_explain_it_by_three_fifths_of_the_time(stood: int, cause: str) -> None:
    assert found({}, stood=stood).cause == cause


def test_how_sure_each_proof_is() -> None:
    assert found({"thermal": 100}).confidence == 0.9  # a flag, and no clock is visible beside it
    assert found({"thermal": 100}, clock=0.4).confidence == 0.9  # a clock that explains four fifths of half of it
    assert found({"thermal": 100}, clock=0.51).confidence == 0.99  # all of that
    assert found({}, stood=100).confidence == 0.6  # others that were there before
    assert found({"memory-pressure": 100, "contention": 50}).confidence == 0.85  # another one is possible


def test_what_is_usual_lies_between_a_fifth_and_nine_tenths_of_the_values() -> None:
    before = np.arange(101.0)
    assert normal_range(Channel("", "thermal", (0,), falls=True), before) == (50, 20)
    assert normal_range(Channel("", "thermal", (0,)), before) == (50, 90)


# From what value on each signal counts: where it was 0 before, and where it was 100; and how sure it is alone. Of a
# limit the clock says how sure it is.
COUNTS = {
    "rate/thermal-events": (0.5, 200, 0.0),
    "rate/core-thermal-events": (0.5, 200, 0.0),
    "pressure/over-current": (3, 150, 0.0),
    "rate/over-current-events": (30, 150, 0.0),
    "pressure/cpu-quota": (5, 150, 0.9),
    "rate/cpu-throttled": (30, 150, 0.9),
    "rate/run-queue-wait": (30, 150, 0.9),
    "load/steal": (5, 150, 0.9),
    "pressure/cpu-some": (10, 120, 0.8),
    "load/gpu-others": (10, 150, 0.8),
    "rate/involuntary-switches": (30, 200, 0.5),
    "rate/major-faults": (5, 200, 0.8),
    "rate/swap-in": (20, 200, 0.8),
    "rate/memory-limit-hits": (20, 200, 0.5),
    "rate/memory-high-hits": (0.5, 200, 0.9),
    "pressure/memory-some": (4, 150, 0.9),
    "pressure/memory-full": (3, 150, 0.9),
}


@pytest.mark.parametrize("sensor_id", COUNTS)
def test_a_count_is_evidence_by_so_much_more_than_was_usual(sensor_id: str) -> None:
    from_none, from_hundred, weight = COUNTS[sensor_id]
    (channel,) = channels([make_sensor(sensor_id)], {})
    assert normal_range(channel, np.zeros(30))[1] == from_none
    assert normal_range(channel, np.full(30, 100.0))[1] == pytest.approx(from_hundred)
    assert channel.weight == weight


SIGNALS = {
    "a clock that fell by three percent": ({"freq/cpu0": changing(1800, 1740)}, "freq/cpu0", False),
    "a clock that fell by five percent": ({"freq/cpu0": changing(1800, 1720)}, "freq/cpu0", True),
    "more than two MiB of a group left": ({"mem/cgroup-left": changing(400, 2.1)}, "mem/cgroup-left", False),
    "less than two MiB of a group left": ({"mem/cgroup-left": changing(400, 1.9)}, "mem/cgroup-left", True),
    "others that take 29 percent of a core": ({"load/others": changing(0, 29)}, LOAD_OF_OTHERS, False),
    "others that take 31 percent of a core": ({"load/others": changing(0, 31)}, LOAD_OF_OTHERS, True),
    "an input of 4.7 volts": ({"volt/EXT5V": changing(5.05, 4.7)}, "volt/EXT5V", False),
    "an input of 4.6 volts": ({"volt/EXT5V": changing(5.05, 4.6)}, "volt/EXT5V", True),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_counts_beyond_its_range(name: str) -> None:
    ((sensor_id, values),), channel_name, counts = SIGNALS[name][0].items(), *SIGNALS[name][1:]
    (channel,) = channels([sensor(sensor_id)], {})
    _, threshold = normal_range(channel, np.array(values[:HEALTHY]))
    assert channel.name == channel_name
    assert (values[-1] <= threshold if channel.falls else values[-1] >= threshold) is counts


@pytest.mark.parametrize(("seconds", "cause"), [(39, "mix"), (41, "memory-pressure")])
def test_a_cause_outside_of_the_program_comes_before_the_mix_from_two_fifths_on(seconds: int, cause: str) -> None:
    weights: dict[Cause, float] = {"mix": 0.6, "memory-pressure": 1.0}
    assert found({"mix": 100, "memory-pressure": seconds}, weights=weights).cause == cause


@pytest.mark.parametrize(("rival", "cause"), [(0.7, "power-cap"), (0.9, "contention")])
def test_a_power_limit_that_no_clock_shows_is_believed_less_than_a_plain_flag(rival: float, cause: str) -> None:
    weights: dict[Cause, float] = {"contention": rival}
    assert found({"power-cap": 100, "contention": 100}, weights=weights, clock=0.1).cause == cause


@pytest.mark.parametrize(
    ("sensor_id", "before", "during", "confidence"), [("mem/cgroup-left", 400, 1, 0.6), ("load/others", 0, 60, 0.5)]
)
def test_what_may_do_no_harm_proves_a_cause_by_half(
    sensor_id: str, before: float, during: float, confidence: float
) -> None:
    assert the_one({sensor_id: changing(before, during)}).confidence == pytest.approx(confidence, abs=0.03)


@pytest.mark.parametrize(("celsius", "cause"), [(83.9, "clock-change"), (84.1, "thermal")])
def test_a_zone_a_degree_below_its_trip_may_have_been_there(celsius: float, cause: str) -> None:
    assert the_one({"freq/cpu0": changing(1800, 1300), "temp/cpu-thermal": changing(celsius, celsius)}).cause == cause


FLAG = "throttle/thermal"


def flagged(*set_s: tuple[int, int]) -> dict[str, list[float]]:
    """Set from each first second until each second one."""
    return {FLAG: [float(any(a <= s < b for a, b in set_s)) for s in range(HEALTHY + SLOW)]}


@pytest.mark.parametrize(("begin_s", "cause"), [(HEALTHY + 5, "thermal"), (HEALTHY + 6, "unknown")])
def test_a_signal_begins_within_three_seconds_of_the_slowdown(begin_s: int, cause: str) -> None:
    """One more lies between two inferences, and one between two readings."""
    assert the_one(flagged((begin_s, 200))).cause == cause


@pytest.mark.parametrize("set_s", [(62, 64), (61, 64), (64, 66)])
def test_a_flag_that_was_over_before_the_slowdown_was_not_set_before(set_s: tuple[int, int]) -> None:
    """It was set for half of the last four seconds at most, those in which it may have begun left out."""
    assert the_one(flagged(set_s, (HEALTHY, 200))).cause == "thermal"


@pytest.mark.parametrize(("until_s", "cause"), [(36, "contention"), (42, "unknown")])
def test_what_is_usual_is_that_of_half_a_minute(until_s: int, cause: str) -> None:
    waits = stretch((30, 6), (until_s - 30, 290), (HEALTHY - until_s, 6), (SLOW, 290))
    assert the_one({"rate/run-queue-wait": waits}).cause == cause


@pytest.mark.parametrize(("calm_s", "cause"), [(8, "contention"), (7, "unknown")])
def test_a_contention_that_was_over_four_seconds_before_the_slowdown_is_not_usual(calm_s: int, cause: str) -> None:
    """The slowdown itself may have begun four seconds earlier."""
    waits = stretch((HEALTHY - 10 - calm_s, 6), (10, 600), (calm_s, 6), (SLOW, 600))
    assert the_one({"rate/run-queue-wait": waits}).cause == cause


def test_after_a_stage_a_sensor_has_five_seconds_to_be_read_again() -> None:
    evidence = Evidence(floor=0, start_s=60, until_s=90, near_s=64)
    assert evidence.resumed(90).start_s == 95


def of_two(worse: float, scatter: float = 0.005) -> list[Cause]:
    """The causes of a board that throttles, and of which others take the CPU when it becomes so much worse."""
    latency = stretch((60, 10.0), (30, 13.0), (30, 13.0 * worse))
    sensors = {
        "throttle/soft-temp": stretch((60, 0.0), (60, 1.0)),
        "freq/cpu0": stretch((60, 1800.0), (60, 1350.0)),
        "rate/run-queue-wait": stretch((90, 0.0), (30, 400.0)),
    }
    return [slowdown.cause for slowdown in slowdowns_of(latency, sensors, scatter=scatter)]


@pytest.mark.parametrize(("worse", "causes"), [(1.11, ["thermal"]), (1.13, ["thermal", "contention"])])
def test_another_cause_makes_it_worse_by_twelve_percent(worse: float, causes: list[Cause]) -> None:
    assert of_two(worse) == causes


@pytest.mark.parametrize(("scatter", "causes"), [(0.25, ["thermal", "contention"]), (0.3, ["thermal"])])
def test_another_cause_makes_it_worse_by_three_times_the_scatter(scatter: float, causes: list[Cause]) -> None:
    assert of_two(1.3, scatter) == causes


@pytest.mark.parametrize(
    ("sensor_id", "seed", "share", "causes"),
    [("rate/major-faults", 24, 0.11, ["memory-pressure"]), ("rate/involuntary-switches", 8, 0.12, [])],
)
def test_the_surer_the_cause_the_less_sure_the_rise_must_be(
    sensor_id: str, seed: int, share: float, causes: list[Cause]
) -> None:
    """Faults are a better proof than switches of a rise that noise might explain."""
    noise = correlated(seed, 0.03)
    noise[80:120] += share
    slow_s = 38 if sensor_id == "rate/major-faults" else 40
    value = 50.0 if sensor_id == "rate/major-faults" else 500.0
    sensors = {sensor_id: stretch((80, 0.0), (slow_s, value), (120 - slow_s, 0.0))}
    found = slowdowns_of((10 * np.exp(noise)).tolist(), sensors, scatter=0.001)
    assert [slowdown.cause for slowdown in found] == causes


@pytest.mark.parametrize(
    ("sensor_id", "stalled", "left"),
    [
        ("rate/run-queue-wait", 400.0, 500.0),  # a quarter more than the stall is taken off
        ("pressure/cpu-some", 400.0, 950.0),
        ("rate/run-queue-wait", 900.0, 0.0),
        ("rate/involuntary-switches", 23.9, 1000.0),  # 24 ms and a quarter: less than 30 ms hide nothing
        ("rate/involuntary-switches", 24.1, float("nan")),
    ],
)
def test_a_stall_through_the_quota_is_taken_off_what_others_cause(sensor_id: str, stalled: float, left: float) -> None:
    infos = [make_sensor(sensor_id), make_sensor("rate/cpu-throttled")]
    channel = next(one for one in channels(infos, {}) if one.name == sensor_id)
    values = channel.values(np.array([[1000.0], [stalled]]))
    assert values.tolist() == pytest.approx([left], nan_ok=True)
