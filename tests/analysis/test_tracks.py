"""The course of every sensor: value, extremes, mean, timeline, loss and return."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.timeline import Axis
from edgetop.analysis.tracks import HOLD_S, SECONDS, MissingSensor, Tracks, TrackView
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.records import AGGREGATE, FOLDED_AT_ONCE, READING, Readings
from edgetop.session.seconds import NS
from tests.support.sessions import differences, make_manifest, make_readings, make_sensor

CPU, GPU, CLOCK = make_sensor("temp/cpu"), make_sensor("temp/gpu"), make_sensor("freq/cpu0")
KNOWN = Batch(manifest=make_manifest(CPU, GPU, CLOCK))


def tracks_of(*batches: Batch) -> Tracks:
    tracks = Tracks()
    for batch in (KNOWN, *batches):
        tracks.fold(batch)
    return tracks


def one(tracks: Tracks, sensor_id: str) -> TrackView:
    track = tracks.one(sensor_id)
    assert track is not None
    return track


def lost(sensor_id: str, reason: str = "No such device") -> Event:
    return read_event(0, "sensor-lost", "warning", f"sensor {sensor_id}", reason)


def back(sensor_id: str) -> Event:
    return read_event(0, "sensor-back", "info", f"sensor {sensor_id}", "reads again")


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(-1e9, 1e9)), min_size=1, max_size=50))
def test_figures_are_those_of_all_readings(values: list[tuple[int, float]]) -> None:
    rows = [(i * NS // 3, sensor, value) for i, (sensor, value) in enumerate(values)]
    tracks = tracks_of(Batch(until_ns=60 * NS, readings=make_readings(*rows)))
    for place, track in enumerate(tracks.views()):
        own = [value for sensor, value in values if sensor == place]
        assert track.count == len(own)
        assert track.value == (own[-1] if own else None)
        assert (track.min, track.max) == ((min(own), max(own)) if own else (None, None))
        assert track.mean == (pytest.approx(sum(own) / len(own), rel=1e-9, abs=1e-3) if own else None)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 90 * NS), st.integers(0, 2), st.floats(-1e9, 1e9)), min_size=1, max_size=40),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_tracks_do_not_depend_on_how_readings_came(rows: list[tuple[int, int, float]], cuts: list[int]) -> None:
    """Slow sensors answer late, so the times of several are not in order."""
    readings = make_readings(*rows)
    parts = np.split(readings, sorted(cut % (len(rows) + 1) for cut in cuts))
    whole, split = tracks_of(Batch(99, readings=readings)), tracks_of(*(Batch(99, readings=part) for part in parts))
    assert differences(split.views(), whole.views()) == []
    axis = Axis(0, 120)
    for info in (CPU, GPU, CLOCK):
        assert differences(split.points(info.id, axis), whole.points(info.id, axis)) == []


def test_a_sensor_that_was_never_read_has_no_value() -> None:
    track = one(tracks_of(), "temp/cpu")
    assert track.value is track.age_s is track.min is track.mean is track.max is None
    assert (track.count, track.is_lost, track.reason) == (0, False, "")


def test_age_is_since_the_last_reading() -> None:
    tracks = tracks_of(Batch(5 * NS, readings=make_readings((3 * NS, 0, 50.0))), Batch(8 * NS))
    assert one(tracks, "temp/cpu").age_s == 5.0


def test_a_late_reading_does_not_replace_a_newer_one() -> None:
    tracks = tracks_of(Batch(readings=make_readings((5, 0, 50.0))), Batch(readings=make_readings((4, 0, 60.0))))
    track = one(tracks, "temp/cpu")
    assert (track.value, track.max, track.count) == (50.0, 60.0, 2)


def test_a_lost_sensor_keeps_what_it_said_and_tells_why() -> None:
    tracks = tracks_of(Batch(readings=make_readings((5, 0, 50.0)), events=(lost("temp/cpu", "I/O error"),)))
    track = one(tracks, "temp/cpu")
    assert (track.is_lost, track.reason, track.value) == (True, "I/O error", 50.0)
    assert not one(tracks, "temp/gpu").is_lost


def test_a_sensor_that_is_back_is_not_lost() -> None:
    track = one(tracks_of(Batch(events=(lost("temp/cpu"),)), Batch(events=(back("temp/cpu"),))), "temp/cpu")
    assert (track.is_lost, track.reason) == (False, "")


def test_what_a_board_does_not_tell_is_listed_with_its_remedy() -> None:
    tracks = tracks_of(
        Batch(
            events=(
                read_event(0, "sensor-missing", "info", "sensor power", "no such chip", {"fix": "modprobe ina3221"}),
            )
        ),
        Batch(events=(read_event(0, "sensor-missing", "info", "sensor fan", "no fan", {"fix": None}),)),
    )
    assert tracks.missing == (
        MissingSensor("power", "no such chip", "modprobe ina3221"),
        MissingSensor("fan", "no fan", ""),
    )


def test_sensors_are_viewed_in_the_manifests_order() -> None:
    tracks = tracks_of()
    assert [track.info for track in tracks.views()] == [CPU, GPU, CLOCK]
    assert [track.info for track in tracks.views("freq", "fan")] == [CLOCK]


def test_a_sensor_that_the_board_has_not_is_none() -> None:
    tracks = tracks_of()
    assert tracks.one("mem/rss") is None
    assert tracks.points("mem/rss", Axis(0, 60)) is None


def test_more_sensors_can_come_without_losing_those_there_are() -> None:
    tracks = tracks_of(Batch(readings=make_readings((5, 1, 50.0))))
    later = make_sensor("mem/rss")
    more = make_manifest(CPU, GPU, CLOCK, later)
    tracks.fold(Batch(manifest=more, readings=make_readings((6 * NS, 3, 7.0))))
    assert one(tracks, "temp/gpu").value == 50.0
    assert one(tracks, "mem/rss").value == 7.0
    points = tracks.points("mem/rss", Axis(0, 60))
    assert points is not None
    assert np.nanmax(points.top) == 7.0


def test_a_manifest_that_changes_otherwise_leaves_the_figures() -> None:
    tracks = tracks_of(Batch(readings=make_readings((5, 0, 50.0))), KNOWN)
    assert one(tracks, "temp/cpu").count == 1


def test_readings_of_an_unlisted_sensor_are_left_out() -> None:
    tracks = tracks_of(Batch(readings=make_readings((5, 9, 50.0), (6, 0, 51.0))))
    assert [track.count for track in tracks.views()] == [1, 0, 0]


@pytest.mark.parametrize("value", [0.0, -40.0])
def test_zero_and_less_are_values(value: float) -> None:
    track = one(tracks_of(Batch(readings=make_readings((5, 0, value)))), "temp/cpu")
    assert (track.value, track.min, track.mean, track.max) == (value,) * 4


def test_a_track_has_its_own_timeline() -> None:
    rows = ((0, 0, 50.0), (0, 1, 70.0), (30 * NS, 0, 60.0))
    points = tracks_of(Batch(readings=make_readings(*rows))).points("temp/cpu", Axis(0, 60))
    assert points is not None
    assert (points.middle[0], points.middle[300]) == (50.0, 60.0)
    assert np.nanmax(points.top) == 60.0


def test_jittered_readings_leave_no_holes_but_a_lost_sensor_does() -> None:
    rows = [(int(at_s * NS), 0, at_s) for at_s in (0.0, 0.8, 2.2, 3.6, 5.1, 20.0, 21.4)]
    points = tracks_of(Batch(readings=make_readings(*rows))).points("temp/cpu", Axis(0, 60))
    assert points is not None
    drawn = ~np.isnan(points.middle[::10])  # of each second
    assert drawn.tolist() == [True] * 6 + [False] * 14 + [True] * 2 + [False] * 38
    assert points.middle[10 * 4] == pytest.approx(3.6)  # nothing was read in the fourth second


def aggregates(*rows: tuple[int, int, int, int, float, float, float, float]) -> Batch:
    return Batch(aggregates=np.array(list(rows), AGGREGATE))


def test_an_aggregate_counts_as_the_readings_that_it_is_of() -> None:
    readings = Batch(readings=make_readings((0, 0, 40.0), (2 * NS, 0, 46.0), (4 * NS, 0, 43.0), (5 * NS, 0, 51.0)))
    summed = aggregates((0, 4 * NS, 0, 3, 40.0, 43.0, 46.0, 43.0))
    last = Batch(readings=make_readings((5 * NS, 0, 51.0)))
    assert one(tracks_of(summed, last), "temp/cpu") == one(tracks_of(readings), "temp/cpu")


def test_a_silent_sensor_has_the_last_value_of_its_stretch() -> None:
    track = one(tracks_of(aggregates((0, 4 * NS, 1, 3, 40.0, 43.0, 46.0, 44.5))), "temp/gpu")
    assert (track.value, track.count) == (44.5, 3)


def test_an_aggregate_is_drawn_wherever_it_lasted() -> None:
    tracks = tracks_of(aggregates((0, 299 * NS, 0, 300, 40.0, 43.0, 46.0, 43.0)))
    points = tracks.points("temp/cpu", Axis(0, 600))
    assert points is not None
    drawn = ~np.isnan(points.middle)
    assert drawn.tolist() == [True] * 300 + [False] * 300
    assert (np.nanmin(points.low), np.nanmax(points.high)) == (40.0, 46.0)
    assert points.middle[drawn] == pytest.approx(43.0)


def test_an_aggregate_of_an_unlisted_sensor_is_left_out() -> None:
    assert tracks_of(aggregates((0, NS, 9, 1, 1.0, 1.0, 1.0, 1.0))).views() == tracks_of().views()


@pytest.mark.parametrize("length_s", [2_000, 30_000])
def test_hours_at_once_are_shown_like_single_readings(length_s: int) -> None:
    random = np.random.default_rng(length_s)
    readings = np.zeros(3 * length_s, READING)
    readings["t_ns"] = np.sort(random.integers(0, length_s * NS, len(readings)))
    readings["sensor"], readings["value"] = random.integers(0, 3, len(readings)), random.normal(50, 9, len(readings))
    at_once = tracks_of(Batch(length_s * NS, readings=readings))
    assert length_s < 30_000 or len(readings) > FOLDED_AT_ONCE
    bit_by_bit = tracks_of(*(Batch(length_s * NS, readings=part) for part in np.array_split(readings, 50)))
    assert differences(at_once.views(), bit_by_bit.views()) == []
    for from_s in (0, length_s - 700, length_s - 600, length_s - 60):
        axis = Axis(from_s, length_s)
        assert differences(at_once.points("temp/gpu", axis), bit_by_bit.points("temp/gpu", axis)) == []


def random_readings(length_s: int, seed: int = 0) -> Readings:
    random = np.random.default_rng(seed)
    readings = np.zeros(2 * length_s, READING)
    readings["t_ns"] = np.sort(random.integers(0, length_s * NS, len(readings)))
    readings["sensor"], readings["value"] = random.integers(0, 3, len(readings)), random.normal(50, 9, len(readings))
    return readings


def test_the_last_value_of_a_second_holds_until_it_is_too_old() -> None:
    rows = ((NS, 0, 1.0), (NS + 5, 0, 2.0), (40 * NS, 0, 3.0), (41 * NS, 1, 9.0))
    tracks = tracks_of(Batch(42 * NS, readings=make_readings(*rows)))
    held, was_read = tracks.held([0], 0, 42)
    assert held[0, 1 : 2 + HOLD_S].tolist() == [2.0] * (HOLD_S + 1)
    assert np.isnan(held[0, [0, *range(2 + HOLD_S, 40)]]).all()
    assert held[0, 40:].tolist() == [3.0, 3.0]
    assert np.flatnonzero(was_read[0]).tolist() == [1, 40]


def test_only_the_latest_seconds_can_be_looked_up() -> None:
    tracks = tracks_of(Batch(readings=make_readings((0, 0, 1.0), (10 * SECONDS * NS, 0, 2.0))))
    assert np.isnan(tracks.read([0], 0, 1)).all()
    assert tracks.read([0], 10 * SECONDS, 10 * SECONDS + 2)[0].tolist() == [2.0, pytest.approx(np.nan, nan_ok=True)]


def test_a_block_tells_its_mean_when_that_was_and_of_how_many() -> None:
    rows = ((4 * NS, 0, 50.0), (5 * NS + NS // 2, 0, 53.0), (6 * NS, 1, 99.0), (7 * NS, 2, 1.0))
    blocks = tracks_of(Batch(8 * NS, readings=make_readings(*rows))).blocks([0, 2], 4, 0, 8, 128)
    assert (blocks.first, blocks.width_s) == (0, 4)
    assert blocks.mean[:, 1].tolist() == [51.5, 1.0]
    assert blocks.mid_s[0, 1] == 4.75
    assert blocks.count[0].tolist() == [0, 2]
    assert np.isnan(blocks.mean[0, 0])


def test_only_whole_blocks_within_the_time_are_given() -> None:
    tracks = tracks_of(Batch(3_000 * NS, readings=random_readings(3_000)))
    blocks = tracks.blocks([0, 1], 4, 2_590.5, 2_999, 128)
    assert blocks.first * 4 == 2_592
    assert blocks.mean.shape == (2, (2_996 - 2_592) // 4)
    assert tracks.blocks([0], 1, 2_999, 2_990, 128).mean.shape == (1, 0)
    assert tracks.blocks([0], 1, 0, 3_000, 128).first == tracks.newest_s - 127


@pytest.mark.parametrize("length_s", [900, 20_000])
def test_however_readings_are_batched_blocks_are_the_same(length_s: int) -> None:
    readings = random_readings(length_s)
    whole = tracks_of(Batch(length_s * NS, readings=readings))
    parts = tracks_of(*(Batch(length_s * NS, readings=part) for part in np.array_split(readings, 37)))
    for width_s in (1, 4, 16, 64):
        one, other = (of.blocks([0, 2], width_s, 0, length_s, 128) for of in (whole, parts))
        assert one.count.sum() > 0
        assert np.nanmax(np.abs(one.mid_s - (one.first + np.arange(one.mean.shape[1]) + 0.5) * width_s)) <= width_s / 2
        assert differences(one, other) == []


def test_of_a_past_in_aggregates_only_blocks_as_long_are_known() -> None:
    tracks = tracks_of(
        aggregates(*((i * 20 * NS, (i * 20 + 19) * NS, 0, 20, 40.0, 43.0, 46.0, 43.0) for i in range(10))),
        Batch(210 * NS, readings=make_readings(*((second * NS, 0, 50.0) for second in range(200, 210)))),
    )
    assert tracks.blocks([0], 16, 0, 210, 128).first * 16 == 208
    assert tracks.blocks([0], 64, 0, 210, 128).mean[0].tolist() == [43.0] * 3


@pytest.mark.parametrize("value", [1e300, -1e300, float("inf")])
def test_a_reading_beyond_measure_overflows_nothing(value: float) -> None:
    tracks = tracks_of(Batch(64 * NS, readings=make_readings(*((second * NS, 0, value) for second in range(64)))))
    assert np.sign(tracks.blocks([0], 64, 0, 64, 128).mean[0, 0]) == np.sign(value)


def test_a_long_batch_comes_in_parts_that_are_folded_one_by_one() -> None:
    readings = random_readings(1_500)
    tracks, seen = tracks_of(), []
    batch = Batch(1_500 * NS, readings=readings, events=(lost("temp/cpu"),))
    for part in tracks.parts(batch):
        seen.append(part)
        assert tracks.newest_s == part.readings["t_ns"][-1] // NS
    assert len(seen) == 3
    assert np.array_equal(np.concatenate([part.readings for part in seen]), readings)
    assert [len(part.events) for part in seen] == [1, 0, 0]


def test_a_sensor_that_comes_later_has_no_earlier_readings() -> None:
    tracks = Tracks()
    tracks.fold(Batch(0, readings=make_readings((NS, 0, 40.0), (2 * NS, 0, 41.0)), manifest=make_manifest(CPU)))
    tracks.fold(Batch(0, readings=make_readings((3 * NS, 1, 50.0)), manifest=make_manifest(CPU, GPU)))
    nan = np.nan
    np.testing.assert_array_equal(tracks.read([0, 1], 0, 5), [[nan, 40, 41, nan, nan], [nan, nan, nan, 50, nan]])


def test_seconds_without_a_reading_are_empty_after_a_long_pause() -> None:
    late_s = 3 * SECONDS
    tracks = tracks_of(*(Batch(0, readings=make_readings((t_s * NS, 0, 60.0))) for t_s in (5, late_s)))
    values = tracks.read([0, 1], 0, late_s + 1)
    assert np.argwhere(~np.isnan(values)).tolist() == [[0, late_s]]
