"""CPU clocks: a clock and a cap for each cpufreq policy."""

from pathlib import Path

import pytest

from edgetop.sensors import clocks
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant

POLICY = "sys/devices/system/cpu/cpufreq/policy{}/{}"


def policy_files(number: int, **files: str) -> dict[str, str]:
    content = {
        "scaling_cur_freq": "1500000\n",
        "scaling_max_freq": "2400000\n",
        "cpuinfo_max_freq": "2400000\n",
        "affected_cpus": "0 1 2 3\n",
        "related_cpus": "0 1 2 3\n",
        **files,
    }
    return {POLICY.format(number, name): text for name, text in content.items()}


def test_each_policy_has_a_clock_and_a_cap_in_megahertz(tmp_path: Path) -> None:
    root = plant(tmp_path, {**policy_files(4), **policy_files(0), **policy_files(10)})
    sources = clocks.discover(root).sources
    ids = [info.id for source in sources for info in source.sensors]
    assert ids == ["freq/cpu0", "freqcap/cpu0", "freq/cpu4", "freqcap/cpu4", "freq/cpu10", "freqcap/cpu10"]
    assert sources[0].read() == [1500.0, 2400.0]


def test_the_highest_clock_of_the_hardware_and_its_cpus_are_told(tmp_path: Path) -> None:
    (source,) = clocks.discover(plant(tmp_path, policy_files(0))).sources
    assert [info.max for info in source.sensors] == [2400.0, 2400.0]
    assert source.sensors[0].note == "CPUs 0 1 2 3"


@pytest.mark.parametrize("text", ["", "<unknown>\n", "²", "9" * 5000])
def test_a_highest_clock_that_is_no_number_is_not_known(tmp_path: Path, text: str) -> None:
    (source,) = clocks.discover(plant(tmp_path, policy_files(0, cpuinfo_max_freq=text))).sources
    assert source.sensors[0].max is None
    assert source.read() == [1500.0, 2400.0]


@pytest.mark.parametrize("text", ["", "<unknown>\n", "²", "9" * 5000])
def test_a_clock_that_is_no_number_is_not_read(tmp_path: Path, text: str) -> None:
    (source,) = clocks.discover(plant(tmp_path, policy_files(0, scaling_cur_freq=text))).sources
    clock, cap = source.read()
    assert isinstance(clock, Gap)
    assert "not a number" in clock.reason
    assert cap == 2400.0


def test_the_clock_that_disturbs_the_hardware_is_never_read(tmp_path: Path) -> None:
    (source,) = clocks.discover(plant(tmp_path, policy_files(0, cpuinfo_cur_freq="862000\n"))).sources
    (tmp_path / POLICY.format(0, "scaling_cur_freq")).unlink()
    clock, cap = source.read()
    assert isinstance(clock, Gap)
    assert cap == 2400.0


def test_a_policy_without_a_cpu_says_so(tmp_path: Path) -> None:
    (source,) = clocks.discover(plant(tmp_path, policy_files(0, affected_cpus="\n"))).sources
    assert source.read() == [Gap("its CPUs are offline")] * 2
    plant(tmp_path, policy_files(0))
    assert source.read() == [1500.0, 2400.0]


SWITCHES = {
    POLICY.format(0, "boost"): "0",
    "sys/devices/system/cpu/cpufreq/boost": "0",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1",
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_boost_that_is_off_is_told(tmp_path: Path, switch: str) -> None:
    on = {name: "1" if state == "0" else "0" for name, state in SWITCHES.items()}
    root = plant(tmp_path, {**policy_files(0), **on})
    assert clocks.discover(root).sources[0].sensors[0].note == "CPUs 0 1 2 3"
    plant(tmp_path, {switch: SWITCHES[switch]})
    assert {info.note for info in clocks.discover(root).sources[0].sensors} == {"CPUs 0 1 2 3, boost off"}


def test_no_policy_is_told_as_missing(tmp_path: Path) -> None:
    (missing,) = clocks.discover(plant(tmp_path, {"sys/devices/system/cpu/cpufreq/boost": "1"})).missing
    assert missing.what == "CPU clocks"


TEGRA = {"proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0"}
BPMP = "sys/kernel/debug/bpmp/debug/clk/emc"


@pytest.mark.parametrize(
    ("files", "highest"),
    [
        ({f"{BPMP}/rate": "2133000000\n", f"{BPMP}/max_rate": "3199000000\n"}, 3199.0),
        ({"sys/kernel/debug/clk/emc/clk_rate": "2133000000\n"}, None),
    ],
)
def test_the_clock_of_tegras_memory_is_that_of_debugfs(
    tmp_path: Path, files: dict[str, str], highest: float | None
) -> None:
    (source,) = clocks.discover(plant(tmp_path, TEGRA | files)).sources
    (info,) = source.sensors
    assert (info.id, info.max, source.read()) == ("freq/memory", highest, [2133.0])


def test_a_memory_clock_of_devfreq_is_enough(tmp_path: Path) -> None:
    files = {"sys/class/devfreq/bwmgr/cur_freq": "4266000000\n", "sys/class/devfreq/bwmgr/max_freq": "4266000000\n"}
    sources = clocks.discover(plant(tmp_path, TEGRA | files | {f"{BPMP}/rate": "2133000000\n"})).sources
    assert [info.id for source in sources for info in source.sensors] == ["freq/memory", "freqcap/memory"]


def test_another_vendors_clock_named_emc_is_not_read(tmp_path: Path) -> None:
    assert clocks.discover(plant(tmp_path, {f"{BPMP}/rate": "2133000000\n"})).sources == ()
