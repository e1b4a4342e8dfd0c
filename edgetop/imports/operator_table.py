"""Parse the tables of operators that TFLite's and LiteRT's `benchmark_model --enable_op_profiling` prints.

Source: tsl/util/stats_calculator.cc, StatsCalculator::ColumnString, and tensorflow/lite/profiling,
profile_summarizer.cc.

    Operator-wise Profiling Info for Regular Benchmark Runs:
    ============================== Run Order ==============================
                [node type]    [first] [avg ms]      [%]   [cdf%]   [mem KB] [times called]    [Name]
                    CONV_2D      4.269    4.269   0.107%   0.107%      0.000        1    [conv/Relu6]
    ...
    Timings (microseconds): count=110 first=8317 curr=10006 min=7854 max=10679 avg=8671.49 std=590

Older versions have a column `[start]` before `[first]`. `[avg ms]` is the mean time of a call. `[times called]` is the
number of calls in an inference, rounded down: 0 means fewer than one, but in versions before 2019 it is always 0. A
table of the initialisation may come before. Further tables follow, with the same operators in another order and by
type. A graph of several parts has a table for each part: `Primary graph`, `Subgraph (index: 1, name: while_body)` and
`Delegate internal`. The time of a subgraph is also in the operator that runs it. `Delegate internal` has the operators
of a delegate, which is one operator of the primary graph.
"""

import re
from collections.abc import Iterator, Sequence

from edgetop.captured_text import LeftOut
from edgetop.formatting import quantity
from edgetop.frozen import frozen
from edgetop.imports.captured_page import Page
from edgetop.imports.measured import MAX_COUNT, MAX_LAYERS, MAX_NS, NUMBER, Layers
from edgetop.session.operators import CPU, XNNPACK, Operator

_HEADER = re.compile(r"^.*\[node type\]\s+(?:\[start\]\s+)?\[first\]\s.*\[Name\][ \t]*$", re.MULTILINE)
_ROW = re.compile(
    rf"(?:^|[ \t])(\S.{{0,400}}?)[ \t]+{NUMBER}(?:[ \t]+{NUMBER})?[ \t]+{NUMBER}[ \t]+{NUMBER}%[ \t]+{NUMBER}%"
    rf"[ \t]+(-?[0-9.]{{1,20}})[ \t]+([0-9]{{1,10}})[ \t]+(\S.{{0,4000}}?)[ \t]*$"
)
_TITLE = re.compile(
    r"Profiling Info for Benchmark Initialization|Profiling Info for Regular|Primary graph|Subgraph \("
    r"|Delegate internal"
    r"|= Run Order =|= Top by |= Summary by |BENCHMARK RESULTS"
)
_BY_TYPE = re.compile(r"^.*\[Node type\]\s+\[count\].*\n(?:.*[0-9]%.*\n)*", re.MULTILINE)
_CHATTER = re.compile(
    r"^.*(?:Number of nodes executed: [0-9]+|Memory \(bytes\): count=.*|[0-9]+ nodes observed"
    r"|(?:= (?:Top by|Summary by) ).*"
    r"|Profiling Info for (?:Benchmark Initialization|Regular Benchmark Runs):|= Run Order =+|Primary graph:"
    r"|Delegate internal:)[ \t]*$",
    re.MULTILINE,
)
_TIMINGS = re.compile(
    r"^.*Timings \(microseconds\): count=([0-9]{1,10})(?:.* avg=([0-9.]{1,20})| curr=([0-9.]{1,20})).*$", re.MULTILINE
)
_DELEGATE = re.compile(r"TfLite(\w+?)Delegate(?:V2)?\b")
_PROVIDERS = {"XNNPack": XNNPACK, "Gpu": "GPU", "Nnapi": "NNAPI", "Hexagon": "HEXAGON"}
_INTERNAL = "Delegate/"  # how LiteRT begins the names of a delegate's operators

_WHOLE = 99.5  # the last sum of shares of a table that is not cut off, in percent; each share is rounded


@frozen
class _Row:
    op_type: str
    average_ms: float
    share: float  # percent
    total: float  # sum of the shares up to this row, in percent
    times: int
    name: str


@frozen
class _Table:
    title: str  # the last title before it that says which part of the output it belongs to
    rows: tuple[_Row, ...]
    end: int  # place in the text after it


