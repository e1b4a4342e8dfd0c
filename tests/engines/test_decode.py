"""What frames say becomes values; what this version does not know is passed over."""

import json
from typing import Any

import pytest

from edgetop.engines.child import message_frames
from edgetop.engines.decode import decode
from edgetop.engines.engine_protocol import (
    BurstBegan,
    BurstTaken,
    Ended,
    Failed,
    Loaded,
    LogLine,
    PhaseBegan,
    ProfilerChosen,
    RecordsLost,
    SlowInference,
    StageMemory,
    Started,
)
from edgetop.session.manifest import TensorInfo
from edgetop.session.operators import EventCounts, Operator

BURST = {"t_ns": 9, "duration_ns": 8, "run_ns": [1], "operators": [["a", "Conv", "CPU", 1, 5]]}
LOADED = {
    "runtime": "onnxruntime",
    "version": "1.31.1",
    "why": "asked for",
    "providers": ["CPU"],
    "dropped_providers": ["CUDA"],
    "inputs": [{"name": "x", "shape": [1, 3], "dtype": "float32"}],
    "assumptions": ["input x is [N,3]: it runs as [1,3]"],
    "init_ns": 7,
    "input_steps": 1,
}


SLOW = {
    "t_ns": 7, "latency_ns": 9, "span_ns": 12, "preempted": 1, "major_faults": 2, "minor_faults": 3, "waited_ns": 4
}  # fmt: skip


def packed(*starts: int) -> bytes:
    return b"".join(message_frames.RECORD.pack(start, 5, 0, 0, 2, True) for start in starts)


def said(kind: int, /, **message: Any) -> tuple[int, bytes]:
    return kind, json.dumps(message).encode()


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (said(message_frames.HELLO, pid=7, python="3.8.18", numpy="1.24"), Started(7, "3.8.18")),
        (said(message_frames.PHASE, phase="warmup", t_ns=9), PhaseBegan("warmup", 9)),
        (said(message_frames.LOG, severity="warning", message="words"), LogLine("warning", "engine", "words")),
        (
            said(message_frames.LOG, severity="warning", message="words", kind="inference-failed"),
            LogLine("warning", "engine", "words", "inference-failed"),
        ),
        (said(message_frames.FAILED, stage="input", message="no", advice="try"), Failed("input", "no", "try")),
        (said(message_frames.ENDED, reason="runs", t_ns=9), Ended("runs", 9)),
        (said(message_frames.LOST, count=12), RecordsLost(12)),
        (said(message_frames.PROFILER, way="runs", reason="no"), ProfilerChosen("runs", "no")),
        (said(message_frames.BURST_BEGINS, t_ns=9), BurstBegan(9)),
        (
            said(
                message_frames.BURST,
                t_ns=9,
                duration_ns=8,
                run_ns=[3],
                operators=[["a", "Conv", "CPU", 1, 5]],
                slow_ns=3,
                usual_ns=2,
                longer="a",
                longer_ns=1,
                longer_share=0.5,
            ),
            BurstTaken(
                9,
                8,
                (3,),
                (Operator("a", "Conv", "CPU", 1, 5),),
                slow_ns=3,
                usual_ns=2,
                longer="a",
                longer_ns=1,
                longer_share=0.5,
            ),
        ),
        (
            said(
                message_frames.BURST,
                t_ns=9,
                duration_ns=8,
                run_ns=[3],
                first_run=[[0, 5]],
                operators=[["a", "Conv", "CPU", 1, 5]],
            ),
            BurstTaken(9, 8, (3,), (Operator("a", "Conv", "CPU", 1, 5),), ((0, 5),)),
        ),
        (
            said(message_frames.BURST, t_ns=9, duration_ns=8, run_ns=[3, 4], operators=[["a", "Conv", "CPU", 2, 5]]),
            BurstTaken(9, 8, (3, 4), (Operator("a", "Conv", "CPU", 2, 5),)),
        ),
        (
            said(message_frames.BURST, **(BURST | {"counts": {"cycles": [100, 1, [[0, 500, 400, 600]]]}})),
            BurstTaken(
                9,
                8,
                (1,),
                (Operator("a", "Conv", "CPU", 1, 5),),
                counts=(EventCounts("cycles", 100, 1, ((0, 500, 400, 600),)),),
            ),
        ),
        (
            said(message_frames.MEMORY, stage="model", t_ns=9, rss_kib=30, anon_kib=10, file_kib=20, shmem_kib=0),
            StageMemory("model", 9, 30, 10, 20),
        ),
        (said(message_frames.SLOW, **SLOW), SlowInference(7, 9, 12, 1, 2, 3, 4)),
        (said(message_frames.SLOW, **(SLOW | {"waited_ns": None})), SlowInference(7, 9, 12, 1, 2, 3, None)),
        (said(message_frames.MEMORY, stage="model", t_ns=9, rss_kib=30), StageMemory("model", 9, 30, None, None)),
        (
            said(message_frames.LOADED, **LOADED),
            Loaded(
                runtime="onnxruntime",
                version="1.31.1",
                why="asked for",
                providers=("CPU",),
                dropped_providers=("CUDA",),
                inputs=(TensorInfo("x", (1, 3), "float32"),),
                assumptions=("input x is [N,3]: it runs as [1,3]",),
                init_ns=7,
                input_steps=1,
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, tuple) else "",
)
def test_each_kind_of_frame_has_its_message(pair: tuple[int, bytes], message: object) -> None:
    update = decode([pair])
    assert update.messages == (message,)
    assert len(update.records) == 0


