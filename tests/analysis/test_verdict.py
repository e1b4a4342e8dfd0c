"""The verdict: each word, and what it takes."""

from dataclasses import replace

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.deadline import TOO_SLOW
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.from_start import OTHERS
from edgetop.analysis.verdict_data import Verdict
from edgetop.analysis.verdict_reasons import (
    AwayFromBurst,
    BaselineDone,
    ClockNow,
    EndedAs,
    EndedBy,
    FirstInference,
    GatesFailed,
    Lasts,
    LateBecause,
    LimitedBy,
    MemoryRose,
    MissedDeadline,
    MissedNow,
    NotSeen,
    Overdue,
    Queueing,
    Raised,
    State,
    TakenBy,
    TemperatureNow,
    Told,
    WarmupDone,
    WasOverloaded,
    WasSlowed,
    WasThrottled,
)  # fmt: skip
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import EngineInfo, Model
from edgetop.session.records import FIRST, WARMUP, Inferences
from edgetop.session.seconds import NS
from edgetop.wording import verdict_words
from edgetop.wording.event_words import worded
from tests.support.scripts import Script, manifest, sensor
from tests.support.sessions import MS, back_to_back, ended_event, folded, make_manifest, phase_event, seconds_of
from tests.support.slow_sessions import analysed, session_of, stretch

LOADED = Batch(manifest=make_manifest(model=Model("/models/net.onnx")), restart=True)
DROPPED = read_event(1, "provider-dropped", "critical", "engine", "CUDA was asked for, but the runtime left it out")


def verdict_of(*batches: Batch) -> Verdict:
    return folded((LOADED, *batches)).view(10 * NS).verdict


def states(verdicts: tuple[Verdict, ...]) -> tuple[State, ...]:
    return tuple(verdict.state for verdict in verdicts)


def failed_gates(verdict: Verdict) -> list[str]:
    (failed,) = verdict.reasons
    assert isinstance(failed, GatesFailed)
    return [result.gate.text for result in failed.results]


def phase(name: str, at_ns: int = 0, **data: int) -> Batch:
    return Batch(until_ns=at_ns, events=(phase_event(at_ns, name, **data),))


def measured(until_ns: int, inferences: Inferences) -> Batch:
    return Batch(until_ns=until_ns, inferences=inferences)


def ended(reason: str, *events: Event) -> Batch:
    return Batch(until_ns=9 * NS, events=(*events, ended_event(9 * NS, reason)))


def test_nothing_yet_is_loading() -> None:
    assert Analysis().view(10 * NS).verdict == Verdict(State.LOADING, "neutral")


def test_loading_names_the_model() -> None:
    assert verdict_of(Batch(until_ns=60 * NS)) == Verdict(State.LOADING, "neutral", (Told("/models/net.onnx"),))


def test_a_program_whose_inferences_are_not_seen_is_not_loading_for_ever() -> None:
    text = "no inference was seen in 10 s: it is linked statically"
    unseen = Batch(60 * NS, events=(read_event(10 * NS, "no-inference", "warning", "edgetop", text),))
    assert verdict_of(unseen) == Verdict(State.NO_INFERENCE, "warning", (NotSeen(text),))
    assert verdict_of(unseen, phase("first")).state is State.WARMING_UP


def test_a_program_without_inferences_is_running_and_neither_loading_nor_stalled() -> None:
    running = Verdict(State.RUNNING, "good", (Told("/models/net.onnx"),))
    text = "no inference was seen in 10 s: process 7 has loaded no known inference runtime"
    quiet = Batch(900 * NS, events=(read_event(10 * NS, "no-inference", "info", "edgetop", text),))
    assert verdict_of(phase("program")) == verdict_of(phase("program"), quiet) == running
    over = verdict_of(phase("program"), quiet, ended("exit"))
    assert verdict_words.words(over) == "FINISHED: the program ended; no inference was seen"
    assert (over.level, verdict_words.brief(over)) == ("good", "no inference")


def test_a_runtime_whose_calls_are_not_seen_is_a_trouble_of_a_program() -> None:
    text = "no inference was seen in 10 s: libonnxruntime.so is loaded, but no call came in a way that edgetop sees"
    unseen = Batch(60 * NS, events=(read_event(10 * NS, "no-inference", "warning", "edgetop", text),))
    assert verdict_of(phase("program"), unseen) == Verdict(State.NO_INFERENCE, "warning", (NotSeen(text),))


