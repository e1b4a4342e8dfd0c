"""Parse the output of `onnxruntime_perf_test` and the result file that it writes.

Source: onnxruntime/test/perftest/performance_runner.cc, PerformanceRunner::Run and PerformanceResult::DumpToFile.

    Session creation time cost: 0.0102016 s
    First inference time cost: 2 ms                            in whole ms
    Total inference requests: 100
    Average inference time cost: 1.85739 ms                    later `Average inference time cost total: `
    Total inference run time: 0.18581 s
    Number of inferences per second: 538.184
    Avg CPU usage: 96 %
    Peak working set size: 36696064 bytes
    P99 Latency: 0.00190312 s                                  with -s; formerly `P99 Latency is 0.0019sec` in files

The result file has a line for each inference, in the order in which they ended: the model's name, seconds, peak memory,
CPU usage, and the number of the run. With -s the percentiles follow. With -v the output too has a line for each
inference: `iteration:1,time_cost:0.0019`. Neither reports when an inference began, nor how many ran at once (-c).
"""

import re
from collections.abc import Sequence
from functools import partial

import numpy as np

from edgetop.imports.measured import (
    MAX_NS,
    MAX_PER_SECOND,
    NUMBER,
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
from edgetop.session.typed_json import JsonValue

ORIGIN = Origin("onnxruntime_perf_test", "onnxruntime (imported from onnxruntime_perf_test)")

_S = 1000.0  # a second in ms
MARK = re.compile(r"^\s*(?:Session creation time cost|Total inference requests|Total iterations): ?[0-9]", re.MULTILINE)
_MEAN = re.compile(rf"Average (?:inference )?time cost(?: total)?: ?{NUMBER} ms")
_COUNT = re.compile(r"(?:Total inference requests|Total iterations): ?([0-9]{1,10})")
_INIT = re.compile(rf"Session creation time cost: {NUMBER} s")
_FIRST = re.compile(rf"First inference time cost: {NUMBER} ms")
_SPAN = re.compile(rf"Total inference run time: {NUMBER} s")
_RATE = re.compile(rf"Number of inferences per second: {NUMBER}\s*\n")  # the line's end shows that no digit is missing
_CPU = re.compile(rf"(?:Avg|Total) CPU usage: {NUMBER} %")
_PEAK = re.compile(r"Peak working set size: ([0-9]{1,15}) bytes")
_LATENCY = re.compile(rf"^\s*(Min|Max|P50|P90|P95|P99|P999) Latency(?::| is) {NUMBER} ?s(?:ec)?\b", re.MULTILINE)
_EACH = re.compile(rf"^iteration:([0-9]{{1,10}}),time_cost:{NUMBER}\s*$", re.MULTILINE)
_ROW = re.compile(rf"^(.*),{NUMBER},([0-9]{{1,20}}),(-?[0-9]{{1,6}}),([0-9]{{1,10}})\s*$", re.MULTILINE)

_DIGITS = 6  # significant digits with which C++ prints a number


def read_text(text: str) -> Times | Summary:
    """Parse the output; return a summary or, if it was run with -v, single inferences. Raises ValueError."""
    mean = first_match(_MEAN, text, str)
    if mean is None:
        raise ValueError("onnxruntime_perf_test's output without its results: cut off, or it failed")
    one_run(_MEAN.findall(text), "onnxruntime_perf_test")
    figures: dict[str, JsonValue] = {f"{name.lower()}_ms": time_ms(s, _S) for name, s in _LATENCY.findall(text)}
    figures["mean_ms"] = time_ms(mean)
    requests, rate = (
        first_match(_COUNT, text, count),
        first_match(_RATE, text, lambda rate: number(rate, MAX_PER_SECOND)),
    )
    figures |= known_figures(count=requests, throughput_hz=rate)
    refuse_contradictions(figures)
    summary = Summary(
        figures,
        known_figures(cpu_pct=first_match(_CPU, text, number), memory_peak_mib=first_match(_PEAK, text, _mib)),
        init_ns=first_match(_INIT, text, partial(time_ns, scale=_S)),
        first_ns=first_match(_FIRST, text, time_ns),
        span_ns=first_match(_SPAN, text, partial(time_ns, scale=_S)),
    )
    each = _EACH.findall(text)
    return _times([int(run) - 1 for run, _ in each], [seconds for _, seconds in each], summary) if each else summary


def _mib(size: str) -> float:
    return number(size) / 2**20


def is_result(text: str) -> bool:
    return bool(_ROW.match(text.lstrip()))


def read_result(text: str) -> Times:
    """Parse a result file; return its inferences, with the model's name in their summary. Raises ValueError."""
    rows = _ROW.findall(text)
    others = [line for line in text.splitlines() if line.strip() and not (_ROW.match(line) or _LATENCY.match(line))]
    if others:
        raise ValueError(f"cut off, or no result of onnxruntime_perf_test: it has a line {others[0][:40]!r}")
    beside = Summary({}, {"memory_peak_mib": _mib(rows[0][2])}, model=rows[0][0].strip() or None)
    return _times([int(row[4]) for row in rows], [row[1] for row in rows], beside)


def _times(runs: Sequence[int], seconds: Sequence[str], beside: Summary) -> Times:
    if runs.count(0) > 1:
        raise ValueError(f"it holds {runs.count(0)} runs of onnxruntime_perf_test, which appends: keep one in a file")
    if list(runs) != list(range(len(runs))):
        raise ValueError("inferences are missing in it: their numbers are not 0, 1, 2 ...")
    latency_ns = np.array([time_ns(each, _S) for each in seconds], np.int64)
    if not latency_ns.all():
        raise ValueError(f"inference {int(np.flatnonzero(latency_ns == 0)[0])} took no time")
    ends_ns = np.cumsum(latency_ns)
    if ends_ns[-1] > MAX_NS:
        raise ValueError("its inferences take longer than a run can")
    step_ns = 10.0 ** (np.floor(np.log10(latency_ns.max())) + 1 - _DIGITS)
    starts_ns, end_ns, step_ns = ends_ns - latency_ns, int(ends_ns[-1]), float(max(step_ns, 1.0))
    return Times(starts_ns, latency_ns, end_ns, None, step_ns, {}, has_starts=False, summary=beside)
