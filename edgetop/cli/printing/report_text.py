"""The report of a session as text, to paste into a ticket: the verdict first, then the tables.

Lines have at most 80 columns and break between words. Only a single longer word (a path, a name) exceeds them.
"""

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from edgetop import formatting
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.input_shapes import InputSizes
from edgetop.analysis.program_frames import FramesView
from edgetop.analysis.report_operators import OperatorFigures
from edgetop.analysis.report_parts import PERCENTILE_KEYS, Span, Times
from edgetop.analysis.session_report import Report
from edgetop.analysis.slowdowns.slow_inferences import TailView
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttles import throttles_document
from edgetop.analysis.verdict_data import Verdict
from edgetop.cli.output import gate_lines, notice_lines, table
from edgetop.cli.printing.board_text import energy_lines, heat_lines, memory_lines, power_lines
from edgetop.cli.printing.generation_text import generation_lines
from edgetop.cli.printing.method_text import BRIEF_LINES, NS, WIDTH, board_lines, method_lines, ms_or_unknown
from edgetop.cli.printing.size_lines import size_lines
from edgetop.cli.printing.usage_text import usage_summary
from edgetop.formatting import (
    UNKNOWN,
    clean,
    doubted,
    interval_text,
    or_unknown,
    rounded,
    share_text,
    shortened,
    stream_name,
)
from edgetop.session.manifest import Manifest
from edgetop.session.operators import LEAST_BURSTS, LEAST_RUNS, ON_CPU
from edgetop.wording import verdict_words
from edgetop.wording.ab_words import ab_lines
from edgetop.wording.cache_words import cache_sizes, fit_words
from edgetop.wording.clue_words import clue_words
from edgetop.wording.fault_words import fault_words
from edgetop.wording.frame_words import frame_words, stage_name
from edgetop.wording.gate_words import gate_words
from edgetop.wording.load_words import headroom_words, late_words, load_words, max_rate_words
from edgetop.wording.notice_words import notice, notice_words
from edgetop.wording.operator_words import (
    energy_cells,
    energy_stands_out,
    energy_unknown_words,
    not_measurable_words,
    provider_words,
    reason_words,
)
from edgetop.wording.risk_words import risk_words
from edgetop.wording.slowdown_words import sizes_words, streams_words
from edgetop.wording.tail_words import tail_words
from edgetop.wording.throttle_words import throttles_words

# Most entries that are listed:
MOST_SLOWDOWNS, MOST_SLOW_INFERENCES, MOST_OPERATORS, MOST_STREAMS = 10, 3, 10, 12
_LABEL = re.compile(r" *\S+ {2,}|    +|")  # where the text of a line begins, below which it goes on


def summary(report: Report, columns: int = WIDTH) -> str:
    """Return the whole report as text, at most `columns` wide. Control characters in names are made visible."""
    return "\n".join(wrapped(summary_lines(report), columns))


def summary_lines(report: Report) -> Iterator[str]:
    """Yield the lines of the whole report, not yet wrapped."""
    # An A/B session shows the comparison instead, because latencies of both variants together mean nothing.
    if report.ab:
        figures: tuple[Iterable[str], ...] = ([""], ab_lines(report.ab))
    else:
        tokens = generation_lines(report.generation, _parallel(report))
        latency = *_latency(report), *size_lines(report)
        figures = steadiness_lines(report), latency, tokens, _tail(report.tail), _frames(report.frames)
    parts = (
        _head(report),
        *figures,
        _load(report),
        gate_lines([(gate.ok, gate_words(gate)) for gate in report.gates or ()]),
        board_lines(report),
        method_lines(report.session),
        _operators(report),
        notice_lines("warning", map(notice, report.warnings)),
    )
    return chain.from_iterable(parts)


