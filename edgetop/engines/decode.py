"""Frames of the child into records and messages: the same for a pipe and for a queue."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from edgetop.engines.child import frames
from edgetop.engines.child.errors import one_line
from edgetop.engines.protocol import (
    BurstBegan,
    BurstTaken,
    Ended,
    EngineUpdate,
    Failed,
    Loaded,
    LogLine,
    Message,
    PhaseBegan,
    ProfilerChosen,
    Reached,
    RecordsLost,
    SlowInference,
    StageMemory,
    Started,
)
from edgetop.session.manifest import TensorInfo
from edgetop.session.operators import Operator, ThreadUse
from edgetop.session.records import INFERENCE, NO_INFERENCES, Inferences


def decode(pairs: Iterable[tuple[int, bytes]]) -> EngineUpdate:
    """One update from (kind, payload) pairs. Kinds this version does not know are passed over.

    Where the pairs stop making sense, `Failed` is the last message, and what came before counts.
    """
    records: list[Inferences] = []
    messages: list[Message] = []
    try:
        for kind, payload in pairs:
            if kind == frames.RECORDS:
                records.append(np.frombuffer(payload, INFERENCE))
            elif kind in _MESSAGES:
                messages.append(_MESSAGES[kind](json.loads(payload)))
    except (frames.FrameError, ValueError, KeyError, TypeError) as error:
        messages.append(Failed("engine", f"invalid data from the engine: {one_line(error)}"))
    return EngineUpdate(np.concatenate(records) if records else NO_INFERENCES, tuple(messages))


def _loaded(message: dict[str, Any]) -> Message:
    return Loaded(
        runtime=message["runtime"],
        version=message["version"],
        why=message["why"],
        providers=tuple(message["providers"]),
        dropped_providers=tuple(message["dropped_providers"]),
        inputs=tuple(TensorInfo(i["name"], tuple(i["shape"]), i["dtype"]) for i in message["inputs"]),
        assumptions=tuple(message["assumptions"]),
        init_ns=message["init_ns"],
        left=str(message.get("left", "")),
        whole=bool(message.get("whole")),
    )


def _stage_memory(message: dict[str, Any]) -> Message:
    anon, file = (None if message.get(key) is None else int(message[key]) for key in ("anon_kib", "file_kib"))
    return StageMemory(str(message["stage"]), int(message["t_ns"]), int(message["rss_kib"]), anon, file)


def _burst(message: dict[str, Any]) -> Message:
    if not message["run_ns"]:
        raise ValueError("a burst without a run")
    first_run = tuple((int(place), int(ns)) for place, ns in message.get("first_run", ()))
    if any(not 0 <= place < len(message["operators"]) for place, _ in first_run):
        raise ValueError("a run of an operator that is none of the burst's")
    return BurstTaken(
        monotonic_ns=message["t_ns"],
        duration_ns=message["duration_ns"],
        run_ns=tuple(int(ns) for ns in message["run_ns"]),
        operators=_operators(message["operators"]),
        first_run=first_run,
        threads=_threads(message.get("threads")),
        left_out_ns=tuple(int(ns) for ns in message.get("left_out_ns", ())),
        disturbed=bool(message.get("disturbed")),
        plain_disturbed=bool(message.get("plain_disturbed")),
        preempted=int(message.get("preempted", 0)),
        waited_ns=_optional_int(message.get("waited_ns")),
        stolen_ns=_optional_int(message.get("stolen_ns")),
    )


def _operators(rows: list[Any]) -> tuple[Operator, ...]:
    return tuple(
        Operator(str(name), str(op_type), str(provider), int(calls), int(total_ns))
        for name, op_type, provider, calls, total_ns in rows
    )


def _optional_int(value: Any) -> int | None:
    return None if value is None else int(value)


def _slow(message: dict[str, Any]) -> Message:
    return SlowInference(
        monotonic_ns=int(message["t_ns"]),
        latency_ns=int(message["latency_ns"]),
        span_ns=int(message["span_ns"]),
        preempted=int(message["preempted"]),
        major_faults=int(message["major_faults"]),
        minor_faults=int(message["minor_faults"]),
        waited_ns=_optional_int(message.get("waited_ns")),
    )


def _threads(fields: dict[str, Any] | None) -> ThreadUse | None:
    if fields is None:
        return None
    count, all_ns, wait_ns, moves, most_ns = (
        int(fields[name]) for name in ("count", "all_ns", "wait_ns", "moves", "most_ns")
    )
    return ThreadUse(count, all_ns, wait_ns, moves, str(fields["most"]), most_ns)


_MESSAGES: dict[int, Callable[[dict[str, Any]], Message]] = {
    frames.HELLO: lambda m: Started(m["pid"], m["python"]),
    frames.LOADED: _loaded,
    frames.PHASE: lambda m: PhaseBegan(m["phase"], m["t_ns"]),
    frames.LOG: lambda m: LogLine(m["severity"], "engine", m["message"], m.get("kind", "log")),
    frames.FAILED: lambda m: Failed(m["stage"], m["message"], m["advice"]),
    frames.ENDED: lambda m: Ended(m["reason"], m["t_ns"]),
    frames.LOST: lambda m: RecordsLost(m["count"]),
    frames.MEMORY: _stage_memory,
    frames.PROFILER: lambda m: ProfilerChosen(m["way"], m["reason"], _operators(m.get("operators", []))),
    frames.BURST_BEGINS: lambda m: BurstBegan(m["t_ns"]),
    frames.BURST: _burst,
    frames.REACHED: lambda m: Reached(m["t_ns"]),
    frames.SLOW: _slow,
}