def test_a_program_that_is_waited_for_is_stopping_until_it_has_ended() -> None:
    text = "waiting for app.py to end after SIGTERM: 85 s left, then SIGKILL"
    stopping = Batch(60 * NS, events=(read_event(10 * NS, "stopping", "info", "edgetop", text),))
    assert verdict_of(phase("measure"), stopping) == Verdict(State.STOPPING, "neutral", (Told(text),))
    assert verdict_of(phase("measure"), stopping, ended("user")).state is State.STOPPED


def test_the_first_inference_is_warming_up_however_long_it_takes() -> None:
    assert verdict_of(phase("first"), Batch(600 * NS)) == Verdict(State.WARMING_UP, "neutral", (FirstInference(),))


def test_an_idle_baseline_is_neither_warming_up_nor_stalled() -> None:
    verdict = verdict_of(phase("idle", duration_ns=30 * NS), Batch(12 * NS))
    assert verdict == Verdict(State.IDLE_BASELINE, "neutral", (BaselineDone(12 * NS, 30 * NS),))


def test_warming_up_tells_how_far() -> None:
    runs = back_to_back(0, [10 * MS] * 12, phase=WARMUP)
    verdict = verdict_of(phase("warmup", runs=50), measured(NS, runs))
    assert verdict == Verdict(State.WARMING_UP, "neutral", (WarmupDone(12, 50),))


def test_a_timed_warm_up_never_shows_more_runs_than_asked_for() -> None:
    runs = back_to_back(0, [10 * MS] * 70, phase=WARMUP)
    assert verdict_of(phase("warmup", runs=50), measured(NS, runs)).reasons == (WarmupDone(50, 50),)


def test_measuring_is_good() -> None:
    verdict = verdict_of(phase("measure"), measured(NS, back_to_back(0, [100 * MS] * 10)))
    assert verdict == Verdict(State.MEASURING, "good")


def test_silence_of_more_than_five_seconds_is_stalled() -> None:
    parts = (phase("measure"), measured(NS, back_to_back(0, [100 * MS] * 10)))
    assert verdict_of(*parts, Batch(6 * NS)).state is State.MEASURING
    verdict = verdict_of(*parts, Batch(6 * NS + MS))
    assert verdict == Verdict(State.STALLED, "critical", (Overdue(5 * NS + MS),))


def test_a_slow_model_is_not_a_stalled_one() -> None:
    parts = (phase("measure"), measured(20 * NS, back_to_back(0, [2 * NS] * 10)))
    assert verdict_of(*parts, Batch(40 * NS)).state is State.MEASURING
    assert verdict_of(*parts, Batch(41 * NS)).state is State.STALLED


@pytest.mark.parametrize("name", ["warmup", "measure"])
def test_a_slow_model_is_not_stalled_before_its_first_inference(name: str) -> None:
    """All that is known of it then is how long the first took."""
    slow = Batch(
        manifest=make_manifest(engine=EngineInfo(first_ns=6 * NS)), inferences=back_to_back(0, [6 * NS], phase=FIRST)
    )
    assert verdict_of(slow, phase(name, 6 * NS), Batch(12 * NS)).state is not State.STALLED
    assert verdict_of(slow, phase(name, 6 * NS), Batch(67 * NS)).state is State.STALLED


def test_one_slow_first_inference_does_not_hide_a_stall() -> None:
    slow = Batch(manifest=make_manifest(engine=EngineInfo(first_ns=60 * NS)))
    parts = (slow, phase("measure", 60 * NS), measured(61 * NS, back_to_back(60 * NS, [MS] * 1_000)))
    assert verdict_of(*parts, Batch(67 * NS)).state is State.STALLED


def test_a_reset_does_not_make_a_slow_model_a_stalled_one() -> None:
    analysis = folded((LOADED, phase("measure"), measured(18 * NS, back_to_back(0, [9 * NS] * 2))))
    analysis.reset()
    analysis.fold(Batch(26 * NS))
    assert analysis.view(10 * NS).verdict.state is State.MEASURING


