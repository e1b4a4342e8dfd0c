"""Loops in several threads, told as if by one."""

import json
import threading
import time

import numpy as np
import pytest

from edgetop.engines.child import message_frames
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.loop import Control, Loop
from edgetop.engines.child.parallel_streams import Lanes, Streams
from edgetop.engines.child.record_outlet import Outlet
from edgetop.session.records import INFERENCE, Inferences
from tests.support.waiting import PATIENCE_S


class Bench:
    """So many streams, each of whose inferences is what `models` say."""

    def __init__(self, *models: object) -> None:
        self.outlet, self.control = Outlet(), Control()
        lanes = self.lanes = Lanes(self.outlet, len(models))
        loops = [
            Loop(model, lanes, self.control, stream=k)  # type: ignore[arg-type]
            for k, model in enumerate(models)
        ]
        self.streams = Streams(loops, lanes, self.control)

    def heard(self) -> tuple[Inferences, list[int]]:
        """Records as they came, and how far the streams were said to have come."""
        records, reached = [np.empty(0, INFERENCE)], []
        for kind, payload in self.outlet.take():
            if kind == message_frames.RECORDS:
                records.append(np.frombuffer(payload, INFERENCE))
            elif kind == message_frames.REACHED:
                reached.append(json.loads(payload)["t_ns"])
        return np.concatenate(records), reached


def test_runs_are_shared_to_the_last() -> None:
    bench = Bench(*[lambda: None] * 3)
    assert bench.streams.repeat(message_frames.PHASE_MEASURE, runs=11) == "runs"
    records, _ = bench.heard()
    assert np.bincount(records["stream"]).tolist() == [4, 4, 3]


def test_a_stream_that_is_done_holds_nobody_up() -> None:
    bench = Bench(*[lambda: None] * 2)
    bench.streams.repeat(message_frames.PHASE_MEASURE, runs=4)
    bench.lanes.put(memoryview(bytes(message_frames.RECORD.size)), 1, 0, next_ns=2**62)
    assert bench.heard()[1][-1] == 2**62


def test_the_first_inference_is_the_first_streams_alone() -> None:
    bench = Bench(*[lambda: None] * 3)
    bench.streams.repeat(message_frames.PHASE_FIRST, runs=1)
    assert bench.heard()[0]["stream"].tolist() == [0]


def test_inferences_run_at_once() -> None:
    """Each waits for all the others: one after the other they would never end."""
    together = threading.Barrier(3, timeout=PATIENCE_S)
    bench = Bench(*[together.wait] * 3)
    bench.streams.repeat(message_frames.PHASE_MEASURE, runs=30)
    assert len(bench.heard()[0]) == 30


def test_where_one_stream_fails_all_end_and_the_failure_is_told() -> None:
    def fails() -> None:
        raise RuntimeError("no luck")

    bench = Bench(lambda: None, fails)
    with pytest.raises(EngineError, match="10 inferences in a row failed: no luck"):
        bench.streams.repeat(message_frames.PHASE_MEASURE)


def test_a_stop_ends_all_streams() -> None:
    bench = Bench(*[lambda: None] * 2)
    bench.streams._loops[1]._call = lambda: setattr(bench.control, "stop_requested", True)
    assert bench.streams.repeat(message_frames.PHASE_MEASURE) == "stop"


def test_what_comes_after_it_was_told_began_no_earlier() -> None:
    lanes = Bench(*[lambda: None] * 2)
    said = Lanes(lanes.outlet, 2)
    said.begin(100)
    record = memoryview(bytes(message_frames.RECORD.size))
    said.put(record, 1, 0, next_ns=500)  # the other stream is in an inference that began at 100 or later
    assert lanes.heard()[1] == [100]
    said.put(record, 1, 1, next_ns=300)
    said.put(record, 1, 1, next_ns=900)
    said.end(0)
    said.put(record, 1, 1, next_ns=950)
    assert lanes.heard()[1] == [300, 500, 950]


def test_a_phase_is_announced_once_and_before_any_stream_begins() -> None:
    announced: list[int] = []
    bench = Bench(*[lambda: None] * 3)
    bench.streams.repeat(message_frames.PHASE_MEASURE, runs=9, announce=lambda: announced.append(time.monotonic_ns()))
    assert len(announced) == 1
    assert announced[0] <= bench.heard()[0]["t_ns"].min()