def test_records_of_several_frames_come_as_one() -> None:
    update = decode(
        [
            (message_frames.RECORDS, packed(1, 2)),
            said(message_frames.LOST, count=1),
            (message_frames.RECORDS, packed(3)),
        ]
    )
    assert update.records["t_ns"].tolist() == [1, 2, 3]
    assert update.messages == (RecordsLost(1),)


def test_a_kind_of_a_later_version_is_passed_over() -> None:
    update = decode([(200, b"\x00\xff"), said(message_frames.ENDED, reason="stop", t_ns=1, mood="fine")])
    assert update.messages == (Ended("stop", 1),)


def test_nothing_gives_nothing() -> None:
    update = decode([])
    assert (len(update.records), update.messages) == (0, ())


@pytest.mark.parametrize(
    "nonsense",
    [
        (message_frames.RECORDS, packed(9)[:-1]),
        (message_frames.ENDED, b"not json"),
        (message_frames.ENDED, b"\xff"),
        (message_frames.ENDED, b"[]"),
        said(message_frames.ENDED, reason="runs"),
        said(message_frames.LOADED, **(LOADED | {"inputs": 7})),
        said(message_frames.BURST, t_ns=9, duration_ns=8, run_ns=[], operators=[]),
        said(message_frames.BURST, t_ns=9, duration_ns=8, run_ns=[1], operators=[["a", "Conv", "CPU", 2]]),
        said(
            message_frames.BURST,
            t_ns=9,
            duration_ns=8,
            run_ns=[1],
            first_run=[[1, 5]],
            operators=[["a", "Conv", "CPU", 1, 5]],
        ),
        said(message_frames.BURST, **(BURST | {"counts": {"cycles": [100, 1, [[1, 500, 400, 600]]]}})),
        said(message_frames.BURST, **(BURST | {"counts": {"cycles": [100, 1, [[0, 500]]]}})),
    ],
    ids=[
        "half a record",
        "no json",
        "no utf-8",
        "a list",
        "a field missing",
        "a field of another kind",
        "a burst of nothing",
        "half an operator",
        "a run of nobody",
        "counts of an operator that is none of the burst's",
        "half a count",
    ],
)
def test_what_came_before_nonsense_counts(nonsense: tuple[int, bytes]) -> None:
    update = decode(
        [
            (message_frames.RECORDS, packed(1)),
            said(message_frames.LOST, count=1),
            nonsense,
            (message_frames.RECORDS, packed(2)),
        ]
    )
    assert update.records["t_ns"].tolist() == [1]
    lost, failed = update.messages
    assert lost == RecordsLost(1)
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.is_input_error) == ("engine", False)
    assert "invalid data" in failed.message


def test_a_stream_counts_up_to_where_it_becomes_invalid() -> None:
    stream = message_frames.pack_message(message_frames.LOST, {"count": 3}) + b"Traceback (most recent call last):"
    lost, failed = decode(message_frames.FrameReader().feed(stream)).messages
    assert lost == RecordsLost(3)
    assert isinstance(failed, Failed)


@pytest.mark.parametrize(
    ("stage", "is_users"),
    [("start", True), ("runtime", True), ("model", True), ("input", True), ("first", True),
     ("inference", False), ("engine", False)],
)  # fmt: skip
def test_a_failure_is_the_users_until_inferences_run(stage: str, is_users: bool) -> None:
    assert Failed(stage, "why").is_input_error == is_users
