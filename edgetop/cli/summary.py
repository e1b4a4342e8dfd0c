"""The report as text: the verdict first, then the tables, as one would paste it into a ticket."""

from collections.abc import Iterator
from typing import Any

from edgetop import formatting
from edgetop.analysis.forecast.document import in_words
from edgetop.analysis.load_words import headroom_words, load_words, max_rate_words
from edgetop.cli.summary_method import method_lines
from edgetop.cli.summary_steadiness import steadiness_lines
from edgetop.formatting import UNKNOWN, clean, interval_text, share_text
from edgetop.session.manifest import Load, Lost, from_json
from edgetop.session.operators import LEAST_BURSTS, LEAST_RUNS

PERCENTILES = ("p50", "p90", "p95", "p99", "p999")


def summary(document: dict[str, Any]) -> str:
    """Lines for `report_document`'s document. Foreign text in it is made safe."""
    parts = (
        _head(document),
        steadiness_lines(document),
        _latency(document["latency"]),
        _tail(document["tail"]),
        _load(document["latency"], Load(**document["session"]["load"])),
        _gates(document["gates"] or []),
        _board(document),
        method_lines(document["session"]),
        _operators(document),
        _warnings(document["warnings"]),
    )
    return "\n".join(line for part in parts for line in part)


def _head(document: dict[str, Any]) -> Iterator[str]:
    session = document["session"]
    engine, model = session["engine"], session["model"]
    yield from _verdict(document["verdict"], session)
    inputs = " ".join(f"{clean(i['name'])} {i['dtype']}[{','.join(map(str, i['shape']))}]" for i in model["inputs"])
    yield f"  model    {clean(model['path'])}  {inputs}"
    providers = ", ".join(engine["providers"]) or UNKNOWN
    runtime = f"{engine['runtime'] or UNKNOWN} {engine['version'] or ''}".strip()
    way = f", {engine['threads'] or 'default'} threads, in a {engine['isolation']}"
    yield f"  engine   {runtime} on {clean(providers)}{'' if from_json(session).was_imported else way}"
    board = session["board"]
    place = ", ".join(clean(str(x)) for x in (board["model"], board["cpu"], board["os"]) if x)
    yield f"  board    {place or UNKNOWN}{'  SIMULATED' if board['simulated'] else ''}"
    if document["lost"]:
        lost = Lost(**document["lost"])
        yield f"  lost     {lost.words}: {clean(lost.why)}"


def _verdict(verdict: dict[str, Any], session: dict[str, Any]) -> Iterator[str]:
    """How it ended or what holds now, and under it each thing that is to be known before any table is read."""
    mark = "SIMULATED  " if session["board"]["simulated"] else ""
    live = "LIVE, " if session["end_reason"] is None else ""
    yield f"{mark}{live}{clean(verdict['first'])}"
    for other in (*(f"also {word}" for word in verdict["also"]), *verdict["past"]):
        yield f"  {clean(other)}"
    yield f"  session  {clean(session['name'])}  {session['created_utc'][:19]}Z"


def _latency(latency: dict[str, Any]) -> Iterator[str]:
    yield ""
    tool = latency.get("told_by")
    if not latency["count"] and tool is None:
        yield "latency    nothing was measured"
        return
    names = ("min", *PERCENTILES, "max", "mean", "stdev", "jitter")
    marks = ["" if _is_settled(latency, name) else "?" for name in names]
    times = {"        ms": latency}
    if latency["response"]:
        times = {"service ms": latency, "  resp. ms": latency["response"]}
    rows = [
        [f"{_ms(of[f'{name}_ms'])}{mark}" for name, mark in zip(names, marks, strict=True)] for of in times.values()
    ]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    heads = "  ".join(_percentile_name(name).rjust(width) for name, width in zip(names, widths, strict=True))
    yield f"latency    {heads}"
    for label, row in zip(times, rows, strict=True):
        yield f"{label:<10} " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    throughput = latency["throughput_hz"]
    rate = UNKNOWN if throughput is None else formatting.rate(throughput)
    count, errors = (UNKNOWN if latency[key] is None else formatting.count(latency[key]) for key in ("count", "errors"))
    yield f"           {count} inferences, {rate}/s, {errors} errors"
    if tool is not None:
        yield f"           as {clean(tool)} printed them: no single inference is known"
    if "?" in marks:
        yield "           ? too few inferences, or too alike, for this percentile to be settled"
    if intervals := _intervals(latency["ci95"] or {}):
        yield f"           95 %: {intervals}"


