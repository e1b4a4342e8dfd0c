"""Checks of the board's present state: distance to its thermal limits, memory, and the load of other processes."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from edgetop.doctor.check import Check, Facts, ok, problem, unknown, warning
from edgetop.formatting import clean, size
from edgetop.sensors.competitors import HIDDEN
from edgetop.sensors.counters import bounded
from edgetop.sensors.memory_sensors import read_meminfo
from edgetop.sensors.plausible import most_cpus
from edgetop.sensors.process_table import HOST, TICK_S, Use, busy_s, percent_by_name, why_unseen
from edgetop.sensors.sensor_protocol import Gap
from edgetop.sensors.throttling import UNREPORTED
from edgetop.session.quiet import BACKGROUND_PCT, STEAL_PCT
from edgetop.session.trips import is_zone, throttles_at_c, zones_of_interest

# How far the board is from its next thermal limit, and whether it is throttled now.

HOT_C, WARM_C = 5.0, 15.0
STICKY = "-sticky"


def check_heat(facts: Facts) -> list[Check]:
    return [_headroom(facts), _throttling(facts)]


def _headroom(facts: Facts) -> Check:
    """Check how far the temperature is below the nearest limit at which the board throttles.

    Without such a limit, the nearest limit at which a thermal zone shuts the board down is used. Limits of hwmon chips
    are ignored: a drive's limit only slows the drive, and unconnected inputs of a mainboard's monitor always read 127
    °C.
    """
    name = "headroom"
    values = facts.values("temp/")
    if not values:
        return unknown(name, "no temperature can be read", "edgetop sensors says why")
    infos = [row.info for row in facts.rows if row.info.id in values]
    trips = {info.id: throttles_at_c(info, facts.board.model) for info in infos}
    does = "throttles"
    if not any(trips.values()):
        trips = {info.id: (info.trips or {}).get("critical") for info in infos if is_zone(info)}
        does = "is shut down"
    limits = {sensor: trip for sensor, trip in trips.items() if trip is not None}
    if not limits:
        hottest = max((info.id for info in zones_of_interest(infos)), key=lambda sensor: values[sensor])
        finding = f"{clean(hottest)} is at {values[hottest]:.1f} °C, and no trip is reported"
        return unknown(name, finding, "the firmware may throttle without one: compare with the board's data sheet")
    margin, sensor = min((limit - values[sensor], sensor) for sensor, limit in limits.items())
    where = f"{abs(margin):.0f} °C {'below' if margin >= 0 else 'above'} the {limits[sensor]:.0f} °C"
    finding = f"{clean(sensor)} is at {values[sensor]:.1f} °C, {where} at which the board {does}"
    if margin < HOT_C:
        return problem(name, finding, "too near: let it cool, or cool it as production does")
    if margin < WARM_C:
        return warning(name, finding, "let it cool to where production starts from")
    return ok(name, finding)


def _throttling(facts: Facts) -> Check:
    name = "throttling"
    flags = facts.values("throttle/")
    rows = {row.info.id: row.info for row in facts.rows}
    cooling = {sensor: state for sensor, state in facts.values("cooling/").items() if rows[sensor].throttles}
    now = [sensor for sensor, value in {**flags, **cooling}.items() if value and not sensor.endswith(STICKY)]
    before = [sensor for sensor, value in flags.items() if value and sensor.endswith(STICKY)]
    is_reported = bool(cooling) and all(missing.what != UNREPORTED for missing in facts.missing)
    if not now and not flags and not is_reported:
        return unknown(name, "nothing reports whether the board is limited", "watch for clocks that fall under load")
    if now:
        return problem(
            name, f"limited now: {clean(', '.join(now))}", "what is measured now is the limit, not the model"
        )
    if before:
        advice = "it has happened since boot, and will again under the same load: see to supply and cooling"
        return warning(name, f"not now; since boot: {clean(', '.join(before))}", advice)
    return ok(name, "no limit is in force")


# Swap and free memory (proc(5), meminfo): a model that was swapped out is as slow as the disk.

SWAP = "swap"
USED_KIB = 16 * 1024  # less is usual: pages that were swapped out once and never needed again
LOW_SHARE = 0.1


def check_memory(facts: Facts) -> list[Check]:
    fields = read_meminfo(facts.root)
    return [_swap(facts, fields), _memory(fields)]


def _swap(facts: Facts, fields: "dict[str, int]") -> Check:
    total, free = fields.get("SwapTotal"), fields.get("SwapFree")
    if total is None or free is None:
        return unknown(SWAP, "/proc/meminfo does not report it")
    if total == 0:
        return ok(SWAP, "none: what does not fit is killed, not slowed")
    used, swappiness = total - free, facts.root.number("proc/sys/vm/swappiness")
    finding = f"{size(used * 1024)} of {size(total * 1024)} used"
    if swappiness is not None:
        finding += f", swappiness {swappiness}"
    if used > USED_KIB:
        advice = "pages of the model may have to come back from disk; turn it off only if production has none"
        return warning(SWAP, finding, advice, "sudo swapoff -a && sudo swapon -a  (empties it)")
    return ok(SWAP, finding, "watch rate/swap-in during the run")


def _memory(fields: "dict[str, int]") -> Check:
    total, available = fields.get("MemTotal"), fields.get("MemAvailable")
    if not total or available is None:
        return unknown("memory", "/proc/meminfo does not report it")
    finding = f"{size(available * 1024)} of {size(total * 1024)} available"
    if available < total * LOW_SHARE:
        return warning("memory", finding, "a model that fits barely is slowed by reclaim before it is killed")
    return ok("memory", finding)


# The load of other processes during the last second.

BACKGROUND = "background-load"
LOUD_PCT = 50.0
SHOWN = 3
# By the reason why processes cannot be seen: which ones, and how they can.
_UNSEEN = {
    "hidepid": ("processes of other users are hidden (/proc has the option hidepid)", "root sees them all"),
    "container": ("processes outside this container cannot be seen", "docker run --pid=host shows them"),
}


def check_background(facts: Facts) -> list[Check]:
    if facts.busy is None:
        return [unknown(BACKGROUND, "processes cannot be listed")]
    total = sum(facts.busy.values())
    top = sorted(facts.busy.items(), key=lambda pair: -pair[1])[:SHOWN]
    named = ", ".join(f"{clean(name)} {percent:.0f} %" for name, percent in top if percent >= 1)
    finding = f"{total:.0f} % of a core" + (f": {named}" if named else "")
    advice = "what shares the board with the model belongs in the measurement only if production has it too"
    shows = None
    if facts.unseen:
        hidden, shows = _UNSEEN[facts.unseen]
        finding += f"; {hidden}: they count in the total only"
        advice += f"; {shows}"
    if total >= LOUD_PCT:
        checks = [problem(BACKGROUND, finding, advice)]
    elif total >= BACKGROUND_PCT:
        checks = [warning(BACKGROUND, finding, advice)]
    else:
        checks = [ok(BACKGROUND, finding, shows)]
    stolen = facts.values("load/steal").get("load/steal", 0.0)
    if stolen >= STEAL_PCT:
        text = f"a hypervisor took {stolen:.1f} % of a core"
        checks.append(warning("steal", text, "the host is shared: tails are not yours"))
    return checks


@contextmanager
def watch_processes(into: dict[str, float], at_least_s: float) -> Iterator[None]:
    """Measure the load of other processes while the `with` block runs, for at least `at_least_s` seconds.

    At the end of the block, the load is written into the dict `into`, by process name, in percent of a core. If this
    user cannot see all processes, the load of the unseen processes is added under the name `HIDDEN`. Raises OSError if
    /proc cannot be read.
    """
    before, begin_s, begin_others_s = _used_by_others(), time.monotonic(), _all_but_own_s()
    yield
    time.sleep(max(0.0, begin_s + at_least_s - time.monotonic()))  # process times have a resolution of 10 ms
    span_s, cpus = time.monotonic() - begin_s, most_cpus(HOST)
    into.update(percent_by_name(before, _used_by_others(), span_s, cpus))
    every = bounded(_all_but_own_s() - begin_others_s, span_s, cpus)
    if why_unseen() and not isinstance(every, Gap):
        into[HIDDEN] = max(0.0, 100 * every - sum(into.values()))


def _all_but_own_s() -> float:
    """Return the total CPU time in s since boot of all processes except edgetop and its ended children.

    Raises OSError if the kernel does not report this time.
    """
    try:
        return busy_s() - sum(os.times()[:4])
    except ValueError as error:
        raise OSError(f"/proc/stat: {error}") from None


def _used_by_others() -> Use:
    """Return `(name, CPU ticks used so far)` by `(process id, start time)` for every process except those of edgetop.

    Raises OSError if /proc cannot be read.
    """
    import psutil  # noqa: PLC0415  only the doctor needs it

    used = {}
    try:
        for process in psutil.process_iter(["name", "cpu_times", "create_time", "ppid"]):
            about = process.info
            if about["cpu_times"] is None or os.getpid() in (process.pid, about["ppid"]):
                continue
            ticks = round((about["cpu_times"].user + about["cpu_times"].system) / TICK_S)
            used[process.pid, str(about["create_time"])] = (about["name"] or "?", ticks)
    except psutil.Error as error:
        raise OSError(f"/proc: {error}") from None
    return used
