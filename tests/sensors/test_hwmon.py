"""Temperatures and fans of hwmon chips: each sensor once, with its label, or a gap."""

from pathlib import Path

import pytest

from edgetop.sensors import hwmon, thermal_zones
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap
from tests.support.trees import link, plant


def plant_chip(tree: Path, number: int, name: str, **files: str) -> Root:
    folder = f"sys/class/hwmon/hwmon{number}"
    return plant(tree, {f"{folder}/{file}": f"{text}\n" for file, text in {"name": name, **files}.items()})


def plant_zone(tree: Path, number: int, zone_type: str) -> Root:
    folder = f"sys/class/thermal/thermal_zone{number}"
    return plant(tree, {f"{folder}/type": f"{zone_type}\n", f"{folder}/temp": "50000\n"})


def values(found: Found) -> dict[str, float | Gap]:
    read = {}
    for chip in found.sources:
        read |= dict(zip([info.id for info in chip.sensors], chip.read(), strict=True))
    return read


def trips(root: Root) -> dict[str, dict[str, float]]:
    found = hwmon.discover(root).sources
    return {info.label: dict(info.trips) for chip in found for info in chip.sensors if info.trips is not None}


def test_labels_of_the_chip_are_kept_beside_its_name(tmp_path: Path) -> None:
    plant_chip(tmp_path, 0, "nvme", temp1_input="41850", temp1_label="Composite", temp2_input="44850")
    root = plant_chip(tmp_path, 1, "pwmfan", fan1_input="3054", pwm1="125")
    assert values(hwmon.discover(root)) == {
        "temp/nvme:Composite": 41.85,
        "temp/nvme:temp2": 44.85,
        "fan/pwmfan:fan1": 3054.0,
    }


def test_chips_and_inputs_that_are_called_alike_are_told_apart(tmp_path: Path) -> None:
    for number in (0, 1):
        root = plant_chip(
            tmp_path, number, "nvme", temp1_input="41000", temp1_label="T", temp2_input="42000", temp2_label="T"
        )
    assert list(values(hwmon.discover(root))) == [
        "temp/nvme:T",
        "temp/nvme:T-2",
        "temp/nvme-2:T",
        "temp/nvme-2:T-2",
    ]


def test_a_colon_in_a_name_makes_no_two_alike(tmp_path: Path) -> None:
    plant_chip(tmp_path, 0, "a", temp1_input="41000", temp1_label="b:temp1")
    plant_zone(tmp_path, 0, "a:b:temp1")
    root = plant_chip(tmp_path, 1, "a:b", temp1_input="42000")
    found = (*thermal_zones.discover(root).sources, *hwmon.discover(root).sources)
    ids = [info.id for source in found for info in source.sensors]
    assert ids == ["temp/a-b-temp1", "temp/a:b:temp1", "temp/a-b:temp1"]


@pytest.mark.parametrize(("zone", "chip"), [("soc-thermal", "soc_thermal"), ("acpitz", "acpitz"), ("a_b-c", "a-b_c")])
def test_what_mirrors_a_thermal_zone_is_left_to_the_zone(tmp_path: Path, zone: str, chip: str) -> None:
    plant_zone(tmp_path, 0, zone)
    found = hwmon.discover(plant_chip(tmp_path, 0, chip, temp1_input="50000"))
    assert (found.sources, found.missing) == ((), ())


def test_a_mirror_is_known_by_its_device_whatever_its_name(tmp_path: Path) -> None:
    plant_zone(tmp_path, 3, "soc-thermal")
    root = plant_chip(tmp_path, 0, "soc_thermal_3", temp1_input="50000")
    assert list(values(hwmon.discover(root))) == ["temp/soc_thermal_3:temp1"]
    link(tmp_path, "sys/class/hwmon/hwmon0/device", "../../thermal/thermal_zone3")
    assert hwmon.discover(root).sources == ()


@pytest.mark.parametrize("label", ["Package id 0", "Physical id 0"])
def test_the_package_is_listed_once_by_the_chip_with_trips(tmp_path: Path, label: str) -> None:
    plant_zone(tmp_path, 0, "x86_pkg_temp")
    root = plant_zone(tmp_path, 1, "TCPU")
    assert [zone.name for zone in thermal_zones.discover(root).sources] == ["temp/x86_pkg_temp", "temp/TCPU"]
    plant_chip(tmp_path, 0, "coretemp", temp1_input="56000", temp1_label=label, temp1_crit="100000")
    assert [zone.name for zone in thermal_zones.discover(root).sources] == ["temp/TCPU"]
    assert values(hwmon.discover(root)) == {f"temp/coretemp:{label}": 56.0}