def test_a_stall_that_ends_is_forgotten() -> None:
    parts = (phase("measure"), measured(NS, back_to_back(0, [100 * MS] * 10)), Batch(20 * NS))
    assert verdict_of(*parts).state is State.STALLED
    assert verdict_of(*parts, measured(21 * NS, back_to_back(NS, [20 * NS]))).state is State.MEASURING


def test_a_dropped_provider_is_told_while_measuring() -> None:
    verdict = verdict_of(Batch(events=(DROPPED,)), phase("measure"))
    assert verdict == Verdict(State.PROVIDER_DROPPED, "critical", (Told(DROPPED.message),))
    why = read_event(1, "fallback-reasons", "info", "engine", "", {"left_out": "no libcuda.so", "no kernel for Pad": 2})
    verdict = verdict_of(Batch(events=(DROPPED, why)), phase("measure"))
    assert verdict.reasons == (Told(DROPPED.message), Told("no libcuda.so"))


def test_inferences_that_raise_are_failing() -> None:
    inferences = back_to_back(0, [100 * MS] * 10, ok=[True] * 7 + [False] * 3)
    verdict = verdict_of(phase("measure"), measured(NS, inferences))
    assert verdict == Verdict(State.FAILING, "critical", (Raised(3, 10),))


def test_a_model_of_which_every_inference_raises_is_failing() -> None:
    verdict = verdict_of(phase("measure"), measured(NS, back_to_back(0, [100 * MS] * 4, ok=False)))
    assert verdict == Verdict(State.FAILING, "critical", (Raised(4, 4),))


def test_failures_known_from_seconds_only_are_failing_too() -> None:
    seconds = seconds_of(back_to_back(0, [100 * MS] * 10, ok=[True] * 9 + [False]))
    assert verdict_of(phase("measure"), Batch(NS, seconds=seconds)).state is State.FAILING


@pytest.mark.parametrize(
    ("reason", "state", "level"),
    [
        ("duration", State.FINISHED, "good"),
        ("runs", State.FINISHED, "good"),
        ("user", State.STOPPED, "neutral"),
        ("signal", State.STOPPED, "neutral"),
        ("engine-died", State.ENGINE_DIED, "critical"),
        ("disk-full", State.CUT_SHORT, "critical"),
        ("internal-error", State.ENDED, "critical"),
    ],
)
def test_the_last_state_is_how_it_ended(reason: str, state: State, level: str) -> None:
    verdict = verdict_of(phase("measure"), ended(reason))
    assert (verdict.state, verdict.level, verdict.reasons) == (state, level, (EndedBy(reason),))
    assert verdict.past == (EndedAs(State.MEASURING),)


@pytest.mark.parametrize("kind", ["engine-died", "engine-failed"])
def test_a_dead_engine_tells_what_it_died_of(kind: str) -> None:
    cause = read_event(8 * NS, kind, "critical", "engine", "killed by the OOM killer")
    verdict = verdict_of(phase("measure"), ended("engine-died", cause))
    assert (verdict.state, verdict.now, verdict.gist) == (State.ENGINE_DIED, State.ENGINE_DIED, None)
    assert verdict.reasons == (Told("killed by the OOM killer"),)


def test_the_end_outweighs_what_went_wrong_before() -> None:
    verdict = verdict_of(Batch(events=(DROPPED,)), phase("measure"), ended("duration"))
    assert (verdict.state, verdict.now, verdict.level) == (State.FINISHED, State.PROVIDER_DROPPED, "warning")


FULL = read_event(
    2, "recording-failed", "critical", "edgetop", "/x: cannot be recorded: No space left on device",
    {"why": "No space left on device"},
)  # fmt: skip
BEHIND = read_event(2, "recording-behind", "critical", "edgetop", "the disk is too slow")


@pytest.mark.parametrize(
    ("begins", "ends", "why"),
    [(FULL, "recording-restored", "No space left on device"), (BEHIND, "recording-caught-up", "the disk is too slow")],
)
def test_what_is_not_recorded_is_told_until_it_is_again(begins: Event, ends: str, why: str) -> None:
    measuring = (phase("measure"), measured(NS, back_to_back(0, [100 * MS] * 10)), Batch(events=(begins,)))
    assert verdict_of(*measuring) == Verdict(State.NOT_RECORDING, "critical", (Told(why),))
    again = Batch(events=(read_event(3, ends, "warning", "edgetop", "recording goes on"),))
    assert verdict_of(*measuring, again) == Verdict(State.MEASURING, "good")