def _intervals(ci95: dict[str, list[float] | None]) -> str:
    """Where they are known."""
    told = [
        f"{_percentile_name(name)} {_ms(interval[0])} to {_ms(interval[1])}"
        for name in PERCENTILES
        if (interval := ci95.get(f"{name}_ms"))
    ]
    return ", ".join(told)


TAIL_SHOWN = 3


def _tail(tail: dict[str, Any]) -> Iterator[str]:
    """What the slowest inferences are made of, and the very slowest of them."""
    if not tail["slowest"]:
        return
    yield f"tail       of the {len(tail['slowest'])} slowest, one a second: {clean(tail['summary'])}"
    for one in tail["slowest"][:TAIL_SHOWN]:
        who = f" ({clean(one['who'])})" if one["who"] else ""
        when = formatting.clock_time(one["t_s"] * 1e9)
        yield f"           {_ms(one['latency_ms'])} ms at {when}: {one['cause'].replace('-', ' ')}{who}"


def _load(latency: dict[str, Any], load: Load) -> Iterator[str]:
    """How inferences came, where not back to back, and what became of the deadline."""
    deadline = latency["deadline"]
    if words := load_words(load):
        yield f"load       {words}"
    if latency["streams"]:
        rates = ", ".join(formatting.rate(stream["throughput_hz"]) for stream in latency["streams"])
        yield f"           by stream, /s: {rates}"
    if deadline:
        missed = f"{formatting.fine_percent(deadline['miss_rate'])} missed ({deadline['misses']})"
        run = f", {deadline['longest_run']} in a row at most" if deadline["misses"] else ""
        yield f"deadline   {deadline['ms']:g} ms: {missed}{run}; {headroom_words(deadline['headroom_ms'])}"
        if deadline["max_rate_hz"]:
            yield f"           by its service time it {max_rate_words(deadline['max_rate_hz'])}"


def _gates(gates: list[dict[str, Any]]) -> Iterator[str]:
    if gates:
        yield ""
    for gate in gates:
        yield f"gate       {'passed' if gate['ok'] else 'FAILED'}  {clean(gate['reason'])}"


def _percentile_name(name: str) -> str:
    return "p99.9" if name == "p999" else name


def _is_settled(latency: dict[str, Any], name: str) -> bool:
    settled = latency["settled"] or {}
    return bool(settled.get(name, True))


