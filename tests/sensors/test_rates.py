"""Counters as rates: what grew between two readings, and never anything else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.counters import FIRST, WENT_BACK, Rate, SumRate
from edgetop.sensors.sensor_protocol import Gap


def test_a_rate_is_a_share_of_the_time_between_two_readings() -> None:
    rate = Rate()
    rate.percent(10.0, 100.0)
    assert rate.percent(11.0, 104.0) == 25.0
    assert rate.percent(17.0, 106.0) == 300.0


def test_the_first_reading_only_begins_the_interval() -> None:
    assert isinstance(Rate().percent(10.0, 100.0), Gap)


def test_a_counter_that_went_back_is_a_gap_and_begins_anew() -> None:
    rate = Rate()
    rate.percent(10.0, 100.0)
    assert rate.percent(3.0, 101.0) == WENT_BACK
    assert rate.percent(4.0, 102.0) == 100.0


def test_no_time_between_two_readings_is_a_gap() -> None:
    rate = Rate()
    rate.percent(10.0, 100.0)
    assert isinstance(rate.percent(11.0, 100.0), Gap)


def test_growth_is_told_per_second() -> None:
    rate = Rate()
    assert rate.per_second(1000, 10.0) == FIRST
    assert rate.per_second(1500, 12.0) == 250.0


def test_several_counters_are_added() -> None:
    rate = SumRate()
    assert rate.per_second({"eth0": 100, "wlan0": 50}, 0.0) == FIRST
    assert rate.per_second({"eth0": 300, "wlan0": 150}, 2.0) == 150.0


def test_a_device_that_comes_counts_from_its_second_reading() -> None:
    rate = SumRate()
    rate.per_second({"eth0": 100}, 0.0)
    assert rate.per_second({"eth0": 200, "usb0": 10**9}, 1.0) == 100.0
    assert rate.per_second({"eth0": 200, "usb0": 10**9 + 7}, 2.0) == 7.0


def test_a_device_that_went_takes_nothing_with_it() -> None:
    rate = SumRate()
    rate.per_second({"eth0": 100, "usb0": 500}, 0.0)
    assert rate.per_second({"eth0": 200}, 1.0) == 100.0
    assert rate.per_second({}, 2.0) == FIRST


def test_a_device_that_was_reset_is_a_gap_with_its_name() -> None:
    rate = SumRate()
    rate.per_second({"eth0": 100, "wlan0": 500}, 0.0)
    assert rate.per_second({"eth0": 200, "wlan0": 3}, 1.0) == Gap("the counter of wlan0 went back")
    assert rate.per_second({"eth0": 200, "wlan0": 4}, 2.0) == 1.0


COUNTERS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2**64), max_size=3)


@settings(deadline=None, max_examples=50)
@given(st.lists(COUNTERS, min_size=1, max_size=6))
def test_a_sum_is_never_below_nothing(readings: list[dict[str, int]]) -> None:
    rate = SumRate()
    values = [rate.per_second(counters, float(at)) for at, counters in enumerate(readings)]
    assert values[0] == FIRST
    assert all(isinstance(value, Gap) or value >= 0 for value in values)