def test_cores_without_their_package_leave_it_to_the_zone(tmp_path: Path) -> None:
    plant_zone(tmp_path, 0, "x86_pkg_temp")
    root = plant_chip(tmp_path, 0, "coretemp", temp2_input="55000", temp2_label="Core 0")
    assert [zone.name for zone in thermal_zones.discover(root).sources] == ["temp/x86_pkg_temp"]


def test_an_intel_cpu_throttles_at_tjmax_less_its_offset(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "coretemp", temp1_input="56000", temp1_label="Core 0", temp1_crit="100000")
    assert trips(root) == {"coretemp:Core 0": {"passive": 100.0}}
    device = "sys/class/thermal/cooling_device0"
    plant(tmp_path, {f"{device}/type": "TCC Offset\n", f"{device}/cur_state": "10\n"})
    assert trips(root) == {"coretemp:Core 0": {"passive": 90.0}}


def test_an_amd_cpu_throttles_where_its_driver_says(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "k10temp", temp1_input="47625", temp1_crit="90000", temp1_max="70000")
    assert trips(root) == {"k10temp:temp1": {"passive": 90.0}}


@pytest.mark.parametrize(("crit", "expected"), [("84850", {"nvme:temp1": {"critical": 84.85}}), ("0", {}), ("-1", {})])
def test_other_chips_have_a_critical_trip_where_it_is_set(
    tmp_path: Path, crit: str, expected: dict[str, dict[str, float]]
) -> None:
    assert trips(plant_chip(tmp_path, 0, "nvme", temp1_input="38850", temp1_crit=crit, temp1_max="81850")) == expected


def test_the_scale_that_steers_the_fans_gives_way_to_the_die(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "k10temp", temp1_input="67000", temp1_label="Tctl")
    assert list(values(hwmon.discover(root))) == ["temp/k10temp:Tctl"]
    plant_chip(tmp_path, 0, "k10temp", temp2_input="47000", temp2_label="Tdie")
    assert values(hwmon.discover(root)) == {"temp/k10temp:Tdie": 47.0}


