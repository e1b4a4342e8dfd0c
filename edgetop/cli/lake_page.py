"""The fleet as a page: boards by p99 and throttled share, versions against each other, heat by enclosure, the tail."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from edgetop.cli.lake_text import cell, regressions_text
from edgetop.cli.page import COLOURS, MOST_SERIES, plain, put_legend_above, section, shown, shown_lines, write_page
from edgetop.cli.report_page import bars
from edgetop.formatting import clean, shortened
from edgetop.lake.engines import Answer
from edgetop.lake.queries import DIALECTS, QUESTIONS, Chosen, sql_of
from edgetop.lake.regressions import regressions
from edgetop.recording.export.protocol import NamedOutput

MOST_BARS, NAME_CELLS = 30, 40
Records = list[dict[str, Any]]
SESSIONS = """\
SELECT board, enclosure, ambient_c, temp_max_c, tail, model, simulated FROM sessions WHERE {where} ORDER BY session"""


def write_fleet(
    output: NamedOutput, target: str, ask: Callable[[str], Answer], chosen: Chosen, dialect: str
) -> None:  # fmt: skip
    """`dialect`: of `ask`. Raises InputError and OutputError."""
    found = {}
    for name, question in QUESTIONS.items():
        limit = None if name == "worst" else question.limit
        found[name] = ask(sql_of(question, chosen, question.by, limit, dialect))
    where = chosen.where(DIALECTS[dialect])
    sessions = ask(SESSIONS.format(where=where)).records()
    simulated = sum(bool(one["simulated"]) for one in sessions)
    title = f"edgetop lake {target}" + (f": {simulated} of {len(sessions)} sessions SIMULATED" if simulated else "")
    compared = regressions(found["regressions"].records())
    text = [_table("fleet", found["fleet"], len(found["fleet"].rows))]
    text += [_table(name, found[name], MOST_BARS) for name in ("worst", "throttling", "energy")]
    text.append(
        f'<section><h2>regressions</h2><pre class="scroll">{shown_lines(regressions_text(compared))}</pre></section>'
    )
    charts = [*_boards(found["worst"].records()), *_versions(found["regressions"].records())]
    write_page(output, title, text, [*charts, *_heat(sessions), *_tail(sessions)])


def _table(title: str, answer: Answer, most: int) -> str:
    heads = [name.removesuffix("_share").replace("_", " ") for name in answer.columns]
    rows = [
        [(cell(name, value), "" if isinstance(value, str) else "number")
         for name, value in zip(answer.columns, row, strict=True)]
        for row in answer.rows[:most]
    ]  # fmt: skip
    more = f" (the first {most} of {len(answer.rows)})" if len(answer.rows) > most else ""
    return section(f"{title}{more}", rows, heads) if rows else f"<section><h2>{shown(title)}</h2>nothing fits</section>"


def _boards(worst: Records) -> Iterator[Any]:
    """The worst as bars; of all, p99 against the throttled share."""
    known = [one for one in worst if one["p99_ms"] is not None]
    if not known:
        return
    names = [f"{place}  {_name(one['board'])}, {_name(one['model'])}" for place, one in enumerate(known[:MOST_BARS], 1)]
    yield bars("boards by p99, ms", names, [one["p99_ms"] for one in known[:MOST_BARS]])
    points = [
        (one["model"], 100 * one["throttled_share"], one["p99_ms"], one["board"])
        for one in known
        if one["throttled_share"] is not None
    ]
    yield from _scatter("p99, ms, against time throttled, %; a point a board", points)


def _versions(records: Records) -> Iterator[Any]:
    """Each board's p99 in each version: a line a version, boards in the order of the first."""
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


def _heat(sessions: Records) -> Iterator[Any]:
    known = [one for one in sessions if one["temp_max_c"] is not None]
    points = [
        (one["enclosure"] or "enclosure not declared", one["ambient_c"], one["temp_max_c"], one["board"])
        for one in known
        if one["ambient_c"] is not None
    ]
    yield from _scatter("hottest zone, C, against the ambient temperature, C, by enclosure; a point a session", points)
    by_enclosure: dict[str, list[float]] = {}
    for one in known:
        by_enclosure.setdefault(one["enclosure"] or "not declared", []).append(one["temp_max_c"])
    if by_enclosure:
        hottest = sorted(by_enclosure.items(), key=lambda one: -max(one[1]))[:MOST_BARS]
        names = [f"{place}  {_name(name)}, {len(each)} sessions" for place, (name, each) in enumerate(hottest, 1)]
        yield bars("hottest zone by enclosure, C", names, [max(each) for _, each in hottest])


def _tail(sessions: Records) -> Iterator[Any]:
    """Slow inferences of all sessions by their cause."""
    counts = Counter[str]()
    for one in sessions:
        for cause, count in _counts(one["tail"]):
            counts[cause] += count
    if counts:
        names, values = zip(*counts.most_common(MOST_BARS), strict=True)
        yield bars("slow inferences by cause", [_name(name) for name in names], values)


def _counts(text: str | None) -> list[tuple[str, int]]:
    try:
        found = json.loads(text or "{}")
        return [(str(cause), int(count)) for cause, count in found.items()]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


def _scatter(title: str, points: Sequence[tuple[str, float, float, str]]) -> Iterator[Any]:
    """A colour a series."""
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
    put_legend_above(chart)
    yield plain(chart)


def _name(text: str) -> str:
    return shortened(clean(text), NAME_CELLS)
