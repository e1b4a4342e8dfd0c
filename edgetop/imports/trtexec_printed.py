"""Parse the output of `trtexec`: a summary of all inferences, and a table of layers.

Source: TensorRT's samples/common/sampleReporting.cpp, printProlog, printEpilog and Profiler::print, 7.0 to 11.0. Each
line begins with `[11/12/2024-10:00:00] [I] `. From 8.0 on there is one line for each kind of time:

    Throughput: 24.4584 qps
    Latency: min = 39.4 ms, max = 48.8 ms, mean = 42.6 ms, median = 42.4 ms, percentile(90%) = 45.2 ms, ...
    Total Host Walltime: 3.10731 s

Before 8.0 there is a line `Host Latency`, then one for each figure: `min: 4.34 ms (end to end 4.35 ms)`,
`percentile: 5.46 ms at 99% (end to end ...)`, `throughput: 0 qps`, `walltime: 3.0 s`. Those versions print a
throughput of 0 for a model with an explicit batch.

With an implicit batch (`--batch=16`, up to 9.x), queries and throughput count the items of a batch. But the latency is
of a whole batch: `Timing trace has 128 queries over 5.45773 s` are four inferences of 32.

`--dumpProfile` prints a table. Before 8.4 the name of a layer is its first column, and later its last one:

    === Profile (2094 iterations ) ===
       Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer
          47.82       0.0228       0.0225       1.6   conv1 + relu1
        3093.17       0.8968       0.8960     100.0   Total
"""

import re
from collections.abc import Iterator

from edgetop.formatting import quantity
from edgetop.imports.captured_page import Page
from edgetop.imports.measured import (
    COMPUTE,
    MAX_COUNT,
    MAX_LAYERS,
    MAX_MS,
    MAX_PER_SECOND,
    NUMBER,
    TO_DEVICE,
    TO_HOST,
    Found,
    Layers,
    Summary,
    count,
    known_figures,
    number,
    one_run,
    refuse_contradictions,
    time_ms,
    time_ns,
)
from edgetop.imports.trtexec import layer
from edgetop.session.typed_json import JsonValue

_HEAD = r"^(?:\[[^\]\n]{1,40}\] )?(?:\[[IVWE]\] )?"
_TITLES = r"=== Performance summary ===|Host Latency|=== Profile \([0-9]+ iterations ?\) ==="
# TensorRT 5 and 6, samples/trtexec/trtexec.cpp: a mean of some inferences, without copies, and no summary.
_AVERAGE = re.compile(
    rf"{_HEAD}Average over ([0-9]{{1,7}}) runs is {NUMBER} ms \(host walltime is {NUMBER} ms", re.MULTILINE
)
MARK = re.compile(rf"&&&& \w+ TensorRT\.trtexec|{_HEAD}(?:{_TITLES})\s*$|{_AVERAGE.pattern}", re.MULTILINE)
_FAILED = re.compile(r"&&&& FAILED TensorRT\.trtexec")
_RUNNING = re.compile(r"&&&& RUNNING TensorRT\.trtexec(?: \[TensorRT v[0-9]{4,6}\])?(?: # (.*))?")
_VERSION = re.compile(r"\[TensorRT v([0-9]{4,6})\]")
_MODEL = re.compile(r"--(?:onnx|loadEngine|model|uff)=(\S+)")
_OLD_MODEL = re.compile(rf"{_HEAD}(?:onnx|uff|model|deploy|loadEngine): (\S+)[ \t]*$", re.MULTILINE)
_MODEL_OPTION = re.compile(rf"{_HEAD}Model: (\S+)[ \t]*$", re.MULTILINE)

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
_PRINTED_PARTS = {
    "Enqueue Time": "enqueue",
    "End-to-End Host Latency": "end_to_end",
    "H2D Latency": TO_DEVICE,
    "GPU Compute Time": COMPUTE,
    "D2H Latency": TO_HOST,
}

_BATCH = re.compile(rf"{_HEAD}[Bb]atch: ([0-9]{{1,7}})[ \t]*$", re.MULTILINE)
_BATCH_OPTION = re.compile(r"--batch[= ]([0-9]{1,7})\b")
_STREAMS = re.compile(rf"{_HEAD}(?:Streams|Inference Streams): ([0-9]{{1,4}})[ \t]*$", re.MULTILINE)
_STREAMS_OPTION = re.compile(r"--(?:streams|infStreams)[= ]([0-9]{1,4})\b")
# Lines of options, of averages during the run, of results that are in other lines, and of the explanation at the end.
_CHATTER = re.compile(
    rf"{_HEAD}(?:=== .* ===|Average on [0-9]+ runs - .*|Trace averages of .*|Explanations of the performance metrics .*"
    rf"|total compute time: .*|Total GPU Compute Time: .*|&&&& PASSED .*|[ \t]*)$",
    re.MULTILINE,
)

# The most inferences of one stream at the same time: one is copied to the device, one runs, and one is copied back.
OVERLAP = 3

