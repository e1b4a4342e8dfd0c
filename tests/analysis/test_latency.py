"""Rolling and whole-session latency: exact where it says so, within 1 % elsewhere, the same however it came."""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.latest import EXACT_INFERENCES
from edgetop.analysis.rolling_latency import RollingLatency
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.timeline import Axis
from edgetop.session.batch import Batch
from edgetop.session.histogram import count_buckets
from edgetop.session.records import FIRST, MEASURE, NO_INFERENCES, WARMUP, Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, QUANTILES, Seconds, concatenate
from tests.support.sessions import MS, back_to_back, differences, make_inferences, seconds_of

AXIS = Axis(0, 60)
WINDOWS_NS = (NS, 10 * NS, 60 * NS, 600 * NS, None)


def log_normal(seed: int, count: int, median_ns: float = 20 * MS, spread: float = 0.5) -> np.ndarray:
    return (np.random.default_rng(seed).lognormal(np.log(median_ns), spread, count)).astype(np.int64)


def batches(inferences: Inferences, places: Sequence[int] = (), *, is_over: bool = True) -> Iterator[Batch]:
    """As a conductor makes them, cut before these inferences."""
    aggregator = SecondAggregator()
    for begin, end in pairwise([0, *sorted(places), len(inferences)]):
        piece = inferences[begin:end]
        yield Batch(inferences=piece, seconds=aggregator.add(piece))
    if is_over:
        yield Batch(seconds=aggregator.close())


def rolling(inferences: Inferences, places: Sequence[int] = (), *, is_over: bool = True) -> RollingLatency:
    latency = RollingLatency()
    latency.began(0)
    for batch in batches(inferences, places, is_over=is_over):
        latency.fold(batch)
    return latency


def end_of(inferences: Inferences) -> int:
    return int(inferences["t_ns"][-1] + inferences["latency_ns"][-1])


def window_of(latency: RollingLatency, window_ns: int | None, now_ns: int) -> Statistics:
    window = latency.view(window_ns, now_ns).window
    assert window is not None
    return window


def assert_exact(statistics: Statistics, latency_ns: np.ndarray) -> None:
    assert statistics.count == len(latency_ns)
    assert list(statistics.percentiles_ns) == np.quantile(latency_ns, QUANTILES, method="inverted_cdf").tolist()
    assert (statistics.min_ns, statistics.max_ns) == (latency_ns.min(), latency_ns.max())
    assert statistics.mean_ns == pytest.approx(latency_ns.mean(), rel=1e-12)
    assert statistics.stdev_ns == pytest.approx(latency_ns.std(ddof=1), rel=1e-9)
    assert statistics.jitter_ns == pytest.approx(np.abs(np.diff(latency_ns)).mean(), rel=1e-12)


def assert_within_one_percent(statistics: Statistics, latency_ns: np.ndarray) -> None:
    assert statistics.count == len(latency_ns)
    exact = np.quantile(latency_ns, QUANTILES, method="inverted_cdf")
    assert (np.abs(np.array(statistics.percentiles_ns) - exact) <= 0.01 * exact).all()
    assert (statistics.min_ns, statistics.max_ns) == (latency_ns.min(), latency_ns.max())
    assert statistics.mean_ns == pytest.approx(latency_ns.mean(), rel=1e-12)
    assert statistics.stdev_ns == pytest.approx(latency_ns.std(ddof=1), rel=1e-9)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1_000), st.integers(1, 500), st.lists(st.floats(0, 1), max_size=20))
def test_views_do_not_depend_on_how_inferences_came(seed: int, count: int, cuts: list[float]) -> None:
    inferences = back_to_back(123 * MS, log_normal(seed, count, 100 * MS), ok=log_normal(seed, count) % 10 > 0)
    now_ns = end_of(inferences)
    in_parts = rolling(inferences, [int(cut * count) for cut in cuts])
    at_once = rolling(inferences)
    for window_ns in WINDOWS_NS:
        assert differences(in_parts.view(window_ns, now_ns), at_once.view(window_ns, now_ns)) == []


