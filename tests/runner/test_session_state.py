"""The story: what the engine says and the clocks do, as events and fields of the manifest."""

import math
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from edgetop.engines.engine_protocol import (
    Died,
    Ended,
    Failed,
    GarbageCollected,
    Loaded,
    LogLine,
    Message,
    PhaseBegan,
    RecordsLost,
    SlowInference,
    StageMemory,
    Started,
)
from edgetop.engines.spec import EngineSpec
from edgetop.runner.session_state import SessionState
from edgetop.sensors.sensor_protocol import Missing, sensor
from edgetop.session.clock import Anchor
from edgetop.session.event_codec import data_of
from edgetop.session.event_kinds import Remark
from edgetop.session.events import Event
from edgetop.session.manifest import TensorInfo
from edgetop.session.records import FIRST, MEASURE, WARMUP
from tests.support.clocks import NS, ManualClock
from tests.support.scripted_engine import inferences
from tests.support.sessions import begun

LOADED = Loaded(
    runtime="onnxruntime",
    version="1.31.1",
    why="the only one that runs ONNX",
    providers=("CPUExecutionProvider",),
    dropped_providers=(),
    inputs=(TensorInfo("x", (1, 4096), "float32"),),
    assumptions=(),
    init_ns=66_000_000,
)


def state_and_clock(**spec: Any) -> tuple[SessionState, ManualClock]:
    clock = ManualClock()
    return SessionState(begun(clock), EngineSpec("model.onnx", "onnx", **spec), clock), clock


def told(session_state: SessionState) -> list[Event]:
    return list(session_state.take_events())


def heard(message: Message) -> Event:
    """The one event that a message becomes."""
    session_state, clock = state_and_clock()
    clock.advance(2)
    session_state.engine_said(message)
    (event,) = session_state.take_events()
    return event


def test_an_event_is_told_at_the_sessions_time_and_taken_once() -> None:
    session_state, clock = state_and_clock()
    clock.advance(1.5)
    session_state.add_event(Remark("mark"), "info", "user", "here")
    assert told(session_state) == [Event(1_500_000_000, Remark("mark"), "info", "user", "here")]
    assert told(session_state) == []


def test_the_manifest_is_taken_at_first_and_where_it_changed() -> None:
    session_state, _ = state_and_clock()
    assert session_state.take_manifest() is session_state.manifest
    assert session_state.take_manifest() is None
    session_state.engine_said(LOADED)
    assert session_state.take_manifest() is session_state.manifest


def test_what_is_not_known_of_loading_is_left_out() -> None:
    assert heard(replace(LOADED, providers=(), why="seen by uprobe")).message == "onnxruntime 1.31.1 (seen by uprobe)"


def test_what_was_loaded_stands_in_the_manifest() -> None:
    session_state, _ = state_and_clock()
    session_state.engine_said(LOADED)
    engine = session_state.manifest.engine
    assert (engine.runtime, engine.version, engine.init_ns) == ("onnxruntime", "1.31.1", 66_000_000)
    assert engine.providers == ("CPUExecutionProvider",)
    assert session_state.manifest.model.inputs == LOADED.inputs
    (event,) = told(session_state)
    assert (event.kind, event.severity) == ("engine-loaded", "info")
    assert "the only one that runs ONNX" in event.message


def test_each_assumption_and_omission_is_a_warning() -> None:
    session_state, _ = state_and_clock()
    session_state.engine_said(
        replace(LOADED, assumptions=("a is 1", "b is 2"), dropped_providers=("CUDAExecutionProvider",))
    )
    events = [(event.kind, event.severity, event.message) for event in told(session_state)][1:]
    assert events[:2] == [("assumed-shape", "warning", "a is 1"), ("assumed-shape", "warning", "b is 2")]
    kind, severity, message = events[2]
    assert (kind, severity) == ("provider-dropped", "critical")
    assert "CUDAExecutionProvider" in message
    assert "runs on CPUExecutionProvider" in message


