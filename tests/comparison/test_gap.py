"""Made situations, each with one cause of the gap: it is named, with what it took; what has none is not explained."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.program_frames import BETWEEN, QUEUE, TOTAL, FramesView, StageView
from edgetop.comparison.application_gap import gap
from edgetop.comparison.gap_evidence import Evidence
from edgetop.session.manifest import (
    Ab,
    BackgroundProcess,
    EngineInfo,
    Methodology,
    Model,
    TensorInfo,
    Variant,
    Watched,
    WatchedStream,
)
from edgetop.session.records import FIRST, INFERENCE, MEASURE, WARMUP
from tests.support.clocks import ManualClock
from tests.support.sessions import begun

MS = 1_000_000
COUNT = 1_000
LOOP_MS = 10.0


def inferences(latency_ms, pause_ms=0.0):
    """One stream, one after the other; values or one for each."""
    made = np.zeros(COUNT, INFERENCE)
    random = np.random.default_rng(1)
    made["latency_ns"] = (latency_ms + np.zeros(COUNT)) * MS * random.lognormal(0, 0.01, COUNT)
    pauses = (pause_ms + np.zeros(COUNT)) * MS
    made["t_ns"] = np.cumsum(made["latency_ns"] + pauses) - made["latency_ns"]
    made["phase"] = MEASURE
    return made


def readings(**means):
    return {name.replace("__", "/").replace("_", "-"): np.full(20, value) for name, value in means.items()}


def loop():
    manifest = replace(
        begun(ManualClock(), name="loop"),
        model=Model("/m/net.onnx", inputs=(TensorInfo("image", (1, 3, 224, 224), "float32"),)),
        engine=EngineInfo("onnxruntime", threads=1),
    )
    return Evidence(
        manifest, inferences(LOOP_MS), readings(load__engine=100.0, rate__run_queue_wait=0.0, freq__cpu0=2000.0)
    )


def application(latency_ms, pause_ms=0.0, frames=None, throttled=0.0, background=(), stream=None, **means):
    stream = replace(WatchedStream("/m/net.onnx", COUNT, threads=1, inputs="image 1x3x224x224"), **(stream or {}))
    manifest = replace(
        begun(ManualClock(), name="app"),
        board=replace(begun(ManualClock()).board, cores=2),
        methodology=Methodology(background=background),
        watched=Watched(("app",), ("hook",), streams=(stream,), at_once_mean=means.pop("at_once", 1.0)),
    )
    usual = {"load__engine": 100.0, "rate__run_queue_wait": 0.0, "freq__cpu0": 2000.0, "call__0_off_cpu": 0.001}
    return Evidence(manifest, inferences(latency_ms, pause_ms), readings(**{**usual, **means}), frames, throttled)


def mixed(usual_ms, other_ms, every):
    return np.where(np.arange(COUNT) % every == 0, other_ms, usual_ms)


def reshaped():
    slow = mixed(10, 60, 10)
    app = application(slow)
    return replace(app, readings={**app.readings, "call/0-reshaped": slow[slow > 10]})


def sized(latency_ms, elements, is_changed):
    """Calls with inputs of so many elements, as the hook reports them: with each change, and every five seconds."""
    app = application(latency_ms)
    begins = app.inferences["t_ns"]
    is_told = is_changed | (np.arange(COUNT) == 0) | (np.diff(begins // (5 * 10**9), prepend=0) > 0)
    sizes, times = {"input/0-elements": elements[is_told]}, {"input/0-elements": begins[is_told]}
    changes = {"call/0-reshaped": app.inferences["latency_ns"][is_changed] / MS}
    return replace(
        app, readings={**app.readings, **sizes, **changes}, times={**times, "call/0-reshaped": begins[is_changed]}
    )


LOOP_ELEMENTS = 3 * 224 * 224


def each_call_another():
    """Twice as large on average, and each call has another size: it takes 10 ms for each image of the loop's size."""
    elements = np.random.default_rng(3).integers(LOOP_ELEMENTS, 3 * LOOP_ELEMENTS, COUNT).astype(float)
    return sized(10 * elements / LOOP_ELEMENTS, elements, np.ones(COUNT, bool))


def two_sizes():
    """Half of the calls have the loop's size. A change costs nothing."""
    is_large = np.arange(COUNT) // 10 % 2 == 1
    elements = np.where(is_large, 3.0, 1.0) * LOOP_ELEMENTS
    return sized(np.where(is_large, 30.0, 10.0), elements, np.diff(is_large.astype(int), prepend=0) != 0)


