"""Power that hwmon chips tell by themselves."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetop.sensors import hwmon, rails
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap
from edgetop.session.meter import Meter
from tests.support.trees import link, plant


def chips(tree: Path, *each: Mapping[str, str]) -> Root:
    return plant(
        tree,
        {f"sys/class/hwmon/hwmon{i}/{file}": f"{text}\n" for i, of in enumerate(each) for file, text in of.items()},
    )


def read(root: Root) -> dict[str, float | Gap]:
    return {source.sensors[0].id: source.read()[0] for source in hwmon.discover_power(root).sources}


AMDGPU = {"name": "amdgpu", "power1_average": "31009000", "power1_label": "PPT", "power1_cap": "100000000"}
INA226 = {"name": "ina226", "power1_input": "5125000", "in1_input": "5000", "curr1_input": "1025"}


def test_a_chip_tells_its_power_in_watts(tmp_path: Path) -> None:
    assert read(chips(tmp_path, AMDGPU, INA226)) == {"power/PPT": 31.009, "power/ina226": 5.125}


def test_what_a_chip_says_of_itself_is_an_estimate(tmp_path: Path) -> None:
    sources = hwmon.discover_power(chips(tmp_path, AMDGPU, INA226)).sources
    assert [source.sensors[0].accuracy for source in sources] == ["firmware-estimate", "on-board-monitor"]
    assert {source.sensors[0].role for source in sources} == {"part"}


def test_of_input_and_average_the_input_counts(tmp_path: Path) -> None:
    root = chips(tmp_path, {"name": "chip", "power1_average": "1000000", "power1_input": "2000000"})
    assert read(root) == {"power/chip": 2.0}


def test_a_label_names_the_rail_and_equal_names_get_numbers(tmp_path: Path) -> None:
    labelled = INA226 | {"label": "VDD/5V"}
    assert list(read(chips(tmp_path, labelled, labelled))) == ["power/VDD-5V", "power/VDD-5V-2"]


def test_a_battery_is_not_read_twice(tmp_path: Path) -> None:
    battery = {"name": "BAT0", "power1_input": "9000000", "in0_input": "11400"}
    root = chips(tmp_path, battery, battery | {"name": "bq27542_0"})
    plant(tmp_path, {"sys/class/power_supply/BAT0/type": "Battery\n"})
    plant(tmp_path, {"sys/devices/i2c/power_supply/bq27542-0/type": "Battery\n"})
    link(tmp_path, "sys/class/hwmon/hwmon1/device", "../../../devices/i2c/power_supply/bq27542-0")
    assert read(root) == {}


def test_jetsons_monitor_is_left_to_who_knows_its_rails(tmp_path: Path) -> None:
    assert read(chips(tmp_path, {"name": "ina3221", "power1_input": "1000000"})) == {}


def test_a_chip_is_read_no_faster_than_it_is_renewed(tmp_path: Path) -> None:
    root = chips(tmp_path, INA226 | {"update_interval": "2253"}, INA226, INA226 | {"update_interval": "soon"})
    pace = [(source.cadence_s, source.fastest_s) for source in hwmon.discover_power(root).sources]  # type: ignore[attr-defined]
    assert pace == [(2.253, 2.253), (1.0, 0.1), (1.0, 0.1)]


@pytest.mark.parametrize("text", ["", "n/a", "9" * 30])
def test_what_is_no_number_is_an_error_of_the_read(tmp_path: Path, text: str) -> None:
    (source,) = hwmon.discover_power(chips(tmp_path, INA226 | {"power1_input": text})).sources
    with pytest.raises(ValueError, match="not a number"):
        source.read()


def test_what_no_board_draws_is_a_gap(tmp_path: Path) -> None:
    assert isinstance(read(chips(tmp_path, INA226 | {"power1_input": "4294967295000000"}))["power/ina226"], Gap)


def test_a_board_without_such_chips_misses_nothing(tmp_path: Path) -> None:
    found = hwmon.discover_power(chips(tmp_path, {"name": "coretemp", "temp1_input": "50000", "power1_cap": "1"}))
    assert (found.sources, found.missing) == ((), ())


INA238 = {"name": "ina238", "power1_input": "24500000", "in1_input": "19000"}
INA3221 = {"name": "ina3221"} | {f"in{i}_label": rail for i, rail in enumerate(("VDD_GPU", "VDD_CPU_SOC_MSS"), 1)}
INA3221 |= {f"{name}{i}_input": "1000" for name in ("in", "curr") for i in (1, 2)}
THOR = {"proc/device-tree/compatible": "nvidia,p4071-0000+p3834-0008\0nvidia,tegra264\0"}


def roles(root: Root) -> dict[str, str | None]:
    found = (*hwmon.discover_power(root).sources, *rails.discover(root).sources)
    return {info.id: info.role for source in found for info in source.sensors if info.kind == "power"}


def test_thors_input_is_the_total_although_its_chip_has_no_label(tmp_path: Path) -> None:
    chips(tmp_path, INA3221, INA238)
    root = plant(tmp_path, THOR)
    assert roles(root) == {"power/VIN": "total", "power/VDD_GPU": "part", "power/VDD_CPU_SOC_MSS": "part"}
    assert read(root)["power/VIN"] == 24.5


def test_such_a_chip_of_another_board_is_a_part(tmp_path: Path) -> None:
    assert roles(chips(tmp_path, INA238)) == {"power/ina238": "part"}


def test_of_two_such_chips_none_is_known_as_the_input(tmp_path: Path) -> None:
    chips(tmp_path, INA238, INA238)
    assert set(roles(plant(tmp_path, THOR)).values()) == {"part"}


# An INA219 between the cell and the board of a UPS, as drivers/hwmon/ina2xx.c shows it: power has no sign.
UPS = {"name": "ina219", "power1_input": "6420000", "in1_input": "4012", "curr1_input": "-1600"}


def test_charging_is_no_consumption(tmp_path: Path) -> None:
    root = chips(tmp_path, UPS, AMDGPU | {"curr1_input": "-4"})
    values = read(root)
    assert isinstance(values["power/ina219"], Gap)
    assert values["power/ina219"].reason.startswith("6.42 W flow the other way")
    assert values["power/PPT"] == 31.009  # its driver's power is no product of a current that is measured
    chips(tmp_path, UPS | {"curr1_input": "1600"})
    assert read(root)["power/ina219"] == 6.42
    chips(tmp_path, UPS | {"curr1_input": "-1", "power1_input": "4000"})
    assert read(root)["power/ina219"] == 0.0  # an offset


def test_a_chip_is_named_as_the_meter_with_its_shunt_and_voltage(tmp_path: Path) -> None:
    (source,) = hwmon.discover_power(chips(tmp_path, INA226 | {"shunt_resistor": "2000"})).sources
    assert source.sensors[0].meter == Meter("ina226", 0.002, volts=5.0)
