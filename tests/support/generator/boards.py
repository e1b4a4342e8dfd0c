"""What the sensors of a board tell of a world: which there are, how often they are read, and how noisily."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgetop.session.manifest import SensorInfo
from edgetop.session.records import READING, Readings
from edgetop.session.seconds import NS
from tests.support.generator.effects import STEP_S, Grid, World
from tests.support.sessions import make_sensor

Value = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # of times in s


@dataclass(frozen=True)
class Sensor:
    info: SensorInfo
    value: Value
    source: int  # those of one source are read together
    cadence_s: float = 1.0


@dataclass
class Board:
    """Sensors of one board, added one by one. What a board leaves out is drawn by chance."""

    random: np.random.Generator
    world: World
    cores: int
    load_pct: float  # of the engine, undisturbed, in percent of a core
    proofs: frozenset[str] = frozenset()  # sources that must not be left out: else nobody could know the cause
    sensors: list[Sensor] = field(default_factory=list)
    sources: int = 0
    cadence_s: float | None = None  # of every source, give or take; None: each has its own

    @property
    def idles(self) -> bool:
        """The governor lowers the clock between inferences; whoever changes the clock by hand has locked it before."""
        return self.load_pct < 60 and not any(effect.cause == "clock-change" for effect in self.world.effects)

    def source(
        self, *sensors: tuple[str, Value, dict[str, object]], cadence_s: float = 1.0, lacking: float = 0.0
    ) -> None:
        """`lacking`: how often a board has no such source."""
        ids = {sensor[0] for sensor in sensors}
        if self.random.random() < lacking and not ids & self.proofs:
            return
        self.sources += 1
        if cadence_s < 5 and self.random.random() < 0.05:
            cadence_s = 5.0  # of a service that is asked instead
        for sensor_id, value, more in sensors:
            self.sensors.append(Sensor(make_sensor(sensor_id, **more), value, self.sources, cadence_s))

    def sampled(self, grid: Grid, noise: float = 0.0) -> Value:
        return lambda t: self._at(grid, t) + noise * self.random.normal(size=len(t))

    def positive(self, grid: Grid, noise: float) -> Value:
        """What cannot be negative: with noise of an exponential kind on top."""
        return lambda t: np.maximum(self._mean(grid, t) + noise * (self.random.exponential(size=len(t)) - 0.3), 0)

    def flag(self, grid: Grid) -> Value:
        return lambda t: (self._at(grid, t) > 0.5).astype(float)

    def lately(self, grid: Grid, back_s: float) -> Value:
        """1 where it held at any time since the read before: history bits, counters."""
        seen = np.maximum.accumulate(np.where(grid > 0.5, np.arange(len(grid)), -(10**9)))
        return lambda t: (self._place(t) - seen[self._place(t)] <= back_s / STEP_S).astype(float)

    def _place(self, t_s: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.clip((t_s / STEP_S).astype(np.int64), 0, len(self.world.t_s) - 1)

    def _at(self, grid: Grid, t_s: NDArray[np.float64]) -> NDArray[np.float64]:
        return grid[self._place(t_s)]

    def _mean(self, grid: Grid, t_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Over the second before: what rates are."""
        total = np.concatenate([[0.0], np.cumsum(grid)])
        end = self._place(t_s) + 1
        begin = np.maximum(end - round(1 / STEP_S), 0)
        return (total[end] - total[begin]) / np.maximum(end - begin, 1)

    def readings(self, end_s: float, missing: float) -> Readings:
        parts = [self._read(group, end_s, missing) for group in self._grouped()]
        joined = np.concatenate(parts) if parts else np.empty(0, READING)
        return joined[np.argsort(joined["t_ns"], kind="stable")]

    def _grouped(self) -> Iterator[list[int]]:
        for source in range(1, self.sources + 1):
            yield [place for place, sensor in enumerate(self.sensors) if sensor.source == source]

    def _read(self, places: list[int], end_s: float, missing: float) -> Readings:
        cadence_s = self.cadence_s or self.sensors[places[0]].cadence_s
        t_s = np.arange(self.random.uniform(0, cadence_s), end_s, cadence_s)
        if self.cadence_s:
            t_s = t_s + self.random.uniform(0, 0.8, len(t_s))
        t_s = np.sort(np.clip(t_s + self.random.exponential(0.02, len(t_s)), 0, end_s))
        t_s = t_s[self.random.random(len(t_s)) >= missing]
        ids = {self.sensors[place].info.id for place in places}
        if self.random.random() < 0.04 and not ids & self.proofs:  # lost, for good or for a while
            lost = self.random.uniform(0, end_s)
            t_s = t_s[(t_s < lost) | (t_s > lost + self.random.exponential(60))]
        readings = np.zeros(len(t_s) * len(places), READING)
        readings["t_ns"] = np.repeat((t_s * NS).astype(np.int64), len(places))
        readings["sensor"] = np.tile(places, len(t_s))
        readings["value"] = np.stack([self.sensors[place].value(t_s) for place in places], axis=1).ravel()
        return readings


def _wave(board: Board, size: float, period_s: float) -> Grid:
    return size * np.sin(2 * np.pi * (board.world.t_s / period_s + board.random.random()))


def _bursts(board: Board, every_s: float, length_s: float, size: float) -> Grid:
    """Something that comes and goes, and has nothing to do with the model."""
    grid = np.zeros_like(board.world.t_s)
    at = board.random.exponential(every_s)
    while at < board.world.t_s[-1]:
        long = board.random.exponential(length_s) + 0.2
        grid[int(at / STEP_S) : int((at + long) / STEP_S)] = size * board.random.uniform(0.3, 1.0)
        at += long + board.random.exponential(every_s)
    return grid


