"""All board sensors together, on trees that hold anything at all."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.board_identity import read_board
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import UNIT_OF_KIND, Gap
from edgetop.session.manifest import SensorInfo
from tests.support.trees import plant

ZONE = "sys/class/thermal/thermal_zone{}/"
COOLING = "sys/class/thermal/cooling_device{}/"
HWMON = "sys/class/hwmon/hwmon{}/"
APEX = "sys/class/apex/apex_0/"
THROTTLE = "sys/devices/system/cpu/cpu0/thermal_throttle/"
POLICY = "sys/devices/system/cpu/cpufreq/policy0/"
DEVFREQ = "sys/class/devfreq/17000000.{}/"

ODD_NUMBERS = ("nan", "inf", "1e999", "²", "٣", "0x1f", "1_0", "<unknown>", "9" * 400, "9" * 5000, "", "-0", "\0")
INTEGERS = st.integers(-(10**6), 10**6) | st.integers(-(10**25), 10**25)
NUMBERS = st.sampled_from(ODD_NUMBERS) | INTEGERS.map(str)


def filled(*templates: str) -> st.SearchStrategy[bytes]:
    """Templates filled with numbers, and now and then anything at all."""
    texts = st.builds(str.format, st.sampled_from(templates), NUMBERS, NUMBERS)
    return texts.map(str.encode) | st.binary(max_size=40)


FILES = {
    **{ZONE.format(n) + "type": filled("cpu", "cpu", "cpu-2", "a/b", "a-b", "{0}") for n in (0, 1, 2)},
    ZONE.format(0) + "temp": filled("{0}\n"),
    ZONE.format(0) + "trip_point_0_type": filled("critical", "passive"),
    ZONE.format(0) + "trip_point_0_temp": filled("{0}\n"),
    ZONE.format(0) + "cdev0/type": filled("cpufreq"),
    ZONE.format(0) + "cdev0_trip_point": filled("0", "{0}"),
    ZONE.format(0) + "mode": filled("enabled", "disabled", "{0}"),
    **{COOLING.format(n) + "type": filled("cpufreq-cpu0", "pwm-fan", "Processor", "{0}") for n in (0, 1)},
    **{COOLING.format(n) + "cur_state": filled("{0}\n") for n in (0, 1)},
    COOLING.format(0) + "max_state": filled("{0}\n"),
    **{HWMON.format(n) + "name": filled("cpu", "nvme", "coretemp", "k10temp", "a:b", "{0}") for n in (0, 1)},
    **{HWMON.format(n) + "temp1_input": filled("{0}\n") for n in (0, 1)},
    **{HWMON.format(n) + "temp1_label": filled("Tctl", "Package id 0", "{0}") for n in (0, 1)},
    HWMON.format(0) + "temp1_crit": filled("{0}\n"),
    HWMON.format(0) + "temp1_fault": filled("0", "1", "{0}"),
    HWMON.format(0) + "fan1_input": filled("{0}\n"),
    APEX + "temp": filled("{0}\n"),
    APEX + "trip_point0_temp": filled("{0}\n"),
    APEX + "temp_poll_interval": filled("5000", "{0}"),
    **{THROTTLE + name: filled("{0}\n") for name in ("core_throttle_count", "package_throttle_count")},
    **{POLICY + name: filled("{0}\n") for name in ("scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq")},
    POLICY + "affected_cpus": filled("{0}\n", "\n"),
    **{DEVFREQ.format("gpu") + name: filled("{0}\n") for name in ("cur_freq", "max_freq")},
    DEVFREQ.format("gpu") + "available_frequencies": filled("{0} {1}\n"),
    **{f"proc/pressure/{name}": filled("some avg10=0.00 total={0}\nfull total={1}\n") for name in ("cpu", "io")},
    "proc/sys/kernel/osrelease": filled("{0}.{1}"),
    "etc/nv_tegra_release": filled("# R{0} (release), REVISION: {1}"),
    "etc/armbian-release": filled("VERSION={0}"),
    "sys/class/dmi/id/product_name": filled("{0}", "Default string"),
    "proc/meminfo": filled("MemAvailable: {0} kB\nMemTotal:\t{1} kB\n", "NvMapMemUsed: {0} kB\nCmaTotal: {1} kB\n"),
    "proc/vmstat": filled("pswpin {0}\npswpout {1}\npgmajfault 3\n"),
    "proc/net/dev": filled("eth0: {0} 2 3 4 5 6 7 8 {1} 10\n"),
    "proc/diskstats": filled("8 0 sda 1 2 {0} 4 5 6 {1} 8 9 10\n"),
    "sys/class/devfreq/fb000000.gpu/load": filled("{0}@300000000Hz\n"),
    "sys/kernel/debug/rknpu/load": filled("NPU load:  Core0: {0}%, Core1: {1}%,\n"),
    "proc/stat": filled("cpu  {0} {1} 3 4 5 6 7 8\n", "cpu0 {0} {1} 3 4 5 6 7 8\n"),
    "proc/cpuinfo": filled("CPU part: {0}\nmodel name: {1}\n"),
    "proc/device-tree/model": filled("{0}\0{1}"),
    "proc/device-tree/compatible": filled("{0}\0{1}"),
    "etc/os-release": filled("PRETTY_NAME={0}"),
}
TREES = st.fixed_dictionaries({}, optional=FILES)


def empty(folder: Path) -> Path:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    return folder


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(before=TREES, after=TREES)
def test_no_content_breaks_a_read_or_invents_a_value(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    tree = tmp_path_factory.getbasetemp() / "anything"
    tree.mkdir(exist_ok=True)
    root = plant(empty(tree), before)
    read_board(root)
    sources = discover_board(root).sources
    ids = [info.id for source in sources for info in source.sensors]
    assert len(set(ids)) == len(ids)
    for source in sources:
        read_source(source)
    plant(tree, after)
    for source in sources:
        values = read_source(source)
        if not isinstance(values, Gap):
            for info, value in zip(source.sensors, values, strict=True):
                assert isinstance(value, Gap) or is_believable(info, value, tree)


def is_believable(info: SensorInfo, value: float, tree: Path) -> bool:
    """Whether the value is one that its file can stand for."""
    if info.kind == "throttle":
        return value in (0, 1)
    if info.kind == "rate":
        return math.isfinite(value) and value >= 0
    file = (tree / info.source.split()[0].lstrip("/")).read_bytes()
    if not math.isfinite(value) or not any(digit in file for digit in b"0123456789"):
        return False
    if info.kind == "temp":
        return -40 <= value <= 150 and value != 0 and value == int(file.strip(b"\0\n \t\r\x0b\x0c")) / 1000
    if info.kind == "pressure":
        return 0 <= value <= 100
    return value >= 0 or info.kind in ("freq", "freqcap")


@pytest.mark.parametrize("unreadable", FILES)
def test_a_folder_where_a_file_should_be_breaks_nothing(tmp_path: Path, unreadable: str) -> None:
    (tmp_path / unreadable).mkdir(parents=True)
    root = Root(tmp_path)
    read_board(root)
    for source in discover_board(root).sources:
        assert isinstance(read_source(source), Gap) or any(isinstance(value, Gap) for value in source.read())


def test_an_empty_tree_has_no_sensors_and_says_what_is_missing(tmp_path: Path) -> None:
    found = discover_board(Root(tmp_path))
    assert found.sources == ()
    assert {missing.what for missing in found.missing} >= {
        "temperature", "throttling cooling devices", "CPU clocks", "system memory", "system load", "pressure",
        "swap traffic", "network traffic", "disk traffic",
    }  # fmt: skip


def test_this_machine_can_be_discovered() -> None:
    found = discover_board(Root())
    assert {info.kind for source in found.sources for info in source.sensors} <= set(UNIT_OF_KIND)
    assert {"mem/system-available", "load/cpu"} <= {info.id for source in found.sources for info in source.sensors}