def brief_summary(report: Report, columns: int = WIDTH) -> str:
    """Return the summary that a run prints at its end, at most `columns` wide.

    It has at most 23 lines, but more on fewer than 80 columns.
    """
    failed = [gate for gate in report.gates or () if not gate.ok]
    passed = len(report.gates or ()) - len(failed)
    gates = [f"gate       FAILED  {clean(gate_words(gate))}" for gate in failed]
    if passed:
        gates.append(f"gates      {passed} passed")
    figures: tuple[Iterable[str], ...] = (
        (line for line in steadiness_lines(report, most=2, evidence=False) if line),
        islice(_latency(report), 1, 4 + bool(report.latency.response)),
        islice(_frames(report.frames), 1),
        generation_lines(report.generation, _parallel(report)),
    )
    parts: tuple[Iterable[str], ...] = (
        _verdict(report.verdict, report.session),
        _lost(report),
        _unavailable(report),
        gates,
        *((ab_lines(report.ab),) if report.ab else figures),
        islice(_load(report), 1 if len(report.streams) > 1 else 2),  # the verdict has the misses of each model
        islice(heat_lines(report), 1),
        islice(power_lines(report.power), 1),
        islice(energy_lines(report), 1),
        islice(memory_lines(report), int("memory" not in (report.unavailable or {}))),
        *((usage_summary(report),) if report.usage and report.session.watched else ()),
        _largest_operator(report),
        [f"warnings   {len(report.warnings)}: {clean(notice_words(report.warnings[0]))}"] if report.warnings else [],
    )
    most = BRIEF_LINES if columns >= WIDTH else None
    return "\n".join(islice(wrapped(chain.from_iterable(parts), columns), most))


def wrapped(lines: Iterable[str], columns: int = WIDTH) -> Iterator[str]:
    """Yield the lines wrapped at `columns`.

    The continuation of a line is indented to the column where the text after the line's label begins.
    """
    for line in lines:
        indent = " " * _LABEL.match(line).end() if len(line) > columns else ""  # type: ignore[union-attr]
        if len(indent) > columns // 2 or len(line) <= columns:
            yield line
        else:
            yield from textwrap.wrap(
                line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )


def _head(report: Report) -> Iterator[str]:
    session = report.session
    engine, model, board = session.engine, session.model, session.board
    yield from _verdict(report.verdict, session)
    yield f"  session  {clean(session.name)}  {session.created_utc[:19]}Z"
    inputs = " ".join(f"{clean(i.name)} {i.dtype}[{','.join(map(str, i.shape))}]" for i in model.inputs)
    signature = f"  signature {clean(model.signature)}" if model.signature else ""
    yield f"  model    {clean(model.path)}{signature}  {inputs}"
    runtime = f"{engine.runtime or UNKNOWN} {engine.version or ''}".strip()
    is_ours = not session.was_imported and not session.watched
    way = f", {formatting.threads(engine.threads)}, in a {engine.isolation}" if is_ours else ""
    yield from _watched(session)
    if engine.runtime or not session.watched:
        yield f"  engine   {runtime} on {clean(', '.join(engine.providers) or UNKNOWN)}{way}"
    if engine.settings:
        yield f"  set      {clean(', '.join(f'{name}={value}' for name, value in engine.settings.items()))}"
    if report.providers and (engine.asked or len(report.providers) > 1):
        for one in report.providers:
            yield f"  provider {clean(provider_words(one))}"
            yield from (f"           {clean(words)}" for words in reason_words(one.reasons))
    place = ", ".join(clean(str(x)) for x in (board.model, board.cpu, board.os) if x)
    yield f"  board    {place or UNKNOWN}{'  SIMULATED' if board.simulated else ''}"
    yield from _lost(report)
    yield from _unavailable(report)


def _unavailable(report: Report) -> Iterator[str]:
    """Yield a line for each internal error. The line names what the report lacks because of the error."""
    causes: dict[str, list[str]] = {}
    for name, fault in (report.unavailable or {}).items():
        causes.setdefault(fault_words(fault), []).append(name.replace("_", " "))
    for why, names in causes.items():
        yield f"  missing  {', '.join(names)}: {clean(why)}"


def _lost(report: Report) -> Iterator[str]:
    if report.lost:
        yield f"  lost     {report.lost.words}: {clean(report.lost.why)}"


