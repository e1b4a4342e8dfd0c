"""Sessions whose law is known, for comparisons: runs of one thing that differ as real ones do."""

from dataclasses import replace

import numpy as np

from edgetop.analysis.analysis import Analysis
from edgetop.comparison.sample import Group, Sample, sample
from edgetop.session.batch import Batch
from edgetop.session.manifest import Manifest, Methodology
from edgetop.session.seconds import NS
from tests.support.sessions import (
    MS,
    ended_event,
    folded,
    make_inferences,
    make_manifest,
    make_readings,
    make_sensor,
    phase_event,
    seconds_of,
    session_id,
)

RATE_HZ = 40
BETWEEN = 0.008  # standard deviation of the level of a session, as the log
WARMING = 0.03  # from cold to warm


def session(
    seed: int, *, seconds: int = 60, times: float = 1.0, between: float = BETWEEN, name: str = "", **changes: object
) -> Analysis:
    """AR noise with a memory of half a second, jumps of seconds, a drift with the heat, another start temperature."""
    random = np.random.default_rng(seed)
    count = seconds * RATE_HZ
    t_s = np.arange(count) / RATE_HZ
    kept = np.exp(-1 / (0.5 * RATE_HZ))
    steps = random.normal(0, np.sqrt(1 - kept**2), count)
    steps[0] = random.normal()
    noise = np.convolve(steps, kept ** np.arange(5 * RATE_HZ))[:count]
    start_c = 45 + random.normal(0, 2)
    heat_c = 60 - (60 - start_c) * np.exp(-t_s / 20)
    level = random.normal(0, between) + WARMING * (heat_c - 60) / 15 + 0.02 * noise
    for begin in random.uniform(0, seconds, random.poisson(seconds / 30)):
        level[(t_s >= begin) & (t_s < begin + 3)] += 0.05
    own = random.gamma(2.0, 0.02, count) + (random.random(count) < 0.02) * random.exponential(0.2, count)
    latency_ns = (10 * MS * times * np.exp(level + own)).astype(np.int64)
    manifest = made_manifest(name or f"run-{seed}", seed, start_c, seconds, **changes)
    inferences = make_inferences((t_s * NS).astype(np.int64), latency_ns)
    readings = make_readings(*((second * NS, 0, float(heat_c[second * RATE_HZ])) for second in range(seconds)))
    end_ns = seconds * NS
    opening = Batch(manifest=replace(manifest, end_reason=None), events=(phase_event(0, "measure"),), restart=True)
    ended = ended_event(end_ns, "duration", last_end_ns=end_ns, warmup_runs=50, warmup_ns=50 * 10 * MS)
    rest = Batch(end_ns, seconds=seconds_of(inferences), readings=readings, events=(ended,), manifest=manifest)
    return folded((opening, rest))


def made_manifest(name: str, seed: int, start_c: float, seconds: int, **changes: object) -> Manifest:
    return make_manifest(
        make_sensor("temp/cpu"),
        **{
            "name": name, "id": session_id(f"{seed:08x}"), "state": "finished", "end_reason": "duration",
            "duration_ns": seconds * NS,
            "methodology": Methodology(warmup_runs=50, start_temperatures={"temp/cpu": start_c}),
            **changes,
        },
    )  # fmt: skip


def group(name: str, seeds: range, **more: object) -> Group:
    return Group(name, tuple(made(seed, **more) for seed in seeds))


def made(seed: int, **more: object) -> Sample:
    return sample(session(seed, **more))