@pytest.mark.parametrize(
    ("message", "kind", "severity", "source", "part"),
    [
        (Started(17, "3.11.2"), "engine-started", "info", "engine", "3.11.2"),
        (LogLine("warning", "engine stderr", "careful"), "log", "warning", "engine stderr", "careful"),
        (LogLine("warning", "engine", "no", "inference-failed"), "inference-failed", "warning", "engine", "no"),
        (RecordsLost(812), "records-lost", "critical", "engine", "812"),
        (Failed("inference", "it broke"), "engine-failed", "critical", "engine", "it broke"),
        (Died("killed by SIGSEGV", loading=False), "engine-died", "critical", "engine", "SIGSEGV"),
    ],
)
def test_what_the_engine_says_is_told_now(message: Message, kind: str, severity: str, source: str, part: str) -> None:
    event = heard(message)
    assert (event.t_ns, event.kind, event.severity, event.source) == (2 * NS, kind, severity, source)
    assert part in event.message


def test_what_the_engine_holds_at_a_stage_is_told_at_that_time() -> None:
    session_state, clock = state_and_clock()
    clock.advance(2)
    session_state.engine_said(StageMemory("model", clock.monotonic_ns() - NS, 58_880, 26_624, None))
    (event,) = session_state.take_events()
    assert (event.t_ns, event.kind, event.severity) == (NS, "engine-memory", "info")
    assert event.message == "57.5 MiB resident with the model loaded"
    assert data_of(event.body) == {"stage": "model", "rss_mib": 57.5, "anon_mib": 26.0}


def test_lost_records_and_last_words_are_data_too() -> None:
    assert data_of(heard(RecordsLost(812)).body) == {"count": 812}
    died = heard(Died("killed", loading=True, last_words="out of memory"))
    assert data_of(died.body) == {"last_words": "out of memory"}


@pytest.mark.parametrize(
    ("phase", "data"),
    [
        ("first", {"phase": "first"}),
        ("idle", {"phase": "idle", "duration_ns": 30 * NS}),
        ("warmup", {"phase": "warmup", "runs": 7}),
        ("measure", {"phase": "measure", "runs": 100, "duration_ns": 5 * NS}),
    ],
)
def test_a_phase_is_told_at_the_time_at_which_it_began(phase: str, data: dict[str, Any]) -> None:
    session_state, clock = state_and_clock(idle_ns=30 * NS, warmup_runs=7, runs=100, duration_ns=5 * NS)
    began_ns = clock.monotonic_ns() + 3 * NS
    clock.advance(60)
    session_state.engine_said(PhaseBegan(phase, began_ns))
    (event,) = told(session_state)
    assert (event.t_ns, event.kind, data_of(event.body)) == (3 * NS, "phase", data)
    assert session_state.is_measuring == (phase == "measure")


