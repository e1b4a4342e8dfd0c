"""Growth of the engine's memory: what leaks, and what only fills its arenas."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.memory_use import (
    GrowthView,
    MemoryGrowth,
    Slope,
    robust_slope,
    slope_between,
)
from edgetop.analysis.verdict_reasons import State
from edgetop.engines.engine_protocol import Ended
from edgetop.engines.process_engine import ProcessEngine
from edgetop.session.batch import Batch
from edgetop.session.records import READING
from edgetop.session.seconds import NS
from edgetop.wording.memory_words import leak_rate
from edgetop.wording.report_document import report_document
from tests.support import onnx_models
from tests.support.engine_runs import run_whole, spec_for
from tests.support.interpreters import with_runtime
from tests.support.scripts import leaking
from tests.support.sessions import differences, folded, make_manifest, make_sensor, phase_event

BEGAN_S = 10
Curve = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def grown(
    *curves: np.ndarray, ids: tuple[str, ...] = ("mem/rss-anon",), cuts: tuple[int, ...] = (), began_s: int = BEGAN_S
) -> MemoryGrowth:
    """What was held second by second, in MiB, from a sensor each."""
    growth = MemoryGrowth()
    seconds = len(curves[0])
    growth.fold(Batch(manifest=make_manifest(*map(make_sensor, ids)), events=(phase_event(began_s * NS, "measure"),)))
    rows = np.zeros(seconds * len(curves), READING)
    rows["t_ns"] = np.repeat(np.arange(seconds) * NS, len(curves))
    rows["sensor"], rows["value"] = np.tile(np.arange(len(curves)), seconds), np.stack(curves, axis=1).ravel()
    rows = rows[~np.isnan(rows["value"])]
    for part in np.split(rows, sorted(cuts)):
        growth.fold(Batch(readings=part))
    return growth


def view_of(mib: np.ndarray, **more: object) -> GrowthView:
    return grown(mib, **more).view(len(mib) * NS)


def wandering(random: np.random.Generator, count: int) -> np.ndarray:
    """A heap from which pages come and go."""
    y = random.normal(0, 0.02, count)
    for i in range(1, count):
        y[i] += 0.95 * y[i - 1]
    return y


HEALTHY: dict[str, Curve] = {
    "stands still": lambda random, t: wandering(random, len(t)),
    "collects its garbage": lambda random, t: np.mod(t, random.uniform(5, 40)) * 0.1,
    "fills an arena": lambda random, t: 50 * (1 - np.exp(-t / (random.uniform(0.02, 0.15) * len(t)))),
    "fills it in steps": lambda random, t: np.sum([(t > k) * 20 for k in random.uniform(0, len(t), 3)], axis=0),
    "doubles its arena, ever more seldom": lambda _, t: np.sum(
        [(t > len(t) / 2**k) * 64 / 2**k for k in range(1, 7)], 0
    ),
    "fills it in even steps": lambda _, t: 20 * np.floor(5 * t / len(t)),
    "fills an arena slowly": lambda random, t: 50 * (1 - np.exp(-t / (random.uniform(0.3, 0.5) * len(t)))),
    "grows ever more slowly": lambda random, t: 5 * np.log1p(t / random.uniform(2, 20)),
    "loads for a third of the time": lambda _, t: np.minimum(t, 0.35 * len(t)) * 0.1,
    "shrinks": lambda _, t: 500 - 0.1 * t,
}


@pytest.mark.parametrize("seconds", [300, 3_600, 30_000])
@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_grows_its_arena_leaks_nothing(name: str, seconds: int) -> None:
    for seed in range(3):
        random = np.random.default_rng(seed)
        t = np.arange(seconds, dtype=float)
        assert view_of(100 + wandering(random, seconds) + HEALTHY[name](random, t)).is_leak is False


@pytest.mark.parametrize(("mib_per_h", "seconds"), [(2, 3_600), (12, 600), (70, 200), (360, 150), (2, 30_000)])
def test_a_leak_is_told_with_its_rate(mib_per_h: float, seconds: int) -> None:
    inside = []
    for seed in range(5):
        view = view_of(100 + np.arange(seconds) * mib_per_h / 3600 + wandering(np.random.default_rng(seed), seconds))
        assert view.is_leak
        assert view.mib_per_h is not None
        assert view.mib_per_h.value == pytest.approx(mib_per_h, rel=0.3)
        inside.append(view.mib_per_h.low <= mib_per_h <= view.mib_per_h.high)
    assert sum(inside) >= 4


def test_a_leak_below_a_mib_an_hour_is_none() -> None:
    assert view_of(100 + np.arange(30_000) * 0.8 / 3600).is_leak is False


def test_growth_is_told_from_the_first_minute_and_a_leak_from_the_second() -> None:
    assert view_of(100 + np.arange(55) * 0.5) == GrowthView()
    for seed in range(5):
        early = grown(100 + np.arange(75) * 0.5 + wandering(np.random.default_rng(seed), 75))
        view = early.view(75 * NS, 900.0)
        assert view.is_leak is None
        assert view.mib_per_h is not None
        assert view.mib_per_h.low < 1_800 < view.mib_per_h.high
        assert view.mib_per_h.value == pytest.approx(1_800, rel=0.2)
        assert view.hours_left == pytest.approx(0.5, rel=0.25)


def test_an_early_growth_that_may_be_none_has_no_end() -> None:
    view = grown(100 + np.random.default_rng(0).normal(0, 1, 75)).view(75 * NS, 900.0)
    assert view.mib_per_h is not None
    assert view.mib_per_h.low < 0 < view.mib_per_h.high
    assert view.hours_left is None


def test_the_warm_up_is_left_out() -> None:
    mib = np.full(700, 200.0)
    mib[:300] = 100 + np.arange(300) / 3
    assert view_of(mib, began_s=300).is_leak is False
    assert view_of(mib, began_s=400).mib_per_h == Slope(0.0, 0.0, 0.0)


def test_what_is_swapped_out_is_still_held() -> None:
    held = 100 + np.arange(600) * 0.02
    out = np.maximum(np.arange(600) - 200, 0) * 0.02
    both = grown(held - out, out, ids=("mem/rss-anon", "mem/swap")).view(600 * NS)
    assert both.is_leak
    assert both.mib_per_h is not None
    assert both.mib_per_h.value == pytest.approx(72, rel=0.05)


def test_without_its_parts_the_resident_set_is_taken() -> None:
    assert view_of(100 + np.arange(600) * 0.02, ids=("mem/rss",)).is_leak
    file_pages, anonymous = 100 + np.arange(600) * 0.02, np.full(600, 50.0)
    assert grown(file_pages, anonymous, ids=("mem/rss", "mem/rss-anon")).view(600 * NS).is_leak is False


def test_the_memory_of_edgetop_itself_is_not_the_engines() -> None:
    assert view_of(100 + np.arange(600) * 0.02, ids=("mem/edgetop",)) == GrowthView()


@pytest.mark.parametrize(("seconds", "as_of_s"), [(112, 112), (119, 112), (120, 120), (240, 240)])
def test_a_running_session_has_the_growth_of_some_seconds_ago(seconds: int, as_of_s: int) -> None:
    growth = grown(100 + np.sqrt(np.arange(seconds + 1)))
    assert growth.view(seconds * NS, is_over=False) == growth.view(as_of_s * NS)
    assert growth.view(seconds * NS).mib_per_h


def test_the_time_that_is_left_is_what_is_left_by_the_rate() -> None:
    growth = grown(100 + np.arange(600) * 0.02)
    assert growth.view(600 * NS, 144.0).hours_left == pytest.approx(2.0, rel=0.01)
    assert growth.view(600 * NS).hours_left is None
    assert grown(np.full(600, 100.0)).view(600 * NS, 144.0).hours_left is None


def test_what_comes_after_the_measured_phase_does_not_count() -> None:
    mib = np.full(1_200, 100.0)
    mib[600:] += np.arange(600) * 0.5
    assert grown(mib).view(600 * NS).mib_per_h == Slope(0.0, 0.0, 0.0)


def test_a_leak_goes_on_where_the_board_becomes_slower() -> None:
    t = np.arange(1_200)
    view = view_of(100 + np.where(t < 600, t * 0.02, 12 + (t - 600) * 0.013))
    assert view.is_leak


def test_the_rate_of_a_leak_has_words() -> None:
    assert leak_rate(GrowthView(Slope(12.34, 11.8, 12.9), is_leak=True, hours_left=3.2)) == "12 MiB/h"
    assert leak_rate(GrowthView(Slope(2.34, 1.8, 2.9), is_leak=True)) == "2.3 MiB/h"


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 2_000), max_size=8), st.integers(0, 100))
def test_however_readings_are_batched_the_growth_is_the_same(cuts: list[int], seed: int) -> None:
    mib = 100 + np.arange(1_000) * 0.01 + wandering(np.random.default_rng(seed), 1_000)
    both = {"ids": ("mem/rss-anon", "mem/swap")}
    whole, parts = grown(mib, mib / 9, **both), grown(mib, mib / 9, **both, cuts=tuple(cuts))
    assert differences(parts.view(1_000 * NS), whole.view(1_000 * NS)) == []


def test_views_in_between_do_not_change_the_result() -> None:
    mib = 100 + np.arange(1_000) * 0.01
    growth = MemoryGrowth()
    manifest = make_manifest(make_sensor("mem/rss-anon"))
    growth.fold(Batch(manifest=manifest, events=(phase_event(BEGAN_S * NS, "measure"),)))
    for second, value in enumerate(mib):
        growth.fold(Batch(readings=np.array([(second * NS, 0, value)], READING)))
        growth.view(second * NS)
    assert differences(growth.view(1_000 * NS), view_of(mib)) == []


# Engines that really hold more and more. Each says what it holds; an inference stands for 50 ms.

RUNS, A_SECOND = 3_000, 20
TELL = """
if number % 20 == 0:
    held = [line.split()[1] for line in open("/proc/self/status") if line.startswith("RssAnon")]
    print(number, held[0], file=says, flush=True)
