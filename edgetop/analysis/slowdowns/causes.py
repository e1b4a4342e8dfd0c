"""The causes that a slowdown can have, and the signals that tell of each.

A signal by itself is never a slowdown; what it must do to be evidence of one stands in
`evidence`. Ids with a fixed meaning are those of the session format (`edgetop help format`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from edgetop.analysis.tracks import Floats
from edgetop.session.manifest import SensorInfo

Cause = Literal[
    "thermal", "power-cap", "under-voltage", "contention", "cpu-quota", "memory-pressure", "clock-change", "unknown"
]  # fmt: skip
CAUSES: tuple[Cause, ...] = (
    "under-voltage", "power-cap", "thermal", "clock-change", "memory-pressure", "cpu-quota", "contention"
)  # fmt: skip  # of two that explain as much, the first
LIMITS: frozenset[Cause] = frozenset({"thermal", "power-cap", "under-voltage"})  # what slows the board itself

Role = Literal["proof", "clock", "cap", "trip"]  # `trip` and `cap` prove nothing without a clock
Reduction = Literal["one", "lowest", "highest", "others", "margin"]

# The firmware of a Raspberry Pi caps the clock under 4.63 V (raspberrypi/documentation, under-voltage
# warning); the limit of a Jetson Orin's 5 V input is near it.
INPUT_FLOOR_V = 4.63
_INPUTS = ("EXT5V", "VDD_IN", "POM_5V_IN")
SET = 0.5  # of a flag, which is 0 or 1
STICKY = "-sticky"
AT_TRIP_C = -1.0  # a zone is polled once a second: so near, it may have been there


@dataclass(frozen=True, slots=True)
class Channel:
    """One signal: what it is made of, and how far it must leave its usual range to count."""

    name: str
    cause: Cause
    rows: tuple[int, ...]
    role: Role = "proof"
    reduction: Reduction = "one"
    falls: bool = False  # evidence is a fall, not a rise
    fixed: float | None = None  # counts beyond this value, whatever was usual
    least: float = 0.0  # else: so far beyond the usual range
    share: float = 0.0  # and by so large a part of it
    weight: float = 0.9  # how well it proves its cause alone
    unit: str = ""
    trips_c: tuple[float, ...] = ()  # of `margin`: the trips of the rows
    is_blind: bool = False  # of clocks: a cap of the firmware does not show in it

    def values(self, held: Floats) -> Floats:
        """Shape (seconds,); NaN where nothing is known."""
        rows: Floats = held[list(self.rows)]
        if self.reduction == "others":
            rows = np.maximum(rows[:1] - rows[1:].sum(axis=0), 0.0)
        if self.reduction == "margin":
            rows = rows - np.asarray(self.trips_c)[:, None]
        if len(rows) == 1:
            return np.asarray(rows[0])
        known = ~np.isnan(rows).all(axis=0)
        lowest = self.reduction == "lowest"
        filled = np.where(np.isnan(rows), np.inf if lowest else -np.inf, rows)
        return np.asarray(np.where(known, filled.min(axis=0) if lowest else filled.max(axis=0), np.nan))


def channels(infos: Sequence[SensorInfo], trips_c: Mapping[int, float]) -> tuple[Channel, ...]:
    """Every signal that these sensors make. `trips_c`: at which temperature zones throttle, by their places here."""
    row = {info.id: place for place, info in enumerate(infos)}
    return (*_flags(infos), *_counts(row), *_heat(trips_c), *_clocks(infos), *_load(row), *_inputs(infos))


def is_flag(info: SensorInfo) -> bool:
    """Whether it says that a limit is in force now, not that one was since boot."""
    return info.kind == "throttle" and not info.label.endswith(STICKY)


# By the label's words; what is not here (freq-capped, throttled) says that something limits, not what.
_FLAG_CAUSES: tuple[tuple[str, Cause], ...] = (
    ("thermal", "thermal"), ("temp", "thermal"), ("edge-tpu", "thermal"),
    ("under-voltage", "under-voltage"),
    ("power", "power-cap"), ("current", "power-cap"),
)  # fmt: skip


def cause_of_flag(info: SensorInfo) -> Cause | None:
    """None: a sticky flag, or one that does not say why."""
    if not is_flag(info):
        return None
    return next((cause for word, cause in _FLAG_CAUSES if word in info.label), None)


def _flags(infos: Sequence[SensorInfo]) -> Iterator[Channel]:
    for place, info in enumerate(infos):
        cause = cause_of_flag(info)
        if cause:
            yield Channel(info.id, cause, (place,), fixed=SET)
        elif info.kind == "cooling" and info.throttles:
            yield Channel(info.id, "thermal", (place,), least=0.5)


# id: cause, so far beyond the usual range, by so large a part of it, weight, unit
_COUNTS: dict[str, tuple[Cause, float, float, float, str]] = {
    "rate/thermal-events": ("thermal", 0.5, 1.0, 0.8, "/s"),
    "rate/core-thermal-events": ("thermal", 0.5, 1.0, 0.8, "/s"),
    "pressure/over-current": ("power-cap", 3.0, 0.5, 0.9, "%"),
    "rate/over-current-events": ("power-cap", 30.0, 0.5, 0.8, "/s"),
    "pressure/cpu-quota": ("cpu-quota", 5.0, 0.5, 0.9, "%"),
    "rate/run-queue-wait": ("contention", 30.0, 0.5, 0.9, "ms/s"),
    "load/steal": ("contention", 5.0, 0.5, 0.9, "%"),
    "pressure/cpu-some": ("contention", 10.0, 0.2, 0.8, "%"),
    "rate/involuntary-switches": ("contention", 30.0, 1.0, 0.5, "/s"),
    "rate/major-faults": ("memory-pressure", 5.0, 1.0, 0.8, "/s"),
    "rate/swap-in": ("memory-pressure", 20.0, 1.0, 0.8, "pages/s"),
    "rate/memory-limit-hits": ("memory-pressure", 20.0, 1.0, 0.5, "/s"),
    "pressure/memory-some": ("memory-pressure", 4.0, 0.5, 0.9, "%"),
    "pressure/memory-full": ("memory-pressure", 3.0, 0.5, 0.9, "%"),
}


def cause_of_count(sensor_id: str) -> Cause | None:
    """None: this sensor counts nothing that slows a board."""
    return _COUNTS[sensor_id][0] if sensor_id in _COUNTS else None


def _counts(row: dict[str, int]) -> Iterator[Channel]:
    for sensor_id, (cause, least, share, weight, unit) in _COUNTS.items():
        if sensor_id in row:
            yield Channel(sensor_id, cause, (row[sensor_id],), least=least, share=share, weight=weight, unit=unit)
    if "mem/cgroup-left" in row:
        yield Channel(
            "mem/cgroup-left",
            "memory-pressure",
            (row["mem/cgroup-left"],),
            falls=True,
            fixed=2.0,
            weight=0.6,
            unit="MiB",
        )


def _heat(trips_c: Mapping[int, float]) -> Iterator[Channel]:
    if trips_c:
        rows, trips = zip(*trips_c.items(), strict=True)
        yield Channel("zone at its trip", "thermal", rows, "trip", "margin", fixed=AT_TRIP_C, trips_c=trips)


def hides_caps(infos: Sequence[SensorInfo]) -> bool:
    """Whether the firmware caps the clock where Linux does not see it, and nothing tells the clock itself.

    A Raspberry Pi's: raspberrypi/documentation, frequency-management.adoc.
    """
    ids = {info.id for info in infos}
    return "throttle/freq-capped" in ids and "freq/arm" not in ids


def _clocks(infos: Sequence[SensorInfo]) -> Iterator[Channel]:
    """CPUs of one kind together: the fastest of them runs the model, the others may idle."""
    firmware_tells = any(info.id == "freq/arm" for info in infos)
    is_blind = hides_caps(infos)
    for kind, role in (("freq", "clock"), ("freqcap", "cap")):
        groups: dict[tuple[str, float | None], list[int]] = {}
        for place, info in enumerate(infos):
            if info.kind != kind or (firmware_tells and kind == "freq" and info.label.startswith("cpu")):
                continue
            key = ("cpu", info.max) if info.label.startswith("cpu") else (info.label, None)
            groups.setdefault(key, []).append(place)
        for rows in groups.values():
            first, last = infos[rows[0]], infos[rows[-1]]
            name = first.id if len(rows) == 1 else f"{first.id} to {last.label}"
            yield Channel(
                name, "clock-change", tuple(rows), role, "highest" if role == "clock" else "lowest",  # type: ignore[arg-type]
                falls=True, share=0.04, unit="MHz", is_blind=is_blind and first.label.startswith("cpu"),
            )  # fmt: skip


def _load(row: dict[str, int]) -> Iterator[Channel]:
    wanted = ("load/cpu", "load/engine", "load/edgetop")
    if "load/others" in row or all(sensor_id in row for sensor_id in wanted):
        of = ("load/others",) if "load/others" in row else wanted
        rows = tuple(row[sensor_id] for sensor_id in of)
        yield Channel(
            "load of other processes", "contention", rows, reduction="others", least=30.0, weight=0.5, unit="%"
        )


def _inputs(infos: Sequence[SensorInfo]) -> Iterator[Channel]:
    for place, info in enumerate(infos):
        if info.kind == "volt" and info.label.startswith(_INPUTS):
            yield Channel(info.id, "under-voltage", (place,), falls=True, fixed=INPUT_FLOOR_V, weight=0.8, unit="V")
