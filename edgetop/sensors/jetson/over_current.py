"""Over-current events of a Jetson Orin or Thor: the throttling that no clock shows.

The chip `soctherm_oc` counts, since boot, how often the power management slowed CPU and GPU
to half their clock for about a millisecond (nvidia-oot, tegra23x-oc-event.c; each read asks
the BPMP, which publishes about every 2 s). OC1 is under-voltage of VDD_IN, OC2 average and
OC3 instantaneous over-current (Jetson Linux developer guide, "OC event"). NVIDIA expects
some in the largest power mode, so a single one is no alarm: the share of time is what counts.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from edgetop.sensors.chips import chips_named
from edgetop.sensors.protocol import Found, Gap, sensor
from edgetop.sensors.rates import FIRST, WENT_BACK
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo
from edgetop.session.trips import OVER_CURRENT_PERCENT

CHIP = "soctherm_oc"
UNDER_VOLTAGE = 1  # the number of the alarm that is about voltage, not current
CADENCE_S = 2.0  # the BPMP's own
EVENT_S = 0.001  # seen on an Orin Nano, whose BPMP has `throt_period` 1


class OverCurrent:
    """Events per second of each alarm, the share of time they cost, and what limits the board now."""

    name = "over-current events"
    cadence_s = CADENCE_S

    def __init__(
        self, root: Root, folder: str, alarms: Sequence[int], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._root, self._folder = root, folder
        self._alarms = tuple(alarms)
        self._slowing = tuple(n for n in alarms if root.line(f"{folder}/oc{n}_throt_en") != "0")
        self._clock_s = clock_s
        self._before: tuple[float, dict[int, int]] | None = None
        self.sensors = tuple(self._sensors(root.shown(folder)))

    def _sensors(self, chip: str) -> Iterator[SensorInfo]:
        for n in self._alarms:
            note = None if n in self._slowing else "this alarm is set not to slow anything"
            yield sensor("rate", f"oc{n}", f"{chip}/oc{n}_event_cnt", note=note)
        if self._tells_over_current:
            share = f"estimated: {1000 * EVENT_S:g} ms at half clocks an event"
            least = f"at least {OVER_CURRENT_PERCENT:g} % of the time, {share}"
            yield sensor("rate", "over-current-events", chip, note="OC2 and OC3 together")
            yield sensor("pressure", "over-current", chip, note=share)
            yield sensor("throttle", "over-current", chip, note=least)
        if UNDER_VOLTAGE in self._alarms:
            note = "OC1: VDD_IN fell below its limit since the last read"
            yield sensor("throttle", "under-voltage", chip, note=note)

    @property
    def _tells_over_current(self) -> bool:
        return any(n != UNDER_VOLTAGE for n in self._alarms)

    def read(self) -> Sequence[float | Gap]:
        now = self._clock_s()
        counts = {n: self._root.read_int(f"{self._folder}/oc{n}_event_cnt") for n in self._alarms}
        before, self._before = self._before, (now, counts)
        if before is None or now <= before[0]:
            return [FIRST] * len(self.sensors)
        if any(counts[n] < before[1][n] for n in self._alarms):
            return [WENT_BACK] * len(self.sensors)
        rates = {n: (counts[n] - before[1][n]) / (now - before[0]) for n in self._alarms}
        values = list(rates.values())
        if self._tells_over_current:
            share = min(100.0, 100 * EVENT_S * sum(rates[n] for n in self._slowing if n != UNDER_VOLTAGE))
            events = sum(rate for n, rate in rates.items() if n != UNDER_VOLTAGE)
            values += [events, share, float(share >= OVER_CURRENT_PERCENT)]
        if UNDER_VOLTAGE in self._alarms:
            values.append(float(rates[UNDER_VOLTAGE] > 0))
        return values


def discover(root: Root) -> Found:
    """Xavier's driver of the same chip name has other files, and gives nothing here."""
    found = [(folder, _alarms(root, folder)) for folder in chips_named(root, CHIP)]
    return Found(tuple(OverCurrent(root, folder, alarms) for folder, alarms in found[:1] if alarms))


def _alarms(root: Root, folder: str) -> list[int]:
    return [n for n in range(1, 10) if root.exists(f"{folder}/oc{n}_event_cnt")]