"""
ENGINES = {
    # What the runtime freed while it loaded is filled first: a leak into that is in no figure of the kernel's.
    "leaks 1 KiB": (
        "number or kept.extend(os.urandom(1024) for _ in range(4_000)); kept.append(os.urandom(1024))",
        True,
    ),
    "leaks 10 KiB": ("kept.append(os.urandom(10240))", True),
    "grows an arena of 8 MiB": ("kept.append(os.urandom(16384)) if number < 500 else None", False),
    "fills a cache and begins anew": ("kept.append(os.urandom(4096)); number % 300 or kept.clear()", False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_a_real_engine_is_told_from_what_it_holds(name: str, tmp_path: Path) -> None:
    does, leaks = ENGINES[name]
    model = tmp_path / "tiny.onnx"
    model.write_bytes(onnx_models.onnx_tiny())
    begins = f"kept, says = [], open({str(tmp_path / 'held.txt')!r}, 'w')"
    python = with_runtime(tmp_path, on_import=begins, on_run=f"{does}\n{TELL}")
    run_whole(ProcessEngine(spec_for(model, warmup_runs=1, runs=RUNS), python)).one(Ended)
    said = np.loadtxt(tmp_path / "held.txt")
    assert len(said) >= RUNS // A_SECOND
    assert view_of(said[:, 1] / 1024).is_leak is leaks


def test_a_whole_session_tells_it_beside_its_verdict() -> None:
    manifest = make_manifest(make_sensor("mem/rss-anon"), make_sensor("mem/system-available"))
    rows = np.zeros(1_200, READING)
    rows["t_ns"], rows["sensor"] = np.repeat(np.arange(600) * NS, 2), np.tile([0, 1], 600)
    rows["value"] = np.where(rows["sensor"] == 0, 100 + rows["t_ns"] / NS * 0.02, 720.0)
    analysis = folded([Batch(600 * NS, manifest=manifest, events=(phase_event(0, "measure"),), readings=rows)])
    view = analysis.view(None)
    assert [view.verdict.state, *(other.state for other in view.verdict.also)] == [State.STALLED, State.LEAKING]
    assert view.memory.growth.hours_left == pytest.approx(10, rel=0.01)
    assert "leak" in [notice.code for notice in view.notices]


# Slopes that a few wild points do not bend, and intervals for what is what it was before and a change.

T = np.arange(24.0)


def test_the_slope_of_a_line_is_its_slope() -> None:
    slope = robust_slope(T, 3 * T + 7)
    assert (slope.value, slope.low, slope.high) == (pytest.approx(3), pytest.approx(3), pytest.approx(3))
    assert slope_between(T, -2 * T) == pytest.approx(-2)


def test_it_is_the_one_of_sens_example() -> None:
    """Sen 1968, Estimates of the regression coefficient based on Kendall's tau, section 7."""
    t = np.array([1.0, 2, 3, 4, 10, 12, 18])
    assert slope_between(t, np.array([9.0, 15, 19, 20, 45, 55, 78])) == 4.0


