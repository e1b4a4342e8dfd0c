"""Power monitors on I2C: how they are written, who owns the address, and what a bus can do to a reading."""

import errno
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.errors import InputError
from edgetop.sensors.i2c import open_monitors, parse_spec
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap, Reader
from edgetop.session.meter import Meter
from tests.support.ina_bus import FakeBus, FakeIna219, FakeIna226, FakeIna260, FakeIna3221
from tests.support.trees import link, plant

SPEC = "1:0x40:ina226:0.002:5V-IN"


class HostTree(Root):
    """A file tree that stands in for the running machine's own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_host = True


def opened(tmp_path: Path, bus: FakeBus, *texts: str) -> tuple[Reader, ...]:
    found = open_monitors([parse_spec(text) for text in texts], HostTree(tmp_path), open_bus=lambda _: bus)
    return found.sources  # type: ignore[return-value]


def roles(tmp_path: Path, bus: FakeBus, *texts: str) -> dict[str, str | None]:
    return {
        info.label: info.role
        for source in opened(tmp_path, bus, *texts)
        for info in source.sensors
        if info.kind == "power"
    }


# How a chip is written.


def test_a_chip_is_bus_address_name_and_shunt() -> None:
    spec = parse_spec(SPEC)
    assert (spec.bus, spec.address, spec.chip) == (1, 0x40, "ina226")
    assert [(c.number, c.shunt_ohm, c.name, c.role) for c in spec.channels] == [(0, 0.002, "5V-IN", None)]


def test_a_shunt_may_have_a_tolerance() -> None:
    spec = parse_spec("1:0x40:ina3221:0.1+-0.5%,,0.05:IN,,CAM")
    assert [(of.shunt_ohm, of.tolerance) for of in spec.channels] == [(0.1, 0.005), (0.05, None)]
    for wrong in ("0.1+-0.5", "0.1+-x%", "0.1+-0%", "0.1+-90%"):
        with pytest.raises(ValueError, match="tolerance"):
            parse_spec(f"1:0x40:ina226:{wrong}")


def test_without_a_name_it_is_called_by_its_place() -> None:
    assert parse_spec("1:0x41:INA219:0.1").channels[0].name == "ina219-1-41"
    assert [c.name for c in parse_spec("1:0x41:ina3221:0.1,,0.1").channels] == ["ina3221-1-41-1", "ina3221-1-41-3"]


def test_three_channels_have_shunts_and_names_in_their_order() -> None:
    spec = parse_spec("7:0x40:ina3221:0.1,,0.05:IN=part,,CAM=total")
    assert [(c.number, c.shunt_ohm, c.name, c.role) for c in spec.channels] == [
        (0, 0.1, "IN", "part"), (2, 0.05, "CAM", "total"),
    ]  # fmt: skip


@pytest.mark.parametrize("shunt", ["", "-", "0.002"])
def test_an_ina260_has_its_shunt_inside(shunt: str) -> None:
    assert parse_spec(f"1:0x40:ina260:{shunt}:5V").channels[0].shunt_ohm == 0.002


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "BUS:ADDR:CHIP:SHUNT"),
        ("1:0x40:ina226", "BUS:ADDR:CHIP:SHUNT"),
        ("1:0x40:ina226:0.002:a:b", "BUS:ADDR:CHIP:SHUNT"),
        ("one:0x40:ina226:0.002", "no bus number"),
        ("٣:0x40:ina226:0.002", "no bus number"),
        ("1:40:ina226:0.002", "0x40 to 0x4f"),
        ("1:0x50:ina226:0.002", "0x40 to 0x4f"),
        ("1:0x44:ina3221:0.002", "0x40 to 0x43"),
        ("1:0xzz:ina226:0.002", "0x40 to 0x4f"),
        ("1:0x40:ina227:0.002", "ina219, ina226, ina228, ina260, ina3221"),
        ("1:0x40:ina226:", "in ohms"),
        ("1:0x40:ina226:0", "2 milliohms are 0.002"),
        ("1:0x40:ina226:nan", "2 milliohms are 0.002"),
        ("1:0x40:ina226:2m", "2 milliohms are 0.002"),
        ("1:0x40:ina226:100", "2 milliohms are 0.002"),
        ("1:0x40:ina226:0.1,0.1", "1 shunt,"),
        ("1:0x40:ina3221:0.1,0.1,0.1,0.1", "3 shunts"),
        ("1:0x40:ina260:0.1", "leave SHUNT empty"),
        ("1:0x40:ina226:0.002:a,b", "more channels"),
        ("1:0x40:ina226:0.002:a/b", "no name"),
        ("1:0x40:ina226:0.002:in=all", "NAME=total or NAME=part"),
    ],
)
def test_what_is_written_wrong_is_told_with_the_way_to_write_it(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        parse_spec(text)
    assert complaint in str(error.value)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="0x124:aina226,.=-/é\x1b ", max_size=40))
def test_whatever_is_written_is_a_chip_or_a_complaint(text: str) -> None:
    try:
        spec = parse_spec(text)
    except ValueError:
        return
    assert spec.channels


# Which of them is the whole board's input.


def test_the_first_is_the_total_and_the_others_are_parts(tmp_path: Path) -> None:
    bus = FakeBus(at_40=FakeIna226(), at_41=FakeIna219())
    assert roles(tmp_path, bus, SPEC, "1:0x41:ina219:0.1:USB") == {"5V-IN": "total", "USB": "part"}


def test_a_name_says_otherwise(tmp_path: Path) -> None:
    bus = FakeBus(at_40=FakeIna226(), at_41=FakeIna219())
    usb = "1:0x41:ina219:0.1:USB"
    assert roles(tmp_path, bus, "1:0x40:ina226:0.002:CPU=part", usb) == {"CPU": "part", "USB": "total"}
    assert roles(tmp_path, bus, "1:0x40:ina226:0.002:CPU", f"{usb}=total") == {"CPU": "part", "USB": "total"}
    assert roles(tmp_path, bus, "1:0x40:ina226:0.002:CPU=part", f"{usb}=part") == {"CPU": "part", "USB": "part"}


def test_each_channel_has_power_voltage_and_current(tmp_path: Path) -> None:
    (monitor,) = opened(tmp_path, FakeBus(at_40=FakeIna3221()), "1:0x40:ina3221:0.1,0.1:A,B")
    kinds = [(info.id, info.accuracy) for info in monitor.sensors]
    assert kinds == [
        (f"{kind}/{name}", "external-shunt") for name in ("A", "B") for kind in ("power", "volt", "current")
    ]


# What cannot be used is refused as the run begins.


def complaint(tmp_path: Path, bus: FakeBus, *texts: str) -> str:
    with pytest.raises(InputError) as error:
        opened(tmp_path, bus, *texts)
    return str(error.value)


def test_an_address_that_a_driver_owns_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, {"sys/bus/i2c/drivers/ina3221/bind": ""})
    link(tmp_path, "sys/bus/i2c/devices/1-0040/driver", "../../drivers/ina3221")
    bus = FakeBus(at_40=FakeIna226())
    text = complaint(tmp_path, bus, SPEC)
    assert "the kernel's driver ina3221 owns this address" in text
    assert "echo 1-0040 | sudo tee /sys/bus/i2c/drivers/ina3221/unbind" in text
    assert bus.transfers == 0


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EREMOTEIO, "nothing answers"),
        (errno.ENXIO, "nothing answers"),
        (errno.ETIMEDOUT, "the bus is stuck"),
        (errno.EBUSY, "a kernel driver owns"),
    ],
)
def test_a_chip_that_does_not_answer_is_refused(tmp_path: Path, number: int, words: str) -> None:
    bus = FakeBus(at_40=FakeIna226())
    bus.fails_with = number
    text = complaint(tmp_path, bus, SPEC)
    assert words in text
    assert "i2cdetect -y 1" in text


def test_another_chip_at_the_address_is_refused(tmp_path: Path) -> None:
    assert "no INA226" in complaint(tmp_path, FakeBus(at_40=FakeIna260()), SPEC)
    text = complaint(tmp_path, FakeBus(at_40=FakeIna260()), "1:0x40:ina219:0.1")
    assert "does not keep the configuration" in text


def test_one_place_one_name_and_one_total(tmp_path: Path) -> None:
    bus = FakeBus(at_40=FakeIna226(), at_41=FakeIna226())
    assert "twice" in complaint(tmp_path, bus, SPEC, "1:0x40:ina226:0.1:other")
    assert "one name" in complaint(tmp_path, bus, SPEC, "1:0x41:ina226:0.1:5V-IN")
    assert "the total" in complaint(tmp_path, bus, f"{SPEC}=total", "1:0x41:ina226:0.1:b=total")


def test_with_a_captured_board_no_bus_is_touched(tmp_path: Path) -> None:
    bus = FakeBus(at_40=FakeIna226())
    with pytest.raises(InputError, match="--sysroot"):
        open_monitors([parse_spec(SPEC)], Root(tmp_path), open_bus=lambda _: bus)
    assert bus.transfers == 0


def refusing(error: type[OSError]) -> Callable[[int], FakeBus]:
    def open_bus(_: int) -> FakeBus:
        raise error

    return open_bus


@pytest.mark.parametrize(
    ("error", "words"),
    [(FileNotFoundError, "there is no /dev/i2c-1 (sudo modprobe i2c-dev"), (PermissionError, "usermod -aG i2c")],
)
def test_a_bus_that_cannot_be_opened_is_told_with_what_to_do(tmp_path: Path, error: type[OSError], words: str) -> None:
    with pytest.raises(InputError) as raised:
        open_monitors([parse_spec(SPEC)], HostTree(tmp_path), open_bus=refusing(error))
    assert words in str(raised.value)


def test_without_a_bus_this_machine_says_so(tmp_path: Path) -> None:
    """By smbus2 itself: bus 250 is nobody's."""
    with pytest.raises(InputError, match="there is no /dev/i2c-250"):
        open_monitors([parse_spec("250:0x40:ina226:0.002")], HostTree(tmp_path))