@pytest.mark.parametrize("reason", ["writer-killed", "power-loss"])
def test_a_session_that_was_cut_short_says_by_what(reason: str) -> None:
    data = {"reason": reason, "last_end_ns": 8 * NS, "warmup_runs": 50, "warmup_ns": 50 * MS}
    recovered = read_event(9 * NS, "recovered", "warning", "edgetop", "at most 1 s is lost", data)
    analysis = folded((LOADED, phase("measure"), Batch(until_ns=9 * NS, events=(recovered,))))
    verdict = analysis.view(None).verdict
    assert (verdict.state, verdict.level, verdict.reasons) == (State.CUT_SHORT, "warning", (EndedBy(reason),))
    assert analysis.progress.measured_until_ns == 8 * NS
    assert analysis.progress.warmup == (50, 50 * MS)


def with_load(**load: object) -> Batch:
    return Batch(manifest=make_manifest(model=Model("/models/net.onnx"), load=Load(**load)), restart=True)


def test_a_rest_of_the_load_is_no_stall() -> None:
    """A duty cycle, a slow rate and arrivals at random have pauses in which nothing is due."""
    loads = (
        {"duty_on_ns": 2 * NS, "duty_off_ns": 60 * NS},
        {"mode": "fixed", "rate_hz": 1 / 60},
        {"mode": "poisson", "rate_hz": 1 / 3},
        {"delay_ns": 60 * NS},
    )
    for load in loads:
        parts = (with_load(**load), phase("measure"), measured(NS, back_to_back(0, [100 * MS] * 10)))
        assert verdict_of(*parts, Batch(60 * NS)).state is State.MEASURING, load
        assert verdict_of(*parts, Batch(67 * NS)).state is State.STALLED, load


def test_misses_are_told_from_one_in_ten_thousand_on() -> None:
    for late, state in ((0, State.MEASURING), (1, State.MEASURING), (3, State.MISSING_DEADLINE)):
        inferences = back_to_back(0, [MS // 2] * (19_960 - 80 * late) + [40 * MS] * late)
        parts = (with_load(deadline_ns=33 * MS), phase("measure"), measured(10 * NS, inferences))
        verdict = verdict_of(*parts, Batch(10 * NS, seconds=seconds_of(inferences, 33 * MS)))
        assert verdict.state is state, late
    cause, missed, lasts = verdict.reasons
    assert isinstance(cause, LateBecause)
    assert cause.cause.name == "unknown"
    assert missed == MissedNow(3 / 19_723)
    assert isinstance(lasts, Lasts)
    assert lasts.ns // NS == 1


def test_misses_of_a_minute_ago_are_told_in_the_past_tense() -> None:
    latency = stretch((5, 40.0), (75, 10.0))
    verdict = analysed(latency, load=Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)).view(10 * NS).verdict
    assert State.MISSING_DEADLINE not in (verdict.state, *states(verdict.also))
    (missed,) = verdict.past
    assert isinstance(missed, MissedDeadline)
    assert (missed.deadline_ms, missed.share, missed.is_explained) == (33, pytest.approx(5 / 80), False)
    assert missed.cause is not None
    assert missed.cause.name == "unknown"


def test_misses_begin_and_end_once_however_they_are_scattered() -> None:
    """A minute without a miss ends them, at the last one."""
    latency = stretch((20, 10.0), (1, 40.0), (30, 10.0), (2, 40.0), (70, 10.0))
    load = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)
    early, late = (analysed(latency[:seconds], load=load).view(10 * NS) for seconds in (53, 123))
    assert (early.verdict.state, early.verdict.since_ns) == (State.MISSING_DEADLINE, 20 * NS)
    assert early.verdict.reasons[-1] == Lasts(33 * NS)
    found = [event for event in late.events.newest_first if event.kind.startswith("deadline")]
    assert [(event.t_ns // NS, event.kind, event.severity) for event in found] == [
        (53, "deadline-end", "info"), (20, "deadline-begin", "warning"),
    ]  # fmt: skip
    assert worded(found[0]).message.startswith("the deadline is met again, after 33.0s: 5")
    assert late.verdict.state is not State.MISSING_DEADLINE


def test_a_queue_without_end_outweighs_misses() -> None:
    load = {"mode": "fixed", "rate_hz": 30.0, "deadline_ns": 33 * MS}
    waits = [n * 8 * MS for n in range(600)]
    inferences = back_to_back(0, [41 * MS] * 600, wait_ns=waits)
    seconds = seconds_of(inferences, 33 * MS, is_paced=True)
    verdict = verdict_of(with_load(**load), phase("measure"), Batch(25 * NS, inferences, seconds))
    assert (verdict.state, verdict.level) == (State.OVERLOADED, "critical")
    asked, because, lasts = verdict.reasons
    assert asked == Queueing(30.0, pytest.approx(24.4, abs=0.05))
    assert isinstance(lasts, Lasts)
    assert verdict.since_ns is not None
    assert isinstance(because, LateBecause)
    assert (because.cause.name, states(verdict.also)) == (TOO_SLOW, (State.MISSING_DEADLINE,))


def test_a_model_too_slow_for_its_deadline_is_so_everywhere() -> None:
    load = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)
    seen = analysed(stretch((40, 38.0)), load=load)
    view, why = seen.view(10 * NS), "the model needs 38 ms and has 33 ms: too slow, at full speed too"
    because, share, _ = view.verdict.reasons
    assert isinstance(because, LateBecause)
    assert (view.verdict.state, because.cause.name, share) == (State.MISSING_DEADLINE, TOO_SLOW, MissedNow(1.0))
    assert f"the deadline of 33 ms is missed: {why}" in [worded(event).message for event in view.events.newest_first]
    ended_then = over(session_of(stretch((40, 38.0)), load=load))
    assert ended_then.past == (MissedDeadline(33.0, 1.0, because.cause),)
    assert ended_then.gist == ended_then.past[0]


