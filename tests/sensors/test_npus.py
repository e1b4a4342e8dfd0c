"""NPUs: the load as a share of time, clocks that are possible, and what their drivers do not report."""

from pathlib import Path

import pytest

from edgetop.sensors import npus
from edgetop.sensors.counters import FIRST
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap, Source
from tests.support.trees import plant

DEVICE = "sys/class/accel/accel0/device"
BUSY, CLOCK = f"{DEVICE}/npu_busy_time_us", f"{DEVICE}/npu_current_frequency_mhz"
HAILO = {"sys/class/hailo_chardev/hailo0/device_id": "0001:01:00.0"}
POWER = "commands/hailortcli_measure-power"


def sources(root: Root) -> dict[str, Source]:
    return {source.sensors[0].id: source for source in npus.discover(root).sources}


def whys(root: Root) -> dict[str, str]:
    return {missing.what: missing.why for missing in npus.discover(root).missing}


def test_the_load_of_intels_npu_is_its_busy_share_of_the_time(tmp_path: Path) -> None:
    times = iter((10.0, 11.0, 12.0, 13.0))
    root = plant(tmp_path, {BUSY: "5000000\n"})
    (source,) = npus._intel(root, DEVICE, "npu", lambda: next(times)).sources
    assert source.read() == [FIRST]
    plant(tmp_path, {BUSY: "5250000\n"})
    assert source.read() == [25.0]
    plant(tmp_path, {BUSY: "100\n"})
    assert isinstance(source.read()[0], Gap)  # the driver was loaded again
    plant(tmp_path, {BUSY: "3000100\n"})
    assert isinstance(source.read()[0], Gap)  # busier than the time that passed


def test_an_older_driver_has_the_load_alone(tmp_path: Path) -> None:
    assert list(sources(plant(tmp_path, {BUSY: "1\n"}))) == ["load/npu"]


@pytest.mark.parametrize(("text", "value"), [("1400\n", 1400.0), ("0\n", 0.0), ("-1\n", None), ("4294967295\n", None)])
def test_a_clock_is_possible_or_a_gap(tmp_path: Path, text: str, value: float | None) -> None:
    read = read_source(sources(plant(tmp_path, {BUSY: "1\n", CLOCK: text}))["freq/npu"])
    assert (read if value is None else read[0]) == value or isinstance(read, Gap)
    assert isinstance(read, Gap) == (value is None)


def test_amds_npu_is_missing_with_its_reason(tmp_path: Path) -> None:
    root = plant(tmp_path, {f"{DEVICE}/vbnv": "RyzenAI-npu1\n"})
    assert not sources(root)
    assert "neither load, clock nor temperature" in whys(root)["load/npu"]


CORE = "sys/bus/platform/drivers/rocket/fdab0000.npu/power/runtime_status"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({f"{DEVICE}/uevent": "MODALIAS=platform:rknn\n", CORE: "active\n"}, "the rocket driver reports neither"),
        ({f"{DEVICE}/uevent": "DRIVER=qaic\nPCI_CLASS=120000\n"}, "no file of the driver qaic is known"),
        ({f"{DEVICE}/uevent": "DRIVER=\x1b[31m\n"}, None),
        ({"sys/bus/platform/drivers/rocket/uevent": ""}, None),  # the driver without a core
    ],
)
def test_an_npu_whose_driver_reports_nothing_is_missing(tmp_path: Path, files: dict[str, str], why: str | None) -> None:
    found = whys(plant(tmp_path, files))
    assert not sources(Root(tmp_path))
    assert found.get("load/npu", "")[: len(why or "")] == (why or "")
    assert len(found) == (why is not None)


def test_an_edge_tpu_has_no_load(tmp_path: Path) -> None:
    usb = "sys/bus/usb/devices/2-1"
    files = {"sys/class/apex/apex_0/temp": "50000\n", f"{usb}/idVendor": "18D1\n", f"{usb}/idProduct": "9302\n"}
    found = whys(plant(tmp_path, files))
    assert found.keys() == {"load/edge-tpu:0", "load/edge-tpu:2-1"}
    assert "on USB" in found["load/edge-tpu:2-1"]


def test_a_hailo_has_the_power_that_its_command_prints(tmp_path: Path) -> None:
    root = plant(tmp_path, HAILO | {POWER: "Current power consumption (W): 2.5\n"})
    (source,) = sources(root).values()
    assert (source.sensors[0].id, source.sensors[0].role, source.cadence_s) == ("power/hailo0", "part", 10.0)
    assert source.read() == [2.5]
    assert whys(root).keys() == {"temp/hailo0", "load/hailo0"}


def test_each_of_two_hailos_is_asked_by_its_address(tmp_path: Path) -> None:
    text = "Executing on device: 0001:03:00.0\nCurrent power consumption (W): 1.25\n"
    second = {"sys/class/hailo_chardev/hailo1/device_id": "0001:03:00.0\n", f"{POWER}_-s_0001:03:00.0": text}
    third = {"sys/class/hailo_chardev/hailo2/device_id": "; reboot", f"{POWER}_-s_;_reboot": text}
    root = plant(tmp_path, HAILO | second | third | {f"{POWER}_-s_0001:01:00.0": "HAILO_UNSUPPORTED_OPCODE\n"})
    (source,) = sources(root).values()
    assert (source.sensors[0].id, source.read()) == ("power/hailo1", [1.25])
    assert "printed no power" in whys(root)["power/hailo0"]
    assert "needs its address" in whys(root)["power/hailo2"]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "there is no hailortcli"),
        ({POWER: "HAILO_UNSUPPORTED_OPCODE\n", f"{POWER}.exit": "1\n"}, "has no monitor?"),
        ({POWER: "Current power consumption (W): nan\n"}, "printed no power"),
        ({"sys/class/hailo_chardev/hailo1/device_id": "0001:03:00.0"}, "there is no hailortcli"),
        ({"sys/class/hailo_chardev/hailo1/device_id": "x", f"{POWER}_-s_0001:01:00.0": "odd"}, "printed no power"),
    ],
)
def test_a_hailo_without_a_power_has_the_reason(tmp_path: Path, files: dict[str, str], why: str) -> None:
    root = plant(tmp_path, HAILO | files)
    assert not sources(root)
    assert why in whys(root)["power/hailo0"]


def test_a_board_without_npus_has_nothing_to_say(tmp_path: Path) -> None:
    found = npus.discover(plant(tmp_path, {"proc/stat": "cpu\n"}))
    assert (found.sources, found.missing) == ((), ())
