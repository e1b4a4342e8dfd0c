"""Parse the exports of AIPerf: all requests (`profile_export.jsonl`) and a summary (`profile_export_aiperf.json`).

Source: ai-dynamo/aiperf, docs/reference/json-export-schema.md and src/aiperf/common/models/record_models.py (0.14). A
line of the first file is a request, whose values have their unit beside them:

    {"metadata": {"request_start_ns": 125, "benchmark_phase": "profiling", "was_cancelled": false},
     "metrics": {"time_to_first_token": {"value": 2, "unit": "ms"}, "request_latency": {"value": 10, "unit": "ms"},
     "inter_token_latency": {"value": 4, "unit": "ms"}, "output_sequence_length": {"value": 3, "unit": "tokens"}}}

In the second file, each metric has `avg` and, if it has a distribution, `p50` to `p99`, `min`, `max` and `std`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgetop.captured_text import LeftOut
from edgetop.formatting import quantity
from edgetop.imports.captured_page import Page
from edgetop.imports.measured import (
    MAX_COUNT,
    MAX_NS,
    MAX_PER_SECOND,
    Generated,
    Origin,
    Summary,
    known_figures,
    refuse_contradictions,
)
from edgetop.session.records import FINISH_REASONS, MEASURE, REQUEST, WARMUP
from edgetop.session.typed_json import JsonValue

ORIGIN = Origin("AIPerf", "server (imported from AIPerf)")
KEYS = {"metadata", "metrics"}
MOST_TOKENS = 2**24
_TO_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "sec": 1e9}
_LATENCY = {"avg": "mean_ms", "std": "stdev_ms", "min": "min_ms", "max": "max_ms", "p50": "p50_ms", "p90": "p90_ms",
            "p95": "p95_ms", "p99": "p99_ms"}  # fmt: skip
_TOTALS = {"output_token_throughput": "tokens_per_s", "total_output_tokens": "tokens_out",
           "total_input_tokens": "tokens_in"}  # fmt: skip
READ = {
    "request_latency",
    "request_count",
    "request_throughput",
    "time_to_first_token",
    "inter_token_latency",
    *_TOTALS,
}
NOTE = "a time between tokens is the mean of a request"


def is_summary(document: Mapping[str, Any]) -> bool:
    return "aiperf_version" in document or {"request_latency", "time_to_first_token"} <= document.keys()


def read_records(lines: Sequence[Any]) -> Generated:
    """Return the requests of a `profile_export.jsonl`, sorted by start.

    `lines` are the parsed JSON values of its lines.

    Requests that failed, were cancelled, or lack a latency are left out, and a note in the result counts them. Raises
    ValueError if no request remains.
    """
    rows, gaps_ns, left_out = [], [], 0
    for line in lines:
        row, gap_ns = _request(line)
        if row is None:
            left_out += 1
            continue
        rows.append(row)
        gaps_ns.append(gap_ns)
    if not rows:
        raise ValueError("AIPerf's export has no request with a latency")
    requests = np.concatenate(rows)
    order = np.argsort(requests["t_ns"], kind="stable")
    requests, gaps = requests[order], np.array(gaps_ns, np.int64)[order]
    requests["t_ns"] -= requests["t_ns"][0]
    if int((requests["t_ns"] + requests["latency_ns"]).max()) > MAX_NS:
        raise ValueError("its requests take longer than a run can")
    notes = [NOTE]
    if left_out:
        notes.append(f"left out as failed, cancelled or without a latency: {quantity(left_out, 'request')}")
    return Generated(requests, gaps, notes=tuple(notes))


def _request(line: Any) -> tuple[Any, int]:
    """Return `(request, gap_ns)`, or `(None, 0)` if the request failed, was cancelled or lacks a latency.

    `line` is the parsed JSON value of one line of the file. `request` is an array with one row. `gap_ns` is the mean
    time between the request's tokens.
    """
    metadata, metrics = (line.get(key) if isinstance(line, dict) else None for key in ("metadata", "metrics"))
    if not isinstance(metadata, dict) or not isinstance(metrics, dict):
        return None, 0
    start, latency_ns = metadata.get("request_start_ns"), _ns(metrics.get("request_latency"))
    if line.get("error") or metadata.get("was_cancelled") or not latency_ns:
        return None, 0
    if type(start) is not int or not 0 <= start < 2**62:
        return None, 0
    ttft_ns = min(latency_ns, _ns(metrics.get("time_to_first_token")))
    tokens_in = _tokens(metrics.get("input_sequence_length"))
    tokens_out = _tokens(metrics.get("output_sequence_length") or metrics.get("output_token_count"))
    gap_ns = _ns(metrics.get("inter_token_latency"))
    request = np.zeros(1, REQUEST)
    request["t_ns"], request["latency_ns"] = start, latency_ns
    request["ttft_ns"] = request["prefill_ns"] = ttft_ns
    request["decode_ns"] = latency_ns - ttft_ns if ttft_ns else 0
    request["tokens_in"], request["tokens_out"], request["position"] = tokens_in, tokens_out, tokens_in + tokens_out
    request["phase"] = WARMUP if metadata.get("benchmark_phase") == "warmup" else MEASURE
    request["finish"] = FINISH_REASONS.index("stop")
    return request, gap_ns


def _number(metric: Any, most: float) -> float:
    value = metric.get("value") if isinstance(metric, dict) else None
    return float(value) if isinstance(value, int | float) and 0 < value <= most else 0.0


def _ns(metric: Any) -> int:
    scale = _TO_NS.get(str(metric.get("unit", "ms")), 0.0) if isinstance(metric, dict) else 0.0
    return round(_number(metric, MAX_NS / scale) * scale) if scale else 0


def _tokens(metric: Any) -> int:
    return round(_number(metric, MOST_TOKENS))


def read_summary(document: Mapping[str, Any], page: Page) -> Summary:
    """Return the figures of all requests together. `document` is the parsed `profile_export_aiperf.json`.

    A note in `page` counts the metrics that are not read.

    Raises ValueError if the document has no figure, or if its figures contradict each other.
    """
    latency, count = document.get("request_latency"), _average(document.get("request_count"), MAX_COUNT)
    figures: dict[str, JsonValue] = {"count": None if count is None else round(count)}
    figures |= {key: _figure(latency, name) for name, key in _LATENCY.items()}
    figures["throughput_hz"] = _average(document.get("request_throughput"), MAX_PER_SECOND)
    found = known_figures(**figures)
    if not found:
        raise ValueError("AIPerf's export has no figure of its requests")
    refuse_contradictions(found)
    more: dict[str, JsonValue] = {}
    for metric, short in (("time_to_first_token", "ttft"), ("inter_token_latency", "itl")):
        for name, key in _LATENCY.items():
            more[f"{short}_{key}"] = _figure(document.get(metric), name)
    for metric, key in _TOTALS.items():
        more[key] = _average(document.get(metric), MAX_PER_SECOND)
    unread = [
        key for key, metric in document.items() if isinstance(metric, dict) and "unit" in metric and key not in READ
    ]
    if unread:
        page.notes.append(LeftOut(len(unread), None, "metrics", "not read", unread[0]).words)
    version = document.get("aiperf_version")
    return Summary(found, known_figures(**more), version=version[:40] if isinstance(version, str) else None)


def _figure(metric: Any, name: str) -> float | None:
    """Return one figure of a metric in ms, or None if the metric does not have the figure.

    `metric` is a JSON object such as `{"p50": 2, "unit": "ms"}`, and `name` is one of its keys, such as `p50`.
    """
    if not isinstance(metric, dict):
        return None
    ns = _ns({"value": metric.get(name), "unit": metric.get("unit", "ms")})
    return ns / 1e6 if ns else None


def _average(metric: Any, most: float) -> float | None:
    value = metric.get("avg") if isinstance(metric, dict) else None
    return float(value) if isinstance(value, int | float) and 0 < value <= most else None
