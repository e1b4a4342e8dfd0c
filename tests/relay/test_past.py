"""A past of hours comes small, and its figures are those of the whole."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.event_index import EventIndex
from edgetop.analysis.verdict_reasons import State
from edgetop.recording.reader import Recording
from edgetop.relay import past
from edgetop.relay.encoding import NOWHERE, Decoder, Encoder
from edgetop.session.batch import Batch, merge
from edgetop.session.engine_events import ProfileBurst
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.operators import ThreadUse
from edgetop.session.records import READING
from edgetop.session.seconds import NS
from tests.analysis.test_equal_position import Model, session
from tests.support.recordings import record
from tests.support.scripts import POWER_SENSORS, SENSORS, Script, manifest, powered
from tests.support.sessions import MS, differences, folded, make_inferences, make_readings, seconds_of
from tests.support.thorough import mostly_thorough

LONG_S = 90 * 60


@pytest.fixture(scope="module")
def long_session() -> list[Batch]:
    """An hour and a half on a board that tells its power, an inference a second."""
    script = Script(manifest(sensors=(*SENSORS, *POWER_SENSORS)), powered, step_s=60.0).load().warm_up().begin()
    script.measure(LONG_S / 2, rate_hz=1).lose("power/VDD_SOC").tell("mark", message="half").measure(
        LONG_S / 2, rate_hz=1
    )
    return script.end().batches


@pytest.fixture(scope="module")
def recording(long_session, tmp_path_factory) -> Recording:
    return Recording(record(tmp_path_factory.mktemp("past") / "s.edgetop", long_session))


@pytest.mark.slow
def test_it_restarts_with_the_manifest_and_ends_with_the_session(recording, long_session):
    batches = list(past.past(recording))
    assert [batch.restart for batch in batches] == [True, *[False] * (len(batches) - 1)]
    assert batches[0].manifest == recording.manifest
    assert batches[-1].until_ns == long_session[-1].until_ns
    assert [batch.until_ns for batch in batches] == sorted(batch.until_ns for batch in batches)


def test_while_it_comes_no_inference_seems_to_be_missing(recording):
    analysis = Analysis()
    for batch in past.past(recording):
        analysis.fold(batch)
        view = analysis.view(None)
        assert view.verdict.state is not State.STALLED, batch.until_ns / NS
        assert not view.events.criticals


@pytest.mark.slow
def test_the_figures_of_the_whole_session_are_those_of_the_board(recording, long_session):
    here, there = folded(past.past(recording)).view(None), folded(long_session).view(None)
    ours, theirs = here.latency.session, there.latency.session
    assert replace(ours, stdev_ns=0) == replace(theirs, stdev_ns=0)
    assert ours.stdev_ns == pytest.approx(theirs.stdev_ns, rel=1e-9)
    assert here.latency.buckets.tolist() == there.latency.buckets.tolist()
    assert here.events.newest_first == there.events.newest_first
    assert here.progress == there.progress
    assert differences(here.precision, there.precision) == []
    assert here.precision.intervals_ns[0] is not None
    assert here.verdict == there.verdict
    for one, other in zip(here.sensors, there.sensors, strict=True):
        assert replace(one, mean=None) == replace(other, mean=None)
        assert one.mean == pytest.approx(other.mean)


@pytest.mark.slow
def test_power_and_energy_from_means_of_aggregates_are_close(recording, long_session):
    here, there = folded(past.past(recording)).view(None).power, folded(long_session).view(None).power
    assert here.total.mean_w == pytest.approx(there.total.mean_w, rel=0.01)
    assert here.total.max_w == there.total.max_w
    assert here.total.energy_j == pytest.approx(there.total.energy_j, rel=0.03)


@pytest.mark.slow
def test_of_bursts_baseline_and_last_come_with_a_sum_of_others(tmp_path):
    """The baseline is the first three, which are slower here than the last."""
    script = Script(manifest(), step_s=15.0).load().warm_up().begin()
    for number in range(70):
        script.measure(30, rate_hz=1).profile(slower=1.2 if number < 3 else 1.1)
    recording = Recording(record(tmp_path / "s.edgetop", script.end().batches))
    sent = list(past.past(recording))
    there = folded(script.batches).view(None).operators
    assert folded(sent).view(None).operators == there
    assert there.bursts == 70
    assert [round(of.change, 2) for of in there.operators] == [-0.08] * len(there.operators)
    assert sum(len(batch.bursts) for batch in sent) < 30


def test_thread_sums_leave_out_disturbed_bursts():
    burst = ProfileBurst(duration_ns=5, left_out_runs=2, threads=ThreadUse(2, 100, 10, 1, "conv", 7))
    bodies = [replace(burst, disturbed_runs=4 * (i == 9)) for i in range(10)]
    told = [Event(i, body, "info", "engine", "") for i, body in enumerate(bodies)]
    summed = past._selected_events(iter([tuple(told)]))[-1]
    assert (summed.kind, summed.body.count) == ("profile-bursts", 7)
    assert (summed.body.left_out_runs, summed.body.disturbed_runs) == (14, 4)
    assert (summed.body.threads.all_ns, summed.body.threads.wait_ns) == (600, 60)


@pytest.mark.parametrize("least_ms", [10, 20, 30])
def test_an_operator_that_took_longer_is_the_cause_for_a_remote_viewer_too(least_ms):
    """Of 40 rounds, 12 have a slow inference: 9 by one operator, 2 by another, and 1 in which all took longer."""
    slow = [("nms", 20, 0.1)] * 9 + [("topk", 90, 0.3)] * 2 + [(None, None, None)]
    bodies = [
        ProfileBurst(duration_ns=5, slow_ns=50 * MS, longer=name, longer_ns=ms and ms * MS, longer_share=share)
        for name, ms, share in slow
    ]
    bodies = [ProfileBurst(duration_ns=5)] * 28 + bodies
    told = tuple(Event(i * NS, body, "info", "engine", "") for i, body in enumerate(bodies))
    here, there = EventIndex(), EventIndex()
    there.on_event(told)
    here.on_event(past._selected_events(iter([told])))
    assert there.longer.explain(least_ms * MS) == here.longer.explain(least_ms * MS) == ("nms" if least_ms < 30 else "")
    assert here.longer._slow == there.longer._slow
    for name, one in there.longer._by_name.items():
        assert asdict(here.longer._by_name[name]) == pytest.approx(asdict(one))


@pytest.mark.slow
@pytest.mark.parametrize("window_s", mostly_thorough([10, 60, 600], 60))
def test_windows_are_those_of_the_board(recording, long_session, window_s):
    """Exact where few inferences are in them, else made of seconds, as the board's are in a fast session."""
    seconds_only = [replace(batch, inferences=batch.inferences[-1:]) for batch in long_session]
    there = folded(long_session if window_s == 10 else seconds_only).view(window_s * NS)
    here = folded(past.past(recording)).view(window_s * NS)
    assert differences(here.latency.window, there.latency.window) == []
    assert here.latency.is_exact == (window_s == 10)
    assert differences(here.latency_points, there.latency_points) == []
    assert differences(here.thermal.hottest_points, there.thermal.hottest_points) == []


