"""Timelines: no spike lost at any resolution, in memory that never grows."""

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis import timeline as timeline_module
from edgetop.analysis.timeline import (
    COARSE_BINS,
    COLUMNS_S,
    FIRST_BINS,
    POINTS,
    RECENT_SECONDS,
    ZOOMS_S,
    Axis,
    Lens,
    Points,
    Timeline,
    choose_axis,
    column_width,
)
from tests.support.sessions import differences

DAY_S = 86_400


def add(timeline: Timeline, second: object, value: object, *, track: object = 0, weight: object = 1.0) -> None:
    """One value, or many, each low, middle, high and top at once."""
    seconds = np.atleast_1d(np.asarray(second, np.int64))
    values = np.broadcast_to(np.asarray(value, np.float64), seconds.shape)
    tracks = np.broadcast_to(np.asarray(track, np.int64), seconds.shape)
    weights = np.broadcast_to(np.asarray(weight, np.float64), seconds.shape)
    timeline.add(tracks, seconds, np.stack([values] * 4), weights)


def timeline_of(second: object, value: object, weight: object = 1.0) -> Timeline:
    timeline = Timeline()
    add(timeline, second, value, weight=weight)
    return timeline


def place_of(second: float, axis: Axis) -> int:
    return int((second - axis.from_s) * axis.places // (axis.to_s - axis.from_s))


def whole(timeline: Timeline, length_s: int) -> Points:
    return timeline.points(Axis(0, length_s))


@settings(deadline=None, max_examples=40)
@given(st.integers(60, 20 * DAY_S), st.floats(0, 1))
def test_a_spike_is_seen_in_its_place_however_long_the_session(length_s: int, where: float) -> None:
    spike = int(where * (length_s - 1))
    seconds = np.unique(np.append(np.linspace(0, length_s - 1, 2_000).astype(int), spike))
    points = whole(timeline_of(seconds, np.where(seconds == spike, 99.0, 5.0)), length_s)
    place = place_of(spike, points.axis)
    assert points.top[place] == points.high[place] == 99.0
    assert points.low[points.top < 99].tolist() == [5.0] * int((points.top < 99).sum())


@settings(deadline=None, max_examples=40)
@given(st.integers(60, 20 * DAY_S), st.floats(0, 1))
def test_a_dip_is_seen_too(length_s: int, where: float) -> None:
    dip = int(where * (length_s - 1))
    seconds = np.arange(0, length_s, 7)
    timeline = timeline_of(seconds, 5.0)
    add(timeline, dip, 1.0)
    points = whole(timeline, length_s)
    assert points.low[place_of(dip, points.axis)] == 1.0
    assert np.nanmax(points.top) == 5.0


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 12_000), st.integers(0, 2), st.floats(-1e6, 1e6)), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=6),
    st.booleans(),
)
def test_the_picture_does_not_depend_on_how_values_came(
    values: list[tuple[int, int, float]], cuts: list[int], in_order: bool
) -> None:
    rows = np.array(sorted(values) if in_order else values)
    at_once, in_parts = Timeline(3), Timeline(3)
    add(at_once, rows[:, 0], rows[:, 2], track=rows[:, 1])
    for part in np.split(rows, sorted(cut % (len(rows) + 1) for cut in cuts)):
        add(in_parts, part[:, 0], part[:, 2], track=part[:, 1])
    for axis in (Axis(0, 12_000), Axis(11_400, 12_000), Axis(0, 600)):
        for track in range(3):
            assert differences(at_once.points(axis, track), in_parts.points(axis, track)) == []


@pytest.mark.slow
def test_memory_is_the_same_after_ten_days_as_after_two_hours() -> None:
    tracemalloc.start()
    try:
        timeline = Timeline(4)
        fill(timeline, 0, 7_200)
        early = kept_bytes()
        fill(timeline, 7_200, 10 * DAY_S)
        late = kept_bytes()
    finally:
        tracemalloc.stop()
    assert abs(late - early) < 4_096
    assert late < 1_000_000
    assert not np.isnan(timeline.points(Axis(0, 10 * DAY_S), 3).middle).any()


def kept_bytes() -> int:
    """Return the memory that the timeline's module holds; other code of the process may allocate meanwhile."""
    gc.collect()
    own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, timeline_module.__file__)])
    return sum(trace.size for trace in own.traces)


def fill(timeline: Timeline, from_s: int, to_s: int) -> None:
    """A value of each of four tracks in every second."""
    for hour_s in range(from_s, to_s, 3_600):
        add(timeline, np.repeat(np.arange(hour_s, hour_s + 3_600), 4), 1.0, track=np.tile(np.arange(4), 3_600))


