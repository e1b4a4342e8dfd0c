"""Gates of a comparison: how much worse than the baseline a figure may be (`edgetop help compare`).

A gate fails if the whole interval of the figure lies beyond the limit. With `strict`, a part of the interval is enough.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgetop.analysis.session_gates import ENERGY_UNITS, METRICS, matching
from edgetop.comparison.figures import STREAM_KEYS
from edgetop.comparison.output_agreement import NON_FINITE, PERPLEXITY
from edgetop.comparison.ratios import Comparison, Ratio, Row, Value
from edgetop.comparison.sample import of_stream
from edgetop.frozen import frozen
from edgetop.nearest import nearest_hint

_LATENCIES = ("p50", "p90", "p95", "p99", "p999", "mean")
ROWS: Mapping[str, str] = {
    **{name: f"{name}_ms" for name in _LATENCIES},
    "throughput": "throughput_hz", "energy": "gross_mj", "power": "mean_w", "rss": "rss_peak_mib", "temp": "temp_end_c",
    "misses": "miss_rate", "load": "init_ms", "first": "first_ms", "jitter": "jitter_ms",
}  # fmt: skip
_PERCENT = {"%": 1.0}
_UNITS: Mapping[str, Mapping[str, float]] = {
    **{name: {**METRICS[name].units, **_PERCENT} for name in (*_LATENCIES, "rss", "power")},
    "energy": {**ENERGY_UNITS, **_PERCENT},
    **{name: {**METRICS["p50"].units, **_PERCENT} for name in ("load", "first", "jitter")},
    "temp": METRICS["temp"].units, "misses": {"%": 0.01}, "throughput": {"/s": 1.0, "Hz": 1.0} | _PERCENT,
    **{name: {"%": 0.01} for name in ("top-1", "top-5", "same-top", "non-finite")},
    **{name: {"": 1.0} | _PERCENT for name in ("metric", "perplexity")},
}  # fmt: skip
# Rows that each stream of sessions with several models has.
OF_STREAMS = tuple(name for name in _LATENCIES if f"{name}_ms" in STREAM_KEYS)
# Figures of the stored outputs: the keys of their rows end so. Their change is in the unit of the figure.
OUTPUTS = {
    "top-1": "/top-1", "top-5": "/top-5", "same-top": "/same_top", "non-finite": f"/{NON_FINITE}",
    "perplexity": f"/{PERPLEXITY}", "metric": "",
}  # fmt: skip
# Figures of the stored outputs whose value itself may be limited. The agreement with the baseline has no change.
OF_VALUES = ("non-finite", "same-top")
_GATE = re.compile(r"\s*([a-z0-9-]+)\s*(?:\[([^\]]*)\]\s*)?([<>])\s*([+-]?\d+(?:\.\d*)?)\s*([^\s\d]*)\s*")


@frozen
class RelativeGate:
    text: str
    name: str
    is_above: bool  # whether it fails above its limit, else below
    limit: float  # limit of the change, in percent or in the unit of the row
    is_percent: bool
    stream: str = ""  # the stream that it limits; "": each
    is_change: bool = True  # whether it limits the change from the baseline, and not the value itself

    @property
    def is_of_outputs(self) -> bool:
        """Whether the gate limits a figure of the model's outputs, such as accuracy, and not a time or memory."""
        return self.name in OUTPUTS


@frozen
class RelativeResult:
    gate: RelativeGate
    session: str  # name of the group that is compared with the baseline
    value: float | None  # the change, in the unit of the gate
    ci95: tuple[float, float] | None
    ok: bool
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "expr": self.gate.text, "session": self.session, "value": self.value,
            "ci95": None if self.ci95 is None else list(self.ci95), "ok": self.ok, "reason": self.reason,
        }  # fmt: skip


def parse_relative_gate(text: str) -> RelativeGate:
    """Return the gate that a text describes, such as `p50>+3%`, `rss>+20MiB`, `throughput<-5%` or `top-1<-1%`.

    A limit without a sign is for the share itself, as in `non-finite>0%`, and only allowed for `non-finite` and
    `same-top`. Raises ValueError with a message that says how to write a gate.
    """
    match = _GATE.fullmatch(text)
    is_change = match is None or match[4][0] in "+-"
    if not match or not (is_change or match[1] in OF_VALUES):
        raise ValueError(f"{text!r} is not a gate of a comparison; write NAME>+LIMIT, as in p50>+3% or rss>+20MiB")
    name, stream, compare, limit, unit = match.groups()
    if name not in ROWS and name not in OUTPUTS:
        raise ValueError(f"{text!r}: unknown value {name} ({nearest_hint(name, (*ROWS, *OUTPUTS))})")
    if name == "same-top" and is_change:
        raise ValueError(
            f"{text!r}: it is a share of the baseline's answers; write it without a sign, as in same-top<95%"
        )
    if stream is not None and not (name in OF_STREAMS and stream.strip()):
        problem = "the brackets hold no name" if name in OF_STREAMS else f"{name} is not compared for each stream"
        raise ValueError(f"{text!r}: {problem}; write {' or '.join(OF_STREAMS)}, as in p99[detector]>+3%")
    if unit not in _UNITS[name]:
        says = f"{unit} is not a unit of {name}" if unit else f"{name} needs a unit"
        raise ValueError(f"{text!r}: {says}; use {', '.join(filter(None, _UNITS[name]))}")
    is_percent = unit == "%" and _UNITS[name]["%"] == 1.0
    return RelativeGate(
        text.strip(), name, compare == ">", float(limit) * _UNITS[name][unit], is_percent, (stream or "").strip(),
        is_change,
    )  # fmt: skip


