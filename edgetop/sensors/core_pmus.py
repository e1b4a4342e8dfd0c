"""The counters of the CPU, as the kernel lists them: one PMU (a set of counters) for each kind of core.

A PMU of cores is called `cpu`, or has a file `cpus` (tools/perf/util/pmus.c, `is_pmu_core`). Examples are
`armv8_cortex_a55`, `cpu_core` and `cpu_atom`. The PMU's folder has a file for each event, with a line such as
`event=0x2e,umask=0x41`. The files in `format` say at which bits of the event's number the fields stand
(Documentation/ABI/testing/sysfs-bus-event_source-devices-events and -format).
"""

import re
from collections.abc import Sequence

from edgetop.frozen import frozen
from edgetop.sensors.root import Root

FOLDER = "sys/bus/event_source/devices"
MOST_PMUS = 8
HARDWARE, SOFTWARE = 0, 1  # PERF_TYPE_*, include/uapi/linux/perf_event.h

# The events of a set, the most important first: what does not fit the counters of a CPU is left out from the end. A
# Cortex-A53 or A76 has a counter of cycles and six others, an Intel core two fixed ones and four or more others.
EVENTS = (
    "cycles", "instructions", "cache-misses", "branch-misses", "stalled-cycles", "bus-accesses", "cache-references",
)  # fmt: skip
# Names in sysfs (arch/arm64 `drivers/perf/arm_pmuv3.c`, arch/x86/events/core.c). No name of x86 is a bus access.
_NAMES = {
    "cycles": ("cpu_cycles", "cpu-cycles"),
    "instructions": ("inst_retired", "instructions"),
    "branch-misses": ("br_mis_pred", "br_mis_pred_retired", "branch-misses"),
    "stalled-cycles": ("stall_backend", "stalled-cycles-backend"),
    "bus-accesses": ("bus_access",),
}
# (misses, references, the cache), the outermost cache first.
_CACHES = (
    ("ll_cache_miss_rd", "ll_cache_rd", "reads of the last-level cache"),
    ("l3d_cache_refill", "l3d_cache", "the L3 cache"),
    ("l2d_cache_refill", "l2d_cache", "the L2 cache"),
    ("cache-misses", "cache-references", "the cache that the kernel calls the last one"),
    ("l1d_cache_refill", "l1d_cache", "the L1 data cache"),
)
# Numbers of the kernel's own names (PERF_COUNT_HW_*), for a PMU that lists no events, as that of RISC-V.
_GENERIC = {
    "cycles": 0, "instructions": 1, "cache-references": 2, "cache-misses": 3, "branch-misses": 5, "stalled-cycles": 8
}  # fmt: skip
CACHE_INDEX = "sys/devices/system/cpu/cpu0/cache"
MOST_LINE_BYTES = 4096
_LEVELS = {_CACHES[2][2]: 2, _CACHES[4][2]: 1}  # of the caches that may not be the last one
_FIELD = re.compile(r"([a-z_0-9]{1,32})=(0x[0-9a-f]{1,16}|[0-9]{1,10})")
_PLACE = re.compile(r"config:([0-9]{1,2}(?:-[0-9]{1,2})?(?:,[0-9]{1,2}(?:-[0-9]{1,2})?){0,7})")


@frozen
class PmuEvent:
    """One event that a CPU can count. perf_event_open(2) knows the event by the numbers `type` and `config`."""

    name: str  # one of EVENTS, or a name of an event of the kernel
    type: int
    config: int


@frozen
class CorePmu:
    """The hardware counters (PMU) of one kind of core, with the events that they can count."""

    name: str
    events: tuple[PmuEvent, ...]  # in the order of EVENTS; what the PMU does not count is left out
    cache: str = ""  # the cache whose misses and references are counted; "" if none


