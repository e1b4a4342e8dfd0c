"""Two engines as one: what is told of each, in which order, and how they end."""

import time
from dataclasses import replace
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
    Reloading,
    StageMemory,
    Started,
    TurnsBegan,
)
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.turn_engine import TurnsEngine, reloading
from edgetop.errors import InputError
from edgetop.session.records import MEASURE, WARMUP
from edgetop.session.turns import NS, Plan, Planner
from tests.support import onnx_models
from tests.support.engine_runs import Heard, hear_out, run_whole, spec_for
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
    planner = Planner(duration_s * NS, 0)
    return TurnsEngine((first, second), planner, clock=lambda: NS)  # type: ignore[arg-type]  # they have what is used


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


class Moving:
    """A clock that moves on by 20 ms at each look."""

    def __init__(self) -> None:
        self.ns = NS

    def __call__(self) -> int:
        self.ns += 20_000_000
        return self.ns


def reloaded(first: tuple[Scripted, Scripted], again: list[Scripted], duration_s: int = 30) -> TurnsEngine:
    return TurnsEngine(first, Planner(duration_s * NS, 0), lambda _: again.pop(0), clock=Moving())  # type: ignore[arg-type]


def over() -> EngineUpdate:
    return said(Ended("duration", 9))


def test_both_are_loaded_anew_when_their_turns_are_over() -> None:
    before = warm(said(), said(), said(), over()), warm(over())
    later = warm(said(Reached(2**60), records=inferences([300]))), warm(said(Reached(2**60)))
    engine = reloaded(before, list(later))
    engine.start()
    updates = polled(engine, 12)
    told = messages_of(updates)
    assert [began.load for began in told if isinstance(began, TurnsBegan)] == [0, 1]
    plans = [began.plan for began in told if isinstance(began, TurnsBegan)]
    assert plans[1].alone == 0
    assert plans[1].begin_ns > plans[0].begin_ns
    assert [one.calls for one in (*before, *later)] == [["start", "turns", "close"]] * 2 + [["start", "turns"]] * 2
    assert (later[0].turns, later[1].turns) == (plans[1].spans(0), plans[1].spans(1))
    assert [type(one) for one in told if isinstance(one, Started | Reloading | Ended)] == [Started, Reloading, Started]
    assert len([one for one in told if isinstance(one, Loaded)]) == 1
    records = np.concatenate([update.records for update in updates])
    assert (records["phase"] == WARMUP).sum() == 2 * len(WARM)  # those of the later loads are left out
    assert records[records["phase"] == MEASURE]["t_ns"].tolist() == [300]


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (Died("SIGKILL", loading=True), Died("B: load 2: SIGKILL", loading=True)),
        (Failed("model", "no such file"), Failed("engine", "B: load 2: no such file")),
    ],
)
def test_one_that_cannot_be_loaded_anew_is_told(last: Message, told: Message) -> None:
    """It is the engine's failure, so the recording of what was measured is kept."""
    engine = reloaded((warm(said(), said(), over()), warm(over())), [warm(), Scripted(said(last))])
    engine.start()
    assert messages_of(polled(engine, 12))[-1] == told


def test_it_ends_when_no_time_is_left_for_another_load() -> None:
    first, second = warm(said(), said(), said()), warm(said())
    clock = Moving()
    engine = TurnsEngine((first, second), Planner(4 * NS, 0), lambda _: warm(), clock=clock)  # type: ignore[arg-type, return-value]
    engine.start()
    told = messages_of(polled(engine, 6))
    clock.ns += 4 * NS
    for one in (first, second):
        one.say(over())
    told += messages_of(polled(engine, 1))
    assert isinstance(told[-1], Ended)
    assert not any(isinstance(one, Reloading) for one in told)


def test_a_stop_ends_it_without_another_load() -> None:
    engine = reloaded((warm(said(), said(), over()), warm(said(), said(), over())), [])
    engine.start()
    polled(engine, 4)
    engine.stop()
    assert messages_of(polled(engine, 8))[-1] == Ended("duration", 9)


@pytest.mark.thorough
@pytest.mark.slow
def test_real_engines_are_loaded_in_other_processes(tmp_path: Path) -> None:
    model = tmp_path / "tiny.onnx"
    model.write_bytes(onnx_models.onnx_tiny())
    spec = replace(spec_for(model, threads=1), runs=None, in_turns=True, warmup_runs=5)
    engines = ProcessEngine(spec), ProcessEngine(spec)
    engine, heard = TurnsEngine(engines, Planner(100 * NS, 1), lambda _: ProcessEngine(reloading(spec))), Heard()
    engine.start()
    while not heard.listen(engine) and len(heard.all(TurnsBegan)) < 3:
        time.sleep(0.01)
    engine.stop()
    began, pids = hear_out(engine, heard).all(TurnsBegan), {one.pid for one in heard.all(Started)}
    engine.close()
    assert len(pids) == len(began) == 3
    assert heard.one(Ended).reason == "stop"
    records = heard.in_phase("measure")
    assert (np.diff(records["t_ns"]) > 0).all()
    spans = [(one.plan.begin_ns, one.plan.end_ns) for one in began]
    within = [any(begin <= t < end for begin, end in spans) for t in records["t_ns"].tolist()]
    assert np.mean(within) > 0.99


@pytest.mark.slow
def test_real_engines_run_in_their_turns_and_nowhere_else(tmp_path: Path) -> None:
    model = tmp_path / "tiny.onnx"
    model.write_bytes(onnx_models.onnx_tiny())
    spec = replace(spec_for(model, threads=1), runs=None, in_turns=True, warmup_runs=20)
    heard = run_whole(TurnsEngine((ProcessEngine(spec), ProcessEngine(spec)), Planner(NS, 1)))
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
