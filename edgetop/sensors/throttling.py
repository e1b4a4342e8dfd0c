"""Whether heat is slowing the board now: cooling devices that throttle, and the CPU's own counters.

All are read in one go, so that `throttle/thermal` says nothing that they do not.
"""

import time
from collections.abc import Callable, Sequence

from edgetop.sensors import cooling, throttle_counts
from edgetop.sensors.cooling import CoolingDevice
from edgetop.sensors.protocol import Found, Gap, Missing, attempt, sensor
from edgetop.sensors.rates import FIRST
from edgetop.sensors.root import Root
from edgetop.sensors.throttle_counts import ThrottleCounts
from edgetop.session.manifest import SensorInfo

CADENCE_S = 1.0


class ThermalLimits:
    """The state of every cooling device; whether one that throttles is at work or a counter of throttling grows."""

    name = "thermal limits"
    cadence_s = CADENCE_S

    def __init__(
        self,
        root: Root,
        devices: Sequence[CoolingDevice],
        counts: ThrottleCounts | None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._devices = tuple(devices)
        self._counts = counts
        self._now_s = now_s
        self._before_s: float | None = None
        flags = self._flags(root) if can_tell(devices, counts) else ()
        self._has_flag = bool(flags)
        self.sensors: tuple[SensorInfo, ...] = (*flags, *(device.info for device in devices))

    def _flags(self, root: Root) -> tuple[SensorInfo, ...]:
        devices, counters = root.shown(cooling.DEVICES), root.shown(throttle_counts.CPUS)
        if self._counts is None:
            return (sensor("throttle", "thermal", devices, note="a cooling device that throttles is at work"),)
        why = "a cooling device that throttles is at work, or the CPU has counted throttling since the last look"
        return (
            sensor("throttle", "thermal", counters, note=why),
            sensor("throttle", "thermal-sticky", counters, note="the CPU has counted throttling since boot"),
            sensor("rate", "thermal-events", counters, note="package_throttle_count, each package once"),
            sensor("rate", "core-thermal-events", counters, note="core_throttle_count, each core once"),
        )

    def read(self) -> Sequence[float | Gap]:
        states = [attempt(device.state) for device in self._devices]
        if not self._has_flag:
            return states
        claims = [
            state if isinstance(state, Gap) else state > 0
            for device, state in zip(self._devices, states, strict=True)
            if device.throttles
        ]
        if self._counts is None:
            return [_any(claims), *states]
        now_s, before_s = self._now_s(), self._before_s
        self._before_s = now_s
        advance = self._counts.advance()
        passed_s = 0.0 if before_s is None else now_s - before_s
        return [
            _any([*claims, advance.throttled]),
            _flag(self._counts.ever()),
            _rate(advance.package_events, passed_s),
            _rate(advance.core_events, passed_s),
            *states,
        ]


def _any(claims: Sequence[bool | Gap]) -> float | Gap:
    """1 where one holds; 0 only where all could be read and none does."""
    if any(claim is True for claim in claims):
        return 1.0
    return next((claim for claim in claims if isinstance(claim, Gap)), 0.0)


def _flag(claim: bool | Gap) -> float | Gap:
    return claim if isinstance(claim, Gap) else float(claim)


def _rate(events: int | Gap, passed_s: float) -> float | Gap:
    if isinstance(events, Gap):
        return events
    return events / passed_s if passed_s > 0 else FIRST


def can_tell(devices: Sequence[CoolingDevice], counts: ThrottleCounts | None) -> bool:
    """Whether all of them at rest means that nothing is slowed by heat.

    Not where they are only those of ACPI: the CPUs of a PC see to their temperature themselves, and but for Intel's
    counters tell nobody.
    """
    return counts is not None or any(device.throttles and device.type not in _OF_A_PC for device in devices)


_OF_A_PC = ("Processor", "intel_powerclamp")


def discover(root: Root) -> Found:
    devices, counts = cooling.find(root), throttle_counts.find(root)
    missing: tuple[Missing, ...] = ()
    if not can_tell(devices, counts):
        why = f"none in {root.shown(cooling.DEVICES)} that all throttling goes through, and no CPU that counts its own"
        missing = (Missing("throttling cooling devices", why),)
    return Found((ThermalLimits(root, devices, counts),) if devices or counts else (), missing)
