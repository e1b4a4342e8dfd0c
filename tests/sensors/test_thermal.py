"""Thermal zones: found by type, read as °C or as a gap, with the trips that throttle."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from edgetop.sensors import thermal_zones
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap
from edgetop.sensors.thermal_zones import read_celsius
from tests.support.trees import link, plant

ZONE = "sys/class/thermal/thermal_zone{}/{}"


def plant_zone(
    tree: Path,
    number: int = 0,
    label: str = "cpu-thermal",
    temp: str = "61400",
    trips: Sequence[tuple[str, str]] = (),
    bound: Mapping[str, int] | None = None,
) -> Root:
    """`trips`: type and millidegrees each; `bound`: cooling device type to the trip it is bound to."""
    files = {ZONE.format(number, "type"): f"{label}\n", ZONE.format(number, "temp"): f"{temp}\n"}
    for i, (trip_type, millidegrees) in enumerate(trips):
        files[ZONE.format(number, f"trip_point_{i}_type")] = f"{trip_type}\n"
        files[ZONE.format(number, f"trip_point_{i}_temp")] = f"{millidegrees}\n"
    for i, (device, trip) in enumerate((bound or {}).items()):
        files[f"sys/class/thermal/cooling_device{i}/type"] = f"{device}\n"
        files[ZONE.format(number, f"cdev{i}_trip_point")] = f"{trip}\n"
        link(tree, ZONE.format(number, f"cdev{i}"), f"../cooling_device{i}")
    return plant(tree, files)


def trips_of(root: Root) -> Mapping[str, float] | None:
    (zone,) = thermal_zones.discover(root).sources
    return zone.sensors[0].trips


def read_one(root: Root) -> float | Gap:
    (zone,) = thermal_zones.discover(root).sources
    (value,) = zone.read()
    return value


@pytest.mark.parametrize(("temp", "celsius"), [("61400", 61.4), ("-12500", -12.5), ("1501", 1.501), ("150000", 150.0)])
def test_a_zone_reads_in_degrees(tmp_path: Path, temp: str, celsius: float) -> None:
    assert read_one(plant_zone(tmp_path, temp=temp)) == celsius


@pytest.mark.parametrize("temp", ["-256000", "-274000", "150001", "2147483647"])
def test_what_no_chip_can_have_is_a_gap_that_says_so(tmp_path: Path, temp: str) -> None:
    value = read_one(plant_zone(tmp_path, temp=temp))
    assert isinstance(value, Gap)
    assert f"{int(temp) / 1000:g} °C" in value.reason


@pytest.mark.parametrize("temp", ["0", "-0"])
def test_exactly_nothing_is_a_value_that_the_driver_has_not(tmp_path: Path, temp: str) -> None:
    value = read_one(plant_zone(tmp_path, temp=temp))
    assert isinstance(value, Gap)
    assert "exactly 0 °C" in value.reason


@pytest.mark.parametrize(
    ("label", "temp", "is_placeholder"),
    [
        ("PMIC-Die", "100000", True),
        ("PMIC-Die", "50000", True),
        ("PMIC-Die", "51500", False),
        ("CPU-therm", "100000", False),
    ],
)
def test_a_placeholder_of_older_jetsons_is_a_gap(tmp_path: Path, label: str, temp: str, is_placeholder: bool) -> None:
    assert isinstance(read_one(plant_zone(tmp_path, label=label, temp=temp)), Gap) == is_placeholder


@pytest.mark.parametrize("label", ["INT3400 Thermal", "thermal-fan-est"])
def test_what_measures_nothing_is_told_as_missing_and_never_read(tmp_path: Path, label: str) -> None:
    found = thermal_zones.discover(plant_zone(tmp_path, label=label, temp="20000"))
    assert found.sources == ()
    assert [missing.what for missing in found.missing] == [f"temp/{label}"]


def test_a_disabled_zone_may_say_what_it_likes(tmp_path: Path) -> None:
    root = plant_zone(tmp_path)
    mode = tmp_path / ZONE.format(0, "mode")
    mode.write_text("disabled\n")
    assert read_one(root) == Gap("the zone is disabled: its sensor may be off")
    mode.write_text("enabled\n")
    assert read_one(root) == 61.4


def test_a_zone_is_found_whose_temperature_cannot_be_read(tmp_path: Path) -> None:
    root = plant_zone(tmp_path, label="cv0-thermal")
    temp = tmp_path / ZONE.format(0, "temp")
    temp.unlink()
    os.mkfifo(temp)
    writer = os.open(temp, os.O_RDWR | os.O_NONBLOCK)
    try:
        (zone,) = thermal_zones.discover(root).sources
        (value,) = zone.read()
    finally:
        os.close(writer)
    assert isinstance(value, Gap)
    assert value.reason.startswith("EAGAIN: what it measures is powered off")


def test_a_sensor_without_a_valid_sample_is_a_gap_that_says_so() -> None:
    value = read_celsius(Root().file(f"proc/{os.getpid()}/mem"))  # gives EIO where nothing is mapped
    assert isinstance(value, Gap)
    assert value.reason.startswith("EIO")


def test_a_zone_that_vanishes_is_an_error_of_its_reads(tmp_path: Path) -> None:
    (zone,) = thermal_zones.discover(plant_zone(tmp_path)).sources
    (tmp_path / ZONE.format(0, "temp")).unlink()
    with pytest.raises(FileNotFoundError):
        zone.read()


def labels(tmp_path: Path, types: Sequence[str]) -> list[str]:
    for number, label in enumerate(types):
        root = plant_zone(tmp_path, number, label)
    return [zone.sensors[0].label for zone in thermal_zones.discover(root).sources]


def test_zones_are_named_by_type_in_order_of_number(tmp_path: Path) -> None:
    types = [f"zone-{word}" for word in "abcdefghijkl"]
    assert labels(tmp_path, types) == types


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (("x", "x", "x"), ["x", "x-2", "x-3"]),
        (("x", "x", "x-2"), ["x", "x-2", "x-2-2"]),
        (("a/b", "a-b"), ["a-b", "a-b-2"]),
    ],
)
def test_zones_of_one_type_are_told_apart(tmp_path: Path, types: Sequence[str], expected: list[str]) -> None:
    assert labels(tmp_path, types) == expected


@pytest.mark.parametrize("file", ["type", "temp"])
def test_a_zone_without_a_type_is_passed_over(tmp_path: Path, file: str) -> None:
    root = plant_zone(tmp_path)
    (tmp_path / ZONE.format(0, "type")).write_text("\n" if file == "type" else "cpu")
    found = thermal_zones.discover(root)
    assert len(found.sources) == (file == "temp")


@pytest.mark.parametrize("device", ["cpufreq-cpu0", "devfreq-17000000.gpu", "cpu-throttle-alert"])
def test_a_passive_trip_bound_to_a_throttling_device_counts(tmp_path: Path, device: str) -> None:
    root = plant_zone(tmp_path, trips=[("passive", "85000")], bound={device: 0})
    assert trips_of(root) == {"passive": 85.0}


@pytest.mark.parametrize("device", ["pwm-fan", "hot-surface-alert", "tegra-dram"])
def test_a_passive_trip_bound_to_a_fan_or_a_warning_does_not(tmp_path: Path, device: str) -> None:
    assert trips_of(plant_zone(tmp_path, trips=[("passive", "70000")], bound={device: 0})) is None


def test_a_passive_trip_bound_to_nothing_does_not_count(tmp_path: Path) -> None:
    root = plant_zone(tmp_path, trips=[("passive", "70000")], bound={"cpufreq-cpu0": -1})
    assert trips_of(root) is None


def test_of_several_trips_the_lowest_that_throttles_counts(tmp_path: Path) -> None:
    root = plant_zone(
        tmp_path,
        trips=[
            ("passive", "99000"),
            ("critical", "104500"),
            ("passive", "70000"),
            ("passive", "95000"),
            ("hot", "90000"),
        ],
        bound={"cpufreq-cpu0": 0, "hot-surface-alert": 2, "thermal-devfreq-0": 3},
    )
    assert trips_of(root) == {"passive": 95.0, "critical": 104.5}


@pytest.mark.parametrize("millidegrees", ["0", "-274000", "-25000", "", "none", "9" * 400])
def test_an_unset_trip_does_not_count(tmp_path: Path, millidegrees: str) -> None:
    root = plant_zone(tmp_path, trips=[("passive", millidegrees), ("critical", "119000")], bound={"Processor": 0})
    assert trips_of(root) == {"critical": 119.0}


def test_active_trips_are_fans(tmp_path: Path) -> None:
    root = plant_zone(tmp_path, trips=[("active", "50000"), ("active0", "60000")], bound={"cpufreq-cpu0": 0})
    assert trips_of(root) is None


def test_a_cooling_device_whose_link_leads_nowhere_binds_nothing(tmp_path: Path) -> None:
    root = plant_zone(tmp_path, trips=[("passive", "85000"), ("critical", "110000")], bound={"cpufreq-cpu0": 0})
    (tmp_path / "sys/class/thermal/cooling_device0/type").unlink()
    assert trips_of(root) == {"critical": 110.0}


def test_a_zone_in_whole_degrees_is_a_gap_beside_a_trip_in_thousandths(tmp_path: Path) -> None:
    root = plant_zone(tmp_path, temp="58", trips=[("critical", "75000")])
    value = read_one(root)
    assert isinstance(value, Gap)
    assert "whole degrees" in value.reason
    assert trips_of(root) == {"critical": 75.0}


def test_a_battery_in_tenths_is_a_gap_beside_its_trip_in_thousandths(tmp_path: Path) -> None:
    value = read_one(plant_zone(tmp_path, label="battery", temp="312", trips=[("critical", "60000")]))
    assert isinstance(value, Gap)
    assert "tenths of a degree" in value.reason


def test_a_zone_above_its_critical_trip_is_a_gap_that_names_both(tmp_path: Path) -> None:
    root = plant_zone(tmp_path, temp="127000", trips=[("passive", "85000"), ("critical", "105000")])
    value = read_one(root)
    assert isinstance(value, Gap)
    assert "127 °C" in value.reason
    assert "105 °C" in value.reason


def test_a_board_that_overheats_is_above_its_trips(tmp_path: Path) -> None:
    trips = [("passive", "85000"), ("hot", "95000"), ("critical", "105000")]
    for temp, celsius in (("98000", 98.0), ("112000", 112.0)):
        root = plant_zone(tmp_path, temp=temp, trips=trips, bound={"cpufreq-cpu0": 0} if temp == "98000" else None)
        assert read_one(root) == celsius


@pytest.mark.parametrize(("trip", "expected"), [("39600", None), ("40400", {"critical": 40.4})])
def test_no_board_shuts_down_below_40_degrees(tmp_path: Path, trip: str, expected: Mapping[str, float] | None) -> None:
    root = plant_zone(tmp_path, temp="61400", trips=[("critical", trip)])
    assert trips_of(root) == expected
    assert isinstance(read_one(root), Gap) is (expected is not None)


@pytest.mark.parametrize("trip", ["2104533000", "2147483647", "175001", "75", "850"])
def test_a_trip_that_cannot_be_right_is_none(tmp_path: Path, trip: str) -> None:
    root = plant_zone(tmp_path, trips=[("critical", trip), ("passive", trip)], bound={"cpufreq-cpu0": 1})
    assert not trips_of(root)
