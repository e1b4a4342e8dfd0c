"""Parse lines of NVIDIA's `tegrastats` of JetPack 4 to 7.

    RAM 1923/3964MB (lfb 2x2MB) SWAP 191/1982MB (cached 6MB) CPU [5%@1224,off] EMC_FREQ 0%@1600 GR3D_FREQ 0%@76
    APE 25 PLL@37C PMIC@50C POM_5V_IN 1750/1628                                     (JetPack 4, in one line)
    05-09-2026 18:42:06 RAM 18207/62841MB ... GR3D_FREQ 0%@[0,0] NVENC 79%@166 VIC off cpu@52.5C VDD_IN 5000mW/4900mW

    07-25-2026 09:08:28 RAM 20642/62817MB ... GR3D_FREQ 12%@[1300,1300] NVENC0 off cpu@52.968C/52.968C
    VDD_GPU_SOC 5139mW/5139mW/5139mW                                                (JetPack 7.2)

`X%@Y` is a load and a clock in MHz, `X/YMB` the part in use and the total (MB means MiB: 3964 is MemTotal of a Nano),
`NAME@XC` a temperature, `NAME X/Y` a rail's present power and its mean since tegrastats began, in mW. In JetPack 7 a
temperature has a second number and a rail a third one. Their meaning is not documented, so only the first one is read.
Since JetPack 5 lines begin with the local time in whole seconds. No order or set of parts is assumed, since they depend
on the board, the version and whether root runs it. Parts of a line that are not known are counted (`Line.unknown`).

Sources: Jetson Linux developer guide, "tegrastats utility"; rbonghi/jetson_stats, jtop/core/tegra_parse.py
(`GR3D_FREQ @[1000,1000,1000]` of Thor) and its tests (a line of AGX Orin, L4T R39.2), and lines of boards in its
issues.
"""

import itertools
import re
from collections.abc import Mapping
from datetime import datetime

from edgetop.frozen import frozen
from edgetop.sensors.log_formats import Sample
from edgetop.sensors.plausible import power_w, temperature_c
from edgetop.sensors.rails import RailPlan, plan_of
from edgetop.sensors.sensor_protocol import Gap

# A negative power was seen on Thor (`VDD_GPU -392mW` at rest). It is no consumption.
_HEAD = re.compile(r"(?:([0-9]{2}-[0-9]{2}-[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}) )?RAM ([0-9]{1,9})/([0-9]{1,9})MB\b")
_SWAP = re.compile(r"\bSWAP ([0-9]{1,9})/([0-9]{1,9})MB\b")
_CPUS = re.compile(r"\b(?:CPU|cpu) \[([^\]]{0,4000})\](?:@([0-9]{1,6}))?")
_CPU = re.compile(r"([0-9]{1,3})%(?:@([0-9]{1,6}(?:\.[0-9]{1,6})?))?")
_ENGINE = re.compile(r"\b([A-Z][A-Z0-9_]{0,30}) (?:([0-9]{1,3})%)?(?:@?(\[[0-9,]{1,200}\]|[0-9]{1,6}))?(?=\s|$)")
_CELSIUS = r"-?[0-9]{1,6}(?:\.[0-9]{1,6})?"
_TEMPERATURE = re.compile(rf"(?<!\S)([A-Za-z][\w-]{{0,30}})@({_CELSIUS})C(?:/{_CELSIUS}C)?(?=\s|$)")
_RAIL = re.compile(r"(?<!\S)([A-Za-z]\w{0,30}) (-?[0-9]{1,9})(mW)?((?:/-?[0-9]{1,9}(?:mW)?){0,2})(?=\s|$)")
# Known parts that have no value to read: what is switched off, blocks of free memory, and Denver's translator.
_IGNORED = re.compile(
    r"\b[A-Z][A-Z0-9_]{0,30} off(?=\s|$)"
    r"|\((?:lfb|cached) [0-9x]{1,20}[kMG]?B\)"
    r"|\bIRAM [0-9]{1,9}/[0-9]{1,9}kB"
    r"|\bMTS fg [0-9]{1,3}% bg [0-9]{1,3}%"
)