def _board(document: dict[str, Any]) -> Iterator[str]:
    phases, memory, overhead = document["phases"], document["memory"], document["overhead"]
    yield ""
    warmup = phases["warmup"]
    runs = UNKNOWN if warmup["runs"] is None else warmup["runs"]
    yield (
        f"start      load {_ms(phases['init_ms'])} ms, first inference {_ms(phases['first_ms'])} ms, "
        f"warm-up {runs} runs of {_ms(warmup['mean_ms'])} ms"
    )
    for sensor, values in document["temperature"].items():
        span = f"{values['min']:.1f} to {values['max']:.1f} °C"
        yield f"heat       {clean(sensor)} {span}, {values['end']:.1f} at the end"
    forecast = in_words(document["forecast"])
    if forecast:
        yield f"           from there on {clean(document['forecast']['sensor'])}: {forecast}"
    yield from _power(document["power"])
    yield from _energy(document["energy"], document["power"], document["session"]["methodology"]["battery"])
    yield f"memory     engine RSS {_mib(memory['rss_end_mib'])} at the end, {_mib(memory['rss_peak_mib'])} at most"
    if memory["growth_mib_per_h"] is not None:
        yield f"           {_growth(memory)}"
    if memory["accelerator_peak_mib"] is not None:
        yield f"           and {_mib(memory['accelerator_peak_mib'])} at most of the GPU's, which is in no RSS"
    if memory["stages"]:
        stages = ", ".join(f"{clean(stage['stage'])} {stage['rss_mib']:.1f}" for stage in memory["stages"])
        yield f"           by stage, MiB: {stages}"
    if usage := document["usage"]:
        yield from _usage(usage)
    load = overhead["cpu_pct"]
    cost = UNKNOWN if load is None else f"{load:.1f} % of a core"
    yield f"edgetop    {cost}, {_mib(overhead['rss_mib'])}"


def _usage(usage: dict[str, Any]) -> Iterator[str]:
    """The engine's use of the CPU; bytes stand in the document alone."""
    mean, peak = usage["cpu_mean_pct"], usage["cpu_peak_pct"]
    if mean is not None:
        most = "" if peak is None else f", {peak:.0f} % at most in a second"  # a run of under a second has none
        yield f"cpu        engine {mean:.0f} % of a core on average{most}"


def _power(power: dict[str, Any]) -> Iterator[str]:
    """A line for the total; where nothing tells it, one for each rail."""
    if power["total_sensor"]:
        yield f"power      {_watts(power, power['total_sensor'])}"
        return
    for sensor, figures in power["rails"].items():
        yield f"power      {_watts(figures, sensor)}; a part of the board"


def _watts(figures: dict[str, Any], sensor: str) -> str:
    mean = UNKNOWN if figures["mean_w"] is None else formatting.reading(figures["mean_w"], "W")
    return f"{clean(sensor)} {mean} W on average, {_most(figures)} ({_accuracy(figures)})"


def _most(figures: dict[str, Any]) -> str:
    """The highest reading, said to be a mean where it is one, and the peak behind it where that is known."""
    if figures["max_w"] is None:
        return f"{UNKNOWN} at most"
    most, over_s, peak_w = formatting.reading(figures["max_w"], "W"), figures.get("max_over_s"), figures.get("peak_w")
    over = "" if over_s is None else f" as a mean of {over_s:.2g} s"
    peak = "" if peak_w is None else f", peak {formatting.reading(peak_w, 'W')} W"
    return f"{most} at most{over}{peak}"


def _accuracy(figures: dict[str, Any]) -> str:
    return clean(figures["accuracy"] or "of unknown accuracy").replace("-", " ")


def _growth(memory: dict[str, Any]) -> str:
    interval = memory["growth_ci95_mib_per_h"]
    word = "LEAKING" if memory["leak"] else "grows by"
    return f"{word} {memory['growth_mib_per_h']:.1f} MiB/h (95 %: {interval[0]:.1f} to {interval[1]:.1f})"


def _energy(energy: dict[str, Any], power: dict[str, Any], battery: dict[str, Any] | None) -> Iterator[str]:
    """Of the total, or why there is none; without a total, of each part as a part."""
    if not power["total_sensor"] and not power["rails"]:
        return
    if energy["gross_mj"] is not None:
        yield f"energy     {_cost(energy)}; 95 %, precision only; accuracy: {_accuracy(energy)}"
        if energy["net_mj"] is not None:
            low, high = energy["net_ci95_mj"]
            net = f"net of an idle board's {formatting.reading(power['idle_w'], 'W')} W"
            yield f"           {formatting.millijoules(energy['net_mj'])} ± {_half(low, high)} mJ {net}"
        elif energy["net_reason"]:
            yield f"           no figure net of idle: {clean(energy['net_reason'])}"
    elif power["total_sensor"]:
        yield f"energy     no figure of an inference: {clean(energy['reason'])}"
    for sensor, cost in energy["rails"].items():
        if cost["gross_mj"] is not None and not power["total_sensor"]:
            yield f"energy     {clean(sensor)} {_cost(cost)}; a part of the board"
    if battery:
        yield f"battery    {battery['volts']:g} V, {battery['capacity_mah']:g} mAh: {_lasts(energy)}"


