"""A Raspberry Pi as a whole, with a `vcgencmd` on PATH that answers and fails as the real one."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgetop.sensors import raspberry_pi
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import Sampler, read_source
from edgetop.sensors.sensor_protocol import Found, Gap, Source
from edgetop.session.clock import SystemClock
from tests.support.trees import plant
from tests.support.vcgencmd import NO_DEVICE, NOT_REGISTERED, PI, Vcgencmd, live_pi
from tests.support.waiting import wait_until

THROTTLE_FILE = "sys/devices/platform/soc/soc:firmware/get_throttled"
ALARM = {"sys/class/hwmon/hwmon1/name": "rpi_volt\n", "sys/class/hwmon/hwmon1/in0_lcrit_alarm": "0\n"}


@pytest.fixture
def vcgencmd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vcgencmd:
    command = Vcgencmd(tmp_path, monkeypatch)
    command.answers("get_throttled", "throttled=0x0")
    command.answers("measure_clock arm", "frequency(48)=1800457088")
    return command


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tmp_path / "tree"


def ids(found: Found) -> set[str]:
    return {info.id for source in found.sources for info in source.sensors}


def named(found: Found, name: str) -> Source:
    return next(source for source in found.sources if source.name == name)


def test_no_other_board_is_asked_anything(tree: Path, vcgencmd: Vcgencmd) -> None:
    root = live_pi(tree, {"proc/device-tree/compatible": "friendlyelec,cm3588\0rockchip,rk3588\0", **ALARM})
    assert raspberry_pi.discover(root) == Found()
    assert vcgencmd.asked == []


def test_a_pi_tells_its_flags_and_its_clock(tree: Path, vcgencmd: Vcgencmd) -> None:
    found = raspberry_pi.discover(live_pi(tree, ALARM))
    assert {"throttle/under-voltage", "throttle/freq-capped-sticky", "throttle/thermal", "freq/arm"} <= ids(found)
    assert [missing.what for missing in found.missing] == ["power"]


def test_the_question_for_the_flags_never_has_an_argument(tree: Path, vcgencmd: Vcgencmd) -> None:
    """With one the firmware forgets what it has seen since boot, for everybody."""
    for source in raspberry_pi.discover(live_pi(tree)).sources:
        for _ in range(3):
            read_source(source)
    assert {line for line in vcgencmd.asked if line.startswith("get_throttled")} == {"get_throttled"}
    assert set(vcgencmd.asked) == {"get_throttled", "measure_clock arm", "pmic_read_adc"}


def test_nothing_is_forked_where_a_file_does(tree: Path, vcgencmd: Vcgencmd) -> None:
    found = raspberry_pi.discover(live_pi(tree, {THROTTLE_FILE: "0\n", **ALARM}))
    before = len(vcgencmd.asked)
    for source in found.sources:
        if source.name != "freq/arm":
            assert not isinstance(read_source(source), Gap)
    assert len(vcgencmd.asked) == before


def test_what_is_forked_is_asked_at_most_once_a_second(tree: Path, vcgencmd: Vcgencmd) -> None:
    vcgencmd.answers("pmic_read_adc", "X_A current(0)=1.0A\nX_V volt(1)=1.0V")
    found = raspberry_pi.discover(live_pi(tree))
    forking = [source for source in found.sources if source.sensors[0].source.startswith("vcgencmd")]
    assert len(forking) == 3
    assert all(source.cadence_s >= 1 for source in forking)


@pytest.mark.parametrize("complaint", [NO_DEVICE, "VCHI initialization failed"])
def test_without_permission_the_files_are_still_read(tree: Path, vcgencmd: Vcgencmd, complaint: str) -> None:
    vcgencmd.refuses_everything(complaint)
    found = raspberry_pi.discover(live_pi(tree, {THROTTLE_FILE: "50005\n", **ALARM}))
    assert {"throttle/under-voltage", "throttle/under-voltage-alarm"} <= ids(found)
    (missing,) = found.missing
    assert "/dev/vcio" in missing.why
    assert missing.fix == "sudo usermod -aG video $USER, then log in again"
    assert vcgencmd.asked == ["get_throttled"]  # one refusal stands for all


def test_without_flags_the_alarm_tells_under_voltage(tree: Path, vcgencmd: Vcgencmd) -> None:
    vcgencmd.refuses_everything(NO_DEVICE)
    found = raspberry_pi.discover(live_pi(tree, ALARM))
    assert ids(found) == {"throttle/under-voltage"}
    assert [missing.what for missing in found.missing] == ["throttle flags, freq/arm, power"]


def test_a_pi_without_the_command_says_how_to_get_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tree))
    (missing,) = raspberry_pi.discover(live_pi(tree)).missing
    assert missing.why == "there is no vcgencmd"
    assert "apt install" in (missing.fix or "")


def test_firmware_that_knows_nothing_costs_each_its_own(tree: Path, vcgencmd: Vcgencmd) -> None:
    vcgencmd.answers("get_throttled", NOT_REGISTERED)
    found = raspberry_pi.discover(live_pi(tree))
    assert ids(found) == {"freq/arm"}
    assert {missing.what for missing in found.missing} == {"throttle flags", "power"}


def test_an_error_of_another_kind_is_quoted(tree: Path, vcgencmd: Vcgencmd) -> None:
    vcgencmd.refuses_everything("the firmware is on fire")
    (missing,) = raspberry_pi.discover(live_pi(tree)).missing
    assert "'the firmware is on fire'" in missing.why
    assert "status 255" in missing.why


def test_a_command_that_fails_later_is_a_gap_and_reads_again(tree: Path, vcgencmd: Vcgencmd) -> None:
    source = named(raspberry_pi.discover(live_pi(tree)), "freq/arm")
    vcgencmd.refuses_everything(NO_DEVICE)
    gap = read_source(source)
    assert isinstance(gap, Gap)
    assert "/dev/vcio" in gap.reason
    vcgencmd.recovers()
    assert read_source(source) == [1800.457088]


@pytest.mark.parametrize("garbage", ["", "throttled=0xzz", "\x1b[31mthrottled=0x1", "throttled=0x1\nthrottled=0x2"])
def test_garbage_is_a_gap(tree: Path, vcgencmd: Vcgencmd, garbage: str) -> None:
    source = named(raspberry_pi.discover(live_pi(tree)), "throttle flags")
    vcgencmd.answers("get_throttled", garbage)
    assert isinstance(read_source(source), Gap)


def test_a_command_that_hangs_costs_only_itself(tree: Path, vcgencmd: Vcgencmd) -> None:
    found = raspberry_pi.discover(live_pi(tree, {THROTTLE_FILE: "0\n"}))
    clock, quick = named(found, "freq/arm"), named(found, "throttle flags")
    vcgencmd.hangs_on("measure_clock arm")
    fast = _Faster(quick)
    real = SystemClock()
    sampler = Sampler([clock, fast], real, real.monotonic_ns())
    seen: set[int] = set()

    def has_read_on() -> bool:
        seen.update(sampler.drain()[0]["sensor"].tolist())
        return fast.reads > 50

    sampler.start()
    try:
        wait_until(has_read_on)
    finally:
        sampler.stop()
        vcgencmd.lets_go("measure_clock arm")
    assert vcgencmd.asked[-1] == "measure_clock arm"
    assert 0 not in seen  # the clock
    assert 1 in seen


def test_a_command_that_hangs_is_told_once_for_all(tree: Path, vcgencmd: Vcgencmd) -> None:
    vcgencmd.hangs_on("get_throttled")
    (missing,) = raspberry_pi.discover(live_pi(tree)).missing
    assert "did not answer within" in missing.why
    assert vcgencmd.asked == ["get_throttled"]


def test_a_captured_board_without_outputs_says_so(tmp_path: Path) -> None:
    (missing,) = raspberry_pi.discover(plant(tmp_path, PI)).missing
    assert missing.why == "there is no vcgencmd"
    assert not Root(tmp_path).exists("commands")


class _Faster:
    """A source of the board at a pace that a test can wait for."""

    cadence_s = 0.005

    def __init__(self, source: Source) -> None:
        self._source = source
        self.name, self.sensors = source.name, source.sensors
        self.reads = 0

    def read(self) -> Sequence[float | Gap]:
        self.reads += 1
        return self._source.read()
