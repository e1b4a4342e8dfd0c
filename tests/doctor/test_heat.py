"""Headroom to the next limit, and limits in force: from sensors, and unknown where there are none."""

from pathlib import Path

import pytest

from edgetop.doctor import state_checks
from edgetop.doctor.check import Check
from edgetop.sensors.sensor_protocol import Gap, Missing
from edgetop.sensors.survey import Row
from edgetop.sensors.throttling import UNREPORTED
from edgetop.session.manifest import Board
from tests.support.facts import facts, row

TRIPS = {"passive": 85.0, "critical": 105.0}


def judged(tree: Path, *rows: Row, **files: str) -> tuple[Check, Check]:
    headroom, throttling = state_checks.check_heat(facts(tree, files, rows=rows))
    return headroom, throttling


@pytest.mark.parametrize(
    ("celsius", "status"), [(40.0, "ok"), (70.0, "ok"), (71.0, "warning"), (81.0, "problem"), (90.0, "problem")]
)
def test_the_distance_to_the_trip_that_throttles(tmp_path: Path, celsius: float, status: str) -> None:
    headroom, _ = judged(tmp_path, row("temp/cpu", celsius, trips=TRIPS))
    assert headroom.status == status


def test_the_nearest_limit_counts_not_the_hottest_zone(tmp_path: Path) -> None:
    rows = (row("temp/cpu", 90.0, trips={"critical": 120.0}), row("temp/dram", 82.0, trips=TRIPS), row("temp/x", 99.0))
    headroom, _ = judged(tmp_path, *rows)
    assert headroom.found == "temp/dram is at 82.0 °C, 3 °C below the 85 °C at which the board throttles"


def test_a_raspberry_pi_throttles_long_before_its_only_trip(tmp_path: Path) -> None:
    rows = (row("temp/cpu-thermal", 57.0, trips={"critical": 110.0}),)
    margins = {"Raspberry Pi 5 Model B Rev 1.0": "ok", "Raspberry Pi 3 Model B Plus Rev 1.3": "problem"}
    for model, status in margins.items():
        headroom, _ = state_checks.check_heat(facts(tmp_path, rows=rows, board=Board(model=model)))
        assert headroom.status == status


def test_where_no_zone_throttles_it_is_the_distance_to_the_end(tmp_path: Path) -> None:
    headroom, _ = judged(tmp_path, row("temp/acpitz", 93.0, trips={"critical": 105.0}))
    assert headroom.found == "temp/acpitz is at 93.0 °C, 12 °C below the 105 °C at which the board is shut down"


def test_critical_temperatures_of_other_chips_do_not_count(tmp_path: Path) -> None:
    open_input = row("temp/nct6798:AUXTIN1", 127.0, trips={"critical": 125.0})
    headroom, _ = judged(tmp_path, open_input, row("temp/nvme:Sensor 1", 79.0, trips={"critical": 80.0}))
    assert headroom.found.startswith("unknown")
    headroom, _ = judged(tmp_path, open_input, row("temp/cpu", 60.0, trips=TRIPS))
    assert headroom.status == "ok"


def test_no_temperature_or_no_trip_is_unknown(tmp_path: Path) -> None:
    for rows in ((), (row("temp/cpu", Gap("gated"), trips=TRIPS),), (row("temp/cpu", 50.0),)):
        headroom, _ = judged(tmp_path, *rows)
        assert (headroom.status, headroom.found.startswith("unknown")) == ("warning", True)


def test_a_limit_in_force_is_a_problem(tmp_path: Path) -> None:
    _, throttling = judged(tmp_path, row("throttle/under-voltage", 1.0), row("throttle/thermal", 0.0))
    assert (throttling.status, throttling.found) == ("problem", "limited now: throttle/under-voltage")


def test_a_limit_since_boot_is_a_warning(tmp_path: Path) -> None:
    _, throttling = judged(tmp_path, row("throttle/thermal", 0.0), row("throttle/thermal-sticky", 1.0))
    assert throttling.status == "warning"


def test_cooling_devices_at_rest_do_not_prove_that_a_cpu_that_throttles_by_itself_does_not(tmp_path: Path) -> None:
    """As on AMD: only ACPI's devices are reported."""
    for state_now, status in ((0.0, "warning"), (1.0, "problem")):
        rows = (row("cooling/0-Processor", state_now, throttles=True),)
        amd = facts(tmp_path, rows=rows, missing=(Missing(UNREPORTED, "no CPU that counts its own"),))
        assert state_checks.check_heat(amd)[1].status == status


def test_a_throttling_cooling_device_counts_and_a_fan_does_not(tmp_path: Path) -> None:
    fan, cpu = row("cooling/0-pwm-fan", 3.0, throttles=False), row("cooling/1-cpufreq-cpu0", 0.0, throttles=True)
    assert judged(tmp_path, fan, cpu)[1].status == "ok"
    assert judged(tmp_path, fan, row("cooling/1-cpufreq-cpu0", 2.0, throttles=True))[1].status == "problem"
    assert judged(tmp_path, fan)[1].found.startswith("unknown")


def test_flags_that_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    _, throttling = judged(tmp_path, row("throttle/thermal", Gap("no vcgencmd")))
    assert throttling.found.startswith("unknown")
