"""Settings of the board that change in mid-run, and a clock that is slow to read."""

from pathlib import Path

import pytest

from edgetop.sensors.board_identity import CLOCK, FAST_CLOCKS, ONLINE, discover_settings
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Reader
from tests.support.trees import plant

GOVERNOR = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
JETSON = {
    "proc/device-tree/compatible": "nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0",
    "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=15W >\n< POWER_MODEL ID=1 NAME=7W >\n",
}


def mode(number: int) -> dict[str, str]:
    return JETSON | {"var/lib/nvpmodel/status": f"pmode:{number:04}\n"}


def settings(root: Root) -> Reader:
    (source,) = discover_settings(root).sources
    assert isinstance(source, Reader)
    return source


def told(source: Reader) -> list[tuple[str, str, str]]:
    assert source.read() == []
    return [(news.body.kind, news.severity, news.message) for news in source.take_events()]


def test_a_governor_that_becomes_another_is_told_once(tmp_path: Path) -> None:
    source = settings(plant(tmp_path, {GOVERNOR: "performance\n"}))
    assert told(source) == []
    plant(tmp_path, {GOVERNOR: "powersave\n"})
    assert told(source) == [("governor-changed", "warning", "the governor changed from performance to powersave")]
    assert told(source) == []


def test_a_power_mode_that_becomes_another_is_told(tmp_path: Path) -> None:
    source = settings(plant(tmp_path, mode(0)))
    assert told(source) == []
    plant(tmp_path, mode(1))
    assert told(source) == [("power-mode-changed", "warning", "the power mode changed from 15W to 7W")]


def test_cpus_that_go_offline_and_come_back_are_told(tmp_path: Path) -> None:
    source = settings(plant(tmp_path, {ONLINE: "0-3\n"}))
    assert told(source) == []
    for online, before in (("0,2-3", "0-3"), ("0-3", "0,2-3")):
        plant(tmp_path, {ONLINE: f"{online}\n"})
        text = f"the set of online CPUs changed from {before} to {online}"
        assert told(source) == [("cpus-changed", "warning", text)]


def test_what_cannot_be_read_for_a_while_has_not_changed(tmp_path: Path) -> None:
    source = settings(plant(tmp_path, {GOVERNOR: "performance\n"}))
    told(source)
    (tmp_path / GOVERNOR).unlink()
    assert told(source) == []
    plant(tmp_path, {GOVERNOR: "performance\n"})
    assert told(source) == []


@pytest.mark.parametrize("clock", ["hpet", "acpi_pm", "jiffies", "refined-jiffies"])
def test_a_clock_that_is_slow_to_read_is_told_once(tmp_path: Path, clock: str) -> None:
    source = settings(plant(tmp_path, {CLOCK: f"{clock}\n"}))
    ((kind, severity, message),) = told(source)
    assert (kind, severity) == ("clock-source", "warning")
    assert clock in message
    assert told(source) == []


@pytest.mark.parametrize("clock", sorted(FAST_CLOCKS))
def test_clocks_that_are_read_without_a_system_call_are_fine(tmp_path: Path, clock: str) -> None:
    assert told(settings(plant(tmp_path, {CLOCK: f"{clock}\n"}))) == []


def test_a_board_that_tells_nothing_is_no_trouble(tmp_path: Path) -> None:
    assert discover_settings(Root(tmp_path)).sources == ()


@pytest.mark.parametrize("files", [{GOVERNOR: "performance\n"}, mode(0), {CLOCK: "tsc\n"}, {ONLINE: "0-3\n"}])
def test_a_board_that_tells_of_one_is_watched(tmp_path: Path, files: dict[str, str]) -> None:
    assert len(discover_settings(plant(tmp_path, files)).sources) == 1