# Reading.


def values(monitor: Reader) -> Sequence[float | Gap]:
    return monitor.read()


def test_a_read_gives_watts_volts_and_amperes(tmp_path: Path) -> None:
    chip = FakeIna226()
    (monitor,) = opened(tmp_path, FakeBus(at_40=chip), SPEC)
    chip.convert()
    assert values(monitor) == pytest.approx([119.8, 11.98, 10.0], rel=1e-3)


# Of a UPS board with an INA219 between the cell and the board: shunt, current of the chip, power that counts.
DIRECTIONS = {
    "discharging": ("0.1", 1.2, 4.8),
    "charging": ("0.1", -1.2, None),
    "discharging, wired the other way round": ("-0.1", -1.2, 4.8),
    "charging, wired the other way round": ("-0.1", 1.2, None),
    "at rest, with the offset of the chip": ("0.1", -0.001, 0.0),
}


@pytest.mark.parametrize("case", DIRECTIONS)
def test_charging_is_no_consumption(tmp_path: Path, case: str) -> None:
    shunt, amperes, power = DIRECTIONS[case]
    chip = FakeIna219(shunt_ohm=0.1, inputs=[(4.0, amperes)])
    (monitor,) = opened(tmp_path, FakeBus(at_42=chip), f"1:0x42:ina219:{shunt}:UPS")
    chip.convert()
    watts, volts, current = values(monitor)
    assert volts == pytest.approx(4.0)
    assert current == pytest.approx(-amperes if shunt.startswith("-") else amperes, abs=0.002)
    if power is None:
        assert isinstance(watts, Gap)
        assert watts.reason.startswith("4.8 W flow the other way")
    else:
        assert watts == pytest.approx(power, abs=0.01)


