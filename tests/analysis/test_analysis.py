"""All folds together: the same session gives the same view, however it came."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.sessions import (
    MS,
    MadeSession,
    back_to_back,
    differences,
    ended_event,
    folded,
    make_manifest,
    make_readings,
    make_sensor,
    make_session,
    phase_event,
    seconds_of,
)

WINDOWS_NS = (10 * NS, 60 * NS, 600 * NS, None)
SENSORS = tuple(
    make_sensor(sensor_id)
    for sensor_id in (
        "temp/cpu",
        "temp/gpu",
        "freq/cpu0",
        "freqcap/cpu0",
        "mem/rss",
        "load/edgetop",
        "load/others",
        "load/steal",
        "rate/run-queue-wait",
        "throttle/thermal",
    )
)
KINDS = st.sampled_from(
    ["mark", "log", "sensor-lost", "sensor-back", "sensor-missing", "recording-paused", "recording-resumed",
     "inference-failed", "provider-dropped", "records-lost", "engine-died", "competing", "slow-inference",
     "garbage-collected", "sensor-slow", "profile-burst", "governor-changed"]
)  # fmt: skip


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    drawn = st.builds(
        read_event,
        st.integers(0, 60 * NS),
        KINDS,
        st.sampled_from(["info", "warning", "critical"]),
        st.sampled_from(["sensor temp/cpu", "sensor mem/rss", "engine", "user"]),
        st.sampled_from(["one thing", "another thing"]),
    )
    return draw(st.lists(drawn, max_size=12))


@st.composite
def sessions(draw: st.DrawFn) -> MadeSession:
    session = make_session(
        draw(st.integers(0, 10_000)),
        count=draw(st.integers(3, 400)),
        latency_ns=draw(st.sampled_from([5 * MS, 50 * MS, 700 * MS])),
        failures=draw(st.sampled_from([0.0, 0.1, 1.0])),
        sensors=SENSORS,
        reason=draw(st.sampled_from(["duration", "user", "engine-died"])),
    )
    happened = [event for event in draw(events()) if event.t_ns < session.end_ns]
    return replace(session, events=tuple(sorted([*session.events, *happened], key=lambda event: event.t_ns)))


def cut_at(session: MadeSession, cuts: list[float]) -> list[int]:
    return [int(cut * session.end_ns) for cut in cuts]


CUTS = st.lists(st.floats(0, 1), max_size=12)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(sessions(), CUTS)
def test_a_session_ends_in_the_same_view_however_it_came(session: MadeSession, cuts: list[float]) -> None:
    split, whole = folded(session.batches(cut_at(session, cuts))), folded(session.batches())
    for window_ns in WINDOWS_NS:
        assert differences(split.view(window_ns), whole.view(window_ns)) == []
    assert differences(report_document(split), report_document(whole)) == []


@pytest.mark.thorough
@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(sessions(), CUTS)
def test_looking_does_not_change_what_is_seen_later(session: MadeSession, cuts: list[float]) -> None:
    watched, unwatched = Analysis(), Analysis()
    for batch in session.batches(cut_at(session, cuts)):
        for analysis in (watched, unwatched):
            analysis.fold(batch)
        for window_ns in WINDOWS_NS:
            watched.view(window_ns)
    for window_ns in WINDOWS_NS:
        assert differences(watched.view(window_ns), unwatched.view(window_ns)) == []


@pytest.mark.thorough
@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(sessions(), CUTS)
def test_a_reader_that_fell_behind_ends_in_the_same_view(session: MadeSession, cuts: list[float]) -> None:
    batches = list(session.batches(cut_at(session, cuts)))
    for window_ns in WINDOWS_NS:
        assert differences(folded([merge(batches)]).view(window_ns), folded(batches).view(window_ns)) == []


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(sessions(), CUTS)
def test_a_replay_without_each_inference_ends_in_the_same_words(session: MadeSession, cuts: list[float]) -> None:
    live = folded(session.batches(cut_at(session, cuts))).view(None)
    replayed = folded(session.batches([30 * NS], single=False)).view(None)
    assert differences(replayed.replaced(latency=live.latency, latency_heat=live.latency_heat), live) == []
    for name in ("session", "window", "buckets"):
        assert differences(getattr(replayed.latency, name), getattr(live.latency, name)) == []


@pytest.mark.thorough
@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(sessions(), sessions(), CUTS)
def test_a_restart_forgets_what_came_before(before: MadeSession, session: MadeSession, cuts: list[float]) -> None:
    analysis = folded(before.batches())
    analysis.reset()
    for batch in session.batches(cut_at(session, cuts)):
        analysis.fold(batch)
    for window_ns in WINDOWS_NS:
        assert differences(analysis.view(window_ns), folded(session.batches()).view(window_ns)) == []


def test_before_anything_has_come_there_is_a_view_of_nothing() -> None:
    view = Analysis().view(10 * NS)
    assert view.manifest is view.own_load is view.own_memory is None
    assert view.latency.window is view.latency.session is None
    assert view.sensors == view.missing == view.notices == ()
    assert not view.recording_paused


def test_a_view_has_the_parts_of_the_session() -> None:
    rows = ((0, 0, 61.0), (0, 1, 123.0), (0, 2, 1.5), (0, 3, 70.0))
    ids = ("temp/cpu", "mem/rss", "load/edgetop", "mem/edgetop")
    manifest = make_manifest(*map(make_sensor, ids))
    missing = read_event(0, "sensor-missing", "info", "sensor fan", "no fan")
    view = folded([Batch(5 * NS, manifest=manifest, readings=make_readings(*rows), events=(missing,))]).view(10 * NS)
    assert view.manifest is manifest
    assert view.thermal.hottest is not None
    assert view.thermal.hottest.value == 61.0
    assert view.memory.rss is not None
    assert view.memory.rss.value == 123.0
    assert view.memory.board_mib == 4096.0
    assert view.own_load is not None
    assert view.own_load.value == 1.5
    assert view.own_memory is not None
    assert view.own_memory.value == 70.0
    assert [track.info.id for track in view.sensors] == list(ids)
    assert [gap.what for gap in view.missing] == ["fan"]
    assert view.events.newest_first == (missing,)
    assert view.progress.now_ns == 5 * NS


@pytest.mark.parametrize(("window_ns", "from_s"), [(10 * NS, 306), (None, -90)])
def test_every_timeline_of_a_view_is_on_one_axis(window_ns: int | None, from_s: int) -> None:
    session = make_session(1, latency_ns=3 * NS, spread=0.0, sensors=SENSORS)
    view = folded(session.batches()).view(window_ns)
    points = (view.latency_points, view.thermal.hottest_points, view.thermal.clock_points, view.memory.rss_points)
    assert view.axis.from_s == from_s
    assert [p and p.axis for p in points] == [view.axis] * 4
    assert all(view.axis.from_s <= column.from_s < view.axis.to_s for column in view.latency_heat)


def test_a_paused_recording_is_told_until_it_goes_on() -> None:
    analysis = Analysis()
    for kind, paused in (("recording-paused", True), ("mark", True), ("recording-resumed", False)):
        analysis.fold(Batch(events=(read_event(0, kind, "warning", "user", "x"),)))
        assert analysis.view(None).recording_paused is paused


def running(until_s: int) -> Analysis:
    """Ten inferences a second since the start."""
    begun = Batch(manifest=make_manifest(), events=(phase_event(0, "measure"),), restart=True)
    inferences = back_to_back(0, [100 * MS] * 10 * until_s)
    seconds = seconds_of(inferences)
    return folded([begun, Batch(until_s * NS, inferences, seconds.where(np.arange(len(seconds)) < until_s - 1))])


def more(analysis: Analysis, from_s: int, until_s: int) -> None:
    inferences = back_to_back(0, [100 * MS] * 10 * until_s)
    seconds = seconds_of(inferences)
    fresh = inferences[inferences["t_ns"] >= from_s * NS]
    place = np.arange(len(seconds))
    analysis.fold(Batch(until_s * NS, fresh, seconds.where((place >= from_s - 1) & (place < until_s - 1))))


@pytest.mark.parametrize("window_ns", WINDOWS_NS)
def test_a_reset_begins_the_views_anew_at_the_next_whole_second(window_ns: int | None) -> None:
    analysis = running(5)
    analysis.reset()
    assert analysis.view(window_ns).latency.window is None
    more(analysis, 5, 9)
    latency = analysis.view(window_ns).latency
    assert latency.window is not None
    assert latency.session is not None
    assert latency.window.count == latency.session.count == 30
    assert latency.session.throughput_hz == 10.0


def test_a_reset_leaves_the_whole_sessions_figures_alone() -> None:
    analysis = running(5)
    analysis.reset()
    more(analysis, 5, 9)
    statistics = analysis.statistics()
    assert statistics is not None
    assert (statistics.count, statistics.throughput_hz) == (90, 10.0)


def test_a_reset_in_the_warm_up_does_not_make_the_rate_lower() -> None:
    begun = Batch(2 * NS, manifest=make_manifest(), events=(phase_event(0, "warmup"),), restart=True)
    analysis = folded([begun])
    analysis.reset()
    inferences = back_to_back(10 * NS, [100 * MS] * 20)
    analysis.fold(Batch(12 * NS, inferences, events=(phase_event(10 * NS, "measure"),)))
    session = analysis.view(None).latency.session
    assert session is not None
    assert session.throughput_hz == 10.0


def test_figures_stand_still_once_the_session_is_over() -> None:
    analysis = running(5)
    analysis.fold(Batch(5 * NS, events=(ended_event(5 * NS, last_end_ns=5 * NS),)))
    before = analysis.view(10 * NS).freeze()
    analysis.fold(Batch(500 * NS))
    after = analysis.view(10 * NS)
    assert differences(after.latency.window, before.latency.window) == []
    assert after.progress.measured_ns == before.progress.measured_ns