def test_harmless_others_do_not_come_before_a_too_slow_model() -> None:
    load, others = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS), {"load/steal": stretch((40, 0.0), (40, 40.0))}
    verdict = analysed(stretch((80, 38.0)), others, load=load).view(10 * NS).verdict
    assert (verdict.state, *states(verdict.also)) == (State.MISSING_DEADLINE, State.CONTENDED)
    verdict = analysed(stretch((40, 25.0), (40, 38.0)), others, load=load).view(10 * NS).verdict
    assert (verdict.state, *states(verdict.also)) == (State.CONTENDED, State.MISSING_DEADLINE)


def test_a_gate_on_misses_that_fails_says_why_they_are() -> None:
    load = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)
    verdict = folded([session_of(stretch((40, 38.0)), load=load), gate("misses>1%")]).view(10 * NS).verdict
    assert (verdict.state, *states(verdict.also)) == (State.GATE_EXCEEDED, State.MISSING_DEADLINE)
    assert isinstance(verdict.also[0].reasons[0], LateBecause)


def test_calls_that_only_wait_are_late_for_that() -> None:
    load = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)
    waits = [45.0 if second % 3 == 0 else 0.0 for second in range(40)]  # 5 ms before the end of the one before
    verdict = analysed(stretch((40, 10.0)), load=load, wait_ms=waits).view(10 * NS).verdict
    because = verdict.reasons[0]
    assert isinstance(because, LateBecause)
    assert (verdict.state, because.cause.name) == (State.MISSING_DEADLINE, "waiting")


@pytest.mark.parametrize(("run_queue_ms", "cause"), [(600.0, "scheduling"), (20.0, "unknown"), (None, "unknown")])
def test_calls_that_wake_up_late_do_not_wait_for_earlier_ones(run_queue_ms: float | None, cause: str) -> None:
    """Each ends 10 ms after its start, and the next is due 10 ms later and starts 30 ms after that."""
    load = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)
    sensors = {"load/others": stretch((40, 20.0))}  # too little to be contention
    if run_queue_ms is not None:
        sensors["rate/run-queue-wait"] = stretch((40, run_queue_ms))
    verdict = analysed(stretch((40, 10.0)), sensors, load=load, wait_ms=stretch((40, 30.0))).view(10 * NS).verdict
    because = verdict.reasons[0]
    assert isinstance(because, LateBecause)
    assert (verdict.state, because.cause.name) == (State.MISSING_DEADLINE, cause)


