"""Sessions that follow one another while the engine runs on."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.engine_protocol import Ended, EngineUpdate, PhaseBegan
from edgetop.errors import InputError, RecordingError
from edgetop.recording.recorder import Recorder
from edgetop.runner.rotation import Following, Rotation
from edgetop.sensors.sensor_protocol import sensor
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import data_of, read_event
from edgetop.session.event_kinds import AlertRuleSet, Remark
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.records import READING, Readings
from tests.runner.test_conductor import ORIGIN, Session, Sink
from tests.support.clocks import NS, ManualClock
from tests.support.recordings import played
from tests.support.scripted_engine import ScriptedEngine, inferences, said
from tests.support.sessions import begun, folded, session_id

pytestmark = pytest.mark.slow

MS = 1_000_000
MEASURING = PhaseBegan("measure", ORIGIN)
EVERY_NS = 3 * NS


class Recordings:
    """Made in a folder by what a `Rotation` asks for; those it took into use, in that order."""

    def __init__(self, home: Path, fails: Callable[[], Exception | None] = lambda: None) -> None:
        self.home, self.fails = home, fails
        self.taken: list[Path] = []
        self.told: list[str] = []
        self.rotation = Rotation(EVERY_NS, self.make, self.told.append)
        self.first = self.recorder("session-1")

    def recorder(self, name: str) -> Recorder:
        return Recorder(self.home / f"{name}.edgetop", begun(ManualClock(), name=name))

    def make(self, manifest: Manifest) -> Following:
        if error := self.fails():
            raise error
        name = f"session-{len(self.taken) + 2}"
        recorder = self.recorder(name)
        return Following(name, session_id(name[-1]), recorder, lambda: self.taken.append(recorder.folder))

    def played(self) -> list[Batch]:
        """All of each session."""
        folders = sorted(self.home.glob("*.edgetop"))
        return [played(folder) for folder in folders]


def step(session: Session, recordings: Recordings, seconds: float = 0.5) -> None:
    session.step(after_s=seconds)
    if making := recordings.rotation._making:
        making.join()  # what takes a moment is there at the next step


def steady(seconds: float, latency_ms: int = 30, every_ms: int = 40) -> list[EngineUpdate]:
    """As an engine reports: each half second, those that have ended."""
    starts = ORIGIN + np.arange(0, int(seconds * 1000), every_ms) * MS
    ends = starts + latency_ms * MS
    steps = [ORIGIN + int((i + 1) * NS / 2) for i in range(int(seconds * 2))]
    at = [starts[(ends > upto - NS // 2) & (ends <= upto)] for upto in steps]
    return [said(records=inferences(of, latency_ms * MS)) for of in at]


def run(
    tmp_path: Path, updates: list[EngineUpdate], sensors: tuple[SensorInfo, ...] = (), **more: object
) -> tuple[Recordings, Session]:
    recordings = Recordings(tmp_path)
    engine = ScriptedEngine(said(MEASURING), *updates, said(Ended("runs", ORIGIN + 100 * NS)))
    session = Session(engine=engine, recorder=recordings.first, rotation=recordings.rotation, **more)
    session.session_state.sensors_known(sensors, ())
    session.session_state.add_event(AlertRuleSet("p99>1s"), "info", "user", "alert if p99>1s")
    while not session.conductor.outcome:
        step(session, recordings)
    return recordings, session


@pytest.mark.parametrize(("latency_ms", "every_ms"), [(30, 40), (1, 1), (1900, 2000)])
def test_no_inference_is_lost_and_none_is_in_two_sessions(tmp_path, latency_ms, every_ms) -> None:
    updates = steady(11, latency_ms, every_ms)
    recordings, session = run(tmp_path, updates)
    sessions = recordings.played()
    assert len(sessions) >= 3
    given = np.concatenate([update.records for update in updates])
    origins = [batch.manifest.clock.origin_monotonic_ns for batch in sessions]
    kept = [batch.inferences["t_ns"] + origin for batch, origin in zip(sessions, origins, strict=True)]
    assert np.concatenate(kept).tolist() == given["t_ns"].tolist()
    assert sum(int(batch.seconds.rows["count"].sum()) for batch in sessions) == len(given)
    assert all((batch.inferences["t_ns"] >= 0).all() for batch in sessions)
    counts = [batch.manifest.methodology.measure_runs for batch in sessions]
    assert counts == [len(batch.inferences) for batch in sessions]
    assert session.conductor.outcome.error is None
    assert recordings.told == []


def test_each_session_says_what_it_is(tmp_path) -> None:
    recordings, _ = run(tmp_path, steady(11))
    first, second, *_, last = recordings.played()
    assert (first.manifest.end_reason, first.manifest.state, last.manifest.end_reason) == (
        "rotated",
        "finished",
        "runs",
    )
    assert (second.manifest.name, second.manifest.id) == ("session-2", session_id("2"))
    assert second.manifest.clock.anchors[0].utc > first.manifest.clock.anchors[0].utc
    assert first.manifest.duration_ns >= EVERY_NS
    kinds = [event.kind for event in second.events]
    assert kinds[:3] == ["alert-rule", "rotated", "phase"]
    assert {event.t_ns for event in second.events[:3]} == {0}
    assert data_of(second.events[1].body) == {"before": first.manifest.id}
    assert folded([second]).progress.view().warmup_done is None, "the model was warm"
    assert [event.kind for event in first.events].count("ended") == 1
    assert [path.stem for path in recordings.taken] == [f"session-{n}" for n in range(2, len(recordings.taken) + 2)]


def test_who_watches_sees_the_next_session_begin(tmp_path) -> None:
    _, session = run(tmp_path, steady(5))
    sink: Sink = session.sink
    restarts = [batch for batch in sink.batches if batch.restart]
    assert [batch.manifest.name for batch in restarts] == ["session-2"]
    assert merge(sink.batches).manifest.name == "session-2"
    assert [event.kind for event in merge(sink.batches).events].count("ended") == 1


class EachTime:
    """A sampler whose sensor is read as it is drained."""

    sensors = (sensor("temp", "cpu", "/sys/x"),)

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def drain(self) -> tuple[Readings, tuple[Event, ...]]:
        t_ns = self.clock.monotonic_ns() - ORIGIN
        return np.array([(t_ns, 0, 45.0)], READING), (
            read_event(t_ns, "sensor-back", "info", "sensor temp/cpu", "back"),
        )

    def add(self, _: object) -> None: ...

    start = stop = lambda self: None


def test_what_sensors_tell_is_on_the_clock_of_their_session(tmp_path) -> None:
    clock = ManualClock()
    recordings, session = run(tmp_path, steady(8), clock=clock, sampler=EachTime(clock), sensors=EachTime.sensors)
    for batch in recordings.played():
        for t_ns in (batch.readings["t_ns"], np.array([e.t_ns for e in batch.events if e.kind == "sensor-back"])):
            assert np.diff(t_ns).tolist() == [NS // 2] * (len(t_ns) - 1)
            assert 0 <= t_ns[0] < 1.1 * NS
            assert t_ns[-1] <= batch.until_ns
    assert session.sink.batches[-1].until_ns < EVERY_NS + NS


def test_events_of_other_threads_come_on_the_right_clock(tmp_path) -> None:
    """One that is told in the moment between two sessions belongs to the second."""
    recordings = Recordings(tmp_path)
    session = Session(said(MEASURING), *steady(4), recorder=recordings.first, rotation=recordings.rotation)
    write = recordings.first.write

    def written(batch: Batch) -> tuple[Event, ...]:
        if any(event.kind == "ended" for event in batch.events):
            session.session_state.add_event(Remark("mark"), "info", "user", "just now")
        return write(batch)

    recordings.first.write = written
    while not recordings.taken:
        step(session, recordings)
    [mark] = session.sink.events("mark")
    assert mark.t_ns < 2 * NS


def test_where_no_session_can_begin_the_old_one_goes_on(tmp_path) -> None:
    """It is told, and tried again a minute later."""
    errors = [InputError("the disk is full")]
    recordings = Recordings(tmp_path, lambda: errors.pop() if errors else None)
    session = Session(said(MEASURING), *steady(80), recorder=recordings.first, rotation=recordings.rotation)
    while not recordings.taken:
        step(session, recordings)
    assert recordings.told == ["no new session can begin, the recording goes on in this one: the disk is full"]
    assert session.clock.monotonic_ns() - ORIGIN == pytest.approx(63 * NS, abs=2 * NS)


def test_an_incomplete_recording_does_not_end_the_next(tmp_path) -> None:
    recordings = Recordings(tmp_path)

    def fail(_: Manifest) -> None:
        raise RecordingError("the card is gone")

    recordings.first.finish = fail
    session = Session(said(MEASURING), *steady(5), said(Ended("runs", ORIGIN)), recorder=recordings.first,
                      rotation=recordings.rotation)  # fmt: skip
    while not session.conductor.outcome:
        step(session, recordings)
    assert recordings.told == ["the card is gone"]
    assert session.conductor.outcome.error is None


def test_what_was_made_for_a_next_session_goes_if_there_is_none(tmp_path) -> None:
    recordings = Recordings(tmp_path)
    session = Session(
        said(MEASURING),
        *steady(2.5),
        said(Ended("runs", ORIGIN)),
        recorder=recordings.first,
        rotation=recordings.rotation,
    )
    while not session.conductor.outcome:
        step(session, recordings)
    assert [path.name for path in tmp_path.glob("*.edgetop")] == ["session-1.edgetop"]


def test_a_duration_is_of_all_sessions_together(tmp_path) -> None:
    recordings = Recordings(tmp_path)
    session = Session(
        said(MEASURING), *steady(8), recorder=recordings.first, rotation=recordings.rotation, load=Load(deadline_ns=MS),
    )  # fmt: skip
    session.session_state._spec = session.session_state._spec.__class__("m", "onnx", duration_ns=10 * NS, runs=1_000)
    while not recordings.taken:
        step(session, recordings)
    phase = next(event for event in session.sink.batches[-1].events if event.kind == "phase")
    passed_s = (session.session_state.manifest.clock.origin_monotonic_ns - ORIGIN) / NS
    assert phase.body.duration_ns == round(10 - passed_s) * NS
    assert 0 < phase.body.runs < 1_000
    assert session.session_state.time_left_s() == pytest.approx(10 - passed_s - session.session_state.now_ns() / NS)