def core_pmus(root: Root) -> tuple[CorePmu, ...]:
    """Return the hardware counters (PMU) of each kind of core, or () if the kernel has none.

    Most virtual machines have none.
    """
    found: dict[str, int] = {}
    for name in root.names(FOLDER):
        number = root.number(f"{FOLDER}/{name}/type")
        if number is not None and (name == "cpu" or root.exists(f"{FOLDER}/{name}/cpus")) and len(found) < MOST_PMUS:
            found[name] = number
    # Misses of different caches would not add up, so all kinds of cores count those of the same one.
    listed = {name: set(root.names(f"{FOLDER}/{name}/events")) for name in found}
    of_cache = next((one for one in _CACHES if found and all(one[0] in names for names in listed.values())), None)
    pmus = []
    for name, number in found.items():
        if not listed[name]:
            generic = (PmuEvent(event, HARDWARE, _GENERIC[event]) for event in EVENTS if event in _GENERIC)
            pmus.append(CorePmu(name, tuple(generic), _CACHES[3][2]))
            continue
        wanted = dict(_NAMES)
        if of_cache is not None:
            wanted |= {"cache-misses": of_cache[:1], "cache-references": of_cache[1:2]}
        events = (_event(root, name, number, event, wanted.get(event, ())) for event in EVENTS)
        pmus.append(CorePmu(name, tuple(filter(None, events)), of_cache[2] if of_cache else ""))
    return tuple(pmus)


def line_bytes(root: Root, pmus: Sequence[CorePmu]) -> int | None:
    """Return how many bytes a cache miss fetches from memory, or None if that is not known.

    This is the size of a line of the last cache. It is known only if the CPU can count the misses of that cache
    (Documentation/ABI/testing/sysfs-devices-system-cpu).
    """
    lines = {}
    for name in root.names(CACHE_INDEX):
        level, size = (root.number(f"{CACHE_INDEX}/{name}/{what}") for what in ("level", "coherency_line_size"))
        if level is not None and size is not None and 0 < size <= MOST_LINE_BYTES:
            lines[level] = size
    if not lines or not pmus or not all(event_in(pmu, "cache-misses") for pmu in pmus):
        return None
    last = max(lines)
    return lines[last] if all(_LEVELS.get(pmu.cache, last) == last for pmu in pmus) else None


def event_in(pmu: CorePmu, name: str) -> bool:
    """Return whether the counters `pmu` can count the event `name`, which is one of `EVENTS`."""
    return any(event.name == name for event in pmu.events)


def _event(root: Root, pmu: str, number: int, event: str, names: tuple[str, ...]) -> PmuEvent | None:
    """Return the first event in `names` that a PMU can count, or None if it can count none of them.

    `pmu` is the name of the PMU's folder in sysfs, and `number` is its type for perf_event_open(2). `names` are names
    of files in the PMU's folder `events`. `event` is edgetop's own name for the event, and becomes the result's name.
    """
    for name in names:
        text = root.line(f"{FOLDER}/{pmu}/events/{name}")
        if text is not None and (config := event_number(root, pmu, text)) is not None:
            return PmuEvent(event, number, config)
    return None


def event_number(root: Root, pmu: str, text: str) -> int | None:
    """Return an event's number (`config`) for perf_event_open(2).

    `pmu` is the name of the PMU's folder in sysfs. `text` is the event's line there, such as `event=0x2e,umask=0x41`.
    Returns None if `text` has another form.
    """
    config = 0
    for part in text.split(","):
        field = _FIELD.fullmatch(part.strip())
        place = _PLACE.fullmatch(root.line(f"{FOLDER}/{pmu}/format/{field[1]}") or "") if field else None
        if field is None or place is None:
            return None
        value, shift = int(field[2], 0), 0
        for span in place[1].split(","):
            low, _, high = span.partition("-")
            width = int(high or low) - int(low) + 1
            if width < 1 or int(high or low) > 63:
                return None
            config |= (value >> shift & (1 << width) - 1) << int(low)
            shift += width
        if value >> shift:
            return None
    return config