def test_after_ten_days_the_last_minutes_are_still_in_seconds() -> None:
    end_s = 10 * DAY_S
    timeline = Timeline()
    for start_s in range(0, end_s, DAY_S):
        seconds = np.arange(start_s, start_s + DAY_S)
        add(timeline, seconds, seconds % 100)
    points = timeline.points(Axis(end_s - 600, end_s))
    assert points.middle.tolist() == [(end_s - 600 + i) % 100 for i in range(600)]


def test_nothing_stands_where_nothing_was_measured() -> None:
    points = timeline_of([10, 11, 50], 5.0).points(Axis(0, 60))
    held = ~np.isnan(points.middle)
    assert np.flatnonzero(held).tolist() == [*range(100, 120), *range(500, 510)]
    for row in (points.low, points.high, points.top):
        assert np.array_equal(~np.isnan(row), held)


def test_what_lies_outside_an_axis_is_not_on_it() -> None:
    timeline = timeline_of([0, 59, 100, 159, 160, 300], [1, 2, 3, 4, 5, 6])
    points = timeline.points(Axis(100, 160))
    assert points.middle[:10].tolist() == [3.0] * 10
    assert points.middle[-10:].tolist() == [4.0] * 10
    assert np.isnan(points.middle[10:-10]).all()


def test_a_timeline_without_values_is_empty() -> None:
    assert Timeline().points(Axis(0, 60)).is_empty
    assert not timeline_of(5, 1.0).points(Axis(0, 60)).is_empty
    assert timeline_of(5, 1.0).points(Axis(60, 120)).is_empty


def test_every_row_has_as_many_points_on_every_axis() -> None:
    timeline = timeline_of(np.arange(5_000), 1.0)
    for axis in (Axis(0, 60), Axis(4_400, 5_000), Axis(0, 5_000), Axis(4_999, 5_000)):
        points = timeline.points(axis)
        assert points.axis == axis
        assert {len(row) for row in (points.low, points.middle, points.high, points.top)} == {points.axis.places}


def test_the_middle_of_a_place_is_the_mean_by_weight() -> None:
    timeline = timeline_of([0, 1, 1], [2.0, 4.0, 8.0], weight=[1.0, 2.0, 1.0])
    points = timeline.points(Axis(0, 2_400))
    assert points.middle[0] == (2.0 + 2 * 4.0 + 8.0) / 4
    assert (points.low[0], points.high[0]) == (2.0, 8.0)


def test_means_survive_the_merging_of_bins() -> None:
    timeline = Timeline()
    add(timeline, np.arange(0, 8_192), np.arange(0, 8_192))
    points = timeline.points(Axis(0, 8_192))
    expected = (np.arange(POINTS) + 0.5) * 8_192 / POINTS - 0.5
    assert np.abs(points.middle - expected).max() <= 4


def test_figures_keep_their_rows() -> None:
    timeline = Timeline()
    timeline.add(np.array([0]), np.array([3]), np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([9.0]))
    points = timeline.points(Axis(0, 60))
    assert (points.low[30], points.middle[30], points.high[30], points.top[30]) == (1.0, 2.0, 3.0, 4.0)


def test_a_late_value_stands_in_its_own_second() -> None:
    timeline = timeline_of([100, 40], [1.0, 7.0])
    assert timeline.points(Axis(0, 600)).middle[40] == 7.0


def test_a_second_an_hour_later_does_not_mix_with_the_one_before() -> None:
    timeline = timeline_of(10, 99.0)
    add(timeline, 3_610, 1.0)
    assert np.nanmax(timeline.points(Axis(3_300, 3_900)).top) == 1.0
    assert np.nanmax(timeline.points(Axis(0, 3_900)).top) == 99.0


def test_a_value_an_hour_late_does_not_replace_a_new_one() -> None:
    timeline = timeline_of([3_610, 10], [1.0, 99.0])
    assert np.nanmax(timeline.points(Axis(3_300, 3_900)).top) == 1.0
    assert np.nanmax(timeline.points(Axis(0, 3_900)).top) == 99.0


def test_what_is_dated_before_the_session_is_left_out() -> None:
    timeline = timeline_of([-1, -4_000], 1.0)
    assert timeline.points(Axis(0, 600)).is_empty


def test_tracks_do_not_mix_and_more_can_come() -> None:
    timeline = Timeline(1)
    add(timeline, 5, 1.0)
    timeline.grow(3)
    add(timeline, 6, 2.0, track=2)
    axis = Axis(0, 600)
    first, second, third = (timeline.points(axis, track) for track in range(3))
    assert np.flatnonzero(~np.isnan(first.middle)).tolist() == [5]
    assert second.is_empty
    assert np.flatnonzero(~np.isnan(third.middle)).tolist() == [6]


def test_points_do_not_change_when_more_comes() -> None:
    timeline = timeline_of(5, 1.0)
    points = timeline.points(Axis(0, 60))
    add(timeline, 5, 50.0)
    assert points.top[50] == 1.0


