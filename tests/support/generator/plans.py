"""What happens in a generated session, drawn from its seed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board as BoardInfo
from edgetop.session.manifest import Manifest
from edgetop.session.records import NO_INFERENCES, Inferences, Readings
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, Seconds, concatenate
from tests.support.generator.boards import Board
from tests.support.generator.effects import STEP_S, Effect, Grid, Truth, World, draw_decoys, is_borderline
from tests.support.generator.kinds import BOARDS
from tests.support.generator.load import WARMUP_S, LoadPlan, draw_load, inferences
from tests.support.generator.on_top import FIRST_OF_TWO, ON_TOP, draw_on_top, stages
from tests.support.generator.widened import WIDENED, Wider, draw_wider, truths_of
from tests.support.sessions import ended_event, make_manifest, phase_event

CAUSES = ("thermal", "power-cap", "under-voltage", "contention", "memory-pressure", "clock-change", "unknown")
BURST_S = 33.0
SLOW_MODEL = "slow-model"  # one of these causes, and a model that takes 1.5 to 2.6 s an inference
# What a session of a kind begins with, where not all can.
_FIRST = {"from-start": ("thermal", "under-voltage", "power-cap"), ON_TOP: FIRST_OF_TWO}


@dataclass(frozen=True)
class Generated:
    """One session, and what is true of it."""

    seed: int
    board: str
    kind: str  # "single", "mixture", "several", "on-top", "from-start", "healthy", SLOW_MODEL, or one of WIDENED
    load: LoadPlan
    truth: tuple[Truth, ...]
    manifest: Manifest
    seconds: Seconds
    readings: Readings
    events: tuple[Event, ...]
    end_s: float
    inferences: Inferences
    world: World

    def batches(self, cuts_s: tuple[float, ...] = (), *, single: bool = False) -> Iterator[Batch]:
        """Cut at these times; `single`: with each inference."""
        begin = -1
        for end_s in [*sorted(set(cuts_s)), self.end_s]:
            end = int(end_s * NS)
            is_last = end_s == self.end_s
            ends = self.seconds.rows["t_ns"] + NS
            known = (ends > begin) & ((ends <= end) | is_last)
            read = (self.readings["t_ns"] > begin) & (self.readings["t_ns"] <= end)
            started = (self.inferences["t_ns"] > begin) & (self.inferences["t_ns"] <= end)
            yield Batch(
                until_ns=end,
                inferences=self.inferences[started] if single else NO_INFERENCES,
                seconds=self.seconds.where(known),
                readings=self.readings[read],
                events=tuple(
                    event for event in self.events if begin < event.t_ns <= end or (is_last and event.t_ns > end)
                ),
                manifest=self.manifest if begin < 0 else None,
                restart=begin < 0,
            )
            begin = end


def generate(seed: int, kind: str | None = None, *, length_s: float | None = None) -> Generated:
    """The session of this seed; `kind` and `length_s` are drawn where they are not given."""
    random = np.random.default_rng(seed)
    while True:
        session = _drawn_session(random, seed, kind, length_s)
        if session is not None:
            return session


def _drawn_session(
    random: np.random.Generator, seed: int, kind: str | None, length_s: float | None
) -> Generated | None:
    """None: what was drawn is neither slow nor not, by the definition: between 7 and 9.5 % above the burst."""
    shares = {"single": 0.56, "mixture": 0.12, "several": 0.08, "from-start": 0.06, "healthy": 0.18}
    if kind in WIDENED:
        wider = draw_wider(random, kind)
        return _made(random, seed, kind, wider.board, wider.load, wider.effects, wider.length_s, wider)
    kind = kind or str(random.choice(list(shares), p=list(shares.values())))
    cause = str(random.choice(_FIRST.get(kind, CAUSES)))
    board = str(random.choice([name for name, (_, _, causes) in BOARDS.items() if cause in causes]))
    load = _draw_load(random, kind)
    length_s = length_s or float(random.uniform(150, 320))
    if kind == ON_TOP:
        effects: tuple[Effect, ...] = draw_on_top(random, cause, board, length_s)
    else:
        effects = _draw_effects(random, kind, cause, board, length_s, load)
    return _made(random, seed, kind, board, load, effects, length_s)


def _draw_load(random: np.random.Generator, kind: str) -> LoadPlan:
    if kind == SLOW_MODEL:
        return replace(draw_load(random, 1.5, 2.6), rate_hz=None)
    special = random.random()
    if special < 0.08:
        return replace(draw_load(random, 0.5, 2.5), rate_hz=None)
    load = draw_load(random)
    if special < 0.18:
        return replace(
            load,
            rate_hz=float(random.choice([1.0, 2.0])) if load.latency_s < 0.3 else None,
            scatter=min(load.scatter, 0.04),
        )
    return load


def _draw_effects(
    random: np.random.Generator, kind: str, cause: str, board: str, length_s: float, load: LoadPlan
) -> tuple[Effect, ...]:
    slow_model = load.latency_s > 0.4 or (load.rate_hz or 9) < 3
    least_s = 30.0 if slow_model else 8.0
    if kind == "healthy":
        return ()
    if kind == "from-start":
        end_s = length_s + 1 if random.random() < 0.5 else float(random.uniform(40, length_s - 60))
        return (_effect(random, cause, board, -5.0, end_s, 1.4, "step"),)
    start_s = float(random.uniform(12 if random.random() < 0.1 else 45, length_s - max(40, least_s + 15)))
    if kind == "several":
        effects = []
        start_s = float(random.uniform(45, 70))
        while start_s < length_s - least_s - 20:
            end_s = start_s + float(random.uniform(least_s, max(40, least_s + 10)))
            effects.append(_drawn(random, cause, board, start_s, min(end_s, length_s + 1)))
            start_s = end_s + float(random.uniform(20, 60))
        return tuple(effects)
    lasts = float(random.uniform(least_s, length_s - start_s)) if random.random() < 0.6 else length_s
    first = _drawn(random, cause, board, start_s, min(start_s + lasts, length_s + 1))
    if kind in ("single", SLOW_MODEL) or cause == "unknown":
        return _perhaps_interrupted(random, first, may=not slow_model)
    others = [c for c in BOARDS[board][2] if c not in (cause, "unknown", "clock-change")]
    if not others or cause == "clock-change":
        return (first,)
    second = _drawn(random, str(random.choice(others)), board, start_s, length_s)
    long_s = first.end_s - start_s
    short_s = start_s + float(random.uniform(0.2, 0.55)) * long_s
    return (
        replace(first, shape="step"),
        replace(second, start_s=start_s + float(random.uniform(0, 1.5)), end_s=short_s, shape="step"),
    )


def _perhaps_interrupted(random: np.random.Generator, effect: Effect, *, may: bool) -> tuple[Effect, ...]:
    """Now and then, for less than ten seconds."""
    if random.random() >= 0.15:
        return (effect,)
    gap_s = effect.start_s + float(random.uniform(4, 0.7 * (effect.end_s - effect.start_s)))
    if gap_s + 15 >= effect.end_s or not may:
        return (effect,)
    later = replace(effect, start_s=gap_s + float(random.uniform(1, 8)), shape="step")
    return (replace(effect, end_s=gap_s, shape="step"), later)


def _drawn(random: np.random.Generator, cause: str, board: str, start_s: float, end_s: float) -> Effect:
    ratio = 1 + float(np.exp(random.uniform(np.log(0.10), np.log(1.2))))
    shape = str(random.choice(["step", "ramp", "stairs", "settle"], p=[0.55, 0.15, 0.15, 0.15]))
    return _effect(random, cause, board, start_s, end_s, ratio, shape if cause != "unknown" else "step")


def _effect(
    random: np.random.Generator, cause: str, board: str, start_s: float, end_s: float, ratio: float, shape: str
) -> Effect:
    how = ""
    if cause == "power-cap" and board == "jetson-orin":
        how = str(random.choice(["mode", "over-current"])) if start_s > 0 else "over-current"
    elif cause == "contention" and board == "virtual-machine":
        how = str(random.choice(["steal", ""]))
    if cause == "under-voltage":
        ratio = max(ratio, 1.3)
    rise_s = float(random.uniform(2, min(20, 0.3 * (end_s - start_s) + 2)))
    return Effect(cause, start_s, end_s, ratio, shape, rise_s, how)


def _made(
    random: np.random.Generator,
    seed: int,
    kind: str,
    name: str,
    load: LoadPlan,
    effects: tuple[Effect, ...],
    end_s: float,
    wider: Wider | None = None,
) -> Generated | None:
    t_s = np.arange(0, end_s + 5, STEP_S)
    beta = float(random.uniform(0.6, 1.0))
    drift = _drift(random, t_s) if kind != "from-start" else np.ones_like(t_s)
    world = World(t_s, effects, beta, drift, _blips(random, t_s, effects))
    burst_s = max(BURST_S, WARMUP_S + 7 * max(load.latency_s, 1 / (load.rate_hz or 1e9))) if wider else BURST_S
    if kind != "from-start" and is_borderline(world, burst_s):
        return None
    add, cores, causes = BOARDS[name]
    busy = 1.0 if load.rate_hz is None else min(1.0, load.rate_hz * load.latency_s)
    engine_pct = 100 * busy * float(random.choice([1, 1, 2]) if cores > 2 else 1)
    proofs = frozenset(sensor for effect in effects for sensor in causes.get(effect.cause, ()))
    board = Board(random, world, cores, engine_pct, proofs | (wider.proofs if wider else frozenset()))
    board.cadence_s = wider.cadence_s if wider else None
    draw_decoys(random, world)
    add(board)
    runs = inferences(random, load, world, end_s)
    aggregator = SecondAggregator()
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    mode = "closed" if load.rate_hz is None else "fixed"
    manifest = make_manifest(
        *(sensor.info for sensor in board.sensors),
        board=BoardInfo(model=name, cores=cores, governor="schedutil"),
        load=Load(mode=mode, rate_hz=load.rate_hz),  # type: ignore[arg-type]
    )
    events = (
        phase_event(0, "warmup", runs=50),
        phase_event(int(WARMUP_S * NS), "measure", runs=None),
        ended_event(int(end_s * NS), "duration"),
    )
    if kind == "from-start":
        truth: tuple[Truth, ...] = (Truth(WARMUP_S, min(effects[0].end_s, end_s), effects[0].cause),)
    elif kind == ON_TOP:
        truth = stages(effects, end_s)
    else:
        found = truths_of(kind, world, burst_s, end_s)
        truth = tuple(replace(t, end_s=min(t.end_s, end_s)) for t in found if t.start_s < end_s - 6)
    missing = float(random.choice([0, 0.02, 0.05]))
    return Generated(
        seed, name, kind, load, truth, manifest, seconds, board.readings(end_s, missing), events, end_s, runs, world
    )  # fmt: skip


def _drift(random: np.random.Generator, t_s: Grid) -> Grid:
    """Up to 5 % from the slowest to the fastest, over minutes to a day; and at times a first that is still settling."""
    size, period_s = float(random.uniform(0, 0.025)), float(np.exp(random.uniform(np.log(200), np.log(86_400))))
    wave = 1 + size * np.sin(2 * np.pi * (t_s / period_s + random.random()))
    if random.random() < 0.5:  # and it wanders, over minutes
        knots = np.arange(0, t_s[-1] + 90, 45)
        wave = wave * np.interp(t_s, knots, np.exp(random.uniform(-0.012, 0.012, len(knots))))
    settling = 0.3 * np.exp(-np.maximum(t_s - WARMUP_S, 0) / 2.0) if random.random() < 0.2 else 0.0
    return np.asarray(wave / wave[0] + settling)


def _blips(random: np.random.Generator, t_s: Grid, effects: tuple[Effect, ...]) -> Grid:
    """Single slow moments of up to two seconds, apart from each other and from the edges of what is true."""
    slows = np.ones_like(t_s)
    edges = [edge for effect in effects for edge in (effect.start_s, effect.end_s)]
    at, every_s = float(random.exponential(60)) + 5, float(random.choice([20, 100]))
    while at < t_s[-1] - 5:
        long_s = float(random.uniform(0.2, 2.0))
        if all(abs(at - edge) > 15 for edge in edges):
            slows[int(at / STEP_S) : int((at + long_s) / STEP_S)] = random.uniform(1.2, 3.0)
        at += 15 + float(random.exponential(every_s))
    return slows


__all__ = ["CAUSES", "Generated", "generate"]