@pytest.mark.slow
def test_the_chart_of_the_whole_session_keeps_its_extremes(recording, long_session):
    here, there = folded(past.past(recording)).view(None), folded(long_session).view(None)
    for ours, theirs in (
        (here.latency_points, there.latency_points),
        (here.thermal.hottest_points, there.thermal.hottest_points),
        (here.power.points, there.power.points),
        (here.memory.rss_points, there.memory.rss_points),
    ):
        assert np.isnan(ours.middle).tolist() == np.isnan(theirs.middle).tolist()
        assert np.nanmax(ours.top) == np.nanmax(theirs.top)
        assert np.nanmin(ours.low) == np.nanmin(theirs.low)
        assert np.nanmean(ours.middle) == pytest.approx(np.nanmean(theirs.middle), rel=0.02)


def test_an_hour_and_a_half_is_sent_in_a_hundred_kilobytes(recording):
    encoder = Encoder()
    frames = [encoder.encode(batch, NOWHERE) for batch in past.past(recording)]
    assert sum(map(len, frames)) < 300_000
    assert max(map(len, frames)) < 64_000


def test_a_young_session_comes_whole(tmp_path):
    script = Script(step_s=0.5).load().warm_up().begin().measure(20).lose("temp/cpu-thermal").end()
    recording = Recording(record(tmp_path / "s.edgetop", script.batches))
    here, there = folded(past.past(recording)), folded(script.batches)
    for window_ns in (10 * NS, None):
        ours, theirs = here.view(window_ns), there.view(window_ns)
        assert differences(ours.replaced(latency=None), theirs.replaced(latency=None)) == []
        assert differences(ours.latency, theirs.latency) == []


