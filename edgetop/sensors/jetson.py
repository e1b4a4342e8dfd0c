"""The power mode and the over-current events of a Jetson.

This module reports whether the limits of the power mode are in force, and whether the clocks are locked.
`/var/lib/nvpmodel/status` has the mode that was requested last (`pmode:0002`). All users may read it, and no process
has to be started. The mode may never have been applied, so its limits are compared with the limits in cpufreq and
devfreq. `jetson_clocks` can only be recognised by equal minima and maxima; running nvpmodel again undoes it silently.

`/etc/nvpmodel.conf` says which limits each mode sets, and in which files. First come the files, then the modes. -1
means the highest possible value (Jetson Linux developer guide, "nvpmodel"). The lines have these forms:

    < PARAM TYPE=CLOCK NAME=GPU >
    MAX_FREQ /sys/...
    < POWER_MODEL ID=0 NAME=15W >
    GPU MAX_FREQ 612000000
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from edgetop.frozen import frozen
from edgetop.sensors.clocks import DEVFREQ, device_kind, policies
from edgetop.sensors.counters import Rate
from edgetop.sensors.root import Root, chips_named, is_compatible
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, sensor
from edgetop.session.manifest import SensorInfo
from edgetop.session.trips import OVER_CURRENT_PERCENT

STATUS = "var/lib/nvpmodel/status"
CONF = "etc/nvpmodel.conf"
TOLERANCE = 0.02  # the kernel moves a limit to the nearest operating point
HIGHEST = -1

_SECTION = re.compile(r"<\s*(PARAM|POWER_MODEL)\s+(.*?)\s*>")
_FIELD = re.compile(r"(\w+)=(\S+)")
_MODE_ID = re.compile(r"[0-9]{1,4}")
_PATH = re.compile(r"/[\w/.@:+-]+", re.ASCII)
_SETTING = re.compile(r"-1|[0-9]{1,12}")
_STATUS = re.compile(r"pmode:([0-9]{1,4})\b")
_CPU = re.compile(r"/cpu([0-9]{1,4})/cpufreq/")
_DEVICE = re.compile(r"/([0-9a-f]{6,10})\.\w+/")


@frozen
class Mode:
    """One power mode of a Jetson with its limits.

    `settings` has the limits as in `{("GPU", "MAX_FREQ"): 612000000}`, each in the unit of the kernel's file for it.
    """

    name: str
    settings: Mapping[tuple[str, str], int] = field(default_factory=dict)


@frozen
class Modes:
    modes: Mapping[int, Mode]
    files: Mapping[tuple[str, str], str]  # paths by (name of the parameter, name of its file)


def parse_modes(text: str) -> Modes:
    """Parse the text of /etc/nvpmodel.conf, and return the power modes by number and the files of their limits.

    Lines of an unknown form are ignored.
    """
    files: dict[tuple[str, str], str] = {}
    modes: dict[int, Mode] = {}
    parameter: str | None = None
    settings: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        plain = line.partition("#")[0].strip()
        if match := _SECTION.fullmatch(plain):
            fields = dict(_FIELD.findall(match[2]))
            parameter = fields.get("NAME") if match[1] == "PARAM" else None
            settings = {}
            if match[1] == "POWER_MODEL" and _MODE_ID.fullmatch(fields.get("ID", "")):
                modes[int(fields["ID"])] = Mode(fields.get("NAME", f"mode {fields['ID']}"), settings)
            continue
        words = plain.split()
        if parameter and len(words) == 2 and _PATH.fullmatch(words[1]):
            files[parameter, words[0]] = words[1]
        elif len(words) == 3 and _SETTING.fullmatch(words[2]):
            settings[words[0], words[1]] = int(words[2])
    return Modes(modes, files)


@frozen
class PowerMode:
    number: int
    name: str  # from /etc/nvpmodel.conf, or such as "mode 2" if that has no name
    deviations: tuple[str, ...]  # a sentence for each limit of the mode that is not in force
    are_clocks_locked: bool  # whether every minimum equals its maximum, as after jetson_clocks

    def __str__(self) -> str:
        """Return the mode's name, and how the board differs from the mode: `15W, limits differ from it, clocks locked`.

        If two sessions have different texts, they ran under different limits.
        """
        differs = ["limits differ from it"] if self.deviations else []
        locked = ["clocks locked"] if self.are_clocks_locked else []
        return ", ".join([self.name, *differs, *locked])


def read_power_mode(root: Root) -> PowerMode | None:
    """Return the present power mode, or None if the board is not a Jetson or does not report its mode."""
    if not is_compatible(root, "nvidia,tegra"):
        return None
    status = _STATUS.match(root.line(STATUS) or "")
    if not status:
        return None
    number = int(status[1])
    modes = parse_modes(root.text(CONF))
    mode = modes.modes.get(number, Mode(f"mode {number}"))
    return PowerMode(number, mode.name, tuple(_deviations(root, mode, modes)), _are_clocks_locked(root))


def _deviations(root: Root, mode: Mode, modes: Modes) -> Iterator[str]:
    for (parameter, name), wanted in mode.settings.items():
        path = modes.files.get((parameter, name), "").lstrip("/")
        if name == "MAX_FREQ":
            yield from _clock_deviation(root, parameter, path, wanted)
        elif parameter == "CPU_ONLINE" and root.line(path) not in (None, str(wanted)):
            yield f"{name} is {'off' if wanted else 'on'} where the mode has it {'on' if wanted else 'off'}"


def _clock_deviation(root: Root, parameter: str, path: str, wanted: int) -> Iterator[str]:
    """Yield a sentence if a clock's present limit is known and differs from the mode's limit.

    `parameter` names the clock, such as `GPU`. `path` is the file with the present limit. `wanted` is the mode's limit
    in the unit of that file, or -1 for the highest possible one.
    """
    if match := _CPU.search(path):  # the CPU's `cpufreq` is a link to its policy
        folders = [each for each in policies(root) if match[1] in (root.line(f"{each}/related_cpus") or "").split()]
        limit, highest, per_mhz = "scaling_max_freq", "cpuinfo_max_freq", 1e3
    if match is None or not folders:
        # Only the address counts, since the name after it (`ga10b`, `gpu`) differs between releases.
        match = _DEVICE.search(path)
        folders = [f"{DEVFREQ}/{name}" for name in root.names(DEVFREQ) if match and name.startswith(f"{match[1]}.")]
        limit, highest, per_mhz = "max_freq", "available_frequencies", 1e6
    for folder in folders[:1]:
        expected = wanted if wanted != HIGHEST else _number(root, f"{folder}/{highest}")
        now = _number(root, f"{folder}/{limit}")
        if now and expected and abs(now / expected - 1) > TOLERANCE:
            yield f"{parameter} is limited to {now / per_mhz:g} MHz where the mode says {expected / per_mhz:g}"


def _number(root: Root, path: str) -> int | None:
    """Return the highest number in a file, or None if the file has none or cannot be read.

    `path` is the file's path below the root.
    """
    words = (root.line(path) or "").split()
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= 12]
    return max(numbers, default=None)


def _are_clocks_locked(root: Root) -> bool:
    gpus = [f"{DEVFREQ}/{name}/" for name in root.names(DEVFREQ) if device_kind(name) == "gpu"]
    cpus = [f"{folder}/scaling_" for folder in policies(root)]
    pairs = [(_number(root, f"{each}min_freq"), _number(root, f"{each}max_freq")) for each in (*cpus, *gpus)]
    return bool(cpus) and all(low is not None and low == high for low, high in pairs)


def discover_power_mode(root: Root) -> Found:
    """Return no sensors, but a reason in `missing` if the power mode is unknown or its limits are not in force."""
    mode = read_power_mode(root)
    if mode is None and is_compatible(root, "nvidia,tegra"):
        return Found(missing=(Missing("power mode", f"{root.absolute(STATUS)} does not report it"),))
    if mode is None or not mode.deviations:
        return Found()
    why = f"{mode.name} was asked for, but {'; '.join(mode.deviations)}: it was not applied, or something else limits"
    return Found(missing=(Missing("power mode", why, f"sudo nvpmodel -m {mode.number}"),))


# Over-current events of a Jetson Orin or Thor, a kind of throttling that no clock shows. The chip `soctherm_oc` counts
# how often since boot the power management halved the clocks of CPU and GPU for about a millisecond (nvidia-oot,
# tegra23x-oc-event.c; each read asks the BPMP, which updates the counts about every 2 s). OC1 is under-voltage of
# VDD_IN, OC2 average and OC3 instantaneous over-current (Jetson Linux developer guide, "OC event"). NVIDIA expects some
# events in the largest power mode, so single events are no alarm; the share of time counts.

CHIP = "soctherm_oc"
UNDER_VOLTAGE = 1  # number of the alarm that is about voltage, not current
CADENCE_S = 2.0  # that of the BPMP
MOST_EVENTS = 1e5  # choice, per second and alarm: one for each 10 us, where an event takes about a millisecond
EVENT_S = 0.001  # duration of an event, seen on an Orin Nano, whose BPMP has `throt_period` 1


def discover_over_current(root: Root) -> Found:
    """Return a reader of a Jetson's over-current counters, or nothing if the board has none.

    A Jetson Xavier gives nothing either, because its driver has other files.
    """
    for folder in chips_named(root, CHIP)[:1]:
        if alarms := [n for n in range(1, 10) if root.exists(f"{folder}/oc{n}_event_cnt")]:
            return Found((over_current_of(root, folder, alarms),))
    return Found()


def over_current_of(
    root: Root, folder: str, alarms: Sequence[int], clock_s: Callable[[], float] = time.monotonic
) -> Reader:
    """Return a reader of over-current alarms: events per second, and the percentage of time at lowered clocks.

    Two further sensors are 1 if over-current or under-voltage limits the board now, else 0. `folder`
    is the hwmon folder of the chip, and `alarms` are the numbers of its alarms. `clock_s` returns the present time in
    seconds.
    """
    counters = {n: root.file(f"{folder}/oc{n}_event_cnt") for n in alarms}
    slowing = tuple(n for n in alarms if root.line(f"{folder}/oc{n}_throt_en") != "0")
    currents = [n for n in alarms if n != UNDER_VOLTAGE]
    counted = {n: Rate(CADENCE_S) for n in alarms}
    infos = tuple(_over_current_sensors(root.absolute(folder), alarms, slowing))

    def read() -> Values:
        now = clock_s()
        counts = {n: counter.read_int() for n, counter in counters.items()}
        rates: dict[int, float] = {}
        gaps: list[Gap] = []
        for n, count in counts.items():
            rate = counted[n].per_second(count, now, MOST_EVENTS)
            if isinstance(rate, Gap):
                gaps.append(rate)
            else:
                rates[n] = rate
        if gaps:
            return [gaps[0]] * len(infos)
        values = list(rates.values())
        if currents:
            share = min(100.0, 100 * EVENT_S * sum(rates[n] for n in currents if n in slowing))
            values += [sum(rates[n] for n in currents), share, float(share >= OVER_CURRENT_PERCENT)]
        if UNDER_VOLTAGE in alarms:
            values.append(float(rates[UNDER_VOLTAGE] > 0))
        return values

    return Reader(infos, read, CADENCE_S, "over-current events")


def _over_current_sensors(chip: str, alarms: Sequence[int], slowing: Sequence[int]) -> Iterator[SensorInfo]:
    for n in alarms:
        note = None if n in slowing else "this alarm is set not to slow anything"
        yield sensor("rate", f"oc{n}", f"{chip}/oc{n}_event_cnt", note=note)
    if any(n != UNDER_VOLTAGE for n in alarms):
        share = f"estimated: {1000 * EVENT_S:g} ms at half clocks an event"
        least = f"at least {OVER_CURRENT_PERCENT:g} % of the time, {share}"
        yield sensor("rate", "over-current-events", chip, note="OC2 and OC3 together")
        yield sensor("pressure", "over-current", chip, note=share)
        yield sensor("throttle", "over-current", chip, note=least)
    if UNDER_VOLTAGE in alarms:
        yield sensor("throttle", "under-voltage", chip, note="OC1: VDD_IN fell below its limit since the last read")
