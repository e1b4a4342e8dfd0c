"""The report of a session as Markdown: the verdict, tables of the main results, and the whole text report, folded."""

from collections.abc import Iterator, Sequence

from edgetop import formatting
from edgetop.analysis.ab_figures import AbView
from edgetop.analysis.report_generation import GenerationFigures
from edgetop.analysis.report_parts import PERCENTILE_KEYS, LatencyFigures, Span
from edgetop.analysis.session_report import Report
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.cli.printing.markdown import advised, block, bullets, code, escaped, folded, markdown_table
from edgetop.cli.printing.report_text import summary
from edgetop.formatting import UNKNOWN, doubted, interval_text, or_unknown, share_text
from edgetop.session.manifest import Manifest
from edgetop.wording import verdict_words
from edgetop.wording.ab_words import ab_value, change_words, p50_words, reading_words
from edgetop.wording.ab_words import verdict_words as ab_verdict_words
from edgetop.wording.gate_words import gate_words
from edgetop.wording.notice_words import notice

MOST_SLOWDOWNS, MOST_OPERATORS, MOST_STREAMS = 10, 10, 12
NS = 1e9


def report_markdown(report: Report, more: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a report as a Markdown document. `more` holds lines to append to the text report in it."""
    session, verdict = report.session, report.verdict
    simulated = "SIMULATED: " if session.board.simulated else ""
    yield f"### edgetop report {code(session.name)}"
    yield ""
    yield f"**{simulated}{escaped(verdict_words.first(verdict))}**"
    others = (*(f"also {word}" for word in verdict_words.also(verdict)), *verdict_words.past(verdict))
    if report.lost:
        others = (*others, f"lost: {report.lost.words}: {report.lost.why}")
    yield from ("", *(f"- {escaped(other)}" for other in others)) if others else ()
    yield from markdown_table(("", "what was measured"), _facts(session))
    yield from _ab(report.ab) if report.ab else _figures(report)
    yield from markdown_table(
        ("gate", "result", ""),
        ((code(one.gate.text), _passed(one.ok), escaped(gate_words(one))) for one in report.gates or ()),
    )
    yield from _operators(report)
    yield from bullets("Warnings", (advised(one.message, one.advice) for one in map(notice, report.warnings)))
    yield from folded("The whole report", block("\n".join((summary(report), *more))))


def _facts(session: Manifest) -> Iterator[Sequence[str]]:
    engine, board = session.engine, session.board
    yield "model", code(session.model.path)
    runtime = f"{engine.runtime or UNKNOWN} {engine.version or ''}".strip()
    used = "" if session.watched else f", {formatting.threads(engine.threads)}"
    yield "engine", f"{code(runtime)} on {code(', '.join(engine.providers))}{used}"
    yield "board", code(", ".join(str(one) for one in (board.model, board.cpu, board.os) if one))
    lasted = "" if session.duration_ns is None else f", {formatting.duration(session.duration_ns)}"
    yield "session", f"{escaped(session.created_utc[:16].replace('T', ' '))} UTC{lasted}"
    if session.labels:
        yield "labels", ", ".join(code(f"{key}={value}") for key, value in session.labels.items())


def _figures(report: Report) -> Iterator[str]:
    yield from _streams(report) if len(report.streams) > 1 else _latency(report.latency)
    heads = ("", "p50 ms", "p99 ms", "inferences/s", "from", "to")
    spans = (("burst", report.burst), ("sustained", report.sustained))
    yield from markdown_table(heads, [_span(name, span) for name, span in spans if span], heads[1:])
    yield from _tokens(report.generation) if report.generation else ()
    yield from _slowdowns(report.slowdowns or ())
    yield from markdown_table(("", "value"), _use(report), ("value",))


def _tokens(figures: GenerationFigures) -> Iterator[str]:
    heads = ("", "p50 ms", "p99 ms", "prefill tok/s", "decode tok/s", "J/token")
    rates = [or_unknown(rate, formatting.rate) for rate in (figures.prefill_tok_s, figures.decode_tok_s)]
    joules = or_unknown(figures.j_per_token, lambda joules: f"{joules:.3g}")
    times = (("TTFT", figures.ttft, (rates[0], "", "")), ("ITL", figures.itl, ("", rates[1], joules)))
    rows = [
        (name, _ms(of.p50_ms), doubted(_ms(of.p99_ms), settled=of.settled), *more)
        for name, of, more in times
        if of is not None
    ]
    yield from markdown_table(heads, rows, heads[1:])


def _streams(report: Report) -> Iterator[str]:
    heads = ("model", "p50 ms", "p99 ms", "inferences", "state")
    rows = [
        (
            code(one.name), *(
                doubted(_ms(value), settled=one.latency.is_settled(name))
                for name, value in (("p50", one.latency.p50_ms), ("p99", one.latency.p99_ms))
            ),
            or_unknown(one.latency.count, formatting.count), escaped(verdict_words.now(one.verdict).lower()),
        )
        for one in report.streams[:MOST_STREAMS]
    ]  # fmt: skip
    yield from markdown_table(heads, rows, heads[1:4])


def _slowdowns(slowdowns: Sequence[Slowdown]) -> Iterator[str]:
    heads = ("slowdown at", "until", "slower by", "cause", "confidence")
    yield from markdown_table(heads, map(_slowdown, slowdowns[:MOST_SLOWDOWNS]), heads[:3])
    if len(slowdowns) > MOST_SLOWDOWNS:
        yield from ("", f"and {len(slowdowns) - MOST_SLOWDOWNS} later")


def _latency(latency: LatencyFigures) -> Iterator[str]:
    names = ("min", *PERCENTILE_KEYS, "max", "mean")
    heads = tuple("p99.9" if name == "p999" else name for name in names)
    rows = []
    for label, times in (("service ms" if latency.response else "ms", latency), ("response ms", latency.response)):
        if times:
            cells = (doubted(_ms(getattr(times, f"{n}_ms")), settled=latency.is_settled(n)) for n in names)
            rows.append((label, *cells))
    yield from markdown_table(("latency", *heads), rows if latency.count or latency.told_by else (), heads)
    if "?" in "".join(cell for row in rows for cell in row):
        yield from ("", "? not settled: too few inferences, or too few independent ones")


def _span(name: str, span: Span) -> Sequence[str]:
    times = (formatting.clock_time(at * NS) for at in (span.from_s, span.to_s))
    p50, p99 = (
        doubted(_ms(value), settled=span.settled[quantile])
        for quantile, value in (("p50", span.p50_ms), ("p99", span.p99_ms))
    )
    return name, p50, p99, formatting.rate(span.throughput_hz), *times


def _slowdown(one: Slowdown) -> Sequence[str]:
    slower = or_unknown(one.latency_ratio, lambda ratio: formatting.signed_percent(ratio - 1))
    end = "the end" if one.end_ns is None else formatting.clock_time(one.end_ns)
    return formatting.clock_time(one.start_ns), end, slower, escaped(one.cause), f"{one.confidence:.2f}"


def _use(report: Report) -> Iterator[Sequence[str]]:
    """Yield `(name, value)` rows for the known figures: rate, deadline, temperature, power, energy, memory."""
    latency, power, energy, memory = report.latency, report.power, report.energy, report.memory
    unavailable = report.unavailable or {}
    if latency.count:
        yield "inferences", formatting.count(latency.count)
        yield "inferences/s", or_unknown(latency.throughput_hz, formatting.rate)
    if latency.deadline:
        yield f"missed {latency.deadline.ms:g} ms", formatting.fine_percent(latency.deadline.miss_rate)
    for sensor, zone in sorted(report.temperature.items(), key=lambda pair: -(pair[1].max or 0))[:1]:
        yield f"hottest, {code(sensor)}", f"{or_unknown(zone.max, '{:.1f}'.format)} °C"
    if power.total_sensor:
        yield f"power, {code(power.total_sensor)}", f"{formatting.reading(power.mean_w, 'W')} W"
    if energy.gross_mj is not None and not report.ab:
        half = None if energy.ci95_mj is None else (energy.ci95_mj[1] - energy.ci95_mj[0]) / 2
        if energy.uncertainty and energy.uncertainty.total_mj is not None:
            half = energy.uncertainty.total_mj
        error = "" if half is None else f" ± {formatting.millijoules(half, 2)}"
        yield "energy of an inference", f"{formatting.millijoules(energy.gross_mj)}{error} mJ"
    if "memory" not in unavailable and memory.rss_peak_mib is not None:
        yield "peak RSS", f"{memory.rss_peak_mib:.1f} MiB"


def _ab(view: AbView) -> Iterator[str]:
    yield from ("", escaped(p50_words(view)), escaped(reading_words(view)))
    names = [code(variant.name) for variant in view.variants]
    yield from bullets("A and B", (f"{letter}: {name}" for letter, name in zip("AB", names, strict=False)))
    rows = []
    for metric, ratio in view.ratios.items() if view.variants else ():
        change = (change_words(ratio), ab_verdict_words(ratio)) if ratio else ("", "too few turns")
        rows.append((metric, ab_value(view, metric, 0), *change))
    heads = ("", "A", "B to A (95 %)", "B is")
    yield from markdown_table(heads, rows, heads[1:3])


def _operators(report: Report) -> Iterator[str]:
    heads = ("operator", "type", "on", "us", "%", "95 %")
    largest = sorted(report.operators or (), key=lambda one: -one.share)[:MOST_OPERATORS]
    rows = (
        (
            code(one.origin or one.name), code(one.op_type), code(one.provider),
            or_unknown(one.mean_us, "{:.1f}".format), share_text(one.share, settled=one.settled).strip(),
            interval_text(one.share_ci95),
        )
        for one in largest
    )  # fmt: skip
    yield from markdown_table(heads, rows, heads[3:])


def _passed(ok: bool) -> str:
    return "passed" if ok else "**FAILED**"


def _ms(value: float | None) -> str:
    return UNKNOWN if value is None else formatting.milliseconds(value * 1e6)
