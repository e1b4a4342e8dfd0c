"""The lines of the screen of many boards: a table, details of one board, and the events of all boards."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import numpy as np

from edgetop import formatting
from edgetop.feeds.fleet_feed import BoardView, Logged
from edgetop.formatting import UNKNOWN, doubted, milliseconds, or_unknown
from edgetop.session.seconds import NS
from edgetop.session.session_summary import Course, Summary
from edgetop.ui.charts import strip
from edgetop.ui.panes.events_pane import MARKS, STYLES
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import Column, Line, Piece, cells_of, fit, line, spread, table, width

COURSE_CELLS = 20
MIN_C = 20.0  # bottom of a temperature chart
FULL_C = 100.0  # top of a temperature chart if the zone has no trip point
NAME_CELLS = (5, 10)
OLD_S = 4.0
_MARK = {"critical": "X ", "warning": "! "}  # severity must not be shown by colour alone
_SIMULATED = " SIM"
VERDICT_CELLS = 17
# Columns after the name of a board. As many as fit are shown, from the left.
COLUMNS = (
    Column("VERDICT", VERDICT_CELLS, right=False), Column("P50 MS", 6), Column("P99/LIMIT", 10), Column("MISSED", 6),
    Column("C/TRIP", 6), Column("CLOCK", 5), Column("AGE", 4), Column("WATT", 5), Column("UP", 8), Column("FREE", 6),
    Column("MODEL", 18, right=False), Column("P99 CHART", COURSE_CELLS), Column("HEAT CHART", COURSE_CELLS),
    Column("GROUP", 10, right=False),
)  # fmt: skip


def _cells(view: BoardView, area: Area) -> list[Piece]:
    """Return the cells of the row of one board, in the order of the columns.

    The figures of a board that no longer sends data are dim, because they are old.
    """
    summary = view.summary or Summary()
    simulated = _SIMULATED if summary.simulated else ""
    word = area.clean(f"{_MARK.get(view.level, '  ')}{view.word}")
    verdict = formatting.cut(word, VERDICT_CELLS - len(simulated)) + simulated
    begin: list[Piece] = [area.clean(view.address.name), (verdict, view.level)]
    if view.summary is None:
        return [*begin, (area.clean(view.reason), "dim")]
    is_late = view.age_s is not None and view.age_s > OLD_S and view.state != "over"
    figures: list[tuple[str, str]] = [
        (or_unknown(summary.p50_ms, lambda ms: milliseconds(ms * 1e6)), "text"),
        _p99(view, summary),
        (or_unknown(summary.miss_rate, formatting.fine_percent).replace(" ", ""), "text"),
        _heat(summary),
        (or_unknown(summary.clock_share, formatting.whole_percent), "warning" if summary.throttled else "text"),
        (or_unknown(view.age_s, _short), "warning" if is_late else "text"),
        (formatting.reading(summary.power_w, "W"), "text"),
        (or_unknown(summary.elapsed_s, lambda seconds: formatting.stopwatch(seconds * 1e9)), "text"),
        (or_unknown(summary.memory_left_mib, _size), "text"),
        (area.clean(summary.model) or UNKNOWN, "text"),
        *_charts(summary, area),
        (area.clean(view.address.group), "text"),
    ]
    is_old = view.state not in ("live", "over")
    return [*begin, *((text, "dim" if is_old else style) for text, style in figures)]


def _p99(view: BoardView, summary: Summary) -> tuple[str, str]:
    text = or_unknown(summary.p99_ms, lambda ms: doubted(milliseconds(ms * 1e6), settled=summary.settled))
    if summary.p99_ms is None or not summary.deadline_ms:
        return text, "text"
    return f"{text}/{summary.deadline_ms:g}", "critical" if view.tail_share > 1 else "text"


def _heat(summary: Summary) -> tuple[str, str]:
    text = or_unknown(summary.temperature_c, lambda celsius: f"{celsius:.0f}")
    if summary.temperature_c is None or summary.headroom_c is None:
        return text, "text"
    style = "critical" if summary.headroom_c <= 0 else "warning" if summary.headroom_c < 5 else "text"
    return f"{text}/{summary.temperature_c + summary.headroom_c:.0f}", style


def _size(mib: float) -> str:
    return formatting.size(mib * 2**20).replace(" ", "").removesuffix("iB")


def _short(seconds: float) -> str:
    """Return a duration as a text of at most four cells.

    >>> _short(4.2), _short(900), _short(7_300), _short(8e5)
    ('4 s', '15 m', '2 h', '9 d')
    """
    unit, of = next(((unit, of) for unit, of in (("s", 1), ("m", 60), ("h", 3600)) if seconds < 99 * of), ("d", 86400))
    return f"{seconds / of:.0f} {unit}"


def _charts(summary: Summary, area: Area) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return two small charts over time as (text, style): of p99, and of the temperature.

    The chart of p99 reaches its full height at the deadline, and the chart of the temperature at the trip point.
    """
    is_known = summary.temperature_c is not None and summary.headroom_c is not None
    full_c = (summary.temperature_c or 0.0) + (summary.headroom_c or 0.0) if is_known else FULL_C
    tail = _drawn(summary.p99_course_ms, 0.0, summary.deadline_ms or 0.0, area)
    return (tail, "p99"), (_drawn(summary.temperature_course_c, MIN_C, full_c, area), "temperature")