def test_a_few_wild_points_do_not_bend_it() -> None:
    y = 3 * T
    y[[3, 11, 19]] += [500, -900, 700]
    assert slope_between(T, y) == pytest.approx(3, abs=0.2)


def test_a_single_step_is_no_sure_slope() -> None:
    slope = robust_slope(T, np.where(T < 12, 0.0, 50.0))
    assert slope.low < 0 < slope.high


def test_a_slope_that_changes_a_little_is_sure() -> None:
    slope = robust_slope(T, np.where(T < 12, 7 * T, 84 + 5 * (T - 12)))
    assert slope.low > 5


@pytest.mark.parametrize(("kept", "least", "most"), [(1.0, 0.92, 0.98), (0.9, 0.95, 1.0), (0.0, 0.99, 1.0)])
def test_the_interval_covers_the_truth_of_a_random_walk(kept: float, least: float, most: float) -> None:
    hits = []
    for seed in range(400):
        y = np.random.default_rng(seed).normal(0, 1, 24)
        for i in range(1, 24):
            y[i] += kept * y[i - 1]
        slope = robust_slope(T, y + 2 * T)
        hits.append(slope.low <= 2 <= slope.high)
    assert least <= np.mean(hits) <= most


# Each threshold of a leak, on both of its sides, by courses without noise.


