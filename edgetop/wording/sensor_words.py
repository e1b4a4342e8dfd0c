"""Sensors in words: their names, why a sensor has no reading, and quantities for which there is no sensor."""

from collections.abc import Callable, Mapping

from edgetop.analysis.tracks import MissingSensor, TrackView

_OF_ID: Mapping[str, str] = {
    "rate/major-faults": "major page faults",
    "rate/swap-in": "swapping in",
    "rate/swap-out": "swapping out",
    "rate/memory-high-hits": "stops by memory.high",
    "rate/memory-limit-hits": "reclaims at the memory limit",
    "pressure/over-current": "time in over-current",
    "mem/cgroup-left": "memory left in its cgroup",
    "mem/system-available": "available memory",
    "load/others": "the load of other processes",
    "load/steal": "steal",
    "dram/read": "what is read from the memory",
    "dram/write": "what is written to the memory",
    "volt/EXT5V": "the 5 V input",
    "pressure/cpu-quota": "the share of periods in which the CPU quota was used up",
    "rate/cpu-throttled": "the time for which the CPU quota stopped the engine",
}
_OF_KIND: Mapping[str, Callable[[str], str]] = {
    "throttle": lambda label: f"the {label} flag",
    "cooling": lambda label: f"the cooling device {_without_index(label)}",
    "freq": lambda label: f"the clock of {label}",
    "freqcap": lambda label: f"the clock limit of {label}",
    "temp": lambda label: f"the temperature of {label}",
    "volt": lambda label: f"the voltage of {label}",
    "power": lambda label: f"the power of {label}",
    "current": lambda label: f"the current of {label}",
    "load": lambda label: f"the load of {label}",
    "rate": lambda label: label.replace("-events", " events"),
}
_PRESSURE: Mapping[str, str] = {"cpu": "CPU pressure", "memory": "memory pressure", "io": "disk pressure"}
_PER_SECOND = "/s"


def sensor_name(sensor_id: str) -> str:
    """Return what a sensor measures, in words. An unknown kind of sensor keeps its id.

    >>> [sensor_name(x) for x in ("throttle/thermal", "cooling/0-cpufreq-cpu0", "pressure/cpu-some", "rate/swap-in")]
    ['the thermal flag', 'the cooling device cpufreq-cpu0', 'CPU pressure', 'swapping in']
    >>> sensor_name("freq/cpu0 to cpu3"), sensor_name("zone-at-trip")
    ('the clock of cpu0 to cpu3', 'zone-at-trip')
    >>> sensor_name("pressure/cpu-quota")
    'the share of periods in which the CPU quota was used up'
    """
    if sensor_id in _OF_ID:
        return _OF_ID[sensor_id]
    kind, _, label = sensor_id.partition("/")
    if kind == "pressure" and (name := _PRESSURE.get(label.partition("-")[0])):
        return name
    return _OF_KIND[kind](label) if label and kind in _OF_KIND else sensor_id


def _without_index(label: str) -> str:
    """Return the label of a cooling device without its number, such as `cpufreq-cpu0` for `0-cpufreq-cpu0`."""
    number, _, name = label.partition("-")
    return name if number.isdigit() and name else label


def unit_words(unit: str) -> str:
    """Return a sensor's unit as it stands after a number in a sentence.

    >>> unit_words("/s"), unit_words("pages/s"), unit_words("MHz")
    ('per second', 'pages per second', 'MHz')
    """
    return f"{unit.removesuffix(_PER_SECOND)} per second".lstrip() if unit.endswith(_PER_SECOND) else unit


def no_reading_words(track: TrackView) -> str:
    """Return why a sensor has no present reading, such as `not read yet`, or "" if it has a reading."""
    return track.reason or ("" if track.count else "not read yet")


def missing_words(missing: MissingSensor) -> str:
    """Return which quantity has no sensor, the reason, and the command that would make it measurable.

    >>> missing_words(MissingSensor("power", "no such chip", "modprobe ina3221"))
    'power: no such chip (modprobe ina3221)'
    """
    return f"{missing.what}: {missing.why}{f' ({missing.fix})' if missing.fix else ''}"
