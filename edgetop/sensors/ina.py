"""Texas Instruments' power monitors: INA219, INA226, INA260, INA3221, INA228.

Datasheets: INA219 SBOS448, INA226 SBOS547, INA260 SBOS656, INA3221 SBOS576, INA228 SBOSA20;
the registers are in their sections "Register Maps". Compare Linux' drivers/hwmon/ina2xx.c,
ina3221.c and ina238.c. Each chip is given a configuration of its own: continuous conversion
of shunt and bus, and as much averaging as the time between two reads allows. The least bit
of current is that of the shunt's voltage (calibration 4096, 2048 and 4096 on INA219, INA226
and INA228), so that calibration costs no resolution and nothing overflows before the input does.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

from edgetop.sensors.protocol import Gap
from edgetop.sensors.registers import (
    AVERAGES,
    NOT_READY,
    OVERFLOW,
    TEXAS_INSTRUMENTS,
    Measured,
    Registers,
    averaging,
    clipped,
    expect,
    of_registers,
    signed,
)


class Ina219:
    """SBOS448: no identity. Ready and overflow are bits of the bus register; reading the power clears ready."""

    _SINGLE_S: ClassVar = 2 * 532e-6  # 12 bits, shunt and bus
    _RANGE: ClassVar = 0x2000 | 0x1800  # 32 V, +-320 mV
    _CLIPPED: ClassVar = 32_000
    _SHUNT_V: ClassVar = 10e-6
    _BUS_V: ClassVar = 4e-3

    def __init__(self, shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> None:
        averages = tuple(1 << code for code in range(8))
        code = averaging(self._SINGLE_S, within_s, averages)
        self.window_s = averages[code] * self._SINGLE_S
        adc = 0b1000 | code  # BADC and SADC, table "ADC Settings"
        self._config = self._RANGE | adc << 7 | adc << 3 | 0b111
        self._current_lsb = current_lsb or self._SHUNT_V / shunt_ohm
        self._calibration = (
            math.floor(0.04096 / (self._current_lsb * shunt_ohm) + 1e-6) & 0xFFFE
        )  # equation 1; bit 0 is 0

    def identify(self, registers: Registers) -> None:
        """It has no register that tells."""

    def set_up(self, registers: Registers) -> None:
        registers.write(0x05, self._calibration)
        registers.write(0x00, self._config)

    def is_set_up(self, registers: Registers) -> bool:
        return registers.word(0x00) == self._config and registers.word(0x05) == self._calibration

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


class Ina226:
    """SBOS547. Ready and overflow are bits 3 and 2 of register 06h; reading it clears ready."""

    _SINGLE_S: ClassVar = 2 * 332e-6  # conversion time code 2 for bus and shunt
    _FIXED: ClassVar = 0x4000 | 2 << 6 | 2 << 3 | 0b111
    _SHUNT_V: ClassVar = 2.5e-6
    _BUS_V: ClassVar = 1.25e-3

    def __init__(self, shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> None:
        code = averaging(self._SINGLE_S, within_s, AVERAGES)
        self.window_s = AVERAGES[code] * self._SINGLE_S
        self._config = self._FIXED | code << 9
        self._current_lsb = current_lsb or self._SHUNT_V / shunt_ohm
        self._calibration = math.floor(0.00512 / (self._current_lsb * shunt_ohm) + 1e-6)  # equation 1

    def identify(self, registers: Registers) -> None:
        expect(registers, 0xFE, TEXAS_INSTRUMENTS, "INA226")
        expect(registers, 0xFF, 0x226, "INA226", shift=4)

    def set_up(self, registers: Registers) -> None:
        registers.write(0x05, self._calibration)
        registers.write(0x00, self._config)

    def is_set_up(self, registers: Registers) -> bool:
        return registers.word(0x00) == self._config and registers.word(0x05) == self._calibration

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


class Ina260:
    """SBOS656. Its shunt of 2 mOhm is inside, and nothing needs calibration. Flags as in the INA226."""

    SHUNT_OHM: ClassVar = 0.002
    _SINGLE_S: ClassVar = 2 * 332e-6
    _FIXED: ClassVar = 0x6000 | 2 << 6 | 2 << 3 | 0b111
    _LSB: ClassVar = 1.25e-3  # A and V
    _POWER_W: ClassVar = 10e-3

    def __init__(self, within_s: float) -> None:
        code = averaging(self._SINGLE_S, within_s, AVERAGES)
        self.window_s = AVERAGES[code] * self._SINGLE_S
        self._config = self._FIXED | code << 9

    def identify(self, registers: Registers) -> None:
        expect(registers, 0xFE, TEXAS_INSTRUMENTS, "INA260")
        expect(registers, 0xFF, 0x227, "INA260", shift=4)

    def set_up(self, registers: Registers) -> None:
        registers.write(0x00, self._config)

    def is_set_up(self, registers: Registers) -> bool:
        return registers.word(0x00) == self._config

    def measure(self, registers: Registers) -> Sequence[Measured] | Gap:
        flags = registers.word(6)
        if not flags & 0b1000:
            return NOT_READY
        current, bus, power = registers.signed(1), registers.word(2), registers.word(3)
        volts = bus * self._LSB
        if flags & 0b0100:
            return [Measured(volts, OVERFLOW, OVERFLOW)]
        return [of_registers(volts, current * self._LSB, power * self._POWER_W)]


class Ina3221:
    """SBOS576: three channels, voltages alone; the host multiplies. Ready is bit 0 of 0Fh, cleared by reading it."""

    CHANNELS: ClassVar = 3
    _CHANNEL_S: ClassVar = 2 * 332e-6
    _FIXED: ClassVar = 2 << 6 | 2 << 3 | 0b111
    _SHUNT_V: ClassVar = 40e-6
    _BUS_V: ClassVar = 8e-3

    def __init__(self, shunts_ohm: Sequence[float | None], within_s: float) -> None:
        """`shunts_ohm`: of each channel; None: not used."""
        self._used = tuple((number, shunt) for number, shunt in enumerate(shunts_ohm) if shunt is not None)
        code = averaging(len(self._used) * self._CHANNEL_S, within_s, AVERAGES)
        self.window_s = AVERAGES[code] * len(self._used) * self._CHANNEL_S
        self._config = self._FIXED | code << 9 | sum(0x4000 >> number for number, _ in self._used)

    def identify(self, registers: Registers) -> None:
        expect(registers, 0xFE, TEXAS_INSTRUMENTS, "INA3221")
        expect(registers, 0xFF, 0x3220, "INA3221")

    def set_up(self, registers: Registers) -> None:
        registers.write(0x00, self._config)

    def is_set_up(self, registers: Registers) -> bool:
        return registers.word(0x00) == self._config

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


class Ina228:
    """SBOSA20: 20 bits. Ready, overflow and the checksum of its trim are bits 1, 9 and 0 of register 0Bh."""

    _SINGLE_S: ClassVar = 2 * 280e-6  # code 3 for bus and shunt; the temperature is not converted
    _FIXED: ClassVar = 0xB000 | 3 << 9 | 3 << 6 | 3 << 3
    _RANGE: ClassVar = 0x0000  # +-163.84 mV
    _SHUNT_V: ClassVar = 312.5e-9
    _BUS_V: ClassVar = 195.3125e-6

    def __init__(self, shunt_ohm: float, within_s: float, current_lsb: float | None = None) -> None:
        code = averaging(self._SINGLE_S, within_s, AVERAGES)
        self.window_s = AVERAGES[code] * self._SINGLE_S
        self._adc_config = self._FIXED | code
        self._current_lsb = current_lsb or self._SHUNT_V / shunt_ohm
        self._calibration = round(13107.2e6 * self._current_lsb * shunt_ohm)  # equation 2

    def identify(self, registers: Registers) -> None:
        expect(registers, 0x3E, TEXAS_INSTRUMENTS, "INA228")
        expect(registers, 0x3F, 0x228, "INA228", shift=4)

    def set_up(self, registers: Registers) -> None:
        registers.write(0x00, self._RANGE)
        registers.write(0x02, self._calibration)
        registers.write(0x01, self._adc_config)

    def is_set_up(self, registers: Registers) -> bool:
        return registers.word(0x01) == self._adc_config and registers.word(0x02) == self._calibration

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