TIMES = np.unique(np.concatenate([np.arange(0, 5_000, 0.5), np.geomspace(5_000, 20 * DAY_S, 4_000)]))


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_axis_contains_now_and_moves_only_forward(is_whole: bool) -> None:
    axes = [choose_axis(now_s, is_whole) for now_s in TIMES.tolist()]
    assert all(axis.from_s <= now_s < axis.to_s for axis, now_s in zip(axes, TIMES, strict=True))
    for ends in ([axis.column_s for axis in axes], [axis.to_s // axis.column_s * axis.column_s for axis in axes]):
        assert ends == sorted(ends)


def test_the_whole_session_is_on_the_axis_that_was_asked_for_it() -> None:
    assert all(choose_axis(now_s, whole=True).from_s <= 0 for now_s in TIMES.tolist())


@pytest.mark.parametrize("columns", [40, 66, 100, 240])
def test_an_axis_shows_ten_minutes_once_there_are_so_many(columns: int) -> None:
    axes = [choose_axis(now_s, False, columns) for now_s in TIMES[TIMES >= 600].tolist()]
    assert {axis.columns for axis in axes} == {columns}
    assert all(600 <= axis.to_s - axis.from_s <= 1_000 for axis in axes)


@pytest.mark.parametrize("columns", [40, 66, 100, 240])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_column_shows_the_same_seconds_while_it_moves(columns: int, is_whole: bool) -> None:
    for now_s in TIMES.tolist():
        axis = choose_axis(now_s, is_whole, columns)
        assert axis.from_s % axis.column_s == axis.to_s % axis.column_s == 0
        assert axis.to_s - now_s <= axis.column_s  # the newest column is the last one


def test_columns_are_as_narrow_as_the_span_allows() -> None:
    assert [column_width(span, 100) for span in (1, 100, 101, 500, 600, 86_400)] == [1, 1, 2, 5, 6, 900]
    assert column_width(100 * COLUMNS_S[-1] + 1, 100) == 2 * COLUMNS_S[-1]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 400), st.integers(1, 500), st.floats(-10, 1_000))
def test_until_a_moment_means_all_before_it_and_nothing_after(from_s: int, span: int, moment: float) -> None:
    axis = Axis(from_s, from_s + span)
    points = timeline_of(np.arange(1_000), np.arange(1_000)).points(axis)
    cut = points.until(moment)
    assert cut.axis == axis
    places = len(points.middle)
    for place in range(0, places, 7):
        begin = from_s + place * span / places
        if begin < moment - 1e-6:
            assert cut.middle[place] == points.middle[place]
        elif begin > moment + 1e-6:
            assert np.isnan(cut.middle[place])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2 * POINTS), st.integers(0, 3 * RECENT_SECONDS))
