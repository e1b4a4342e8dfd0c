"""The lines above and below the panes: verdict, session, main figures, the position of a replay, and the keys."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.verdict_data import Verdict
from edgetop.analysis.verdict_reasons import AbDifference, EndedAs, MissedDeadline, Past, State, WasSlowed, WasThrottled
from edgetop.analysis.vitals import Vital, vitals
from edgetop.feeds.feed_protocol import Mark, Transport
from edgetop.formatting import UNKNOWN, clean, doubted, milliseconds, or_unknown, stream_name
from edgetop.ui.charts import bar
from edgetop.ui.panes.pane import Area
from edgetop.ui.panes.sensor_series import last, readout
from edgetop.ui.text import COLUMN_GAP, Line, Piece, Span, as_fits, cells_of, fit, joined, line, width
from edgetop.wording import verdict_words
from edgetop.wording.ab_words import p50_words
from edgetop.wording.operator_words import engine_providers_words
from edgetop.wording.remedy_words import remedy_words
from edgetop.wording.vital_words import SECONDS_FROM_NS, elapsed_words, vital_words

WIDE_FROM_CELLS = 100  # from this width on, the first line has the requested duration and longer words
STREAM_FROM_CELLS = 120  # from this width on, it names the model of the figures, if there are several
RESPONSE_FROM_CELLS = 80  # from this width on, it says that latencies are response times
WALL_FROM_CELLS = 140  # from this width on, it has the time of day of the end
LEAST_DETAIL_CELLS = 12  # least width of a cut text, since less would say nothing
MS_CELLS, CLOCK_CELLS, WIDE_CLOCK_CELLS = 5, 6, 7  # widths of a latency in ms and of the elapsed time
RATE_CELLS, WIDE_RATE_CELLS = 5, 6
BAR_CELLS = ((160, 10), (WIDE_FROM_CELLS, 4))  # width of the screen from which a gauge has a bar of this width
MARKS = {"warning": "!", "critical": "!"}  # severity must not be shown by colour alone
# By the first word of a figure, or of the number of warnings: the pane that shows more.
_PANES = {
    **dict.fromkeys(("p99", "missed", "decode", "ITL", "TTFT", "context"), "latency"), "memory": "memory",
    "leak": "memory", "heat": "heat", "clock": "heat", "CPU": "heat", "power": "power", "input": "power",
    "done": "session", "!": "session",
}  # fmt: skip
_MORE = re.compile(rf"(?<= )({'|'.join(_PANES)})(?= )")
_PHRASE_END = re.compile(r"[,;:] | \(| at (?=\d)")
_NUMBER = re.compile(r"(?:^|[ +-])\d")


def verdict_line(
    view: MonitorView, area: Area, frozen_ns: int | None, *, panes: MonitorView | None = None, has_figures: bool = True
) -> Line:
    """Return the first line of the screen: the verdict, the figure that proves it, since when it holds, and its cause.

    At its right end are p50, p99, rate and elapsed time, always in the same places. What does not fit is cut from the
    end of the words. `frozen_ns` is how far a frozen screen is behind the present, in ns, or None. `panes` is the view
    that the panes show; p50, p99 and rate are taken from it, so that the screen never has two different values. If it
    is None, they are taken from `view`. `has_figures` tells whether they are in the line.
    """
    head = verdict_words.headline(view.verdict, view.progress.now_ns)
    state = Span(f" {head.state} ", view.verdict.level)
    figures = _figures(panes or view, area) if has_figures else []
    is_wide = area.width >= WIDE_FROM_CELLS
    clock = Span(f"{_elapsed(view, area.width)}{' ' * is_wide}")
    for count in range(len(figures), -1, -1):  # only a frozen or very narrow screen leaves out a figure
        right = (*figures[:count], clock)
        for frozen in _frozen_words(frozen_ns, is_wide=is_wide):
            left = line((frozen, "focus"), state)
            room = area.width - width(left) - width(right)
            if room >= 0:
                body = _body(_parts(view, area, head, room), room - 1 - is_wide, " " * is_wide)
                return (*left, *body, *line(" " * (room - width(body))), *right)
    return fit((state,), area.width)


def _frozen_words(frozen_ns: int | None, *, is_wide: bool) -> Sequence[str]:
    """Return a long and a short text on how far a frozen screen is behind, or one empty text if it is not frozen."""
    if frozen_ns is None:
        return ("",)
    return (f" FROZEN {formatting.duration(frozen_ns)}{' behind' if is_wide else ''} ", " FROZEN ")


def _elapsed(view: MonitorView, cells: int) -> str:
    """Return the elapsed time as text of a fixed width.

    On a wide screen, the requested duration follows, then the time of day at which the session ends. `cells` is the
    width of the screen.
    """
    now, of, end = elapsed_words(view).partition(" of ")
    asked = end if cells >= WALL_FROM_CELLS else end.partition(", ends")[0]
    is_wide = cells >= WIDE_FROM_CELLS
    return f"{now:>{WIDE_CLOCK_CELLS if is_wide else CLOCK_CELLS}}{of + asked if is_wide else ''}"


def _figures(view: MonitorView, area: Area) -> list[Span]:
    """Return p50, p99 and rate of the chosen window, each as a piece of fixed width.

    Return [] before measuring begins and in an A/B session. The latencies are of the same kind as in the heat map:
    response times if a rate was asked for, unless the user chose service times.
    """
    latency, progress = view.latency, view.progress
    window = latency.window_response if latency.heat_is_response else latency.window
    if view.latency.session is None or view.ab is not None or progress.phase not in ("measure", "over"):
        return []
    is_wide = area.width >= WIDE_FROM_CELLS
    gap, style = COLUMN_GAP if is_wide else "", "dim" if progress.phase == "over" else "text"
    p50, p99 = (UNKNOWN, "ms"), (UNKNOWN, "ms")
    if window is not None:
        in_seconds = window.percentile_ns(0.99) >= SECONDS_FROM_NS
        p50, p99 = (_figure(view, window, of, in_seconds=in_seconds) for of in (0.50, 0.99))
    # The unit of p50 is left out unless it is s, which must not be taken for the ms of the service times.
    p50_text = f"{p50[0]}{'s' if p50[1] == 's' else ''} ".ljust(MS_CELLS + 1)
    p99_text = f"{p99[0]} {p99[1]}".ljust(MS_CELLS + len(" ms"))
    rate = or_unknown(latency.window.throughput_hz if latency.window else None, formatting.rate)
    named = stream_name(view.latency.stream, STREAM_CELLS) if area.width >= STREAM_FROM_CELLS else ""
    before = f"{named:>{STREAM_CELLS}}  " if named else ""
    rate = f"{rate:>{WIDE_RATE_CELLS}}" if is_wide else f"{rate.replace(' ', ''):>{RATE_CELLS}}"
    felt = "response " if is_wide else "resp. " if area.width >= RESPONSE_FROM_CELLS else ""
    felt = felt if latency.heat_is_response else ""
    texts = (
        f"{before}{last(view) if is_wide or view.verdict.level == 'critical' else ''}{felt}p50 {p50_text}{gap}",
        f"p99 {p99_text} {gap}",
        f"{rate}/s {gap}",
    )
    return [Span(area.clean(text), style) for text in texts]


def _figure(view: MonitorView, window: Statistics, quantile: float, *, in_seconds: bool) -> tuple[str, str]:
    """Return a percentile of `window` as (number, unit), in s if `in_seconds`, else in ms. `quantile` is 0.5 for p50.

    With too few inferences, the number has two significant digits and a `?`.
    """
    ns, is_settled = window.percentile_ns(quantile), view.is_settled(window, quantile)
    if in_seconds:
        return doubted(f"{ns / 1e9:.{1 if is_settled else 0}f}", settled=is_settled), "s"
    return doubted(milliseconds(ns) if is_settled else formatting.unsettled_ms(ns), settled=is_settled), "ms"


def _body(parts: Iterable[tuple[str, str]], cells: int, before: str) -> Line:
    """Return the first of `parts` that fit into `cells` cells, as a line. A part is (text, style).

    The first part that does not fit is shortened if possible. All parts after it are left out. `before` is a text in
    front of each part.
    """
    body: list[Span] = []
    for text, style in parts:
        part = f"{before}{' ' if body else ''}{text}"
        if cells_of(part) > cells:
            if style == "text" and cells > LEAST_DETAIL_CELLS:
                body += line((_cut(part, cells, is_only=not body), style))
            break
        body.append(Span(part, style))
        cells -= cells_of(part)
    return tuple(body)


def _cut(text: str, cells: int, *, is_only: bool = True) -> str:
    """Cut a text to `cells` cells, at the end of a phrase if possible.

    Otherwise cut the text at the end of a word, or within a very long word, and add ` >`. But return "" for a text with
    a number, because a cut would change its meaning. If `is_only` is True, the line has no other text, and the text is
    cut in spite of a number.

    >>> [_cut("killed by SIGSEGV (it crashed)", cells) for cells in (17, 25)], _cut("no reason that is known", 17)
    (['killed by SIGSEGV', 'killed by SIGSEGV'], 'no reason that >')
    >>> _cut("by a-program-with-a-long-name", 17)
    'by a-program-wi >'
    >>> _cut("full in 12h31m", 12, is_only=False)
    ''
    """
    ends = [end.start() for end in _PHRASE_END.finditer(text) if cells_of(text[: end.start()]) <= cells]
    if ends:
        return text[: ends[-1]]
    if not is_only and _NUMBER.search(text):
        return ""
    (part, *_) = fit((Span(text),), cells - 1)
    words = part.text.rpartition(" ")[0].rstrip()
    return f"{words if 2 * cells_of(words) > cells else part.text.rstrip()} >"  # a long word is cut within


def _parts(view: MonitorView, area: Area, head: verdict_words.Headline, cells: int) -> list[tuple[str, str]]:
    """Return the words after the verdict as (text, style) pairs, the most important first.

    `cells` is the room for all these words. It decides whether long or short words are used.
    """
    verdict, is_over = view.verdict, view.progress.phase == "over"
    figure = head.figure
    if area.width < WIDE_FROM_CELLS:
        beside = [text for text in (head.since, *head.causes[:1]) if text]
        room = cells - 1 - sum(cells_of(text) + 1 for text in beside)
        figure = head.figure if cells_of(head.figure) <= room else head.brief
    causes = [(text, "text") for text in head.causes]
    if is_over and verdict.level != "critical":
        told = verdict_words.past(verdict)
        if _whole_cells((*told, *head.causes)) > cells:
            told = tuple(map(verdict_words.past_in_brief, verdict.past))
        ended = [(text, "text") for text in told]
        # Past events matter more than the reason of the end, but not the state in which the session ended.
        is_trouble = not (verdict.gist is None or isinstance(verdict.gist, AbDifference))
        parts = [*ended, *causes] if is_trouble else [*causes, *ended]
    else:
        also = () if is_over else verdict_words.also(verdict)
        parts = [(text, "text") for text in (figure, head.since) if text] + causes + [(text, "text") for text in also]
        usual = _usual_words(view)
        fresh = replace(verdict, past=tuple(of for of in verdict.past if not _is_told(of, verdict)))
        past, evidence = (
            [(text, "dim") for text in of] for of in (verdict_words.past(fresh), (*usual, *head.evidence))
        )
        past = (
            [(f"{_before(of)}: {text}", style) for of, (text, style) in zip(fresh.past, past, strict=True)]
            if is_over
            else past
        )
        is_roomy = _whole_cells(text for text, _ in (*parts, *past, *evidence)) <= cells
        if not is_roomy and _whole_cells(text for text, _ in (*parts, *past)) > cells:
            past = [(f"was {verdict_words.past_in_brief(of)}", "dim") for of in fresh.past if _has_passed(of)]
        parts += (*past, *evidence) if is_roomy else (*evidence, *past)  # the past only takes free columns
    return [(area.clean(text), style) for text, style in parts]


def _is_told(trouble: Past, verdict: Verdict) -> bool:
    """Whether the past problem `trouble` is missed deadlines, and `verdict` says that deadlines are missed now."""
    return isinstance(trouble, MissedDeadline) and any(of.state is State.MISSING_DEADLINE for of in verdict.also)


def _before(trouble: Past) -> str:
    """Return the words in front of a past problem or state of a session that broke off: "before" or "speed before".

    "speed before" stands in front of a state such as "steady", which does not mean that all was well.
    """
    return "speed before" if isinstance(trouble, EndedAs) else "before"


def _usual_words(view: MonitorView) -> Iterator[str]:
    """Yield the text `usual p50 7.100 ms`, the p50 of the first steady half minute.

    Yield nothing if the verdict does not compare the present p50 with it.
    """
    verdict = view.verdict
    if verdict.p50_change is not None and not verdict.is_of_mean and view.burst is not None:
        yield f"usual p50 {milliseconds(view.burst.p50_ns)} ms"


def _has_passed(trouble: Past) -> bool:
    """Whether the short text for `trouble` is one that can follow "was", such as "throttled"."""
    return isinstance(trouble, WasThrottled | WasSlowed)


def _whole_cells(texts: Iterable[str]) -> int:
    return sum(cells_of(text) + len(COLUMN_GAP) for text in texts)


def identity_line(
    view: MonitorView, area: Area, recording: str, *, is_trouble: bool = False, frozen: Verdict | None = None
) -> Line:
    """Return the second line of the screen: advice against the present problem, then model, runtime and board.

    `recording` is the text at its right end, about the recording or a problem of the connection. `is_trouble` makes
    that text a warning.

    `frozen` is the verdict that the first line shows while the screen is frozen, else None. If the present verdict is
    worse, the line begins with the present verdict.
    """
    manifest = view.manifest
    if manifest is None:
        return line((" edgetop", "dim"))
    engine = manifest.engine
    absent = "loading" if manifest.state == "live" else "never loaded"
    absent = "no inference seen" if view.progress.is_program else absent
    parts = (engine.runtime, engine.version, engine_providers_words(engine, view.operators.operators))
    runtime = " ".join(part for part in parts if part) if engine.runtime else absent
    board = manifest.board.model or manifest.board.cpu or ""
    models = [one.name for one in manifest.ab.variants] if manifest.ab else [manifest.model_name]
    names: tuple[str, ...] = (" or ".join(models), runtime, board)
    if view.latency.stream and area.width < STREAM_FROM_CELLS:  # the model of the figures in line 1
        names = (stream_name(view.latency.stream, STREAM_CELLS), *names)
    verdict = view.verdict
    remedy = area.clean(remedy_words(verdict))
    tried = f" try: {remedy}  " if remedy else ""
    news = f" now {verdict_words.state_word(verdict)} " if frozen and _is_worse(verdict, frozen) else ""
    before = line((news, verdict.level), (" SIMULATED " if manifest.board.simulated else "", "simulated"))
    needed = width(before) + cells_of(tried)
    if view.latency.stream and area.width < STREAM_FROM_CELLS:
        needed += cells_of(names[0]) + 1
    right = _notes(view, area, recording, needed, is_trouble=is_trouble)
    shown = [area.clean(name) for name in names if name]
    room = max(0, area.width - width(right) - width(before))
    if tried and cells_of(tried) <= room:
        before, room = (*before, Span(tried)), room - cells_of(tried)
        if room < LEAST_DETAIL_CELLS:
            shown = []
    while len(shown) > 1 and cells_of(f" {'   '.join(shown)}") > room:
        shown.pop()
    return (*before, *fit(line((f" {'   '.join(shown)}", "dim")), room), *right)


def _notes(view: MonitorView, area: Area, recording: str, needed: int, *, is_trouble: bool) -> Line:
    """Return the right end of the second line: how many warnings there are, and the text `recording`.

    The number of warnings is followed by the key that shows them, if there is room for it. `needed` is how many cells
    the left part of the line takes. `is_trouble` says that `recording` is drawn as a warning.
    """
    many = len(view.notices)
    warned = f"  ! {formatting.quantity(many, 'warning')}" if many else ""
    ends = ((f"  {recording} ", "warning" if is_trouble else "dim"),)
    keyed = line((f"{warned}: press 7", "warning"), *ends)
    if many and width(keyed) + needed <= area.width:
        return keyed
    right = line((warned, "warning"), *ends)
    return fit(right, area.width) if width(right) > area.width else right


def _is_worse(now: Verdict, before: Verdict) -> bool:
    """Return True if the verdict `now` differs from `before` and is a warning or critical."""
    return now.state is not before.state and now.level in MARKS


def vitals_line(view: MonitorView, area: Area) -> Line:
    """Return the third line of the screen: the most important figures, such as memory and heat.

    Figures with a limit come first, with a bar that shows how near the limit is. Order and widths never change. If not
    all figures fit, the last are left out, but figures with a problem stay as long as possible. After the end of the
    session, the line shows the last values, dimmed.
    """
    is_over = view.progress.phase == "over"
    before = f" last values, {formatting.elapsed(view.progress.now_ns)} " if is_over else ""
    cells = area.width - len(before) - 1  # keep one cell free at the edge
    shown = [(vital, vital_words(vital.figure)) for vital in vitals(view)]
    gauges = [of for of in shown if of[0].is_gauge]
    bars = next((bar for least, bar in BAR_CELLS if area.width >= least and not is_over), 0)
    if _cells(gauges) + (bars + 1) * len(gauges) > cells:
        bars = 0
    while shown and _cells(shown) + (bars + 1 if bars else 0) * sum(vital.is_gauge for vital, _ in shown) > cells:
        figures = [of for of in shown if not of[0].is_gauge] or shown
        well = [of for of in figures if of[0].level not in MARKS]
        shown.remove((well or figures)[-1])
    if not shown:
        is_early = view.progress.phase not in ("measure", "over")
        none = f" no limit is known{' yet' if is_early else ''}"
        return as_fits(max(0, area.width - 1), (none, "dim"))
    pieces: list[Piece] = [(before, "dim"), " "]
    for vital, words in shown:
        style = "dim" if is_over else vital.level if vital.level in MARKS else "text"
        pieces += [(f"{vital.name} ", "dim"), (f"{words}{MARKS.get(vital.level, ' ')}", style)]
        if vital.share is not None and bars:
            rest = "." if area.characters.ascii_only else "\u2591" if area.characters.boxes else "\u28c0"
            filled = bar(vital.share, bars, area.characters, rest=rest)
            full = math.ceil(min(max(vital.share, 0.0), 1.0) * bars)
            level = vital.level if vital.level != "critical" else "hot"
            pieces += [" ", (filled[:full], level), (filled[full:], "frame")]
        pieces.append(COLUMN_GAP)
    return line(*pieces[:-1])


def pane_at(row: str, x: int) -> str:
    """Return the name of the pane that shows more on what is at column `x` of line 2 or 3, or "" for none.

    In line 2 that is the number of warnings, in line 3 a figure. `row` is the text of the line.

    >>> pane_at("  heat  71 of 85 C   power 6.1 W  ", 12), pane_at("  power 6.1 W  ! 2 warnings  REC ", 20)
    ('heat', 'session')
    """
    found = list(_MORE.finditer(row))
    ends = [*(after.start() for after in found[1:]), len(row.rstrip())]
    names = [_PANES[one[1]] for one, end in zip(found, ends, strict=True) if one.start() <= x < end]
    return names[0] if names else ""


def _cells(shown: Sequence[tuple[Vital, str]]) -> int:
    """Return how many cells these figures take, each with its name and words but no bar."""
    return 1 - len(COLUMN_GAP) + sum(len(of.name) + cells_of(words) + 2 + len(COLUMN_GAP) for of, words in shown)


def readout_line(view: MonitorView, second: float, area: Area) -> Line:
    """Return a line with all values at one moment, at which the user points. `second` is its session time in s.

    The line replaces the third line of the screen.
    """
    pieces: list[Piece] = [(f" at {formatting.clock_time(second * 1e9)} ", "focus"), COLUMN_GAP]
    for name, value in readout(view, second):
        pieces += [(f"{name} ", "dim"), f"{value}{COLUMN_GAP}"]
    return as_fits(area.width, *pieces)


def tiny_lines(view: MonitorView) -> list[Line]:
    """Return the lines below the verdict on a tiny screen: p50, p99 and rate."""
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
    """Return the session time in ns at column `x` of a replay's time bar, or None if `x` is beside the bar.

    `transport` is the state of the replay, with its length.
    """
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
    """Return the character for a cell of the time bar with these events. It shows the most severe event."""
    gravest = max((mark.severity for mark in marks), key=list(MARK_SPANS).index)
    is_users = gravest == "info" and any(mark.kind == "mark" for mark in marks)
    return USERS_MARK if is_users else MARK_SPANS[gravest]


Keys = Sequence[tuple[str, str]]  # (key, description), the most important first


def status_line(view: MonitorView, area: Area, keys: Keys) -> Line:
    cost = _cost(view)
    left = fit(key_spans(_fitting(view, area, keys)), max(0, area.width - len(cost)), "title")
    return fit((*left, Span(cost, "title")), area.width, "title")


def key_spans(keys: Iterable[tuple[str, str]]) -> Line:
    """Return (key, description) pairs, such as `("q", "leave")`, as a line: ` q leave ` and so on."""
    return tuple(span for key, does in keys for span in (Span(f" {key}", "key"), Span(f" {does} ", "title")))


def key_at(view: MonitorView, area: Area, keys: Keys, x: int) -> tuple[str, str, int] | None:
    """Return which key of the last line is at column `x`: its text, its description, and the index of the character.

    The text can have several keys, such as `zZ`; the index tells which one was hit. Return None if there is no key.
    """
    begin = 0
    for key, does in _fitting(view, area, keys):
        end = begin + len(key) + len(does) + 3
        if x < end:
            return key, does, min(max(x - begin - 1, 0), len(key) - 1)
        begin = end
    return None


def _fitting(view: MonitorView, area: Area, keys: Keys) -> Iterator[tuple[str, str]]:
    """Yield the first of `keys`, as many as fit into the last line, as (key, description) pairs."""
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
