"""A comparison of sessions as text and as CSV."""

import sys
from collections.abc import Iterator, Sequence

from edgetop import formatting
from edgetop.cli.output import gate_lines, notice_lines, table, terminal_columns, text_columns
from edgetop.cli.printing.agreement_text import agreement_csv, agreement_lines
from edgetop.cli.printing.report_text import wrapped
from edgetop.cli.printing.usage_text import usage_lines
from edgetop.comparison.agreement import Agreements
from edgetop.comparison.comparison_gates import RelativeResult
from edgetop.comparison.output_agreement import NON_FINITE
from edgetop.comparison.ratios import LONE, Comparison, Ratio, Row, Value
from edgetop.comparison.usage_table import usage_rows
from edgetop.formatting import UNKNOWN, clean, doubted, shortened
from edgetop.wording.difference_words import Compared, difference_sentence, needs_text

NAME_CELLS, WIDE_CELLS = 22, 40
NARROW = 118  # on a terminal with fewer columns, names are shortened
PIPED_COLUMNS = 160
MOST_DIGITS = 1000  # larger factors are written with an exponent, as intervals of two sessions a side can have
LEFT = ("row", "")


def comparison_text(
    comparison: Comparison,
    gates: Sequence[RelativeResult] = (),
    agreeing: Agreements | None = None,
    *,
    is_whole: bool = True,
) -> str:
    """Return the comparison as text. Control characters in names are made visible.

    `gates` are the results of `--fail-if`. `agreeing` says how well two groups of sessions agree, or is None. If
    `is_whole` is false, the sentences, the rows of all figures and the ranking are left out. These parts say little
    about two sweeps over several models.
    """
    return "\n".join(
        line
        for part in (
            wrapped(map(clean, sentences(comparison)), text_columns()) if is_whole else (),
            _head(comparison),
            _table(comparison) if is_whole else (),
            agreement_lines(agreeing, comparison.names) if agreeing else (),
            usage_lines(usage_rows(comparison.groups), table_columns()),
            ranking_lines(comparison) if is_whole else (),
            gate_lines([(gate.ok, gate.reason) for gate in gates]),
            wrapped(notice_lines("unfair", comparison.fair), text_columns()),
        )
        for line in part
    )


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each group that says how it differs from the first one, the baseline.

    Names may contain control characters.
    """
    for place, name in enumerate(comparison.names):
        if place:
            figures = [
                Compared(
                    row.label, one.verdict, one.value, one.ci95, one.needs_sessions, one.needs_s, one.words == LONE
                )
                for row in comparison.leads
                if (one := row.ratios[place])
            ]
            yield difference_sentence(name, comparison.names[0], figures)


def _head(comparison: Comparison) -> Iterator[str]:
    yield ""
    for place, group in enumerate(comparison.groups):
        count = len(group.samples)
        simulated = "  SIMULATED" if any(one.session.board.simulated for one in group.samples) else ""
        each = f"  {count} sessions" if count > 1 else ""
        yield f"{'baseline' if not place else 'against':<9}  {clean(group.name)}{each}{simulated}"


def _table(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of tables. Each table has the baseline and as many other sessions as fit on the terminal."""
    columns = table_columns()
    cells = WIDE_CELLS if columns >= NARROW else NAME_CELLS
    rows = shown_rows(comparison)
    facts, figures = ([row for row in rows if any(row.ratios) == is_figure] for is_figure in (False, True))
    waiting = list(range(1, len(comparison.names)))
    while waiting:
        shown, lines = len(waiting), list(_lines(comparison.names, figures, waiting, cells))
        while shown > 1 and max(map(len, lines)) > columns:
            shown -= 1
            lines = list(_lines(comparison.names, figures, waiting[:shown], cells))
        if max(map(len, lines)) > columns:  # reasons for missing figures are then printed once, below
            lines = list(_lines(comparison.names, figures, waiting[:shown], cells, is_brief=True))
        yield ""
        places = (0, *waiting[:shown])
        heads = ["row", *(shortened(comparison.names[place], cells) for place in places)]
        texts = [[row.label, *(value_text(row.values[place], row.unit, cells) for place in places)] for row in facts]
        yield from table(heads, texts, heads)
        yield ""
        yield from lines
        waiting = waiting[shown:]


def shown_rows(comparison: Comparison) -> list[Row]:
    """Return the rows of the comparison that have a value.

    A row that counts NaN and infinite outputs is left out if all its counts are 0.
    """
    rows = (row for row in comparison.rows if any(value is not None for value in row.values))
    return [row for row in rows if any(row.values) or not row.key.endswith(f"/{NON_FINITE}")]


def table_columns() -> int:
    """Return how many characters wide a table may be: the width of the terminal, or 160 without a terminal."""
    return (terminal_columns() or text_columns()) if sys.stdout.isatty() else PIPED_COLUMNS


