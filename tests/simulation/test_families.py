"""What the ordinary sensors read on the virtual board, at rest and in trouble."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edgetop.sensors.discovery import discover_hardware
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Found, Gap
from edgetop.simulation.board_files import FAMILIES, Files
from edgetop.simulation.board_physics import Machine, new_machine
from edgetop.simulation.scenarios import SCENARIOS
from edgetop.simulation.virtual_board import BoardFolder


def until(name: str, is_so: Callable[[Machine], bool]) -> Machine:
    machine = new_machine(SCENARIOS[name])
    for _ in range(5000):
        if is_so(machine):
            return machine
        machine = machine.after(1.0, 1.0, 1.0)
    raise AssertionError(f"{name} never came to that")


class Planted:
    """A board's files, and what is read of them."""

    def __init__(self, place: Path, name: str) -> None:
        self._family = FAMILIES[SCENARIOS[name].family]
        self.folder = BoardFolder(place)
        self.folder.link(self._family.links)
        self.folder.write(self._family.fixed)
        self.show(new_machine(SCENARIOS[name]))
        self.found: Found = discover_hardware(Root(self.folder.tree))
        self.read()

    def show(self, machine: Machine) -> Files:
        files: Files = self._family.files(machine)
        self.folder.write(files)
        return files

    def read(self) -> dict[str, float | Gap]:
        return {
            info.id: value
            for source in self.found.sources
            for info, value in zip(source.sensors, read_source(source), strict=True)
        }

    def trips(self, sensor: str) -> object:
        return next(info.trips for source in self.found.sources for info in source.sensors if info.id == sensor)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_board_at_rest_has_no_gap_and_no_limit(name: str, tmp_path: Path) -> None:
    values = Planted(tmp_path, name).read()
    assert not {sensor for sensor, value in values.items() if isinstance(value, Gap)}
    limits = {sensor: value for sensor, value in values.items() if sensor.startswith("throttle/")}
    assert limits
    assert not any(limits.values())
    clock = "freq/arm" if "freq/arm" in values else "freq/cpu0"
    assert values[clock] == new_machine(SCENARIOS[name]).hardware.fastest_mhz


def test_heat_is_told_by_the_flag_the_clock_the_cap_and_the_zone(tmp_path: Path) -> None:
    board = Planted(tmp_path, "thermal")
    assert board.trips("temp/cpu-thermal") == {"passive": 85.0, "critical": 105.0}
    hot = until("thermal", lambda machine: machine.cooling_state > 5)
    board.show(hot)
    values = board.read()
    assert values["throttle/thermal"] == 1.0
    assert values["temp/cpu-thermal"] == pytest.approx(hot.celsius, abs=0.001)
    assert values["freq/cpu0"] == values["freqcap/cpu0"] == pytest.approx(hot.clock_mhz)
    assert (values["cooling/0-cpufreq-cpu0"], values["cooling/1-cpu-throttle-alert"]) == (hot.cooling_state, 1.0)
    assert values["fan/pwmfan:fan1"] == 0.0, "it is stuck"
    assert values["throttle/over-current"] == 0.0
    board.show(until("thermal", lambda machine: machine.timetable.has_been and machine.cooling_state == 0))
    values = board.read()
    assert (values["throttle/thermal"], values["freq/cpu0"]) == (0.0, 1728.0)
    assert values["fan/pwmfan:fan1"] == 5200.0


def test_a_fan_is_no_limit(tmp_path: Path) -> None:
    board = Planted(tmp_path, "healthy")
    board.show(until("healthy", lambda machine: machine.fan == 3))
    values = board.read()
    assert (values["cooling/2-pwm-fan"], values["throttle/thermal"]) == (3.0, 0.0)


def test_power_is_told_with_its_total(tmp_path: Path) -> None:
    board = Planted(tmp_path, "healthy")
    busy = until("healthy", lambda machine: machine.busy == 1.0)
    board.show(busy)
    values = board.read()
    roles = {info.id: info.role for source in board.found.sources for info in source.sensors if info.kind == "power"}
    assert roles == {"power/VDD_IN": "total", "power/VDD_CPU_GPU_CV": "part", "power/VDD_SOC": "part"}
    parts = values["power/VDD_CPU_GPU_CV"] + values["power/VDD_SOC"]  # type: ignore[operator]
    assert busy.chip_w < parts < values["power/VDD_IN"] < 20  # type: ignore[operator]


def test_over_current_is_told_by_its_counter_and_by_no_clock(tmp_path: Path) -> None:
    board = Planted(tmp_path, "power-cap")
    board.show(until("power-cap", lambda machine: machine.over_current_events > 1000))
    values = board.read()
    assert values["rate/over-current-events"] > 0  # type: ignore[operator]
    assert values["throttle/over-current"] == 1.0
    assert (values["throttle/thermal"], values["freq/cpu0"]) == (0.0, 1728.0)


def test_under_voltage_is_told_by_the_firmware_and_by_no_cpufreq(tmp_path: Path) -> None:
    board = Planted(tmp_path, "under-voltage")
    board.show(until("under-voltage", lambda machine: machine.is_under_voltage))
    values = board.read()
    assert (values["throttle/under-voltage"], values["throttle/throttled"], values["throttle/thermal"]) == (1, 1, 0)
    assert (values["freq/arm"], values["freq/cpu0"]) == (1500.0, 2400.0)
    assert values["volt/EXT5V"] < 4.63  # type: ignore[operator]
    board.show(until("under-voltage", lambda machine: machine.timetable.has_been))
    values = board.read()
    assert (values["throttle/under-voltage"], values["throttle/under-voltage-sticky"], values["freq/arm"]) == (
        0, 1, 2400,
    )  # fmt: skip
    assert values["volt/EXT5V"] > 4.9  # type: ignore[operator]
