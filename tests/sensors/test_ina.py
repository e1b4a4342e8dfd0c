"""Power monitors as registers: the datasheets' examples, what clears what, and what is not to be trusted."""

from collections.abc import Callable

import pytest

from edgetop.sensors.ina import NOT_READY, OVERFLOW, Chip, Measured, Registers, ina219, ina226, ina228, ina260, ina3221
from edgetop.sensors.sensor_protocol import Gap
from tests.support.ina_bus import (
    FakeBus,
    FakeChip,
    FakeIna219,
    FakeIna226,
    FakeIna228,
    FakeIna260,
    FakeIna3221,
)

WITHIN_S = 0.05

PAIRS: dict[str, Callable[[], tuple[Chip, FakeChip]]] = {
    "ina219": lambda: (ina219(0.002, WITHIN_S), FakeIna219()),
    "ina226": lambda: (ina226(0.002, WITHIN_S), FakeIna226()),
    "ina260": lambda: (ina260(WITHIN_S), FakeIna260()),
    "ina3221": lambda: (ina3221([0.002, None, None], WITHIN_S), FakeIna3221()),
    "ina228": lambda: (ina228(0.002, WITHIN_S), FakeIna228()),
}
every_chip = pytest.mark.parametrize("name", PAIRS)
with_overflow = pytest.mark.parametrize("name", ["ina219", "ina226", "ina260", "ina228"])


def wired(chip: Chip, fake: FakeChip) -> Registers:
    """The chip at 0x40, set up, with one set of conversions done."""
    registers = Registers(FakeBus(at_40=fake), 0x40)
    chip.set_up(registers)
    fake.convert()
    return registers


def measured(chip: Chip, registers: Registers) -> Measured:
    values = chip.measure(registers)
    assert not isinstance(values, Gap), values
    return values[0]


def numbers(of: Measured) -> tuple[float, float, float]:
    assert isinstance(of.amperes, float)
    assert isinstance(of.watts, float)
    return of.volts, of.amperes, of.watts


# The datasheets' worked examples: 10 A through 2 milliohms at 11.98 V.


def test_ina226_as_in_its_datasheet() -> None:
    """SBOS547, Table 1: calibration 0A00h for 1 mA; 1F40h, 2570h, 2710h and 12B8h read as 20 mV to 119.8 W."""
    chip, fake = ina226(0.002, WITHIN_S, current_lsb=0.001), FakeIna226()
    registers = wired(chip, fake)
    assert [fake.registers[r] for r in (5, 1, 2, 4, 3)] == [0x0A00, 0x1F40, 0x2570, 0x2710, 0x12B8]
    assert numbers(measured(chip, registers)) == pytest.approx((11.98, 10.0, 119.8))


def test_ina219_as_in_its_datasheet() -> None:
    """SBOS448, Table 3: calibration 5000h for 1 mA; 07D0h, 5D98h, 2710h and 1766h."""
    chip, fake = ina219(0.002, WITHIN_S, current_lsb=0.001), FakeIna219()
    registers = wired(chip, fake)
    assert [fake.registers[r] for r in (5, 1, 4, 3)] == [0x5000, 0x07D0, 0x2710, 0x1766]
    assert fake.registers[2] == 0x5D98 | 0b10  # there with the ready bit still clear
    assert numbers(measured(chip, registers)) == pytest.approx((11.98, 10.0, 119.8))


def test_ina228_as_in_its_datasheet() -> None:
    """Table 8-4 (of the INA229, with the same registers): 6 A at 48 V through 16.2 milliohms, up to 10 A."""
    chip, fake = ina228(0.0162, WITHIN_S, current_lsb=10 / 2**19), FakeIna228(shunt_ohm=0.0162)
    registers = wired(chip, fake)
    assert fake.registers[2] == 4050
    fake.registers |= {4: 0x4BF000, 5: 0x3C0000, 7: 0x4CCCC0, 8: 0x48000C, 0x0B: 0b11}
    assert numbers(measured(chip, registers)) == pytest.approx((48.0, 6.0, 288.0), rel=1e-5)


