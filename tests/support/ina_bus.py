"""An SMBus with Texas Instruments' power monitors on it, behaving as their datasheets say.

Words arrive low byte first, as smbus2 gives them. Readings are made by `convert`, one set of
averaged conversions at a time; ready flags are cleared by what clears them in the chip.
"""

import errno
from dataclasses import dataclass, field
from typing import ClassVar

BUS, CURRENT = 11.98, 10.0  # of the datasheets' example


def swap(word: int) -> int:
    return int.from_bytes(word.to_bytes(2, "little"), "big")


@dataclass
class FakeChip:
    """What they have in common. `volts` and `amperes` are on the input, one pair a channel."""

    shunt_ohm: float = 0.002
    inputs: list[tuple[float, float]] = field(default_factory=lambda: [(BUS, CURRENT)])
    registers: dict[int, int] = field(default_factory=dict)
    RESET: ClassVar[dict[int, int]] = {}  # register -> value after power-on
    WIDE: ClassVar[dict[int, int]] = {}  # register -> bytes, where not two

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.registers = dict(self.RESET)

    def read(self, register: int) -> int:
        return self.registers.get(register, 0)

    def write(self, register: int, value: int) -> None:
        if register == 0 and value & 0x8000:
            self.reset()
            return
        self.registers[register] = value
        if register == 0:
            self.clear_ready()

    def clear_ready(self) -> None:
        raise NotImplementedError

    def shunt_code(self, lsb: float, limit: int, channel: int = 0) -> int:
        code = round(self.inputs[channel][1] * self.shunt_ohm / lsb)
        return max(-limit - 1, min(limit, code))


class FakeIna219(FakeChip):
    RESET: ClassVar[dict[int, int]] = {0: 0x399F}

    def clear_ready(self) -> None:
        self.registers[2] = self.registers.get(2, 0) & ~0b10

    def read(self, register: int) -> int:
        value = super().read(register)
        if register == 3:  # "CNVR clears when reading the Power Register"
            self.clear_ready()
        return value

    def write(self, register: int, value: int) -> None:
        super().write(register, value & 0xFFFE if register == 5 else value)  # bit 0 of the calibration is always 0

    def convert(self) -> None:
        shunt, bus = self.shunt_code(10e-6, 32_000), round(self.inputs[0][0] / 4e-3)
        current = int(shunt * self.read(5) / 4096)
        power = abs(int(current * bus / 5000))
        overflow = abs(current) > 0x7FFF or power > 0xFFFF
        self.registers |= {1: shunt & 0xFFFF, 2: bus << 3 | 0b10 | overflow, 4: current & 0xFFFF, 3: power & 0xFFFF}


class FakeIna226(FakeChip):
    RESET: ClassVar[dict[int, int]] = {0: 0x4127, 0xFE: 0x5449, 0xFF: 0x2260}

    def clear_ready(self) -> None:
        self.registers[6] = self.registers.get(6, 0) & ~0b1000

    def read(self, register: int) -> int:
        value = super().read(register)
        if register == 6:
            self.clear_ready()
        return value

    def write(self, register: int, value: int) -> None:
        super().write(register, 0x4000 | value & 0x8FFF if register == 0 else value)  # bits 14 to 12 are fixed

    def convert(self) -> None:
        shunt, bus = self.shunt_code(2.5e-6, 0x7FFF), round(self.inputs[0][0] / 1.25e-3)
        current = int(shunt * self.read(5) / 2048)
        power = abs(int(current * bus / 20_000))
        overflow = abs(current) > 0x7FFF or power > 0xFFFF
        flags = 0b1000 | overflow << 2
        self.registers |= {1: shunt & 0xFFFF, 2: bus, 4: current & 0xFFFF, 3: power & 0xFFFF, 6: flags}