def _lines(
    names: Sequence[str], rows: Sequence[Row], others: Sequence[int], cells: int, *, is_brief: bool = False
) -> Iterator[str]:
    heads = ["row", shortened(names[0], cells // 2)]
    for other in others:
        heads += [shortened(names[other], cells // 2), "change", "95 %", ""]
    lines = []
    for row in rows:
        line = [row_label(row, cells), row_value(row, 0)]
        for other in others:
            change, interval, words = ratio_cells(row.ratios[other], row.unit)
            if is_brief and words.startswith("cannot tell"):
                words = "cannot tell"
            elif needs := needs_words(row.ratios[other]):
                words = f"{words}: needs {needs}"
            line += [row_value(row, other), change, interval, words]
        lines.append(line)
    return table(heads, lines, LEFT)


def row_label(row: Row, cells: int = WIDE_CELLS) -> str:
    """Return the label of a row, such as `p50 ms`, cut in its middle to `cells` characters.

    The unit is added unless the values show it themselves.
    """
    unit = f" {row.unit}" if row.unit not in ("", "share", "B") else ""
    label, room = clean(row.label), cells - len(unit) - 2
    if len(label) > room:  # keep both ends, where names of operators differ
        label = f"{label[: room // 2 - 1]}..{label[room // 2 - room + 1 :]}"
    return label + unit


def row_value(row: Row, place: int) -> str:
    """Return the value of the group number `place` in a row of figures. A `?` marks one of too few inferences."""
    return doubted(value_text(row.values[place], row.unit), settled=row.values[place] is None or row.is_settled(place))


def value_text(value: Value, unit: str, cells: int = NAME_CELLS) -> str:
    """Return a value of a comparison as text. Text is cut to `cells` characters; None becomes `-`.

    `unit` is the unit of its row, such as `ms`, `share` (0..1, shown in percent) or `B`.
    """
    if value is None or isinstance(value, str):
        return UNKNOWN if value is None else shortened(value, cells)
    if unit in ("ms", "us"):
        return formatting.milliseconds(value * 1e6)
    if unit == "share":
        return formatting.fine_percent(value)
    if unit == "B":
        return formatting.size(value)
    return (
        formatting.millijoules(value) if unit == "mJ" else formatting.count(value) if value >= 1e4 else f"{value:.4g}"
    )


def needs_words(one: Ratio | None) -> str:
    """Return how many more sessions or seconds would decide a comparison, as text.

    Return "" if the comparison is decided, or if the need is unknown.
    """
    return needs_text(one.needs_sessions, one.needs_s, is_lone=one.words == LONE) if one else ""


def ratio_cells(one: Ratio | None, unit: str) -> tuple[str, str, str]:
    if one is None or one.difference is None:
        return "", "", ""
    if one.value is None:
        ends = one.difference_ci95
        points = 100 if unit == "share" else 1
        interval = "" if ends is None else f"{points * ends[0]:+.3g} to {points * ends[1]:+.3g}"
        return f"{points * one.difference:+.3g}{' points' if unit == 'share' else ''}", interval, one.words
    interval = "" if one.ci95 is None else " to ".join(map(_factor, one.ci95))
    return f"x {_factor(one.value)}", interval, one.words


def _factor(value: float) -> str:
    return f"{value:.3f}" if value < MOST_DIGITS else f"{value:.0e}"


def ranking_lines(comparison: Comparison) -> Iterator[str]:
    if not comparison.ranking:
        return
    yield ""
    row = comparison.row(comparison.ranked_by)
    for rank in comparison.ranking:
        tied = "  not told apart" if len(rank.sessions) > 1 else ""
        yield f"rank {rank.rank}  {clean(', '.join(rank.sessions))}{tied}  (by {row.label if row else UNKNOWN})"


def csv_rows(comparison: Comparison, agreeing: Agreements | None = None) -> Iterator[Sequence[object]]:
    """Yield the rows of a CSV file: a header, then a row for each figure of each session.

    `agreeing` says how well two groups of sessions agree, or is None. Its rows come last.
    """
    yield (
        "key", "unit", "session", "value", "ratio", "ratio_low", "ratio_high", "difference", "difference_low",
        "difference_high", "verdict",
    )  # fmt: skip
    for row in comparison.rows:
        for name, value, one in zip(comparison.names, row.values, row.ratios, strict=True):
            against = () if one is None else (
                one.value, *(one.ci95 or ("", "")), one.difference, *(one.difference_ci95 or ("", "")), one.verdict
            )  # fmt: skip
            yield row.key, row.unit, clean(name), clean(value) if isinstance(value, str) else value, *against
    if agreeing:
        yield from agreement_csv(agreeing, comparison.names)