def changes_that_cost():
    """As before, and a change costs 20 ms; each fifth call is one."""
    is_large = np.arange(COUNT) // 5 % 2 == 1
    is_changed = np.diff(is_large.astype(int), prepend=0) != 0
    elements = np.where(is_large, 3.0, 1.0) * LOOP_ELEMENTS
    return sized(np.where(is_large, 30.0, 10.0) + np.where(is_changed, 20.0, 0), elements, is_changed)


def after_pauses():
    pauses = np.random.default_rng(2).choice([0.1, 40.0], COUNT)
    return application(np.where(pauses > 1, 16.0, 10.0), pauses)


STAGES = FramesView(
    StageView(TOTAL, 100, 30.0, 30.0, 31.0, 1.0),
    (
        StageView("stage/inference", 100, 10.0, 10.0, 10.0, 1 / 3),
        StageView(BETWEEN, 100, 20.0, 20.0, 20.0, 2 / 3),
    ),
    0, None, None,
)  # fmt: skip
QUEUE = replace(STAGES, stages=(STAGES.stages[0], replace(STAGES.stages[1], id=QUEUE)))
CAPTURE = replace(STAGES, stages=(STAGES.stages[0], replace(STAGES.stages[1], id="stage/capture")))
RIVAL = (BackgroundProcess("stress", 100.0),)

# The situation, its cause, and how much of the gap it must take.
MADE = {
    "oversubscribed threads": (
        lambda: application(
            20, load__engine=195.0, rate__run_queue_wait=1950.0, at_once=4.0, call__0_off_cpu=10.0, load__others=2.0
        ),
        "own threads", 10,
    ),
    "a rival process": (
        lambda: application(
            20, background=RIVAL, load__engine=50.0, load__others=150.0, rate__run_queue_wait=500.0, call__0_off_cpu=10
        ),
        "other processes", 10,
    ),
    "a slow governor": (lambda: application(20, 30.0, freq__cpu0=1000.0), "pacing and idle clocks", 10),
    "pauses before calls": (after_pauses, "pacing and idle clocks", 3),
    "heat": (lambda: application(20, freq__cpu0=1000.0, freqcap__cpu0=1000.0, throttled=0.9), "heat", 10),
    "a busy Python thread": (lambda: application(15, load__engine=170.0, call__0_off_cpu=5.0), "Python's GIL", 5),
    "a memory limit": (
        lambda: application(20, pressure__memory_some=50.0, rate__major_faults=400.0, call__0_off_cpu=10.0),
        "memory pressure", 10,
    ),
    "changing shapes": (reshaped, "changing shapes", 5),
    "another size in each call": (each_call_another, "larger inputs", 10),
    "calls of the loop's size": (two_sizes, "larger inputs", 10),
    "changes that cost": (changes_that_cost, "larger inputs", 10),
    "copies": (lambda: application(10, 20.0, STAGES), "copies and conversions", 20),
    "a queue": (lambda: application(10, 20.0, QUEUE), "queueing", 20),
    "a slow camera": (lambda: application(10, 20.0, CAPTURE), "stage capture", 20),
    "larger inputs": (lambda: application(40, stream={"inputs": "image 1x3x448x448"}), "larger inputs", 30),
}  # fmt: skip


@pytest.mark.parametrize("situation", MADE)
def test_the_cause_of_each_made_situation_is_named(situation):
    make, cause, ms = MADE[situation]
    found = gap(make(), loop())
    assert found.causes[0].name == cause
    assert found.causes[0].ms == pytest.approx(ms, rel=0.1)
    assert sum(each.ms for each in found.causes) + found.not_explained_ms == pytest.approx(found.ms)


def test_shapes_that_never_repeat_are_not_blamed_for_changing():
    found = gap(each_call_another(), loop())
    assert [cause.name for cause in found.causes] == ["larger inputs"]
    assert found.not_explained_ms == pytest.approx(0, abs=0.2)
    assert "0.0664 ms for each 1,000 elements" in found.causes[0].evidence
    unsized = replace(each_call_another(), times={})
    assert gap(unsized, loop()).causes == ()
    assert gap(unsized, loop()).not_explained_ms == pytest.approx(10, rel=0.05)


def test_a_change_costs_what_calls_of_one_size_differ_by():
    found = {cause.name: cause for cause in gap(changes_that_cost(), loop()).causes}
    assert found["changing shapes"].ms == pytest.approx(4, rel=0.05)
    assert set(found) == {"larger inputs", "changing shapes"}
    assert [cause.name for cause in gap(two_sizes(), loop()).causes] == ["larger inputs"]