def rising(seconds: int, mib_per_s: float = 0.5, every_s: int = 1) -> GrowthView:
    mib = np.full(seconds, np.nan)
    mib[::every_s] = 100 + np.arange(0, seconds, every_s) * mib_per_s
    return view_of(mib)


@pytest.mark.parametrize(("mib_per_h", "is_leak"), [(0.9, False), (1.1, True)])
def test_a_mib_an_hour_is_a_leak(mib_per_h: float, is_leak: bool) -> None:
    assert rising(30_000, mib_per_h / 3600).is_leak is is_leak


@pytest.mark.parametrize(("seconds", "is_told"), [(71, False), (72, True)])
def test_growth_is_told_after_a_minute_of_measuring(seconds: int, is_told: bool) -> None:
    """The measurement begins at 10 s, and a block is over with the next."""
    assert (rising(seconds).mib_per_h is not None) is is_told


@pytest.mark.parametrize(("seconds", "is_judged"), [(132, False), (133, True)])
def test_a_leak_is_judged_after_two_minutes_of_measuring(seconds: int, is_judged: bool) -> None:
    assert (rising(seconds).is_leak is not None) is is_judged


@pytest.mark.parametrize(("seconds", "is_told"), [(120, False), (121, True)])
def test_growth_takes_twenty_four_points(seconds: int, is_told: bool) -> None:
    """Of a sensor that is read every four seconds."""
    assert (rising(seconds, every_s=4).mib_per_h is not None) is is_told


@pytest.mark.parametrize(("share", "is_left_out"), [(0.095, True), (0.105, False)])
def test_a_tenth_of_the_time_is_left_out(share: float, is_left_out: bool) -> None:
    until = BEGAN_S + round(share * 1_000)
    mib = np.full(1_010, 200.0)
    mib[:until] = 100 + np.arange(until) / until * 50
    assert (view_of(mib).mib_per_h == Slope(0.0, 0.0, 0.0)) is is_left_out


@pytest.mark.parametrize(("mib", "is_leak"), [(0.58, False), (0.6, True)])
def test_a_leak_is_half_a_mib(mib: float, is_leak: bool) -> None:
    """Of which the first tenth of the time, and half a point at both ends, are left out."""
    assert rising(400, mib / 390).is_leak is is_leak


@pytest.mark.parametrize(("share", "is_leak"), [(0.48, False), (0.52, True)])
def test_growth_at_half_of_the_rate_before_has_levelled_off(share: float, is_leak: bool) -> None:
    t_s, middle_s = np.arange(1_010), 560
    assert (
        view_of(100 + 0.1 * np.minimum(t_s, middle_s) + share * 0.1 * np.maximum(t_s - middle_s, 0)).is_leak is is_leak
    )


@pytest.mark.parametrize(
    ("jumps", "is_leak"),
    [
        ((1, 1, 1, 0, 1, 1, 1), True),
        ((1, 0, 1, 1, 1, 0, 1), False),
        ((1, 0, 1, 1, 1, 0.2, 1), True),  # 27 % of an even jump
        ((1, 0, 1, 1, 1, 0.165, 1), False),  # 22 %
    ],
)
def test_six_of_seven_steps_grow_by_a_quarter_of_an_even_one(jumps: tuple[float, ...], is_leak: bool) -> None:
    t_s, borders = np.arange(1_010), np.linspace(110, 1_010, 9)[1:-1]
    course = sum(jump * (t_s >= border) for jump, border in zip(jumps, borders, strict=True))
    assert view_of(100 + np.asarray(course)).is_leak is is_leak


def test_a_session_that_is_over_says_how_long_its_memory_would_have_lasted() -> None:
    memory = report_document(Analysis.of(leaking().end().batches))["memory"]
    assert memory["growth_mib_per_h"] == pytest.approx(400, rel=0.02)
    assert memory["hours_to_limit"] == pytest.approx(memory["left_mib"] / memory["growth_mib_per_h"], rel=0.01)