_PROFILE = re.compile(rf"{_HEAD}=== Profile \(([0-9]{{1,10}}) iterations ?\) ===[ \t]*\n", re.MULTILINE)
_HEADER = re.compile(rf"{_HEAD}[ \t]*(Layer\b.*|Time ?\(ms\).*Layer)[ \t]*$")
_TITLE = re.compile(rf"{_HEAD}===|&&&& ")
_TOTAL = "Total"
_ROUNDED = 0.01  # share by which the sum of all rows may differ from the total, since each is rounded


def read_output(page: Page) -> tuple[Found, ...]:
    """Return a tuple of the run's summary and, if the output has a table of layers, their times.

    Output that has only the table gives only the layers. Raises ValueError if the run failed, or if the output is cut
    off or contradicts itself.
    """
    if _FAILED.search(page.text):
        raise ValueError("trtexec failed (&&&& FAILED): nothing was measured")
    rates = [match[1] for match in page.found(_THROUGHPUT)]
    one_run(rates, "trtexec")
    layers = _profile(page)
    kinds = dict(_kinds(page))
    latency = kinds.pop("Latency", None)
    if latency is None and layers and not rates:  # the table alone was kept
        return layers
    if latency is None and not rates and (averages := list(page.found(_AVERAGE))):
        return (_of_averages(page, averages), *layers)
    if latency is None:
        raise ValueError("trtexec's output without its performance summary: cut off, or it measured nothing")
    figures: dict[str, JsonValue] = {f"{key}_ms": ms for key, ms in latency.items() if key in _PERCENTILES.values()}
    figures |= {f"{key}_ms": latency[key] for key in ("min", "max", "mean") if key in latency}
    more: dict[str, JsonValue] = {f"{key}_ms": ms for key, ms in latency.items() if f"{key}_ms" not in figures}
    for name, part in _PRINTED_PARTS.items():
        more |= {f"{part}_{key}_ms": ms for key, ms in kinds.get(name, {}).items()}
    refuse_contradictions(figures)
    running = page.first(_RUNNING)  # the command line, which trtexec prints first
    options = (running and running[1]) or ""
    batch = _told(page, _BATCH, _BATCH_OPTION, options)
    streams = _told(page, _STREAMS, _STREAMS_OPTION, options) or 1
    queries, items_hz, warmups = (
        page.first(_COUNT),
        number(rates[0], MAX_PER_SECOND) if rates else 0.0,
        page.first(_WARMUP),
    )
    rate_hz: float | None = items_hz / (batch or 1) or None
    mean_ms = latency.get("mean")
    if rate_hz and mean_ms and rate_hz * mean_ms / 1000 > OVERLAP * streams:
        page.notes.append(
            f"its throughput of {items_hz:g} qps left out: with a latency of {mean_ms:g} ms that would be "
            f"{rate_hz * mean_ms / 1000:.3g} inferences at once, so it counts the items of a batch of unknown size"
        )
        rate_hz = None
        queries = warmups = None
    figures |= known_figures(count=_per_batch(queries, batch), throughput_hz=rate_hz)
    model, option, version = _MODEL.search(options), page.first(_MODEL_OPTION), page.first(_VERSION)
    wall = page.first(_WALLTIME)
    for _ in page.found(_CHATTER):
        pass
    summary = Summary(
        figures,
        more,
        model=(model and model[1]) or (option and option[1]),
        version=version and _version(version[1]),
        span_ns=wall and time_ns(wall[1], 1000),
        batch=batch or None,
        warmup=_per_batch(warmups, batch),
    )
    return (summary, *layers)


def _of_averages(page: Page, averages: "list[re.Match[str]]") -> Summary:
    """Return the summary for TensorRT 5 and 6, which print nothing but means over a few inferences.

    `averages` are the matches of the lines with these means.
    """
    runs = [count(match[1]) for match in averages]
    if not all(runs):
        raise ValueError("trtexec's output has an average over 0 runs")
    means = [
        sum(n * time_ms(match[place]) for n, match in zip(runs, averages, strict=True)) / sum(runs) for place in (2, 3)
    ]
    running = page.first(_RUNNING)
    options = (running and running[1]) or ""
    model = _MODEL.search(options) or page.first(_OLD_MODEL)
    page.notes.append(f"its mean is that of {quantity(len(runs), 'average')}, of the GPU's time without copies")
    return Summary(
        {"mean_ms": means[0], **known_figures(count=sum(runs))},
        {"host_walltime_mean_ms": means[1]},
        model=model and model[1],
        batch=_told(page, _BATCH, _BATCH_OPTION, options) or None,
    )


def _told(page: Page, line: "re.Pattern[str]", option: "re.Pattern[str]", options: str) -> int | None:
    """Return the number that the user gave for one option of trtexec, or None if the output does not say.

    The pattern `line` is searched in the printed list of options. If it is not found, the pattern `option` is searched
    in `options`, the command line.
    """
    match = page.first(line) or option.search(options)
    return int(match[1]) if match else None


