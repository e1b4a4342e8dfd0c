"""Wider sessions: oscillations at every pace, wide noise, fast ramps, slow reads, others from the start, any model.

Or others from the start that leave, and only some calm seconds until something else slows the model.
"""

from dataclasses import dataclass, replace

import numpy as np

from tests.support.generator.effects import Effect, Truth, World, truths
from tests.support.generator.kinds import BOARDS
from tests.support.generator.load import WARMUP_S, LoadPlan, draw_load

CONTENDED, SOON_AFTER = "contended", "soon-after-contention"
WIDENED = ("oscillating", "wide-noise", "fast-ramp", "slow-reads", CONTENDED, "any-model", SOON_AFTER)
_WITNESS = frozenset({"rate/run-queue-wait", "load/cpu", "load/engine", "load/edgetop"})
_QUICKEST_S, _SLOWEST_S = 20e-6, 5.0
_MOST_HZ = 1_500.0  # of models that take microseconds: more of them say no more


@dataclass(frozen=True)
class Wider:
    """What a session of one of these kinds is made of."""

    board: str
    load: LoadPlan
    effects: tuple[Effect, ...]
    length_s: float
    cadence_s: float | None = None  # of every sensor, give or take; None: each has its own
    proofs: frozenset[str] = frozenset()


def draw_wider(random: np.random.Generator, kind: str) -> Wider:
    cause = str(random.choice(["thermal", "power-cap", "contention", "memory-pressure", "under-voltage", "unknown"]))
    if kind == "oscillating":
        cause = str(random.choice(["thermal", "thermal", "power-cap", "contention"]))
    board = str(random.choice([name for name, (_, _, causes) in BOARDS.items() if cause in causes]))
    load = _any_model(random) if kind in ("oscillating", "any-model") else draw_load(random)
    if kind == "oscillating":
        return Wider(board, load, *_oscillation(random, cause, _how(random, cause, board), load))
    if kind == CONTENDED:
        return _contended(random, board, load)
    if kind == SOON_AFTER:
        return _soon_after(random, board, load)
    apart_s = max(load.latency_s, 1 / (load.rate_hz or 1e9))
    length_s = float(random.uniform(200, 320)) + 60 * apart_s
    if kind == "wide-noise":
        load = replace(draw_load(random, 0.004, 0.1), wander=0.06, memory=0.9)
        start_s, ratio = float(random.uniform(120, 160)), float(random.uniform(2.2, 3.0))
        effects = (
            () if random.random() < 0.4 else (Effect(cause, start_s, 400.0, ratio, how=_how(random, cause, board)),)
        )
        return Wider(board, load, effects, 320.0)
    least_s = max(10.0, 14 * apart_s)
    start_s = float(random.uniform(45 + 10 * apart_s, length_s - 2 * least_s - 20))
    end_s = start_s + float(random.uniform(least_s * 1.5, length_s - start_s))
    shape, rise_s = "step", 0.0
    if kind == "fast-ramp":
        shape, rise_s = str(random.choice(["ramp", "stairs", "settle"])), float(random.uniform(0.3, 3))
    how = _how(random, cause, board)
    effect = Effect(cause, start_s, end_s, float(random.uniform(1.25, 2.0)), shape, rise_s, how)
    cadence_s = 2.0 if kind == "slow-reads" else None
    return Wider(board, load, (effect,), length_s, cadence_s)


def _how(random: np.random.Generator, cause: str, board: str) -> str:
    return str(random.choice(["mode", "over-current"])) if (cause, board) == ("power-cap", "jetson-orin") else ""


