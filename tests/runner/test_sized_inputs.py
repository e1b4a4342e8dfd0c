"""The inferences of `run` with inputs of several sizes are sampled, each with its size."""

from dataclasses import replace

import numpy as np

from edgetop.engines.engine_protocol import EngineUpdate, Message, RecordsLost, Sampled
from edgetop.runner.sized_inputs import MOST_A_STEP, SizedInputs
from edgetop.session.records import WARMUP, Inferences
from edgetop.session.sized_calls import sensors_of
from tests.runner.test_session_state import LOADED
from tests.support.scripted_engine import ScriptedEngine, inferences, said

SIZE, TOOK = sensors_of(0)
CYCLE = replace(LOADED, input_elements=(10, 20, 30))


def samples(*updates: EngineUpdate) -> dict[str, dict[int, float]]:
    """Return all samples by sensor and time."""
    engine, found = SizedInputs(ScriptedEngine(*updates)), {SIZE: {}, TOOK: {}}
    for _ in updates:
        for message in engine.poll().messages:
            if isinstance(message, Sampled):
                found[message.sensor] |= dict(message.samples)
    return found


def runs(begin: int, count: int, phase: int | None = None, *messages: Message) -> EngineUpdate:
    starts = list(range(begin, begin + count))
    records = inferences(starts, [1_000_000 * (start + 1) for start in starts])
    if phase is not None:
        records["phase"] = phase
    return said(*messages, records=records)


def test_the_number_of_a_record_tells_its_size() -> None:
    found = samples(said(CYCLE), runs(0, 4, WARMUP), runs(4, 5))
    assert found[SIZE] == {4: 20, 5: 30, 6: 10, 7: 20, 8: 30}
    assert found[TOOK] == {4: 5, 5: 6, 6: 7, 7: 8, 8: 9}


def test_each_stream_of_the_engine_goes_through_the_cycle_by_itself() -> None:
    records: Inferences = inferences([0, 1, 2, 3])
    records["stream"] = [0, 1, 1, 0]
    assert samples(said(CYCLE), said(records=records))[SIZE] == {0: 10, 1: 10, 2: 20, 3: 20}


def test_a_failed_inference_has_a_number_and_no_sample() -> None:
    records = inferences([0, 1, 2])
    records["ok"][1] = False
    assert samples(said(CYCLE), said(records=records))[SIZE] == {0: 10, 2: 30}


def test_once_records_were_lost_no_size_is_known() -> None:
    assert samples(said(CYCLE), runs(0, 2), runs(2, 2, None, RecordsLost(5)), runs(9, 2))[SIZE] == {0: 10, 1: 20}


def test_inputs_of_one_size_are_not_sampled() -> None:
    assert samples(said(LOADED), runs(0, 5)) == {SIZE: {}, TOOK: {}}


def test_of_many_inferences_few_are_sampled() -> None:
    found = samples(said(CYCLE), runs(0, 3_000))
    assert len(found[SIZE]) == MOST_A_STEP
    assert all(size == CYCLE.input_elements[at % 3] for at, size in found[SIZE].items())
    assert len(np.unique([*found[SIZE].values()])) == 3