def temperature(board: Board, limit_c: float, usual_c: float) -> Grid:
    """Rises to the limit before heat slows the board, and stays there; else it wanders."""
    t_s, heat = board.world.t_s, board.world.of("thermal")
    goal = np.where(heat > 0, limit_c, usual_c)
    for effect in board.world.effects:
        if effect.cause == "thermal":
            before = np.clip((t_s - (effect.start_s - 60)) / 60, 0, 1) * (t_s < effect.end_s)
            goal = np.maximum(goal, usual_c + (limit_c - usual_c) * before)
    return goal + _wave(board, 0.4, 37.0) + _wave(board, 0.3, 11.0)


def add_load(board: Board) -> None:
    """/proc/stat and the engine's: others keep idle cores busy now and then, which slows nobody."""
    world, lost = board.world, board.world.lost
    waits = 1 / world.slows("memory-pressure")
    beside = 100 * world.extra["load"] + 60 * world.extra["reclaim"]
    is_paced = board.load_pct < 90
    engine = board.load_pct * ((1 - lost) * waits if not is_paced else 1 / world.clock**world.beta)
    idle = max(0.0, board.cores * 100 - board.load_pct - 20)
    others = (
        4
        + np.minimum(_bursts(board, 60, 8, min(idle, 60)) + beside, idle)
        + board.cores * 100 * np.minimum(lost * 1.2, 0.8)
    )
    steal = np.full_like(lost, 0.2)
    if any(effect.how == "steal" for effect in world.effects):
        others, steal = others - board.cores * 100 * np.minimum(lost * 1.2, 0.8), 0.2 + 100 * lost
    total = np.minimum(engine + np.maximum(others, 1) + 1.5, board.cores * 100)
    board.source(
        ("load/cpu", board.positive(total, 3.0), {}), ("load/steal", board.positive(steal, 0.3), {}), lacking=0.1
    )
    board.source(("load/engine", board.positive(engine, 1.0), {}), lacking=0.05)
    board.source(("load/edgetop", board.positive(np.full_like(lost, 1.2), 0.3), {}), lacking=0.05)


def add_scheduling(board: Board, psi: float, waits: float) -> None:
    """`psi`, `waits`: how often there is no pressure, and no run-queue wait."""
    world, lost = board.world, board.world.lost
    noise = _bursts(board, 45, 1.0, 15)
    cpu = board.random.uniform(0.5, 12) + noise + 100 * np.minimum(lost * board.random.uniform(1.0, 1.6), 0.95)
    cpu = np.minimum(cpu + 100 * world.extra["crowding"] + 12 * world.extra["reclaim"], 100)
    memory = world.of("memory-pressure")
    stalled = 100 * (1 - 1 / world.slows("memory-pressure"))
    board.source(("pressure/cpu-some", board.positive(cpu, 1.0), {}), lacking=psi)
    board.source(
        ("pressure/memory-some", board.positive(stalled + 0.05, 0.2), {}),
        ("pressure/memory-full", board.positive(0.8 * stalled, 0.1), {}),
        lacking=psi,
    )
    board.source(("pressure/io-some", board.positive(stalled + _bursts(board, 40, 2, 20), 0.5), {}), lacking=psi)
    board.source(
        ("rate/run-queue-wait", board.positive(8 + noise / 3 + 1000 * lost + 200 * world.extra["crowding"], 4.0), {}),
        lacking=waits,
    )
    switches = board.random.uniform(2, 30) * (1 + 0.1 * noise) + 400 * lost + 300 * world.extra["switches"]
    board.source(("rate/involuntary-switches", board.positive(switches, 3.0), {}), lacking=waits)
    faults = 300 * memory * board.random.uniform(0.1, 1) + _bursts(board, 90, 0.5, 3) + 60 * world.extra["faults"]
    board.source(("rate/major-faults", board.positive(faults, 0.3), {}), lacking=0.1)
    swapped = 3000 * memory * board.random.uniform(0.05, 1) * (board.random.random() < 0.7)
    board.source(("rate/swap-in", board.positive(np.zeros_like(lost) + swapped, 0.5), {}), lacking=0.1)
    left = np.where(memory > 0, 0.5, 900) + 0 * lost
    board.source(
        ("mem/cgroup-left", board.sampled(left), {}), ("mem/cgroup", board.sampled(1500 - left), {}), lacking=0.5
    )
    board.source(("mem/system-available", board.sampled(700 - 600 * memory, 5), {}))


def clock_values(board: Board, full_mhz: float, *, idles: bool, clock: Grid | None = None, noise: float = 0.0) -> Value:
    """In force now; where the model is paced, a governor lowers it between inferences."""
    grid = full_mhz * (board.world.clock if clock is None else clock)

    def value(t_s: NDArray[np.float64]) -> NDArray[np.float64]:
        now = board._at(grid, t_s) * (1 + noise * board.random.normal(size=len(t_s)))
        if idles:
            now = np.where(board.random.random(len(t_s)) < 0.5, now * board.random.choice([0.3, 0.5, 0.7]), now)
        return np.rint(now / 100) * 100 if noise == 0 else now

    return value


def bursts(board: Board, every_s: float, length_s: float, size: float) -> Grid:
    return _bursts(board, every_s, length_s, size)
