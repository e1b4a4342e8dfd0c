"""What Texas Instruments' power monitors have in common: how their registers are read over SMBus.

The chips send the high byte first, an SMBus word has it last (SMBus specification, "Read Word"): every
word is swapped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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


class Chip(Protocol):
    """One chip as it is configured: `window_s` is how long a set of averaged conversions takes."""

    window_s: float

    def identify(self, registers: Registers) -> None:
        """Raises ValueError where another chip answers."""

    def set_up(self, registers: Registers) -> None: ...

    def is_set_up(self, registers: Registers) -> bool:
        """False after a reset, which puts the chip's own configuration back."""

    def measure(self, registers: Registers) -> Sequence[Measured] | Gap:
        """Of each channel, in the order of their numbers."""


def averaging(single_s: float, within_s: float, averages: Sequence[int]) -> int:
    """The code of the most averaging that is done `within_s`; of none where even that takes longer."""
    return max((code for code, count in enumerate(averages) if count * single_s <= within_s), default=0)


def expect(registers: Registers, register: int, expected: int, what: str, shift: int = 0) -> None:
    found = registers.word(register) >> shift
    if found != expected:
        raise ValueError(f"what answers is no {what}: register {register:02X}h has {found:X}h, not {expected:X}h")


def of_registers(volts: float, amperes: float, watts: float) -> Measured:
    """The chip's power is a magnitude: its sign is the current's."""
    return Measured(volts, amperes, math.copysign(watts, amperes))


def clipped(volts: float, limit: str) -> Measured:
    gap = Gap(f"more than {limit} across the shunt, which is beyond the chip's range")
    return Measured(volts, gap, gap)
