"""Boards that heat up under a load, of which it is known whether and when they reach their trip: made from a seed.

One heat capacity, or two of which the chip's is the fast one; a room whose temperature changes; a load or a fan that
changes once; sensors that round and scatter. Nothing here knows how edgetop judges any of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import READING, Readings
from edgetop.session.seconds import NS
from tests.support.sessions import make_manifest, make_sensor, phase_event

Floats = npt.NDArray[np.float64]

ROOMS = ("still", "drifts", "swings")
CHANGES = ("none", "none", "none", "load", "fan")
TRIPS_C = (70.0, 75.0, 80.0, 85.0, 90.0, 95.0)
LENGTH_S = 7_200
BEGAN_S = 5


@dataclass(frozen=True)
class Heating:
    """One board. Times count from when the load began."""

    seed: int
    order: int
    room: str
    change: str  # what changes once: nothing, the load, the fan
    change_s: float  # when; 0: never
    trip_c: float
    true_c: Floats  # of each second
    sensors: tuple[SensorInfo, ...]
    readings: Readings  # of the session: BEGAN_S later

    @property
    def hit_s(self) -> float | None:
        """When the trip is reached; None: not in LENGTH_S."""
        over = np.flatnonzero(self.true_c >= self.trip_c)
        return float(over[0]) if len(over) else None

    def batches(self, until_s: float, cuts_s: Sequence[float] = ()) -> Iterator[Batch]:
        """The session until so long after the load began, cut at these of its times."""
        end_ns = round((until_s + BEGAN_S) * NS)
        begin_ns = -1
        for cut_ns in [*sorted({c for cut in cuts_s if 0 <= (c := round(cut * NS)) < end_ns}), end_ns]:
            t_ns = self.readings["t_ns"]
            yield Batch(
                until_ns=cut_ns,
                readings=self.readings[(t_ns > begin_ns) & (t_ns <= cut_ns)],
                manifest=make_manifest(*self.sensors, load=Load()) if begin_ns < 0 else None,
                events=tuple(event for event in self._events() if begin_ns < event.t_ns <= cut_ns),
            )
            begin_ns = cut_ns

    def _events(self) -> tuple[Event, ...]:
        return (phase_event(BEGAN_S * NS, "measure"),)


def heating(seed: int, **fixed: object) -> Heating:
    """`fixed`: what the seed is not to choose of `order`, `room`, `change`, `trip_c`, `step_c`, `noise_c`."""
    random = np.random.default_rng([seed, 6])
    drawn: dict[str, object] = {
        "order": 1 + seed % 2,
        "room": ROOMS[seed // 2 % len(ROOMS)],
        "change": CHANGES[seed // 6 % len(CHANGES)],
        "trip_c": float(random.choice(TRIPS_C)),
        "step_c": float(random.choice([0.001, 0.1, 0.5, 1.0])),
        "noise_c": float(random.choice([0.05, 0.1, 0.2, 0.3])),
    }
    chosen = drawn | fixed
    order, room, change = int(str(chosen["order"])), str(chosen["room"]), str(chosen["change"])
    trip_c, step_c, noise_c = (float(str(chosen[name])) for name in ("trip_c", "step_c", "noise_c"))
    t_s = np.arange(LENGTH_S, dtype=np.float64)
    slow_s, fast_s = float(np.exp(random.uniform(np.log(40), np.log(900)))), random.uniform(3, 15)
    rise_c, share = random.uniform(20, 65), random.uniform(0.15, 0.4) * (order == 2)
    change_s = round(random.uniform(0.1, 1.0) * slow_s) if change != "none" else 0
    factor = random.uniform(1.3, 1.8) if change == "load" else random.uniform(0.65, 0.9)
    warm = random.choice([0.0, 0.0, random.uniform(0, 0.3)])  # what is left of a load before
    slow_c = _answer(t_s, rise_c * (1 - share), slow_s, change_s, factor, warm)
    fast_c = _answer(t_s, rise_c * share, fast_s, change_s, factor, 0.0)
    true_c = _room(random, room, t_s, slow_s) + random.uniform(5, 15) + slow_c + fast_c
    sensors, readings = _read(random, t_s, true_c, (trip_c, step_c, noise_c), change, change_s, factor)
    return Heating(seed, order, room, change, float(change_s), trip_c, true_c, sensors, readings)


def two_slow_parts(seed: int) -> Heating:
    """A heat sink of a minute or so in a case that takes ten times as long, and a trip near the steady temperature."""
    random = np.random.default_rng([seed, 7])
    t_s = np.arange(LENGTH_S, dtype=np.float64)
    sink_s = random.uniform(15, 60)
    case_s, rise_c, share = random.uniform(6, 15) * sink_s, random.uniform(25, 60), random.uniform(0.3, 0.7)
    sink_c, case_c = rise_c * share * (1 - np.exp(-t_s / sink_s)), rise_c * (1 - share) * (1 - np.exp(-t_s / case_s))
    begin_c = random.uniform(20, 30)
    trip_c = round(begin_c + rise_c + random.uniform(-6, 12), 1)
    true_c = begin_c + sink_c + case_c
    sensors, readings = _read(random, t_s, true_c, (trip_c, 0.1, 0.1), "none", 0.0, 1.0)
    return Heating(seed, 2, "still", "none", 0.0, trip_c, true_c, sensors, readings)


def _answer(t_s: Floats, target_c: float, tau_s: float, change_s: float, factor: float, warm: float) -> Floats:
    """One heat capacity under a step of load, and under another one."""
    first = target_c * (1 - (1 - warm) * np.exp(-t_s / tau_s))
    if not change_s:
        return np.asarray(first)
    at_change = target_c * (1 - (1 - warm) * np.exp(-change_s / tau_s))
    gone_s = np.maximum(t_s - change_s, 0)
    second = target_c * factor + (at_change - target_c * factor) * np.exp(-gone_s / tau_s)
    return np.where(t_s < change_s, first, second)


def _room(random: np.random.Generator, room: str, t_s: Floats, slow_s: float) -> Floats:
    """The room's temperature as the board follows it."""
    begin_c = random.uniform(15, 38)
    if room == "drifts":
        return np.asarray(begin_c + random.uniform(-3, 3) * (t_s - slow_s * (1 - np.exp(-t_s / slow_s))) / 3600)
    if room == "swings":
        omega, phase = 2 * np.pi / random.uniform(600, 3600), random.uniform(0, 2 * np.pi)
        weaker = random.uniform(0.3, 1.5) / np.hypot(1, omega * slow_s)
        return np.asarray(begin_c + weaker * np.sin(omega * t_s + phase - np.arctan(omega * slow_s)))
    return np.full_like(t_s, begin_c)


