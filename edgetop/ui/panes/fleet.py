"""Many boards in lines: a table with a line each, the details of one of them, and the log of all."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from edgetop import formatting
from edgetop.feeds.fleet import BoardView, Logged
from edgetop.formatting import UNKNOWN
from edgetop.session.seconds import NS
from edgetop.session.summary import Course, Summary
from edgetop.ui.charts import strip
from edgetop.ui.panes.events import MARKS, STYLES
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import Column, Line, Piece, cells_of, fit, line, spread, table, width

COURSE_CELLS = 20
MIN_C = 20.0  # of a chart of temperature: its bottom
FULL_C = 100.0  # and its top, where the zone has no trip
NAME_CELLS = (5, 10)
OLD_S = 4.0
_MARK = {"critical": "X ", "warning": "! "}  # so that colour is not the only carrier
_SIMULATED = " SIM"
VERDICT_CELLS = 17


@dataclass(frozen=True, slots=True)
class _Figure:
    column: Column
    piece: Callable[[BoardView, Summary, Area], Piece]


def _plain(title: str, cells: int, field: str, words: Callable[[float], str]) -> _Figure:
    """A column of one field as it is."""

    def piece(_view: BoardView, summary: Summary, _area: Area) -> Piece:
        value: float | None = getattr(summary, field)
        return UNKNOWN if value is None else words(value)

    return _Figure(Column(title, cells), piece)


def _name(view: BoardView, _summary: Summary, area: Area) -> Piece:
    return area.clean(view.address.name)


def _verdict(view: BoardView, summary: Summary, area: Area) -> Piece:
    simulated = _SIMULATED if summary.simulated else ""
    word = area.clean(f"{_MARK.get(view.level, '  ')}{view.word}")
    return formatting.cut(word, VERDICT_CELLS - len(simulated)) + simulated, view.level


def _p99(view: BoardView, summary: Summary, _area: Area) -> Piece:
    if summary.p99_ms is None:
        return UNKNOWN
    text = f"{formatting.milliseconds(summary.p99_ms * 1e6)}{'' if summary.settled else '?'}"
    if not summary.deadline_ms:
        return text
    return f"{text}/{summary.deadline_ms:g}", "critical" if view.tail_share > 1 else "text"


def _heat(_view: BoardView, summary: Summary, _area: Area) -> Piece:
    if summary.temperature_c is None:
        return UNKNOWN
    if summary.headroom_c is None:
        return f"{summary.temperature_c:.0f}"
    style = "critical" if summary.headroom_c <= 0 else "warning" if summary.headroom_c < 5 else "text"
    return f"{summary.temperature_c:.0f}/{summary.temperature_c + summary.headroom_c:.0f}", style


def _clock(_view: BoardView, summary: Summary, _area: Area) -> Piece:
    if summary.clock_share is None:
        return UNKNOWN
    return formatting.whole_percent(summary.clock_share), "warning" if summary.throttled else "text"


def _age(view: BoardView, _summary: Summary, _area: Area) -> Piece:
    if view.age_s is None:
        return UNKNOWN
    return _short(view.age_s), "warning" if view.age_s > OLD_S and view.state != "over" else "text"


def _short(seconds: float) -> str:
    """Format a duration in four cells.

    >>> _short(4.2), _short(900), _short(7_300), _short(8e5)
    ('4 s', '15 m', '2 h', '9 d')
    """
    unit, of = next(((unit, of) for unit, of in (("s", 1), ("m", 60), ("h", 3600)) if seconds < 99 * of), ("d", 86400))
    return f"{seconds / of:.0f} {unit}"


def _p99_chart(_view: BoardView, summary: Summary, area: Area) -> Piece:
    return _drawn(summary.p99_course_ms, 0.0, summary.deadline_ms or 0.0, area), "p99"


def _heat_chart(_view: BoardView, summary: Summary, area: Area) -> Piece:
    is_known = summary.temperature_c is not None and summary.headroom_c is not None
    full_c = (summary.temperature_c or 0.0) + (summary.headroom_c or 0.0) if is_known else FULL_C
    return _drawn(summary.temperature_course_c, MIN_C, full_c, area), "temperature"


def _drawn(course: Course, low: float, high: float, area: Area) -> str:
    """The newest step stands at the right; the highest value is full where it is beyond `high`."""
    values = np.array([np.nan if value is None else value for value in course[-COURSE_CELLS:]])
    if not len(values) or np.isnan(values).all():
        return ""
    high = max(high, float(np.nanmax(values)), low + 1e-9)
    shares = np.clip((values - low) / (high - low), 1e-3, 1.0)
    return strip(np.nan_to_num(shares), area.characters).rjust(COURSE_CELLS)


# As many as fit are shown, from the left.
_FIGURES = (
    _Figure(Column("VERDICT", VERDICT_CELLS, right=False), _verdict),
    _plain("P50 MS", 6, "p50_ms", lambda ms: formatting.milliseconds(ms * 1e6)),
    _Figure(Column("P99/LIMIT", 10), _p99),
    _plain("MISSED", 6, "miss_rate", lambda share: formatting.fine_percent(share).replace(" ", "")),
    _Figure(Column("C/TRIP", 6), _heat),
    _Figure(Column("CLOCK", 5), _clock),
    _Figure(Column("AGE", 4), _age),
    _plain("WATT", 5, "power_w", lambda watts: formatting.reading(watts, "W")),
    _plain("UP", 8, "elapsed_s", lambda seconds: formatting.stopwatch(seconds * 1e9)),
    _plain("FREE", 6, "memory_left_mib", lambda mib: formatting.size(mib * 2**20).replace(" ", "").removesuffix("iB")),
    _Figure(Column("MODEL", 18, right=False), lambda _view, summary, area: area.clean(summary.model) or UNKNOWN),
    _Figure(Column("P99 COURSE", COURSE_CELLS), _p99_chart),
    _Figure(Column("HEAT COURSE", COURSE_CELLS), _heat_chart),
    _Figure(Column("GROUP", 10, right=False), lambda view, _summary, area: area.clean(view.address.group)),
)  # fmt: skip


def board_lines(views: Sequence[BoardView], area: Area) -> list[Line]:
    """A head, and a line for each. Figures of a board that is silent are dim: they are of before."""
    longest = max((cells_of(area.clean(view.address.name)) for view in views), default=0)
    most = NAME_CELLS[1] if area.width < 100 else 2 * NAME_CELLS[1]
    name = Column("BOARD", min(max(longest, NAME_CELLS[0]), most), right=False)
    figures = (_Figure(name, _name), *_FIGURES)
    rows = [_row(view, figures, area) for view in views]
    return [line(" ", *of) for of in table([figure.column for figure in figures], rows, area.width - 1)]


def _row(view: BoardView, figures: Sequence[_Figure], area: Area) -> list[Piece]:
    summary = view.summary or Summary()
    is_old = view.state not in ("live", "over")
    if view.summary is None:
        return [_name(view, summary, area), _verdict(view, summary, area), (area.clean(view.reason), "dim")]
    pieces = [figure.piece(view, summary, area) for figure in figures]
    return [piece if i < 2 or not is_old else (_text(piece), "dim") for i, piece in enumerate(pieces)]


def _text(piece: Piece) -> str:
    return piece if isinstance(piece, str) else piece[0]


def head_line(views: Iterable[BoardView], what: str, clock: str, area: Area) -> Line:
    """Return how many boards there are and how many have each verdict, worst first. `what`: their order and filter."""
    counted = Counter((view.level, view.word) for view in views)
    order, many = ("critical", "warning", "neutral", "good"), sum(counted.values())
    parts: list[Piece] = [(" FLEET ", "focus"), f" {many} board{'' if many == 1 else 's'}"]
    for (level, word), count in sorted(counted.items(), key=lambda item: (order.index(item[0][0]), -item[1])):
        parts += ["  ", (area.clean(f"{count} {word}"), level)]
    right = line((f" {area.clean(what)}  {clock} ", "dim"))
    return spread(fit(line(*parts), max(0, area.width - width(right) - 1)), right, area.width)


def detail_lines(view: BoardView | None, area: Area) -> list[Line]:
    """Return the full verdict of one board, and what runs on it."""
    if view is None:
        return [line((" no board with these words", "dim")), ()]
    summary = view.summary or Summary()
    words = area.clean(f"{view.word}: {view.details}" if view.details else view.word)
    labels = " ".join(f"{key}={value}" for key, value in view.address.labels.items())
    version = f"edgetop {view.version}" if view.version else ""
    names = (view.address.target.host, labels, summary.board, summary.model, version)
    said = area.clean("   ".join(name for name in names if name))
    tail, heat = _p99_chart(view, summary, area), _heat_chart(view, summary, area)
    charts = line((" p99 ", "dim"), tail, ("  heat ", "dim"), heat, " ") if summary.p99_course_ms else ()
    left = fit(line((f" {said}", "dim")), max(0, area.width - width(charts) - 1))
    return [line((f" {area.clean(view.address.name)} ", "accent"), words), spread(left, charts, area.width)]


def log_lines(log: Iterable[Logged], now_ns: int, now: datetime, area: Area) -> list[Line]:
    """Newest first, by the clock of this machine."""
    lines = []
    for logged in log:
        at = now - timedelta(seconds=(now_ns - logged.t_ns) / NS)
        happened = logged.happened
        name = formatting.cut(area.clean(logged.board), NAME_CELLS[1]).ljust(NAME_CELLS[1])
        prefix = f" {at:%H:%M:%S} {name} {MARKS[happened.severity]} "
        lines.append(line((prefix, "dim"), (area.clean(happened.text), STYLES[happened.severity])))
    return lines