_NAMES = {"EMC": ("emc", "memory"), "GR3D": ("gpu", "gpu"), "GR3D2": ("gpu2", "gpu2")}
_UNUSED = "NC"  # name of an unconnected channel of the power monitor
_PLACEHOLDERS_C = {"PMIC": (50.0, 100.0)}  # constants in place of readings, as in the zone PMIC-Die
_COMPUTED = frozenset({"thermal"})  # computed from other zones to control the fan


@frozen
class Line:
    """The content of one line that tegrastats printed."""

    time: datetime | None  # local time in whole seconds; None if the line has none
    memory_mib: int
    values: Mapping[str, float]  # by sensor id, in the unit of the sensor's kind
    unknown: str = ""  # the parts that were not understood
    impossible: str = ""  # the parts whose value cannot be, such as a negative power

    @property
    def rails(self) -> frozenset[str]:
        return frozenset(name.removeprefix("power/") for name in self.values if name.startswith("power/"))


def has_lines(text: str) -> bool:
    """Return whether at least one line of a text begins as lines of tegrastats do."""
    return any(_HEAD.match(line.strip()) for line in text.splitlines())


def parse_line(text: str) -> Line | None:
    """Return what a line of tegrastats says, or None if it is no such line or not complete.

    >>> line = parse_line("RAM 1923/3964MB (lfb 2x2MB) CPU [5%@1224,off] EMC_FREQ 3%@1600 GPU@40C POM_5V_IN 1750/1628")
    >>> line.values["load/cpu"], line.values["load/emc"], line.values["temp/GPU"], line.values["power/POM_5V_IN"]
    (5.0, 3.0, 40.0, 1.75)
    """
    text = text.strip()
    head = _HEAD.match(text)
    if head is None or _HEAD.search(text, head.end()):  # two lines ran into each other, so neither is complete
        return None
    time = None
    if head[1]:
        try:
            time = datetime.strptime(head[1], "%m-%d-%Y %H:%M:%S")  # noqa: DTZ007  local time, zone unknown
        except ValueError:
            return None
    values: dict[str, float] = {}
    impossible: list[str] = []
    odd: list[str] = []  # cores that are not understood
    rest = text[head.end() :]
    if int(head[2]) <= int(head[3]):
        values["mem/system-used"] = float(head[2])
    else:
        impossible.append(f"RAM {head[2]}/{head[3]}MB")
    if swap := _SWAP.search(rest):
        values["mem/system-swap"] = float(swap[1])
        rest = _without(rest, swap)
    if cpus := _CPUS.search(rest):
        values |= _cores(cpus[1], cpus[2])
        odd = [
            cell for cell in cpus[1].split(",") if cell.strip() not in ("off", "") and not _CPU.fullmatch(cell.strip())
        ]
        rest = _without(rest, cpus)
    rest = _IGNORED.sub(" ", rest)
    values |= _engines(rest, impossible) | _temperatures(rest) | _powers(rest, impossible)
    for pattern in (_TEMPERATURE, _RAIL, _ENGINE):
        rest = pattern.sub(" ", rest)
    return Line(time, int(head[3]), values, " ".join([*rest.split(), *odd]), ", ".join(impossible))


def _without(text: str, part: "re.Match[str]") -> str:
    return f"{text[: part.start()]} {text[part.end() :]}"


def _cores(text: str, shared_mhz: str | None) -> dict[str, float]:
    """Return the load of all cores together in percent of one core, and the clock of each core in MHz, by sensor id.

    `text` is the list of cores. `shared_mhz` is the one clock that older versions of tegrastats print for all cores.

    >>> _cores("5%@1224,off", None)
    {'freq/cpu0': 1224.0, 'load/cpu': 5.0}
    """
    values: dict[str, float] = {}
    loads = []
    for number, cell in enumerate(text.split(",")):
        if match := _CPU.fullmatch(cell.strip()):
            loads.append(min(100.0, float(match[1])))
            if match[2]:
                values[f"freq/cpu{number}"] = float(match[2])
    if loads:
        values["load/cpu"] = sum(loads)
        if shared_mhz:
            values["freq/cpu0"] = float(shared_mhz)
    return values