def judge_gates(gates: Sequence[RelativeGate], comparison: Comparison, *, strict: bool) -> tuple[RelativeResult, ...]:
    return tuple(
        _judge(gate, comparison, place, strict=strict) for gate in gates for place in range(1, len(comparison.groups))
    )


def _judge(gate: RelativeGate, comparison: Comparison, place: int, *, strict: bool) -> RelativeResult:
    """Return the result of a gate for the group at index `place`, where 0 is the baseline.

    `strict` says that a part of the interval beyond the limit is enough to fail. If the gate limits several models, the
    worst result is returned.
    """
    session = comparison.names[place]
    if gate.is_of_outputs:
        found = (row for row in comparison.rows if is_of(gate.name, row.key))
        return judge_outputs(gate, session, [(row.unit, row.values[0], row.values[place]) for row in found])
    key = ROWS[gate.name]
    streams = list(dict.fromkeys(row.stream for row in comparison.rows if row.stream))
    if not (gate.stream or (streams and gate.name in OF_STREAMS)):
        return _judge_row(gate, session, _row(comparison, key, place), place, strict=strict)
    names = matching(gate.stream, streams) if gate.stream else streams
    if not names:
        known = ", ".join(streams) or "the sessions have one stream each"
        return RelativeResult(
            gate, session, None, None, ok=False,
            reason=f"{gate.text}: {session}: unknown: no stream is called that ({known})",
        )  # fmt: skip
    rows = {name: comparison.row(f"{key}{of_stream(name)}") for name in names}
    results = [_judge_row(gate, f"{session}: {name}", row, place, strict=strict) for name, row in rows.items()]
    sign = 1 if gate.is_above else -1
    worst = max(results, key=lambda one: (not one.ok, sign * (one.value or 0.0)))
    return replace(worst, session=session)


def is_of(name: str, key: str) -> bool:
    """Whether the gate called `name` limits the row `key` of a comparison, as `top-1` limits `output/scores/top-1`."""
    return key.startswith("metric/") if name == "metric" else key.startswith("output/") and key.endswith(OUTPUTS[name])


def judge_outputs(gate: RelativeGate, session: str, rows: Sequence[tuple[str, Value, Value]]) -> RelativeResult:
    """Return the result of a gate on a figure of the model's outputs, for the worst output.

    `session` is the session's name. `rows` has `(unit, value of the baseline, value of the session)` for each output.
    """
    changes = []
    for unit, before, after in rows:
        if not isinstance(after, int | float) or (gate.is_change and not isinstance(before, int | float)):
            continue
        change = float(after)
        if gate.is_change and isinstance(before, int | float):
            change -= before
            if gate.is_percent and before == 0:
                continue
            change = 100 * change / abs(before) if gate.is_percent else change
        changes.append((change, unit))
    if not changes:
        wants = {"top-1": " and --labels", "top-5": " and --labels", "metric": " and --metric"}.get(gate.name, "")
        why = f"it needs outputs that both sessions kept (--keep-outputs){wants}"
        return RelativeResult(gate, session, None, None, ok=False, reason=f"{gate.text}: {session}: unknown: {why}")
    sign = 1 if gate.is_above else -1
    value, unit = max(changes, key=lambda one: sign * one[0])
    value = round(value, 9)
    ok = sign * value <= sign * gate.limit
    plus = "+" if gate.is_change else ""
    shown = (
        f"{100 * value:{plus}.4g} {'points' if gate.is_change else '%'}" if unit == "share" else f"{value:{plus}.4g}"
    )
    shown = f"{value:{plus}.4g} %" if gate.is_percent else shown
    reason = f"{gate.text}: {session}: {shown}, on the inputs of the kept outputs"
    # The interval has no width: the figure is exact for its inputs.
    return RelativeResult(gate, session, value, (value, value), ok, reason)


def _row(comparison: Comparison, key: str, place: int) -> Row | None:
    """Return the row of the comparison that a gate limits, or None if there is none.

    This is the row of the response time, if starts were planned. `key` is the row's key, such as `p50_ms`. `place` is
    the index of the group.
    """
    paced = comparison.row(f"response_{key}")
    return paced if paced and paced.ratios[place] and paced.values[0] is not None else comparison.row(key)


def _judge_row(gate: RelativeGate, name: str, row: Row | None, place: int, *, strict: bool) -> RelativeResult:
    one = row.ratios[place] if row else None
    value, ends = _change(one, is_percent=gate.is_percent) if one else (None, None)
    if value is None:
        return RelativeResult(
            gate, name, None, None, ok=False, reason=f"{gate.text}: {name}: unknown: not measured in both"
        )
    sign = 1 if gate.is_above else -1
    is_beyond = ends is not None and min(sign * end for end in ends) > sign * gate.limit
    is_excluded = ends is not None and max(sign * end for end in ends) <= sign * gate.limit
    ok = not is_beyond and (is_excluded or not strict)
    words = "its interval is not known" if ends is None else f"95 %: {ends[0]:+.3g} to {ends[1]:+.3g}"
    unit = "%" if gate.is_percent else (row.unit if row else "")
    doubt = "" if is_beyond or is_excluded else "; cannot be excluded" if strict else "; cannot tell"
    return RelativeResult(gate, name, value, ends, ok, f"{gate.text}: {name}: {value:+.4g} {unit} ({words}){doubt}")


def _change(one: Ratio, *, is_percent: bool) -> tuple[float | None, tuple[float, float] | None]:
    if not is_percent:
        return one.difference, one.difference_ci95
    if one.value is None:
        return None, None
    ends = one.ci95 and (round(100 * (one.ci95[0] - 1), 4), round(100 * (one.ci95[1] - 1), 4))
    return round(100 * (one.value - 1), 4), ends
