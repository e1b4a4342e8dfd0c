"""The files of `edgetop ops`: the operators as CSV, and one inference as a trace for Chrome or Perfetto."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from edgetop.cli.operator_document import operator_fields
from edgetop.cli.operator_profile import OperatorProfile
from edgetop.recording.export.output import NamedOutput
from edgetop.recording.packing import encodable


def write_csv(found: OperatorProfile, output: NamedOutput) -> None:
    """A line an operator, in run order, with a head; what is not known is empty. UTF-8, RFC 4180."""
    text = io.StringIO()
    writer = csv.writer(text)
    rows = [operator_fields(row) for row in found.rows]
    writer.writerow(rows[0])
    writer.writerows(map(_cell, row.values()) for row in rows)
    with output.stream(is_text=True) as file:
        file.write(encodable(text.getvalue()).encode())


def _cell(value: Any) -> Any:
    """An interval is its two ends."""
    return " ".join(map(str, value)) if isinstance(value, list) else value


def write_trace(found: OperatorProfile, output: NamedOutput) -> None:
    """Trace Event Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU"""
    content = {"traceEvents": list(_events(found)), "displayTimeUnit": "ns"}
    with output.stream(is_text=True) as file:
        file.write(json.dumps(content, indent=1).encode())


_PLACE = {"pid": 1, "tid": 1}


def _events(found: OperatorProfile) -> Iterator[dict[str, Any]]:
    """Operators of one real inference, one behind the other: when each began is not told by every runtime."""
    burst = found.first_burst
    known = {(row.view.name, row.view.op_type, row.view.provider): operator_fields(row) for row in found.rows}
    engine = f"{found.loaded.runtime} {found.loaded.version}"
    yield {"ph": "M", "name": "process_name", **_PLACE, "args": {"name": engine}}
    yield {"ph": "M", "name": "thread_name", **_PLACE, "args": {"name": "one inference, instrumented"}}
    spans = burst.first_run or tuple((i, o.total_ns // o.calls) for i, o in enumerate(burst.operators))
    whole_ns = max(burst.run_ns[0], sum(ns for _, ns in spans))
    yield {"ph": "X", "name": "inference", "cat": "inference", "ts": 0, "dur": whole_ns / 1e3, **_PLACE, "args": {}}
    begin_ns = 0
    for place, ns in spans:
        operator = burst.operators[place]
        fields = known.get((operator.name, operator.op_type, operator.provider), {})
        told = {key: fields[key] for key in _TOLD if fields.get(key) is not None}
        yield {
            "ph": "X",
            "name": operator.name,
            "cat": operator.op_type,
            "ts": begin_ns / 1e3,
            "dur": ns / 1e3,
            **_PLACE,
            "args": told,
        }
        begin_ns += ns


_TOLD = (
    "op_type",
    "provider",
    "origin",
    "mean_us",
    "share",
    "settled",
    "flops",
    "bytes",
    "gflop_per_s",
    "gb_per_s",
    "bound",
)