def test_a_chip_that_was_reset_is_set_up_anew_after_a_gap(tmp_path: Path) -> None:
    chip = FakeIna226()
    (monitor,) = opened(tmp_path, FakeBus(at_40=chip), SPEC)
    chip.reset()  # the power failed, and it converts again in its own configuration
    chip.convert()
    assert [gap.reason for gap in values(monitor) if isinstance(gap, Gap)] == [
        "the chip was reset and is set up anew"
    ] * 3
    chip.convert()
    assert values(monitor) == pytest.approx([119.8, 11.98, 10.0], rel=1e-3)


@pytest.mark.parametrize(("number", "words"), [(errno.EREMOTEIO, "nothing answers"), (errno.ETIMEDOUT, "stuck")])
def test_a_bus_that_fails_is_an_error_of_that_read_alone(tmp_path: Path, number: int, words: str) -> None:
    chip = FakeIna226()
    bus = FakeBus(at_40=chip)
    (monitor,) = opened(tmp_path, bus, SPEC)
    chip.convert()
    bus.fails_with = number
    with pytest.raises(OSError, match=words):
        values(monitor)
    bus.fails_with = None
    chip.convert()
    assert values(monitor) == pytest.approx([119.8, 11.98, 10.0], rel=1e-3)


def test_it_is_never_read_faster_than_it_averages(tmp_path: Path) -> None:
    spec = parse_spec(SPEC)
    for hz in (1, 10, 100, 1000):
        (monitor,) = open_monitors(
            [spec], HostTree(tmp_path), 1 / hz, open_bus=lambda _: FakeBus(at_40=FakeIna226())
        ).sources
        assert isinstance(monitor, Reader)
        assert monitor.fastest_s <= max(0.55 / hz, 0.00074)
        assert monitor.fastest_s >= 1.1 * 0.000664


def test_without_smbus2_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smbus2", None)
    with pytest.raises(InputError, match=r"pip install .*smbus2"):
        open_monitors([parse_spec(SPEC)], HostTree(tmp_path))


def test_each_power_names_its_chip_and_shunt(tmp_path: Path) -> None:
    (monitor,) = opened(tmp_path, FakeBus(at_40=FakeIna3221()), "1:0x40:ina3221:0.1+-0.5%,0.05:A,B")
    meters = [info.meter for info in monitor.sensors if info.kind == "power"]
    assert meters == [Meter("ina3221", 0.1, 0.005), Meter("ina3221", 0.05)]
