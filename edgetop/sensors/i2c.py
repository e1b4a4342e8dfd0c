"""Power monitors that the user has connected to an I2C bus: `--i2c BUS:ADDR:CHIP:SHUNT[:NAME]`.

A bus is never scanned, since reading a register of another chip can change that chip. An address that a kernel driver
owns is refused and never forced, since reading a flag register there would clear flags for which the driver waits.
"""

import contextlib
import errno
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.installation import extra_command
from edgetop.sensors.ina import (
    INA260_SHUNT_OHM,
    INA3221_CHANNELS,
    TOLERANCE,
    Bus,
    Chip,
    Measured,
    Registers,
    ina219,
    ina226,
    ina228,
    ina260,
    ina3221,
)
from edgetop.sensors.plausible import consumed_w
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Reader, Values, power_sensors
from edgetop.session.manifest import SensorInfo
from edgetop.session.meter import Meter

CADENCE_S = 0.1
DEVICES = "sys/bus/i2c/devices"

# Possible addresses of each chip (table "Address Pins and Slave Addresses" of its datasheet).
ADDRESSES = dict.fromkeys(("ina219", "ina226", "ina228", "ina260"), range(0x40, 0x50)) | {"ina3221": range(0x40, 0x44)}
NOTATION = "write BUS:ADDR:CHIP:SHUNT[:NAME], such as 1:0x40:ina226:0.002:5V-IN"
ROLES = ("total", "part")
MOST_TOLERANCE = 50.0  # of a shunt, in percent


@frozen
class Channel:
    number: int  # on the chip, from 0
    shunt_ohm: float
    name: str
    role: str | None  # given by the user; None if not given
    is_reversed: bool = False  # whether a current with a minus sign is what the board draws
    tolerance: float | None = None  # of the shunt, as a share; None if not given


@frozen
class I2cSpec:
    """One power chip on an I2C bus, as the user describes it with the option `--i2c`."""

    bus: int
    address: int
    chip: str
    channels: tuple[Channel, ...]

    def __str__(self) -> str:
        return f"{self.bus}:0x{self.address:02x}:{self.chip}"


def parse_spec(text: str) -> I2cSpec:
    """Return the chip that the user describes as `BUS:ADDR:CHIP:SHUNT[:NAME]`, the value of the option `--i2c`.

    Raises ValueError with a message that says what is wrong.

    >>> parse_spec("1:0x40:ina226:0.002:5V-IN").channels
    (Channel(number=0, shunt_ohm=0.002, name='5V-IN', role=None, is_reversed=False, tolerance=None),)
    """
    fields = text.strip().split(":")
    if len(fields) not in (4, 5):
        raise ValueError(NOTATION)
    bus, address, chip, shunts, names = (field.strip() for field in (*fields, "")[:5])
    chip = chip.lower()
    if not (bus.isascii() and bus.isdecimal()):
        raise ValueError(f"{bus!r} is no bus number; {NOTATION}")
    if chip not in ADDRESSES:
        raise ValueError(f"{chip!r} is not among the chips edgetop knows: {', '.join(ADDRESSES)}")
    at, possible = -1, ADDRESSES[chip]
    with contextlib.suppress(ValueError):  # 0x is required: i2cdetect prints base 16, and 40 would be ambiguous
        at = int(address, 16) if address.lower().startswith("0x") else -1
    if at not in possible:
        raise ValueError(f"{address!r} is no address of an {chip}: 0x{possible[0]:02x} to 0x{possible[-1]:02x}")
    tolerances = [_tolerance(part.partition("+-")[2]) for part in shunts.split(",")]
    ohms = _shunts(",".join(part.partition("+-")[0] for part in shunts.split(",")), chip)
    channels = _channels(ohms, names, f"{chip}-{int(bus)}-{at:02x}")
    return I2cSpec(int(bus), at, chip, tuple(replace(of, tolerance=tolerances[of.number]) for of in channels))


def _tolerance(text: str) -> float | None:
    """Return the tolerance of a shunt as a share from 0 to 1, or None if `text` is "".

    Raises ValueError if `text` is no tolerance.

    >>> _tolerance("0.5%")
    0.005
    """
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if text.strip().endswith("%") and 0 < (percent := float(text.strip().removesuffix("%"))) <= MOST_TOLERANCE:
            return percent / 100
    raise ValueError(f"{text!r} is no tolerance; write 0.002+-1% for 2 milliohms within 1 %")


