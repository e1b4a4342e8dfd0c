"""Sensors of the air that the kernel shows as iio devices.

Files as the drivers make them: drivers/iio/pressure/bmp280-core.c and humidity/dht11.c have processed values,
humidity/hts221_core.c and si7020.c raw ones; imu/inv_mpu6050 has the temperature of its chip.
"""

from pathlib import Path

import pytest

from edgetop.sensors import air_sensors
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant

BME280 = {
    "name": "bme280",
    "in_temp_input": "23450",
    "in_humidityrelative_input": "40123",
    "in_pressure_input": "101.2",
}
BMP280 = {"name": "bmp280", "in_temp_input": "24010", "in_pressure_input": "100.9"}
SI7020 = {
    "name": "si7020", "in_temp_raw": "6651", "in_temp_offset": "-4368", "in_temp_scale": "10.725097656",
    "in_humidityrelative_raw": "3000", "in_humidityrelative_offset": "-786",
    "in_humidityrelative_scale": "30.517578125",
}  # fmt: skip
MPU6050 = {"name": "mpu6050", "in_temp_raw": "-1200", "in_temp_scale": "2.941176", "in_accel_x_raw": "12"}


def devices(tree: Path, *each: dict[str, str]) -> Root:
    folder = "sys/bus/iio/devices/iio:device"
    return plant(tree, {f"{folder}{n}/{name}": f"{text}\n" for n, of in enumerate(each) for name, text in of.items()})


def read(root: Root) -> dict[str, float | Gap]:
    readers = air_sensors.discover(root).sources
    return {s.id: value for each in readers for s, value in zip(each.sensors, each.read(), strict=True)}


def test_temperature_and_humidity_of_the_air_are_read_and_those_of_a_chip_are_not(tmp_path: Path) -> None:
    assert read(devices(tmp_path, BME280, MPU6050, BMP280, BME280)) == {
        "ambient/bme280": 23.45, "humidity/bme280": pytest.approx(40.123), "ambient/bmp280": 24.01,
        "ambient/bme280-2": 23.45, "humidity/bme280-2": pytest.approx(40.123),
    }  # fmt: skip


def test_a_raw_value_has_its_offset_and_scale(tmp_path: Path) -> None:
    values = read(devices(tmp_path, SI7020))
    assert values["ambient/si7020"] == pytest.approx((6651 - 4368) * 10.725097656 / 1000)
    assert values["humidity/si7020"] == pytest.approx((3000 - 786) * 30.517578125 / 1000)


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "900000000", "-99000", "1" * 400])
def test_what_air_cannot_have_is_a_gap(tmp_path: Path, text: str) -> None:
    files = {"name": "dht11", "in_temp_input": text, "in_humidityrelative_input": text}
    assert {type(value) for value in read(devices(tmp_path, files)).values()} == {Gap}


def test_a_board_has_them_among_its_sensors(tmp_path: Path) -> None:
    sources = discover_board(devices(tmp_path, BME280)).sources
    assert {"ambient/bme280", "humidity/bme280"} <= {info.id for source in sources for info in source.sensors}