def _watched(session: Manifest) -> Iterator[str]:
    if watched := session.watched:
        cost = "an unknown time" if watched.cost_ns is None else f"{watched.cost_ns / 1e3:.1f} us"
        yield f"  program  {clean(shlex.join(watched.command))}"
        if one := watched.container:
            yield f"  in       a container of {clean(one.image)}, by {clean(one.runtime)}"
        if watched.sources:
            yield f"  seen by  {clean(', '.join(watched.sources))}, which adds {cost} to a call"
        if watched.at_once_mean is not None and watched.outside_share is not None:
            outside = formatting.percent(watched.outside_share)
            at_once = f"{watched.at_once_mean:.2f} at once while any runs, {watched.at_once_max} at most"
            yield f"  calls    {at_once}; {outside} of the time outside inference"
        for number, stream in enumerate(watched.streams[:MOST_STREAMS]):
            yield f"  stream {number}  {shortened(clean(stream.name or UNKNOWN), 60)}"
        if more := watched.streams[MOST_STREAMS:]:
            yield f"           and {len(more)} more"


def _verdict(verdict: Verdict, session: Manifest) -> Iterator[str]:
    """Yield the state or the end of the session, then a line for each further problem."""
    mark = "SIMULATED  " if session.board.simulated else ""
    live = "LIVE, " if session.end_reason is None else ""
    yield f"{mark}{live}{clean(verdict_words.first(verdict))}"
    for other in (*(f"also {word}" for word in verdict_words.also(verdict)), *verdict_words.past(verdict)):
        yield f"  {clean(other)}"


def steadiness_lines(report: Report, *, most: int = MOST_SLOWDOWNS, evidence: bool = True) -> Iterator[str]:
    """Yield lines about speed over time: at the start, in the long run, throttling, slowdowns.

    Yield nothing if too little was measured. `most` is how many slowdowns to list. `evidence` adds the evidence for the
    cause of each slowdown.
    """
    if len(report.streams) > 1:
        yield from _several_streams(report, most, evidence=evidence)
        return
    burst, sustained, drift = report.burst, report.sustained, report.drift_ratio
    missing = report.unavailable or {}
    if burst is None and sustained is None and not (report.slowdowns or report.throttles.spans):
        return
    yield ""
    if sustained:
        change = _change(drift, report.input_sizes)
        yield f"sustained  {_span(sustained)}{change}"
    elif "sustained" not in missing:
        yield "sustained  not known: no span after the burst was steady"
    if "burst" not in missing:
        yield f"burst      {_span(burst)}" if burst else "burst      not known"
    if words := throttles_words(throttles_document(report.throttles), report.throttled_share):
        yield f"throttles  {words}"
    if report.slowdowns is not None:
        yield from _slowdowns(report.slowdowns, most, evidence=evidence)


def _several_streams(report: Report, most: int, *, evidence: bool) -> Iterator[str]:
    """Yield a line for each model, the busiest first, then lines about throttling and the slowdowns of all models.

    `most` is how many slowdowns to list. `evidence` adds the evidence for the cause of each slowdown.
    """
    yield ""
    for one in report.streams[:MOST_STREAMS]:
        latency, change = one.latency, _change(one.drift_ratio, one.input_sizes)
        count = or_unknown(latency.count, formatting.count)
        p50, p99 = (
            doubted(ms_or_unknown(value), settled=latency.is_settled(name))
            for name, value in (("p50", latency.p50_ms), ("p99", latency.p99_ms))
        )
        figures = f"p50 {p50}  p99 {p99} ms  n {count}"
        state = verdict_words.now(one.verdict).lower()
        yield f"stream     {stream_name(one.name, 30)}  {figures}  {state}{change}"
    shown = report.streams[:MOST_STREAMS]
    if left := _stream_count(report) - len(shown):  # Those after the first 32 are not judged, but count as well.
        others = (report.latency.count or 0) - sum(one.latency.count or 0 for one in shown)
        yield f"           and {left} more, with {formatting.quantity(others, 'inference')}"
    if words := throttles_words(throttles_document(report.throttles), report.throttled_share):
        yield f"throttles  {words}"
    if report.slowdowns is not None:
        yield from _slowdowns(report.slowdowns, most, evidence=evidence)