def test_ina3221_as_in_its_datasheet() -> None:
    """SBOS576: -80 mV across the shunt is C180h."""
    chip, fake = ina3221([0.1, None, None], WITHIN_S), FakeIna3221(shunt_ohm=0.1, inputs=[(5.04, -0.8)])
    registers = wired(chip, fake)
    assert fake.registers[1] == 0xC180
    assert numbers(measured(chip, registers)) == pytest.approx((5.04, -0.8, -4.032))


def test_ina3221_as_a_jetson_has_it() -> None:
    chip, fake = ina3221([0.005, None, None], WITHIN_S), FakeIna3221()
    registers = wired(chip, fake)
    fake.registers |= {1: 0x0740, 2: 0x13B0, 0x0F: 1}
    assert numbers(measured(chip, registers)) == pytest.approx((5.04, 1.856, 9.35424))


def test_the_least_bit_of_current_is_the_shunts_own() -> None:
    """So that calibration loses nothing: 4096 for 0.1 ohm on an INA219 is what its breakout boards use."""
    for chip, fake, calibration in (
        (ina219(0.1, WITHIN_S), FakeIna219(), 4096),
        (ina226(0.1, WITHIN_S), FakeIna226(), 2048),
        (ina228(0.1, WITHIN_S), FakeIna228(), 4096),
    ):
        wired(chip, fake)
        assert fake.registers[2 if chip.name == "ina228" else 5] == calibration


@every_chip
def test_what_is_on_the_input_is_read(name: str) -> None:
    chip, fake = PAIRS[name]()
    fake.inputs = [(5.12, 1.84)]
    volts, amperes, watts = numbers(measured(chip, wired(chip, fake)))
    assert volts == pytest.approx(5.12, abs=0.008)
    assert amperes == pytest.approx(1.84, abs=0.02)
    assert watts == pytest.approx(5.12 * 1.84, abs=0.15)


@every_chip
def test_what_flows_back_is_negative(name: str) -> None:
    chip, fake = PAIRS[name]()
    fake.inputs = [(12.0, -1.5)]
    _, amperes, watts = numbers(measured(chip, wired(chip, fake)))
    assert amperes == pytest.approx(-1.5, abs=0.02)
    assert watts == pytest.approx(-18.0, abs=0.3)


@every_chip
def test_a_second_read_without_a_new_conversion_gives_nothing(name: str) -> None:
    chip, fake = PAIRS[name]()
    registers = wired(chip, fake)
    measured(chip, registers)
    assert chip.measure(registers) is NOT_READY
    fake.convert()
    measured(chip, registers)


@every_chip
def test_nothing_is_ready_right_after_it_was_set_up(name: str) -> None:
    chip, fake = PAIRS[name]()
    registers = wired(chip, fake)
    chip.set_up(registers)
    assert chip.measure(registers) is NOT_READY


@with_overflow
def test_after_an_overflow_only_the_voltage_counts(name: str) -> None:
    chip, fake = PAIRS[name]()
    registers = wired(chip, fake)
    register, bit = {"ina219": (2, 0), "ina228": (0x0B, 9)}.get(name, (6, 2))
    fake.registers[register] |= 1 << bit
    of = measured(chip, registers)
    assert (of.amperes, of.watts) == (OVERFLOW, OVERFLOW)
    assert of.volts == pytest.approx(11.98, abs=0.01)


@pytest.mark.parametrize("amperes", [400.0, -400.0])
@pytest.mark.parametrize("name", ["ina219", "ina226", "ina3221", "ina228"])
def test_a_shunt_beyond_the_chips_range_is_no_reading(name: str, amperes: float) -> None:
    chip, fake = PAIRS[name]()
    fake.inputs = [(12.0, amperes)]
    of = measured(chip, wired(chip, fake))
    assert isinstance(of.watts, Gap)
    assert isinstance(of.amperes, Gap)
    assert "across the shunt" in of.watts.reason or of.watts is OVERFLOW


@every_chip
def test_a_reset_is_noticed(name: str) -> None:
    chip, fake = PAIRS[name]()
    registers = wired(chip, fake)
    assert chip.is_set_up(registers)
    fake.reset()
    assert not chip.is_set_up(registers)
    chip.set_up(registers)
    assert chip.is_set_up(registers)


