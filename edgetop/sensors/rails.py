"""Power, voltage and current of each power rail that the INA3221 chips of a Jetson measure.

The kernel shows the rails in one of two ways.

hwmon, since JetPack 5 and in mainline kernels (Documentation/hwmon/ina3221.rst): the three channels are `in1..3_input`
in mV and `curr1..3_input` in mA; there is no power file. `in4..6` are the shunt voltages in µV, and `in7` and `curr4`
sums; none of these is a rail. A channel that is switched off gives ENODATA (drivers/hwmon/ina3221.c).

iio, with JetPack 4: `/sys/bus/i2c/drivers/ina3221x/BUS-ADDRESS/iio:deviceN/` has `rail_name_N`, `in_voltageN_input`
(mV), `in_currentN_input` (mA) and `in_powerN_input` (mW), with N from 0 (L4T 32, drivers/iio/adc/ina3221.c). If a file
names its unit (`32760 ma`), the unit is checked. On many boards only root may read these files.

On some boards no rail measures the total power, but several rails together approximate the power of the module. Their
sum is then a further sensor. It has its own name, and is not marked as the board's total.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial

from edgetop.frozen import frozen
from edgetop.sensors.root import File, Root, chips_named, is_compatible, parse_int
from edgetop.sensors.sensor_protocol import (
    Found,
    Gap,
    Missing,
    Reader,
    Values,
    attempt,
    distinct,
    power_sensors,
    sensor,
)
from edgetop.session.manifest import SensorInfo
from edgetop.session.meter import Meter

# Which rail of a Jetson is the total and which are parts, by the names in its device tree. A rail has a role only if
# its place is documented. Parts never overlap: a rail that is fed by another part has no role. The names are those of
# NVIDIA's module data sheets and device trees (tegra234-p3701.dtsi, tegra234-p3767.dtsi; Jetson Linux developer guide,
# "Power monitor"). Thor measures its whole input, the carrier board included, with an ina238 (answer of NVIDIA at
# forums.developer.nvidia.com/t/366461), which tegrastats calls VIN (rbonghi/jetson_stats, jtop/core/power.py). Its
# other rails are those of the module.

MODULE = "what goes into the module; the carrier board's own draw (USB, NVMe, fan) is not in it"
BOARD = "what goes into the board, the carrier board included"
FED_BY_VIN = "fed by VIN_SYS_5V0, as far as is known: counted there already"


@frozen
class RailPlan:
    """How the total power of one kind of Jetson follows from its power rails: from one rail, or as a sum of several."""

    total: str | None  # None if no rail is the total, but the parts together approximate the module
    parts: tuple[str, ...]


PLANS = (
    # Orin Nano, Orin NX and Xavier NX; then TX2. DDR and I/O are included only in VDD_IN.
    RailPlan("VDD_IN", ("VDD_CPU_GPU_CV", "VDD_SOC")),
    RailPlan("VDD_IN", ("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_SYS_CPU", "VDD_SYS_DDR", "VDD_4V0_WIFI")),
    RailPlan("POM_5V_IN", ("POM_5V_GPU", "POM_5V_CPU")),  # Nano
    RailPlan("VIN", ("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0")),  # Thor
    RailPlan(None, ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")),  # AGX Orin
    RailPlan(None, ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")),  # AGX Xavier
)

NOTES = {"VDD_IN": MODULE, "POM_5V_IN": MODULE, "VIN": BOARD, "VDDQ_VDD2_1V8AO": FED_BY_VIN}


def plan_of(labels: set[str]) -> RailPlan | None:
    """Return which rails give the board's total power, or None if its rails are not known.

    `labels` are the names of the board's rails, such as `VDD_IN`.
    """
    complete = (plan for plan in PLANS if labels.issuperset({*plan.parts, *filter(None, [plan.total])}))
    partial = (plan for plan in PLANS if plan.total in labels)
    return next(complete, None) or next(partial, None)


def role_of(label: str, plan: RailPlan | None) -> str | None:
    if plan is None:
        return None
    if label == plan.total:
        return "total"
    return "part" if label in plan.parts else None


# The chip of Thor's input. Its driver (drivers/hwmon/ina238.c) has no label of its own.
INPUT_CHIP, INPUT, INPUT_SOC = "ina238", "VIN", "nvidia,tegra264"


def input_folder(root: Root) -> str | None:
    """Return the hwmon folder of the chip that measures the input of a Jetson Thor, or None for other boards.

    Also None if several chips could be that chip.
    """
    folders = chips_named(root, INPUT_CHIP) if is_compatible(root, INPUT_SOC) else ()
    labels = {folder: {root.line(f"{folder}/{name}") for name in ("power1_label", "label")} for folder in folders}
    inputs = [folder for folder, names in labels.items() if INPUT in names] or list(folders)
    return inputs[0] if len(inputs) == 1 else None


ACCURACY = "on-board-monitor"
CADENCE_S = 1.0  # reading three rails takes about 3 ms on the I2C bus
FASTEST_S = 0.5
NO_SUM = Gap("a rail cannot be read, and a sum without it is none")
NOT_CONNECTED = "NC"  # name of an unused channel in NVIDIA's device trees


@frozen
class Rail:
    """One power rail that a power chip measures."""

    label: str  # its name in the device tree
    source: str
    read: Callable[[], tuple[float, float, float]]  # returns W, V, A; raises OSError or ValueError
    shunt_ohm: float | None = None  # None if the kernel does not report it


@frozen
class Chip:
    """One power chip, with the power rails that it measures."""

    rails: tuple[Rail, ...]
    window_s: float = 0.0  # time over which the chip averages; reading more often gives nothing new


def discover(root: Root) -> Found:
    hwmon, hwmon_missing = find_hwmon(root)
    iio, iio_missing = find_iio(root)
    chips = [chip for chip in (*hwmon, *iio) if chip.rails]
    # Of two rails with the same name, only the first can be in the plan; the other one gets another label.
    labels = distinct([rail.label for chip in chips for rail in chip.rails])
    others = {INPUT} if input_folder(root) else set[str]()
    plan = plan_of({*labels, *others}) if is_compatible(root, "nvidia,tegra") else None
    if plan and plan.total is None:  # all parts of the sum must be read at the same time
        chips = [Chip(tuple(rail for chip in chips for rail in chip.rails), max(chip.window_s for chip in chips))]
    left = iter(labels)
    sources = tuple(_reader(chip, list(itertools.islice(left, len(chip.rails))), plan) for chip in chips)
    return Found(sources, (*hwmon_missing, *iio_missing))


def _reader(chip: Chip, labels: Sequence[str], plan: RailPlan | None) -> Reader:
    sensors: list[SensorInfo] = []
    for rail, label in zip(chip.rails, labels, strict=True):
        sensors += power_sensors(
            label, rail.source, ACCURACY, role_of(label, plan), NOTES.get(label), Meter(CHIP, rail.shunt_ohm)
        )
    summed: tuple[int, ...] = ()  # places of the rails whose sum is the last sensor
    if plan and plan.total is None:
        summed = tuple(labels.index(part) for part in plan.parts)
        note = f"{' + '.join(plan.parts)}: about the module; the carrier board is not in it"
        sensors.append(sensor("power", "module-sum", "the rails it names", accuracy=ACCURACY, note=note))

    def read() -> Values:
        """Return power, voltage and current of each rail in turn.

        A rail that cannot be read gives gaps only for itself.
        """
        values = [(each,) * 3 if isinstance(each, Gap) else each for each in map(attempt, reads)]
        flat = [value for three in values for value in three]
        if not summed:
            return flat
        watts = [value for place in summed if not isinstance(value := values[place][0], Gap)]
        return [*flat, sum(watts) if len(watts) == len(summed) else NO_SUM]

    reads = [rail.read for rail in chip.rails]
    fastest_s = max(FASTEST_S, chip.window_s)
    return Reader(tuple(sensors), read, max(CADENCE_S, fastest_s), f"rails {', '.join(labels)}", fastest_s)


# Rails in hwmon.

CHIP = "ina3221"
LONGEST_WINDOW_S = 60.0  # 3 channels x 1024 samples x 2 x 8.2 ms (TI SBOS576) is 50.7 s


def find_hwmon(root: Root) -> tuple[list[Chip], list[Missing]]:
    """Return the INA3221 chips in hwmon, and the rails that are not read because they are switched off."""
    chips, missing = [], []
    for folder in chips_named(root, CHIP):
        rails = []
        for channel in (1, 2, 3):
            label = root.line(f"{folder}/in{channel}_label")
            if label == NOT_CONNECTED or not root.exists(f"{folder}/in{channel}_input"):
                continue
            switch = f"{folder}/in{channel}_enable"
            if root.line(switch) != "0":
                rails.append(_hwmon_rail(root, folder, channel, label or f"{CHIP}-{channel}"))
            elif label:  # the board does not use a channel without a name
                fix = f"echo 1 | sudo tee {root.absolute(switch)}"
                missing.append(Missing(f"power/{label}", "its channel is switched off", fix))
        # Read and not assumed, since boards set 0.4 s as well as 3.4 s.
        window_s = (root.number(f"{folder}/update_interval") or 0) / 1000
        chips.append(Chip(tuple(rails), min(max(window_s, 0.0), LONGEST_WINDOW_S)))
    return chips, missing


def _hwmon_rail(root: Root, folder: str, channel: int, label: str) -> Rail:
    volts, amperes = (root.file(f"{folder}/{name}{channel}_input") for name in ("in", "curr"))

    def read() -> tuple[float, float, float]:
        millivolts, milliamperes = volts.read_int(), amperes.read_int()
        return millivolts * milliamperes / 1e6, millivolts / 1000, milliamperes / 1000

    microohms = root.number(f"{folder}/shunt{channel}_resistor")  # Documentation/hwmon/ina3221.rst
    return Rail(label, root.absolute(volts.relative), read, microohms / 1e6 if microohms else None)


# Rails in iio.

DRIVER = "sys/bus/i2c/drivers/ina3221x"

_VALUE = re.compile(r"([+-]?[0-9]+)(?:\s*m[vaw])?", re.IGNORECASE)
_UNITS = {"power": "mw", "voltage": "mv", "current": "ma"}


def parse_milli(text: str, quantity: str) -> float:
    """Return the power in W, the voltage in V or the current in A that `text` has in mW, mV or mA, such as `436 ma`.

    `quantity` is "power", "voltage" or "current". Raises ValueError if the text has the unit of another quantity.

    >>> parse_milli("2104", "power"), parse_milli("436 ma", "current")
    (2.104, 0.436)
    """
    match = _VALUE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"not a number: {text[:40]!r}")
    unit = text.strip()[match.end(1) :].strip().lower()
    if unit not in ("", _UNITS[quantity]):
        raise ValueError(f"not a {quantity}: {text[:40]!r}")
    return parse_int(match[1]) / 1000


def find_iio(root: Root) -> tuple[list[Chip], list[Missing]]:
    """Return the INA3221 chips in iio, and what is not read because only root is allowed to read it."""
    chips, missing = [], []
    for chip in root.names(DRIVER):
        # Some kernels have `iio_device` in place of `iio:deviceN`, or as another name of it.
        folders = [f"{DRIVER}/{chip}/{name}" for name in root.names(f"{DRIVER}/{chip}") if name.startswith("iio")]
        for folder in [each for each in folders if root.exists(f"{each}/rail_name_0")][:1]:
            if (rails := _iio_rails(root, folder)) is not None:
                chips.append(Chip(rails))
                continue
            why = f"only root may read the rails in {root.absolute(folder)}"
            fix = f"sudo chmod a+r {root.absolute(folder)}/rail_name_* {root.absolute(folder)}/in_*"
            missing.append(Missing("power", why, fix))
    return chips, missing


def _iio_rails(root: Root, folder: str) -> tuple[Rail, ...] | None:
    """Return the rails of the chip in `folder`, or None if only root may read them."""
    rails = []
    for channel in (0, 1, 2):
        name = f"{folder}/rail_name_{channel}"
        label = (root.line(name) or "").strip()
        files = {quantity: root.file(f"{folder}/in_{quantity}{channel}_input") for quantity in _UNITS}
        if root.is_denied(name):
            return None
        if not label or label == NOT_CONNECTED:
            continue
        if any(root.is_denied(file.relative) for file in files.values()):
            return None
        rails.append(Rail(label, root.absolute(files["power"].relative), partial(_read_iio, files)))
    return tuple(rails)


def _read_iio(files: dict[str, File]) -> tuple[float, float, float]:
    watts, volts, amperes = (parse_milli(file.read_text(), quantity) for quantity, file in files.items())
    return watts, volts, amperes
