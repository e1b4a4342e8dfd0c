"""Parse the output of TFLite's and LiteRT's `benchmark_model` and of `litert-benchmark`, a summary of all inferences.

Source: tensorflow/lite/tools/benchmark/benchmark_model.cc, OnBenchmarkEnd, and tsl/util/stats_calculator.h,
Stat::OutputToStream. Each line begins with `INFO: ` on Linux.

    INFO: Graph: [mobilenet.tflite]
    INFO: count=9 first=87112 curr=51629 min=51629 max=87112 avg=58147.4 std=11478 p5=51629 median=51962 p95=87112
    INFO: count=1000 first=52162 curr=49785 min=49088 max=686105 avg=63743.2 std=60716 p5=49620 median=51891 p95=68628
    INFO: Inference timings in us: Init: 119515, First inference: 87112, Warmup (avg): 58147.4, Inference (avg): 63743.2

The first line with `count` is about the warm-up, the second about the measured inferences, and further ones about
profiles of operators. If all inferences took the same time, the line is `count=5 curr=51629 (all same)`. Older versions
end with `Average inference timings in us: Warmup: 83235, Init: 38467, Inference: 79760.9`. Times are in microseconds.

LiteRT's tools print a list instead (google-ai-edge/LiteRT, litert/tools/benchmark_litert_model.h, and
benchmark_litert_model.py in the package ai-edge-litert). Its times are in ms with two decimals, also where no unit
stands. `litert-benchmark --result_json` writes the same figures under `latency`.

    ========== BENCHMARK RESULTS ==========
    INFO: [./litert/tools/benchmark_litert_model.h:88] Inference (avg):      0.46 ms (2112 runs)
    INFO: [./litert/tools/benchmark_litert_model.h:96] Inference (std):      0.01

Guides show one figure in each line, such as `Inference (avg): 12.34 ms`. Figures below a line `Inference timings in
us:` have no unit, such as `Warmup (avg): 12890`. If that line is missing and no figure has a unit, microseconds are
assumed, and a note says so. `operator_table` reads the tables of operators.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgetop import formatting
from edgetop.imports.captured_page import Page
from edgetop.imports.measured import (
    MAX_MS,
    NUMBER,
    Found,
    Origin,
    Summary,
    count,
    known_figures,
    number,
    one_run,
    refuse_contradictions,
    time_ms,
    time_ns,
)
from edgetop.imports.operator_table import read_tables
from edgetop.session.typed_json import JsonValue

_WAY = "operators as benchmark_model --enable_op_profiling has them"
ORIGIN = Origin("benchmark_model", "tflite (imported from benchmark_model)", way=_WAY)

_US = 1e-3  # a microsecond in ms
_LAST = re.compile(
    rf"Inference timings in us: Init: {NUMBER}, First inference: {NUMBER}, "
    rf"Warmup \(avg\): {NUMBER}, Inference \(avg\): {NUMBER}"
)
_OLD_LAST = re.compile(
    rf"Average inference timings in us: Warmup: {NUMBER}, Init: {NUMBER}, (?:Inference|no stats): {NUMBER}"
)
_BLOCK = re.compile(r"=+ *\n? *BENCHMARK RESULTS\b")
MARK = re.compile(
    r"(?:Inference|Average inference) timings in us:|Running benchmark for at least [0-9]|BENCHMARK RESULTS"
    r"|^.{0,120}?\bInference \(avg\): +[0-9]",
    re.MULTILINE,
)
_STATS = re.compile(
    r"^(?!.*(?:Timings \(microseconds\)|Memory \(bytes\))).*?"
    r"\bcount=([0-9]{1,10}) ((?:first|curr|min|max|avg)=.*)$",
    re.MULTILINE,
)
_FIGURE = re.compile(rf"\b(first|curr|min|max|avg|std|p5|median|p95)={NUMBER}")
_GRAPH = re.compile(r"Graph: \[([^\]\n]{1,4000})\]|benchmark_litert_model: Model: +(\S.{0,4000})$", re.MULTILINE)
_DELEGATE = re.compile(r"node\(s\) with delegate \((\w{1,60})\) node")
_MEMORY = re.compile(rf"Memory footprint delta from the start of the tool \(MB\): init={NUMBER} overall={NUMBER}")
_PEAK = re.compile(
    rf"(?:Overall peak memory footprint \(MB\) via periodic monitoring:|Peak memory:) +{NUMBER}(?: MB)?$", re.MULTILINE
)
_FOOTPRINT = re.compile(rf"\b(Init|Overall) footprint: +{NUMBER} MB$", re.MULTILINE)
_THROUGHPUT = re.compile(rf"\bThroughput: +{NUMBER} MB/s$", re.MULTILINE)
_ACCELERATORS = re.compile(r"\bAccelerators: +([A-Z][A-Z |]{1,40})$", re.MULTILINE)
_FULLY = re.compile(r"\bFully accelerated: +(True|False)$", re.MULTILINE)

# One figure in a line, whole if the line ends. The names are those of the tools and of guides.
_NAMES = {
    "Model initialization": "init", "Init": "init", "First inference": "first", "Warmup (first)": "first",
    "Warmup (avg)": "warmup", "Inference (avg)": "mean", "Inference (min)": "min", "Inference (max)": "max",
    "Inference (median)": "p50", "Inference (std)": "stdev", "Inference (std dev)": "stdev", "Inference (p5)": "p5",
    "Inference (p90)": "p90", "Inference (p95)": "p95", "Inference (p99)": "p99",
}  # fmt: skip
_IN_A_LINE = re.compile(
    rf"(?:^|[ \t\]])({'|'.join(map(re.escape, _NAMES))}): +{NUMBER}(?: (ms|us|s))?"
    r"(?: \(([0-9]{1,10}) runs\))?,?[ \t]*(?=\n)",
    re.MULTILINE,
)
_END = re.compile(r"^.*timings in us: .*(?:\n|$)", re.MULTILINE)
_IN_US = re.compile(r"timings in us:[ \t]*$", re.MULTILINE)
_SCALES = {"ms": 1.0, "us": _US, "s": 1000.0}

_KEYS = {"min": "min_ms", "max": "max_ms", "avg": "mean_ms", "std": "stdev_ms", "median": "p50_ms", "p95": "p95_ms"}
_PROVIDERS = {"TfLiteXNNPackDelegate": "XNNPACK", "TfLiteGpuDelegate": "GPU", "TfLiteGpuDelegateV2": "GPU"}

STEP_MS = 0.01  # of figures that LiteRT's tools print
COARSE = 0.01  # such a step is said from this part of the mean on
_UNKNOWN_FORM = (
    "benchmark_model's output without its inference timings in a known form: cut off, it failed, or another version"
)


def read_text(page: Page) -> tuple[Found, ...]:
    """Return a tuple of the run's summary and, if the output has a table of operators, their times.

    `page` holds the printed output of one run. Raises ValueError if the output contradicts itself, is cut off, or has
    several runs.
    """
    _one_run(page)
    layers = read_tables(page)
    if last := page.first(_LAST):
        init_us, first_us, warmup_us, mean_us = last.groups()
    elif last := page.first(_OLD_LAST):
        (warmup_us, init_us, mean_us), first_us = last.groups(), None
    else:
        return (_of_lines(page), *layers)
    stats = [(match[1], match[2]) for match in page.found(_STATS)]
    mean_ms = time_ms(mean_us, _US)
    figures, more, warmups = _figures(stats, mean_ms, lambda avg: avg == number(mean_us))
    if "count" not in figures and "\n" not in page.text[last.end() :]:  # the mean may have lost digits
        raise ValueError("benchmark_model's output is cut off in its last figure")
    refuse_contradictions(figures)
    summary = Summary(
        figures,
        more | _memory(page),
        model=_model(page),
        providers=_providers(page),
        init_ns=time_ns(init_us, _US),
        first_ns=None if first_us is None else time_ns(first_us, _US),
        warmup=warmups or None,
        warmup_ns=round(warmups * time_ms(warmup_us, _US) * 1e6) if warmups else None,
    )
    return (summary, *layers)


def _one_run(page: Page) -> None:
    """Raise ValueError if the output has the results of several runs.

    A result line that is printed twice in direct succession counts once.
    """
    ends: list[str] = []
    last_end = -1
    for match in _END.finditer(page.text):
        if match.start() != last_end or match[0] != ends[-1]:
            ends.append(match[0])
        last_end = match.end()
    one_run(ends, "benchmark_model")
    one_run([match[0] for match in page.found(_BLOCK)], "benchmark_model")


def _model(page: Page) -> str | None:
    match = page.first(_GRAPH)
    return match and (match[1] or match[2])


def _providers(page: Page) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_PROVIDERS.get(match[1], match[1]) for match in page.found(_DELEGATE)))


def _memory(page: Page) -> dict[str, JsonValue]:
    more: dict[str, JsonValue] = {}
    if delta := page.first(_MEMORY):
        more |= {"memory_delta_init_mib": number(delta[1]), "memory_delta_overall_mib": number(delta[2])}
    more |= {f"memory_{match[1].lower()}_mib": number(match[2]) for match in page.found(_FOOTPRINT)}
    peak, rate = page.first(_PEAK), page.first(_THROUGHPUT)
    return more | known_figures(
        memory_peak_mib=peak and number(peak[1]), throughput_mb_per_s=(rate and number(rate[1])) or None
    )


def _of_lines(page: Page) -> Summary:
    """Return the summary of output that has one figure per line, such as `Inference (avg): 12.34 ms`.

    Raises ValueError if the mean is missing, or if two lines contradict each other.
    """
    told, runs = dict[str, float](), dict[str, int]()
    is_exact = dict[str, bool]()  # whether a figure was in microseconds
    in_us, lines = page.first(_IN_US), list(page.found(_IN_A_LINE))
    is_bare = not in_us and not _BLOCK.search(page.text) and not any(match[3] for match in lines)
    if is_bare and lines:
        page.notes.append("its times have no unit: they are taken for microseconds, as benchmark_model prints them")
    for match in lines:
        name = _NAMES[match[1]]
        unit = match[3] or ("us" if is_bare or (in_us and match.start() > in_us.start()) else "ms")
        value = time_ms(match[2], _SCALES[unit])
        if name in told and abs(told[name] - value) > STEP_MS + told[name] * COARSE:
            raise ValueError(f"it cannot be that {match[1]} is {told[name]:g} ms and {value:g} ms")
        if name not in told or not is_exact[name]:
            told[name], is_exact[name] = value, unit == "us"
        if match[4]:
            runs[name] = count(match[4])
    if "mean" not in told:
        raise ValueError(_UNKNOWN_FORM)
    accelerators, fully = page.first(_ACCELERATORS), page.first(_FULLY)
    more: dict[str, JsonValue] = known_figures(
        accelerators=accelerators and accelerators[1], fully_accelerated=fully and fully[1] == "True"
    )
    stats = [(match[1], match[2]) for match in page.found(_STATS)]
    rounded, warmups = told["mean"], runs.get("warmup")
    figures, exact, _ = _figures(stats[1:], rounded, lambda avg: abs(avg * _US - rounded) <= STEP_MS / 2 * 1.001)
    if "count" in figures:
        rounded_first = None
        if (first := dict(_FIGURE.findall(stats[0][1])).get("first")) is not None:
            rounded_first = time_ms(first, _US)
        told = {name: value for name, value in told.items() if name in ("init", "warmup")}
        told |= {"first": rounded_first} if rounded_first is not None else {}
        return _summary(page, figures, more | exact | _memory(page), told, warmups)
    _note_step(page, told, is_exact)
    figures, others = _split(page, told)
    figures |= known_figures(count=runs.get("mean"))
    return _summary(page, figures, more | others | _memory(page), told, warmups)


def _summary(
    page: Page,
    figures: dict[str, JsonValue],
    more: dict[str, JsonValue],
    told: Mapping[str, float],
    warmups: int | None,
) -> Summary:
    refuse_contradictions(figures)
    init_ms, first_ms, warmup_ms = (told.get(name) for name in ("init", "first", "warmup"))
    return Summary(
        figures,
        more,
        model=_model(page),
        providers=_providers(page),
        init_ns=round(init_ms * 1e6) if init_ms else None,
        first_ns=round(first_ms * 1e6) if first_ms else None,
        warmup=warmups or None,
        warmup_ns=round(warmups * warmup_ms * 1e6) if warmups and warmup_ms else None,
    )


def _split(page: Page, told: Mapping[str, float]) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Return `(figures that edgetop's reports have too, further figures)`.

    `told` has the printed figures in ms, by name such as `mean` or `p5`. The keys of the two results are these names
    with a unit, such as `mean_ms`.

    Figures of 0 are left out, with a note in `page`, since no inference takes 0 ms. Raises ValueError if the mean is 0.
    """
    zeros = [f"{name} {told[name]:g} ms" for name in told if not told[name] and name != "stdev"]
    if zeros:
        page.notes.append(f"figures of 0 left out, which no inference takes: {', '.join(zeros)}")
    if not told["mean"]:
        raise ValueError("its mean is 0 ms: the inferences are shorter than the tool's resolution")
    kept: dict[str, JsonValue] = {
        f"{name}_ms": value
        for name, value in told.items()
        if (value or name == "stdev") and name not in ("init", "first", "warmup")
    }
    others = known_figures(p5_ms=kept.pop("p5_ms", None))
    return kept, others


