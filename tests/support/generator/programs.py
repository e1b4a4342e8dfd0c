"""Generated programs: two to five models whose mix changes, on the boards and with the causes of other sessions.

In a cold program, one model is slower behind calls of the others, which take the caches from it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetop.session.load_settings import Load
from edgetop.session.manifest import Watched, WatchedStream
from edgetop.session.records import MEASURE, WARMUP, Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from tests.support.generator.effects import STEP_S, Grid, Truth
from tests.support.generator.load import WARMUP_S, LoadPlan, draw_load
from tests.support.generator.plans import Generated, generate
from tests.support.sessions import make_inferences

NAMES = ("/models/det.onnx", "/models/cls.onnx", "/models/rec.onnx", "/models/vad.onnx", "/models/seg.onnx")


@dataclass(frozen=True)
class Program:
    """A session of a program, and what is true of it."""

    session: Generated
    names: tuple[str, ...]
    slowed: tuple[str, ...]  # the streams that the slowdowns of `session.truth` are of
    is_paced: bool


def generate_program(seed: int, *, is_slow: bool | None = None) -> Program:
    """Return the program of this seed. `is_slow`: whether something slows it; drawn if not given."""
    random = np.random.default_rng((seed, 39))
    is_slow = bool(random.random() < 0.5) if is_slow is None else is_slow
    base = generate(seed, "single" if is_slow else "healthy")
    count = int(random.integers(2, 6))
    plans = [replace(draw_load(random, 0.002, 0.12), pauses_s=None) for _ in range(count)]
    world = base.world
    undisturbed, slowed = world.drift, world.slowed
    # What no signal of the board explains is in one model alone.
    is_own = any(effect.cause == "unknown" for effect in world.effects)
    alone = {int(random.integers(count))} if is_own else set(range(count))
    slows = [(slowed if number in alone else undisturbed) * world.blips for number in range(count)]
    is_paced = bool(random.random() < 0.4)
    make = _paced if is_paced else _back_to_back
    names = NAMES[:count]
    session = _watched(base, names, make(random, plans, slows, base.end_s))
    short = tuple(name.rpartition("/")[2] for name in names)
    return Program(session, short, tuple(short[number] for number in sorted(alone)) if is_slow else (), is_paced)


def _watched(base: Generated, names: tuple[str, ...], runs: Inferences) -> Generated:
    """Return the session with these inferences as one of a watched program."""
    aggregator = SecondAggregator(split_by="stream")
    watched = Watched(("./program",), streams=tuple(WatchedStream(name) for name in names))
    manifest = replace(base.manifest, load=Load(), watched=watched)
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    return replace(base, manifest=manifest, inferences=runs, seconds=seconds)


def generate_cold_program(seed: int) -> Program:
    """Return the program of this seed in which a change of the mix, and nothing else, slows one small model."""
    random = np.random.default_rng((seed, 40))
    base = generate(seed, "healthy")
    count = int(random.integers(2, 5))
    small = replace(draw_load(random, 0.0002, 0.004), pauses_s=None, rate_hz=None)
    plans = [small, *(replace(draw_load(random, 0.01, 0.06), pauses_s=None) for _ in range(count - 1))]
    start_s = float(random.uniform(45, base.end_s - 45))
    end_s = base.end_s if random.random() < 0.6 else float(random.uniform(start_s + 20, base.end_s - 10))
    cold = Cold(float(random.uniform(1.4, 4)), start_s, end_s)
    slows = [base.world.blips] * count
    is_paced = bool(random.random() < 0.4)
    runs = (_cold_paced if is_paced else _cold_back_to_back)(random, plans, slows, cold, base.end_s)
    names = NAMES[:count]
    truth = (Truth(start_s, end_s, "mix"),)
    session = _watched(replace(base, truth=truth, kind="mix"), names, runs)
    short = tuple(name.rpartition("/")[2] for name in names)
    return Program(session, short, short[:1], is_paced)


@dataclass(frozen=True)
class Cold:
    """When calls of others come between those of the first model, and by how much these are slower then."""

    ratio: float
    start_s: float
    end_s: float

    def holds(self, t_s: float | Grid) -> bool | NDArray[np.bool_]:
        return (t_s >= self.start_s) & (t_s < self.end_s)  # type: ignore[return-value]


def _cold_back_to_back(
    random: np.random.Generator, plans: list[LoadPlan], slows: list[Grid], cold: Cold, end_s: float
) -> Inferences:
    """One call after the other; the share of the first model changes with `cold`, those of the others at all times."""
    times, weights = _mix(random, len(plans) - 1, end_s)
    few, many = float(random.uniform(0.02, 0.2)), float(random.uniform(0.6, 0.9))
    now, place, is_behind, rows = 0.0, 0, False, []
    while now < end_s:
        while place + 1 < len(times) and times[place + 1] <= now:
            place += 1
        share = many if cold.holds(now) else few
        number = 0
        if random.random() < share:
            number = 1 + int(random.choice(len(plans) - 1, p=weights[place] / weights[place].sum()))
        noise = np.exp(plans[number].scatter * random.normal())
        slow = slows[number][min(int(now / STEP_S), len(slows[number]) - 1)]
        latency = plans[number].latency_s * noise * slow * (cold.ratio if is_behind and number == 0 else 1.0)
        rows.append((now, latency, number))
        now, is_behind = now + latency, number > 0
        if len(rows) % 50 == 0 and not cold.holds(now):
            now += 0.05  # A pause, so that the fast calls are not too many.
    return _inferences(np.array(rows), end_s)


def _cold_paced(
    random: np.random.Generator, plans: list[LoadPlan], slows: list[Grid], cold: Cold, end_s: float
) -> Inferences:
    """Each model at a rate of its own; those of the others rise with `cold`."""
    own_hz = float(random.uniform(5, 40))
    few, many = float(random.uniform(0.02, 0.2)), float(random.uniform(1.5, 4))  # of other calls for each own
    parts = []
    for number, plan in enumerate(plans):
        rate_hz = own_hz if number == 0 else own_hz * many / (len(plans) - 1)
        start = np.arange(int(end_s * rate_hz)) / rate_hz + random.random() / rate_hz
        if number:
            start = start[random.random(len(start)) < np.where(cold.holds(start), 1.0, few / many)]
        noise = np.exp(random.normal(0, plan.scatter, len(start)))
        slow = slows[number][np.minimum((start / STEP_S).astype(int), len(slows[number]) - 1)]
        parts.append(np.column_stack([start, plan.latency_s * noise * slow, np.full(len(start), number)]))
    own, others = parts[0], np.sort(np.concatenate([part[:, 0] for part in parts[1:]]))
    since = np.concatenate([[0.0], own[:-1, 0]])
    is_behind = np.searchsorted(others, own[:, 0]) > np.searchsorted(others, since)
    own[:, 1] *= np.where(is_behind, cold.ratio, 1.0)
    rows = np.concatenate(parts)
    return _inferences(rows[np.argsort(rows[:, 0], kind="stable")], end_s)


def _mix(random: np.random.Generator, count: int, end_s: float) -> tuple[Grid, NDArray[np.float64]]:
    """Return times, and from each on the weights of the streams: shape (times, streams)."""
    times = [0.0]
    while times[-1] < end_s:
        times.append(times[-1] + float(random.uniform(10, 60)))
    return np.array(times), np.exp(random.normal(0, 1.3, (len(times), count)))


def _back_to_back(random: np.random.Generator, plans: list[LoadPlan], slows: list[Grid], end_s: float) -> Inferences:
    """One call after the other, each of a stream drawn by the present mix."""
    times, weights = _mix(random, len(plans), end_s)
    shares = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    pause_s = float(random.choice([0.0, 0.001, 0.004]))
    now, place, rows = 0.0, 0, []
    while now < end_s:
        draws = random.random(4096).tolist(), random.normal(0, 1, 4096).tolist(), random.random(4096).tolist()
        for which, scatter, luck in zip(*draws, strict=True):
            while place + 1 < len(times) and times[place + 1] <= now:
                place += 1
            number = min(int(np.searchsorted(shares[place], which)), len(plans) - 1)
            plan = plans[number]
            noise = np.exp(plan.scatter * scatter + (1.0 if luck < plan.outliers else 0.0))
            latency = plan.latency_s * noise * slows[number][min(int(now / STEP_S), len(slows[number]) - 1)]
            rows.append((now, latency, number))
            now += latency + pause_s
    return _inferences(np.array(rows), end_s)


def _paced(random: np.random.Generator, plans: list[LoadPlan], slows: list[Grid], end_s: float) -> Inferences:
    """Each stream at a rate of its own, which changes; calls of different streams may overlap."""
    parts = []
    for number, plan in enumerate(plans):
        times, weights = _mix(random, 1, end_s)
        rate_hz = float(random.uniform(0.1, 0.6)) / plan.latency_s
        start = np.arange(int(end_s * rate_hz)) / rate_hz
        weight = np.clip(weights[np.searchsorted(times, start, side="right") - 1, 0], 0.05, 1)
        start = start[random.random(len(start)) < weight]
        noise = np.exp(random.normal(0, plan.scatter, len(start)) + 1.0 * (random.random(len(start)) < plan.outliers))
        slow = slows[number][np.minimum((start / STEP_S).astype(int), len(slows[number]) - 1)]
        parts.append(np.column_stack([start, plan.latency_s * noise * slow, np.full(len(start), number)]))
    rows = np.concatenate(parts)
    return _inferences(rows[np.argsort(rows[:, 0], kind="stable")], end_s)


def _inferences(rows: NDArray[np.float64], end_s: float) -> Inferences:
    rows = rows[rows[:, 0] + rows[:, 1] < end_s]
    phase = np.where(rows[:, 0] < WARMUP_S, WARMUP, MEASURE)
    made = make_inferences(
        (rows[:, 0] * NS).astype(np.int64), np.maximum(rows[:, 1] * NS, 1_000).astype(np.int64), phase=phase
    )
    made["stream"] = rows[:, 2]
    return made