def test_a_span_with_equal_places_shows_each_of_its_seconds(seed: int, span: int, from_s: int) -> None:
    """At the end of the ring and elsewhere; a second without a value is empty, and so is one before the ring."""
    random = np.random.default_rng(seed)
    seconds = np.flatnonzero(random.random(from_s + span) < 0.8)
    values, weights = random.normal(0, 9, len(seconds)), random.integers(1, 9, len(seconds))
    points = timeline_of(seconds, values, weights).points(Axis(from_s, from_s + span))
    expected = np.full(from_s + span, np.nan)
    expected[seconds] = values
    expected = np.repeat(expected[from_s:], max(1, POINTS // span))
    for row in (points.low, points.middle, points.top):
        assert np.allclose(row, expected, equal_nan=True)


def test_short_holes_are_bridged_and_longer_ones_stay() -> None:
    axis = Axis(0, 60)  # ten places a second
    middle = np.full(POINTS, np.nan)
    for from_s, to_s, value in ((0, 1, 1.0), (4, 5, 2.0), (10, 11, 3.0), (11, 12, 4.0)):
        middle[10 * from_s : 10 * to_s] = value
    points = Points(axis, middle - 0.5, middle, middle + 0.5, middle + 0.5)
    bridged = points.bridged(3)
    expected = middle.copy()
    expected[10:40] = 1.0
    assert np.array_equal(bridged.middle, expected, equal_nan=True)
    assert np.array_equal(bridged.low, expected - 0.5, equal_nan=True)
    assert points.bridged(2.9) is points
    assert not np.isnan(points.bridged(5).middle[:120]).any()
    assert np.isnan(points.bridged(60).middle[120:]).all()
    empty = np.full(POINTS, np.nan)
    assert Points(axis, empty, empty, empty, empty).bridged(60).is_empty


def test_extremes_are_of_what_is_known_from_a_second_on() -> None:
    ramp = np.repeat(np.arange(60.0), POINTS // 60)
    ramp[POINTS // 2 : POINTS // 2 + 20] = np.nan
    points = Points(Axis(100, 160), ramp - 1.0, ramp, ramp + 1.0, ramp)
    assert points.extremes(0) == (-1.0, 60.0)
    assert points.extremes(130) == (31.0, 60.0)
    assert np.isnan(points.extremes(160)).all()
    assert np.isnan(points.extremes(999)).all()


steps = st.lists(st.sampled_from(("closer", "wider", "back", "on")), max_size=30)


def after(lens: Lens, steps: list[str], now_s: float, *, whole: bool = False) -> Lens:
    for step in steps:
        if step in ("back", "on"):
            lens = lens.moved(-1 if step == "back" else 1, now_s, whole=whole)
        else:
            lens = getattr(lens, step)(now_s, whole=whole)
    return lens


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("now_s", [0.0, 75.5, 4_000.0])
def test_an_untouched_lens_shows_the_axis_for_the_age(now_s: float, whole: bool) -> None:
    assert Lens().axis(now_s, whole=whole) == choose_axis(now_s, whole)


def test_zooming_in_follows_time_and_out_ends_at_the_whole() -> None:
    lens = after(Lens(), ["closer", "closer"], 4_000)
    seen, later = (lens.axis(now_s, whole=False) for now_s in (4_000, 4_100))
    assert (seen.to_s - seen.from_s, seen.to_s) == (pytest.approx(120, abs=2), pytest.approx(4_005, abs=2))
    assert (later.from_s - seen.from_s, later.to_s - seen.to_s) == (100, 100)
    wide = after(Lens(), ["wider"] * 20, 4_000).axis(4_000, whole=False)
    assert wide.from_s <= 0
    assert wide.to_s > 4_000


def test_closer_and_wider_are_each_others_way_back() -> None:
    assert after(Lens(600), ["closer", "wider"], 5_000) == Lens(600)


def test_zooming_in_keeps_the_middle_of_the_axis() -> None:
    looked = after(Lens(600), ["back"] * 8, 5_000)
    before, now = (lens.axis(5_000, whole=False) for lens in (looked, after(looked, ["closer"], 5_000)))
    assert now.to_s - now.from_s == pytest.approx(300, abs=now.column_s)
    assert abs((before.from_s + before.to_s) - (now.from_s + now.to_s)) <= 4 * before.column_s


def test_back_goes_to_the_beginning_and_on_to_now() -> None:
    assert after(Lens(60), ["back"] * 500, 1_000).axis(1_000, whole=False) == Axis(0, 60, 1)
    assert after(Lens(60), ["back"] * 500 + ["on"] * 500, 1_000) == Lens(60)


@settings(deadline=None, max_examples=100)
@given(steps, st.floats(0, 1e6), st.booleans())
def test_the_axis_always_lies_in_the_session(todo: list[str], now_s: float, whole: bool) -> None:
    lens = after(Lens(), todo, now_s, whole=whole)
    axis = lens.axis(now_s, whole=whole)
    assert axis.from_s <= now_s < axis.to_s or lens.back_s
    assert axis.from_s < axis.to_s
    assert axis.from_s > -axis.column_s or lens.is_plain
    assert axis.from_s % axis.column_s == axis.to_s % axis.column_s == 0
    assert lens.span_s is None or lens.span_s in ZOOMS_S or "back" in todo or "on" in todo
    if not lens.back_s:
        assert axis.to_s >= now_s


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(ZOOMS_S), st.integers(100, 100_000))
def test_an_axis_that_follows_time_moves_seldom(span: int, now_s: int) -> None:
    axes = {Lens(span).axis(now_s + i, whole=False) for i in range(100)}
    assert len(axes) <= 21


def test_the_axis_of_a_young_session_does_not_move_each_second() -> None:
    axes = [choose_axis(now_s, whole, columns=80) for now_s in range(60) for whole in (False, True)]
    assert {axis.column_s for axis in axes} == {2}
    assert len({axis.to_s for axis in axes}) == 30


def test_coarse_bins_are_made_as_the_session_gets_longer() -> None:
    timeline, track = Timeline(has_top=False), np.zeros(1, np.int64)
    for second in (3, FIRST_BINS + 1, COARSE_BINS - 1):
        timeline.add(track, np.array([second]), np.full((3, 1), float(second)), np.ones(1))
        sums, weights = timeline.sums(track, 0, COARSE_BINS, coarse=True)
        known = [at for at in (3, FIRST_BINS + 1, COARSE_BINS - 1) if at <= second]
        assert np.flatnonzero(weights[0]).tolist() == np.flatnonzero(sums[0]).tolist() == known
    timeline.add(track, np.array([COARSE_BINS]), np.full((3, 1), 7.0), np.ones(1))
    assert timeline.coarse_width_s == 2
    assert timeline.sums(track, 0, COARSE_BINS + 2, coarse=True)[0][0, [1, -1]].tolist() == [3.0, 7.0]
