"""What `trtexec` prints: the figures of its performance summary, and of no single inference.

Source: TensorRT's samples/common/sampleReporting.cpp, printProlog and printEpilog, 7.0 to 11.0. Each line has
`[11/12/2024-10:00:00] [I] ` before it. From 8.0 on a line of each kind:

    Throughput: 24.4584 qps
    Latency: min = 39.4 ms, max = 48.8 ms, mean = 42.6 ms, median = 42.4 ms, percentile(90%) = 45.2 ms, ...
    Total Host Walltime: 3.10731 s

and before that `Host Latency`, then a line for each figure: `min: 4.34 ms (end to end 4.35 ms)`, `percentile: 5.46 ms
at 99% (end to end ...)`, `throughput: 0 qps`, `walltime: 3.0 s`. There a model with an explicit batch counts as 0.
"""

import re
from collections.abc import Iterator

from edgetop.imports.measured import COMPUTE, TO_DEVICE, TO_HOST, Summary
from edgetop.imports.text import MAX_PER_SECOND, NUMBER, count, found, number, one_run, possible, time_ms, time_ns
from edgetop.session.events import JsonValue

_HEAD = r"^(?:\[[^\]\n]{1,40}\] )?(?:\[[IVWE]\] )?"
_MARK = re.compile(rf"&&&& \w+ TensorRT\.trtexec|{_HEAD}(?:=== Performance summary ===|Host Latency)\s*$", re.MULTILINE)
_FAILED = re.compile(r"&&&& FAILED TensorRT\.trtexec")
_RUNNING = re.compile(r"&&&& RUNNING TensorRT\.trtexec(?: \[TensorRT v([0-9]{4,6})\])?(?: # (.*))?")
_PASSED_VERSION = re.compile(r"\[TensorRT v([0-9]{4,6})\]")
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
_PARTS = {
    "Enqueue Time": "enqueue",
    "End-to-End Host Latency": "end_to_end",
    "H2D Latency": TO_DEVICE,
    "GPU Compute Time": COMPUTE,
    "D2H Latency": TO_HOST,
}


def is_text(text: str) -> bool:
    return bool(_MARK.search(text))


def read_text(text: str) -> Summary:
    """Raises ValueError."""
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
    for name, part in _PARTS.items():
        more |= {f"{part}_{key}_ms": ms for key, ms in kinds.get(name, {}).items()}
    possible(figures)
    if queries := count(found(_COUNT, text) or "0"):
        figures["count"] = queries
    if per_second := number(found(_THROUGHPUT, text) or "0", MAX_PER_SECOND):
        figures["throughput_hz"] = per_second
    walltime = found(_WALLTIME, text)
    return Summary(
        figures,
        more,
        model=_model(text),
        version=_version(text),
        span_ns=None if walltime is None else time_ns(walltime, 1000),
        warmup=count(found(_WARMUP, text) or "0") or None,
    )


def _kinds(text: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Each kind of time with its figures in ms, by `min`, `max`, `mean`, `p50`, `p99` ..."""
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


def _model(text: str) -> str | None:
    """Of the command line, which it prints first, or of the options as it took them."""
    running = _RUNNING.search(text)
    named = found(_MODEL, running[2]) if running and running[2] else None
    return named or found(_MODEL_OPTION, text)


def _version(text: str) -> str | None:
    """
    >>> _version("&&&& RUNNING TensorRT.trtexec [TensorRT v8401] # trtexec"), _version("[TensorRT v100300]")
    ('8.4.1', '10.3.0')
    """
    digits = found(_PASSED_VERSION, text)
    if digits is None:
        return None
    # NvInferVersion.h, NV_TENSORRT_VERSION: major * 1000 + minor * 100 + patch, and from 10 on major * 10000.
    major, rest = divmod(int(digits), 10_000 if len(digits) > 4 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
