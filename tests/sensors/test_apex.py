"""The Edge TPU: its temperature, its trips, and whether its driver slows it."""

from pathlib import Path

import pytest

from edgetop.sensors import thermal_zones
from edgetop.sensors.sensor_protocol import Gap, Source
from tests.support.trees import plant

FILES = {
    "temp": "56550",
    "trip_point0_temp": "84800",
    "trip_point1_temp": "89800",
    "trip_point2_temp": "94800",
    "hw_temp_warn2": "99800",
    "hw_temp_warn2_en": "1",
    "temp_poll_interval": "5000",
}


def chip(tree: Path, **files: str) -> Source:
    root = plant(tree, {f"sys/class/apex/apex_0/{name}": f"{text}\n" for name, text in (FILES | files).items()})
    (found,) = thermal_zones.discover_edge_tpus(root).sources
    return found


def test_it_tells_its_temperature_and_its_trips(tmp_path: Path) -> None:
    found = chip(tmp_path)
    assert [info.id for info in found.sensors] == ["temp/apex:0", "throttle/edge-tpu:0"]
    assert found.sensors[0].trips == {"passive": 84.8, "critical": 99.8}
    assert found.read() == [56.55, 0.0]


@pytest.mark.parametrize(("temp", "throttled"), [("84799", 0.0), ("84800", 1.0), ("91300", 1.0)])
def test_from_its_first_trip_its_clock_is_divided(tmp_path: Path, temp: str, throttled: float) -> None:
    assert chip(tmp_path, temp=temp).read()[1] == throttled


def test_a_chip_that_is_shut_down_has_no_temperature(tmp_path: Path) -> None:
    temperature, throttled = chip(tmp_path, temp="-89700").read()
    assert isinstance(temperature, Gap)
    assert isinstance(throttled, Gap)


def test_without_polling_nothing_throttles_it(tmp_path: Path) -> None:
    found = chip(tmp_path, temp="91300", temp_poll_interval="0")
    assert found.sensors[0].trips == {"critical": 99.8}
    assert found.read() == [91.3]


def test_a_shutdown_that_is_not_enabled_is_no_trip(tmp_path: Path) -> None:
    assert chip(tmp_path, hw_temp_warn2_en="0").sensors[0].trips == {"passive": 84.8}


def test_two_chips_on_one_card_are_two(tmp_path: Path) -> None:
    root = plant(tmp_path, {f"sys/class/apex/apex_{n}/temp": "50000\n" for n in (0, 1)})
    assert [found.sensors[0].id for found in thermal_zones.discover_edge_tpus(root).sources] == [
        "temp/apex:0",
        "temp/apex:1",
    ]
