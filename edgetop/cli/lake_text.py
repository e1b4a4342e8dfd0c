"""Answers of a lake as tables of text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from edgetop.cli.comparison_text import ratio_cells, row_label, value_text
from edgetop.cli.output import table
from edgetop.formatting import clean

if TYPE_CHECKING:
    from edgetop.lake.engines import Answer
    from edgetop.lake.regressions import Regression

DASH = "-"


def cell(name: str, value: Any) -> str:
    """In the unit that the column's name says; shares in percent."""
    if value is None or value == "":
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return clean(str(value))
    if name.endswith("_share"):
        return f"{100 * value:.3g} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def answer_text(answer: "Answer") -> str:
    """A row a line; columns of numbers to the right. That boards are simulated is said below."""
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


def regressions_text(found: Sequence["Regression"]) -> str:
    return "\n".join(line for one in found for line in _regression(one)) or "no model has run in two versions"


def _regression(one: "Regression") -> Iterator[str]:
    yield f"{clean(one.model)}: {clean(one.before)} to {clean(one.after)}, {one.boards} boards ran both"
    rows = [
        [row_label(row), *(value_text(value, row.unit) for value in row.values), *ratio_cells(row.ratios[1], row.unit)]
        for row in one.rows
    ]
    heads = ["", "before", "after", "change", "95 %", " "]
    yield from table(heads, rows, {"", " "}, "  ") if rows else ("  no board ran both",)