def read_tables(page: Page) -> tuple[Layers, ...]:
    """Return the operators of a whole inference as a tuple with one element, or () if there are none to use.

    A table that is cut off, or whose times cannot be right, is left out with a note in `page`.
    """
    tables = list(_tables(page))
    for pattern in (_BY_TYPE, _CHATTER):
        for _ in page.found(pattern):
            pass
    mains = [table for table in tables if table.title not in ("init", "delegate", "subgraph")]
    if not mains:
        return ()
    main = mains[0]
    if not main.rows or main.rows[-1].total < _WHOLE:
        page.notes.append("its table of operators is cut off, and left out")
        return ()
    internals = next((table.rows for table in tables if table.title == "delegate"), ())
    if internals and internals[-1].total < _WHOLE:
        internals = ()
    others = sum(len(table.rows) for table in tables if table.title == "subgraph")
    if others:
        page.notes.append(
            f"{quantity(others, 'operator')} of subgraphs left out: the operators that run them have their time"
        )
    timings = next((match for match in page.found(_TIMINGS) if match.start() > main.end), None)
    runs = min(max(int(timings[1]), 1), MAX_COUNT) if timings else 1
    first = next((place for place, row in enumerate(main.rows) if _delegate_of(row)), None)
    operators: tuple[Operator, ...]
    if first is not None and internals:
        before, after = (
            [row for row in part if not _delegate_of(row)] for part in (main.rows[:first], main.rows[first:])
        )
        operators = (
            *_operators(page, before, "", runs),
            *_operators(page, internals, _delegate_of(main.rows[first]), runs),
            *_operators(page, after, "", runs),
        )
    else:
        operators = tuple(_operators(page, main.rows, "", runs))
    total_ns = sum(operator.total_ns for operator in operators)
    if not 0 < total_ns <= MAX_NS or len(operators) > MAX_LAYERS:
        page.notes.append("its table of operators is left out: its times are none of such a run")
        return ()
    run_us = float(timings[2] or timings[3]) if timings else None
    return (Layers(runs, operators, round(run_us * 1000) if run_us else total_ns // runs),)


def _tables(page: Page) -> Iterator[_Table]:
    """Yield the tables that have the operators in run order.

    There is at most one table each for the loading, the inferences and the delegate, and one for each subgraph. Tables
    that repeat the same operators in another order are left out.
    """
    seen = set[str]()
    for header in page.found(_HEADER):
        titles = [match[0] for match in _TITLE.finditer(page.text, 0, header.start())]
        title = _title(titles)
        end = page.text.find("\n", header.end())
        rows: list[_Row] = []
        after = place = len(page.text) if end < 0 else end + 1
        while (stop := page.text.find("\n", place)) >= 0:
            line = page.text[place:stop]
            if row := _row(line):
                page.know(place, stop)
                rows.append(row)
                after = stop + 1
            elif not line.strip() or _TITLE.search(line) or _HEADER.match(line):
                break  # any other line within a table is of another program
            place = stop + 1
        if title not in seen or (title == "subgraph" and "= Top by " not in titles[-1]):
            seen.add(title)
            yield _Table(title, tuple(rows), after)


def _title(titles: Sequence[str]) -> str:
    """Return what a table describes: "init" (loading), "runs" (inferences), "subgraph" or "delegate".

    `titles` are all titles in the output before the table. The last known one decides.
    """
    for title in reversed(titles):
        if "Initialization" in title:
            return "init"
        if title.startswith("Subgraph"):
            return "subgraph"
        if title.startswith("Delegate"):
            return "delegate"
        if title.startswith(("Profiling Info for Regular", "Primary", "BENCHMARK")):
            return "runs"
    return "runs"


def _row(line: str) -> _Row | None:
    match = _ROW.search(line)
    if match is None:
        return None
    op_type, start, first, average, share, total, _, times, name = match.groups()
    del start, first
    return _Row(op_type, float(average), float(share), float(total), int(times), name)


def _delegate_of(row: _Row) -> str:
    """Return the provider, such as `XNNPACK`, if the operator in `row` stands for a whole delegate, else ""."""
    match = _DELEGATE.match(row.op_type)
    return _PROVIDERS.get(match[1], match[1]) if match else ""


def _operators(page: Page, rows: Sequence[_Row], provider: str, runs: int) -> Iterator[Operator]:
    """Yield the operators in the rows of a table. An operator that not every inference ran is left out, with a note.

    `provider` is the provider that ran all operators. If it is "", each row says which provider ran its operator.
    `runs` is the number of inferences.
    """
    is_counted = any(row.times for row in rows)
    rare = [row for row in rows if is_counted and not row.times]
    if rare:
        page.notes.append(
            LeftOut(len(rare), len(rows), "operators", "left out, not run in every inference", rare[0].op_type).words
        )
    for row in rows:
        if is_counted and not row.times:
            continue
        times = row.times or 1
        of = provider or _delegate_of(row) or (XNNPACK if row.name.startswith(_INTERNAL) else CPU)
        total_ns = round(row.average_ms * 1e6) * times * runs
        yield Operator(row.name.removeprefix(_INTERNAL), row.op_type, of, min(times * runs, MAX_COUNT), total_ns)