def _shunts(text: str, chip: str) -> list[float | None]:
    """Return the shunt of each channel in ohms, or None for a channel that is not used.

    A negative value is a shunt that is wired the other way round. `text` has the values with commas, such as
    `0.002,,-0.1`, and `chip` is the chip's name. Raises ValueError if `text` is malformed or does not fit the chip.
    """
    if chip == "ina260":
        ohms_inside = INA260_SHUNT_OHM if text in ("", "-") else _ohms(text) or 0.0
        if abs(ohms_inside) != INA260_SHUNT_OHM:
            raise ValueError("an ina260 has its shunt of 0.002 ohms inside; leave SHUNT empty")
        return [ohms_inside]
    ohms = [_ohms(part) for part in text.split(",")]
    most = INA3221_CHANNELS if chip == "ina3221" else 1
    if len(ohms) > most or not any(ohms):
        raise ValueError(f"{text!r}: an {chip} has {most} shunt{'s' * (most > 1)}, in ohms; {NOTATION}")
    return ohms


def _ohms(text: str) -> float | None:
    if text.strip() in ("", "-"):
        return None
    with contextlib.suppress(ValueError):
        if 1e-5 <= abs(ohms := float(text)) <= 10:
            return ohms
    raise ValueError(f"{text!r} is no shunt in ohms; 2 milliohms are 0.002")


def _channels(ohms: Sequence[float | None], names: str, default: str) -> tuple[Channel, ...]:
    """Return the channels that are used. `ohms` has the shunt of each channel, or None for a channel that is not used.

    `names` has the channels' names with commas, such as `5V-IN=total,USB=part`. "total" says that a channel measures
    the board's whole input power, and "part" that it measures a part of that. A channel without a name is called
    `default`, with the channel's number if there are several. Raises ValueError if `names` is malformed.
    """
    given = [name.strip() for name in names.split(",")] if names else []
    if len(given) > len(ohms):
        raise ValueError(f"{names!r} names more channels than there are shunts")
    channels = []
    for number, shunt in enumerate(ohms):
        if shunt is None:
            continue
        name, equals, role = (given[number] if number < len(given) else "").partition("=")
        if (equals and role not in ROLES) or "/" in name or not name.isprintable():
            raise ValueError(f"{given[number]!r} is no name; write NAME, NAME=total or NAME=part")
        plain = default if len(ohms) == 1 else f"{default}-{number + 1}"
        channels.append(Channel(number, abs(shunt), name or plain, role or None, is_reversed=shunt < 0))
    return tuple(channels)


def power_monitor(spec: I2cSpec, chip: Chip, registers: Registers, roles: Sequence[str], cadence_s: float) -> Reader:
    """Set a chip up, and return a reader of the power, voltage and current of each of its channels.

    `spec` is the user's description of the chip, `chip` is its kind, and `registers` reaches it on the bus. `roles` has
    "total" or "part" for each channel. `cadence_s` is the interval of reads in seconds. Raises OSError if no chip
    answers, and ValueError if a chip of another kind answers or does not keep its settings.
    """

    def set_up() -> None:
        chip.identify(registers)
        chip.set_up(registers)
        if not chip.is_set_up(registers):
            raise ValueError("what answers does not keep the configuration it is given")

    def read() -> Values:
        try:
            measured = chip.measure(registers)
            # Checked after the measurement: if the chip was reset before, its values are of another configuration.
            if not chip.is_set_up(registers):
                set_up()
                measured = Gap("the chip was reset and is set up anew")
        except OSError as error:
            raise OSError(error.errno, _why(error)) from error
        if isinstance(measured, Gap):
            return [measured] * len(infos)
        pairs = zip(spec.channels, measured, strict=True)
        return list(itertools.chain.from_iterable(_directed(each, channel.is_reversed) for channel, each in pairs))

    set_up()
    infos: list[SensorInfo] = []
    for channel, role in zip(spec.channels, roles, strict=True):
        place = f" channel {channel.number + 1}" if channel.number else ""
        source = f"/dev/i2c-{spec.bus} 0x{spec.address:02x} {spec.chip}{place}"
        note = f"what flows through the shunt of {channel.shunt_ohm:g} ohms, and nothing else"
        note += ", in the reverse direction" if channel.is_reversed else ""
        meter = Meter(spec.chip, channel.shunt_ohm, channel.tolerance)
        infos += power_sensors(channel.name, source, "external-shunt", role, note, meter)
    name = f"{spec.chip} at 0x{spec.address:02x} on I2C bus {spec.bus}"
    return Reader(tuple(infos), read, cadence_s, name, fastest_s=chip.window_s * TOLERANCE)