def _stream_count(report: Report) -> int:
    """Return how many streams (models that run at the same time) the session has, with or without a verdict."""
    watched = report.session.watched
    return max(len(report.streams), len(watched.streams) if watched else 0)


def _change(drift: float | None, sizes: InputSizes | None) -> str:
    """Return how latency changed from the first steady seconds to the long run, such as `, +12 % vs burst`.

    `drift` is the long-run latency divided by the latency of the first steady seconds, or None. `sizes` are the input
    sizes. If these differ and `drift` is None, the text says that the latencies cannot be compared. Return "" if
    nothing is known.
    """
    if drift is not None:
        return f", {formatting.signed_percent(drift - 1)} vs burst"
    return f", cannot be compared with the burst: {sizes_words(sizes)}" if sizes and sizes.differ else ""


def _span(span: Span) -> str:
    p50, p99 = (
        doubted(formatting.milliseconds(value * 1e6), settled=span.settled[name])
        for name, value in (("p50", span.p50_ms), ("p99", span.p99_ms))
    )
    when = f"{formatting.clock_time(span.from_s * NS)} to {formatting.clock_time(span.to_s * NS)}"
    return f"p50 {p50}  p99 {p99} ms  {formatting.rate(span.throughput_hz)}/s  {when}"


def _slowdowns(slowdowns: tuple[Slowdown, ...], most: int, *, evidence: bool) -> Iterator[str]:
    if not slowdowns:
        yield "slowdowns  none"
    by_length = sorted(slowdowns, key=_length_ns, reverse=True)
    for slowdown in sorted(by_length[:most], key=lambda slowdown: slowdown.start_ns):
        size = or_unknown(slowdown.latency_ratio, lambda ratio: formatting.signed_percent(ratio - 1))
        end = "the end" if slowdown.end_ns is None else formatting.clock_time(slowdown.end_ns)
        cause = f"{slowdown.cause} (confidence {slowdown.confidence:.2f})"
        if slowdown.streams:
            cause = f"{streams_words(slowdown.streams)}: {cause}"
        yield f"slowdown   {formatting.clock_time(slowdown.start_ns)} to {end}  {size}  {cause}"
        for clue in slowdown.evidence if evidence else ():
            yield f"             {clean(clue_words(clue))}"
    if len(slowdowns) > most:
        yield f"           and {len(slowdowns) - most} shorter"


def _length_ns(slowdown: Slowdown) -> float:
    return float("inf") if slowdown.end_ns is None else slowdown.end_ns - slowdown.start_ns


def _latency(report: Report) -> Iterator[str]:
    yield ""
    latency, tool = report.latency, report.latency.told_by
    if not latency.count and not latency.errors and report.session.watched and report.usage:
        yield "latency    no inference was seen: this is the usage of the whole program"
        return
    if "latency" in (report.unavailable or {}):
        yield "latency    not available"
        return
    if not latency.count and tool is None:
        yield "latency    nothing was measured"
        return
    if len(report.streams) > 1:
        rate = or_unknown(latency.throughput_hz, formatting.rate)
        count, errors = formatting.quantity(latency.count, "inference"), formatting.quantity(latency.errors, "error")
        yield f"latency    of {_stream_count(report)} models, each by itself (stream); together:"
        yield f"           {count}, {rate}/s, {errors}"
        return
    names = ("min", *PERCENTILE_KEYS, "max", "mean")
    times: dict[str, Times] = {"        ms": latency}
    if latency.response:
        times = {"service ms": latency, "  resp. ms": latency.response}
    rows = [
        [doubted(ms_or_unknown(getattr(of, f"{name}_ms")), settled=latency.is_settled(name)) for name in names]
        for of in times.values()
    ]
    labels = ("latency   ", *times)
    for label, line in zip(labels, table([*map(_percentile_name, names)], rows, words=()), strict=True):
        yield f"{label} {line}"
    count, errors = formatting.quantity(latency.count, "inference"), formatting.quantity(latency.errors, "error")
    stdev, jitter = ms_or_unknown(latency.stdev_ms), ms_or_unknown(latency.jitter_ms)
    scatter = "" if latency.stdev_ms is None else f"; stdev {stdev}, jitter {jitter} ms"
    rate = or_unknown(latency.throughput_hz, formatting.rate)
    yield f"           {count}, {rate}/s, {errors}{scatter}"
    if tool is not None:
        yield f"           as printed by {clean(tool)}: single inferences are not known"
    if not all(map(latency.is_settled, names)):
        yield "           ? not settled: too few inferences, or too few independent ones"
    intervals = [
        f"{_percentile_name(name)} {ms_or_unknown(interval[0])} to {ms_or_unknown(interval[1])}"
        for name in PERCENTILE_KEYS
        if (interval := (latency.ci95 or {}).get(f"{name}_ms"))
    ]
    if intervals:
        yield f"           95 %: {', '.join(intervals)}"