def test_an_input_that_fails_costs_the_others_nothing(tmp_path: Path) -> None:
    well = {"temp1_input": "33000", "temp1_fault": "0", "temp2_input": "33000", "temp3_input": "34000"}
    found = hwmon.discover(plant_chip(tmp_path, 0, "nct6798", **well, fan1_input="900", fan2_input="0"))
    plant_chip(tmp_path, 0, "nct6798", temp1_fault="1", temp2_input="x", fan1_input="-1")
    read = values(found)
    gaps = {name: value.reason for name, value in read.items() if isinstance(value, Gap)}
    assert gaps == {
        "temp/nct6798:temp1": "the chip reports a fault of this input",
        "temp/nct6798:temp2": "not a number: 'x'",
        "fan/nct6798:fan1": "reads -1 rpm",
    }
    assert (read["temp/nct6798:temp3"], read["fan/nct6798:fan2"]) == (34.0, 0.0)  # a fan may stand still


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"temp1_input": "0"}, "reads exactly 0 °C"),
        ({"temp1_input": "-128000"}, "reads -128 °C"),
        ({"temp1_input": "127000"}, "to which nothing is wired"),
        ({"temp1_input": "127500", "temp1_fault": "0"}, "to which nothing is wired"),
        ({"temp1_input": "127000", "temp1_fault": "1"}, "a fault of this input"),
    ],
)
def test_an_input_to_which_nothing_is_wired_is_missing(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    found = hwmon.discover(plant_chip(tmp_path, 0, "nct6798", **files, temp2_input="34000"))
    assert list(values(found)) == ["temp/nct6798:temp2"]
    (missing,) = found.missing
    assert missing.what == "temp/nct6798:temp1"
    assert reason in missing.why


def test_a_fan_that_is_not_there_is_missing(tmp_path: Path) -> None:
    found = hwmon.discover(plant_chip(tmp_path, 0, "thinkpad", fan1_input="2900", fan2_input="65535"))
    assert values(found) == {"fan/thinkpad:fan1": 2900.0}
    assert "reads 65535 rpm" in found.missing[0].why


def test_an_input_that_cannot_be_read_now_may_come_back(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "amdgpu", temp1_input="")
    found = hwmon.discover(root)
    assert isinstance(values(found)["temp/amdgpu:temp1"], Gap)
    plant_chip(tmp_path, 0, "amdgpu", temp1_input="41000")
    assert values(found) == {"temp/amdgpu:temp1": 41.0}


def test_a_chip_of_other_things_is_none(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "ina3221", in1_input="5016", temp1_label="no input")
    assert hwmon.discover(root).sources == ()


def test_without_any_temperature_that_is_listed(tmp_path: Path) -> None:
    (missing,) = hwmon.discover(plant_chip(tmp_path, 0, "pwmfan", fan1_input="900")).missing
    assert missing.what == "temperature"
    assert "/sys/class/thermal" in missing.why
    assert "/sys/class/hwmon" in missing.why


def test_a_trip_of_a_chip_that_cannot_be_right_is_none(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "nvme", temp1_input="41000", temp1_crit="2104533000")
    assert not trips(root)


def test_a_mainboards_unconnected_input_is_missing(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "nct6779", temp1_input="121000", temp1_label="SYSTIN", temp2_input="38000")
    assert values(hwmon.discover(root)) == {"temp/nct6779:temp2": 38.0}
    assert [one.what for one in hwmon.discover(root).missing] == ["temp/nct6779:SYSTIN"]


@pytest.mark.parametrize(("chip", "more"), [("sht3x", {}), ("sts3x", {}), ("room", {"humidity1_input": "41000"})])
def test_a_probe_of_the_air_is_no_temperature_of_the_board(tmp_path: Path, chip: str, more: dict[str, str]) -> None:
    plant_chip(tmp_path, 0, "k10temp", temp1_input="48000", temp1_label="Tctl")
    root = plant_chip(tmp_path, 1, chip, temp1_input="85000", **more)
    found = values(hwmon.discover(root))
    assert found.pop("humidity/room:humidity1", 41.0) == 41.0
    assert found == {"temp/k10temp:Tctl": 48.0, f"ambient/{chip}:temp1": 85.0}


def test_humidity_is_in_percent(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "sht3x", temp1_input="21500", humidity1_input="41250")
    assert values(hwmon.discover(root)) == {"ambient/sht3x:temp1": 21.5, "humidity/sht3x:humidity1": 41.25}


# Thermometers of one chip: compatible string of the board, files of the chip, kind of the sensor. The names are those
# of drivers/hwmon/lm75.c and tmp102.c. A Raspberry Pi has the overlay i2c-sensor (firmware/boot/overlays/README).
THERMOMETERS = {
    "by an overlay of a Raspberry Pi": ("raspberrypi,5-model-b", "tmp102", {"of_node/name": "tmp102@48"}, "ambient"),
    "of the carrier board": ("toradex,apalis-imx8", "lm75", {"device/name": "lm75", "of_node/name": "sensor"}, "temp"),
    "by new_device": ("radxa,rock-5b", "lm75", {"device/name": "lm75"}, "ambient"),
    "of a capture without links": ("radxa,rock-5b", "lm75", {}, "temp"),
    "of a PC": ("", "lm75", {"device/name": "lm75"}, "temp"),
    "with diodes in the chip": ("raspberrypi,5-model-b", "tmp451", {"device/name": "tmp451"}, "temp"),
}


@pytest.mark.parametrize("case", THERMOMETERS)
def test_a_thermometer_that_a_user_connected_is_none_of_the_board(tmp_path: Path, case: str) -> None:
    board, chip, files, kind = THERMOMETERS[case]
    if board:
        plant(tmp_path, {"proc/device-tree/compatible": f"{board}\0"})
    plant(tmp_path, {f"sys/class/hwmon/hwmon0/{name}": f"{text}\n" for name, text in files.items()})
    root = plant_chip(tmp_path, 0, chip, temp1_input="61000")
    assert values(hwmon.discover(root)) == {f"{kind}/{chip}:temp1": 61.0}


def test_a_one_wire_probe_is_read_if_it_is_asked_for(tmp_path: Path) -> None:
    root = plant_chip(tmp_path, 0, "w1_slave_temp", temp1_input="21562")
    assert values(hwmon.discover_one_wire(root)) == {"ambient/w1_slave_temp": 21.562}
    plant_chip(tmp_path, 0, "w1_slave_temp", temp1_input="85000")
    (gap,) = values(hwmon.discover_one_wire(root)).values()
    assert isinstance(gap, Gap)
    assert "before the first conversion" in gap.reason


def test_a_one_wire_probe_is_not_read(tmp_path: Path) -> None:
    plant_zone(tmp_path, 0, "cpu-thermal")
    root = plant_chip(tmp_path, 0, "w1_slave_temp", temp1_input="85000")
    assert values(hwmon.discover(root)) == {}
    assert [one.what for one in hwmon.discover(root).missing] == ["ambient/w1_slave_temp"]