def _cost(cost: dict[str, Any]) -> str:
    low, high = cost["ci95_mj"]
    return f"{formatting.millijoules(cost['gross_mj'])} ± {_half(low, high)} mJ an inference"


def _half(low: float, high: float) -> str:
    return formatting.millijoules((high - low) / 2, 2)


def _lasts(energy: dict[str, Any]) -> str:
    if energy["hours_per_charge"] is None:
        return clean(energy["battery_reason"] or UNKNOWN)
    rate = f"{energy['hours_per_charge']:.1f} h at {formatting.rate(energy['battery_rate_hz'])}/s"
    inferences = energy["inferences_per_charge"]
    return rate if inferences is None else f"{rate}, {formatting.count(inferences)} inferences"


TOP_OPERATORS = 10


def _operators(document: dict[str, Any]) -> Iterator[str]:
    """The ones that take the most time, the largest first."""
    operators = document["operators"] or []
    if not operators:
        return
    top = sorted(operators, key=lambda operator: -operator["share"])[:TOP_OPERATORS]
    partitions, profile = document["partitions"], document["profile"]
    yield ""
    yield f"operators  {len(operators)}, partitions {partitions or UNKNOWN}; those that take the most time:"
    yield f"           {clean(profile['way'] or UNKNOWN)}; {profile['runs']} inferences in {profile['bursts']} bursts"
    yield from _operator_doubts(document)
    cells = max(len(clean(operator["op_type"])) for operator in top)
    head = f"{'us':>17}  {'%':>5}    {'95 %':>13}  {'cum %':>6}  {'GFLOP/s':>7}  {'bound':<13}  {'on':<8}"
    yield f"{head}  {'type':<{cells}}  name"
    cumulative = 0.0
    for operator in top:
        cumulative += operator["share"]
        us = UNKNOWN if operator["mean_us"] is None else f"{operator['mean_us']:.1f}"
        yield (
            f"       {us:>10}  {share_text(operator['share'], settled=operator['settled']):>7}  "
            f"{interval_text(operator['share_ci95']):>13}  {100 * cumulative:6.1f}  {_rate(operator):>7}  "
            f"{operator['bound'] or UNKNOWN:<13}  {clean(operator['provider']):<8}  "
            f"{clean(operator['op_type']):<{cells}}  {clean(operator['origin'] or operator['name'])}"
        )


def _operator_doubts(document: dict[str, Any]) -> Iterator[str]:
    profile = document["profile"]
    if profile["disturbed"]:
        yield "           others took CPU time from every instrumented inference: no share is settled"
    elif profile["left_out_runs"]:
        yield f"           {profile['left_out_runs']} others are left out, from which other programs took CPU time"
    if not all(operator["settled"] for operator in document["operators"]):
        yield f"           ? not settled, which takes {LEAST_BURSTS} bursts and {LEAST_RUNS} inferences that agree"


def _rate(operator: dict[str, Any]) -> str:
    return UNKNOWN if operator["gflop_per_s"] is None else f"{operator['gflop_per_s']:.1f}"


def _ms(value: float | None) -> str:
    return UNKNOWN if value is None else formatting.milliseconds(value * 1e6)


def _mib(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} MiB"


def _warnings(warnings: list[dict[str, str]]) -> Iterator[str]:
    if warnings:
        yield ""
    for warning in warnings:
        yield f"warning    {clean(warning['message'])}"
        yield f"           {clean(warning['advice'])}"
