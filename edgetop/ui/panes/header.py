"""The two lines that are always there: the verdict in words, and what is being run."""

from collections.abc import Iterator
from pathlib import PurePath

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.formatting import clean
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import BLANK, Line, Span, as_fits, fit, line, spread, width


def verdict_line(view: MonitorView, area: Area, frozen_ns: int | None) -> Line:
    """`frozen_ns`: how far a frozen screen is behind; None: it is not frozen."""
    verdict = view.verdict
    words = [Span(f" {verdict.word} ", verdict.level)]
    if verdict.silent_ns is not None:
        words.append(Span(f" for {formatting.duration(verdict.silent_ns)}:", "text"))
    if view.manifest and view.manifest.board.simulated:
        words.insert(0, Span(" SIMULATED ", "simulated"))
    if frozen_ns is not None:
        words.insert(0, Span(f" FROZEN {formatting.duration(frozen_ns)} behind ", "focus"))
    also = line((f"{' ' if verdict.reason else ''} {verdict.also} ", "warning")) if verdict.also else BLANK
    if verdict.reason:
        reason = line(f" {clean(verdict.reason, ascii_only=area.look.ascii_only)}")
        room = area.width - width(tuple(words)) - width(also)
        words += fit(reason, room) if also and width(reason) > room else reason
    words += also
    clock = line(f"{formatting.clock_time(view.progress.now_ns)} ")
    room = area.width - width(tuple(words)) - 1 - width(clock)
    return spread((*words, *as_fits(room, *_figures(view))), clock, area.width)


def _figures(view: MonitorView) -> Iterator[str]:
    session = view.latency.session
    if session is None or view.progress.phase not in ("measure", "over"):
        return
    p50, p99 = (formatting.milliseconds(session.percentile_ns(q)) for q in (0.50, 0.99))
    yield f"  p50 {p50}  p99 {p99} ms"
    if session.throughput_hz is not None:
        yield f"  {formatting.rate(session.throughput_hz)}/s"


def identity_line(view: MonitorView, area: Area, recording: str, *, is_trouble: bool = False) -> Line:
    """Model, runtime, board; `recording` says where it goes, or why nothing comes."""
    manifest = view.manifest
    if manifest is None:
        return line((" edgetop", "dim"))
    engine = manifest.engine
    absent = "loading" if manifest.state == "live" else "never loaded"
    parts = (engine.runtime, engine.version, "+".join(engine.providers))
    runtime = " ".join(part for part in parts if part) if engine.runtime else absent
    board = manifest.board.model or manifest.board.cpu or ""
    names = (PurePath(manifest.model.path).name, runtime, board)
    text = "   ".join(clean(name, ascii_only=area.look.ascii_only) for name in names if name)
    told = line((f"  {recording} ", "warning" if is_trouble else "dim"))
    told = fit(told, area.width) if width(told) > area.width else told
    return (*fit(line((f" {text}", "dim")), max(0, area.width - width(told))), *told)


def tiny_lines(view: MonitorView) -> list[Line]:
    """Three numbers, for a screen that has room for nothing else."""
    session = view.latency.session
    if session is None:
        return [line(("nothing measured yet", "dim"))]
    rate = formatting.UNKNOWN if session.throughput_hz is None else formatting.rate(session.throughput_hz)
    values = (
        ("p50", f"{formatting.milliseconds(session.percentile_ns(0.50))} ms"),
        ("p99", f"{formatting.milliseconds(session.percentile_ns(0.99))} ms"),
        ("rate", f"{rate}/s"),
    )
    return [line((f"{name:>5} ", "dim"), text) for name, text in values]
