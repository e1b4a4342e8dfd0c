"""What slows a model, on a grid of tenths of a second: how much, and what the board does meanwhile."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

STEP_S = 0.1
SETTLED_S = 10.0  # until then the first inferences may be slower than the rest

Grid = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """One cause at work. `ratio`: by how much it slows once it is fully there."""

    cause: str
    start_s: float
    end_s: float
    ratio: float
    shape: str = "step"  # "step", "ramp", "stairs", "settle"
    rise_s: float = 0.0
    how: str = ""  # which of several ways, e.g. "over-current"

    def strength(self, t_s: Grid) -> Grid:
        """0 to 1."""
        since = t_s - self.start_s
        if self.shape == "ramp":
            full = np.clip(since / self.rise_s, 0, 1)
        elif self.shape == "stairs":
            full = np.clip(np.ceil(since / self.rise_s * 3) / 3, 0, 1)
        elif self.shape == "settle":
            full = 1 - np.exp(-np.maximum(since, 0) / self.rise_s)
        else:
            full = np.ones_like(t_s)
        return np.where((since >= 0) & (t_s < self.end_s), full, 0.0)

    def slows(self, t_s: Grid) -> Grid:
        return 1 + (self.ratio - 1) * self.strength(t_s)


@dataclass
class World:
    """The state of the board over time; every array has one value a step."""

    t_s: Grid
    effects: tuple[Effect, ...]
    beta: float  # how latency follows the clock: latency ~ clock ** -beta
    drift: Grid
    blips: Grid  # what is no slowdown: short
    extra: dict[str, Grid] = field(default_factory=dict)

    @property
    def slowed(self) -> Grid:
        """By how much the model is slowed, without what is short and without chance."""
        return self.drift * np.prod(
            [effect.slows(self.t_s) for effect in self.effects] or [np.ones_like(self.t_s)], axis=0
        )

    def of(self, cause: str, how: str = "") -> Grid:
        """How strongly a cause is at work, 0 to 1."""
        parts = [e.strength(self.t_s) for e in self.effects if e.cause == cause and (not how or e.how == how)]
        return np.max(parts, axis=0) if parts else np.zeros_like(self.t_s)

    def slows(self, *causes: str) -> Grid:
        parts = [e.slows(self.t_s) for e in self.effects if e.cause in causes]
        return np.prod(parts, axis=0) if parts else np.ones_like(self.t_s)

    @property
    def clock(self) -> Grid:
        """The part of its full clock at which the board runs."""
        visible = [e for e in self.effects if e.cause in CLOCK_CAUSES and e.how != "over-current"]
        slows = np.prod([e.slows(self.t_s) for e in visible] or [np.ones_like(self.t_s)], axis=0)
        return slows ** (-1 / self.beta)

    @property
    def lost(self) -> Grid:
        """The part of the time in which others have the engine's CPU."""
        return 1 - 1 / self.slows("contention")


CLOCK_CAUSES = ("thermal", "power-cap", "under-voltage", "clock-change")


@dataclass(frozen=True)
class Truth:
    start_s: float
    end_s: float
    cause: str


def truths(world: World, burst_until_s: float) -> tuple[Truth, ...]:
    """By the definition: 8 % over the burst for 3 s, interruptions under 10 s included."""
    t_s, slowed = world.t_s, world.slowed
    burst = np.median(slowed[t_s < burst_until_s])
    is_slow = slowed >= 1.08 * burst
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_slow, [False]]).astype(int)))
    spans = [(b * STEP_S, e * STEP_S) for b, e in edges.reshape(-1, 2)]
    joined: list[list[float]] = []
    for begin, end in spans:
        if joined and begin - joined[-1][1] < 10:
            joined[-1][1] = end
        else:
            joined.append([begin, end])
    spans = [(float(begin), float(end)) for begin, end in joined if end - begin >= 3 and end > SETTLED_S]
    return tuple(Truth(begin, end, _main_cause(world, begin, end)) for begin, end in spans)


def is_borderline(world: World, burst_until_s: float) -> bool:
    """Whether the level stays for more than a moment where it is neither a slowdown nor surely none."""
    burst = np.median(world.slowed[world.t_s < burst_until_s])
    near = (world.slowed > 1.07 * burst) & (world.slowed < 1.095 * burst) & (world.t_s > SETTLED_S)
    return float(np.count_nonzero(near)) * STEP_S > 4


def draw_decoys(random: np.random.Generator, world: World) -> None:
    """What happens beside, and slows nothing: never within some seconds of what is true."""
    edges = [edge for effect in world.effects for edge in (effect.start_s, effect.end_s)]
    for name in ("flag", "load", "faults", "clock", "switches"):
        grid = np.zeros_like(world.t_s)
        for _ in range(int(random.integers(0, 4))):
            at, long_s = float(random.uniform(10, world.t_s[-1] - 10)), float(random.exponential(12)) + 0.5
            if all(abs(at - edge) > 6 and abs(at + long_s - edge) > 6 for edge in edges):
                grid[int(at / STEP_S) : int((at + long_s) / STEP_S)] = random.uniform(0.3, 1)
        world.extra[name] = grid
    # Of a slower clock: the model and the others share fewer cycles.
    world.extra["crowding"] = random.choice([0.0, 0.3]) * (1 - world.clock)
    world.extra["reclaim"] = random.choice([0.0, 0.5]) * world.of("memory-pressure")


def _main_cause(world: World, begin_s: float, end_s: float) -> str:
    """That of the effect that began with it and lasted longest of those."""
    over = {
        e.cause: min(e.end_s, end_s) - max(e.start_s, begin_s)
        for e in world.effects
        if e.start_s <= begin_s + 0.2 and e.end_s > begin_s
    }
    return max(over, key=lambda cause: over[cause], default="unknown")
