"""A model that shall run elsewhere, and does not, ends its engine with the operators named."""

from dataclasses import replace

import pytest

from edgetop.engines.protocol import BurstTaken, EngineUpdate, Failed, LogLine, Message, ProfilerChosen
from edgetop.engines.spec import EngineSpec
from edgetop.runner.delegation import FullyDelegated
from edgetop.session.operators import Operator
from tests.runner.test_story import LOADED
from tests.support.scripted_engine import ScriptedEngine, inferences, said

ON_GPU = Operator("a", "Conv", "CUDA", 2, 90)
ON_CPU = Operator("b", "Where", "CPU", 2, 10)
PLAIN = EngineSpec("m.onnx", "onnx")
ASKED = EngineSpec("m.onnx", "onnx", providers=(("CUDA", {}),))


def polled(spec: EngineSpec, providers: tuple[str, ...], *messages: Message) -> list[EngineUpdate]:
    loaded = replace(LOADED, providers=providers)
    engine = FullyDelegated(ScriptedEngine(said(loaded), said(*messages, records=inferences([1])), said()), spec)
    return [engine.poll() for _ in range(3)]


def failures(spec: EngineSpec, providers: tuple[str, ...], *operators: Operator) -> list[Failed]:
    updates = polled(spec, providers, BurstTaken(0, 1, (100,), operators))
    return [message for update in updates for message in update.messages if isinstance(message, Failed)]


def test_operators_on_the_cpu_are_named_with_their_share() -> None:
    (failed,) = failures(ASKED, ("CUDA", "CPU"), ON_GPU, ON_CPU)
    assert failed.is_input_error
    assert "1 of 2 operators, 10.0 % of the time, ran on the CPU: Where b" in failed.message


def test_a_model_that_is_delegated_whole_runs() -> None:
    assert failures(ASKED, ("CUDA", "CPU"), ON_GPU) == []


def test_on_the_cpu_alone_nothing_is_refused_unless_something_else_was_asked_for() -> None:
    assert failures(PLAIN, ("CPU",), ON_CPU) == []
    assert "100.0 % of the time" in failures(ASKED, ("CPU",), ON_CPU)[0].message
    assert len(failures(EngineSpec("m.tflite", "tflite", delegates=(("libx.so", {}),)), ("CPU",), ON_CPU)) == 1
    assert len(failures(PLAIN, ("XNNPACK", "CPU"), ON_CPU)) == 1


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
