"""The evidence for the cause of a slowdown, in sentences."""

from collections.abc import Mapping

from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.from_start import OTHERS, PRESSURE, STEAL, WAIT
from edgetop.analysis.slowdowns.signals import GPU_OF_OTHERS, LOAD_OF_OTHERS, MEMORY_PER_CYCLE, OTHER_CALLS, Cause
from edgetop.formatting import clean, clock_time, percent, reading, size
from edgetop.session.seconds import NS
from edgetop.wording.sensor_words import sensor_name, unit_words

EXAMINED: Mapping[Cause, str] = {
    "under-voltage": "under-voltage flags and the input's voltage",
    "power-cap": "power limits and over-current events",
    "thermal": "thermal flags, cooling devices and trips",
    "cpu-quota": "the CPU quota of its cgroup",
    "contention": "run-queue wait, CPU pressure, steal and the load of others, also on the GPU",
    "memory-pressure": "major faults, swap-in, memory pressure and limits",
    "clock-change": "clocks and their caps",
    "memory-clock": "the clock of the memory",
    "memory-high": "memory.high of its cgroup",
    "mix": "the calls of other models between its own",
    "inputs": "the size of its inputs",
}
_TOOK = {STEAL: "steal was", OTHERS: "other processes took", WAIT: "run-queue wait was", PRESSURE: "CPU pressure was"}
_UNITS = {STEAL: "%", OTHERS: "% of a core", WAIT: "ms/s", PRESSURE: "%"}
_NOW = {STEAL: "steal", OTHERS: "others", WAIT: "run-queue wait", PRESSURE: "CPU pressure"}
_NOW_UNITS = {WAIT: "ms/s"}
_NAMES = {
    LOAD_OF_OTHERS: "the load of other processes", OTHER_CALLS: "the share of calls of other models",
    GPU_OF_OTHERS: "the load of other processes on the GPU",
    MEMORY_PER_CYCLE: "what the memory moves in a clock cycle",
}  # fmt: skip
_OF_PROCESS = ("process", "process-gpu", "process-now", "process-memory", "between")  # kinds whose name is no sensor


def clue_words(clue: Clue, begin_s: int | None = None, *, has_ids: bool = False) -> str:
    """Return one piece of evidence for the cause of a slowdown, as a sentence with its time.

    `begin_s` is a session second that is shown beside the sentence, and therefore left out of it. `has_ids`: whether
    the sentence names sensors by their ids, such as `throttle/thermal`, and not in words.
    """
    when = "" if clue.at_s is None or clue.at_s == begin_s else f" at {clock_time(clue.at_s * NS)}"
    words = _words(clue, when, has_ids=has_ids)
    return f"also {clue.also}, {percent(clue.also_share or 0.0)} of the time: {words}" if clue.also else words


def _words(clue: Clue, when: str, *, has_ids: bool) -> str:  # noqa: C901, PLR0911, PLR0912  a sentence for each kind
    value, share = clue.value or 0.0, percent(clue.share or 0.0)
    name = _NAMES.get(clue.name) or (clue.name if has_ids or clue.kind in _OF_PROCESS else sensor_name(clue.name))
    at = "" if clue.at_s is None else f" at {clock_time(clue.at_s * NS)}"  # within the sentence it always stands
    measured = f"{_figure(value, clue.unit)} {unit_words(clue.unit)}"
    match clue.kind:
        case "set":
            return f"{name} was set{at}, and in {share} of the slow time"
        case "set-from-start":
            return f"{name} was set from the start, in {share} of the seconds"
        case "set-since":
            return f"{name} was set{at}, and in {share} of the seconds"
        case "in-force":
            return f"{name} was in force already"
        case "state":
            return f"{name} went from state {_state(clue.usual)} to {value:.0f}{when}"
        case "was":
            return f"{name} was {measured}{when}"
        case "fell" | "rose":
            usual = "" if clue.usual is None else f"from {_figure(clue.usual, clue.unit)} "
            return f"{name} {clue.kind} {usual}to {measured}{when}"
        case "trip":
            return f"a zone was {abs(value):.1f} °C {'below' if value < 0 else 'above'} its trip"
        case "low-clock":
            mhz, allowed = reading(value, "MHz"), reading(clue.usual, "MHz")
            return f"the CPU ran at {mhz} MHz under load where its governor allows {allowed} MHz"
        case "all-along":
            return f"others took the CPU all along, in {share} of the slow time"
        case "stood":
            return f"{name} stood at {measured} before it and in it"
        case "process":
            return f"{name} took {value:.0f} % of a core"
        case "process-gpu":
            return f"{name} took {value:.0f} % of the GPU"
        case "process-now":
            return f"{name} {value:.0f} %"
        case "process-memory":
            return f"{name} took {_memory(clue.usual)} of memory and holds {_memory(value)}"
        case "between":
            before = "" if clue.usual is None else f", {_calls(clue.usual)} before"
            return f"calls of {clean(clue.name)} now come between: {_calls(value)} for each of its own{before}"
        case "taken":
            return f"{_TOOK.get(clue.name, name)} {value:.0f} {_UNITS.get(clue.name, '%')}"
        case "taken-from-start":
            took = f"{_TOOK.get(clue.name, name)} {value:.0f} {_UNITS.get(clue.name, '%')}"
            return f"{took} from the start, in {share} of the seconds"
        case "taken-now":
            return f"{_NOW.get(clue.name, name)} {value:.0f} {_NOW_UNITS.get(clue.name, '%')}" if name else "others"
        case "unchanged":
            return f"nothing changed with it in {_examined(clue)}"
        case "not-in-force":
            return f"not set: {_examined(clue)}"
        case "unreported":
            return f"not reported by this board: {_examined(clue)}"


def _figure(value: float, unit: str) -> str:
    """Return a value as text, without its unit. A rate per second of at least 10, or of 0, has no decimals."""
    return f"{value:.0f}" if unit.endswith("/s") and (value >= 10 or not value) else reading(value, unit)


def _memory(mib: float | None) -> str:
    return size((mib or 0.0) * 2**20)


def _state(state: float | None) -> str:
    return "nan" if state is None else f"{state:.0f}"


def _calls(count: float) -> str:
    return f"{count:.2f}" if count < 1 else f"{count:.1f}" if count < 10 else f"{count:.0f}"


def _examined(clue: Clue) -> str:
    return ", ".join(EXAMINED[cause] for cause in clue.causes)
