"""Load of GPU, NPU and memory controller: each vendor's way of telling it, and no other number."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import accelerators
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import link, plant

TEGRA = {"proc/device-tree/compatible": "nvidia,p3768-0000\0nvidia,p3767-0005\0nvidia,tegra234\0"}
PERMILLE = {
    "JetPack 4": "sys/devices/gpu.0/load",
    "Nano": "sys/devices/57000000.gpu/load",
    "TX1": "sys/devices/platform/host1x/57000000.gpu/load",
    "TX2": "sys/devices/17000000.gp10b/load",
    "JetPack 5 and 6": "sys/devices/platform/gpu.0/load",
    "Xavier": "sys/devices/platform/17000000.gv11b/load",
    "JetPack 5 on Orin": "sys/devices/platform/17000000.ga10b/load",
    "JetPack 6, without its bus": "sys/devices/platform/17000000.gpu/load",
    "JetPack 6": "sys/devices/platform/bus@0/17000000.gpu/load",
    "devfreq of JetPack 5": "sys/class/devfreq/17000000.ga10b/device/load",
    "devfreq of JetPack 6": "sys/class/devfreq/17000000.gpu/device/load",
    "Thor": "sys/class/devfreq/gpu-gpc-0/load",
    "devfreq of the Nano": "sys/class/devfreq/57000000.gpu/device/load",
}
EMC_RATE = "sys/kernel/debug/bpmp/debug/clk/emc/rate"
EMC = {
    "JetPack 4 on the Nano": ("sys/kernel/actmon_avg_activity/mc_all", "sys/kernel/debug/clk/emc/clk_rate"),
    "the bandwidth manager": ("sys/kernel/actmon_avg_activity/mc_all", "sys/kernel/debug/tegra_bwmgr/emc_rate"),
    "JetPack 5": ("sys/kernel/actmon_avg_activity/mc_all", EMC_RATE),
    "debugfs": ("sys/kernel/debug/tegra_central_actmon/mc_all/avg_activity", EMC_RATE),
    "JetPack 6": ("sys/kernel/debug/cactmon/mc_all", EMC_RATE),
}
GPU, NPU, DMC = (f"sys/class/devfreq/{name}/load" for name in ("fb000000.gpu", "fdab0000.npu", "dmc"))
CORES = "NPU load:  Core0: 90%, Core1: 30%, Core2:  0%,\n"
DEBUG = accelerators.RKNPU_DEBUG


def loads(root: Root) -> dict[str, float | Gap]:
    return {source.sensors[0].id: source.read()[0] for source in accelerators.discover(root).sources}


def missing(root: Root) -> dict[str, str | None]:
    return {missing.what: missing.fix for missing in accelerators.discover(root).missing}


@pytest.mark.parametrize("file", PERMILLE.values(), ids=PERMILLE)
def test_a_jetsons_gpu_is_told_in_permille(tmp_path: Path, file: str) -> None:
    assert loads(plant(tmp_path, TEGRA | {file: "77\n"})) == {"load/gpu": 7.7}


def test_the_several_names_of_a_jetsons_gpu_are_one_sensor(tmp_path: Path) -> None:
    root = plant(tmp_path, TEGRA | {PERMILLE["JetPack 6"]: "1000\n"})
    link(tmp_path, "sys/devices/platform/gpu.0", "bus@0/17000000.gpu")
    assert loads(root) == {"load/gpu": 100.0}


def test_on_a_jetson_without_the_file_the_load_is_missing(tmp_path: Path) -> None:
    assert "load/gpu" in missing(plant(tmp_path, TEGRA))


def test_of_several_names_the_one_that_tells_a_share_is_read(tmp_path: Path) -> None:
    root = plant(tmp_path, TEGRA | {PERMILLE["JetPack 5 and 6"]: "\n", PERMILLE["JetPack 6"]: "963\n"})
    assert loads(root) == {"load/gpu": 96.3}


def test_a_gpu_that_cannot_be_read_now_is_a_sensor_all_the_same(tmp_path: Path) -> None:
    root = plant(tmp_path, TEGRA | {PERMILLE["JetPack 6"]: "", "unreadable.txt": f"EAGAIN {PERMILLE['JetPack 6']}\n"})
    (source,) = accelerators.discover(root).sources
    assert isinstance(read_source(source), Gap)


@pytest.mark.parametrize("name", ["15340000.vic", "gpu-nvd-0", "17000000.gpux", "gpu.0.old", "regulator.gpu"])
def test_what_is_no_gpu_of_tegra_is_passed_over(tmp_path: Path, name: str) -> None:
    assert "load/gpu" not in loads(plant(tmp_path, TEGRA | {f"sys/devices/platform/{name}/load": "77\n"}))


@pytest.mark.parametrize(("activity", "clock"), EMC.values(), ids=EMC)
def test_memory_controller_load_is_activity_by_clock(tmp_path: Path, activity: str, clock: str) -> None:
    """31 % of 2133 MHz: the activity is in kHz, the clock in Hz."""
    root = plant(tmp_path, TEGRA | {activity: "661230\n", clock: "2133000000\n"})
    assert loads(root) == {"load/emc": pytest.approx(31.0)}


@pytest.mark.parametrize(
    ("activity", "rate"), [("10\n", "0\n"), ("2200000\n", "2133000000\n"), ("-3\n", "204000000\n")]
)
def test_a_share_that_cannot_be_is_a_gap(tmp_path: Path, activity: str, rate: str) -> None:
    (source,) = accelerators.discover(plant(tmp_path, TEGRA | {EMC["JetPack 6"][0]: activity, EMC_RATE: rate})).sources
    value = read_source(source)
    assert isinstance(value, Gap)
    assert "of a clock of" in value.reason


def why_no_emc(root: Root) -> str:
    (told,) = (missing for missing in accelerators.discover(root).missing if missing.what == "load/emc")
    return f"{told.why}: {told.fix}"


def test_why_the_memory_controllers_load_is_not_told(tmp_path: Path) -> None:
    nobody = why_no_emc(plant(tmp_path / "user", TEGRA))
    assert (
        "activity and clock are reported in /sys/kernel/debug, which only root may read: start edgetop with sudo"
        in nobody
    )
    counter = {EMC["JetPack 5"][0]: "5\n"}
    assert "controller's clock is reported in /sys/kernel/debug" in why_no_emc(
        plant(tmp_path / "counter", TEGRA | counter)
    )
    denied = counter | {EMC_RATE: "", "unreadable.txt": f"EACCES {EMC_RATE}\n"}
    assert "only root may read" in why_no_emc(plant(tmp_path / "denied", TEGRA | denied))
    firmware = {EMC_RATE: "2133000000\n", "sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity": "7\n"}
    assert "in an unknown unit" in why_no_emc(plant(tmp_path / "firmware", TEGRA | firmware))
    silent = why_no_emc(plant(tmp_path / "none", TEGRA | {EMC_RATE: "1\n"}))
    assert "does not report the memory controller's activity: run beside it" in silent


def test_another_vendors_board_lacks_no_emc_of_tegra(tmp_path: Path) -> None:
    assert "load/emc" not in missing(plant(tmp_path, {EMC_RATE: "2133000000\n"}))


def test_another_vendors_load_is_not_taken_for_permille(tmp_path: Path) -> None:
    assert loads(plant(tmp_path, {PERMILLE["JetPack 5 and 6"]: "77\n"})) == {}


def test_rockchip_tells_load_at_a_clock(tmp_path: Path) -> None:
    root = plant(tmp_path, {GPU: "12@300000000Hz\n", NPU: "0@1000000000Hz\n", DMC: "45@528000000Hz\n"})
    assert loads(root) == {"load/gpu": 12.0, "load/npu": 0.0, "load/emc": 45.0}


def test_other_devfreq_devices_are_no_accelerators(tmp_path: Path) -> None:
    assert loads(plant(tmp_path, {"sys/class/devfreq/fdb50000.vepu/load": "12@300000000Hz\n"})) == {}


def test_the_npus_own_driver_goes_before_devfreq(tmp_path: Path) -> None:
    assert loads(plant(tmp_path, {NPU: "0@1000000000Hz\n", DEBUG: CORES})) == {"load/npu": 40.0}


def test_the_drivers_file_in_procfs_is_for_everybody(tmp_path: Path) -> None:
    """Of two cores, as an RK3576 has them."""
    proc = {accelerators.RKNPU_PROC: "NPU load:  Core0: 90%, Core1: 30%,\n", "sys/module/rknpu/version": "0.9.8\n"}
    root = plant(tmp_path, proc | {NPU: "0@1000000000Hz\n"})
    assert (loads(root), missing(root)) == ({"load/npu": 60.0}, {})
    assert loads(plant(tmp_path, {DEBUG: CORES})) == {"load/npu": 40.0}


def test_an_npu_that_only_root_may_ask_is_told_with_the_way_to(tmp_path: Path) -> None:
    root = plant(tmp_path, {"sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000\n"})
    assert missing(root) == {"load/npu": "start edgetop with sudo"}
    root = plant(tmp_path / "module", {"sys/module/rknpu/version": "0.9.8\n"})
    assert missing(root) == {"load/npu": "start edgetop with sudo"}


def test_an_npu_with_a_devfreq_load_misses_nothing(tmp_path: Path) -> None:
    assert missing(plant(tmp_path, {NPU: "0@1000000000Hz\n", "sys/module/rknpu/version": "0.9.8\n"})) == {}


def test_amdgpu_tells_percent_and_two_cards_are_told_apart(tmp_path: Path) -> None:
    cards = {f"sys/class/drm/card{n}/device/gpu_busy_percent": f"{20 + n}\n" for n in (0, 1)}
    root = plant(tmp_path, cards | {"sys/class/drm/card0-DP-1/device/gpu_busy_percent": "9\n"})
    assert loads(root) == {"load/gpu": 20.0, "load/gpu-2": 21.0}


def test_what_intel_tells_by_perf_alone_is_missing(tmp_path: Path) -> None:
    assert missing(plant(tmp_path, {"sys/class/drm/card1/gt/gt0/id": "0\n"})) == {"load/gpu": "sudo intel_gpu_top"}


def test_a_machine_without_any_has_none_and_misses_none(tmp_path: Path) -> None:
    assert accelerators.discover(Root(tmp_path)).sources == accelerators.discover(Root(tmp_path)).missing == ()


@pytest.mark.parametrize("content", ["", "1001", "-1", "7.7", "x", "9" * 400, "²"])
def test_what_is_no_permille_is_an_error(tmp_path: Path, content: str) -> None:
    (source,) = accelerators.discover(plant(tmp_path, TEGRA | {PERMILLE["JetPack 4"]: content})).sources
    with pytest.raises(ValueError):
        source.read()


@pytest.mark.parametrize("content", ["", "12", "101@300000000Hz", "-1@3Hz", "12@300000000", "@3Hz", "1_0@3Hz"])
def test_what_is_no_load_at_a_clock_is_an_error(content: str) -> None:
    with pytest.raises(ValueError):
        accelerators.load_at_clock(content)


@pytest.mark.parametrize(
    "content",
    ["", "NPU load:", "NPU load:  Core0: x%", "NPU load: 101%", "NPU load: Core0: 9%, Core1: x%", "Core0: 5%", "90%"],
)
def test_what_is_no_load_of_an_npu_is_an_error(content: str) -> None:
    with pytest.raises(ValueError):
        accelerators.rknpu_load(content)


FILES = (PERMILLE["JetPack 4"], GPU, NPU, DMC, DEBUG, "sys/class/drm/card0/device/gpu_busy_percent")
CONTENT = (
    st.sampled_from((CORES, "5@3Hz", "12", "NPU load: ", "101", "NPU load: Core0: ²%", "\0")).map(str.encode)
    | st.binary(max_size=30)
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(files=st.dictionaries(st.sampled_from(FILES), CONTENT), compatible=st.sampled_from((b"", b"nvidia,tegra210\0")))
def test_no_content_makes_up_a_load(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], compatible: bytes
) -> None:
    root = plant(tmp_path_factory.mktemp("load"), files | {"proc/device-tree/compatible": compatible})
    for source in accelerators.discover(root).sources:
        values = read_source(source)
        assert not (isinstance(values, Gap) and "internal error" in values.reason)
        if not isinstance(values, Gap):
            (value,) = values
            assert isinstance(value, float)
            assert math.isfinite(value)
            assert 0 <= value <= 100
            assert any(byte in b"0123456789" for byte in files[source.sensors[0].source.lstrip("/")])
