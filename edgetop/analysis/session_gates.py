"""Gates: conditions on a session that set the exit code for a script (`edgetop help gates`).

A gate is judged on the report, so that a live run, its recording and a later report give the
same result. An unknown value fails its gate, with the reason: a check that could not be made
has not passed.
"""

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from edgetop.frozen import frozen
from edgetop.nearest import nearest_hint
from edgetop.session.typed_json import Document

Report = Any  # of edgetop.analysis.session_report, or its parts, each made when it is read
Number = float | None

_TIME = {"ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6, "s": 1e3}
_SHARE = {"%": 1.0}
_COUNT = {"": 1.0}
_SIZE = {"MiB": 1.0, "KiB": 2**-10, "GiB": 2.0**10, "B": 2**-20, "K": 2**-10, "M": 1.0, "G": 2.0**10}
_GROWTH = {"MiB/h": 1.0, "KiB/h": 2**-10, "GiB/h": 2.0**10}
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_GATE = re.compile(
    r"\s*([A-Za-z0-9_-]+)\s*(?:\[([^\]]*)\]\s*)?(?:(>=|<=|>|<)\s*(-?\d+(?:\.\d*)?|-?\.\d+)\s*([^\s\d]*)\s*)?"
)


@frozen
class Metric:
    """A value of the report that a gate can limit."""

    units: Mapping[str, float]  # of each unit, how many of the value's own it is; the first is the value's own
    read: Callable[[Report, str], Number]  # in its own unit, or of `share` in percent; None: not known
    absent: str  # why it may not be known, where the report does not say
    only_grows: bool = False  # a limit that was exceeded stays exceeded
    example: str = ""
    of_stream: bool = False  # each stream of a session has its own value


@frozen
class Gate:
    text: str  # as it was written
    name: str
    compare: str = ""  # "" where the name alone is the condition: `throttled`
    limit: float = 0.0  # in `unit`
    unit: str = ""
    stream: str = ""  # the stream that it limits; "": each

    @property
    def metric(self) -> Metric:
        return METRICS[self.name]

    @property
    def is_final(self) -> bool:
        """Whether a failure cannot be undone by later data."""
        return self.metric.only_grows and self.compare in ("", ">", ">=") and self.unit != "%"


@frozen
class GateResult:
    gate: Gate
    value: float | bool | None  # in the gate's own unit; None: not known
    ok: bool
    reason: str  # what it is and, where that fails, why
    fails_for_sure: bool = False  # already, and not for want of samples or of a value

    def to_json(self) -> Document:
        return {"expr": self.gate.text, "value": self.value, "ok": self.ok, "reason": self.reason}


def _figure(path: str) -> Callable[[Report, str], Number]:
    read: Callable[[Report], Number] = operator.attrgetter(path)
    return lambda report, _: read(report)


def _latency(key: str) -> Callable[[Report, str], Number]:
    """Return a reader of the latency; under a paced load, of the response time, which includes the queue."""
    return lambda report, _: getattr(report.latency.response or report.latency, key)


def _misses(report: Report, unit: str) -> Number:
    deadline = report.latency.deadline
    if deadline is None:
        return None
    return float(deadline.miss_rate * 100 if unit == "%" else deadline.misses)


def _errors(report: Report, unit: str) -> Number:
    """Return the number of errors, or their share in %; None: unknown, as in some imported results."""
    count, errors = report.latency.count, report.latency.errors
    if errors is None or unit != "%":
        return None if errors is None else float(errors)
    runs = (count or 0) + errors
    return 100 * errors / runs if runs else None


def _hottest(report: Report, _unit: str) -> Number:
    return max((zone.max for zone in report.temperature.values() if zone.max is not None), default=None)


def _drift(report: Report, _unit: str) -> Number:
    return None if report.drift_ratio is None else 100 * (report.drift_ratio - 1)


def _leak(report: Report, _unit: str) -> Number:
    """Return the growth that the verdict calls a leak; other growth, of an arena or by chance, is 0."""
    memory = report.memory
    if memory.leak is None:
        return None
    return float(memory.growth_mib_per_h or 0.0) if memory.leak else 0.0


_NOTHING_MEASURED = "nothing was measured"
METRICS: dict[str, Metric] = {
    **{
        name: Metric(_TIME, _latency(f"{name}_ms"), _NOTHING_MEASURED, name == "max", f"{name}>33ms", of_stream=True)
        for name in ("p50", "p90", "p95", "p99", "p999", "mean", "max")
    },
    "misses": Metric(_SHARE | _COUNT, _misses, "no deadline was given", True, "misses>0.1%", of_stream=True),
    "rss": Metric(_SIZE, _figure("memory.rss_peak_mib"), "the engine's memory was not read", True, "rss>512MiB"),
    "temp": Metric({"C": 1.0, "°C": 1.0}, _hottest, "no temperature was read", True, "temp>80C"),
    "power": Metric(
        {"W": 1.0, "mW": 1e-3}, _figure("power.mean_w"), "no sensor tells the board's total", False, "power>8W"
    ),
    "energy": Metric(
        {"mJ": 1.0, "J": 1e3, "uJ": 1e-3},
        _figure("energy.gross_mj"),
        "there is no figure of energy",
        False,
        "energy>25mJ",
    ),
    "throttled": Metric(
        _COUNT, _figure("throttled"), "the board has no throttle flag that edgetop reads", True, "throttled"
    ),
    "drift": Metric(
        _SHARE, _drift, "there is no steady beginning and end to compare", False, "drift>10%", of_stream=True
    ),
    "leak": Metric(_GROWTH, _leak, "growth is unknown before two minutes of measuring", False, "leak>1MiB/h"),
    "errors": Metric(_COUNT | _SHARE, _errors, _NOTHING_MEASURED, True, "errors>0", of_stream=True),
}
ALONE = ("throttled", "errors", "misses")  # names that are a condition by themselves: at least one


def parse_gate(text: str, what: str = "a gate", offered: Collection[str] = tuple(METRICS)) -> Gate:
    """Parse a gate such as `p99>33ms` or `throttled`. Raises ValueError, which says how to write it.

    `what`: the noun for the message; `offered`: the names to suggest in place of an unknown one.
    """
    match = _GATE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not {what}; write NAME>LIMIT, as in p99>33ms")
    name, stream, compare, limit, unit = match.groups()
    if name not in METRICS:
        raise ValueError(f"{text!r}: no value is called {name} ({nearest_hint(name, offered)})")
    metric = METRICS[name]
    if stream is not None and not (metric.of_stream and stream.strip()):
        single = ", ".join(known for known in offered if METRICS[known].of_stream)
        problem = "the brackets hold no name" if metric.of_stream else f"{name} is of the whole board"
        raise ValueError(f"{text!r}: {problem}; a stream is named for one of {single}, as in p99[detector]>33ms")
    stream = (stream or "").strip()
    if compare is None:
        if name not in ALONE:
            raise ValueError(f"{text!r}: give a limit, as in {metric.example}")
        return Gate(text.strip(), name, stream=stream)
    if name == "throttled":
        raise ValueError(f"{text!r}: throttled is a condition by itself; write throttled")
    if unit not in metric.units:
        known = ", ".join(known for known in metric.units if known) or "no unit"
        problem = f"{unit} is no unit of {name}" if unit else "the unit is missing"
        raise ValueError(f"{text!r}: {problem}; it is given in {known}, as in {metric.example}")
    return Gate(text.strip(), name, compare, float(limit), unit, stream)


def judge_streams(gate: Gate, streams: Mapping[str, Report]) -> GateResult:
    """Judge a gate on the streams that it limits; the result is that of the worst.

    `streams`: the report of each, by its name. With several, the reason names the stream.
    """
    found = matching(gate.stream, streams) if gate.stream else list(streams)
    if not found:
        known = ", ".join(streams)
        return GateResult(gate, None, ok=False, reason=f"{gate.text}: unknown: no stream is called that, of {known}")
    results = [(judge_gate(gate, streams[name]), name) for name in found]
    sign = -1.0 if gate.compare.startswith("<") else 1.0
    worst, name = max(results, key=lambda one: (one[0].fails_for_sure, not one[0].ok, sign * float(one[0].value or 0)))
    text, _, rest = worst.reason.partition(f"{gate.text}: ")
    return replace(worst, reason=f"{gate.text}: {name}: {rest}") if len(streams) > 1 and not text else worst


def matching(wanted: str, names: Collection[str]) -> list[str]:
    """Return the names that a user can mean: the very name, else that of a file without its suffix, else a part of it.

    >>> matching("det", ["det.onnx", "det_large.onnx", "rec.onnx"]), matching("LARGE", ["det.onnx", "det_large.onnx"])
    (['det.onnx'], ['det_large.onnx'])
    """
    kinds: tuple[Callable[[str], bool], ...] = (
        lambda name: name == wanted,
        lambda name: PurePath(name).name == wanted or PurePath(name).stem == wanted,
        lambda name: wanted.casefold() in name.casefold(),
    )
    return next((found for is_meant in kinds if (found := [name for name in names if is_meant(name)])), [])


def judge_gate(gate: Gate, report: Report) -> GateResult:
    read = gate.metric.read(report, gate.unit)
    if read is None:
        why = (report.energy.reason if gate.name == "energy" else None) or gate.metric.absent
        return GateResult(gate, None, ok=False, reason=f"{gate.text}: unknown: {why}")
    if not gate.compare:
        what = "it was" if gate.name == "throttled" else _plain(read)
        return GateResult(
            gate, read >= 1 if gate.name == "throttled" else read, ok=read < 1,
            reason=f"{gate.text}: {what if read else 'not at all'}", fails_for_sure=read >= 1,
        )  # fmt: skip
    scale = 1.0 if gate.unit in ("%", "") else gate.metric.units[gate.unit]
    value = round(read / scale, 6)
    exceeded = _OPERATORS[gate.compare](value, gate.limit)
    is_settled = _is_settled(gate, report)
    unit = f" {gate.unit}" if gate.unit else ""
    few = "" if is_settled else f", of {report.latency.count} inferences: not settled"
    what = "response time " if gate.metric.units is _TIME and report.latency.response is not None else ""
    reason = f"{gate.text}: {what}{_plain(value)}{unit}{few}"
    return GateResult(gate, value, ok=not exceeded, reason=reason, fails_for_sure=exceeded and is_settled)


def _plain(value: float) -> str:
    """Format with four digits, or with all digits before the point.

    >>> _plain(40.3312), _plain(24431.07), _plain(0.000125)
    ('40.33', '24431', '0.000125')
    """
    return f"{value:.4g}" if abs(value) < 9_999.5 else f"{value:.0f}"


def _is_settled(gate: Gate, report: Report) -> bool:
    """Whether there are enough inferences for the value. A mean and a share need as many as p99."""
    if gate.is_final or not (gate.metric.units is _TIME or gate.unit == "%"):
        return True
    settled = report.latency.settled or {}
    return bool(settled.get(gate.name, settled.get("p99", False)))
