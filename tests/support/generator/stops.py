"""Generated sessions in which a quota or others begin to stop the engine, early or late, for longer than inferences."""

import numpy as np
from numpy.typing import NDArray

from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board, EngineInfo
from edgetop.session.records import READING
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from tests.support.generator.effects import STEP_S, Grid, Truth, World
from tests.support.generator.load import LoadPlan
from tests.support.generator.plans import Generated
from tests.support.sessions import ended_event, make_inferences, make_manifest, make_sensor, phase_event

QUOTA, CONTENTION = "cpu-quota", "contention"
SENSORS = ("pressure/cpu-quota", "rate/cpu-throttled", "rate/run-queue-wait", "load/others", "load/engine", "load/cpu")
LEAST_OTHERS = 0.33  # with less load, others do not count as contention
LASTS_S = 40.0  # the session goes on for so long after the stops have begun


def generate_stops(
    seed: int, cause: str, *, begin_s: float | None = None, latency_s: float | None = None, until_s: float | None = None
) -> Generated:
    """Return the session of this seed, on one CPU, back to back; what is not given is drawn.

    The stops begin at `begin_s`, and last until `until_s` or to the end. A model takes `latency_s`.
    """
    random = np.random.default_rng((seed, 44))
    drawn_s = float(random.uniform(5, 60)), float(np.exp(random.uniform(np.log(20e-6), np.log(0.05))))
    begin_s, latency_s = begin_s if begin_s is not None else drawn_s[0], latency_s or drawn_s[1]
    end_s = max(begin_s, until_s or 0) + LASTS_S
    lost = float(random.uniform(0.15 if cause == QUOTA else LEAST_OTHERS, 0.5))
    begins, lasts = _stops(random, cause, lost, begin_s, until_s or end_s)
    scatter = float(np.exp(random.uniform(np.log(0.004), np.log(0.05))))
    plan = LoadPlan(latency_s, None, scatter, 0.0, 0.0, 0.0, None)
    runs = _back_to_back(random, plan, begins, lasts, end_s)
    aggregator = SecondAggregator()
    t_s = np.arange(0, end_s, STEP_S)
    return Generated(
        seed, "one CPU", f"stops by {cause}", plan, (Truth(begin_s, min(until_s or end_s, end_s), cause),),
        make_manifest(
            *map(make_sensor, SENSORS), board=Board(cores=1), engine=EngineInfo(threads=1), load=Load(mode="closed")
        ),
        concatenate([aggregator.add(runs), aggregator.close()]),
        _readings(random, cause, begins, lasts, end_s),
        (phase_event(0, "measure"), ended_event(int(end_s * NS), "duration")),
        end_s, runs, World(t_s, (), 1.0, np.ones_like(t_s), np.ones_like(t_s)),
    )  # fmt: skip


def _stops(random: np.random.Generator, cause: str, lost: float, begin_s: float, until_s: float) -> tuple[Grid, Grid]:
    """Return when each stop begins and how long it lasts, in s: a part of each period, or by chance."""
    if cause == QUOTA:
        period_s = float(random.choice([0.02, 0.1, 0.25]))
        begins = np.arange(begin_s + (1 - lost) * period_s, until_s, period_s)
        return begins, np.full(len(begins), lost * period_s)
    slice_s = float(random.uniform(0.002, 0.012))
    count = int(1.5 * (until_s - begin_s) * lost / slice_s) + 8
    lasts = random.uniform(0.5, 1.5, count) * slice_s
    begins = begin_s + np.cumsum(random.exponential(slice_s * (1 - lost) / lost, count)) + np.cumsum(lasts) - lasts
    return begins[begins < until_s], lasts[begins < until_s]


def _back_to_back(
    random: np.random.Generator, plan: LoadPlan, begins: Grid, lasts: Grid, end_s: float
) -> NDArray[np.void]:
    """Return inferences one after the other. A stop makes the one in which it begins longer."""
    work = plan.latency_s * np.exp(random.normal(0, plan.scatter, int(1.1 * end_s / plan.latency_s) + 8))
    done = np.concatenate([[0.0], np.cumsum(work)])
    held = np.concatenate([[0.0], np.cumsum(lasts)])
    at_s = done + held[np.searchsorted(begins - held[:-1], done)]
    at_s = at_s[at_s < end_s]
    return make_inferences((at_s[:-1] * NS).astype(np.int64), np.maximum(np.diff(at_s) * NS, 1_000).astype(np.int64))


def _readings(random: np.random.Generator, cause: str, begins: Grid, lasts: Grid, end_s: float) -> NDArray[np.void]:
    """Return a reading of each sensor in each second, about the second before the reading."""
    at_s = np.arange(1, int(end_s)) + float(random.uniform(0, 0.99))
    held = np.concatenate([[0.0], np.cumsum(lasts)])
    ms = 1000 * np.diff(held[np.searchsorted(begins, np.concatenate([[at_s[0] - 1], at_s]))])
    pct, nothing = np.minimum(ms / 10, 100), np.zeros(len(ms))
    is_quota = cause == QUOTA
    values = (
        np.where(ms > 0, 100.0, 0.0) if is_quota else nothing,
        ms if is_quota else nothing,
        ms,  # a thread that a quota stops waits, too
        nothing + 2 if is_quota else pct + 2,
        100 - pct,
        (100 - pct if is_quota else nothing + 100) + 2,
    )
    rows = [
        (int(t * NS), place, value)
        for place, of in enumerate(values)
        for t, value in zip(at_s.tolist(), of.tolist(), strict=True)
    ]
    return np.array(sorted(rows), READING)
