"""The session pane: the model, the engine and the board, and warnings about the figures."""

import shlex
from collections.abc import Iterator, Sequence

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.formatting import UNKNOWN, milliseconds, or_unknown, quantity
from edgetop.session.manifest import Manifest
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.text import BLANK, Line, line, wrapped
from edgetop.wording.counter_words import counter_words
from edgetop.wording.gate_words import gate_words
from edgetop.wording.load_words import load_words
from edgetop.wording.notice_words import notice

LABEL_CELLS = 11


def title(view: MonitorView, _: Area) -> str:
    count = len(view.notices)
    return formatting.quantity(count, "warning") if count else ""


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    if view.manifest is None:
        return [line(("no data yet", "dim"))]
    lines: list[Line] = []
    for told in map(notice, view.notices):
        lines += wrapped(area.clean(f"! {told.message}"), area.width, "warning")
        lines += wrapped(area.clean(told.advice), area.width, "text", indent="  ")
        lines.append(BLANK)
    for gate in view.gates:
        style = "good" if gate.ok else "critical" if gate.fails_for_sure else "warning"
        lines += wrapped(area.clean(f"gate {gate_words(gate)}"), area.width, style)
    for label, text in (*_facts(view.manifest), *_counted(view)):
        rows = wrapped(area.clean(text), max(8, area.width - LABEL_CELLS)) or [BLANK]
        lines.append(line((f"{label:<{LABEL_CELLS}}", "dim"), *rows[0]))
        lines += [line(" " * LABEL_CELLS, *row) for row in rows[1:]]
    return lines


def _facts(manifest: Manifest) -> Iterator[tuple[str, str]]:
    model, engine, board = manifest.model, manifest.engine, manifest.board
    about = (model.format, None if model.whole_bytes is None else formatting.size(model.whole_bytes))
    yield "model", f"{model.path} ({', '.join(part for part in about if part) or UNKNOWN})"
    if watched := manifest.watched:
        yield "program", " ".join(watched.command)
        cost = or_unknown(watched.cost_ns, lambda ns: f"{ns / 1e3:.1f}")
        yield "seen by", f"{', '.join(watched.sources) or UNKNOWN}; adds {cost} us to a call"
        if watched.outside_share is not None and watched.at_once_mean is not None:
            outside = f"{formatting.percent(watched.outside_share)} of the time outside inference"
            yield "calls", f"{watched.at_once_mean:.2f} at once while any runs, {outside}"
        for number, stream in enumerate(watched.streams):
            yield f"stream {number}", f"{stream.name or UNKNOWN} {stream.inputs or ''}".rstrip()
    for tensor in model.inputs:
        yield "input", f"{tensor.name} {tensor.dtype} [{','.join(map(str, tensor.shape))}], {manifest.load.input}"
    runtime = " ".join(part for part in (engine.runtime, engine.version) if part) or UNKNOWN
    yield "runtime", f"{runtime} on {', '.join(engine.providers) or UNKNOWN}"
    yield "command", shlex.join(manifest.command) or UNKNOWN
    if words := load_words(manifest.load):
        yield "load", words
    if not manifest.was_imported:
        yield "threads", str(engine.threads or "the runtime's default")
        yield "isolation", f"in a {engine.isolation}"
    yield from (("setting", f"{name}={value}") for name, value in engine.settings.items())
    if engine.init_ns is not None:
        first = or_unknown(engine.first_ns, milliseconds)
        part = "" if engine.compile_ns is None else f" ({milliseconds(engine.compile_ns)} ms to compile)"
        yield "start", f"load {milliseconds(engine.init_ns)} ms{part}, first inference {first} ms"
    yield "board", board.model or UNKNOWN
    yield "cpu", f"{board.cpu or UNKNOWN}, {quantity(board.cores or None, 'core')}"
    yield "system", f"{board.os or UNKNOWN}, Linux {board.kernel or UNKNOWN}"
    yield "governor", board.governor or UNKNOWN
    yield "session", f"{manifest.name}  {manifest.id}"
    yield "begun" if manifest.clock.anchors else "made", manifest.created_utc[:19] + "Z"
    for key, value in manifest.labels.items():
        yield "label", f"{key}={value}"
    for note in manifest.methodology.notes:
        yield "note", note


def _counted(view: MonitorView) -> Iterator[tuple[str, str]]:
    if words := counter_words(view.counters):
        yield "counted", f"{words}; of an inference"


def _subject(view: MonitorView) -> object:
    """Return everything that the pane shows. While it stays equal, the pane is not drawn again.

    Warnings are compared as text, because their figures change more often than their text.
    """
    return view.manifest, tuple(map(notice, view.notices)), view.gates, counter_words(view.counters)


SESSION = Drawing("session", title, body, scrolls=True, subject=_subject)
