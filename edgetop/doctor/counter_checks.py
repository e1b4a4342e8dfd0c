"""Check whether the CPU's counters can be read, or whether the kernel, a container or a virtual machine hides them."""

import os

from edgetop.doctor.check import Check, Facts, ok
from edgetop.sensors import engine_counters, memory_traffic
from edgetop.sensors.core_pmus import core_pmus
from edgetop.sensors.engine_counters import COUNTERS, NO_PMU
from edgetop.sensors.perf_counting import Calls, KernelCalls
from edgetop.sensors.sensor_protocol import Closable, Missing

CALLED = "counters"


def check_counters(facts: Facts, calls: Calls | None = None) -> list[Check]:
    """Return results that say which events can be counted and, for all other events, why not and which command helps.

    Their status is always ok, because a benchmark needs no counters. This function tries to open counters of its own
    process. `calls` makes the system calls; None means the real system calls.
    """
    found = engine_counters.discover_engine(os.getpid(), shares_process=False, root=facts.root, calls=calls)
    checks = []
    for source in found.sources:
        labels = [info.label for info in source.sensors if info.kind == "rate"]
        checks.append(ok(CALLED, f"counted of the engine: {', '.join(labels)}"))
        if isinstance(source, Closable):
            source.close()
    pmus = core_pmus(facts.root)
    if len(pmus) > 1:
        checks.append(
            ok(CALLED, f"cores of {len(pmus)} kinds, each counted by its own: {', '.join(p.name for p in pmus)}")
        )
    return [*checks, *map(_lacking, found.missing), *_of_memory(facts, calls)]


def _of_memory(facts: Facts, calls: Calls | None) -> list[Check]:
    """Return a check that says what the memory controller counts, or why it cannot be read; [] without such counters.

    `calls` makes the system calls; None means the real ones.
    """
    found = memory_traffic.discover(facts.root, KernelCalls if calls is None else lambda: calls)
    checks = []
    for source in found.sources:
        has_clock = any(info.kind == "freq" for info in source.sensors)
        what = f"what is read and written{', its clock' if has_clock else ''}"
        checks.append(ok(CALLED, f"counted of the memory: {what}"))
        if isinstance(source, Closable):
            source.close()
    return [*checks, *map(_lacking, found.missing)]


def _lacking(missing: Missing) -> Check:
    what = "nothing is counted" if missing.what == COUNTERS else f"no {missing.what}"
    advice = "hardware counters need the board itself" if missing.why == NO_PMU else None
    return Check(CALLED, "ok", f"{what}: {missing.why}", advice, missing.fix)