def test_the_size_of_inputs_explains_no_more_than_its_error_allows():
    """Times that do not depend on the size have a slope by chance."""
    random = np.random.default_rng(4)
    elements = random.integers(LOOP_ELEMENTS, 3 * LOOP_ELEMENTS, COUNT).astype(float)
    app = sized(20 * random.lognormal(0, 0.3, COUNT), elements, np.ones(COUNT, bool))
    assert gap(app, loop()).causes == ()


def busy_loop():
    """A loop beside others that take as much as they take beside the application."""
    known = {**loop().readings, **readings(load__engine=20.0, rate__run_queue_wait=800.0, load__others=175.0)}
    return replace(loop(), readings=known)


CALL = {"call__0_cpu": 2.0, "call__0_off_cpu": 38.0}  # of 40 ms
ON_A_BUSY_MACHINE = {
    "own threads": {**CALL, "load__engine": 25.0, "rate__run_queue_wait": 7500.0, "call__0_run_queue_wait": 37.0,
                    "at_once": 7.5},
    "Python's GIL": {**CALL, "load__engine": 25.0, "rate__run_queue_wait": 1750.0, "call__0_run_queue_wait": 37.0},
    "": {"call__0_cpu": 8.0, "call__0_off_cpu": 32.0, "load__engine": 20.0, "rate__run_queue_wait": 800.0,
         "call__0_run_queue_wait": 32.0},  # more of the same: what is slower is the call
}  # fmt: skip


@pytest.mark.parametrize("cause", ON_A_BUSY_MACHINE)
def test_load_that_the_loop_had_too_is_not_to_blame(cause):
    app = application(40, load__others=175.0, **ON_A_BUSY_MACHINE[cause])
    found = gap(app, busy_loop())
    assert [each.name for each in found.causes] == ([cause] if cause else [])
    assert found.differences[0].startswith("load: the loop waited for a CPU in 80.0 % of its time")


def test_what_has_no_cause_that_is_known_is_not_explained():
    found = gap(application(20), loop())
    assert not found.causes
    assert found.not_explained_ms == pytest.approx(10, rel=0.01)


def test_an_application_that_is_not_slower_has_no_causes():
    found = gap(application(9, freq__cpu0=1000.0), loop())
    assert not found.causes
    assert found.ms < 0
    assert found.to_json()["not_explained"]["share"] is None


def test_first_calls_are_counted():
    app = application(mixed(10, 500, COUNT))
    app.inferences["phase"][0] = FIRST
    assert gap(app, loop()).causes[0].name == "first calls"


def test_an_ab_session_is_refused_for_it_is_of_two_models():
    in_turns = Ab((Variant(Model("a"), EngineInfo()),) * 2, 0.01)
    mixed = replace(loop(), manifest=replace(loop().manifest, name="mixed", ab=in_turns))
    for sessions in ((application(20), mixed), (mixed, loop()), (application(20), loop(), mixed)):
        with pytest.raises(ValueError, match="mixed is an A/B session"):
            gap(*sessions)


def test_inferences_are_counted_as_they_are_averaged():
    """The loop's first calls and its warm-up are not in its mean."""
    warmed = loop()
    warmed.inferences["phase"][:50] = WARMUP
    assert gap(application(20), warmed).counts == (COUNT, COUNT - 50)


def test_a_paced_loop_tells_pacing_from_the_rest():
    paced = replace(loop(), inferences=inferences(14.0, 20.0))
    found = gap(application(20, 20.0), loop(), paced)
    assert [cause.name for cause in found.causes] == ["pacing and idle clocks"]
    assert found.causes[0].ms == pytest.approx(4, rel=0.05)
    assert found.not_explained_ms == pytest.approx(6, rel=0.05)


def test_differences_in_how_both_were_set_up_are_told():
    found = gap(application(20, stream={"threads": 0}), loop())
    assert found.differences == ("threads: the runtime's default in the application, 1 in the loop",)


def test_the_stream_of_the_model_is_found_and_another_refused():
    app = application(20)
    streams = (WatchedStream("/m/other.onnx", 5), replace(app.manifest.watched.streams[0], name="/m/net.onnx#2"))
    app.inferences["stream"] = 1
    two = replace(app, manifest=replace(app.manifest, watched=replace(app.manifest.watched, streams=streams)))
    assert gap(two, loop()).counts == (COUNT, COUNT)
    with pytest.raises(ValueError, match="no inferences"):
        gap(two, loop(), stream=0)
    with pytest.raises(ValueError, match="there is no stream 2"):
        gap(two, loop(), stream=2)
    other = replace(loop(), manifest=replace(loop().manifest, model=Model("/m/third.onnx")))
    with pytest.raises(ValueError, match="no stream of app runs third"):
        gap(two, other)


