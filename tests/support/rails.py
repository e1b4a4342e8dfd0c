"""Rails whose integral is known, and what a sensor would read of them.

A rail's power is constant from step to step, so its energy over any span is exact. Every case
comes from its seed alone.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.session.seconds import NS

Floats = npt.NDArray[np.float64]

KINDS = ("constant", "paced", "duty", "telegraph", "drifting", "correlated", "throttled")
SENSORS = ("moment", "window", "counter", "gaps")


@dataclass(frozen=True)
class Rail:
    """`watts[i]` flows from `steps_s[i]` to the next step."""

    steps_s: Floats
    watts: Floats

    def joules(self, until_s: Floats | float) -> Floats:
        """From the first step on."""
        sums = np.concatenate([[0.0], np.cumsum(np.diff(self.steps_s) * self.watts[:-1])])
        return np.interp(until_s, self.steps_s, sums)

    def at(self, t_s: Floats) -> Floats:
        return self.watts[np.searchsorted(self.steps_s, t_s, side="right") - 1]


@dataclass(frozen=True)
class Case:
    kind: str
    sensor: str
    t_ns: npt.NDArray[np.int64]
    watts: Floats  # as they were read
    began_ns: int
    until_ns: int
    joules: float  # that flowed between these two


def make_case(seed: int, kind: str, sensor: str) -> Case:
    random = np.random.default_rng([seed, KINDS.index(kind), SENSORS.index(sensor)])
    length_s = random.uniform(60, 600)
    rail = make_rail(random, kind, length_s + 20)
    t_s, watts = read(random, rail, sensor, float(random.choice([0.1, 1.0])), length_s + 19)
    began_s = random.uniform(2, 10)
    until_s = began_s + length_s
    joules = float(rail.joules(until_s) - rail.joules(began_s))
    return Case(
        kind, sensor, np.rint(t_s * NS).astype(np.int64), watts, round(began_s * NS), round(until_s * NS), joules
    )


def make_rail(random: np.random.Generator, kind: str, length_s: float) -> Rail:
    idle_w, busy_w = random.uniform(1, 3), random.uniform(4, 9)
    if kind == "constant":
        return Rail(np.array([0.0, length_s]), np.array([busy_w, busy_w]))
    if kind in ("paced", "duty"):
        period_s = random.uniform(0.02, 1.2) if kind == "paced" else random.uniform(3, 12)
        starts = np.arange(0, length_s, period_s)
        ends = starts + period_s * random.uniform(0.1, 0.8)
        steps = np.column_stack([starts, ends]).ravel()
        return Rail(steps, np.tile([busy_w, idle_w], len(starts)))
    if kind == "telegraph":
        lengths = random.exponential(random.uniform(0.05, 3.0), int(60 * length_s))
        steps = np.concatenate([[0.0], np.cumsum(lengths)])
        steps = steps[: np.searchsorted(steps, length_s) + 1]
        return Rail(steps, np.where(np.arange(len(steps)) % 2, busy_w, idle_w))
    steps = np.arange(0, length_s, 0.05)
    if kind == "drifting":
        slow = 0.3 * busy_w * np.sin(2 * np.pi * steps / random.uniform(100, 2000) + random.uniform(0, 6))
        return Rail(steps, busy_w + slow)
    if kind == "throttled":
        fallen = np.where(steps < random.uniform(0.1, 0.9) * length_s, busy_w, 0.7 * busy_w)
        return Rail(steps, fallen)
    noise = random.normal(0, 1, len(steps))
    memory = float(np.exp(-0.05 / random.uniform(0.2, 20)))
    watts = np.empty(len(steps))
    level = noise[0]
    for i, shock in enumerate(noise):
        level = memory * level + np.sqrt(1 - memory**2) * shock
        watts[i] = busy_w + 0.6 * level
    return Rail(steps, watts)


def read(
    random: np.random.Generator, rail: Rail, sensor: str, cadence_s: float, until_s: float, jitter: float = 0.5
) -> tuple[Floats, Floats]:
    """At intervals drawn from around the cadence: of the moment, or the mean of a window, or since the last read."""
    intervals = cadence_s * random.uniform(1 - jitter, 1 + jitter, int(1.2 * until_s / cadence_s) + 10)
    t_s = random.uniform(0, cadence_s) + np.cumsum(intervals)
    t_s = t_s[t_s < until_s]
    if sensor == "window":
        window_s = random.uniform(0.2, 0.5) * cadence_s
        watts = (rail.joules(t_s) - rail.joules(t_s - window_s)) / window_s
    elif sensor == "counter":
        watts = np.diff(rail.joules(t_s)) / np.diff(t_s)
        t_s = t_s[1:]
    else:
        watts = rail.at(t_s)
    if sensor == "gaps":
        hole_s = random.uniform(0, until_s, 3)
        kept = ((t_s[:, None] < hole_s) | (t_s[:, None] > hole_s + random.uniform(2, 6) * cadence_s)).all(axis=1)
        t_s, watts = t_s[kept], watts[kept]
    return t_s, watts + random.normal(0, 0.02, len(t_s))