def _per_batch(queries: "re.Match[str] | None", batch: int | None) -> int | None:
    """Return the number of inferences: the number of queries divided by `batch`. None if it is 0 or unknown.

    `queries` is the match whose first group is the number of queries, or None if the output has none. `batch` is the
    number of items in a batch, each of which trtexec counts as a query. None stands for 1.
    """
    return (count(queries[1]) // (batch or 1) or None) if queries else None


def _profile(page: Page) -> tuple[Layers, ...]:
    """Return the layers in the output's table of layers as a tuple with one element.

    Returns () if there is no table, or if the table is cut off.
    """
    tables = list(page.found(_PROFILE))
    if not tables:
        return ()
    one_run([table[1] for table in tables], "trtexec's profile")
    runs, place = int(tables[0][1]), tables[0].end()
    rows: list[tuple[str, float, float]] = []
    pattern: re.Pattern[str] | None = None
    while (stop := page.text.find("\n", place)) >= 0:
        line, row = page.text[place:stop], None
        if header := _HEADER.match(line):
            pattern = _row_pattern(header[1])
        elif pattern and (row := pattern.match(line)):
            rows.append((row["name"].strip(), float(row["total"]), float(row["average"])))
        elif _TITLE.match(line):
            break
        # Other lines may stand within the table. What is read must add up to the total.
        if header or row or not line.strip():
            page.know(place, stop)
        place = stop + 1
        if rows and rows[-1][0] == _TOTAL:
            return _layers(page, rows, runs)
    page.notes.append("its table of layers is cut off, and left out")
    return ()


def _row_pattern(header: str) -> "re.Pattern[str]":
    blanks = r"[ \t]+"
    median = rf"{NUMBER}{blanks}" if "Median" in header else ""
    numbers = rf"(?P<total>{NUMBER}){blanks}(?P<average>{NUMBER}){blanks}{median}{NUMBER}"
    name = r"(?P<name>\S.*?)"
    cells = (name, numbers) if header.startswith("Layer") else (numbers, name)
    return re.compile(rf"{_HEAD}[ \t]*{blanks.join(cells)}[ \t]*$")


def _layers(page: Page, rows: list[tuple[str, float, float]], runs: int) -> tuple[Layers, ...]:
    """Return the layers of a table as a tuple with one element, or () if they do not add up to the table's total.

    `rows` has `(name, total time in ms, average time in ms)` for each layer, and last for the total. `runs` is the
    number of inferences.
    """
    *layers, (_, total_ms, _) = rows
    found_ms = sum(ms for _, ms, _ in layers)
    if not 0 < total_ms <= MAX_MS or not 0 < runs <= MAX_COUNT or len(layers) > MAX_LAYERS:
        page.notes.append("its table of layers is left out: its figures are none of such a run")
        return ()
    if abs(found_ms - total_ms) > total_ms * _ROUNDED + 0.005 * len(layers):
        page.notes.append(f"its table of layers is left out: the rows have {found_ms:g} ms of {total_ms:g} ms")
        return ()
    operators = tuple(layer(name, _calls(total, average, runs), total) for name, total, average in layers)
    return (Layers(runs, operators, round(total_ms * 1e6) // runs),)


def _calls(total_ms: float, average_ms: float, runs: int) -> int:
    """Return a layer's number of calls: `total_ms`, the time of all calls, divided by `average_ms`, the time of one
    call.

    The average is rounded. So `runs`, the number of inferences, is returned if the quotient is close to it.
    """
    if average_ms < 0.01:  # two digits of four decimals
        return runs
    calls = total_ms / average_ms
    return runs if abs(calls - runs) <= runs * 0.02 + 1 else min(MAX_COUNT, max(1, round(calls)))


def _kinds(page: Page) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield `(kind of time, figures)`, such as `("Latency", {"min": 39.4, "p50": 42.4})`. The figures are in ms."""
    for line in _LINE.finditer(page.text):
        if line[1] not in ("Latency", *_PRINTED_PARTS):
            continue  # of another program
        page.know(*line.span())
        yield line[1], {_key(match[1], match[2]): time_ms(match[3]) for match in _FIGURE.finditer(line[2])}
    name, figures = "", dict[str, float]()
    place = 0
    for raw in page.text.split("\n"):
        begin, place = place, place + len(raw) + 1
        head = re.sub(_HEAD, "", raw).strip()
        if head in _OLD_HEADS:
            if name:
                yield name, figures
            name, figures = _OLD_HEADS[head], {}
            page.know(begin, begin + len(raw))
        elif name and (match := _OLD_LINE.match(raw)):
            figures[_key(match[1], match[3])] = time_ms(match[2])
            page.know(begin, begin + len(raw))
    if name and figures:
        yield name, figures


def _key(name: str, percent: str | None) -> str:
    if percent is None:
        return _KEYS.get(name, "percentile")
    return _PERCENTILES.get(number(percent, 100), f"p{percent}")


def _version(digits: str) -> str:
    """Return TensorRT's version as text. `digits` is the number that trtexec prints.

    >>> _version("8401"), _version("100300")
    ('8.4.1', '10.3.0')
    """
    # NvInferVersion.h, NV_TENSORRT_VERSION: major * 1000 + minor * 100 + patch, and from 10 on major * 10000.
    major, rest = divmod(int(digits), 10_000 if len(digits) > 4 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
