"""What else runs here: the load of the last second, edgetop's own left out, and whose it is."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

from edgetop.doctor.check import Check, ok, problem, unknown, warning
from edgetop.doctor.facts import Facts
from edgetop.formatting import clean

NAME = "background-load"
QUIET_PCT = 10.0  # of one core: what a desktop or a container runtime at rest takes
LOUD_PCT = 50.0
STEAL_PCT = 1.0
SHOWN = 3


def check(facts: Facts) -> list[Check]:
    if facts.busy is None:
        return [unknown(NAME, "processes cannot be listed")]
    total = sum(facts.busy.values())
    top = sorted(facts.busy.items(), key=lambda pair: -pair[1])[:SHOWN]
    named = ", ".join(f"{clean(name)} {percent:.0f} %" for name, percent in top if percent >= 1)
    told = f"{total:.0f} % of a core" + (f": {named}" if named else "")
    advice = "what shares the board with the model belongs in the measurement only if production has it too"
    if total >= LOUD_PCT:
        checks = [problem(NAME, told, advice)]
    elif total >= QUIET_PCT:
        checks = [warning(NAME, told, advice)]
    else:
        checks = [ok(NAME, told)]
    return [*checks, *_steal(facts)]


def _steal(facts: Facts) -> Iterator[Check]:
    """Only where a hypervisor takes something."""
    stolen = facts.values("load/steal").get("load/steal", 0.0)
    if stolen >= STEAL_PCT:
        yield warning("steal", f"a hypervisor took {stolen:.1f} % of a core", "the host is shared: tails are not yours")


@contextmanager
def watch_processes(into: dict[str, float], at_least_s: float) -> Iterator[None]:
    """Fills in the load of every other process while the context lasts, in percent of a core, by name."""
    now_s = time.monotonic
    before, begin_s = _cpu_times(), now_s()
    yield
    time.sleep(max(0.0, begin_s + at_least_s - now_s()))  # the clock of processes ticks in hundredths of a second
    after, span_s = _cpu_times(), now_s() - begin_s
    for key, (name, seconds) in after.items():
        used = seconds - before.get(key, (name, 0.0))[1]  # one that began meanwhile: all it used
        if span_s > 0 and used > 0:
            into[name] = into.get(name, 0.0) + 100 * used / span_s


def _cpu_times() -> Mapping[tuple[int, float], tuple[str, float]]:
    """Of every other process: its name, and the CPU seconds it has used. Edgetop's own are left out."""
    own = os.getpid()
    found = {}
    for process in psutil.process_iter(["name", "cpu_times", "create_time", "ppid"]):
        info = process.info
        if own in (process.pid, info["ppid"]) or info["cpu_times"] is None:
            continue
        times = info["cpu_times"]
        found[process.pid, info["create_time"] or 0.0] = (info["name"] or "?", times.user + times.system)
    return found
