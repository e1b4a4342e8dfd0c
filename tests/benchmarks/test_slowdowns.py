"""How well slowdowns are found, on generated sessions that were not used to find the thresholds; and at what cost.

Thresholds were chosen on seeds 0 to 499 and, of healthy ones, 1_000 to 1_069. Seeds from 10_000, 20_000, 30_000 and
40_000 on scored what was then changed: of healthy sessions it misjudged 4 and then 1.5 a day. Those here came after;
those of a cause on top of another and of wider kinds once more, after the noise's correlation was taken into account.
"""

import time
import tracemalloc

import numpy as np
import pytest

from edgetop.analysis.rolling_latency import RollingLatency
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.session.batch import Batch
from tests.support.generator.day import DAY_S, SENSORS, day
from tests.support.generator.on_top import ON_TOP
from tests.support.generator.plans import SLOW_MODEL, generate
from tests.support.generator.score import score
from tests.support.generator.widened import WIDENED

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3_600)]

SEEDS = range(60_000, 60_600)
# Of a cause that comes on top of another: chosen on seeds 0 to 499 and, for noise, on 80_000 to 80_299.
ON_TOP_SEEDS = range(85_000, 85_300)
LEAST_ON_TOP = 0.92  # a model of 2.4 s has one window in twelve seconds: of parts so short it cannot tell three
# Of each wider kind: chosen on seeds 0 to 320 and 90_000 to 90_119.
WIDENED_SEEDS = range(130_000, 130_060)
LEAST_WIDENED = 0.95
# Of models that take 1.5 to 2.6 s: chosen on seeds 0 to 89, 330_000 to 330_059 and 331_000 to 331_059. What is missed
# has outliers of half a minute, or a signal that was set before as well.
SLOW_SEEDS = range(390_000, 390_200)
LEAST_SLOW = 0.9
HEALTHY_SEEDS, HEALTHY_S = range(50_000, 50_064), 5_400.0


def test_causes_and_starts_are_right(capsys):
    found = score(generate(seed) for seed in SEEDS)
    with capsys.disabled():
        print(f"\nseeds {SEEDS.start} to {SEEDS.stop - 1}; rows are true, columns found\n{found.table()}")
        print(f"{found.true} slowdowns: cause right {found.cause_share:.1%}, start within 3 s {found.start_share:.1%}")
        print(f"not true: {found.false} in {found.healthy_s / 3600:.1f} h without a slowdown")
    assert found.cause_share >= 0.95
    assert found.start_share >= 0.95


def test_a_cause_on_top_of_another_is_told_from_when_it_came(capsys):
    found = score(generate(seed, ON_TOP) for seed in ON_TOP_SEEDS)
    with capsys.disabled():
        print(f"\nseeds {ON_TOP_SEEDS.start} to {ON_TOP_SEEDS.stop - 1}; rows are true, columns found\n{found.table()}")
        print(f"{found.true} parts: cause right {found.cause_share:.1%}, start within 3 s {found.start_share:.1%}")
        print(f"not true: {found.false} in {found.healthy_s / 3600:.1f} h without a slowdown")
    assert found.cause_share >= LEAST_ON_TOP
    assert found.start_share >= LEAST_ON_TOP


@pytest.mark.parametrize("kind", WIDENED)
def test_wider_sessions_are_judged_as_well(kind, capsys):
    found = score(generate(seed, kind) for seed in WIDENED_SEEDS)
    hours = found.healthy_s / 3600
    with capsys.disabled():
        print(f"\n{kind}, seeds {WIDENED_SEEDS.start} to {WIDENED_SEEDS.stop - 1}\n{found.table()}")
        print(f"{found.true} slowdowns: cause right {found.cause_share:.1%}, beginning {found.start_share:.1%}")
        print(f"not true: {found.false} in {hours:.1f} h without a slowdown")
    assert found.cause_share >= LEAST_WIDENED
    assert found.start_share >= LEAST_WIDENED
    assert found.false <= 1


def test_slow_models_are_judged_by_few_inferences(capsys):
    found = score(generate(seed, SLOW_MODEL) for seed in SLOW_SEEDS)
    with capsys.disabled():
        print(f"\nseeds {SLOW_SEEDS.start} to {SLOW_SEEDS.stop - 1}; rows are true, columns found\n{found.table()}")
        print(f"{found.true} slowdowns: cause right {found.cause_share:.1%}, start within 3 s {found.start_share:.1%}")
    assert found.cause_share >= LEAST_SLOW
    assert found.start_share >= LEAST_SLOW
    assert found.false <= 3


def test_a_healthy_day_has_at_most_one_false_slowdown(capsys):
    found = score(generate(seed, "healthy", length_s=HEALTHY_S) for seed in HEALTHY_SEEDS)
    with capsys.disabled():
        print(f"\nseeds {HEALTHY_SEEDS.start} to {HEALTHY_SEEDS.stop - 1}: {found.healthy_s / 3600:.0f} healthy hours")
        print(f"not true: {found.false}, {found.false_per_day:.2f} a day")
    assert found.false_per_day <= 1


@pytest.mark.parametrize("slow", ["never", "now and then", "always"])
def test_a_tick_costs_little_and_a_day_no_memory(slow, capsys):
    """At 1 Hz with forty sensors; memory is counted apart, for counting costs time."""
    cost, fold, latency = [], Slowdowns(), RollingLatency()
    for batch in day(slow, 3_000):
        begun = time.thread_time_ns()
        fold.fold(batch)
        latency.fold(batch)
        fold.view()
        cost.append(time.thread_time_ns() - begun)
    tracemalloc.start()
    fold, latency = Slowdowns(), RollingLatency()
    held = []
    for number, batch in enumerate(day(slow, DAY_S, step_s=60)):
        fold.fold(batch)
        latency.fold(batch)
        if number in (60, 1_439):
            held.append(tracemalloc.get_traced_memory()[0] / 2**20)
    tracemalloc.stop()
    tick_ms = float(np.mean(cost)) / 1e6
    with capsys.disabled():
        print(f"\nslow {slow}, {len(SENSORS)} sensors: {tick_ms:.2f} ms a tick, {tick_ms / 10:.2f} % of a core at 1 Hz")
        print(f"{held[0]:.1f} MiB after an hour, {held[-1]:.1f} MiB after a day, {fold.view().total} slowdowns")
    assert tick_ms < 5
    assert held[-1] < 20


def test_a_day_is_judged_in_one_go(capsys):
    """As a replay does at each seek."""
    batches = list(day("now and then", DAY_S, step_s=DAY_S))
    fold = Slowdowns()
    begun = time.thread_time()
    for batch in batches:
        fold.fold(batch)
    total = fold.view().total
    with capsys.disabled():
        print(f"\na day with {len(SENSORS)} sensors and {total} slowdowns: {time.thread_time() - begun:.2f} s")
    assert isinstance(batches[0], Batch)
    assert total > 100