# Each threshold, on both of its sides.


def causes(app, **changes):
    return [each.name for each in gap(app, replace(loop(), **changes)).causes]


@pytest.mark.parametrize(("percent", "is_listed"), [(1.9, False), (2.1, True)])
def test_a_cause_takes_two_percent_of_the_time(percent, is_listed):
    assert ("memory pressure" in causes(application(20, pressure__memory_some=percent))) is is_listed


@pytest.mark.parametrize(("faults", "found"), [(0.098, []), (0.102, ["memory pressure"])])
def test_a_major_fault_in_ten_calls_is_memory_pressure(faults, found):
    calls = application(20).inferences
    per_s = COUNT / (float(calls["t_ns"][-1] - calls["t_ns"][0]) / 1e9)
    assert causes(application(20, rate__major_faults=faults * per_s, call__0_off_cpu=10.0)) == found


@pytest.mark.parametrize(
    ("load", "off_cpu", "at_once", "is_gil"),
    [
        (119.0, 5.0, 1.0, False),  # other threads take a fifth of a core
        (121.0, 5.0, 1.0, True),
        (170.0, 1.3, 1.0, False),  # calls are blocked for a tenth of their time on the CPU
        (170.0, 1.43, 1.0, True),
        (170.0, 5.0, 1.31, False),  # the others are no inferences
        (170.0, 5.0, 1.29, True),
    ],
)
def test_a_busy_thread_blocks_calls_alone(load, off_cpu, at_once, is_gil):
    app = application(15, load__engine=load, call__0_off_cpu=off_cpu, at_once=at_once)
    assert ("Python's GIL" in causes(app)) is is_gil


@pytest.mark.parametrize(("wait", "is_told"), [(109.0, False), (113.0, True)])
def test_a_loop_that_waits_for_a_tenth_of_its_time_is_told(wait, is_told):
    beside = replace(loop(), readings={**loop().readings, **readings(rate__run_queue_wait=wait)})
    found = gap(application(20), beside).differences
    assert any(each.startswith("load: ") for each in found) is is_told


@pytest.mark.parametrize("usual", [29, 30])
def test_thirty_calls_of_the_usual_shape_are_compared_with(usual):
    """With fewer of them, nothing is said of shapes."""
    slow = np.where(np.arange(COUNT) < usual, 12.0, 60.0)
    app = application(slow)
    reshaped = app.inferences["latency_ns"][usual:] / MS
    causes = gap(replace(app, readings={**app.readings, "call/0-reshaped": reshaped}), loop()).causes
    expected = [pytest.approx((60.0 - 12.0) * (COUNT - usual) / COUNT, rel=0.005)] if usual == 30 else []
    assert [cause.ms for cause in causes if cause.name == "changing shapes"] == expected


def paused(short_ms, long_ms, more_ms, scatter_ms=0.0):
    """Every other call comes after a long pause, and takes longer by so much."""
    is_long = np.arange(COUNT) % 2 == 1
    scatter = scatter_ms * np.array([-1, 0, 0, 1])[np.arange(COUNT) // 2 % 4]
    return application(10 + more_ms * is_long + scatter, np.where(is_long, long_ms, short_ms))


@pytest.mark.parametrize(("long_ms", "is_cause"), [(39.0, False), (41.0, True)])
def test_pauses_differ_if_one_is_twice_as_long(long_ms, is_cause):
    assert ("pacing and idle clocks" in causes(paused(20.0, long_ms, 6.0))) is is_cause


@pytest.mark.parametrize(("long_ms", "is_cause"), [(0.95, False), (1.05, True)])
def test_a_pause_of_a_millisecond_may_lower_a_clock(long_ms, is_cause):
    assert ("pacing and idle clocks" in causes(paused(0.1, long_ms, 6.0))) is is_cause


@pytest.mark.parametrize(("more_ms", "is_cause"), [(1.2, False), (1.33, True)])
def test_calls_after_pauses_are_slower_by_four_standard_errors(more_ms, is_cause):
    """Of 0.31 ms each."""
    assert ("pacing and idle clocks" in causes(paused(0.1, 40.0, more_ms, scatter_ms=7.0))) is is_cause