def gate(text: str) -> Batch:
    return Batch(events=(read_event(0, "gate", "info", "user", f"fails if {text}", {"expr": text}),))


def test_a_gate_that_fails_for_sure_is_told_while_measuring() -> None:
    runs = measured(NS, back_to_back(0, [40 * MS] * 20))
    verdict = verdict_of(gate("max>33ms"), phase("measure"), runs)
    assert (verdict.state, failed_gates(verdict)) == (State.GATE_EXCEEDED, ["max>33ms"])
    assert verdict_of(gate("p99>33ms"), phase("measure"), runs).state == State.MEASURING  # of too few inferences


def test_a_session_that_failed_a_gate_ends_with_it() -> None:
    runs = measured(NS, back_to_back(0, [40 * MS] * 20))
    verdict = verdict_of(gate("p99>33ms"), gate("max>1s"), phase("measure"), runs, ended("duration"))
    assert (verdict.state, verdict.level, verdict.gist) == (State.GATE_FAILED, "critical", None)
    assert failed_gates(verdict) == ["p99>33ms"]
    event = read_event(8 * NS, "gate-failed", "critical", "edgetop", "max>33ms: 40 ms")
    assert verdict_of(phase("measure"), ended("slo", event)).reasons == (Told("max>33ms: 40 ms"),)


@pytest.mark.parametrize("reason", ["signal", "user", "engine-died"])
def test_a_failed_gate_is_reported_beside_a_stop(reason: str) -> None:
    runs = measured(NS, back_to_back(0, [40 * MS] * 20))
    assert isinstance(verdict_of(gate("p99>33ms"), phase("measure"), runs, ended(reason)).past[0], GatesFailed)
    kept = verdict_of(gate("p99>1s"), phase("measure"), runs, ended(reason))
    assert not any(isinstance(one, GatesFailed) for one in (*kept.reasons, *kept.past))
    for ends_with_it in ("duration", "slo"):
        verdict = verdict_of(gate("p99>33ms"), phase("measure"), runs, ended(ends_with_it))
        assert not any(isinstance(past, GatesFailed) for past in verdict.past)


RATE = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)
QUEUE = [0.0] * 60 + [40.0 * second for second in range(20)]  # without end, from the sixtieth second on
SLOWER = stretch((60, 10.0), (20, 14.0))


def over(batch: Batch, reason: str = "duration", *more: Batch) -> Verdict:
    end = Batch(batch.until_ns, events=(ended_event(batch.until_ns, reason),))
    return folded([batch, *more, end]).view(10 * NS).verdict


def test_past_troubles_are_in_the_past_tense_gravest_first() -> None:
    batch = session_of(
        stretch((60, 10.0), (20, 14.0), (40, 10.0), (20, 12.0)),
        {"throttle/thermal": stretch((60, 0.0), (20, 1.0), (60, 0.0))},
        load=RATE, wait_ms=[*QUEUE, *[0.0] * 60],
    )  # fmt: skip
    verdict = over(batch, "signal", gate("max>33ms"))
    assert verdict.state is State.STOPPED
    gates, throttled, overloaded, slowed, missed = verdict.past
    assert isinstance(gates, GatesFailed)
    assert throttled == WasThrottled(1, ("thermal",), pytest.approx(0.14, abs=0.005))
    assert overloaded == WasOverloaded(20.0, pytest.approx(20.0, abs=0.05))
    assert slowed == WasSlowed(State.SLOWED, 1, pytest.approx(0.14, abs=0.005), ("unknown",))
    assert isinstance(missed, MissedDeadline)
    assert (missed.share, missed.is_explained) == (pytest.approx(0.136, abs=0.0005), True)
    assert verdict.gist == throttled


def under_load(latency_ms: list[float], flag: float, load: Load = RATE) -> Verdict:
    sensors = {"throttle/thermal": stretch((60, 0.0), (20, flag))}
    return analysed(latency_ms, sensors, load=load, wait_ms=QUEUE).view(10 * NS).verdict


