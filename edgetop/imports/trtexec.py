"""Parse the files of `trtexec --exportTimes` and `--exportProfile`, and the output of `trtexec`.

Source: TensorRT's samples/common/sampleReporting.cpp, exportJSONTrace and Profiler::exportJSONProfile, from
7.0 to 11.0. Both files are a list with one object per line:

times    `startEnqMs`, `endEnqMs`, `startH2dMs`, `endH2dMs`, `startComputeMs`, `endComputeMs`, `startD2hMs`,
         `endD2hMs`, `h2dMs`, `computeMs`, `d2hMs`, `latencyMs`, up to 8.0 `endToEndMs` as well. `latencyMs` is the
         sum of the three durations before it; trtexec prints it as Latency. Before 8.0 the names have `In` and `Out`
         instead of `H2d` and `D2h`, and the values of `startEnqMs` and `startInMs` are swapped.
profile  `{"count": inferences}`, then `name`, `timeMs` of all calls, `averageMs`, `percentage`, from 8.4 on `medianMs`.

Times are milliseconds since the start as 32-bit floats. Up to 8.4 the warm-up's inferences are included.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.imports.measured import (
    COMPUTE,
    MAX_COUNT,
    MAX_LAYERS,
    MAX_NS,
    MAX_PER_SECOND,
    NUMBER,
    TO_DEVICE,
    TO_HOST,
    Layers,
    Origin,
    Summary,
    Times,
    count,
    first_match,
    known_figures,
    number,
    one_run,
    refuse_contradictions,
    time_ms,
    time_ns,
)
from edgetop.session.operators import Operator
from edgetop.session.typed_json import JsonValue

_WAY = "layers as trtexec --exportProfile has them"
ORIGIN = Origin("trtexec", "tensorrt (imported from trtexec)", "TensorRT", _WAY)

WARMUP_NS = 200_000_000  # default of trtexec's --warmUp (sampleOptions.h, defaultWarmUp)
MAX_MS = MAX_NS / 1e6  # at this time the floats have a resolution of 16 ms

# Layers that TensorRT inserts to change a tensor's layout or dtype: the only type that a layer's name reveals.
_REFORMATS = "Reformatting CopyNode for "
REFORMAT, LAYER = "Reformat", "Layer"

# The parts of an inference, with the keys of their durations: since 8.0, and before.
_PARTS = {TO_DEVICE: ("h2dMs", "inMs"), COMPUTE: ("computeMs",), TO_HOST: ("d2hMs", "outMs")}

Floats = npt.NDArray[np.float64]


def read_times(entries: Sequence[Any], warmup_ns: int = WARMUP_NS) -> Times:
    """Return the inferences from the entries of a times file. Raises ValueError.

    `warmup_ns`: inferences whose computation began before this time are warm-up, as in trtexec.
    """
    # Before 8.0 the start of the copy to the device is under the key of the start of enqueueing.
    start_ms = _column(entries, "startH2dMs", "startEnqMs")
    order = np.argsort(start_ms, kind="stable")  # with several streams, each reports its own inferences
    start_ms = start_ms[order]
    compute_ms, latency_ms = (_column(entries, name)[order] for name in ("startComputeMs", "latencyMs"))
    end_ms = float(_column(entries, "endD2hMs", "endOutMs").max())
    if not latency_ms.all():
        raise ValueError(f"entry {order[np.flatnonzero(latency_ms == 0)[0]]}: latencyMs is 0")
    measured = np.flatnonzero(compute_ms >= warmup_ns / 1e6)
    if not len(measured):
        raise ValueError(f"all {len(entries)} inferences began in the warm-up, {warmup_ns / 1e6:g} ms")
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
    """Return the values of all entries under the first of `names` that the first entry has. Raises ValueError."""
    name = next((name for name in names if name in entries[0]), names[0])
    return np.array([_number(entry, name, place) for place, entry in enumerate(entries)], np.float64)


def _number(entry: Any, name: str, place: int) -> float:
    """Return an entry's time in ms. `place`: the entry's number, for the error message. Raises ValueError."""
    if not isinstance(entry, dict) or name not in entry:
        raise ValueError(f"entry {place} has no {name}")
    value = entry[name]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MAX_MS:
        raise ValueError(f"entry {place}: {name} is no time of such a run: {str(value)[:40]!r}")
    return float(value)


def read_profile(entries: Sequence[Any]) -> Layers:
    """Return the layers from the entries of a profile. Raises ValueError."""
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
    op_type = REFORMAT if name.startswith(_REFORMATS) else LAYER
    return Operator(name, op_type, ORIGIN.provider, calls, round(total_ms * 1e6))


# The output of `trtexec`: a performance summary, without single inferences.
#
# Source: TensorRT's samples/common/sampleReporting.cpp, printProlog and printEpilog, 7.0 to 11.0. Each line begins with
# `[11/12/2024-10:00:00] [I] `. From 8.0 on there is one line for each kind of time:
#
#       Throughput: 24.4584 qps
#       Latency: min = 39.4 ms, max = 48.8 ms, mean = 42.6 ms, median = 42.4 ms, percentile(90%) = 45.2 ms, ...
#       Total Host Walltime: 3.10731 s
#
# Before 8.0 there is a line `Host Latency`, then one for each figure: `min: 4.34 ms (end to end 4.35 ms)`,
# `percentile: 5.46 ms at 99% (end to end ...)`, `throughput: 0 qps`, `walltime: 3.0 s`. Those versions print a
# throughput of 0 for a model with an explicit batch.

_HEAD = r"^(?:\[[^\]\n]{1,40}\] )?(?:\[[IVWE]\] )?"
MARK = re.compile(rf"&&&& \w+ TensorRT\.trtexec|{_HEAD}(?:=== Performance summary ===|Host Latency)\s*$", re.MULTILINE)
_FAILED = re.compile(r"&&&& FAILED TensorRT\.trtexec")
_RUNNING = re.compile(r"&&&& RUNNING TensorRT\.trtexec(?: \[TensorRT v[0-9]{4,6}\])?(?: # (.*))?")
_VERSION = re.compile(r"\[TensorRT v([0-9]{4,6})\]")
_MODEL = re.compile(r"--(?:onnx|loadEngine|model|uff)=(\S+)")
_MODEL_OPTION = re.compile(rf"{_HEAD}Model: (?!$)(\S.*?)\s*$", re.MULTILINE)

_LINE = re.compile(rf"{_HEAD}([A-Z][A-Za-z0-9 -]{{2,40}}): (min = .*)$", re.MULTILINE)
_FIGURE = re.compile(rf"(min|max|mean|median|percentile\(([0-9.]{{1,8}})%\)) = {NUMBER} ms")
_OLD_HEADS = {"Host Latency": "Latency", "Enqueue Time": "Enqueue Time", "GPU Compute": "GPU Compute Time"}
_OLD_LINE = re.compile(rf"{_HEAD}(min|max|mean|median|percentile): {NUMBER} ms(?: at ([0-9.]{{1,8}})%)?")
_THROUGHPUT = re.compile(rf"{_HEAD}[Tt]hroughput: {NUMBER} qps", re.MULTILINE)
_WALLTIME = re.compile(rf"{_HEAD}(?:Total Host Walltime|walltime): {NUMBER} s", re.MULTILINE)
_COUNT = re.compile(rf"{_HEAD}Timing trace has ([0-9]{{1,10}}) queries", re.MULTILINE)
_WARMUP = re.compile(rf"{_HEAD}Warmup completed ([0-9]{{1,10}}) queries", re.MULTILINE)

_KEYS = {"min": "min", "max": "max", "mean": "mean", "median": "p50"}
_PERCENTILES = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p999"}
_PRINTED_PARTS = {
    "Enqueue Time": "enqueue",
    "End-to-End Host Latency": "end_to_end",
    "H2D Latency": TO_DEVICE,
    "GPU Compute Time": COMPUTE,
    "D2H Latency": TO_HOST,
}


def read_text(text: str) -> Summary:
    """Parse the output of one run. Raises ValueError if it failed, is incomplete, or contradicts itself."""
    if _FAILED.search(text):
        raise ValueError("trtexec failed (&&&& FAILED): nothing was measured")
    one_run(_THROUGHPUT.findall(text), "trtexec")
    kinds = dict(_kinds(text))
    latency = kinds.pop("Latency", None)
    if latency is None:
        raise ValueError("trtexec's output without its performance summary: cut off, or it measured nothing")
    figures: dict[str, JsonValue] = {f"{key}_ms": ms for key, ms in latency.items() if key in _PERCENTILES.values()}
    figures |= {f"{key}_ms": latency[key] for key in ("min", "max", "mean") if key in latency}
    more: dict[str, JsonValue] = {f"{key}_ms": ms for key, ms in latency.items() if f"{key}_ms" not in figures}
    for name, part in _PRINTED_PARTS.items():
        more |= {f"{part}_{key}_ms": ms for key, ms in kinds.get(name, {}).items()}
    refuse_contradictions(figures)
    queries, rate = (
        first_match(_COUNT, text, count),
        first_match(_THROUGHPUT, text, lambda rate: number(rate, MAX_PER_SECOND)),
    )
    figures |= known_figures(count=queries or None, throughput_hz=rate or None)
    running = _RUNNING.search(text)  # the command line, which trtexec prints first
    return Summary(
        figures,
        more,
        model=(running and first_match(_MODEL, running[1] or "", str)) or first_match(_MODEL_OPTION, text, str),
        version=first_match(_VERSION, text, _version),
        span_ns=first_match(_WALLTIME, text, lambda seconds: time_ns(seconds, 1000)),
        warmup=first_match(_WARMUP, text, count) or None,
    )


def _kinds(text: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each kind of time with its figures in ms, under the keys `min`, `max`, `mean`, `p50`, `p99` ..."""
    for line in _LINE.finditer(text):
        yield line[1], {_key(match[1], match[2]): time_ms(match[3]) for match in _FIGURE.finditer(line[2])}
    name, figures = "", dict[str, float]()
    for raw in text.splitlines():
        head = re.sub(_HEAD, "", raw).strip()
        if head in _OLD_HEADS:
            if name:
                yield name, figures
            name, figures = _OLD_HEADS[head], {}
        elif name and (match := _OLD_LINE.match(raw)):
            figures[_key(match[1], match[3])] = time_ms(match[2])
    if name and figures:
        yield name, figures


def _key(name: str, percent: str | None) -> str:
    if percent is None:
        return _KEYS.get(name, "percentile")
    return _PERCENTILES.get(number(percent, 100), f"p{percent}")


def _version(digits: str) -> str:
    """Return TensorRT's version from the number that trtexec prints.

    >>> _version("8401"), _version("100300")
    ('8.4.1', '10.3.0')
    """
    # NvInferVersion.h, NV_TENSORRT_VERSION: major * 1000 + minor * 100 + patch, and from 10 on major * 10000.
    major, rest = divmod(int(digits), 10_000 if len(digits) > 4 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