def _drawn(course: Course, low: float, high: float, area: Area) -> str:
    """Return a chart of one row with the last values of `course`, the newest at the right.

    A value up to `low` has the lowest bar, and None has no bar. The full height means `high`, or the greatest value if
    that is above `high`. Return "" if `course` has no values.
    """
    values = np.array([np.nan if value is None else value for value in course[-COURSE_CELLS:]])
    if not len(values) or np.isnan(values).all():
        return ""
    high = max(high, float(np.nanmax(values)), low + 1e-9)
    shares = np.clip((values - low) / (high - low), 1e-3, 1.0)
    return strip(np.nan_to_num(shares), area.characters).rjust(COURSE_CELLS)


def board_lines(views: Sequence[BoardView], area: Area) -> list[Line]:
    """Return the table of boards: a line of column titles, then a line per board."""
    longest = max((cells_of(area.clean(view.address.name)) for view in views), default=0)
    most = NAME_CELLS[1] if area.width < 100 else 2 * NAME_CELLS[1]
    name = Column("BOARD", min(max(longest, NAME_CELLS[0]), most), right=False)
    lines = table([name, *COLUMNS], [_cells(view, area) for view in views], area.width - 1)
    return [line(" ", *of) for of in lines]


def head_line(views: Iterable[BoardView], what: str, clock: str, area: Area) -> Line:
    """Return the first line: how many boards there are, and how many have each verdict, the worst first.

    `what` says how the boards are sorted and filtered, and `clock` is the time of day, such as `14:05:09`.
    """
    counted = Counter((view.level, view.word) for view in views)
    order, many = ("critical", "warning", "neutral", "good"), sum(counted.values())
    parts: list[Piece] = [(" FLEET ", "focus"), f" {formatting.quantity(many, 'board')}"]
    for (level, word), count in sorted(counted.items(), key=lambda item: (order.index(item[0][0]), -item[1])):
        parts += ["  ", (area.clean(f"{count} {word}"), level)]
    right = line((f" {area.clean(what)}  {clock} ", "dim"))
    return spread(fit(line(*parts), max(0, area.width - width(right) - 1)), right, area.width)


def detail_lines(view: BoardView | None, area: Area) -> list[Line]:
    """Return two lines on one board: its verdict in full, and what runs there. `view` is None if no board is listed."""
    if view is None:
        return [line((" no board has these words", "dim")), ()]
    summary = view.summary or Summary()
    words = area.clean(f"{view.word}: {view.details}" if view.details else view.word)
    labels = " ".join(f"{key}={value}" for key, value in view.address.labels.items())
    version = f"edgetop {view.version}" if view.version else ""
    names = (_tokens(summary), view.address.target.host, labels, summary.board, summary.model, version)
    said = area.clean("   ".join(name for name in names if name))
    tail, heat = _charts(summary, area)
    charts = line((" p99 ", "dim"), tail, ("  heat ", "dim"), heat, " ") if summary.p99_course_ms else ()
    left = fit(line((f" {said}", "dim")), max(0, area.width - width(charts) - 1))
    return [line((f" {area.clean(view.address.name)} ", "accent"), words), spread(left, charts, area.width)]


def _tokens(summary: Summary) -> str:
    """Return the figures of a language model's tokens, or "" for other models."""
    if summary.decode_tok_s is None and summary.itl_p50_ms is None:
        return ""
    times = (
        f"{name} p50 {milliseconds(p50_ms * 1e6)} p99 {milliseconds(p99_ms * 1e6)} ms"
        for name, p50_ms, p99_ms in (
            ("TTFT", summary.ttft_p50_ms, summary.ttft_p99_ms), ("ITL", summary.itl_p50_ms, summary.itl_p99_ms)
        )
        if p50_ms is not None and p99_ms is not None
    )  # fmt: skip
    joules = "" if summary.j_per_token is None else f"{summary.j_per_token:.3g} J/token"
    parts = (f"{or_unknown(summary.decode_tok_s, formatting.rate)} tok/s", *times, joules)
    return "  ".join(part for part in parts if part)


def log_lines(log: Iterable[Logged], now_ns: int, now: datetime, area: Area) -> list[Line]:
    """Return a line per event of all boards. Times are by the clock of this machine.

    `now_ns` is the present time of the monotonic clock, and `now` the same moment as a date.
    """
    lines = []
    for logged in log:
        at = now - timedelta(seconds=(now_ns - logged.t_ns) / NS)
        happened = logged.happened
        name = formatting.cut(area.clean(logged.board), NAME_CELLS[1]).ljust(NAME_CELLS[1])
        prefix = f" {at:%H:%M:%S} {name} {MARKS[happened.severity]} "
        lines.append(line((prefix, "dim"), (area.clean(happened.text), STYLES[happened.severity])))
    return lines