def merged(rows: NDArray[np.void], width: int) -> NDArray[np.void]:
    return past._joined_rows(rows, past._starts(rows, width))


def test_seconds_are_joined_as_a_timeline_joins_them():
    inferences = make_inferences(np.arange(8) * NS, [5, 1, 4, 2, 8, 7, 6, 3])
    seconds = seconds_of(inferences)
    (joined, rest) = np.split(merged(seconds.rows, 4), 2)
    assert (joined["t_ns"].item(), rest["t_ns"].item()) == (0, 4 * NS)
    assert (joined["count"].item(), joined["min_ns"].item(), joined["max_ns"].item()) == (4, 1, 5)
    assert (joined["p50_ns"].item(), joined["p99_ns"].item()) == (3, 5)
    assert joined["m2_ns2"].item() == pytest.approx(np.var([5, 1, 4, 2]) * 4)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_paced_session_has_the_misses_of_the_board(tmp_path):
    """Two runs of misses, of which the longer one goes over the ends of seconds and of what joins them."""
    load = Load(mode="fixed", rate_hz=1.0, deadline_ns=33_000_000)
    script = Script(manifest(load=load), step_s=60.0).load().warm_up().begin()
    script.measure(1_500, rate_hz=1, median_ms=20).measure(45, rate_hz=1, median_ms=50)
    script.measure(1_500, rate_hz=1, median_ms=20, wait_ms=2).measure(7, rate_hz=1, median_ms=50)
    recording = Recording(record(tmp_path / "s.edgetop", script.measure(1_500, rate_hz=1, median_ms=20).end().batches))
    sent = list(past.past(recording))
    assert sum(len(batch.seconds) for batch in sent) < 3_000  # of 4,552: they were joined
    here, there = folded(sent), folded(script.batches)
    ours, theirs = here.response(), there.response()
    assert differences(replace(ours, stdev_ns=0), replace(theirs, stdev_ns=0)) == []
    assert ours.stdev_ns == pytest.approx(theirs.stdev_ns, rel=1e-9)
    assert replace(here.deadline(), cause=None) == replace(
        there.deadline(), cause=None
    )  # of joined seconds less is known
    assert here.deadline().longest_run >= 45
    assert here.backlog.view() == there.backlog.view()


