"""A model that shall run elsewhere, and does not, ends its engine with the operators named."""

from dataclasses import replace

import pytest

from edgetop.engines.engine_protocol import (
    BurstTaken,
    Ended,
    EngineUpdate,
    Failed,
    LogLine,
    Message,
    PhaseBegan,
    ProfilerChosen,
)
from edgetop.engines.spec import EngineSpec
from edgetop.runner.delegation import FullyDelegated
from edgetop.session.engine_events import FallbackReasons
from edgetop.session.operators import Operator
from tests.runner.test_session_state import LOADED
from tests.support.scripted_engine import ScriptedEngine, inferences, said

ON_GPU = Operator("a", "Conv", "CUDA", 2, 90)
ON_CPU = Operator("b", "Where", "CPU", 2, 10)
PLAIN = EngineSpec("m.onnx", "onnx")
ASKED = EngineSpec("m.onnx", "onnx", providers=(("CUDA", {}),))


SHOWN = ProfilerChosen("runs", "", (ON_GPU,))


def polled(spec: EngineSpec, providers: tuple[str, ...], *messages: Message, **loaded_so: object) -> list[EngineUpdate]:
    loaded = replace(LOADED, providers=providers, **loaded_so)  # type: ignore[arg-type]
    engine = FullyDelegated(ScriptedEngine(said(loaded), said(*messages, records=inferences([1])), said()), spec)
    return [engine.poll() for _ in range(3)]


def failures(spec: EngineSpec, providers: tuple[str, ...], *operators: Operator) -> list[Failed]:
    updates = polled(spec, providers, BurstTaken(0, 1, (100,), operators))
    return [message for update in updates for message in update.messages if isinstance(message, Failed)]


def test_operators_on_the_cpu_are_named_with_their_share() -> None:
    (failed,) = failures(ASKED, ("CUDA", "CPU"), ON_GPU, ON_CPU)
    assert failed.is_input_error
    assert "1 of 2 operators, 10.0 % of the time, ran on the CPU: Where b" in failed.message


def test_the_runtimes_reason_is_told() -> None:
    chosen = ProfilerChosen("runs", "", (ON_GPU, ON_CPU), FallbackReasons("", {"no kernel for Where": 1}))
    (text,) = failed(ASKED, ("CUDA", "CPU"), chosen)
    assert text.endswith("Where b; not on the requested provider: no kernel for Where (1 operator)")


def test_a_model_that_is_delegated_whole_runs() -> None:
    assert failures(ASKED, ("CUDA", "CPU"), ON_GPU) == []


def test_on_the_cpu_alone_nothing_is_refused() -> None:
    assert failures(PLAIN, ("CPU",), ON_CPU) == []
    assert "100.0 % of the time" in failures(ASKED, ("CPU",), ON_CPU)[0].message
    assert len(failures(EngineSpec("m.tflite", "tflite", delegates=(("libx.so", {}),)), ("CPU",), ON_CPU)) == 1
    assert len(failures(PLAIN, ("XNNPACK", "CPU"), ON_CPU)) == 1


def failed(spec: EngineSpec, providers: tuple[str, ...], *messages: Message, **loaded_so: object) -> list[str]:
    updates = polled(spec, providers, *messages, **loaded_so)
    return [message.message for update in updates for message in update.messages if isinstance(message, Failed)]


def test_the_profilers_trial_run_shows_it_before_any_burst() -> None:
    (told,) = failed(ASKED, ("CUDA", "CPU"), ProfilerChosen("runs", "", (ON_GPU, ON_CPU)))
    assert "1 of 2 operators, 10.0 % of the time, ran on the CPU: Where b" in told
    assert failed(ASKED, ("CUDA", "CPU"), SHOWN, PhaseBegan("measure", 0), Ended("duration", 0)) == []


def test_a_provider_that_was_dropped_is_named() -> None:
    (told,) = failed(ASKED, ("CPU",), ProfilerChosen("runs", "", (ON_CPU,)), dropped_providers=("CUDA",))
    assert "CUDA was left out by the runtime; 1 of 1 operator, 100.0 % of the time, ran on the CPU" in told


@pytest.mark.parametrize("last", [PhaseBegan("measure", 0), Ended("duration", 0), Ended("runs", 0)])
def test_a_run_that_shows_nothing_is_refused_and_not_believed(last: Message) -> None:
    (told,) = failed(ASKED, ("CUDA", "CPU"), ProfilerChosen("runs", ""), last)
    assert "was not shown" in told
    assert failed(PLAIN, ("CPU",), ProfilerChosen("runs", ""), last) == []
    assert failed(ASKED, ("CUDA", "CPU"), Ended("stop", 0)) == []


def test_what_a_runtime_made_for_an_accelerator_alone_runs_there() -> None:
    spec = EngineSpec("m.tflite", "tflite", providers=(("GPU", {}),), whole=True)
    nothing = ProfilerChosen("", "LiteRT reports no operators with --provider GPU")
    assert failed(spec, ("GPU",), nothing, PhaseBegan("measure", 0), whole=True) == []
    assert "where operators run is unknown" in failed(spec, ("GPU", "XNNPACK", "CPU"), nothing)[0]


def test_xnnpacks_share_of_a_model_was_not_delegated() -> None:
    spec = EngineSpec("m.tflite", "tflite", delegates=(("/lib/libclaiming.so", {}),))
    taken, left = Operator("a", "DELEGATE", "Claiming", 2, 60), Operator("b", "CONV_2D", "XNNPACK", 2, 40)
    (told,) = failed(spec, ("/lib/libclaiming.so", "XNNPACK", "CPU"), ProfilerChosen("x", "", (taken, left)))
    assert "1 of 2 operators, 40.0 % of the time, ran on XNNPACK: CONV_2D b" in told
    assert failed(spec, ("/lib/libclaiming.so", "CPU"), ProfilerChosen("x", "", (taken,))) == []


def test_where_it_cannot_be_told_it_is_refused() -> None:
    updates = polled(ASKED, ("CUDA", "CPU"), ProfilerChosen("", "no such library"), LogLine("info", "engine", "later"))
    (failed,) = updates[1].messages[1:]
    assert isinstance(failed, Failed)
    assert "no such library" in failed.message
    assert len(updates[1].records) == 1  # nothing that was measured before is lost
    assert updates[2] == EngineUpdate()


@pytest.mark.parametrize("call", ["start", "stop", "profile", "close"])
def test_it_is_the_engine_in_every_other_respect(call: str) -> None:
    inner = ScriptedEngine()
    engine = FullyDelegated(inner, PLAIN)
    getattr(engine, call)()
    assert inner.calls == [call]
    assert engine.isolation == inner.isolation
