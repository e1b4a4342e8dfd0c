"""Gates: conditions on a session that set the exit code for a script (`edgetop help gates`).

A gate is judged on the report, so that a live run, its recording and a later report give the same result. A gate fails
if its value is unknown, because what could not be checked has not passed. `edgetop.wording.gate_words` makes the
sentence about a result.
"""

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from edgetop.analysis.miss_risk import MissRisk
from edgetop.analysis.provider_shares import FallbackReason, fallback_share
from edgetop.analysis.refused_rule import Flaw, RefusedRuleError
from edgetop.frozen import frozen

if TYPE_CHECKING:  # A command line with a gate loads this module.
    from edgetop.analysis.energy import EnergyUnknown
    from edgetop.analysis.faults import Fault
    from edgetop.analysis.input_shapes import InputSizes

# A `Report` of `edgetop.analysis.session_report`, or an object whose attributes are made when they are read.
Report = Any
Number = float | None

_TIME = {"ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6, "s": 1e3}
_SHARE = {"%": 1.0}
_COUNT = {"": 1.0}
_SIZE = {"MiB": 1.0, "KiB": 2**-10, "GiB": 2.0**10, "B": 2**-20, "K": 2**-10, "M": 1.0, "G": 2.0**10}
_GROWTH = {"MiB/h": 1.0, "KiB/h": 2**-10, "GiB/h": 2.0**10}
_RATE = {"tok/s": 1.0}
ENERGY_UNITS = {"mJ": 1.0, "J": 1e3, "uJ": 1e-3}
_PER_TOKEN = {"J/token": 1e3, "mJ/token": 1.0}
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_GATE = re.compile(
    r"\s*([A-Za-z0-9_.-]+)\s*(?:\[([^\]]*)\]\s*)?"
    r"(?:(>=|<=|>|<)\s*((?:-?\d+(?:\.\d*)?|-?\.\d+)(?:[eE][+-]?\d{1,2})?)\s*([^\s\d]*)\s*)?"
)


@frozen
class Metric:
    """A value of the report that a gate can limit, such as the p99 latency."""

    units: Mapping[str, float]  # Size of each unit, in the first one, which is the value's own.
    # Reads the value from a report; the second argument is the unit of the gate. The value is in its own unit, or in
    # percent if the gate's unit is %. None if unknown.
    read: Callable[[Report, str], Number]
    only_grows: bool = False  # Whether a limit that was exceeded stays exceeded.
    example: str = ""
    is_per_stream: bool = False  # Whether each stream of a session has its own value.
    is_latency: bool = False  # Whether it is a time of inferences or tokens, which needs enough of them to be settled.


@frozen
class Gate:
    text: str  # As the user wrote it.
    name: str
    compare: str = ""  # "" if the name alone is the condition: `throttled`.
    limit: float = 0.0  # In `unit`.
    unit: str = ""
    stream: str = ""  # Name of the stream that it limits; "" if it limits every stream.

    @property
    def metric(self) -> Metric:
        return METRICS[self.name]

    @property
    def is_final(self) -> bool:
        """Whether a gate that has failed stays failed, whatever data comes later."""
        return self.metric.only_grows and self.compare in ("", ">", ">=") and self.unit != "%"


@frozen
class NoSuchStream:
    """The reason for a failed gate: the gate names a stream that the session does not have."""

    names: tuple[str, ...]  # The streams of the session.


@frozen
class GateResult:
    gate: Gate
    value: float | bool | None  # In the gate's own unit; None if unknown.
    ok: bool
    fails_for_sure: bool = False  # Whether the value is known, comes from enough samples, and exceeds the limit.
    # Why the value is unknown. None if it is known, or if the session has no data of this kind.
    unknown: "NoSuchStream | EnergyUnknown | MissRisk | InputSizes | Fault | None" = None
    stream: str = ""  # The stream with this value, in a session with several.
    is_response: bool = False  # Whether the value is a response time, which includes the time in the queue.
    is_settled: bool = True  # Whether there are enough inferences for the value.
    count: int | None = None  # Number of inferences, if they are too few.
    reasons: tuple[FallbackReason, ...] = ()  # Of a failed gate on the fallback: the runtime's reasons.


def _figure(path: str) -> Callable[[Report, str], Number]:
    """Return a function of a report and a unit that returns one figure of the report, whatever the unit is.

    `path`: the figure, such as "memory.rss_peak_mib".
    """
    read: Callable[[Report], Number] = operator.attrgetter(path)
    return lambda report, _: read(report)


def _latency(key: str) -> Callable[[Report, str], Number]:
    """Return a function that reads one latency figure of a report. `key`: the figure, such as "p99_ms".

    If the load sets start times, the function reads the response time, which includes the time in the queue.
    """
    return lambda report, _: getattr(report.latency.response or report.latency, key)


def _tokens(kind: str, key: str) -> Callable[[Report, str], Number]:
    """Return a function that reads a time of a language model's tokens from a report.

    `kind`: "ttft" (time to the first token) or "itl" (time between tokens). `key`: the figure, such as "p99_ms".
    """
    return lambda report, _: getattr(getattr(report.generation, kind, None), key, None)


def _token_rate(key: str) -> Callable[[Report, str], Number]:
    return lambda report, _: getattr(report.generation, key, None)


def _energy(report: Report, unit: str) -> Number:
    """Return the energy of one inference in mJ, or None if it is unknown.

    If `unit` is "J/token" or "mJ/token", return the energy of one token in mJ instead.
    """
    if unit not in _PER_TOKEN:
        energy: Number = report.energy.gross_mj
        return energy
    joules = getattr(report.generation, "j_per_token", None)
    return None if joules is None else joules * 1e3


def _misses(report: Report, unit: str) -> Number:
    """Return the number of missed deadlines, or their share in percent if `unit` is "%". None without a deadline."""
    deadline = report.latency.deadline
    if deadline is None:
        return None
    return float(deadline.miss_rate * 100 if unit == "%" else deadline.misses)


def _miss_risk(report: Report, unit: str) -> Number:
    """Return the probability that an inference misses its deadline, 0 to 1, or in percent if `unit` is "%".

    The result is None if the probability is unknown.
    """
    risk = _risk_of(report)
    if risk is None or risk.per_inference is None:
        return None
    return float(risk.per_inference * (100 if unit == "%" else 1))


def _risk_of(report: Report) -> MissRisk | None:
    deadline = report.latency.deadline
    return deadline.risk if deadline else None


def _errors(report: Report, unit: str) -> Number:
    """Return the number of failed inferences, or their share in percent if `unit` is "%".

    The result is None if it is unknown, as in some imported results.
    """
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
    """Return the growth of memory in MiB/h if it is a leak, 0 if it is no leak, and None if this is unknown."""
    memory = report.memory
    if memory.leak is None:
        return None
    return float(memory.growth_mib_per_h or 0.0) if memory.leak else 0.0


def _fallback(report: Report, _unit: str) -> Number:
    """Return the share of the operators' time, in percent, that was spent elsewhere than requested.

    The result is None if it is unknown.
    """
    share = fallback_share(report.providers)
    return None if share is None else round(100 * share, 6)


def _non_finite(report: Report, unit: str) -> Number:
    """Return how many numbers in the stored outputs are NaN or infinite, or their share in percent if `unit` is "%".

    The result is None if no outputs were stored.
    """
    outputs = report.outputs
    if outputs is None:
        return None
    return float(outputs.non_finite_share * 100 if unit == "%" else outputs.non_finite)


METRICS: dict[str, Metric] = {
    **{
        name: Metric(_TIME, _latency(f"{name}_ms"), name == "max", f"{name}>33ms", is_per_stream=True, is_latency=True)
        for name in ("p50", "p90", "p95", "p99", "p999", "mean", "max")
    },
    "jitter": Metric(_TIME, _latency("jitter_ms"), False, "jitter>1ms", is_per_stream=True, is_latency=True),
    "misses": Metric(_SHARE | _COUNT, _misses, True, "misses>0.1%", is_per_stream=True),
    "miss-risk": Metric(_COUNT | _SHARE, _miss_risk, False, "miss-risk>1e-5", is_per_stream=True),
    "rss": Metric(_SIZE, _figure("memory.rss_peak_mib"), True, "rss>512MiB"),
    "temp": Metric({"C": 1.0, "°C": 1.0}, _hottest, True, "temp>80C"),
    "power": Metric({"W": 1.0, "mW": 1e-3}, _figure("power.mean_w"), False, "power>8W"),
    "energy": Metric(ENERGY_UNITS | _PER_TOKEN, _energy, False, "energy>25mJ"),
    "throttled": Metric(_COUNT, _figure("throttled"), True, "throttled"),
    "drift": Metric(_SHARE, _drift, False, "drift>10%", is_per_stream=True),
    "leak": Metric(_GROWTH, _leak, False, "leak>1MiB/h"),
    **{
        f"{kind}.{key}": Metric(_TIME, _tokens(kind, f"{key}_ms"), key == "max", f"{kind}.p99>{limit}", is_latency=True)
        for kind, limit in (("ttft", "800ms"), ("itl", "80ms"))
        for key in ("p50", "p90", "p99", "mean", "max")
    },
    "decode": Metric(_RATE, _token_rate("decode_tok_s"), False, "decode<12tok/s"),
    "prefill": Metric(_RATE, _token_rate("prefill_tok_s"), False, "prefill<100tok/s"),
    "fallback": Metric(_SHARE, _fallback, False, "fallback>0%"),
    "errors": Metric(_COUNT | _SHARE, _errors, True, "errors>0", is_per_stream=True),
    "non-finite": Metric(_SHARE | _COUNT, _non_finite, False, "non-finite>0%"),
}
TOKEN_METRICS = tuple(name for name in METRICS if "." in name or name in ("decode", "prefill"))
ALONE = ("throttled", "errors", "misses", "non-finite")  # Names that are a condition by themselves: at least one.


def parse_gate(text: str, offered: Collection[str] = tuple(METRICS)) -> Gate:
    """Return the gate that a text such as `p99>33ms` or `throttled` describes.

    `offered`: names to suggest to the user if the name in the text is unknown. Raises RefusedRuleError if the text is
    no gate.
    """
    match = _GATE.fullmatch(text)
    if not match:
        raise RefusedRuleError(text, Flaw.NO_RULE)
    name, stream, compare, limit, unit = match.groups()
    if name not in METRICS:
        raise RefusedRuleError(text, Flaw.UNKNOWN_NAME, name, offered=offered)
    metric = METRICS[name]
    if stream is not None and not (metric.is_per_stream and stream.strip()):
        flaw = Flaw.EMPTY_STREAM if metric.is_per_stream else Flaw.NOT_PER_STREAM
        raise RefusedRuleError(text, flaw, name, offered=[one for one in offered if METRICS[one].is_per_stream])
    stream = (stream or "").strip()
    if compare is None:
        if name not in ALONE:
            raise RefusedRuleError(text, Flaw.NO_LIMIT, name)
        return Gate(text.strip(), name, stream=stream)
    if name == "throttled":
        raise RefusedRuleError(text, Flaw.NEEDS_NO_LIMIT, name)
    if unit not in metric.units:
        raise RefusedRuleError(text, Flaw.WRONG_UNIT if unit else Flaw.NO_UNIT, name, unit)
    return Gate(text.strip(), name, compare, float(limit), unit, stream)


def judge_streams(gate: Gate, streams: Mapping[str, Report]) -> GateResult:
    """Return the result of a gate on a session's streams, judged by the stream with the worst value.

    `streams`: the report of each stream, by the stream's name. If there are several streams, the result contains the
    name of the stream with the worst value.
    """
    found = matching(gate.stream, streams) if gate.stream else list(streams)
    if not found:
        return GateResult(gate, None, ok=False, unknown=NoSuchStream(tuple(streams)))
    results = [replace(judge_gate(gate, streams[name]), stream=name if len(streams) > 1 else "") for name in found]
    sign = -1.0 if gate.compare.startswith("<") else 1.0
    return max(results, key=lambda one: (one.fails_for_sure, not one.ok, sign * float(one.value or 0)))


def matching(wanted: str, names: Collection[str]) -> list[str]:
    """Return the names that a user may mean by `wanted`.

    The result has the names equal to `wanted`. If there are none, it has the names that equal `wanted` without their
    folders, or without folders and suffix. If there are none either, it has all names that contain `wanted`, in upper
    or lower case.

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
        return GateResult(gate, None, ok=False, unknown=_why_unknown(gate, report))
    if not gate.compare:
        value = read >= 1 if gate.name == "throttled" else read
        return GateResult(gate, value, ok=read < 1, fails_for_sure=read >= 1)
    scale = 1.0 if gate.unit in ("%", "") else gate.metric.units[gate.unit]
    value = round(read / scale, 6) if gate.name != "miss-risk" else float(f"{read / scale:.6g}")
    exceeded = _OPERATORS[gate.compare](value, gate.limit)
    is_settled = _is_settled(gate, report)
    return GateResult(
        gate, value, ok=not exceeded, fails_for_sure=exceeded and is_settled,
        is_response=gate.metric.is_latency and "." not in gate.name and report.latency.response is not None,
        is_settled=is_settled, count=None if is_settled else _count(gate, report),
        reasons=_fallback_reasons(report) if exceeded and gate.name == "fallback" else (),
    )  # fmt: skip


def _fallback_reasons(report: Report) -> tuple[FallbackReason, ...]:
    return tuple(reason for one in report.providers or () for reason in one.reasons or ())


def _why_unknown(gate: Gate, report: Report) -> "EnergyUnknown | MissRisk | InputSizes | None":
    if gate.name == "miss-risk":
        return _risk_of(report)
    if gate.name == "drift":
        sizes: InputSizes | None = report.input_sizes
        return sizes if sizes and sizes.differ else None
    reason: EnergyUnknown | None = report.energy.reason if gate.name == "energy" else None
    return reason


def _count(gate: Gate, report: Report) -> int | None:
    """Return the number of inferences or tokens from which the gate's value is computed, or None if unknown."""
    of = getattr(report.generation, gate.name.partition(".")[0], None) if "." in gate.name else report.latency
    count: int | None = getattr(of, "count", None)
    return count


def _is_settled(gate: Gate, report: Report) -> bool:
    """Whether there are enough inferences to trust the gate's value. A mean or a share needs the number of a p99.

    The result is True for values that do not depend on this number, such as memory, and for a gate that has failed for
    good.
    """
    if (
        gate.is_final
        or gate.name in ("miss-risk", "non-finite", "fallback")
        or not (gate.metric.is_latency or gate.unit == "%")
    ):
        return True
    if "." in gate.name:  # of tokens
        return bool(getattr(getattr(report.generation, gate.name.partition(".")[0], None), "settled", False))
    settled = report.latency.settled or {}
    return bool(settled.get(gate.name, settled.get("p99", False)))
