"""Parse the files of `trtexec --exportTimes` and `--exportProfile`.

Source: TensorRT's samples/common/sampleReporting.cpp, exportJSONTrace and Profiler::exportJSONProfile, from
7.0 to 11.0. Both files are a list with one object per line:

times    `startEnqMs`, `endEnqMs`, `startH2dMs`, `endH2dMs`, `startComputeMs`, `endComputeMs`, `startD2hMs`,
         `endD2hMs`, `h2dMs`, `computeMs`, `d2hMs`, `latencyMs`, up to 8.0 `endToEndMs` as well. `latencyMs` is the
         sum of the three durations before it; trtexec prints it as Latency. Before 8.0 the names have `In` and `Out`
         instead of `H2d` and `D2h`, and the values of `startEnqMs` and `startInMs` are swapped. The first versions have
         no `startEnqMs` and `endEnqMs`.
profile  `{"count": inferences}`, then `name`, `timeMs` of all calls, `averageMs`, `percentage`, from 8.4 on `medianMs`.

Times are milliseconds since the start as 32-bit floats. Up to 8.4 the warm-up's inferences are included.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.formatting import quantity
from edgetop.imports.measured import (
    COMPUTE,
    MAX_COUNT,
    MAX_LAYERS,
    MAX_MS,
    TO_DEVICE,
    TO_HOST,
    Layers,
    Origin,
    Times,
)
from edgetop.session.operators import Operator

_WAY = "layers as trtexec --exportProfile or --dumpProfile has them"
ORIGIN = Origin("trtexec", "tensorrt (imported from trtexec)", "TensorRT", _WAY)

WARMUP_NS = 200_000_000  # default of trtexec's --warmUp (sampleOptions.h, defaultWarmUp)

# Layers that TensorRT inserts to change a tensor's layout or dtype: the only type that a layer's name reveals.
_REFORMATS = "Reformatting CopyNode for "
REFORMAT, LAYER = "Reformat", "Layer"

# The parts of an inference, with the keys of their durations: since 8.0, and before.
_PARTS = {TO_DEVICE: ("h2dMs", "inMs"), COMPUTE: ("computeMs",), TO_HOST: ("d2hMs", "outMs")}

# Keys that show that an entry of a file is an inference, or a layer.
TIME_KEYS = frozenset(("latencyMs", "computeMs", "startComputeMs", "startH2dMs", "startInMs"))
LAYER_KEYS = frozenset(("timeMs", "averageMs"))

Floats = npt.NDArray[np.float64]


def read_times(entries: Sequence[Any], warmup_ns: int = WARMUP_NS) -> Times:
    """Return the inferences in a file of `--exportTimes`.

    `entries` are the objects of the file's JSON list, as in `{"startComputeMs": 1.0, "endComputeMs": 2.5, ...}`.
    `warmup_ns` is the duration of the warm-up. As in trtexec, an inference is of the warm-up if its `startComputeMs` is
    less than this. Raises ValueError if a value is missing or cannot be right.
    """
    # Before 8.0 the start of the copy to the device is under the key of the start of enqueueing.
    # The first versions do not have that key, and there the values are not swapped.
    start_ms = _column(entries, "startH2dMs", "startEnqMs", "startInMs")
    order = np.argsort(start_ms, kind="stable")  # with several streams, each reports its own inferences
    start_ms = start_ms[order]
    compute_ms, latency_ms = (_column(entries, name)[order] for name in ("startComputeMs", "latencyMs"))
    end_ms = float(_column(entries, "endD2hMs", "endOutMs").max())
    if not latency_ms.all():
        raise ValueError(f"entry {order[np.flatnonzero(latency_ms == 0)[0]]}: latencyMs is 0")
    measured = np.flatnonzero(compute_ms >= warmup_ns / 1e6)
    if not len(measured):
        inferences = quantity(len(entries), "inference")
        raise ValueError(f"{inferences}, and all of the warm-up of {warmup_ns / 1e6:g} ms")
    warmup = int(measured[0])
    parts_ms = {part: float(np.median(_column(entries, *names)[order][warmup:])) for part, names in _PARTS.items()}
    since_ms = start_ms - start_ms[0]
    return Times(
        start_ns=np.rint(since_ms * 1e6).astype(np.int64),
        latency_ns=np.rint(latency_ms * 1e6).astype(np.int64),
        end_ns=int(max(end_ms - start_ms[0], float((since_ms + latency_ms).max())) * 1e6),
        warmup=warmup or None,
        step_ns=math.ldexp(1e6, math.frexp(end_ms)[1] - 24),  # resolution of a 32-bit float at that time
        parts_ms=parts_ms,
    )


def _column(entries: Sequence[Any], *names: str) -> Floats:
    """Return the time in ms that each entry has under one key. `entries` are JSON objects, as in `{"latencyMs": 2.5}`.

    The key is the first of `names` that the first entry has. Raises ValueError if an entry lacks the key, or if a value
    is no possible time.
    """
    name = next((name for name in names if name in entries[0]), names[0])
    return np.array([_number(entry, name, place) for place, entry in enumerate(entries)], np.float64)


def _number(entry: Any, name: str, place: int) -> float:
    """Return the time in ms under the key `name` of an entry, a JSON object as in `{"latencyMs": 2.5}`.

    `place` is the entry's number, for the message of the ValueError that is raised if there is no valid time.
    """
    if not isinstance(entry, dict) or name not in entry:
        raise ValueError(f"entry {place} has no {name}")
    value = entry[name]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MAX_MS:
        raise ValueError(f"entry {place}: {name} is no time of such a run: {str(value)[:40]!r}")
    return float(value)


def read_profile(entries: Sequence[Any]) -> Layers:
    """Return the time of each layer in a file of `--exportProfile`.

    `entries` are the objects of the file's JSON list: first `{"count": 100}`, then one for each layer, as in `{"name":
    "conv1", "timeMs": 47.8, ...}`. Raises ValueError if a value is missing or cannot be right.
    """
    runs = entries[0]["count"]
    if not isinstance(runs, int) or isinstance(runs, bool) or not 0 < runs <= MAX_COUNT:
        raise ValueError(f"count is no number of inferences: {str(runs)[:40]!r}")
    if not 1 < len(entries) <= MAX_LAYERS + 1:
        raise ValueError("it has no layers" if len(entries) < 2 else f"more than {MAX_LAYERS} layers")
    operators = tuple(_operator(entry, place, runs) for place, entry in enumerate(entries) if place)
    total_ns = sum(operator.total_ns for operator in operators)
    if not total_ns:
        raise ValueError("every timeMs is 0")
    return Layers(runs, operators, total_ns // runs)


def _operator(entry: Any, place: int, runs: int) -> Operator:
    total_ms, average_ms = (_number(entry, name, place) for name in ("timeMs", "averageMs"))
    name = entry.get("name")
    if not isinstance(name, str):
        raise ValueError(f"entry {place} has no name")  # noqa: TRY004  a wrong value of a document
    # From 8.4 on, timeMs / averageMs is the layer's number of calls, which differs from `runs` for a layer that does
    # not run in every inference. Six digits are enough to tell.
    calls = runs
    if "medianMs" in entry and average_ms > 0 and abs(total_ms / average_ms - runs) > runs / 1000 + 1:
        calls = min(MAX_COUNT, max(1, round(total_ms / average_ms)))
    return layer(name, calls, total_ms)


def layer(name: str, calls: int, total_ms: float) -> Operator:
    """Return a layer of TensorRT as an operator.

    `name` is the layer's name, `calls` its number of calls, and `total_ms` the time of all calls in ms.
    """
    op_type = REFORMAT if name.startswith(_REFORMATS) else LAYER
    return Operator(name, op_type, ORIGIN.provider, calls, round(total_ms * 1e6))