def _tail(tail: TailView) -> Iterator[str]:
    """Yield lines about the causes of the slowest inferences, then about the three slowest inferences."""
    if not tail.slowest:
        return
    yield f"tail       of the {len(tail.slowest)} slowest, one a second: {clean(tail_words(tail.parts))}"
    for one in tail.slowest[:MOST_SLOW_INFERENCES]:
        who = f" ({clean(one.who)})" if one.who else ""
        who += f", {clean(one.stream)}" if one.stream else ""
        when, took = formatting.clock_time(one.t_ns), formatting.milliseconds(one.latency_ns)
        yield f"           {took} ms at {when}: {one.cause.replace('-', ' ')}{who}"


def _frames(frames: FramesView | None) -> Iterator[str]:
    """Yield lines about the times of a watched program's frames (such as camera images) and of the parts of a frame."""
    if frames is None:
        return
    yield f"frames     {frame_words(frames)}"
    yield f"           {'mean':>8}  {'p50':>8}  {'p99':>8} ms   share"
    for stage in frames.stages:
        times = "  ".join(f"{ms_or_unknown(ms):>8}" for ms in (stage.mean_ms, stage.p50_ms, stage.p99_ms))
        yield f"           {times}     {formatting.percent(stage.share):>6}  {clean(stage_name(stage))}"


def _load(report: Report) -> Iterator[str]:
    """Yield a line about the load, then lines about the deadline, if there is one.

    A load without pauses between inferences gets no line. With several models, each has a line about the deadline.
    """
    latency, load, deadline = report.latency, report.session.load, report.latency.deadline
    if words := load_words(load):
        yield f"load       {words}"
    if latency.streams:
        rates = ", ".join(formatting.rate(stream.throughput_hz) for stream in latency.streams)
        yield f"           by stream, /s: {rates}"
    if deadline and len(report.streams) > 1:
        yield f"deadline   {deadline.ms:g} ms: {_missed(deadline)} by all models together"
        for one in report.streams[:MOST_STREAMS]:
            if one.deadline:
                yield f"           {stream_name(one.name, 24)}: {_missed(one.deadline)}; {_headroom(one.deadline)}"
    elif deadline:
        run = f", {deadline.longest_run} in a row at most" if deadline.misses else ""
        yield f"deadline   {deadline.ms:g} ms: {_missed(deadline)}{run}; {_headroom(deadline)}"
        if deadline.cause:
            yield f"           {clean(late_words(deadline.cause))}"
        if deadline.risk:
            yield f"risk       {risk_words(deadline.risk, latency.throughput_hz)}"
        if max_rate_hz := rounded(deadline.max_rate_hz):
            yield f"           by its service time it {max_rate_words(max_rate_hz)}"


def _missed(deadline: DeadlineView) -> str:
    return f"{formatting.fine_percent(deadline.miss_rate)} missed ({deadline.misses})"