def _any_model(random: np.random.Generator) -> LoadPlan:
    latency_s = float(np.exp(random.uniform(np.log(_QUICKEST_S), np.log(_SLOWEST_S))))
    if random.random() < 0.5:
        latency_s = float(np.exp(random.uniform(np.log(0.15), np.log(_SLOWEST_S))))
    load = replace(draw_load(random), latency_s=latency_s)
    per_second = 1 / latency_s
    paced = random.random() < 0.3
    rate_hz = float(random.uniform(0.15, 0.6)) * per_second if paced else None
    if latency_s < 1e-3:
        rate_hz = _MOST_HZ * float(random.uniform(0.3, 1))
    # Of a model that takes seconds, one outlier would be a slowdown by itself.
    outliers = load.outliers if per_second > 2 else 0.0
    return replace(load, rate_hz=rate_hz, scatter=min(load.scatter, 0.06 if per_second < 8 else 0.2), outliers=outliers)


def _oscillation(random: np.random.Generator, cause: str, how: str, load: LoadPlan) -> tuple[tuple[Effect, ...], float]:
    ratio = float(random.uniform(1.2, 1.8))
    apart_s = max(load.latency_s, 1 / (load.rate_hz or 1e9))
    slow_s = max(8.0, 10 * apart_s * ratio) * float(np.exp(random.uniform(0, 1.8)))
    fast_s = max(13.0, 8 * apart_s) * float(np.exp(random.uniform(0, 1.2)))
    start_s, effects = max(45.0, 12 * apart_s + WARMUP_S) + float(random.uniform(0, 15)), []
    end_s = start_s + float(random.uniform(3, 6)) * (slow_s + fast_s)
    while start_s + slow_s < end_s:
        effects.append(Effect(cause, start_s, start_s + slow_s, ratio, how=how))
        start_s += slow_s + fast_s
    return tuple(effects), min(end_s, 1_500.0)


def _contended(random: np.random.Generator, board: str, load: LoadPlan) -> Wider:
    """Others hold the CPU when it begins; they stay, or leave; and a limit may come on top."""
    length_s = float(random.uniform(220, 320))
    over_s = length_s + 1 if random.random() < 0.7 else float(random.uniform(60, 110))
    effects = [Effect("contention", -5.0, over_s, float(random.uniform(1.25, 2.5)))]
    if random.random() < 0.6:
        causes = [c for c in BOARDS[board][2] if c in ("thermal", "under-voltage", "memory-pressure", "unknown")]
        begin_s = (0 if over_s > length_s else over_s) + float(random.uniform(50, 90))
        later = Effect(str(random.choice(causes)), begin_s, begin_s + float(random.uniform(20, 120)), 1.5)
        effects.append(later)
    return Wider(board, load, tuple(effects), length_s, proofs=_WITNESS)


def _soon_after(random: np.random.Generator, board: str, load: LoadPlan) -> Wider:
    """Others hold the CPU when it begins, and leave; a limit sets in after calm seconds enough for a baseline."""
    causes = [cause for cause in BOARDS[board][2] if cause not in ("contention", "clock-change")]
    cause = str(random.choice(causes))
    load = replace(load, rate_hz=float(random.uniform(20, 200)), latency_s=float(random.uniform(0.001, 0.004)))
    over_s = float(random.uniform(30, 90))
    begin_s = over_s + float(random.uniform(6.5, 10))
    end_s = begin_s + float(random.uniform(25, 100))
    first = Effect("contention", -5.0, over_s, float(random.uniform(1.25, 2.5)))
    later = Effect(cause, begin_s, end_s, float(random.uniform(1.5, 2.2)), how=_how(random, cause, board))
    length_s = end_s + float(random.choice([-8, 40]))
    return Wider(board, load, (first, later), length_s, proofs=_WITNESS | set(BOARDS[board][2][cause]))


def truths_of(kind: str, world: World, burst_s: float, end_s: float) -> tuple[Truth, ...]:
    """Of what stands from the start, and of what rises above it."""
    if kind not in (CONTENDED, SOON_AFTER):
        return truths(world, burst_s)
    first, *later = world.effects
    from_s = first.end_s if first.end_s < end_s else 0.0
    above = replace(world, effects=tuple(later))
    found = [
        t if t.cause != "unknown" or t.start_s >= first.end_s else replace(t, cause="contention")
        for t in truths(above, from_s + burst_s)
    ]
    return (Truth(WARMUP_S, min(first.end_s, end_s), "contention"), *found)
