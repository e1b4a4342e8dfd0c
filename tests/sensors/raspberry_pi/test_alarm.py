"""The under-voltage alarm: only what lasts counts."""

from pathlib import Path

import pytest

from edgetop.sensors import raspberry_pi
from edgetop.sensors.sensor_protocol import Source
from tests.support.trees import plant

FILE = "sys/class/hwmon/hwmon1/in0_lcrit_alarm"


def planted(tree: Path, value: str = "0", *, has_flags: bool = False) -> Source:
    root = plant(tree, {"sys/class/hwmon/hwmon1/name": "rpi_volt\n", FILE: f"{value}\n"})
    (source,) = raspberry_pi.discover_alarm(root, has_flags=has_flags).sources
    return source


def readings(tree: Path, *values: str) -> list[float | str]:
    """What each content of the file reads as; `error` where the read fails."""
    source = planted(tree)
    read: list[float | str] = []
    for value in values:
        plant(tree, {FILE: f"{value}\n"})
        try:
            read += source.read()  # type: ignore[arg-type]
        except ValueError:
            read.append("error")
    return read


def test_three_alarms_in_a_row_are_under_voltage(tmp_path: Path) -> None:
    assert readings(tmp_path, *"0111101") == [0, 0, 0, 1, 1, 0, 0]


def test_an_alarm_that_flickers_is_none(tmp_path: Path) -> None:
    assert set(readings(tmp_path, *"0101101011010")) == {0}


def test_what_could_not_be_read_breaks_the_row(tmp_path: Path) -> None:
    assert readings(tmp_path, "1", "1", "", "1", "1", "1") == [0, 0, "error", 0, 0, 1]


@pytest.mark.parametrize("value", ["2", "-1", "on", ""])
def test_anything_but_a_flag_is_an_error(tmp_path: Path, value: str) -> None:
    with pytest.raises(ValueError, match=r"neither 0 nor 1|not a number"):
        planted(tmp_path, value).read()


def test_the_alarm_stands_in_for_the_flag_where_there_is_none(tmp_path: Path) -> None:
    assert planted(tmp_path).sensors[0].id == "throttle/under-voltage"
    assert planted(tmp_path, has_flags=True).sensors[0].id == "throttle/under-voltage-alarm"


def test_another_chip_has_no_such_alarm(tmp_path: Path) -> None:
    root = plant(tmp_path, {"sys/class/hwmon/hwmon1/name": "rp1_adc\n", FILE: "1\n"})
    assert raspberry_pi.discover_alarm(root, has_flags=False).sources == ()