def test_throttling_is_reported_before_the_overload_it_causes() -> None:
    verdict = under_load(SLOWER, flag=1.0)
    assert (verdict.state, states(verdict.also)) == (State.THROTTLING, (State.OVERLOADED, State.MISSING_DEADLINE))
    assert verdict.reasons == (LimitedBy("thermal"), Lasts(19 * NS + NS // 2))
    assert verdict.p50_change == pytest.approx(0.4, abs=0.02)
    assert verdict.since_ns == 60 * NS + NS // 2


def test_reported_throttling_is_believed_whatever_the_latency() -> None:
    verdict = under_load(stretch((80, 10.0)), flag=1.0)
    assert (verdict.state, verdict.level) == (State.THROTTLING, "critical")
    assert verdict.reasons == (LimitedBy("thermal"), Lasts(19 * NS + NS // 2))
    assert verdict.p50_change == pytest.approx(0.0, abs=0.005)


def test_a_throttling_that_is_over_is_told_in_the_past_tense() -> None:
    sensors = {"throttle/thermal": stretch((60, 0.0), (20, 1.0), (40, 0.0))}
    verdict = analysed(stretch((120, 10.0)), sensors).view(10 * NS).verdict
    assert (verdict.state, verdict.past) == (
        State.STEADY,
        (WasThrottled(1, ("thermal",), pytest.approx(1 / 6, abs=0.005)),),
    )


def test_a_throttling_of_the_warm_up_is_none_of_the_measurement() -> None:
    batch = session_of(stretch((90, 10.0)), {"throttle/thermal": stretch((5, 0.0), (10, 1.0), (75, 0.0))})
    batch = replace(batch, events=(phase_event(0, "warmup", runs=400), phase_event(20 * NS, "measure")))
    live, ended = folded([batch]).view(10 * NS).verdict, over(batch)
    (throttled,) = live.past
    assert isinstance(throttled, WasThrottled)
    assert (throttled.times, throttled.causes, throttled.is_before_measuring) == (1, ("thermal",), True)
    assert ended.past == (throttled,)
    assert ended.gist == throttled


def test_a_throttling_reported_over_is_over_though_still_slow() -> None:
    sensors = {"throttle/thermal": stretch((60, 0.0), (10, 1.0), (10, 0.0))}
    verdict = analysed(stretch((60, 10.0), (20, 14.0)), sensors).view(10 * NS).verdict
    assert (verdict.state, verdict.reasons[0]) == (State.SLOWED, Lasts(20 * NS))
    assert isinstance(verdict.past[0], WasThrottled)
    assert verdict.past[0].times == 1


def test_a_throttling_that_only_the_clocks_show_is_one_too() -> None:
    sensors = {
        "freq/cpu0": stretch((60, 1800.0), (20, 1200.0)),
        "temp/cpu-thermal": stretch((60, 80.0), (20, 85.5)),
    }
    verdict = analysed(stretch((60, 10.0), (20, 15.0)), sensors).view(10 * NS).verdict
    lasts, clock, heat = Lasts(20 * NS), ClockNow("cpu", 1200.0, 1800.0), TemperatureNow(85.5, 85.0)
    assert (verdict.state, verdict.reasons) == (State.THROTTLING, (LimitedBy("thermal"), lasts, clock, heat))
    assert State.SLOWED not in states(verdict.also)


def test_a_session_that_ends_throttled_keeps_that_state() -> None:
    sensors = {"throttle/thermal": stretch((60, 0.0), (60, 1.0))}
    verdict = over(session_of(stretch((60, 10.0), (60, 14.0)), sensors))
    assert (verdict.state, verdict.now, verdict.level) == (State.FINISHED, State.THROTTLING, "warning")
    assert verdict.since_ns == 60 * NS + NS // 2
    assert verdict.past == (WasThrottled(1, ("thermal",), pytest.approx(0.5, abs=0.005)),)


def test_a_queue_without_end_outweighs_what_others_do() -> None:
    verdict = under_load(SLOWER, flag=0.0)
    assert verdict.state is State.OVERLOADED
    assert states(verdict.also) == (State.SLOWED, State.MISSING_DEADLINE)


def test_a_queue_is_no_slowdown_for_service_time_is_judged() -> None:
    analysis = analysed(stretch((80, 10.0)), load=RATE, wait_ms=QUEUE)
    assert analysis.slowdowns_view().slowdowns == ()
    assert analysis.view(10 * NS).verdict.state is State.OVERLOADED
    assert analysis.response().percentile_ns(0.99) > 20 * analysis.statistics().percentile_ns(0.99)


def test_a_steady_session_that_keeps_its_promises_is_steady() -> None:
    assert analysed(stretch((80, 10.0)), load=RATE).view(10 * NS).verdict == Verdict(State.STEADY, "good", since_ns=0)
    verdict = over(session_of(stretch((80, 10.0)), load=RATE))
    assert (verdict.state, verdict.now, verdict.past) == (State.FINISHED, State.STEADY, (EndedAs(State.STEADY),))
    assert verdict.gist is None


def test_steady_needs_the_level_of_the_burst() -> None:
    """A drift that is too slow for a slowdown, and a level below the burst's."""
    slower = analysed([10.0] * 60 + [10.9] * 12).view(10 * NS).verdict
    assert slower.state is not State.STEADY
    faster = analysed(stretch((60, 10.0), (30, 7.0))).view(10 * NS).verdict
    assert (faster.state, faster.reasons) == (State.UNSETTLED, (AwayFromBurst(pytest.approx(-0.3, abs=0.005)),))


def test_slowed_lasts_while_it_is_slow_not_until_surely_over() -> None:
    """An interruption of up to ten seconds belongs to a slowdown; line 1 speaks of now."""
    batch = session_of(stretch((60, 10.0), (20, 14.0), (8, 10.0)))
    analysis = folded([batch])
    assert analysis.slowdowns_view().now is not None
    assert analysis.view(10 * NS).verdict.state is State.STEADY
    assert analysed(stretch((60, 10.0), (20, 14.0), (3, 10.0))).view(10 * NS).verdict.state is State.SLOWED


@pytest.mark.parametrize(("now_ms", "is_slow"), [(10.35, False), (10.4, True)])
def test_a_slowdown_is_interrupted_under_four_percent(now_ms: float, is_slow: bool) -> None:
    analysis = analysed(stretch((60, 10.0), (20, 14.0), (9, now_ms)))
    assert analysis.slowdowns_view().now is not None
    assert (analysis.view(10 * NS).verdict.state == State.SLOWED) is is_slow


@pytest.mark.parametrize(("now_ms", "state"), [(9.25, State.STEADY), (9.15, State.UNSETTLED)])
def test_steady_is_within_eight_percent_of_the_burst(now_ms: float, state: State) -> None:
    assert analysed(stretch((60, 10.0), (30, now_ms))).view(10 * NS).verdict.state is state


def contended(calm_s: int, seconds: int) -> Verdict:
    """Others take the CPU in the last seconds, and the latency stays as it is."""
    now = {"rate/run-queue-wait": 400.0, "load/cpu": 200.0, "load/engine": 60.0, "load/edgetop": 2.0}
    calm = {"rate/run-queue-wait": 1.0, "load/cpu": 102.0, "load/engine": 100.0, "load/edgetop": 2.0}
    sensors = {name: stretch((calm_s, calm[name]), (seconds, value)) for name, value in now.items()}
    return analysed(stretch((calm_s + seconds, 10.0)), sensors).view(10 * NS).verdict


def test_contention_before_the_burst_is_reported_without_effect() -> None:
    early, late = contended(0, 8), contended(60, 9)
    others = (TakenBy(Clue("taken-now", OTHERS, value=138)),)
    assert (early.state, early.reasons, early.p50_change) == (State.CONTENDED, others, None)
    assert (late.state, late.reasons, late.p50_change) == (State.CONTENDED, others, pytest.approx(0.0, abs=0.005))


@pytest.mark.parametrize(("mib", "rose"), [(129.0, ()), (131.0, (MemoryRose(100.0, 131.0),))])
def test_an_engine_that_died_tells_by_how_much_its_memory_rose(mib: float, rose: tuple[MemoryRose, ...]) -> None:
    held = manifest(sensors=(sensor("mem/rss"),))
    script = Script(held, lambda second: {"mem/rss": 100.0 if second < 30 else mib}).load().warm_up().begin()
    script.measure(60, rate_hz=20).end("engine-died")
    analysis = Analysis()
    analysis.fold(script.whole())
    reasons = analysis.view(10 * NS).verdict.reasons
    assert tuple(reason for reason in reasons if isinstance(reason, MemoryRose)) == rose
