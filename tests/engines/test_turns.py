"""Two engines as one: what is told of each, in which order, and how they end."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.decode import MAX_PENDING
from edgetop.engines.engine_protocol import (
    Died,
    Ended,
    EngineUpdate,
    Failed,
    Loaded,
    LogLine,
    Message,
    OfVariant,
    PhaseBegan,
    Reached,
    StageMemory,
    Started,
    TurnsBegan,
)
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.turn_engine import TurnsEngine
from edgetop.errors import InputError
from edgetop.session.records import MEASURE, WARMUP
from edgetop.session.turns import NS, Plan, plan
from tests.support import onnx_models
from tests.support.engine_runs import run_whole, spec_for
from tests.support.scripted_engine import ScriptedEngine, inferences, said
from tests.support.waiting import TIME_FACTOR

LOADED = Loaded("onnxruntime", "1", "why", ("CPU",), (), (), (), 5)
STEADY = StageMemory("steady", 0, 1_000, None, None)
WARM = inferences([1, 2, 3], 1_000_000, WARMUP)


class Scripted(ScriptedEngine):
    """With the turns that it was given."""

    turns: list[list[int]]

    def take_turns(self, turns: list[list[int]]) -> None:
        self.calls.append("turns")
        self.turns = turns


def in_turns(first: Scripted, second: Scripted, duration_s: int = 30) -> TurnsEngine:
    make = partial(plan, duration_ns=duration_s * NS, seed=0)
    return TurnsEngine((first, second), make, clock=lambda: NS)  # type: ignore[arg-type]  # they have what is used


def polled(engine: TurnsEngine, times: int) -> list[EngineUpdate]:
    return [engine.poll() for _ in range(times)]


def messages_of(updates: list[EngineUpdate]) -> list[Message]:
    return [message for update in updates for message in update.messages]


def warm(*more: EngineUpdate) -> Scripted:
    return Scripted(said(Started(7, "3.11"), LOADED, records=WARM), said(STEADY), *more)


def test_the_second_engine_starts_when_the_first_is_warm() -> None:
    first, second = warm(), warm()
    engine = in_turns(first, second)
    engine.start()
    engine.poll()
    assert second.calls == []
    updates = polled(engine, 4)
    assert (first.calls, second.calls) == (["start", "turns"], ["start", "turns"])
    (began,) = (message for message in messages_of(updates) if isinstance(message, TurnsBegan))
    assert isinstance(began.plan, Plan)
    assert (first.turns, second.turns) == (began.plan.spans(0), began.plan.spans(1))


def test_process_phases_and_model_are_of_the_first_engine() -> None:
    phase = PhaseBegan("measure", 0)
    engine = in_turns(warm(said(phase)), warm(said(phase)))
    engine.start()
    told = messages_of(polled(engine, 8))
    assert [m for m in told if isinstance(m, Started | PhaseBegan | Loaded)] == [Started(7, "3.11"), LOADED, phase]
    assert [m.side for m in told if isinstance(m, OfVariant) and isinstance(m.message, Loaded)] == [0, 1]


def test_inferences_come_in_order_with_their_side() -> None:
    """The records of the first come later than those of the second that began after them."""
    first = warm(said(), said(), said(Reached(200)), said(Reached(500), records=inferences([210, 220])))
    second = warm(said(records=inferences([300, 310])), said(Reached(400)))
    engine = in_turns(first, second)
    engine.start()
    records = np.concatenate([update.records for update in polled(engine, 12)])
    measured = records[records["phase"] == MEASURE]
    assert measured[["t_ns", "variant"]].tolist() == [(210, 0), (220, 0), (300, 1), (310, 1)]
    assert records[records["phase"] == WARMUP]["variant"].tolist() == [0, 0, 0, 1, 1, 1]


def test_it_is_over_when_both_are() -> None:
    first, second = warm(said(Ended("duration", 9))), warm(said(), said(), said(Ended("duration", 10)))
    engine = in_turns(first, second)
    engine.start()
    updates = polled(engine, 12)
    assert [m for m in messages_of(updates) if isinstance(m, Ended)] == [Ended("duration", 10)]


def test_a_stop_before_the_second_has_started_ends_the_first() -> None:
    first, second = Scripted(said(LOADED), when_stopped=[said(Ended("stop", 5))]), warm()
    engine = in_turns(first, second)
    engine.start()
    engine.poll()
    engine.stop()
    assert [m for m in messages_of(polled(engine, 3)) if isinstance(m, Ended)] == [Ended("stop", 5)]
    assert second.calls == []


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (Died("SIGSEGV", loading=False), Died("B: SIGSEGV", loading=False)),
        (Failed("model", "no", "advice"), Failed("model", "B: no", "advice")),
    ],
)
def test_one_that_fails_is_named(last: Message, told: Message) -> None:
    engine = in_turns(warm(), Scripted(said(LogLine("info", "engine", "hi"), last)))
    engine.start()
    messages = messages_of(polled(engine, 6))
    assert messages[-1] == told
    assert LogLine("info", "engine", "B: hi") in messages


def test_a_second_that_cannot_be_started_is_told() -> None:
    engine = in_turns(warm(), Scripted(refuses=InputError("no such python")))
    engine.start()
    assert messages_of(polled(engine, 3))[-1] == Failed("start", "B: no such python")


def test_inferences_too_long_for_the_time_are_refused() -> None:
    slow = inferences([1, 2], 2 * NS, WARMUP)
    engine = in_turns(Scripted(said(STEADY, records=slow)), Scripted(said(STEADY, records=slow)))
    engine.start()
    last = messages_of(polled(engine, 5))[-1]
    assert isinstance(last, Failed)
    assert last.is_input_error
    assert "give 448 s or more" in last.message


@pytest.mark.slow
def test_real_engines_run_in_their_turns_and_nowhere_else(tmp_path: Path) -> None:
    model = tmp_path / "tiny.onnx"
    model.write_bytes(onnx_models.onnx_tiny())
    spec = replace(spec_for(model, threads=1), runs=None, in_turns=True, warmup_runs=20)
    make = partial(plan, duration_ns=NS, seed=1)
    heard = run_whole(TurnsEngine((ProcessEngine(spec), ProcessEngine(spec)), make))
    turns, records = heard.one(TurnsBegan).plan, heard.in_phase("measure")
    assert heard.one(Ended).reason == "duration"
    assert (np.diff(records["t_ns"]) > 0).all()
    for side in (0, 1):
        own = records[records["variant"] == side]["t_ns"]
        within = [any(begin <= t < end for begin, end in turns.spans(side)) for t in own.tolist()]
        assert np.mean(within) > 0.99  # one that the kernel held up before it could begin
        assert len(own) > 1_000 / TIME_FACTOR


def test_the_one_that_is_ahead_waits_for_the_other() -> None:
    """Its records have room in its own process: here they would have to leave before those of the other."""
    late = range(3 * NS, 3 * NS + 2 * MAX_PENDING)
    ahead = [said(Reached(chunk.stop), records=inferences(chunk)) for chunk in (late[:MAX_PENDING], late[MAX_PENDING:])]
    first = Scripted(
        said(LOADED, STEADY, records=WARM), *[said()] * 5, said(Reached(9 * NS), records=inferences([2 * NS]))
    )
    second = Scripted(said(LOADED, STEADY, records=WARM), said(), *ahead)
    engine = in_turns(first, second)
    engine.start()
    updates = polled(engine, 8)
    starts = np.concatenate([update.records["t_ns"] for update in updates])
    assert (np.diff(starts[2 * len(WARM) :]) >= 0).all()
    assert len(starts) == 2 * len(WARM) + len(late) + 1
