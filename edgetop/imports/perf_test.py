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
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from edgetop.imports.captured_page import Page
from edgetop.imports.latency_table import is_table
from edgetop.imports.measured import (
    MAX_NS,
    MAX_PER_SECOND,
    NUMBER,
    Origin,
    Summary,
    T,
    Times,
    count,
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

_TOTAL = re.compile(rf"^\s*Total inference time cost: ?{NUMBER} s", re.MULTILINE)  # the mean times the count

_DIGITS = 6  # significant digits with which C++ prints a number


def read_text(page: Page) -> Times | Summary:
    """Return each inference if the output lists the inferences (option -v), else a summary of all inferences.

    Raises ValueError if the output is cut off, contradicts itself, or has several runs.
    """
    means = [match[1] for match in page.found(_MEAN)]
    if not means:
        raise ValueError("onnxruntime_perf_test's output without its results: cut off, or it failed")
    one_run(means, "onnxruntime_perf_test")
    figures: dict[str, JsonValue] = {f"{each[1].lower()}_ms": time_ms(each[2], _S) for each in page.found(_LATENCY)}
    figures["mean_ms"] = time_ms(means[0])
    requests = _value(page, _COUNT, count)
    rate = _value(page, _RATE, lambda rate: number(rate, MAX_PER_SECOND))
    figures |= known_figures(count=requests, throughput_hz=rate)
    refuse_contradictions(figures)
    for _ in page.found(_TOTAL):
        pass
    summary = Summary(
        figures,
        known_figures(cpu_pct=_value(page, _CPU, number), memory_peak_mib=_value(page, _PEAK, _mib)),
        init_ns=_value(page, _INIT, partial(time_ns, scale=_S)),
        first_ns=_value(page, _FIRST, time_ns),
        span_ns=_value(page, _SPAN, partial(time_ns, scale=_S)),
    )
    each = [(match[1], match[2]) for match in page.found(_EACH)]
    return _times([int(run) - 1 for run, _ in each], [seconds for _, seconds in each], summary) if each else summary


def _value(page: Page, pattern: "re.Pattern[str]", convert: Callable[[str], T]) -> T | None:
    """Return the first group of a pattern's first match in `page`, converted by `convert`.

    None if there is no match.
    """
    match = page.first(pattern)
    return convert(match[1]) if match else None


def _mib(size: str) -> float:
    return number(size) / 2**20


def is_result(text: str) -> bool:
    """Return whether a text is a result file: its rows begin with a model's name, and no row names the columns."""
    row = _ROW.search(text)
    return row is not None and re.fullmatch(r"[-+0-9.,eE ]*", row[1]) is None and not is_table(text, has_numbers=True)


def read_result(page: Page) -> Times:
    """Return the inferences in a result file, with the model's name and the peak memory as their summary.

    Raises ValueError if a line has another form, or if inferences are missing.
    """
    rows = list(page.found(_ROW))
    for _ in page.found(_LATENCY):
        pass
    last = page.text[page.text.rfind("\n") + 1 :]
    if last.strip() and not (_ROW.match(last) or _LATENCY.match(last)):
        raise ValueError(f"cut off, or no result of onnxruntime_perf_test: it ends with {last[:40]!r}")
    beside = Summary({}, {"memory_peak_mib": _mib(rows[0][3])}, model=rows[0][1].strip() or None)
    return _times([int(row[5]) for row in rows], [row[2] for row in rows], beside)


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