def _engines(text: str, impossible: list[str]) -> dict[str, float]:
    """Return the load in percent and the clock in MHz of GPU, memory controller and codecs, by sensor id.

    `text` is the line. A part that is `off` is left out. The memory controller's load is left out if the line does not
    have its clock too, because only root can measure that load. Loads above 100 % are appended
    to `impossible`, as texts such as `GR3D_FREQ 120%`.
    """
    values: dict[str, float] = {}
    for name, percent, clocks in _ENGINE.findall(text):
        plain = name.removesuffix("_FREQ")
        load, freq = _NAMES.get(plain, (plain.lower(), plain.lower()))
        if percent and int(percent) > 100:
            impossible.append(f"{name} {percent}%")
        elif percent and (clocks or load != "emc"):
            values[f"load/{load}"] = float(percent)
        if clocks:  # take the fastest of several clusters
            mhz = [float(clock) for clock in clocks.strip("[]").split(",") if clock]
            values |= {f"freq/{freq}": max(mhz)} if mhz else {}
    return values


def _temperatures(text: str) -> dict[str, float]:
    """Return the temperatures in °C by sensor id, such as `temp/cpu`.

    `text` is the line. Three kinds of temperatures are left out: constants that a driver gives in place of a reading,
    temperatures that are computed from others, and those of parts that are off.
    """
    found = {name: float(celsius) for name, celsius in _TEMPERATURE.findall(text) if name not in _COMPUTED}
    return {
        f"temp/{name}": celsius
        for name, celsius in found.items()
        if not isinstance(temperature_c(celsius), Gap) and celsius not in _PLACEHOLDERS_C.get(name, ())
    }


def _powers(text: str, impossible: list[str]) -> dict[str, float]:
    """Return the present power of each rail in W, by sensor id.

    `text` is the line. A power that cannot be right is appended to `impossible` as text, such as `VDD_IN -5mW`. A
    number without mW and without a mean, such as `APE 150`, is a clock and is left out.
    """
    values: dict[str, float] = {}
    for name, now, unit, more in _RAIL.findall(text):
        if not (unit or more) or name == _UNUSED:
            continue
        watts = int(now) / 1000
        if watts < 0 or isinstance(power_w(watts), Gap):
            impossible.append(f"{name} {now}mW")
        else:
            values[f"power/{name}"] = watts
    return values


def total_w(line: Line, plan: RailPlan | None) -> float | None:
    """Return the board's total power in W from one line, or None if the line lacks a rail that `plan` names.

    `plan` names the rail that is the total, or the rails whose sum approximates it. If `plan` is None, the result is
    None.
    """
    if plan is None:
        return None
    rails = [plan.total] if plan.total is not None else list(plan.parts)
    watts = [line.values.get(f"power/{rail}") for rail in rails]
    known = [each for each in watts if each is not None]
    return sum(known) if len(known) == len(watts) else None


def power_log(header: str, volts: float | None, interval_s: float) -> Sample:
    """Return a function that takes a row of a log of tegrastats and returns `(time in s, total power in W)`.

    The function returns None for a row without a total power. `header` is the log's first line, whose time is 0.
    `interval_s` is the time in s from one line to the next, used if lines have no time. Raises ValueError if `header`
    lacks what is needed, or if `volts` is not None, because tegrastats reports power and needs no voltage.
    """
    first = parse_line(header)
    if first is None:
        raise ValueError("no column of tegrastats in its first line: RAM 1923/3964MB ... VDD_IN 5000mW/4900mW")
    plan, began, lines = plan_of(set(first.rails)), first.time, itertools.count()
    if total_w(first, plan) is None:
        rails = ", ".join(sorted(first.rails)) or "none at all"
        raise ValueError(f"no rail of its first line is known as the total: {rails} (VDD_IN, POM_5V_IN and VIN are)")
    if volts is not None:
        raise ValueError("tegrastats reports power, and needs no voltage: leave --power-volts out")

    def sample(line: str) -> tuple[float, float] | None:
        if (row := parse_line(line)) is None:
            return None
        if began is None:
            seconds = next(lines) * interval_s
        elif row.time is None:
            return None
        else:
            seconds = (row.time - began).total_seconds()
        watts = total_w(row, plan)
        return None if watts is None else (seconds, watts)

    return sample
