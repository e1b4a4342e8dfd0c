"""Over-current events of a Jetson Orin or Thor: the throttling that no clock shows.

The chip `soctherm_oc` counts, since boot, how often the power management slowed CPU and GPU
to half their clock for about a millisecond (nvidia-oot, tegra23x-oc-event.c; each read asks
the BPMP, which publishes about every 2 s). OC1 is under-voltage of VDD_IN, OC2 average and
OC3 instantaneous over-current (Jetson Linux developer guide, "OC event"). NVIDIA expects
some in the largest power mode, so a single one is no alarm: the share of time is what counts.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from edgetop.sensors.counters import FIRST, WENT_BACK
from edgetop.sensors.protocol import Found, Reader, Values, sensor
from edgetop.sensors.root import Root, chips_named
from edgetop.session.manifest import SensorInfo
from edgetop.session.trips import OVER_CURRENT_PERCENT

CHIP = "soctherm_oc"
UNDER_VOLTAGE = 1  # the number of the alarm that is about voltage, not current
CADENCE_S = 2.0  # the BPMP's own
EVENT_S = 0.001  # seen on an Orin Nano, whose BPMP has `throt_period` 1


def over_current_of(
    root: Root, folder: str, alarms: Sequence[int], clock_s: Callable[[], float] = time.monotonic
) -> Reader:
    """Events per second of each alarm, the share of time they cost, and what limits the board now."""
    counters = {n: root.file(f"{folder}/oc{n}_event_cnt") for n in alarms}
    slowing = tuple(n for n in alarms if root.line(f"{folder}/oc{n}_throt_en") != "0")
    currents = [n for n in alarms if n != UNDER_VOLTAGE]
    before: tuple[float, dict[int, int]] | None = None
    infos = tuple(_sensors(root.absolute(folder), alarms, slowing))

    def read() -> Values:
        nonlocal before
        now = clock_s()
        counts = {n: counter.read_int() for n, counter in counters.items()}
        last, before = before, (now, counts)
        if last is None or now <= last[0]:
            return [FIRST] * len(infos)
        if any(counts[n] < last[1][n] for n in alarms):
            return [WENT_BACK] * len(infos)
        rates = {n: (counts[n] - last[1][n]) / (now - last[0]) for n in alarms}
        values = list(rates.values())
        if currents:
            share = min(100.0, 100 * EVENT_S * sum(rates[n] for n in currents if n in slowing))
            values += [sum(rates[n] for n in currents), share, float(share >= OVER_CURRENT_PERCENT)]
        if UNDER_VOLTAGE in alarms:
            values.append(float(rates[UNDER_VOLTAGE] > 0))
        return values

    return Reader(infos, read, CADENCE_S, "over-current events")


def _sensors(chip: str, alarms: Sequence[int], slowing: Sequence[int]) -> Iterator[SensorInfo]:
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


def discover(root: Root) -> Found:
    """Xavier's driver of the same chip name has other files, and gives nothing here."""
    found = [
        (folder, [n for n in range(1, 10) if root.exists(f"{folder}/oc{n}_event_cnt")])
        for folder in chips_named(root, CHIP)
    ]
    return Found(tuple(over_current_of(root, folder, alarms) for folder, alarms in found[:1] if alarms))