def _note_step(page: Page, told: Mapping[str, float], is_exact: Mapping[str, bool]) -> None:
    mean = told["mean"]
    if mean and not is_exact["mean"] and mean * COARSE <= STEP_MS:
        page.notes.append(
            f"its figures are rounded to {STEP_MS:g} ms, {formatting.percent(STEP_MS / mean)} of the mean"
        )


def is_result(document: Mapping[str, Any]) -> bool:
    """Return whether a JSON document is in the form that `litert-benchmark --result_json` writes."""
    latency = document.get("latency")
    return isinstance(latency, dict) and "avg_ms" in latency


_RESULT_KEYS = {
    "init_ms": "init", "warmup_first_ms": "first", "warmup_avg_ms": "warmup", "avg_ms": "mean", "min_ms": "min",
    "max_ms": "max", "median_ms": "p50", "std_ms": "stdev", "p5_ms": "p5", "p90_ms": "p90", "p95_ms": "p95",
    "p99_ms": "p99",
}  # fmt: skip
_COUNTS = ("num_runs", "num_warmup_runs")
_OTHERS = ("model", "model_size_mb", "accelerators", "signature", "fully_accelerated", "num_threads", "throughput_mb_s")


def read_result(document: Mapping[str, Any], page: Page) -> Summary:
    """Return the summary in a document of `litert-benchmark --result_json`.

    `document` is the parsed JSON. Notes about the document, such as one on unknown keys, are added to `page`. Raises
    ValueError if a figure is no number or is out of range.
    """
    latency = document["latency"]
    told = {name: _time(latency, key) for key, name in _RESULT_KEYS.items() if key in latency}
    runs, warmups = (_number(latency, key, 0, 2**31) for key in _COUNTS)
    _note_step(page, told, dict.fromkeys(told, False))
    figures, more = _split(page, told)
    figures |= known_figures(count=round(runs) if runs else None)
    names = document.get("accelerators")
    more |= known_figures(
        accelerators=" | ".join(map(str, names)) if isinstance(names, list) else None,
        fully_accelerated=_kept(document, "fully_accelerated", bool),
        signature=_kept(document, "signature", str),
        num_threads=_kept(document, "num_threads", int),
        throughput_mb_per_s=_kept(document, "throughput_mb_s", float) or None,
    )
    refuse_contradictions(figures)
    unknown = [key for key in document if key not in (*_OTHERS, "latency")]
    unknown += [f"latency.{key}" for key in latency if key not in (*_RESULT_KEYS, *_COUNTS)]
    if unknown:
        page.notes.append(f"{formatting.quantity(len(unknown), 'key')} not understood, the first: {unknown[0][:80]}")
    init, first, warmup = (told.get(name) for name in ("init", "first", "warmup"))
    model = document.get("model")
    return Summary(
        figures,
        more,
        model=model if isinstance(model, str) else None,
        init_ns=round(init * 1e6) if init else None,
        first_ns=round(first * 1e6) if first else None,
        warmup=round(warmups) if warmups else None,
        warmup_ns=round(warmups * warmup * 1e6) if warmups and warmup else None,
    )