def test_time_left_follows_from_the_duration_or_the_pace() -> None:
    session_state, clock = state_and_clock(runs=100, duration_ns=60 * NS)
    endless, _ = state_and_clock()
    for state in (session_state, endless):
        state.engine_said(PhaseBegan("measure", clock.monotonic_ns()))
    clock.advance(10)
    assert (session_state.time_left_s(), endless.time_left_s()) == (50.0, math.inf)
    for run in range(40):
        session_state.count_inferences(inferences([run * NS // 4], 40_000_000, MEASURE))
    assert session_state.time_left_s() == 15.0  # 60 more runs, at 4 a second
    clock.advance(60)
    assert session_state.time_left_s() == 0.0


def test_sensors_are_in_the_manifest_and_missing_ones_are_events() -> None:
    session_state, _ = state_and_clock()
    sensors = (sensor("temp", "cpu", "/sys"),)
    session_state.sensors_known(
        sensors, (Missing("CPU clocks", "no cpufreq"), Missing("power", "no rail", "sudo more"))
    )
    assert session_state.manifest.sensors == sensors
    events = [(event.kind, event.source, event.message, event.body.fix) for event in told(session_state)]
    assert events == [
        ("sensor-missing", "sensor CPU clocks", "no cpufreq", None),
        ("sensor-missing", "sensor power", "no rail", "sudo more"),
    ]


def test_the_end_tells_what_was_done() -> None:
    session_state, clock = state_and_clock()
    session_state.count_inferences(inferences([1 * NS], 40_000_000, FIRST))
    session_state.count_inferences(inferences([2 * NS, 3 * NS], [5, 7], WARMUP))
    session_state.count_inferences(inferences([4 * NS, 5 * NS, 6 * NS], 2_000_000))
    session_state.count_inferences(inferences([7 * NS], 2_000_000, ok=False))
    clock.advance(9)
    session_state.ended("runs")
    (event,) = told(session_state)
    assert (event.t_ns, event.kind) == (9 * NS, "ended")
    assert data_of(event.body) == {"reason": "runs", "last_end_ns": 7_002_000_000, "warmup_runs": 2, "warmup_ns": 12}
    manifest = session_state.manifest
    assert (manifest.state, manifest.end_reason, manifest.duration_ns) == ("finished", "runs", 9 * NS)
    assert (manifest.methodology.warmup_runs, manifest.methodology.measure_runs) == (2, 4)
    assert manifest.engine.first_ns == 40_000_000


def test_without_inferences_the_engine_says_when_it_ended() -> None:
    session_state, clock = state_and_clock()
    session_state.engine_said(Ended("stop", clock.monotonic_ns() + 4 * NS))
    clock.advance(5)
    session_state.ended("user")
    (event,) = told(session_state)
    assert event.body.last_end_ns == 4 * NS


@pytest.mark.parametrize("is_told_first", [False, True])
def test_the_measurement_ends_with_its_last_inference(is_told_first: bool) -> None:
    """The records of a short run come with the news of its end, and are counted after it."""
    session_state, clock = state_and_clock()
    records, over = inferences([3 * NS, 4 * NS], [5 * NS, 2_000_000]), Ended("runs", clock.monotonic_ns() + 9 * NS)
    session_state.count_inferences(inferences([1 * NS], [7], WARMUP))
    if is_told_first:
        session_state.engine_said(over)
        session_state.count_inferences(records)
    else:
        session_state.count_inferences(records)
        session_state.engine_said(over)
    session_state.ended("runs")
    (event,) = told(session_state)
    assert event.body.last_end_ns == 8 * NS  # of several streams, not that of the one that began last


def watched(session_state: SessionState) -> list[tuple[str, object]]:
    session_state.watch_wall_clock()
    return [(event.kind, event.body.step_s) for event in session_state.take_events()]


def test_a_steady_wall_clock_is_no_event() -> None:
    session_state, clock = state_and_clock()
    for _ in range(50):
        clock.advance(3600)
        assert watched(session_state) == []
    assert len(session_state.manifest.clock.anchors) == 1


@pytest.mark.parametrize("step_s", [0.101, -0.101, 86_400.0, -3.5])
def test_a_step_of_the_wall_clock_is_told_once_and_anchored(step_s: float) -> None:
    session_state, clock = state_and_clock()
    clock.advance(10)
    clock.step_wall(step_s)
    assert watched(session_state) == [("clock-step", pytest.approx(step_s))]
    assert watched(session_state) == []
    anchors = session_state.manifest.clock.anchors
    assert anchors[1] == Anchor(10 * NS, clock.utc().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    assert session_state.take_manifest() is session_state.manifest


@pytest.mark.parametrize("step_s", [0.1, -0.1, 0.05])
def test_a_small_step_is_none(step_s: float) -> None:
    session_state, clock = state_and_clock()
    clock.step_wall(step_s)
    assert watched(session_state) == []


def test_a_pause_between_the_reads_of_the_two_clocks_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on an emulated board, where other programs ran for 0.13 s between the two reads."""
    session_state, clock = state_and_clock()
    read = clock.utc

    def interrupted() -> datetime:
        moment = read()
        clock.advance(0.13)
        return moment

    monkeypatch.setattr(clock, "utc", interrupted)
    assert watched(session_state) == []
    monkeypatch.setattr(clock, "utc", read)
    clock.step_wall(0.2)
    assert watched(session_state) == [("clock-step", pytest.approx(0.2))]


def test_each_of_several_steps_has_its_anchor() -> None:
    session_state, clock = state_and_clock()
    for step_s in (5.0, -2.0, 1.0):
        clock.advance(1)
        clock.step_wall(step_s)
        assert watched(session_state) == [("clock-step", pytest.approx(step_s))]
    assert [anchor.t_ns for anchor in session_state.manifest.clock.anchors] == [0, NS, 2 * NS, 3 * NS]


def test_a_step_does_not_bend_the_time_of_the_session() -> None:
    session_state, clock = state_and_clock()
    clock.advance(2)
    clock.step_wall(-3600)
    session_state.watch_wall_clock()
    assert session_state.now_ns() == 2 * NS


def test_a_slow_inference_is_told_at_the_time_at_which_it_began() -> None:
    session_state, clock = state_and_clock()
    began_ns = clock.monotonic_ns() + NS
    clock.advance(2)
    session_state.engine_said(SlowInference(began_ns, 50_000_000, 60_000_000, 3, 1, 20, 30_000_000))
    (event,) = told(session_state)
    assert (event.t_ns, event.kind, event.severity) == (NS, "slow-inference", "info")
    assert event.message == "50.00 ms, the slowest of its tenth of a second"
    assert data_of(event.body) == {
        "latency_ns": 50_000_000, "span_ns": 60_000_000, "preempted": 3, "major_faults": 1, "minor_faults": 20,
        "waited_ns": 30_000_000,
    }  # fmt: skip


def test_garbage_collection_in_an_inference_is_told_at_the_inferences_begin() -> None:
    session_state, clock = state_and_clock()
    began_ns = clock.monotonic_ns() + NS
    clock.advance(2)
    session_state.engine_said(GarbageCollected(began_ns, 50_000_000, 12_000_000, 3_000_000, 2))
    (event,) = told(session_state)
    assert (event.t_ns, event.kind, event.severity) == (NS, "garbage-collected", "info")
    assert event.message == "12.00 of 50.00 ms were Python's garbage collection"
    assert data_of(event.body) == {
        "latency_ns": 50_000_000, "took_ns": 12_000_000, "after_ns": 3_000_000, "generation": 2,
    }  # fmt: skip


TYPES = {"NonMaxSuppression": 2, "If": 1}


@pytest.mark.parametrize("input_words", ["random", "zeros", "faces.npy, random"])
def test_work_that_depends_on_made_up_values_is_reported_once(input_words: str) -> None:
    session_state, _ = state_and_clock()
    session_state.manifest = replace(
        session_state.manifest, load=replace(session_state.manifest.load, input=input_words)
    )
    session_state.data_dependent({}, {})
    assert told(session_state) == []
    session_state.data_dependent(TYPES, {})
    session_state.data_dependent(TYPES, {})
    (event,) = told(session_state)
    assert (event.kind, event.severity) == ("data-dependent", "warning")
    assert "NonMaxSuppression (2), If depends" in event.message


def test_work_on_real_samples_is_not_doubted() -> None:
    session_state, _ = state_and_clock()
    session_state.manifest = replace(
        session_state.manifest, load=replace(session_state.manifest.load, input="faces.npy")
    )
    session_state.data_dependent(TYPES, {})
    assert told(session_state) == []


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({}, "random input boxes, rate, but the work of NonMaxSuppression (2), If depends on what is in it"),
        ({"rate": "16000"}, "random input boxes, but the work of NonMaxSuppression (2) depends on what is in it"),
        ({"rate": "16000", "boxes": "boxes.npy"}, None),
    ],
)
def test_only_a_made_up_value_that_decides_is_reported(sources: dict[str, str], message: str | None) -> None:
    session_state, _ = state_and_clock(inputs=sources)
    session_state.data_dependent(TYPES, {"NonMaxSuppression": {"boxes"}, "If": {"rate"}})
    assert [event.message for event in told(session_state)] == ([message] if message else [])