@pytest.mark.parametrize("name", ["ina219", "ina226", "ina228"])
def test_a_calibration_that_was_lost_is_noticed(name: str) -> None:
    chip, fake = PAIRS[name]()
    registers = wired(chip, fake)
    fake.registers[2 if name == "ina228" else 5] = 0
    assert not chip.is_set_up(registers)


def test_an_ina228_whose_memory_is_corrupt_gives_nothing() -> None:
    chip, fake = PAIRS["ina228"]()
    registers = wired(chip, fake)
    fake.registers[0x0B] &= ~1
    gap = chip.measure(registers)
    assert isinstance(gap, Gap)
    assert "checksum" in gap.reason


@pytest.mark.parametrize("name", ["ina226", "ina260", "ina3221", "ina228"])
def test_another_chip_is_told_from_it(name: str) -> None:
    chip, fake = PAIRS[name]()
    registers = Registers(FakeBus(at_40=fake, at_41=FakeIna219()), 0x40)
    chip.identify(registers)
    with pytest.raises(ValueError, match=f"no {name.upper()}"):
        chip.identify(Registers(registers.bus, 0x41))


@every_chip
@pytest.mark.parametrize("within_s", [0.0, 0.001, 0.01, 0.05, 0.5, 5.0])
def test_it_averages_as_much_as_the_time_allows(name: str, within_s: float) -> None:
    build = {
        "ina219": lambda s: ina219(0.1, s), "ina226": lambda s: ina226(0.1, s), "ina260": ina260,
        "ina3221": lambda s: ina3221([0.1, 0.1, 0.1], s), "ina228": lambda s: ina228(0.1, s),
    }[name]  # fmt: skip
    window_s = build(within_s).window_s
    least_s, most_s = build(0.0).window_s, build(1e9).window_s
    assert window_s <= max(within_s, least_s)
    assert window_s == most_s or window_s * 4 > within_s  # the next step of averaging would not fit


def test_configurations_are_those_of_the_register_maps() -> None:
    """Averages, conversion times and continuous mode in their bits; 50 ms to do it in."""
    for chip, fake, register, expected in (
        (ina219(0.1, WITHIN_S), FakeIna219(), 0, 0b001_11_1101_1101_111),  # 32 V, /8, 32 samples each
        (ina226(0.1, WITHIN_S), FakeIna226(), 0, 0b0100_011_010_010_111),  # 64 averages, 332 us each
        (ina260(WITHIN_S), FakeIna260(), 0, 0b0110_011_010_010_111),
        (ina3221([0.1, None, 0.1], WITHIN_S), FakeIna3221(), 0, 0b0101_010_010_010_111),  # 16: two channels
        (ina228(0.1, WITHIN_S), FakeIna228(), 1, 0b1011_011_011_011_011),  # 64 averages, 280 us each
    ):
        wired(chip, fake)
        assert fake.registers[register] == expected, type(chip).__name__
    assert ina219(0.1, WITHIN_S).window_s == pytest.approx(0.03405, rel=1e-3)
    assert ina226(0.1, WITHIN_S).window_s == pytest.approx(0.0425, rel=1e-3)


def test_channels_that_are_not_used_are_not_converted() -> None:
    chip = ina3221([None, 0.01, None], WITHIN_S)
    fake = FakeIna3221(shunt_ohm=0.01, inputs=[(1.0, 1.0), (3.3, 0.5), (9.0, 1.0)])
    values = chip.measure(wired(chip, fake))
    assert not isinstance(values, Gap)
    assert [numbers(of) for of in values] == [pytest.approx((3.296, 0.5, 1.648), rel=1e-3)]
    assert 1 not in fake.registers


def test_words_are_swapped_both_ways() -> None:
    bus = FakeBus(at_40=FakeIna226())
    registers = Registers(bus, 0x40)
    registers.write(5, 0x0A00)
    assert bus.chips[0x40].registers[5] == 0x0A00
    assert bus.read_word_data(0x40, 5) == 0x000A
    assert registers.word(0xFE) == 0x5449
