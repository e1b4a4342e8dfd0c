"""Header and footer lines: the verdict, the session and the vital signs; a replay's position and the keys."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.verdict_reasons import Lasts
from edgetop.analysis.vitals import Vital, vitals
from edgetop.feeds.feed_protocol import Mark, Transport
from edgetop.formatting import clean, milliseconds, or_unknown, shortened
from edgetop.ui.charts import bar
from edgetop.ui.panes.pane import Area
from edgetop.ui.panes.sensor_series import last, readout
from edgetop.ui.text import COLUMN_GAP, Line, Piece, Span, as_fits, cells_of, fit, joined, line, spread, width
from edgetop.wording import verdict_words
from edgetop.wording.ab_words import p50_words
from edgetop.wording.vital_words import elapsed_words, vital_words

WALL_FROM_CELLS = 100
BAR_CELLS = (4, 10)  # least and greatest width of a gauge
MARKS = {"warning": "!", "critical": "!"}  # severity must not be shown by colour alone
LEAST_DETAIL_CELLS = 12  # least width of a cut text, since less would say nothing
LASTS, FIRST_DETAIL, FIRST_PAST = 0, 1, 5  # ranks; how long the state has lasted is the last to be left out
_PHRASE_END = re.compile(r"[,;:] | \(")
CUT = (FIRST_DETAIL, FIRST_PAST)  # parts with these ranks are cut instead of left out


def verdict_line(view: MonitorView, area: Area, frozen_ns: int | None) -> Line:
    """Return the current verdict with the figures of the chosen window.

    If the line is too short, the least important parts are left out, but never the elapsed time and p50.
    `frozen_ns`: how far a frozen screen is behind, or None.
    """
    whole, is_wide = elapsed_words(view), area.width >= WALL_FROM_CELLS
    clock = line(f"{whole if is_wide else whole.partition(', ends')[0]} ")  # with the time of day if there is room
    frozen = "" if frozen_ns is None else f" FROZEN {formatting.duration(frozen_ns)} behind "
    simulated = " SIMULATED " if view.manifest and view.manifest.board.simulated else ""
    head = line(
        (frozen, "focus"), (simulated, "simulated"), (f" {verdict_words.state_word(view.verdict)} ", view.verdict.level)
    )
    room = area.width - width(head) - width(clock)  # one cell before the first part, and one before the clock
    parts = _parts(view, area)
    kept: dict[int, Span] = {}
    for place, (rank, text, style) in sorted(enumerate(parts), key=lambda item: item[1][0]):
        gap = 1 if rank == LASTS and not is_wide else len(COLUMN_GAP)
        part = Span(" " * gap + text, style)
        if cells_of(part.text) > room > LEAST_DETAIL_CELLS and rank in CUT:
            part = Span(_cut(part.text, room), style)
        if cells_of(part.text) <= room:
            kept[place] = part
            room -= cells_of(part.text)
    body = [kept[place] for place in sorted(kept)]
    body = [Span(f" {part.text.lstrip()}", part.style) for part in body[:1]] + body[1:]
    return spread((*head, *body), clock, area.width)


def _cut(text: str, cells: int) -> str:
    """Cut a text at the end of a phrase, or else at the end of a word.

    >>> [_cut("killed by SIGSEGV (it crashed)", cells) for cells in (17, 25)], _cut("no reason that is known", 17)
    (['killed by SIGSEGV', 'killed by SIGSEGV'], 'no reason that >')
    """
    ends = [end.start() for end in _PHRASE_END.finditer(text) if cells_of(text[: end.start()]) <= cells]
    if ends:
        return text[: ends[-1]]
    (part, *_) = fit((Span(text),), cells - 1)
    return f"{part.text.rpartition(' ')[0].rstrip() or part.text} >"


def _parts(view: MonitorView, area: Area) -> list[tuple[int, str, str]]:
    """Yield the parts of the line in order, as (rank, text, style). The most important part has the lowest rank."""
    verdict = view.verdict
    is_over = view.progress.phase == "over"
    ended_well = is_over and verdict.level != "critical"  # past events then matter more than the reason of the end
    past_now = 11 if verdict.reasons else FIRST_PAST  # of less weight than what holds
    first_detail, first_past = (3, FIRST_DETAIL) if ended_well else (FIRST_DETAIL, 3 if is_over else past_now)
    details = [
        (LASTS if isinstance(reason, Lasts) else first_detail + 3 * place, verdict_words.reason_words(reason), "text")
        for place, reason in enumerate(verdict.reasons)
    ]
    also = [(2 + 4 * place, text, "warning") for place, text in enumerate(verdict_words.also(verdict))]
    past = [(first_past + 4 * place, text, "dim") for place, text in enumerate(verdict_words.past(verdict))]
    figures = list(_figures(view))
    parts = [*details, *past, *figures] if is_over else [*details, *also, *figures, *past]
    return [(rank, area.clean(text), style) for rank, text, style in parts]


def _figures(view: MonitorView) -> Iterator[tuple[int, str, str]]:
    window = view.latency.window
    if window is None or view.ab is not None or view.progress.phase not in ("measure", "over"):
        return
    p50, p99 = (f"{milliseconds(window.percentile_ns(of))}{'' if window.is_settled(of) else '?'}" for of in (0.5, 0.99))
    change = "" if view.verdict.p50_change is None else f" {formatting.signed_percent(view.verdict.p50_change)}"
    style = "dim" if view.progress.phase == "over" else "text"
    if view.latency.stream:  # the change is of the stream that the verdict names
        change = ""
        yield -2, shortened(clean(view.latency.stream), STREAM_CELLS), style
    yield -1, f"{last(view)}p50 {p50} ms{change}", style
    yield 6, f"p99 {p99}", style
    if window.throughput_hz is not None:
        yield 10, f"{formatting.rate(window.throughput_hz)}/s", style


def identity_line(view: MonitorView, area: Area, recording: str, *, is_trouble: bool = False) -> Line:
    """Return model, runtime and board. `recording`: text on the recording, or on a problem of the feed."""
    manifest = view.manifest
    if manifest is None:
        return line((" edgetop", "dim"))
    engine = manifest.engine
    absent = "loading" if manifest.state == "live" else "never loaded"
    absent = "no inference seen" if view.progress.is_program else absent
    parts = (engine.runtime, engine.version, "+".join(engine.providers))
    runtime = " ".join(part for part in parts if part) if engine.runtime else absent
    board = manifest.board.model or manifest.board.cpu or ""
    models = [one.name for one in manifest.ab.variants] if manifest.ab else [manifest.model_name]
    names = (" or ".join(models), runtime, board)
    many = len(view.notices)
    warned = f"  ! {formatting.quantity(many, 'warning')}: press 7" if many else ""
    right = line((warned, "warning"), (f"  {recording} ", "warning" if is_trouble else "dim"))
    right = fit(right, area.width) if width(right) > area.width else right
    shown = [area.clean(name) for name in names if name]
    room = max(0, area.width - width(right))
    while len(shown) > 1 and cells_of(f" {'   '.join(shown)}") > room:
        shown.pop()
    return (*fit(line((f" {'   '.join(shown)}", "dim")), room), *right)


def vitals_line(view: MonitorView, area: Area) -> Line:
    """Return a gauge for each vital sign. If they do not fit, the last ones without a problem are left out.

    For a session that is over, they show the last values, dimmed.
    """
    is_over = view.progress.phase == "over"
    before = f" last values, {formatting.stopwatch(view.progress.now_ns)} " if is_over else ""
    shown, cells = list(vitals(view)), area.width - len(before) - 1  # keep one cell free at the edge
    least_bar = BAR_CELLS[0] + 1 if area.width >= WALL_FROM_CELLS and not is_over else 0
    while shown and _cells(shown) + least_bar * sum(vital.share is not None for vital in shown) > cells:
        well = [vital for vital in shown if vital.level not in MARKS]
        shown.remove((well or shown)[-1])
    if not shown:
        return as_fits(area.width, (" no vital signs yet", "dim"))
    gauges = sum(vital.share is not None for vital in shown)
    spare = (cells - _cells(shown)) // gauges - 1 if gauges and not is_over else 0
    bars = min(spare, BAR_CELLS[1]) if spare >= BAR_CELLS[0] else 0
    pieces: list[Piece] = [(before, "dim"), " "]
    for vital in shown:
        style = "dim" if is_over else vital.level if vital.level in MARKS else "text"
        pieces += [(f"{vital.name} ", "dim"), (f"{vital_words(vital.figure)}{MARKS.get(vital.level, '')}", style)]
        if vital.share is not None and bars:
            rest = "." if area.characters.ascii_only else "\u2591" if area.characters.boxes else "\u28c0"
            filled = bar(vital.share, bars, area.characters, rest=rest)
            cells = math.ceil(min(max(vital.share, 0.0), 1.0) * bars)
            level = vital.level if vital.level != "critical" else "hot"
            pieces += [" ", (filled[:cells], level), (filled[cells:], "frame")]
        pieces.append(COLUMN_GAP)
    return line(*pieces[:-1])


def _cells(shown: Sequence[Vital]) -> int:
    """Return the width of these values without bars."""
    widths = (len(vital.name) + len(vital_words(vital.figure)) + 1 + (vital.level in MARKS) for vital in shown)
    return 1 - len(COLUMN_GAP) + sum(cells + len(COLUMN_GAP) for cells in widths)


def readout_line(view: MonitorView, second: float, area: Area) -> Line:
    """Return all values at the session time under the cursor, shown in place of the vital signs."""
    pieces: list[Piece] = [(f" at {formatting.clock_time(second * 1e9)} ", "focus"), COLUMN_GAP]
    for name, value in readout(view, second):
        pieces += [(f"{name} ", "dim"), f"{value}{COLUMN_GAP}"]
    return as_fits(area.width, *pieces)


def tiny_lines(view: MonitorView) -> list[Line]:
    """Return the lines of a tiny screen: the verdict and three numbers."""
    session = view.latency.session
    if view.ab is not None:
        return [line((p50_words(view.ab), "text"))]
    if session is None:
        return [line(("no samples yet", "dim"))]
    if view.latency.stream:
        return [line((clean(view.latency.stream), "dim")), *_tiny(session)]
    return _tiny(session)


def _tiny(session: Statistics) -> list[Line]:
    values = (
        ("p50", f"{milliseconds(session.percentile_ns(0.50))} ms"),
        ("p99", f"{milliseconds(session.percentile_ns(0.99))} ms"),
        ("rate", f"{or_unknown(session.throughput_hz, formatting.rate)}/s"),
    )
    return [line((f"{name:>5} ", "dim"), text) for name, text in values]


STREAM_CELLS = 20  # of the name of a model
LEAST_BAR_CELLS = 10
# Spans of marks by severity. Glyphs differ, because severity must not be shown by colour alone.
MARK_SPANS = {"info": Span("|", "accent"), "warning": Span("!", "warning"), "critical": Span("X", "critical")}
USERS_MARK = Span("m", "accent")
BAR_HEAD = ">"
PLAYED, ABAR_HEAD = ("⠶", "⠤"), ("=", "-")


def transport_line(transport: Transport, area: Area) -> Line:
    left = _position(transport)
    return fit((*left, *_transport_bar(transport, area.width - width(left) - 1, area)), area.width)


def time_at(transport: Transport, area: Area, x: int) -> int | None:
    """Return the session time in ns of a cell of the line, or None if it is not on the bar."""
    begin = width(_position(transport))
    cells = area.width - begin - 1
    if cells < LEAST_BAR_CELLS or not begin <= x < begin + cells:
        return None
    return (x - begin) * transport.end_ns // max(cells - 1, 1)


def _position(transport: Transport) -> Line:
    word, style = (" PLAY  ", "good") if transport.is_playing else (" PAUSE ", "focus")
    at, end = formatting.clock_time(transport.t_ns), formatting.clock_time(transport.end_ns)
    return (Span(word, style), Span(f" {formatting.speed(transport.speed):>5} {at} of {end} "))


def _transport_bar(transport: Transport, cells: int, area: Area) -> Line:
    if cells < LEAST_BAR_CELLS:
        return ()
    played, ahead = ABAR_HEAD if area.characters.ascii_only else PLAYED
    head = _cell(transport.t_ns, transport, cells)
    cells_of_bar = [Span(played if x < head else ahead, "graph" if x < head else "dim") for x in range(cells)]
    for x, marks in groupby(transport.marks, key=lambda mark: _cell(mark.t_ns, transport, cells)):
        cells_of_bar[x] = _mark(list(marks))
    cells_of_bar[head] = Span(BAR_HEAD, "focus")
    return joined(tuple(cells_of_bar))


def _cell(t_ns: int, transport: Transport, cells: int) -> int:
    return min(max(t_ns, 0) * (cells - 1) // max(transport.end_ns, 1), cells - 1)


def _mark(marks: list[Mark]) -> Span:
    """Return the span of the most severe of the marks in one cell."""
    gravest = max((mark.severity for mark in marks), key=list(MARK_SPANS).index)
    is_users = gravest == "info" and any(mark.kind == "mark" for mark in marks)
    return USERS_MARK if is_users else MARK_SPANS[gravest]


Keys = Sequence[tuple[str, str]]  # (key, description), the most important first


def status_line(view: MonitorView, area: Area, keys: Keys) -> Line:
    cost = _cost(view)
    left = fit(key_spans(_fitting(view, area, keys)), max(0, area.width - len(cost)), "title")
    return fit((*left, Span(cost, "title")), area.width, "title")


def key_spans(keys: Iterable[tuple[str, str]]) -> Line:
    """Return keys and their descriptions as a line."""
    return tuple(span for key, does in keys for span in (Span(f" {key}", "key"), Span(f" {does} ", "title")))


def key_at(view: MonitorView, area: Area, keys: Keys, x: int) -> tuple[str, str, int] | None:
    """Return the key in this cell, its description, and the index of the hit character, or None."""
    begin = 0
    for key, does in _fitting(view, area, keys):
        end = begin + len(key) + len(does) + 3
        if x < end:
            return key, does, min(max(x - begin - 1, 0), len(key) - 1)
        begin = end
    return None


def _fitting(view: MonitorView, area: Area, keys: Keys) -> Iterator[tuple[str, str]]:
    """Yield the keys that fit, in order."""
    room = area.width - len(_cost(view)) - 1
    for key, does in keys:
        room -= len(key) + len(does) + 3
        if room < 0:
            return
        yield key, does


def _cost(view: MonitorView) -> str:
    load, memory = (track.now if track else None for track in (view.own_load, view.own_memory))
    rss = "" if memory is None else f" {formatting.size(memory * 2**20)}"
    return f"edgetop {formatting.reading(load, '%')} %{rss} "
