"""A replay comes to what the live run came to, from wherever and however fast it is played."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.latest import EXACT_INFERENCES
from edgetop.analysis.rolling_latency import RECENT_SECONDS
from edgetop.analysis.verdict_reasons import State
from edgetop.cli.running.run import command, model_request
from edgetop.cli.running.run_session import _assemble
from edgetop.feeds import replay_feed
from edgetop.feeds.feed_protocol import Can
from edgetop.feeds.replay_feed import FASTEST, SLOWEST, ReplayFeed
from edgetop.recording import by_time
from edgetop.recording.by_time import LAST_INFERENCES, SEPARATE_S
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import Retention
from edgetop.session.batch import Batch
from edgetop.session.events import Order
from edgetop.session.records import MEASURE
from edgetop.session.seconds import NS
from tests.support import onnx_models
from tests.support.clocks import ManualClock
from tests.support.recordings import back_to_back, left_by_a_dead_writer, record, session, with_phases
from tests.support.replays import played, replay_of, take
from tests.support.scripts import (
    POWER_SENSORS,
    SENSORS,
    Script,
    cool,
    hot,
    manifest,
    measured,
    paced,
    powered,
    sensor,
)
from tests.support.sessions import differences, folded

pytestmark = pytest.mark.slow

WINDOWS_NS = (10 * NS, 60 * NS, 600 * NS, None)


def views(analysis: Analysis) -> list[object]:
    return [analysis.view(window).freeze() for window in WINDOWS_NS]


def assert_same_views(analysis: Analysis, other: Analysis) -> None:
    assert differences(views(analysis), views(other)) == []


def made(seed: int, count: int, latency_ms: float) -> list[Batch]:
    return list(session(with_phases(back_to_back(count, latency_ms * 1e6, seed)), seed))


sessions = given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 500),
    latency_ms=st.floats(0.5, 60),
    steps_s=st.lists(st.floats(0.001, 5), max_size=12),
    speed=st.sampled_from([0.1, 1.0, 10.0]),
)


@settings(max_examples=20, deadline=None)
@sessions
def test_its_end_is_the_view_in_which_the_live_run_ended(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    latency_ms: float,
    steps_s: list[float],
    speed: float,
) -> None:
    live = made(seed, count, latency_ms)
    feed, clock = replay_of(live, tmp_path_factory.mktemp("replay"), speed=speed)
    assert_same_views(played(feed, clock, steps_s), folded(live))


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@sessions
def test_going_to_a_moment_is_the_same_as_playing_up_to_it(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    latency_ms: float,
    steps_s: list[float],
    speed: float,
) -> None:
    feed, clock = replay_of(made(seed, count, latency_ms), tmp_path_factory.mktemp("replay"), speed=speed)
    analysis, gone = Analysis(), Analysis()
    take(feed, analysis)
    for step_s in steps_s:
        clock.advance(step_s)
        take(feed, analysis)
    t_ns = feed.transport.t_ns
    feed.seek(feed.transport.end_ns)
    take(feed, gone)
    feed.seek(t_ns)
    batch = take(feed, gone)
    assert batch is not None
    assert batch.restart
    assert_same_views(gone, analysis)


def long_script() -> Script:
    """Over two hours: heat, power, bursts, a slowdown with its cause, a mark, a missed sensor, a lost one."""

    def weather(second: float) -> dict[str, float]:
        is_slow = second % 3_000 > 2_400
        return (hot if is_slow else cool)(second) | powered(second) | {"throttle/thermal": float(is_slow)}

    sensors = (*SENSORS, *POWER_SENSORS, sensor("throttle/thermal"))
    script = Script(manifest(sensors=sensors), weather, step_s=20).load().warm_up().begin()
    for minutes in range(0, 130, 10):
        script.measure(595, rate_hz=3, median_ms=8.0 if minutes % 50 == 40 else 5.0).profile()
    return script.tell("mark", source="user", message="door closed").measure(77, rate_hz=3).end()


@pytest.fixture(scope="module")
def long_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("long") / "s.edgetop", long_script().batches)


PLACES_S = (7_812.0, 100.0, 3_599.9, 600.5, 4_200.6, 7_812.0)


@pytest.fixture(scope="module")
def views_at_once(long_folder: Path) -> list[list[object]]:
    """What is seen at each of these places by who goes there at once, one after the other."""
    feed = ReplayFeed(Recording(long_folder), ManualClock())
    feed.play(False)
    analysis, seen = Analysis(), []
    for seconds in PLACES_S:
        feed.seek(int(seconds * NS))
        batch = take(feed, analysis)
        assert batch is not None
        assert batch.resumes_ns is None
        seen.append(views(analysis))
    return seen


def look_ahead(feed: ReplayFeed, analysis: Analysis) -> int:
    """Read the session ahead of `analysis`, which keeps the checkpoints. Returns the number of pieces."""
    scout, pieces = analysis.twin(), 0
    while (batch := feed.ahead()) is not None:
        scout.fold(batch)
        if (at_ns := feed.checkpoint_ns()) is not None:
            analysis.save_checkpoint(at_ns, scout)
        pieces += 1
    return pieces


@pytest.mark.parametrize(
    ("most_kept", "stops_at_once", "first_kept_s"),
    [pytest.param(12, 1, 600.5, marks=pytest.mark.thorough), (3, 2, 2_400.5)],
)
def test_who_looked_ahead_finds_the_same_wherever_he_goes(
    long_folder: Path,
    views_at_once: list[list[object]],
    monkeypatch: pytest.MonkeyPatch,
    most_kept: int,
    stops_at_once: int,
    first_kept_s: float,
) -> None:
    monkeypatch.setattr(by_time, "SECONDS_AT_ONCE", 1)
    monkeypatch.setattr(replay_feed, "MAX_CHECKPOINTS", most_kept)
    monkeypatch.setattr(replay_feed, "STOPS_AT_ONCE", stops_at_once)
    feed = ReplayFeed(Recording(long_folder), ManualClock())
    feed.play(False)
    analysis = Analysis()
    take(feed, analysis)
    assert look_ahead(feed, analysis) >= 3
    assert take(feed, analysis) is None  # what is shown stays
    for seconds, expected in zip(PLACES_S, views_at_once, strict=True):
        feed.seek(int(seconds * NS))
        batch = take(feed, analysis)
        assert batch is not None
        assert (batch.resumes_ns is None) == (seconds < first_kept_s)
        assert differences(views(analysis), expected) == []


@pytest.mark.thorough
def test_a_state_that_was_gone_back_to_can_be_gone_back_to_again(
    long_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_time, "SECONDS_AT_ONCE", 1)
    feed = ReplayFeed(Recording(long_folder), ManualClock())
    feed.play(False)
    analysis = Analysis()
    look_ahead(feed, analysis)
    found = []
    for seconds in (4_000, 6_500, 4_000):
        feed.seek(seconds * NS)
        take(feed, analysis)
        found.append(views(analysis))
    assert differences(found[0], found[2]) == []


def test_of_more_inferences_than_are_kept_the_view_is_the_same(tmp_path: Path) -> None:
    live = Script().load().warm_up().begin().measure(4, rate_hz=40_000, median_ms=0.018).end().batches
    feed, clock = replay_of(live, tmp_path)
    assert_same_views(played(feed, clock, [0.4, 1.3, 0.9]), folded(live))
    feed.play(True)
    assert_same_views(played(feed, clock, []), folded(live))


@pytest.mark.thorough
def test_more_seconds_than_any_window_holds_give_the_same_view(tmp_path: Path) -> None:
    live = Script(step_s=7.5).load().warm_up().begin().measure(4_000, rate_hz=3).end().batches
    feed, clock = replay_of(live, tmp_path, speed=1000)
    expected = folded(live)
    assert_same_views(played(feed, clock, [0.9, 1.6]), expected)
    gone = Analysis()
    feed.seek(feed.transport.end_ns)
    take(feed, gone)
    assert_same_views(gone, expected)


@pytest.mark.parametrize("wait_ms", [3.0, 900.0])
def test_a_paced_session_has_the_same_responses_misses_and_gates(tmp_path: Path, wait_ms: float) -> None:
    script = paced(40, late_ms=wait_ms, p99="p99>33ms").end()
    live = folded(script.batches)
    feed, clock = replay_of(script.batches, tmp_path)
    replay = played(feed, clock, (7.5, 20))
    assert_same_views(live, replay)
    view = replay.view(10 * NS)
    assert view.latency.session_response is not None
    assert view.deadline is not None
    assert view.gates


def test_what_is_kept_one_by_one_is_enough_for_every_view() -> None:
    assert LAST_INFERENCES >= EXACT_INFERENCES
    assert SEPARATE_S >= RECENT_SECONDS


def test_a_real_run_ends_in_the_view_in_which_its_replay_ends(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    arguments = [
        str(tmp_path / "model.onnx"),
        "--duration",
        "2s",
        "--threads",
        "1",
        "--headless",
        "-o",
        str(tmp_path / "one"),
    ]
    request = model_request(command.make_context("run", arguments).params)
    with contextlib.ExitStack() as stack:
        run = _assemble(request, stack, stack)
        run.conductor.start()
        run.analyse()
        while not run.feed.is_over:
            run.feed.ended.wait(0.1)
            run.analysis.catch_up(run.feed)
        assert run.outcome().error is None
    feed = ReplayFeed(Recording(tmp_path / "one.edgetop"), clock := ManualClock())
    assert_same_views(played(feed, clock, [0.3, 0.7, 0.5]), run.analysis)


# How it is played.


@pytest.fixture
def minute(tmp_path: Path) -> tuple[ReplayFeed, ManualClock]:
    return replay_of(measured(60).end().batches, tmp_path)


def test_time_passes_as_fast_as_is_wished(minute: tuple[ReplayFeed, ManualClock]) -> None:
    feed, clock = minute
    feed.read()
    stood = []
    for speed in (1.0, 0.1, 10.0):
        feed.set_speed(speed)
        clock.advance(2)
        feed.read()
        stood.append(feed.transport.t_ns / NS)
    assert stood == pytest.approx([2, 2.2, 22.2])


def test_speeds_have_limits(minute: tuple[ReplayFeed, ManualClock]) -> None:
    feed, _ = minute
    feed.set_speed(1e6)
    assert feed.transport.speed == FASTEST
    feed.set_speed(0)
    assert feed.transport.speed == SLOWEST


def test_while_it_is_paused_nothing_comes(minute: tuple[ReplayFeed, ManualClock]) -> None:
    feed, clock = minute
    feed.read()
    clock.advance(5)
    feed.play(False)
    clock.advance(5)
    batch = feed.read()
    assert batch is not None
    assert batch.until_ns == 5 * NS
    clock.advance(5)
    assert feed.read() is None
    feed.play(True)
    clock.advance(1)
    assert feed.read() is not None
    assert feed.transport.t_ns == 6 * NS


def test_at_its_end_it_pauses_and_playing_begins_anew(minute: tuple[ReplayFeed, ManualClock]) -> None:
    feed, clock = minute
    feed.read()
    clock.advance(100)
    assert feed.read() is not None
    assert (feed.transport.t_ns, feed.transport.is_playing) == (feed.transport.end_ns, False)
    assert feed.is_over
    feed.play(True)
    batch = feed.read()
    assert batch is not None
    assert (batch.restart, batch.until_ns, feed.is_over) == (True, 0, False)


def test_outside_of_the_session_there_is_nothing_to_go_to(minute: tuple[ReplayFeed, ManualClock]) -> None:
    feed, _ = minute
    for t_ns, stands in ((-5 * NS, 0), (10**18, feed.transport.end_ns)):
        feed.seek(t_ns)
        assert feed.transport.t_ns == stands


def test_it_begins_where_it_is_told_to(tmp_path: Path) -> None:
    feed, _ = replay_of(measured(60).end().batches, tmp_path, from_ns=30 * NS)
    batch = feed.read()
    assert batch is not None
    assert (batch.restart, batch.until_ns) == (True, 30 * NS)
    assert batch.seconds.rows["t_ns"][-1] == 29 * NS


def test_an_inference_is_not_told_before_it_has_ended(tmp_path: Path) -> None:
    live = Script().load().warm_up().begin().measure(20, rate_hz=0.3, median_ms=2_900).end().batches
    feed, clock = replay_of(live, tmp_path, speed=1)
    feed.read()
    told = summed = 0
    for _ in range(60):
        clock.advance(0.25)
        batch = feed.read()
        assert batch is not None
        told += np.count_nonzero(batch.inferences["phase"] == MEASURE)
        summed += batch.seconds.rows["count"].sum()
        assert summed <= told
        ends = batch.inferences["t_ns"] + batch.inferences["latency_ns"]
        assert (ends <= batch.until_ns).all()
        assert (batch.seconds.rows["t_ns"] + NS <= batch.until_ns).all()


# Where one can go to.


def eventful() -> Script:
    script = measured(10).tell("log", message="a line").tell("sensor-missing", message="no fan")
    script.measure(5).profile().measure(2).tell("mark", source="user", message="door").tell(
        "records-lost", "warning", message="12"
    )
    return script.measure(5).tell("log", "warning", message="a warning").measure(5).end()


def test_marks_are_landmarks_not_log_lines_or_slow_inferences(tmp_path: Path) -> None:
    script = eventful().tell("slow-inference", message="4 ms").tell("engine-memory", message="58 MiB")
    feed, _ = replay_of(script.batches, tmp_path)
    marks = [(mark.kind, mark.severity) for mark in feed.transport.marks]
    assert marks == [("mark", "info"), ("records-lost", "warning"), ("log", "warning"), ("ended", "info")]


# Sessions that are not whole.


def test_a_session_of_seconds_only_has_the_same_figures(tmp_path: Path) -> None:
    live = made(3, 400, 20)
    record(tmp_path / "s.edgetop", live, Retention(raw=False))
    feed = ReplayFeed(Recording(tmp_path / "s.edgetop"), clock := ManualClock())
    analysis = played(feed, clock, [1.0, 2.5])
    assert analysis.statistics() == folded(live).statistics()


def test_a_killed_session_is_played_to_where_it_was_lost(tmp_path: Path) -> None:
    live = made(4, 400, 20)
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", live[: len(live) // 2])
    feed = ReplayFeed(Recording(folder), clock := ManualClock())
    analysis = played(feed, clock, [1.0])
    assert analysis.view(None).verdict.state is State.CUT_SHORT
    assert feed.transport.marks[-1].kind == "recovered"


def test_a_session_that_goes_on_is_played_as_far_as_it_has_come(tmp_path: Path) -> None:
    live = made(5, 400, 20)
    recorder = Recorder(tmp_path / "s.edgetop", live[0].manifest)  # type: ignore[arg-type]
    for batch in live[: len(live) // 2]:
        recorder.write(batch)
    recording = Recording(tmp_path / "s.edgetop")
    assert recording.is_live
    feed = ReplayFeed(recording, clock := ManualClock())
    analysis = played(feed, clock, [1.0])
    assert analysis.view(None).progress.phase == "measure"
    assert 0 < feed.transport.end_ns <= live[len(live) // 2].until_ns


@pytest.mark.parametrize("table", ["inferences", "seconds", "readings", "events"])
def test_of_a_session_with_a_damaged_table_the_rest_is_played(tmp_path: Path, table: str) -> None:
    folder = record(tmp_path / "s.edgetop", made(6, 400, 20))
    path = folder / f"{table}.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    feed = ReplayFeed(recording := Recording(folder), clock := ManualClock())
    analysis = played(feed, clock, [1.0])
    assert [table in problem for problem in recording.problems] == [True]
    assert len(analysis.view(None).sensors) == 3


def test_golden_sessions_play_to_their_end(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "recordings" / "v1"
    for path in set(golden.glob("*.edgetop")) - set(golden.glob("foreign-*")):
        folder = shutil.copytree(path, tmp_path / path.name)
        recording = Recording(folder)
        analysis = played(ReplayFeed(recording, clock := ManualClock()), clock, [2.0, 0.7])
        assert recording.problems == []
        assert_same_views(analysis, folded(Recording(folder).play(inferences=True)))


def test_it_takes_no_orders_for_the_session(minute: tuple[ReplayFeed, ManualClock]) -> None:
    feed, _ = minute
    assert feed.can == Can.SEEK | Can.SPEED
    feed.order(Order("stop"))
    feed.order(Order("mark", ""))
    feed.order(Order("pause"))