def _read(
    random: np.random.Generator, t_s: Floats, true_c: Floats, sensor: tuple[float, float, float], change: str,
    change_s: float, factor: float,
) -> tuple[tuple[SensorInfo, ...], Readings]:  # fmt: skip
    """The zone, the CPU load and a fan, read once a second, not quite evenly; idle before the load begins."""
    trip_c, step_c, noise_c = sensor
    before = np.arange(BEGAN_S, dtype=np.float64)
    celsius = np.concatenate([np.full(BEGAN_S, true_c[0]), true_c])
    celsius = np.round((celsius + random.normal(0, noise_c, len(celsius))) / step_c) * step_c
    is_changed = (t_s >= change_s) & (change_s > 0)
    busy = 390 / factor if change == "load" else 390.0
    load = np.where(is_changed & (change == "load"), 390.0, busy)
    load = np.concatenate([np.full(BEGAN_S, 5.0), load]) + random.normal(0, 4, len(celsius))
    fan = np.concatenate([np.zeros(BEGAN_S), np.where(is_changed & (change == "fan"), 2.0, 0.0)])
    infos = [make_sensor("temp/cpu-thermal", trips={"passive": trip_c}), make_sensor("load/cpu")]
    columns = [celsius, load]
    if change == "fan":
        infos.append(make_sensor("cooling/0-pwm-fan", throttles=False, max_state=2))
        columns.append(fan)
    t_ns = ((np.concatenate([before, t_s + BEGAN_S]) + random.uniform(0, 0.9, len(celsius))) * NS).astype(np.int64)
    readings = np.zeros(len(celsius) * len(columns), READING)
    readings["t_ns"] = np.repeat(t_ns, len(columns))
    readings["sensor"] = np.tile(np.arange(len(columns)), len(celsius))
    readings["value"] = np.column_stack(columns).ravel()
    return tuple(infos), readings