def test_runs_of_misses_are_joined_over_the_ends_of_seconds():
    latency_ms = [50, 5, 50, 50, 50, 50, 5, 50]
    inferences = make_inferences(np.arange(8) * NS // 2, np.array(latency_ms) * 10**6)
    (joined,) = merged(seconds_of(inferences, 33_000_000).rows, 4)
    assert joined["deadline_misses"] == 6
    assert [joined[f"miss_run_{name}"] for name in ("first", "last", "longest")] == [1, 1, 4]
    (all_missed,) = merged(seconds_of(inferences, 1).rows, 4)
    assert [all_missed[f"miss_run_{name}"] for name in ("first", "last", "longest")] == [8, 8, 8]


def test_seconds_in_which_nothing_ran_are_joined_to_nothing():
    rows = seconds_of(make_inferences([0, 9 * NS], [5, 5])).rows
    joined = merged(rows, 2)
    assert joined["count"].tolist() == [1, 0, 0, 0, 1]
    assert joined["min_ns"].tolist() == [5, -1, -1, -1, 5]
    assert joined["p50_ns"].tolist() == [5, -1, -1, -1, 5]
    assert joined["deadline_misses"].tolist() == [-1] * 5


def test_a_histogram_is_sent_with_its_seconds(monkeypatch):
    monkeypatch.setattr(past, "MOST_JOINED", 4)
    seconds = seconds_of(make_inferences(np.arange(12) * NS, 50))
    pieces = [seconds.where(np.arange(12) // 3 == number) for number in range(4)]
    joined = list(past._joined_seconds(iter(pieces), 12 * NS))
    assert [(len(seconds), int(seconds.histogram().sum())) for seconds in joined] == [(4, 4), (4, 4), (4, 4)]


@pytest.mark.thorough
@pytest.mark.slow
def test_what_is_sent_is_believed_piece_by_piece(recording, long_session):
    encoder, decoder, analysis = Encoder(), Decoder(), Analysis()
    for batch in past.past(recording):
        analysis.fold(decoder.decode(encoder.encode(batch, NOWHERE))[0])
        for window_ns in (10 * NS, 600 * NS, None):
            analysis.view(window_ns).freeze()
    assert analysis.view(None).latency.session.count == folded(long_session).view(None).latency.session.count


def test_aggregates_tell_of_each_sensor_and_span():
    readings = make_readings((0, 0, 5.0), (NS, 1, 1.0), (NS, 0, 7.0), (3 * NS, 0, 2.0), (4 * NS, 0, 9.0))
    found = past._aggregated(readings, 4 * NS)
    assert found.tolist() == [
        (0, 3 * NS, 0, 3, 2.0, 14 / 3, 7.0, 2.0),
        (4 * NS, 4 * NS, 0, 1, 9.0, 9.0, 9.0, 9.0),
        (NS, NS, 1, 1, 1.0, 1.0, 1.0, 1.0),
    ]


def test_of_an_endless_log_the_last_lines_and_all_events_come():
    events = tuple(read_event(i, "log" if i % 3 else "mark", "info", "x", str(i)) for i in range(3_000))
    kept = past._selected_events(iter([events]))
    assert sum(event.kind == "mark" for event in kept) == 1_000
    assert [event.message for event in kept if event.kind == "log"][-1] == "2999"
    assert sum(event.kind == "log" for event in kept) == past.MAX_LOG_LINES
    assert list(kept) == sorted(kept, key=lambda event: event.t_ns)


def test_of_events_without_end_the_first_and_the_last_come():
    events = tuple(read_event(i, "mark", "info", "x", str(i)) for i in range(9_000))
    kept = past._selected_events(iter([events]))
    assert (len(kept), kept[0], kept[-1]) == (past.MAX_EVENTS, events[0], events[-1])


def test_a_fast_model_sends_no_single_inferences_of_its_past(tmp_path):
    script = Script(step_s=1.0).load().warm_up().begin().measure(3, rate_hz=6_000, median_ms=0.1).end()
    recording = Recording(record(tmp_path / "s.edgetop", script.batches))
    assert len(merge(list(past.past(recording))).inferences) <= past.MAX_SINGLE


def test_readings_of_the_last_minutes_come_one_by_one(recording):
    last = merge([batch for batch in past.past(recording) if not len(batch.aggregates)])
    assert last.readings.dtype == READING
    assert len(np.unique(last.readings["t_ns"])) >= past.FINE_S


def test_hours_of_tokens_have_the_figures_of_the_board(tmp_path):
    """Past 34 minutes, a row of the coarse part covers several seconds."""
    whole = session(Model(base=200.0, most=40), 3_600)
    recording = Recording(record(tmp_path / "tokens.edgetop", [whole]))
    remote, board = Analysis(), folded([whole])
    rows = 0
    for batch in past.past(recording):
        (back, _) = Decoder().decode(Encoder().encode(batch, NOWHERE))
        rows += len(back.seconds)
        remote.fold(back)
    assert rows < 2_500
    sent, own = remote.generation.view(), board.generation.view()
    assert (sent.requests, sent.tokens_in, sent.tokens_out) == (own.requests, own.tokens_in, own.tokens_out)
    assert sent.itl.count == own.itl.count > 10_000
    for share in (0.5, 0.99):
        assert sent.itl.percentile_ns(share) == own.itl.percentile_ns(share)
        assert sent.ttft.percentile_ns(share) == own.ttft.percentile_ns(share)
    assert sent.decode_per_s == pytest.approx(own.decode_per_s)
    assert (sent.used_max, sent.position) == (own.used_max, own.position)
