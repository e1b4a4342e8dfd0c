"""Counters as rates: what grew between two readings, and never anything else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.counters import FIRST, WENT_BACK, Rate, SumRate
from edgetop.sensors.sensor_protocol import Gap


def fast(*_: object) -> float:
    return 1e20


def test_a_rate_is_a_share_of_the_time_between_two_readings() -> None:
    rate = Rate()
    rate.percent(10.0, 100.0, cpus=4)
    assert rate.percent(11.0, 104.0, cpus=4) == 25.0
    assert rate.percent(17.0, 106.0, cpus=4) == 300.0


def test_the_first_reading_only_begins_the_interval() -> None:
    assert isinstance(Rate().percent(10.0, 100.0, cpus=4), Gap)


def test_a_counter_that_went_back_is_a_gap_and_begins_anew() -> None:
    rate = Rate()
    rate.percent(10.0, 100.0, cpus=4)
    assert rate.percent(3.0, 101.0, cpus=4) == WENT_BACK
    assert rate.percent(4.0, 102.0, cpus=4) == 100.0


def test_no_time_between_two_readings_is_a_gap() -> None:
    rate = Rate()
    rate.percent(10.0, 100.0, cpus=4)
    assert isinstance(rate.percent(11.0, 100.0, cpus=4), Gap)


def test_growth_is_told_per_second() -> None:
    rate = Rate()
    assert rate.per_second(1000, 10.0, 1e6) == FIRST
    assert rate.per_second(1500, 12.0, 1e6) == 250.0


def test_several_counters_are_added() -> None:
    rate = SumRate()
    assert rate.per_second({"eth0": 100, "wlan0": 50}, 0.0, fast) == FIRST
    assert rate.per_second({"eth0": 300, "wlan0": 150}, 2.0, fast) == 150.0


def test_a_device_that_comes_counts_from_its_second_reading() -> None:
    rate = SumRate()
    rate.per_second({"eth0": 100}, 0.0, fast)
    assert rate.per_second({"eth0": 200, "usb0": 10**9}, 1.0, fast) == 100.0
    assert rate.per_second({"eth0": 200, "usb0": 10**9 + 7}, 2.0, fast) == 7.0


def test_a_device_that_went_takes_nothing_with_it() -> None:
    rate = SumRate()
    rate.per_second({"eth0": 100, "usb0": 500}, 0.0, fast)
    assert rate.per_second({"eth0": 200}, 1.0, fast) == 100.0
    assert rate.per_second({}, 2.0, fast) == FIRST


def test_a_device_that_was_reset_is_a_gap_with_its_name() -> None:
    rate = SumRate()
    rate.per_second({"eth0": 100, "wlan0": 500}, 0.0, fast)
    assert rate.per_second({"eth0": 200, "wlan0": 3}, 1.0, fast) == Gap("the counter of wlan0 went back")
    assert rate.per_second({"eth0": 200, "wlan0": 4}, 2.0, fast) == 1.0


COUNTERS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2**64), max_size=3)


@settings(deadline=None, max_examples=50)
@given(st.lists(COUNTERS, min_size=1, max_size=6))
def test_a_sum_is_never_below_nothing(readings: list[dict[str, int]]) -> None:
    rate = SumRate()
    values = [rate.per_second(counters, float(at), fast) for at, counters in enumerate(readings)]
    assert values[0] == FIRST
    assert all(isinstance(value, Gap) or value >= 0 for value in values)


def test_one_counter_that_leaps_is_a_gap_with_its_name_whatever_the_others_may_count() -> None:
    rate, most = SumRate(), {"eth0": 12.5e6, "wlan0": 1e9}
    rate.per_second({"eth0": 0, "wlan0": 0}, 0.0, lambda name, _: most[name])
    leap = rate.per_second({"eth0": 10**9, "wlan0": 5}, 1.0, lambda name, _: most[name])
    assert isinstance(leap, Gap)
    assert leap.reason.startswith("the counter of eth0 leapt by 1e+09 in 1 s; at most 1.25e+07 a second")
    assert rate.per_second({"eth0": 10**9 + 7, "wlan0": 5}, 2.0, lambda name, _: most[name]) == 7.0


def test_what_a_counter_is_late_by_is_no_leap_and_no_rate_above_the_most() -> None:
    rate = Rate(late_s=2.0)
    rate.per_second(0, 0.0, 100.0)
    assert rate.per_second(250, 1.0, 100.0) == 100.0
    assert isinstance(rate.per_second(250 + 400, 2.0, 100.0), Gap)
