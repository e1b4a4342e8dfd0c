"""Readings at the limits of what is believed."""

from pathlib import Path

import pytest

from edgetop.sensors import plausible
from edgetop.sensors.plausible import air_c, celsius_of, consumed_w, power_w, temperature_c, trip_c, zone_c
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant


@pytest.mark.parametrize(("celsius", "is_believed"), [(-39, True), (-41, False), (149, True), (151, False)])
def test_a_chip_is_between_40_below_zero_and_150_degrees(celsius: float, is_believed: bool) -> None:
    assert isinstance(temperature_c(celsius), float | int) is is_believed


@pytest.mark.parametrize(("millidegrees", "is_believed"), [(149, False), (151, True)])
def test_a_number_up_to_150_is_in_whole_degrees(millidegrees: int, is_believed: bool) -> None:
    assert isinstance(celsius_of(millidegrees), float) is is_believed


@pytest.mark.parametrize(("millidegrees", "is_believed"), [(151, False), (1490, False), (1510, True)])
def test_a_zone_up_to_1500_is_in_tenths_and_so_is_a_trip(millidegrees: int, is_believed: bool) -> None:
    assert isinstance(zone_c(millidegrees, None), float) is is_believed
    assert (trip_c(millidegrees) is not None) is is_believed


@pytest.mark.parametrize(("celsius", "is_believed"), [(94, True), (104, True), (114.9, True), (115.1, False)])
def test_a_zone_far_above_its_critical_trip_is_not_believed(celsius: float, is_believed: bool) -> None:
    """A board that overheats is above the trip for the seconds that a shutdown takes."""
    assert isinstance(zone_c(round(celsius * 1000), 105.0), float) is is_believed
    assert isinstance(zone_c(round(celsius * 1000), None), float)


@pytest.mark.parametrize("celsius", [-39.0, 0.0, 0.062, 1.0])
def test_the_air_may_have_any_temperature_around_0(celsius: float) -> None:
    assert air_c(celsius) == celsius
    assert isinstance(air_c(-41.0), Gap)


@pytest.mark.parametrize(("celsius", "is_believed"), [(174, True), (176, False)])
def test_a_trip_point_is_at_most_175_degrees(celsius: int, is_believed: bool) -> None:
    assert (trip_c(1000 * celsius) is not None) is is_believed


@pytest.mark.parametrize(("watts", "is_believed"), [(9_900, True), (-9_900, True), (10_100, False)])
def test_no_board_draws_more_than_ten_kilowatts(watts: float, is_believed: bool) -> None:
    assert isinstance(power_w(watts), Gap) is not is_believed


@pytest.mark.parametrize(("watts", "is_none"), [(-0.049, True), (-0.051, False)])
def test_a_twentieth_of_a_watt_the_other_way_counts_as_none(watts: float, is_none: bool) -> None:
    assert (consumed_w(watts) == 0.0) is is_none


def test_the_highest_rates_are_those_of_the_fastest_hardware(tmp_path: Path) -> None:
    """Each is a figure of a datasheet or a standard, so there is no example on either side of it."""
    root = plant(tmp_path, {"sys/class/net/wlan0/wireless/link": "0", "sys/class/net/eth0/device/speed": "0"})
    assert plausible.most_of_link(root, "wlan0") * 8 == 46e9
    assert plausible.most_of_link(root, "eth0") * 8 == 800e9
    assert plausible.most_of_disk("mmcblk0") == 1e9
    assert plausible.most_of_disk("nvme0n1") == 64e9
    assert pytest.approx(100e-9) == 1 / plausible.EVENTS_PER_CPU
    assert plausible.COPIED_PER_CPU == 100e9
    assert plausible.INTERRUPTS == 1e6