class FakeIna260(FakeIna226):
    RESET: ClassVar[dict[int, int]] = {0: 0x6127, 0xFE: 0x5449, 0xFF: 0x2270}

    def write(self, register: int, value: int) -> None:
        FakeChip.write(self, register, 0x6000 | value & 0x8FFF if register == 0 else value)

    def convert(self) -> None:
        current, bus = round(self.inputs[0][1] / 1.25e-3), round(self.inputs[0][0] / 1.25e-3)
        power = abs(int(current * bus * 1.25e-3 * 1.25e-3 / 10e-3))
        overflow = abs(current) > 0x7FFF or power > 0xFFFF
        self.registers |= {1: current & 0xFFFF, 2: bus, 3: power & 0xFFFF, 6: 0b1000 | overflow << 2}


class FakeIna3221(FakeChip):
    RESET: ClassVar[dict[int, int]] = {0: 0x7127, 0xFE: 0x5449, 0xFF: 0x3220}

    def clear_ready(self) -> None:
        self.registers[0x0F] = self.registers.get(0x0F, 0) & ~1

    def read(self, register: int) -> int:
        value = super().read(register)
        if register == 0x0F:
            self.clear_ready()
        return value

    def convert(self) -> None:
        for channel in range(len(self.inputs)):
            if self.read(0) & 0x4000 >> channel:  # only channels that are enabled
                bus = round(self.inputs[channel][0] / 8e-3)
                shunt = self.shunt_code(40e-6, 4095, channel)
                self.registers |= {1 + 2 * channel: shunt << 3 & 0xFFFF, 2 + 2 * channel: bus << 3}
        self.registers[0x0F] = self.read(0x0F) | 1


class FakeIna228(FakeChip):
    RESET: ClassVar[dict[int, int]] = {0: 0, 1: 0xFB68, 2: 0x1000, 0x0B: 1, 0x3E: 0x5449, 0x3F: 0x2281}
    WIDE: ClassVar[dict[int, int]] = {4: 3, 5: 3, 7: 3, 8: 3}

    def clear_ready(self) -> None:
        self.registers[0x0B] = self.registers.get(0x0B, 0) & ~0b10

    def read(self, register: int) -> int:
        value = super().read(register)
        if register == 0x0B:
            self.clear_ready()
        return value

    def convert(self) -> None:
        shunt, bus = self.shunt_code(312.5e-9, 0x7FFFF), round(self.inputs[0][0] / 195.3125e-6)
        current = int(shunt * 4096 / self.read(2)) if self.read(2) else 0
        power = abs(int(current * bus / 16_384))
        overflow = abs(current) > 0x7FFFF or power > 0xFFFFFF
        self.registers |= {
            4: shunt << 4 & 0xFFFFFF, 5: bus << 4, 7: current << 4 & 0xFFFFFF, 8: power & 0xFFFFFF,
            0x0B: 0b11 | overflow << 9,
        }  # fmt: skip


class FakeBus:
    """Chips by their addresses. `fails_with`: an errno of every transfer from now on."""

    def __init__(self, **chips: FakeChip) -> None:
        """Named `at_40` and so on, by address."""
        self.chips = {int(name.removeprefix("at_"), 16): chip for name, chip in chips.items()}
        self.fails_with: int | None = None
        self.transfers = 0

    def _chip(self, address: int) -> FakeChip:
        self.transfers += 1
        if self.fails_with is not None:
            raise OSError(self.fails_with, errno.errorcode[self.fails_with])
        if address not in self.chips:
            raise OSError(errno.EREMOTEIO, "Remote I/O error")
        return self.chips[address]

    def read_word_data(self, i2c_addr: int, register: int) -> int:
        return swap(self._chip(i2c_addr).read(register))

    def write_word_data(self, i2c_addr: int, register: int, value: int) -> None:
        self._chip(i2c_addr).write(register, swap(value))

    def read_i2c_block_data(self, i2c_addr: int, register: int, length: int) -> list[int]:
        chip = self._chip(i2c_addr)
        assert length == chip.WIDE.get(register, 2)
        return list(chip.read(register).to_bytes(length, "big"))
