"""Texas Instruments' power monitors on I2C: INA219, INA226, INA260, INA3221, INA228.

Datasheets: INA219 SBOS448, INA226 SBOS547, INA260 SBOS656, INA3221 SBOS576, INA228 SBOSA20; the registers are in their
sections "Register Maps". Compare drivers/hwmon/ina2xx.c, ina3221.c and ina238.c of Linux. Each chip is configured for
continuous conversion of shunt and bus voltage, with as much averaging as the time between two reads allows. One step
of the current register equals one step of the shunt voltage (calibration 4096, 2048 and 4096 on INA219, INA226 and
INA228). So no resolution is lost, and no register overflows before the input does.

The chips send the high byte first, but an SMBus word has the low byte first (SMBus specification, "Read Word"), so
every word is swapped.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from edgetop.frozen import frozen
from edgetop.sensors.sensor_protocol import Gap

AVERAGES = (1, 4, 16, 64, 128, 256, 512, 1024)  # averaged conversions by code, for all chips except the INA219
TOLERANCE = 1.1  # conversions may take a tenth longer than nominally (INA226: 1.1 ms, at most 1.21 ms)
TEXAS_INSTRUMENTS = 0x5449

INA260_SHUNT_OHM = 0.002  # inside the chip
INA3221_CHANNELS = 3

NOT_READY = Gap("no new conversion since the last read")
OVERFLOW = Gap("the chip's arithmetic overflowed")


class Bus(Protocol):
    """An I2C bus, with those methods of smbus2.SMBus that are used here.

    The methods raise OSError: 121 or 6 if no chip answers, 110 if the bus is stuck.
    """

    def read_word_data(self, i2c_addr: int, register: int) -> int: ...

    def write_word_data(self, i2c_addr: int, register: int, value: int) -> None: ...

    def read_i2c_block_data(self, i2c_addr: int, register: int, length: int) -> list[int]: ...


@frozen
class Registers:
    """Reads and writes the registers of the chip at one address of an I2C bus. Words are sent high byte first."""

    bus: Bus
    address: int

    def word(self, register: int) -> int:
        return _swapped(self.bus.read_word_data(self.address, register))

    def signed(self, register: int) -> int:
        return signed(self.word(register), 16)

    def write(self, register: int, value: int) -> None:
        self.bus.write_word_data(self.address, register, _swapped(value))

    def wide(self, register: int) -> int:
        """Return the content of a register of 24 bits."""
        return int.from_bytes(bytes(self.bus.read_i2c_block_data(self.address, register, 3)), "big")


def _swapped(word: int) -> int:
    """Return a word of 16 bits with its two bytes swapped.

    >>> hex(_swapped(0x7025))
    '0x2570'
    """
    return (word & 0xFF) << 8 | word >> 8 & 0xFF


def signed(value: int, bits: int) -> int:
    """Return a number of `bits` bits as a signed one (two's complement).

    >>> signed(0xC180, 16), signed(5, 16)
    (-16000, 5)
    """
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


class Measured(NamedTuple):
    """The power, voltage and current of a channel. Power and current are negative if they flow out of the board."""

    watts: float | Gap
    volts: float
    amperes: float | Gap


Channels = Sequence[Measured] | Gap


@frozen
class Chip:
    """One power chip: the settings to write to its registers, and the function that measures its channels.

    With these settings, the chip measures the voltages of the bus and of the shunt all the time.
    """

    name: str
    identity: tuple[tuple[int, int, int], ...]  # identifying registers as (number, content after the shift, shift)
    window_s: float  # duration of a set of averaged conversions
    settings: Mapping[int, int]  # values by register, in the order in which they are written
    measure: Callable[[Registers], Channels]  # returns the used channels in the order of their numbers

    def identify(self, registers: Registers) -> None:
        """Raise ValueError if the identifying registers are those of another kind of chip. Some chips have none."""
        for register, expected, shift in self.identity:
            if (content := registers.word(register) >> shift) != expected:
                why = f"register {register:02X}h has {content:X}h, not {expected:X}h"
                raise ValueError(f"what answers is no {self.name.upper()}: {why}")

    def set_up(self, registers: Registers) -> None:
        for register, value in self.settings.items():
            registers.write(register, value)

    def is_set_up(self, registers: Registers) -> bool:
        """Return whether the chip still has its settings. A reset restores the chip's defaults."""
        return all(registers.word(register) == value for register, value in self.settings.items())


def averaging(single_s: float, within_s: float, averages: Sequence[int] = AVERAGES) -> tuple[int, float]:
    """Return over how many conversions to average, as `(code for the chip's register, seconds that they take)`.

    `averages[code]` is the number of conversions for each code. The highest number is taken for which the conversions
    take at most `within_s` seconds, or code 0 if even a single conversion takes longer. `single_s` is the duration of
    one conversion in seconds.

    >>> averaging(0.001, 0.02)
    (2, 0.016)
    """
    code = max((code for code, count in enumerate(averages) if count * single_s <= within_s), default=0)
    return code, averages[code] * single_s


def _single(overflows: int, volts: float, amperes: float, clips_at: str = "") -> Channels:
    """Return a list with one element: the measurement of a chip that has one channel.

    `volts` and `amperes` are the measured values. The power is their product, because the chip's register of the power
    is coarser. `overflows` is the chip's overflow flag; if it is not 0, power and current are gaps. `clips_at` is "" if
    the shunt's voltage was within range. Otherwise it names the highest voltage that the chip can measure, such as `320
    mV`, and power and current are gaps too.
    """
    if overflows:
        return [Measured(OVERFLOW, volts, OVERFLOW)]
    return [_clipped(volts, clips_at) if clips_at else Measured(volts * amperes, volts, amperes)]


def _clipped(volts: float, limit: str) -> Measured:
    gap = Gap(f"more than {limit} across the shunt, which is beyond the chip's range")
    return Measured(gap, volts, gap)


def ina219(shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> Chip:
    """Return the settings and the measuring function for an INA219 (SBOS448).

    `shunt_ohm` is the resistance of its shunt, and `within_s` is the time in seconds that averaging may take.
    `current_lsb` is the current in A of the lowest bit; by default it follows from the shunt. An INA219 has no register
    that identifies it. Ready and overflow are bits of the register of the bus voltage. Reading the power register
    clears the ready bit.
    """
    # With 12 bits, the conversions of shunt and bus take 532 us each.
    code, window_s = averaging(2 * 532e-6, within_s, tuple(1 << code for code in range(8)))
    adc = 0b1000 | code  # BADC and SADC, table "ADC Settings"
    lsb_a = current_lsb or 10e-6 / shunt_ohm  # the shunt voltage's least significant bit is 10 uV
    calibration = math.floor(0.04096 / (lsb_a * shunt_ohm) + 1e-6) & 0xFFFE  # equation 1; bit 0 is 0
    config = 0x2000 | 0x1800 | adc << 7 | adc << 3 | 0b111  # 32 V, +-320 mV

    def measure(registers: Registers) -> Channels:
        bus, shunt, current = registers.word(2), registers.signed(1), registers.signed(4)
        registers.word(3)  # clears the ready bit
        if not bus & 0b10:
            return NOT_READY
        clips_at = "320 mV" if abs(shunt) >= 32_000 else ""
        return _single(bus & 0b01, (bus >> 3) * 4e-3, current * lsb_a, clips_at)

    return Chip("ina219", (), window_s, {0x05: calibration, 0x00: config}, measure)


def ina226(shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> Chip:
    """Return the settings and the measuring function for an INA226 (SBOS547).

    `shunt_ohm` is the resistance of its shunt, and `within_s` is the time in seconds that averaging may take.
    `current_lsb` is the current in A of the lowest bit; by default it follows from the shunt. Ready and overflow are
    bits 3 and 2 of register 06h. Reading this register clears the ready bit.
    """
    code, window_s = averaging(2 * 332e-6, within_s)  # conversion time code 2 for bus and shunt
    lsb_a = current_lsb or 2.5e-6 / shunt_ohm
    calibration = math.floor(0.00512 / (lsb_a * shunt_ohm) + 1e-6)  # equation 1

    def measure(registers: Registers) -> Channels:
        flags = registers.word(6)
        if not flags & 0b1000:
            return NOT_READY
        shunt, bus, current = registers.signed(1), registers.word(2), registers.signed(4)
        clips_at = "81.92 mV" if shunt in (0x7FFF, -0x8000) else ""
        return _single(flags & 0b0100, bus * 1.25e-3, current * lsb_a, clips_at)

    config = 0x4000 | code << 9 | 2 << 6 | 2 << 3 | 0b111
    identity = ((0xFE, TEXAS_INSTRUMENTS, 0), (0xFF, 0x226, 4))
    return Chip("ina226", identity, window_s, {0x05: calibration, 0x00: config}, measure)


def ina260(within_s: float) -> Chip:
    """Return the settings and the measuring function for an INA260 (SBOS656), which contains a shunt of 2 mOhm.

    `within_s` is the time in seconds that averaging may take. Ready and overflow are the same bits as in the INA226.
    """
    code, window_s = averaging(2 * 332e-6, within_s)

    def measure(registers: Registers) -> Channels:
        flags = registers.word(6)
        if not flags & 0b1000:
            return NOT_READY
        return _single(flags & 0b0100, registers.word(2) * 1.25e-3, registers.signed(1) * 1.25e-3)

    identity = ((0xFE, TEXAS_INSTRUMENTS, 0), (0xFF, 0x227, 4))
    return Chip("ina260", identity, window_s, {0x00: 0x6000 | code << 9 | 2 << 6 | 2 << 3 | 0b111}, measure)


def ina3221(shunts_ohm: Sequence[float | None], within_s: float) -> Chip:
    """Return the settings and the measuring function for an INA3221 (SBOS576), which has three channels.

    `shunts_ohm` has the shunt of each channel in ohms, or None for a channel that is not used. `within_s` is the time
    in seconds that averaging may take. The chip measures voltages, and the power is computed here. Ready is bit 0 of
    register 0Fh. Reading this register clears the ready bit.
    """
    used = tuple((number, shunt) for number, shunt in enumerate(shunts_ohm) if shunt is not None)
    code, window_s = averaging(len(used) * 2 * 332e-6, within_s)

    def channel(registers: Registers, number: int, shunt_ohm: float) -> Measured:
        shunt, bus = registers.signed(1 + 2 * number) >> 3, registers.signed(2 + 2 * number) >> 3
        volts = bus * 8e-3
        if shunt in (4095, -4096):
            return _clipped(volts, "163.8 mV")
        amperes = shunt * 40e-6 / shunt_ohm
        return Measured(volts * amperes, volts, amperes)

    def measure(registers: Registers) -> Channels:
        if not registers.word(0x0F) & 1:
            return NOT_READY
        return [channel(registers, number, shunt_ohm) for number, shunt_ohm in used]

    config = code << 9 | 2 << 6 | 2 << 3 | 0b111 | sum(0x4000 >> number for number, _ in used)
    identity = ((0xFE, TEXAS_INSTRUMENTS, 0), (0xFF, 0x3220, 0))
    return Chip("ina3221", identity, window_s, {0x00: config}, measure)


def ina228(shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> Chip:
    """Return the settings and the measuring function for an INA228 (SBOSA20), a converter of 20 bits.

    `shunt_ohm` is the resistance of its shunt, and `within_s` is the time in seconds that averaging may take.
    `current_lsb` is the current in A of the lowest bit; by default it follows from the shunt. Ready, overflow and the
    checksum of its trim memory are bits 1, 9 and 0 of register 0Bh.
    """
    code, window_s = averaging(2 * 280e-6, within_s)  # code 3 for bus and shunt; the temperature is not converted
    lsb_a = current_lsb or 312.5e-9 / shunt_ohm
    calibration = round(13107.2e6 * lsb_a * shunt_ohm)  # equation 2

    def measure(registers: Registers) -> Channels:
        flags = registers.word(0x0B)
        if not flags & 0b0001:
            return Gap("the chip's memory failed its checksum")
        if not flags & 0b0010:
            return NOT_READY
        shunt, bus = (signed(registers.wide(register), 24) >> 4 for register in (4, 5))
        current = signed(registers.wide(7), 24) >> 4
        clips_at = "163.84 mV" if shunt in (0x7FFFF, -0x80000) else ""
        return _single(flags & 1 << 9, bus * 195.3125e-6, current * lsb_a, clips_at)

    # 0000h: +-163.84 mV across the shunt.
    settings = {0x00: 0x0000, 0x02: calibration, 0x01: 0xB000 | 3 << 9 | 3 << 6 | 3 << 3 | code}
    return Chip("ina228", ((0x3E, TEXAS_INSTRUMENTS, 0), (0x3F, 0x228, 4)), window_s, settings, measure)
