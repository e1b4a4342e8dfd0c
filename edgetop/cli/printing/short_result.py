"""The result of a short run in five lines, to paste into a chat: the verdict, the model, latency, rate, the board.

Longer runs print more (`report_text`), as do runs with several models, A/B sessions, language models and programs.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from textwrap import wrap

from edgetop import formatting
from edgetop.analysis.session_report import Report
from edgetop.formatting import UNKNOWN, clean, doubted, or_unknown, shortened
from edgetop.wording import verdict_words

SHORT_S = 60.0  # seconds of measuring
WIDTH_CELLS = 80
LINE_CELLS = WIDTH_CELLS - len("  response ")  # columns of a line behind its name
_NAME_CELLS, _BOARD_CELLS = 40, 24


def is_short(report: Report) -> bool:
    """Whether five lines can show the whole result: one model without `--fail-if`, measured for at most a minute."""
    session, latency = report.session, report.latency
    is_plain = not (report.ab or session.watched or session.was_imported or report.generation or report.frames)
    is_whole = not (report.lost or report.unavailable or len(report.streams) > 1)
    measured_s = None if not latency.throughput_hz else (latency.count or 0) / latency.throughput_hz
    return is_plain and is_whole and not report.gates and measured_s is not None and measured_s <= SHORT_S


def short_result(report: Report, columns: int = WIDTH_CELLS) -> str:
    """Return the result in five lines, or more on fewer `columns` than 80.

    Control characters in names are made visible.
    """
    lines = [_verdict(report), *(f"  {name:<8} {words}" for name, words in _lines(report))]
    if columns < WIDTH_CELLS:
        indent = " " * (WIDTH_CELLS - LINE_CELLS)
        wrapped = (
            wrap(one, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
            for one in lines
        )
        lines = list(chain.from_iterable(wrapped))
    return "\n".join(lines)


def _verdict(report: Report) -> str:
    simulated = "SIMULATED  " if report.session.board.simulated else ""
    parts = [simulated + verdict_words.first(report.verdict), *_more(report)]
    return "; ".join(_fitting(list(map(clean, parts)), WIDTH_CELLS))


def _more(report: Report) -> Iterator[str]:
    """Yield texts about further problems, to show after the verdict. Present problems come before past ones."""
    yield from (f"also {word}" for word in verdict_words.also(report.verdict))
    yield from map(verdict_words.past_in_brief, report.verdict.past)


def _fitting(parts: Sequence[str], room: int) -> Iterator[str]:
    """Yield as many of `parts` as fit into `room` columns when joined by "; ". The first part is always yielded."""
    for place, part in enumerate(parts):
        room -= len(part) + len("; ") * (place > 0)
        if place and room < 0:
            return
        yield part


def _subject(report: Report) -> str:
    session, engine = report.session, report.session.engine
    model = shortened(clean(PurePath(session.model.path).name), _NAME_CELLS)
    runtime = f"{engine.runtime or UNKNOWN} {engine.version or ''}".strip()
    threads = formatting.threads(engine.threads)
    precision = f", {clean(engine.settings['precision'])}" if engine.settings.get("precision") else ""
    return f"{model}  {clean(runtime)} on {clean(', '.join(engine.providers) or UNKNOWN)}{precision}, {threads}"


def _lines(report: Report) -> Iterator[tuple[str, str]]:
    latency = report.latency
    yield "model", _subject(report)
    times = latency.response or latency
    spread = "" if times.mean_ms is None or latency.stdev_ms is None else f" ± {_ms(latency.stdev_ms)}"
    p50, p99 = (
        doubted(_ms(value), settled=latency.is_settled(name))
        for name, value in (("p50", times.p50_ms), ("p99", times.p99_ms))
    )
    figures = f"p50 {p50}  p99 {p99}"
    rest = f"mean {_ms(times.mean_ms)}{'' if latency.response else spread}"
    kind = "response" if latency.response else "latency"
    yield kind, f"{figures}  {rest}  min {_ms(times.min_ms)}  max {_ms(times.max_ms)} ms"
    count, errors = formatting.quantity(latency.count, "inference"), formatting.quantity(latency.errors, "error")
    missed = ""
    if latency.deadline:
        missed = f"; {formatting.fine_percent(latency.deadline.miss_rate)} missed {latency.deadline.ms:g} ms"
    yield "rate", f"{or_unknown(latency.throughput_hz, formatting.rate)}/s, {count}, {errors}{missed}"
    warned = [formatting.quantity(len(report.warnings), "warning")] if report.warnings else []
    yield "board", "; ".join(_fitting([", ".join(_board(report)), *warned], LINE_CELLS))


def _board(report: Report) -> Iterator[str]:
    board = report.session.board
    yield shortened(clean(board.model or board.cpu or UNKNOWN), _BOARD_CELLS)
    hottest = max((zone.max for zone in report.temperature.values() if zone.max is not None), default=None)
    if hottest is not None:
        yield f"{hottest:.1f} °C"
    if report.power.total_sensor and report.power.mean_w is not None:
        yield f"{formatting.reading(report.power.mean_w, 'W')} W"
    if report.energy.gross_mj is not None:
        yield f"{formatting.millijoules(report.energy.gross_mj)} mJ an inference"
    if report.memory.rss_peak_mib is not None:
        yield f"RSS {report.memory.rss_peak_mib:.0f} MiB"


def _ms(value: float | None) -> str:
    return UNKNOWN if value is None else formatting.milliseconds(value * 1e6)