def _kept(document: Mapping[str, Any], key: str, kind: type) -> Any:
    value = document.get(key)
    return value if isinstance(value, kind) else None


def _time(latency: Mapping[str, Any], key: str) -> float:
    return _number(latency, key, 0, MAX_MS) or 0.0


def _number(document: Mapping[str, Any], key: str, least: float, most: float) -> float | None:
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{key} is no figure of such a run: {str(value)[:40]!r}")
    return float(value)


def _figures(
    stats: Sequence[tuple[str, str]], mean_ms: float, is_mean: Callable[[float], bool]
) -> tuple[dict[str, JsonValue], dict[str, JsonValue], int | None]:
    """Return `(figures, further figures, number of warm-up inferences)` of one run. The number is None if unknown.

    `stats` has `(count, rest of the line)` as texts for each line with `count=`. `mean_ms` is the mean at the end of
    the output, of the measured inferences. `is_mean` takes a line's mean in microseconds and returns whether it equals
    `mean_ms`. The figures are read from the line with that mean. Without such a line, `mean_ms` is the only figure.
    """
    figures: dict[str, JsonValue] = {"mean_ms": mean_ms}
    places = (*range(1, len(stats)), 0)[: len(stats)]  # the first one last: it is usually the warm-up's
    place = next((place for place in places if (mean := _mean_of(stats[place][1])) is not None and is_mean(mean)), None)
    if place is None:
        return figures, {}, None
    runs, text = stats[place]
    printed = {name: time_ms(value, _US) for name, value in _FIGURE.findall(text)}
    if "avg" not in printed:  # all the same
        printed |= dict.fromkeys(("min", "max"), printed["curr"])
    figures |= {key: printed[name] for name, key in _KEYS.items() if name in printed}
    figures["count"] = count(runs)
    more: dict[str, JsonValue] = {f"{name}_ms": printed[name] for name in ("p5", "first") if name in printed}
    return figures, more, count(stats[0][0]) if place else None


def _mean_of(text: str) -> float | None:
    printed = dict(_FIGURE.findall(text))
    mean = printed.get("avg", printed.get("curr"))
    return None if mean is None else number(mean)
