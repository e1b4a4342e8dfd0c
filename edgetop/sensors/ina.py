"""Texas Instruments' power monitors on I2C: INA219, INA226, INA260, INA3221, INA228.

Datasheets: INA219 SBOS448, INA226 SBOS547, INA260 SBOS656, INA3221 SBOS576, INA228 SBOSA20;
the registers are in their sections "Register Maps". Compare Linux' drivers/hwmon/ina2xx.c,
ina3221.c and ina238.c. Each chip is given a configuration of its own: continuous conversion
of shunt and bus, and as much averaging as the time between two reads allows. The least bit
of current is that of the shunt's voltage (calibration 4096, 2048 and 4096 on INA219, INA226
and INA228), so that calibration costs no resolution and nothing overflows before the input does.

The chips send the high byte first, an SMBus word has it last (SMBus specification, "Read Word"): every
word is swapped.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from edgetop.sensors.protocol import Gap

AVERAGES = (1, 4, 16, 64, 128, 256, 512, 1024)  # all but the INA219, by their code
TOLERANCE = 1.1  # conversions may take a tenth longer than their name (INA226: 1.1 ms, 1.21 ms at most)
TEXAS_INSTRUMENTS = 0x5449

NOT_READY = Gap("no new conversion since the last read")
OVERFLOW = Gap("the chip's arithmetic overflowed")


class Bus(Protocol):
    """What of smbus2.SMBus is used. Raises OSError: 121 or 6 where nothing answers, 110 where the bus is stuck."""

    def read_word_data(self, i2c_addr: int, register: int) -> int: ...

    def write_word_data(self, i2c_addr: int, register: int, value: int) -> None: ...

    def read_i2c_block_data(self, i2c_addr: int, register: int, length: int) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Registers:
    """The registers of the chip at one address, high byte first."""

    bus: Bus
    address: int

    def word(self, register: int) -> int:
        return _swapped(self.bus.read_word_data(self.address, register))

    def signed(self, register: int) -> int:
        return signed(self.word(register), 16)

    def write(self, register: int, value: int) -> None:
        self.bus.write_word_data(self.address, register, _swapped(value))

    def wide(self, register: int) -> int:
        """A register of 24 bits."""
        return int.from_bytes(bytes(self.bus.read_i2c_block_data(self.address, register, 3)), "big")


def _swapped(word: int) -> int:
    """
    >>> hex(_swapped(0x7025))
    '0x2570'
    """
    return (word & 0xFF) << 8 | word >> 8 & 0xFF


def signed(value: int, bits: int) -> int:
    """
    >>> signed(0xC180, 16) >> 3
    -2000
    """
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


@dataclass(frozen=True, slots=True)
class Measured:
    """One channel, in V, A and W. Flows back out of the board are negative."""

    volts: float
    amperes: float | Gap
    watts: float | Gap


class Chip:
    """One chip as it is configured, in continuous conversion of shunt and bus."""

    IDENTITY: ClassVar[tuple[tuple[int, int, int], ...]] = ()  # registers that tell the chip: what they hold, shifted

    def __init__(self, window_s: float, settings: Mapping[int, int]) -> None:
        """`window_s`: how long a set of averaged conversions takes. `settings`: by register, in order of writing."""
        self.window_s = window_s
        self._settings = settings

    def identify(self, registers: Registers) -> None:
        """Raises ValueError where another chip answers."""
        for register, expected, shift in self.IDENTITY:
            found = registers.word(register) >> shift
            if found != expected:
                what = type(self).__name__.upper()
                why = f"register {register:02X}h has {found:X}h, not {expected:X}h"
                raise ValueError(f"what answers is no {what}: {why}")

    def set_up(self, registers: Registers) -> None:
        for register, value in self._settings.items():
            registers.write(register, value)

    def is_set_up(self, registers: Registers) -> bool:
        """False after a reset, which puts the chip's own configuration back."""
        return all(registers.word(register) == value for register, value in self._settings.items())

    def measure(self, registers: Registers) -> Sequence[Measured] | Gap:
        """Of each channel, in the order of their numbers."""
        raise NotImplementedError


def averaging(single_s: float, within_s: float, averages: Sequence[int]) -> int:
    """The code of the most averaging that is done `within_s`; of none where even that takes longer."""
    return max((code for code, count in enumerate(averages) if count * single_s <= within_s), default=0)