def _headroom(deadline: DeadlineView) -> str:
    return headroom_words(round(deadline.headroom_ns / 1e6, 6))


def _percentile_name(name: str) -> str:
    return "p99.9" if name == "p999" else name


def _operators(report: Report) -> Iterator[str]:
    """Yield lines about the operators that take the most time, the slowest first."""
    operators, profile = report.operators, report.profile
    if not operators or not profile:
        return
    yield ""
    yield f"operators  {len(operators)}, partitions {report.partitions or UNKNOWN}; those that take the most time:"
    runs, bursts = (
        formatting.quantity(profile.runs, "inference"),
        formatting.quantity(profile.bursts, "profiling round"),
    )
    yield f"           {clean(profile.way or UNKNOWN)}; {runs} in {bursts}"
    if profile.disturbed:
        yield "           other programs took CPU time from every instrumented inference: no share is settled"
    elif profile.left_out_runs:
        yield f"           {profile.left_out_runs} more are left out, because other programs took CPU time from them"
    if not all(operator.settled for operator in operators):
        yield f"           ? not settled: needs {LEAST_BURSTS} rounds and {LEAST_RUNS} inferences that agree"
    yield from _operator_table(sorted(operators, key=lambda operator: -operator.share)[:MOST_OPERATORS])
    if why := not_measurable_words([one.rate_unknown for one in operators]):
        yield f"           {why}"
    if caches := report.session.board.caches:
        yield f"           caches {cache_sizes(caches)}:"
        sets = [
            (shortened(clean(one.origin or one.name), 40), one.bytes) for one in operators if one.provider in ON_CPU
        ]
        yield from (f"           {line}" for line in fit_words(sets, caches))
    if profile.energy_unknown and profile.energy_unknown.why != "no-meter":
        yield f"           energy of each operator: unknown: {energy_unknown_words(profile.energy_unknown)}"
    elif any(one.energy_mj is not None for one in operators):
        yield "           mJ in an inference, from the power readings; a letter marks operators known together"
        if words := energy_stands_out(operators):
            yield f"           {words}"


def _operator_table(operators: Sequence[OperatorFigures]) -> Iterator[str]:
    """Yield the lines of a table of operators, at most 80 columns wide.

    Columns without information are left out, and long names are shortened.
    """
    columns = {
        "us": [or_unknown(one.mean_us, "{:.1f}".format) for one in operators],
        "%": [share_text(one.share, settled=one.settled) for one in operators],
        "95 %": [interval_text(one.share_ci95) for one in operators],
        "mJ": energy_cells(operators),
        "GFLOP/s": [or_unknown(one.gflop_per_s, "{:.1f}".format) for one in operators],
        "bound": [one.bound or UNKNOWN for one in operators],
        "on": [clean(one.provider) for one in operators],
        "type": [clean(one.op_type) for one in operators],
    }
    useless = {"mJ": [UNKNOWN], "GFLOP/s": [UNKNOWN], "bound": [UNKNOWN], "on": [columns["on"][0]]}
    columns = {name: cells for name, cells in columns.items() if set(cells) != set(useless.get(name, ()))}
    names = [clean(one.origin or one.name) for one in operators]
    rows = [[*cells, "|"] for cells in zip(*columns.values(), strict=True)]  # marks where the name begins
    lines = table([*columns, "|"], rows, words=("bound", "on", "type"), indent="  ")
    for name, line in zip(("name", *names), lines, strict=True):
        row = line.removesuffix("|")
        yield f"{row}{shortened(name, WIDTH - len(row))}"


def _largest_operator(report: Report) -> Iterator[str]:
    """Yield a line about the operator that takes the most time. Yield nothing while its share is still uncertain."""
    largest = max(report.operators or (), key=lambda one: one.share, default=None)
    if largest and largest.settled:
        name = clean(largest.origin or largest.name)
        yield f"hotspot    {share_text(largest.share, settled=True)} % {clean(largest.op_type)} {shortened(name, 40)}"


def _parallel(report: Report) -> int:
    generation = report.session.generation
    return generation.parallel if generation else 1