@pytest.mark.slow
@pytest.mark.parametrize("is_over", [True, False])
def test_views_do_not_depend_on_it_when_more_came_than_is_kept(is_over: bool) -> None:
    count = 3 * EXACT_INFERENCES
    inferences = back_to_back(0, log_normal(1, count, 40_000))
    now_ns = end_of(inferences)
    at_once = rolling(inferences, is_over=is_over)
    random = np.random.default_rng(2)
    ways = (
        random.integers(0, count, 5).tolist(),
        random.integers(0, count, 90).tolist(),
        [EXACT_INFERENCES, 2 * EXACT_INFERENCES + 1],
    )
    for places in ways:
        in_parts = rolling(inferences, places, is_over=is_over)
        for window_ns in (NS, 2 * NS, *WINDOWS_NS):
            assert differences(in_parts.view(window_ns, now_ns), at_once.view(window_ns, now_ns)) == []


@pytest.mark.parametrize("window_ns", [NS, 10 * NS, 60 * NS, 600 * NS])
def test_small_windows_are_exact(window_ns: int) -> None:
    inferences = back_to_back(0, log_normal(3, 5_000))
    now_ns = end_of(inferences)
    latency = rolling(inferences, range(0, 5_000, 61))
    assert latency.view(window_ns, now_ns).is_exact
    in_it = inferences["latency_ns"][inferences["t_ns"] >= now_ns - window_ns]
    assert_exact(window_of(latency, window_ns, now_ns), in_it)


def test_the_last_65536_inferences_are_always_in_an_exact_window() -> None:
    inferences = back_to_back(0, log_normal(4, 4 * EXACT_INFERENCES, 50_000))
    now_ns = end_of(inferences)
    latency = rolling(inferences, range(0, len(inferences), 5_000))
    last = inferences[-EXACT_INFERENCES:]
    view = latency.view(now_ns - int(last["t_ns"][0]), now_ns)
    assert view.is_exact
    assert view.window is not None
    assert_exact(view.window, last["latency_ns"])


@pytest.mark.parametrize("window_ns", [10 * NS, 60 * NS])
def test_large_windows_are_within_one_percent(window_ns: int) -> None:
    inferences = back_to_back(0, log_normal(5, 200_000, 400_000))
    now_ns = end_of(inferences)
    view = rolling(inferences, range(0, 200_000, 777)).view(window_ns, now_ns)
    assert view.is_exact == (window_ns == 10 * NS)
    assert view.window is not None
    since = now_ns - window_ns if view.is_exact else (now_ns - window_ns) // NS * NS
    assert_within_one_percent(view.window, inferences["latency_ns"][inferences["t_ns"] >= since])


def test_the_session_is_within_1_percent_and_its_mean_exact() -> None:
    inferences = back_to_back(0, log_normal(6, 150_000, 1 * MS))
    latency = rolling(inferences, range(0, 150_000, 10_000))
    statistics = latency.statistics(end_of(inferences))
    assert statistics is not None
    assert_within_one_percent(statistics, inferences["latency_ns"])
    assert statistics.jitter_ns == pytest.approx(np.abs(np.diff(inferences["latency_ns"])).mean(), rel=1e-12)


def test_ten_minutes_of_seconds_are_kept_for_the_largest_window() -> None:
    inferences = make_inferences(np.arange(0, 1_500 * NS, 250 * MS), log_normal(7, 6_000, 10 * MS))
    now_ns = 1_499 * NS + 900 * MS
    seconds = seconds_of(inferences)
    latency = RollingLatency()
    latency.began(0)
    latency.fold(Batch(seconds=seconds))
    view = latency.view(600 * NS, now_ns)
    assert not view.is_exact
    assert view.window is not None
    assert_within_one_percent(view.window, inferences["latency_ns"][inferences["t_ns"] >= 899 * NS])


def test_a_window_begins_at_its_first_nanosecond() -> None:
    inferences = make_inferences([4 * NS - 1, 4 * NS, 5 * NS], [1, 2, 3])
    assert window_of(rolling(inferences), 10 * NS, 14 * NS).count == 2


def test_a_window_does_not_reach_back_before_the_measured_phase() -> None:
    inferences = back_to_back(5 * NS, [100 * MS] * 20)
    latency = RollingLatency()
    latency.began(5 * NS)
    for batch in batches(inferences):
        latency.fold(batch)
    assert window_of(latency, 10 * NS, 7 * NS).throughput_hz == 10.0
    assert window_of(latency, None, 7 * NS).throughput_hz == 10.0


