"""Answers of `edgetop lake` as text, as JSON and as an HTML page.

The page shows boards by p99 and throttled share, compared versions, heat by enclosure, and causes of slow inferences.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from edgetop.cli.output import print_json, print_text, table
from edgetop.cli.printing import page as html
from edgetop.cli.printing.comparison_words import ratio_cells, row_label, value_text
from edgetop.cli.printing.page import COLOURS, MOST_SERIES, Chart
from edgetop.errors import InputError
from edgetop.formatting import clean, plain, quantity, shortened
from edgetop.frozen import frozen
from edgetop.lake.lake_queries import DIALECTS, QUESTIONS, Chosen, keys, sql_of
from edgetop.lake.place import TRIES_OF_READER, Place
from edgetop.lake.query_engines import Answer, ask, refuse_missing
from edgetop.lake.regressions import Regression, regressions
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.session.typed_json import Document

DASH = "-"


@frozen
class LakeOptions:
    """The parsed options of `edgetop lake`."""

    since: str | None  # a day, as 2026-11-20
    model: str | None
    labels: tuple[tuple[str, str], ...]
    by: str | None
    limit: int | None
    as_json: bool
    html: Path | None
    force: bool
    engine: str
    ray: str
    print_sql: bool
    dialect: str


MOST_BARS, NAME_CELLS = 30, 40
Records = list[Document]
SESSIONS = """\
SELECT board, enclosure, ambient_c, temp_max_c, tail, model, simulated FROM sessions WHERE {where} ORDER BY session"""


def answer(target: str, question: str, statement: str | None, options: LakeOptions) -> None:
    """Print the answer to a predefined question, such as "worst", or to the SQL in `statement`.

    `statement` is None for a predefined question. `target` is the lake: a folder or a URL. `options` choose the
    sessions and the form of the answer. Raises InputError and OutputError.
    """
    chosen = Chosen(options.since or "", options.model or "", options.labels)
    sql, by = _sql(question, statement, options, chosen)
    if options.print_sql:
        print_text(sql)
        return
    page = html.refuse_html(options.html, force=options.force) if options.html else None
    refuse_missing(options.engine)
    place = Place(target, tries=TRIES_OF_READER)

    def ask_place(sql: str) -> Answer:
        return ask(place, sql, engine=options.engine, since=chosen.since, ray=options.ray)

    if page:
        write_fleet(page, place.target, ask_place, chosen, options.engine)
        return
    result = ask_place(sql)
    if question == "regressions":
        compared = regressions(result.records(), by[-1])
        document: list[Document] = [one.to_json() for one in compared]
        text = regressions_text(compared)
    else:
        document, text = result.records(), answer_text(result)
    if options.as_json:
        print_json(document, default=str)
    else:
        print_text(text)


def _sql(question: str, statement: str | None, options: LakeOptions, chosen: Chosen) -> tuple[str, Sequence[str]]:
    """Return `(SQL, columns)` for a question or statement: the SQL and the columns by which it groups.

    `chosen` says which sessions are used. Raises InputError for options that do not fit the question.
    """
    if (question == "sql") != (statement is not None):
        raise InputError("sql needs a statement" if statement is None else f"{question} accepts no statement",
                         "edgetop lake TARGET sql 'SELECT ...'")  # fmt: skip
    if statement is not None:
        if options.model or options.labels or options.by or options.limit or options.html:
            raise InputError(
                "sql accepts no --model, --label, --by, --limit and --html", "write the conditions into the statement"
            )
        return statement, ()
    asked = QUESTIONS[question]
    by = keys(options.by) if options.by else asked.by
    if question == "regressions":
        if len(by) != 1 and options.by:
            raise InputError("regressions: --by needs a single key", "version, software, kernel, governor ...")
        by = ("model", "board", by[-1])
    dialect = options.dialect if options.print_sql else options.engine
    return sql_of(asked, chosen, by, options.limit or asked.limit, dialect), by


def cell(name: str, value: object) -> str:
    """Return a value of an answer as text. `value` is a number, a text or None, and `name` is its column.

    A share (0..1) is shown in percent, and None as a dash.

    >>> cell("throttled_share", 0.25), cell("p99_ms", 12.3456), cell("board", None)
    ('25 %', '12.35', '-')
    """
    if value is None or value == "":
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return clean(str(value))
    if name.endswith("_share"):
        return f"{100 * value:.3g} %"
    return f"{value:,}" if isinstance(value, int) else plain(value)


def answer_text(answer: Answer) -> str:
    """Return the answer as a table. If some sessions ran on simulated boards, a line at the end says so."""
    hidden = {"simulated"} if {"simulated", "sessions"} <= {*answer.columns} else set()
    shown = [place for place, name in enumerate(answer.columns) if name not in hidden]
    heads = [answer.columns[place].removesuffix("_share").replace("_", " ") for place in shown]
    rows = [[cell(answer.columns[place], row[place]) for place in shown] for row in answer.rows]
    words = {
        head
        for head, place in zip(heads, shown, strict=True)
        if any(isinstance(row[place], str) for row in answer.rows) or not answer.rows
    }
    lines = list(table([clean(head).upper() for head in heads], rows, {clean(word).upper() for word in words}))
    simulated = sum(one["simulated"] or 0 for one in answer.records()) if hidden else 0
    if simulated:
        lines.append(f"SIMULATED: {simulated:g} of these sessions ran on a virtual board")
    return "\n".join(lines if answer.rows else ["nothing fits"])


def regressions_text(regressions: Sequence[Regression]) -> str:
    lines: list[str] = []
    for one in regressions:
        lines.append(
            f"{clean(one.model)}: {clean(one.before)} to {clean(one.after)}, run on {quantity(one.boards, 'board')}"
        )
        rows = []
        for row in one.rows:
            values = (value_text(value, row.unit) for value in row.values)
            rows.append([row_label(row), *values, *ratio_cells(row.ratios[1], row.unit)])
        heads = ["", "before", "after", "change", "95 %", " "]
        lines += table(heads, rows, {"", " "}, "  ") if rows else ["  no board ran both"]
    return "\n".join(lines) or "no model has run in two versions"


def write_fleet(
    output: NamedOutput, target: str, ask: Callable[[str], Answer], chosen: Chosen, dialect: str
) -> None:  # fmt: skip
    """Write an HTML page about the lake `target`. Raises InputError and OutputError.

    `ask` runs SQL, in the dialect `dialect`, and returns the answer. `chosen` says which sessions are used.
    """
    answers = {}
    for name, question in QUESTIONS.items():
        limit = None if name == "worst" else question.limit
        answers[name] = ask(sql_of(question, chosen, question.by, limit, dialect))
    where = chosen.where(DIALECTS[dialect])
    sessions = ask(SESSIONS.format(where=where)).records()
    simulated = sum(bool(one["simulated"]) for one in sessions)
    title = f"edgetop lake {target}" + (
        f": {simulated} of {quantity(len(sessions), 'session')} SIMULATED" if simulated else ""
    )
    compared = regressions(answers["regressions"].records())
    text = [_table("fleet", answers["fleet"], len(answers["fleet"].rows))]
    text += [_table(name, answers[name], MOST_BARS) for name in ("worst", "throttling", "energy")]
    if answers["tokens"].rows:
        text.append(_table("tokens", answers["tokens"], MOST_BARS))
    lines = html.escaped_lines(regressions_text(compared))
    text.append(f'<section><h2>regressions</h2><pre class="scroll">{lines}</pre></section>')
    charts = [*_boards(answers["worst"].records()), *_versions(answers["regressions"].records())]
    html.write_page(output, title, text, [*charts, *_heat(sessions), *_tail(sessions)])


def _table(title: str, answer: Answer, most: int) -> str:
    heads = [name.removesuffix("_share").replace("_", " ") for name in answer.columns]
    rows = [
        [(cell(name, value), "" if isinstance(value, str) else "number")
         for name, value in zip(answer.columns, row, strict=True)]
        for row in answer.rows[:most]
    ]  # fmt: skip
    more = f" (the first {most} of {len(answer.rows)})" if len(answer.rows) > most else ""
    if not rows:
        return f"<section><h2>{html.escaped(title)}</h2>nothing fits</section>"
    return html.section(f"{title}{more}", rows, heads)


def _boards(worst: Records) -> Iterator[Chart]:
    """Yield two charts: bars of the boards with the highest p99, and p99 against the throttled share for all boards.

    `worst` has a record for each board and model, with keys such as `p99_ms`, the highest p99 first.
    """
    known = [one for one in worst if one["p99_ms"] is not None]
    if not known:
        return
    names = [f"{place}  {_name(one['board'])}, {_name(one['model'])}" for place, one in enumerate(known[:MOST_BARS], 1)]
    yield html.bars("boards by p99, ms", names, [one["p99_ms"] for one in known[:MOST_BARS]])
    points = [
        (one["model"], 100 * one["throttled_share"], one["p99_ms"], one["board"])
        for one in known
        if one["throttled_share"] is not None
    ]
    yield from _scatter("p99, ms, against time throttled, %; one point per board", points)


def _versions(records: Records) -> Iterator[Chart]:
    """Yield a chart for each model that has several versions. It shows the p99 of each board in each version.

    Boards are sorted by their p99 in the first version. `records` has a record for each model, version and board.
    """
    models = Counter(one["model"] for one in records)
    for model, _ in models.most_common(MOST_SERIES):
        of_model = sorted((one for one in records if one["model"] == model), key=lambda one: str(one["first_utc"]))
        versions = list(dict.fromkeys(one["version"] for one in of_model))[-MOST_SERIES:]
        p99 = {(one["version"], one["board"]): one["p99_ms"] for one in of_model if one["p99_ms"] is not None}
        boards = sorted({board for _, board in p99}, key=lambda board: p99.get((versions[0], board), 0.0))
        if len(versions) < 2:
            continue
        points = [
            (version, place, p99[version, board], board)
            for version in versions
            for place, board in enumerate(boards, 1)
            if (version, board) in p99
        ]
        yield from _scatter(f"{model}: p99, ms, by version; boards in the order of {versions[0]}", points)


def _heat(sessions: Records) -> Iterator[Chart]:
    known = [one for one in sessions if one["temp_max_c"] is not None]
    points = [
        (one["enclosure"] or "enclosure not declared", one["ambient_c"], one["temp_max_c"], one["board"])
        for one in known
        if one["ambient_c"] is not None
    ]
    yield from _scatter(
        "hottest zone, C, against the ambient temperature, C, by enclosure; one point per session", points
    )
    by_enclosure: dict[str, list[float]] = {}
    for one in known:
        by_enclosure.setdefault(one["enclosure"] or "not declared", []).append(one["temp_max_c"])
    if by_enclosure:
        hottest = sorted(by_enclosure.items(), key=lambda one: -max(one[1]))[:MOST_BARS]
        names = [
            f"{place}  {_name(name)}, {quantity(len(each), 'session')}" for place, (name, each) in enumerate(hottest, 1)
        ]
        yield html.bars("hottest zone by enclosure, C", names, [max(each) for _, each in hottest])


def _tail(sessions: Records) -> Iterator[Chart]:
    """Yield a bar chart of the number of slow inferences in all sessions, by cause."""
    counts = Counter[str]()
    for one in sessions:
        with suppress(ValueError, TypeError, AttributeError, RecursionError):  # foreign data in the lake
            counts.update({str(cause): int(count) for cause, count in json.loads(one["tail"] or "{}").items()})
    if counts:
        names, values = zip(*counts.most_common(MOST_BARS), strict=True)
        yield html.bars("slow inferences by cause", [_name(name) for name in names], values)


def _scatter(title: str, points: Sequence[tuple[str, float, float, str]]) -> Iterator[Chart]:
    from bokeh.plotting import figure  # noqa: PLC0415

    if not points:
        return
    chart = figure(
        title=clean(title), height=300, sizing_mode="stretch_width", tools="xpan,xwheel_zoom,xbox_zoom,reset,save",
        tooltips=[("", "@board"), ("", "@series"), ("", "@x{0.00}, @y{0.000}")],
    )  # fmt: skip
    series = [name for name, _ in Counter(name for name, *_ in points).most_common(MOST_SERIES)]
    for colour, name in zip(COLOURS, series, strict=False):
        of_series = [one for one in points if one[0] == name]
        source = {
            "x": [x for _, x, _, _ in of_series], "y": [y for _, _, y, _ in of_series],
            "board": [clean(board) for *_, board in of_series], "series": [_name(name)] * len(of_series),
        }  # fmt: skip
        chart.scatter("x", "y", size=7, color=colour, alpha=0.7, source=source, legend_label=_name(name))
    html.put_legend_above(chart)
    yield html.plain(chart)


def _name(text: str) -> str:
    return shortened(clean(text), NAME_CELLS)