def _directed(measured: Measured, is_reversed: bool) -> Values:
    """Return `(power in W, voltage in V, current in A)` of a channel, from its measurement.

    With `is_reversed`, the channel's shunt is wired the other way round, so the sign is changed. If power flows out of
    the board, the power is a gap, and the current is negative.
    """
    watts, volts, amperes = measured
    if is_reversed:
        watts, amperes = (value if isinstance(value, Gap) else -value for value in (watts, amperes))
    return consumed_w(watts), volts, amperes


_WHY = {
    errno.EREMOTEIO: "nothing answers at this address",
    errno.ENXIO: "nothing answers at this address",
    errno.ETIMEDOUT: "the bus is stuck",
    errno.EBUSY: "a kernel driver owns this address",
}


def _why(error: OSError) -> str:
    return _WHY.get(error.errno or 0, error.strerror or str(error))


def _open_bus(number: int) -> Bus:
    try:
        from smbus2 import SMBus  # noqa: PLC0415  optional, needed only for --i2c
    except ImportError:
        raise InputError("--i2c needs smbus2, which is not installed", extra_command("i2c")) from None
    return cast("Bus", SMBus(number))


def open_monitors(
    specs: Sequence[I2cSpec], root: Root, cadence_s: float = CADENCE_S, open_bus: Callable[[int], Bus] = _open_bus
) -> Found:
    """Set up the chips that the user described, and return their readers.

    `cadence_s` is the interval of reads in seconds. `open_bus` takes the number of an I2C bus and opens it. Raises
    InputError if a chip cannot be used, if two chips have one address, if two channels have one name, or if two
    channels measure the total.
    """
    if specs and not root.is_host:
        raise InputError("--i2c: a captured board has no bus to read from", "leave out --i2c or --sysroot")
    channels = [channel for spec in specs for channel in spec.channels]
    if len({(spec.bus, spec.address) for spec in specs}) < len(specs):
        raise InputError("--i2c names one address of one bus twice")
    if len({channel.name for channel in channels}) < len(channels):
        raise InputError("--i2c gives one name to two channels")
    if sum(channel.role == "total" for channel in channels) > 1:
        raise InputError("--i2c calls two channels the total", "one alone is the whole board's input")
    # If the user named no total, the first channel without a role is the total. Other channels without one are parts.
    roles = [channel.role for channel in channels]
    if "total" not in roles and None in roles:
        roles[roles.index(None)] = "total"
    left = iter([role or "part" for role in roles])
    return Found(
        tuple(_open(spec, root, [*itertools.islice(left, len(spec.channels))], cadence_s, open_bus) for spec in specs)
    )


def _open(spec: I2cSpec, root: Root, roles: list[str], cadence_s: float, open_bus: Callable[[int], Bus]) -> Reader:
    at, device = f"{spec.bus}-{spec.address:04x}", f"/dev/i2c-{spec.bus}"
    if link := root.resolve(f"{DEVICES}/{at}/driver"):
        driver = link.rpartition("/")[2]
        unbind = f"echo {at} | sudo tee /sys/bus/i2c/drivers/{driver}/unbind"
        message = f"--i2c {spec}: the kernel's driver {driver} owns this address, and edgetop does not force it"
        raise InputError(message, f"its values come by hwmon; to have the chip for yourself: {unbind}")
    try:
        bus = open_bus(spec.bus)
    except FileNotFoundError:
        advice = "sudo modprobe i2c-dev; on a Raspberry Pi, sudo raspi-config nonint do_i2c 0"
        raise InputError(f"--i2c {spec}: there is no {device}", advice) from None
    except PermissionError:
        advice = "sudo usermod -aG i2c $USER, then log in again"
        raise InputError(f"--i2c {spec}: {device} may not be opened", advice) from None
    try:
        return power_monitor(spec, _chip(spec, cadence_s / 2), Registers(bus, spec.address), roles, cadence_s)
    except OSError as error:
        advice = f"i2cdetect -y {spec.bus} shows what answers; UU is an address that the kernel owns"
        raise InputError(f"--i2c {spec}: {_why(error)}", advice) from None
    except ValueError as error:
        raise InputError(f"--i2c {spec}: {error}") from None


def _chip(spec: I2cSpec, within_s: float) -> Chip:
    if spec.chip == "ina260":
        return ina260(within_s)
    if spec.chip == "ina3221":
        used = {channel.number: channel.shunt_ohm for channel in spec.channels}
        return ina3221([used.get(number) for number in range(INA3221_CHANNELS)], within_s)
    return {"ina219": ina219, "ina226": ina226, "ina228": ina228}[spec.chip](spec.channels[0].shunt_ohm, within_s)
