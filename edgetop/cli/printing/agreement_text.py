"""Shows how well the figures of one group of sessions (as on a desk) predict those of another group (on a device)."""

from collections.abc import Iterator, Sequence

from edgetop.cli.output import table, text_columns
from edgetop.cli.printing.report_text import wrapped
from edgetop.comparison.agreement import Agreement, Agreements
from edgetop.comparison.device_fit import FIGURES
from edgetop.comparison.pair_order import Order
from edgetop.formatting import UNKNOWN, clean, fine_percent, plain, shortened

NAME_CELLS = 32
MOST_TIES = 6  # pairs that a sentence lists


def agreement_lines(found: Agreements, names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a text table for each figure, such as p50, with the models as rows.

    `names` are the names of the two groups of sessions. Control characters in names are made visible.
    """
    here, there = (shortened(clean(name), NAME_CELLS // 2) for name in names)
    columns = text_columns()
    for one in found.agreements:
        yield ""
        first, *further = agreement_sentences(one, here, there)
        yield from wrapped((first,), columns) if one.line is None else (first,)
        yield from wrapped((f"  {sentence}" for sentence in further), columns)
        rows = [[shortened(clean(name), NAME_CELLS), *cells] for name, *cells in agreement_rows(one)]
        if rows:
            yield from table(agreement_heads(one, here, there), rows, {FIGURES[one.key].unit})
    if found.left_out:
        yield ""
        yield from wrapped((f"left out   {left_out_words(found)}",), columns)


def left_out_words(found: Agreements) -> str:
    return f"{clean(', '.join(found.left_out))}: on one side only" if found.left_out else ""


def agreement_sentences(one: Agreement, here: str, there: str) -> Iterator[str]:
    """Yield sentences on one figure: how alike both groups rank the models, and the line fitted to the figures.

    The line predicts a model's figure in group `there` from its figure in group `here`. If there is no line, one
    sentence says why. `here` and `there` are the names of the two groups.
    """
    figure, line = FIGURES[one.key], one.line
    if line is None:
        yield f"{figure.label}: refused: {one.refused}"
        return
    by_chance = "" if one.chance is None else f" (by chance as high in {fine_percent(one.chance)})"
    yield f"{figure.label}: Kendall's tau of the order {line.tau:.2f}{by_chance}"
    r2 = UNKNOWN if line.r2 is None else f"{line.r2:.3f}"
    if one.order:
        yield from _order_sentences(one.order, here, there)
    yield f"line: {there} = {plain(line.factor)} {figure.unit} x ({figure.unit} on {here})^{line.slope:.3f}, R2 {r2}"


def _order_sentences(order: Order, here: str, there: str) -> Iterator[str]:
    """Yield a sentence on the pairs of models that differ clearly in both groups, and one on the other pairs, if any.

    `here` and `there` are the names of the two groups of sessions.
    """
    tau = "none" if order.tau_b is None else f"{order.tau_b:.2f}"
    yield f"pairs told apart on both: {len(order.told_apart)} of {len(order.pairs)}; tau-b with ties {tau}"
    if not order.ties:
        return
    named = [
        f"{shortened(clean(pair.first), NAME_CELLS)} and {shortened(clean(pair.second), NAME_CELLS)}"
        f" ({' and '.join(side for side, sign in ((here, pair.here), (there, pair.there)) if not sign)})"
        for pair in order.ties[:MOST_TIES]
    ]
    more = len(order.ties) - len(named)
    yield f"not told apart: {'; '.join(named)}{f'; and {more} more' if more else ''}"


def agreement_heads(one: Agreement, here: str, there: str) -> list[str]:
    """Return the headings of the table of models. The first is the unit of the figures, such as `ms`.

    `here` and `there` are the names of the two groups of sessions.
    """
    return [FIGURES[one.key].unit, here, there, "line", "residual", "off if left out"]


def agreement_rows(one: Agreement) -> Iterator[list[str]]:
    """Yield a row of cells for each model: its name, then its figures as text.

    Yield nothing if no line could be fitted to the figures of both groups.

    The name may contain control characters.
    """
    if (line := one.line) is None:
        return
    for pair, off, out in zip(line.pairs, one.residuals, line.left_out, strict=True):
        figures = (plain(value) for value in (pair.here, pair.there, line.at(pair.here)))
        yield [pair.name, *figures, f"{off * 100:+.1f} %", fine_percent(out)]


def agreement_csv(found: Agreements, names: Sequence[str]) -> Iterator[Sequence[object]]:
    """Yield rows `(key, unit, session or model, value)` for the CSV file of a comparison.

    `names` are the names of the two groups of sessions.
    """
    there = clean(names[1])
    for one in found.agreements:
        if (line := one.line) is None:
            continue
        key, unit = f"agreement.{one.key}", FIGURES[one.key].unit
        yield f"{key}.tau", "", there, line.tau
        yield f"{key}.tau_chance", "", there, one.chance
        if one.order:
            yield f"{key}.tau_b", "", there, one.order.tau_b
            yield f"{key}.pairs", "", there, len(one.order.pairs)
            yield f"{key}.told_apart", "", there, len(one.order.told_apart)
        yield f"{key}.slope", "", there, line.slope
        yield f"{key}.factor", unit, there, line.factor
        yield f"{key}.r2", "", there, line.r2
        for pair, off, out in zip(line.pairs, one.residuals, line.left_out, strict=True):
            name = clean(pair.name)
            yield f"{key}.desk", unit, name, pair.here
            yield f"{key}.device", unit, name, pair.there
            yield f"{key}.line", unit, name, line.at(pair.here)
            yield f"{key}.residual", "", name, off
            yield f"{key}.left_out_error", "", name, out
