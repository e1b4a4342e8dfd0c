"""The inferences of a generated session: back to back or paced, with the noise that real ones have."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetop.session.records import MEASURE, WARMUP, Inferences
from edgetop.session.seconds import NS
from tests.support.generator.effects import STEP_S, World
from tests.support.sessions import make_inferences

WARMUP_S = 3.0


@dataclass(frozen=True)
class LoadPlan:
    latency_s: float  # median, undisturbed
    rate_hz: float | None  # None: back to back
    scatter: float  # of single inferences, in nepers
    wander: float  # of whole seconds
    memory: float  # how far a second's wander is that of the one before
    outliers: float  # share of inferences
    pauses_s: float | None  # between garbage collections; None: none


def draw_load(random: np.random.Generator, fastest_s: float = 0.004, slowest_s: float = 0.25) -> LoadPlan:
    latency_s = float(np.exp(random.uniform(np.log(fastest_s), np.log(slowest_s))))
    is_paced = random.random() < 0.35
    per_second = 1 / latency_s
    few = per_second < 8
    return LoadPlan(
        latency_s=latency_s,
        rate_hz=float(random.uniform(0.15, 0.6) * per_second) if is_paced else None,
        scatter=float(np.exp(random.uniform(np.log(0.004), np.log(0.06 if few else 0.2)))),
        wander=float(random.choice([0, 0.005, 0.01, 0.02])) * (0.5 if few else 1),
        memory=float(random.uniform(0.2, 0.9)),
        outliers=float(random.choice([0, 0.001, 0.03])),
        pauses_s=float(random.uniform(3, 60)) if random.random() < 0.4 else None,
    )


def inferences(random: np.random.Generator, plan: LoadPlan, world: World, end_s: float) -> Inferences:
    """From 0; the first WARMUP_S are warm-up."""
    slows = world.slowed * world.blips * _pauses(random, plan, world)
    if plan.rate_hz is None:
        work = plan.latency_s * _noise(random, plan, int(1.3 * end_s / plan.latency_s) + 8)
        done = np.concatenate([[0.0], np.cumsum(work)])
        progress = np.concatenate([[0.0], np.cumsum(STEP_S / slows)])  # undisturbed time that has been worked off
        t_s = np.interp(done, progress, np.arange(len(progress)) * STEP_S)
        start, latency = t_s[:-1], np.diff(t_s)
        kept = t_s[1:] < end_s
    else:
        start = np.arange(int(end_s * plan.rate_hz)) / plan.rate_hz + 0.001 * random.random(int(end_s * plan.rate_hz))
        noise = _noise(random, plan, len(start))
        begin = slows[np.minimum((start / STEP_S).astype(int), len(slows) - 1)]
        ends = np.minimum(((start + plan.latency_s * begin) / STEP_S).astype(int), len(slows) - 1)
        latency = plan.latency_s * noise * (begin + slows[ends]) / 2
        kept = start + latency < end_s
    start, latency = start[kept], latency[kept]
    phase = np.where(start < WARMUP_S, WARMUP, MEASURE)
    return make_inferences((start * NS).astype(np.int64), np.maximum(latency * NS, 1_000).astype(np.int64), phase=phase)


def _noise(random: np.random.Generator, plan: LoadPlan, count: int) -> NDArray[np.float64]:
    own = random.normal(0, plan.scatter, count)
    seconds = int(count * plan.latency_s * (1 / (plan.rate_hz * plan.latency_s) if plan.rate_hz else 1)) + 2
    steps = random.normal(0, plan.wander * np.sqrt(1 - plan.memory**2), seconds)
    wander = np.empty(seconds)
    level = 0.0
    for place, step in enumerate(steps):
        level = plan.memory * level + step
        wander[place] = level
    own += wander[np.minimum(np.arange(count) * seconds // max(count, 1), seconds - 1)]
    is_outlier = random.random(count) < plan.outliers
    own[is_outlier] += random.uniform(0.7, 3.0, int(is_outlier.sum()))
    return np.exp(own)


def _pauses(random: np.random.Generator, plan: LoadPlan, world: World) -> NDArray[np.float64]:
    """Garbage collections and their like: some hundred milliseconds, again and again."""
    slows = np.ones_like(world.t_s)
    if plan.pauses_s is None:
        return slows
    length, ratio = random.uniform(0.02, 0.4), random.uniform(1.5, 4)
    for at in np.arange(random.uniform(0, plan.pauses_s), world.t_s[-1], plan.pauses_s):
        first = int(at / STEP_S)
        slows[first : first + max(1, round(length / STEP_S))] = ratio
    return slows
