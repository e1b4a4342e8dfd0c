"""Parse the output of TFLite's and LiteRT's `benchmark_model`, a summary of all inferences.

Source: tensorflow/lite/tools/benchmark/benchmark_model.cc, OnBenchmarkEnd, and tsl/util/stats_calculator.h,
Stat::OutputToStream. Each line begins with `INFO: ` on Linux, and with logcat's prefix on Android.

    INFO: Graph: [mobilenet.tflite]
    INFO: count=9 first=87112 curr=51629 min=51629 max=87112 avg=58147.4 std=11478 p5=51629 median=51962 p95=87112
    INFO: count=1000 first=52162 curr=49785 min=49088 max=686105 avg=63743.2 std=60716 p5=49620 median=51891 p95=68628
    INFO: Inference timings in us: Init: 119515, First inference: 87112, Warmup (avg): 58147.4, Inference (avg): 63743.2

The first line with `count` is about the warm-up, the second about the measured inferences, and further ones about
profiles of operators. If all inferences took the same time, the line is `count=5 curr=51629 (all same)`. Older versions
end with `Average inference timings in us: Warmup: 83235, Init: 38467, Inference: 79760.9`. Times are in microseconds.
"""

import re
from collections.abc import Sequence

from edgetop.imports.measured import (
    NUMBER,
    Origin,
    Summary,
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

ORIGIN = Origin("benchmark_model", "tflite (imported from benchmark_model)")

_US = 1e-3  # a microsecond in ms
_LAST = re.compile(
    rf"Inference timings in us: Init: {NUMBER}, First inference: {NUMBER}, "
    rf"Warmup \(avg\): {NUMBER}, Inference \(avg\): {NUMBER}"
)
_OLD_LAST = re.compile(
    rf"Average inference timings in us: Warmup: {NUMBER}, Init: {NUMBER}, (?:Inference|no stats): {NUMBER}"
)
MARK = re.compile(r"(?:Inference|Average inference) timings in us: |Running benchmark for at least [0-9]")
_STATS = re.compile(r"^(?!.*(?:Timings \(microseconds\)|Memory \(bytes\))).*?\bcount=([0-9]{1,10}) (.*)$", re.MULTILINE)
_FIGURE = re.compile(rf"\b(first|curr|min|max|avg|std|p5|median|p95)={NUMBER}")
_GRAPH = re.compile(r"Graph: \[([^\]\n]{1,4000})\]")
_DELEGATE = re.compile(r"node\(s\) with delegate \((\w{1,60})\) node")
_MEMORY = re.compile(rf"Memory footprint delta from the start of the tool \(MB\): init={NUMBER} overall={NUMBER}")
_PEAK = re.compile(rf"Overall peak memory footprint \(MB\) via periodic monitoring: {NUMBER}")

_KEYS = {"min": "min_ms", "max": "max_ms", "avg": "mean_ms", "std": "stdev_ms", "median": "p50_ms", "p95": "p95_ms"}
_PROVIDERS = {"TfLiteXNNPackDelegate": "XNNPACK", "TfLiteGpuDelegate": "GPU", "TfLiteGpuDelegateV2": "GPU"}


def read_text(text: str) -> Summary:
    """Parse the output of one run. Raises ValueError if it is incomplete or contradicts itself."""
    one_run([match[0] for match in MARK.finditer(text) if "timings" in match[0]], "benchmark_model")
    if last := _LAST.search(text):
        init_us, first_us, warmup_us, mean_us = last.groups()
    elif last := _OLD_LAST.search(text):
        (warmup_us, init_us, mean_us), first_us = last.groups(), None
    else:
        raise ValueError("benchmark_model's output without its inference timings: cut off, or it failed")
    figures, more, warmups = _figures(_STATS.findall(text), mean_us)
    if "count" not in figures and "\n" not in text[last.end() :]:  # the mean may have lost digits
        raise ValueError("benchmark_model's output is cut off in its last figure")
    refuse_contradictions(figures)
    if delta := _MEMORY.search(text):
        more |= {"memory_delta_init_mib": number(delta[1]), "memory_delta_overall_mib": number(delta[2])}
    more |= known_figures(memory_peak_mib=first_match(_PEAK, text, number))
    return Summary(
        figures,
        more,
        model=first_match(_GRAPH, text, str),
        providers=tuple(dict.fromkeys(_PROVIDERS.get(name, name) for name in _DELEGATE.findall(text))),
        init_ns=time_ns(init_us, _US),
        first_ns=None if first_us is None else time_ns(first_us, _US),
        warmup=warmups or None,
        warmup_ns=round(warmups * time_ms(warmup_us, _US) * 1e6) if warmups else None,
    )


def _figures(
    stats: Sequence[tuple[str, str]], mean_us: str
) -> tuple[dict[str, JsonValue], dict[str, JsonValue], int | None]:
    """Return the figures of the measured inferences, further figures, and the number of warm-up inferences.

    `stats`: the count and the text of each line with `count=`. The line of the measured inferences is the one whose
    mean is `mean_us`, which the last line of the output repeats.
    """
    figures: dict[str, JsonValue] = {"mean_ms": time_ms(mean_us, _US)}
    places = (*range(1, len(stats)), 0)[: len(stats)]  # the first one last: it is usually the warm-up's
    place = next((place for place in places if _mean_of(stats[place][1]) == number(mean_us)), None)
    if place is None:
        return figures, {}, None
    runs, text = stats[place]
    printed = {name: time_ms(value, _US) for name, value in _FIGURE.findall(text)}
    if "avg" not in printed:  # all the same
        printed |= dict.fromkeys(("min", "max"), printed["curr"])
    figures |= {key: printed[name] for name, key in _KEYS.items() if name in printed and name != "avg"}
    figures["count"] = count(runs)
    more: dict[str, JsonValue] = {f"{name}_ms": printed[name] for name in ("p5", "first") if name in printed}
    return figures, more, count(stats[0][0]) if place else None


def _mean_of(text: str) -> float | None:
    printed = dict(_FIGURE.findall(text))
    mean = printed.get("avg", printed.get("curr"))
    return None if mean is None else number(mean)