@pytest.mark.slow
@pytest.mark.parametrize("rate_hz", [7, 20_000])
def test_the_rate_of_a_window_is_that_of_a_steady_load(rate_hz: int) -> None:
    """Whether its inferences are held one by one or only in whole seconds, of which the first is cut."""
    for now_ns in (30 * NS, 30 * NS - 400 * MS):
        inferences = make_inferences(np.arange(30 * rate_hz) * NS // rate_hz, 20_000)
        latency = rolling(inferences[inferences["t_ns"] < now_ns], range(0, 20 * rate_hz, 50_000), is_over=False)
        view = latency.view(10 * NS, now_ns)
        assert view.is_exact == (rate_hz < 1_000)
        assert view.window is not None
        assert view.window.throughput_hz == pytest.approx(rate_hz, abs=0.1)


def test_throughput_is_unknown_before_the_measured_phase_begins() -> None:
    latency = RollingLatency()
    latency.fold(Batch(inferences=back_to_back(0, [5 * MS])))
    statistics = latency.statistics(NS)
    assert statistics is not None
    assert statistics.throughput_hz is None


def test_warm_up_counts_nowhere() -> None:
    inferences = back_to_back(0, [9 * NS, 9 * NS, 5 * MS, 5 * MS], phase=[FIRST, WARMUP, MEASURE, MEASURE])
    latency = rolling(inferences)
    for window_ns in WINDOWS_NS:
        window = window_of(latency, window_ns, 18 * NS + 10 * MS)
        assert (window.count, window.max_ns) == (2, 5 * MS)


def test_before_anything_was_measured_there_are_no_figures() -> None:
    latency = rolling(back_to_back(0, [NS] * 3, phase=WARMUP))
    view = latency.view(10 * NS, 3 * NS)
    assert view.window is view.session is None
    assert latency.points(AXIS).is_empty
    assert view.buckets.sum() == 0


def test_inferences_count_before_their_second_ends_and_only_once() -> None:
    inferences = back_to_back(0, [100 * MS] * 25)
    for end in range(1, 26):
        latency = rolling(inferences[:end], range(0, end, 3), is_over=False)
        now_ns = end_of(inferences[:end])
        for window_ns in WINDOWS_NS[1:]:
            assert window_of(latency, window_ns, now_ns).count == end


def test_every_inference_shows_in_the_next_view() -> None:
    latency = RollingLatency()
    latency.began(0)
    inferences = back_to_back(0, [300 * MS] * 10)
    for done, batch in enumerate(batches(inferences, range(1, 10), is_over=False), start=1):
        latency.fold(batch)
        assert [window_of(latency, window_ns, 3 * NS).count for window_ns in (10 * NS, None)] == [done, done]


def test_a_second_that_comes_twice_counts_once() -> None:
    inferences = back_to_back(0, [100 * MS] * 45)
    seconds = seconds_of(inferences)
    upto_two = seconds.where(np.arange(len(seconds)) < 2)
    for parts in ([upto_two, seconds, upto_two], [concatenate([upto_two, seconds, upto_two])]):
        latency = RollingLatency()
        for part in parts:
            latency.fold(Batch(seconds=part))
        assert differences(latency.view(None, 5 * NS), only_seconds(inferences).view(None, 5 * NS)) == []


def only_seconds(inferences: Inferences, step: int = 1) -> RollingLatency:
    """As a replay folds a recording without single inferences."""
    seconds = seconds_of(inferences)
    latency = RollingLatency()
    for begin in range(0, len(seconds), step):
        place = np.arange(len(seconds))
        latency.fold(Batch(seconds=seconds.where((place >= begin) & (place < begin + step))))
    return latency


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_seconds_only_give_the_figures_of_single_inferences(step: int) -> None:
    inferences = back_to_back(300 * MS, log_normal(8, 4_000), ok=log_normal(9, 4_000) % 20 > 0)
    replayed, live = only_seconds(inferences, step), rolling(inferences, range(0, 4_000, 13))
    for latency in (replayed, live):
        latency.began(0)
    now_ns = end_of(inferences)
    assert differences(replayed.statistics(now_ns), live.statistics(now_ns)) == []
    shown, known = replayed.view(10 * NS, now_ns), live.view(10 * NS, now_ns)
    assert (shown.is_exact, known.is_exact) == (False, True)
    assert differences(replayed.points(AXIS), live.points(AXIS)) == []
    assert shown.window is not None
    since = (now_ns - 10 * NS) // NS * NS
    counted = inferences[inferences["ok"] & (inferences["t_ns"] >= since)]
    assert_within_one_percent(shown.window, counted["latency_ns"])


def test_a_window_is_not_exact_where_inferences_did_not_come() -> None:
    """A reader that fell behind gets the seconds of what it missed."""
    inferences = back_to_back(0, log_normal(10, 3_000, 10 * MS))
    now_ns = end_of(inferences)
    latency = RollingLatency()
    latency.began(0)
    for i, batch in enumerate(batches(inferences, range(0, 3_000, 100))):
        latency.fold(Batch(inferences=NO_INFERENCES, seconds=batch.seconds) if i == 14 else batch)
    dropped_end_ns = (int(inferences["t_ns"][1_400]) // NS + 1) * NS
    view = latency.view(now_ns - dropped_end_ns + 2 * NS, now_ns)
    assert not view.is_exact
    assert view.window is not None
    assert view.window.count == np.count_nonzero(inferences["t_ns"] >= dropped_end_ns - 2 * NS)
    after = latency.view(now_ns - dropped_end_ns - NS, now_ns)
    assert after.is_exact
    assert after.window is not None
    assert_exact(after.window, inferences["latency_ns"][inferences["t_ns"] >= dropped_end_ns + NS])


def test_an_open_second_does_not_hide_what_a_complete_one_lacks() -> None:
    latency = RollingLatency()
    latency.began(0)
    missed = make_inferences(np.arange(10) * 100 * MS, 50 * MS)
    came = make_inferences(NS + np.arange(900) * MS, MS)
    aggregator = SecondAggregator()
    aggregator.add(missed)
    latency.fold(Batch(inferences=came, seconds=aggregator.add(came)))
    view = latency.view(10 * NS, 2 * NS)
    assert not view.is_exact
    assert view.window is not None
    assert (view.window.count, view.window.max_ns) == (910, 50 * MS)


def test_failed_inferences_that_did_not_come_are_missed_too() -> None:
    inferences = back_to_back(0, [100 * MS] * 50, ok=np.arange(50) < 40)
    latency = RollingLatency()
    latency.began(0)
    for i, batch in enumerate(batches(inferences, [40])):
        latency.fold(Batch(inferences=NO_INFERENCES, seconds=batch.seconds) if i == 1 else batch)
    view = latency.view(10 * NS, 5 * NS)
    assert not view.is_exact
    assert view.window is not None
    assert (view.window.count, view.window.errors) == (40, 10)


@pytest.mark.parametrize("is_over", [True, False])
def test_errors_count_in_all_windows_before_their_second_ends(is_over: bool) -> None:
    inferences = back_to_back(0, [100 * MS] * 25, ok=np.arange(25) % 5 > 0)
    latency = rolling(inferences, range(25), is_over=is_over)
    now_ns = end_of(inferences)
    assert [window_of(latency, window_ns, now_ns).errors for window_ns in WINDOWS_NS] == [2, 5, 5, 5, 5]
    assert latency.errors == 5


def test_errors_are_known_where_nothing_else_is() -> None:
    latency = rolling(back_to_back(0, [100 * MS] * 25, ok=False))
    assert latency.statistics(3 * NS) is None
    assert latency.errors == 25


def test_a_view_does_not_change_when_more_comes() -> None:
    latency = RollingLatency()
    first, second = back_to_back(0, [100 * MS] * 10), back_to_back(5 * NS, [7 * MS] * 10)
    latency.fold(Batch(seconds=seconds_of(first)))
    views = [latency.view(window_ns, 2 * NS) for window_ns in WINDOWS_NS]
    held = [view.buckets.copy() for view in views]
    latency.fold(Batch(seconds=seconds_of(second)))
    assert differences([view.buckets for view in views], held) == []


def test_the_histogram_is_that_of_the_window() -> None:
    inferences = back_to_back(0, log_normal(11, 2_000))
    now_ns = end_of(inferences)
    latency = rolling(inferences, range(0, 2_000, 100))
    for window_ns in WINDOWS_NS:
        since = 0 if window_ns is None else now_ns - window_ns
        in_it = inferences["latency_ns"][inferences["t_ns"] >= since]
        assert np.array_equal(latency.view(window_ns, now_ns).buckets, count_buckets(in_it))


def test_the_timeline_shows_shortest_median_tail_and_longest() -> None:
    inferences = make_inferences(np.arange(300) * 10 * MS, np.tile(np.arange(1, 101) * MS, 3))
    points = rolling(inferences).points(AXIS)
    rows = (points.low, points.middle, points.high, points.top)
    assert [set(row[:30].tolist()) for row in rows] == [{1.0 * MS}, {50.0 * MS}, {99.0 * MS}, {100.0 * MS}]
    assert np.isnan(points.top[30:]).all()


def test_after_a_reset_only_what_starts_later_counts() -> None:
    inferences = back_to_back(0, [100 * MS] * 50)
    latency = RollingLatency(since_ns=2 * NS)
    for batch in batches(inferences, range(0, 50, 7)):
        latency.fold(batch)
    for window_ns in (10 * NS, None):
        window = window_of(latency, window_ns, 5 * NS)
        assert (window.count, window.throughput_hz) == (30, 10.0)


def test_a_reset_in_the_warm_up_does_not_make_the_rate_lower() -> None:
    latency = RollingLatency(since_ns=2 * NS)
    latency.began(4 * NS)
    for batch in batches(back_to_back(4 * NS, [100 * MS] * 20)):
        latency.fold(batch)
    assert window_of(latency, None, 6 * NS).throughput_hz == 10.0


def test_a_phase_begun_just_before_a_reset_counts_from_the_reset() -> None:
    latency = RollingLatency(since_ns=4 * NS)
    latency.began(3 * NS + 200 * MS)
    for batch in batches(back_to_back(4 * NS, [100 * MS] * 20)):
        latency.fold(batch)
    assert window_of(latency, None, 6 * NS).throughput_hz == 10.0


@pytest.mark.slow
def test_seconds_without_inferences_are_blank_on_the_timeline() -> None:
    points = only_seconds(back_to_back(0, [3 * NS] * 2_000), step=6_000).points(Axis(0, 6_000))
    assert np.nanmin(points.low) == np.nanmin(points.middle) == 3 * NS


def test_a_second_of_very_many_inferences_counts_before_it_ends() -> None:
    count = EXACT_INFERENCES + 30_000
    inferences = make_inferences(np.arange(count) * 10_000, 9_000)
    for places in ([], range(0, count, 10_000)):
        latency = rolling(inferences, places, is_over=False)
        assert [window_of(latency, window_ns, NS).count for window_ns in (10 * NS, None)] == [count, count]


@pytest.mark.slow
def test_memory_is_bounded_however_many_inferences_come() -> None:
    random = np.random.default_rng(12)
    tracemalloc.start()
    try:
        latency = RollingLatency()
        held = []
        for start_s in range(40):
            inferences = make_inferences(
                start_s * NS + np.arange(20_000) * 50_000, random.integers(20_000, 50_000, 20_000)
            )
            latency.fold(Batch(inferences=inferences, seconds=seconds_from(start_s, inferences)))
            if start_s in {15, 39}:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    early, late = held
    assert late < 12_000_000
    assert late - early < 2_000_000


@pytest.mark.slow
def test_a_huge_batch_is_not_held_for_ever() -> None:
    tracemalloc.start()
    try:
        latency = RollingLatency()
        latency.fold(Batch(inferences=make_inferences(np.arange(1_000_000) * 20_000, 15_000)))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 10_000_000
    finally:
        tracemalloc.stop()


def seconds_from(second: int, inferences: Inferences) -> Seconds:
    aggregator = SecondAggregator(first_second=second)
    return concatenate([aggregator.add(inferences), aggregator.close()])


@pytest.mark.slow
def test_a_slow_model_keeps_its_inferences_for_hours() -> None:
    inferences = back_to_back(0, [2 * NS] * 3_000)
    latency = rolling(inferences, range(0, 3_000, 100))
    view = latency.view(600 * NS, 6_000 * NS)
    assert view.is_exact
    assert view.window is not None
    assert (view.window.count, view.window.throughput_hz) == (300, 0.5)


@pytest.mark.parametrize(("apart_ms", "count"), [(900, 11), (1_000, 60)])
def test_the_present_is_ten_seconds_or_a_minute_if_they_have_too_few_inferences(apart_ms: int, count: int) -> None:
    t_ns = np.arange(0, 100_000, apart_ms) * MS
    latency = rolling(make_inferences(t_ns, np.full(len(t_ns), 20 * MS)))
    assert latency.recent(100 * NS).count == pytest.approx(count, abs=1)