def of_registers(volts: float, amperes: float, watts: float) -> Measured:
    """The chip's power is a magnitude: its sign is the current's."""
    return Measured(volts, amperes, math.copysign(watts, amperes))


def clipped(volts: float, limit: str) -> Measured:
    gap = Gap(f"more than {limit} across the shunt, which is beyond the chip's range")
    return Measured(volts, gap, gap)


class Ina219(Chip):
    """SBOS448: no register tells which chip it is. Ready and overflow are bits of the bus register.

    Reading the power clears ready.
    """

    _SINGLE_S: ClassVar = 2 * 532e-6  # 12 bits, shunt and bus
    _RANGE: ClassVar = 0x2000 | 0x1800  # 32 V, +-320 mV
    _CLIPPED: ClassVar = 32_000
    _SHUNT_V: ClassVar = 10e-6
    _BUS_V: ClassVar = 4e-3

    def __init__(self, shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> None:
        averages = tuple(1 << code for code in range(8))
        code = averaging(self._SINGLE_S, within_s, averages)
        adc = 0b1000 | code  # BADC and SADC, table "ADC Settings"
        self._current_lsb = current_lsb or self._SHUNT_V / shunt_ohm
        # Equation 1; bit 0 is 0.
        calibration = math.floor(0.04096 / (self._current_lsb * shunt_ohm) + 1e-6) & 0xFFFE
        config = self._RANGE | adc << 7 | adc << 3 | 0b111
        super().__init__(averages[code] * self._SINGLE_S, {0x05: calibration, 0x00: config})

    def measure(self, registers: Registers) -> Sequence[Measured] | Gap:
        bus, shunt, current, power = registers.word(2), registers.signed(1), registers.signed(4), registers.word(3)
        if not bus & 0b10:
            return NOT_READY
        volts = (bus >> 3) * self._BUS_V
        if bus & 0b01:
            return [Measured(volts, OVERFLOW, OVERFLOW)]
        if abs(shunt) >= self._CLIPPED:
            return [clipped(volts, "320 mV")]
        return [of_registers(volts, current * self._current_lsb, power * 20 * self._current_lsb)]


class Ina226(Chip):
    """SBOS547. Ready and overflow are bits 3 and 2 of register 06h; reading it clears ready."""

    IDENTITY = ((0xFE, TEXAS_INSTRUMENTS, 0), (0xFF, 0x226, 4))
    _SINGLE_S: ClassVar = 2 * 332e-6  # conversion time code 2 for bus and shunt
    _FIXED: ClassVar = 0x4000 | 2 << 6 | 2 << 3 | 0b111
    _SHUNT_V: ClassVar = 2.5e-6
    _BUS_V: ClassVar = 1.25e-3

    def __init__(self, shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> None:
        code = averaging(self._SINGLE_S, within_s, AVERAGES)
        self._current_lsb = current_lsb or self._SHUNT_V / shunt_ohm
        calibration = math.floor(0.00512 / (self._current_lsb * shunt_ohm) + 1e-6)  # equation 1
        super().__init__(AVERAGES[code] * self._SINGLE_S, {0x05: calibration, 0x00: self._FIXED | code << 9})

    def measure(self, registers: Registers) -> Sequence[Measured] | Gap:
        flags = registers.word(6)
        if not flags & 0b1000:
            return NOT_READY
        shunt, bus, power, current = registers.signed(1), registers.word(2), registers.word(3), registers.signed(4)
        volts = bus * self._BUS_V
        if flags & 0b0100:
            return [Measured(volts, OVERFLOW, OVERFLOW)]
        if shunt in (0x7FFF, -0x8000):
            return [clipped(volts, "81.92 mV")]
        return [of_registers(volts, current * self._current_lsb, power * 25 * self._current_lsb)]


class Ina260(Chip):
    """SBOS656. Its shunt of 2 mOhm is inside, and nothing needs calibration. Flags as in the INA226."""

    IDENTITY = ((0xFE, TEXAS_INSTRUMENTS, 0), (0xFF, 0x227, 4))
    SHUNT_OHM: ClassVar = 0.002
    _SINGLE_S: ClassVar = 2 * 332e-6
    _FIXED: ClassVar = 0x6000 | 2 << 6 | 2 << 3 | 0b111
    _LSB: ClassVar = 1.25e-3  # A and V
    _POWER_W: ClassVar = 10e-3

    def __init__(self, within_s: float) -> None:
        code = averaging(self._SINGLE_S, within_s, AVERAGES)
        super().__init__(AVERAGES[code] * self._SINGLE_S, {0x00: self._FIXED | code << 9})

    def measure(self, registers: Registers) -> Sequence[Measured] | Gap:
        flags = registers.word(6)
        if not flags & 0b1000:
            return NOT_READY
        current, bus, power = registers.signed(1), registers.word(2), registers.word(3)
        volts = bus * self._LSB
        if flags & 0b0100:
            return [Measured(volts, OVERFLOW, OVERFLOW)]
        return [of_registers(volts, current * self._LSB, power * self._POWER_W)]


class Ina3221(Chip):
    """SBOS576: three channels, voltages alone; the host multiplies. Ready is bit 0 of 0Fh, cleared by reading it."""

    IDENTITY = ((0xFE, TEXAS_INSTRUMENTS, 0), (0xFF, 0x3220, 0))
    CHANNELS: ClassVar = 3
    _CHANNEL_S: ClassVar = 2 * 332e-6
    _FIXED: ClassVar = 2 << 6 | 2 << 3 | 0b111
    _SHUNT_V: ClassVar = 40e-6
    _BUS_V: ClassVar = 8e-3

    def __init__(self, shunts_ohm: Sequence[float | None], within_s: float) -> None:
        """`shunts_ohm`: of each channel; None: not used."""
        self._used = tuple((number, shunt) for number, shunt in enumerate(shunts_ohm) if shunt is not None)
        code = averaging(len(self._used) * self._CHANNEL_S, within_s, AVERAGES)
        config = self._FIXED | code << 9 | sum(0x4000 >> number for number, _ in self._used)
        super().__init__(AVERAGES[code] * len(self._used) * self._CHANNEL_S, {0x00: config})

    def measure(self, registers: Registers) -> Sequence[Measured] | Gap:
        if not registers.word(0x0F) & 1:
            return NOT_READY
        return [self._channel(registers, number, shunt) for number, shunt in self._used]

    def _channel(self, registers: Registers, number: int, shunt_ohm: float) -> Measured:
        shunt, bus = registers.signed(1 + 2 * number) >> 3, registers.signed(2 + 2 * number) >> 3
        volts = bus * self._BUS_V
        if shunt in (4095, -4096):
            return clipped(volts, "163.8 mV")
        amperes = shunt * self._SHUNT_V / shunt_ohm
        return Measured(volts, amperes, volts * amperes)


class Ina228(Chip):
    """SBOSA20: 20 bits. Ready, overflow and the checksum of its trim are bits 1, 9 and 0 of register 0Bh."""

    IDENTITY = ((0x3E, TEXAS_INSTRUMENTS, 0), (0x3F, 0x228, 4))
    _SINGLE_S: ClassVar = 2 * 280e-6  # code 3 for bus and shunt; the temperature is not converted
    _FIXED: ClassVar = 0xB000 | 3 << 9 | 3 << 6 | 3 << 3
    _RANGE: ClassVar = 0x0000  # +-163.84 mV
    _SHUNT_V: ClassVar = 312.5e-9
    _BUS_V: ClassVar = 195.3125e-6

    def __init__(self, shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> None:
        code = averaging(self._SINGLE_S, within_s, AVERAGES)
        self._current_lsb = current_lsb or self._SHUNT_V / shunt_ohm
        calibration = round(13107.2e6 * self._current_lsb * shunt_ohm)  # equation 2
        settings = {0x00: self._RANGE, 0x02: calibration, 0x01: self._FIXED | code}
        super().__init__(AVERAGES[code] * self._SINGLE_S, settings)

    def measure(self, registers: Registers) -> Sequence[Measured] | Gap:
        flags = registers.word(0x0B)
        if not flags & 0b0001:
            return Gap("the chip's memory failed its checksum")
        if not flags & 0b0010:
            return NOT_READY
        shunt, bus = (signed(registers.wide(register), 24) >> 4 for register in (4, 5))
        current, power = signed(registers.wide(7), 24) >> 4, registers.wide(8)
        volts = bus * self._BUS_V
        if flags & 1 << 9:
            return [Measured(volts, OVERFLOW, OVERFLOW)]
        if shunt in (0x7FFFF, -0x80000):
            return [clipped(volts, "163.84 mV")]
        return [of_registers(volts, current * self._current_lsb, power * 3.2 * self._current_lsb)]
