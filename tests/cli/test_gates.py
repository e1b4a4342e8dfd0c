"""`--fail-fast`: when a gate has failed for sure, and when it may still come back."""

from edgetop.analysis.analysis import Analysis
from edgetop.cli.running.early_end import STAYS_NS, FailFast
from edgetop.engines.spec import EngineSpec
from edgetop.runner.session_state import SessionState
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.phases import Phases
from edgetop.session.seconds import NS
from tests.support.clocks import ManualClock
from tests.support.scripts import Script, manifest


class Session:
    def __init__(self, *gates: str) -> None:
        clock = ManualClock()
        self.session_state = SessionState(manifest(), EngineSpec("m.onnx", "onnx"), clock)
        self.stopped: list[str] = []
        self.analysis, self.fail_fast = Analysis(), FailFast(self.session_state, self.stopped.append)
        self.gates = gates

    def fold(self, batch: Batch) -> None:
        self.analysis.fold(batch)
        self.fail_fast.observe(self.analysis)

    def play(self, script: Script) -> int | None:
        """When it was stopped."""
        for gate in self.gates:
            script.batches.insert(0, Batch(events=(read_event(0, "gate", "info", "user", gate, {"expr": gate}),)))
        for batch in script.batches:
            self.fold(batch)
            if self.stopped:
                return batch.until_ns
        return None


def script(seconds: float, median_ms: float = 5.0) -> Script:
    return Script().load().warm_up().begin().measure(seconds, median_ms=median_ms)


def begun_ns(of: Script) -> int:
    phases = Phases()
    for batch in of.batches:
        phases.fold(batch.events)
    assert phases.measured_from_ns is not None
    return phases.measured_from_ns


def test_a_limit_that_stays_exceeded_ends_the_session_at_once() -> None:
    session, run = Session("max>1ms"), script(30)
    assert session.play(run) <= begun_ns(run) + 3 * NS
    assert session.stopped == ["slo"]
    (event,) = [event for event in session.session_state.take_events() if event.kind == "gate-failed"]
    assert event.message.startswith("max>1ms: ")
    assert event.severity == "critical"


def test_a_percentile_must_be_settled_and_stay_over_its_limit() -> None:
    session, run = Session("p99>1ms"), script(60)
    ended_ns = session.play(run)
    assert ended_ns is not None
    settled_ns = begun_ns(run) + 662 * NS // 100
    assert settled_ns + STAYS_NS - NS <= ended_ns <= settled_ns + STAYS_NS + 3 * NS


def test_a_percentile_that_comes_back_in_time_fails_nothing() -> None:
    run = Script().load().warm_up().begin().measure(4, median_ms=20.0).measure(60, median_ms=1.0)
    assert Session("p50>10ms").play(run) is None


def test_what_is_not_known_ends_nothing() -> None:
    assert Session("energy>1mJ", "throttled").play(script(40)) is None


def test_it_stops_a_session_once() -> None:
    session = Session("max>1ms")
    run = script(20)
    session.play(run)
    for batch in run.batches[-5:]:
        session.fold(Batch(batch.until_ns + 60 * NS, seconds=batch.seconds))
    assert session.stopped == ["slo"]
