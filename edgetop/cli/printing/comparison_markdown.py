"""A comparison as Markdown: what differs, tables, the ranking, gates, and what makes the comparison unfair."""

from collections.abc import Iterator, Sequence

from edgetop.cli.printing.agreement_text import (
    agreement_heads,
    agreement_rows,
    agreement_sentences,
    left_out_words,
)
from edgetop.cli.printing.comparison_words import (
    WIDE_CELLS,
    needs_words,
    ratio_cells,
    row_label,
    row_value,
    sentences,
    shown_rows,
)
from edgetop.cli.printing.markdown import advised, bullets, code, escaped, folded, markdown_table
from edgetop.cli.printing.usage_text import HEADS, usage_cell
from edgetop.comparison.agreement import Agreements
from edgetop.comparison.comparison_gates import RelativeResult
from edgetop.comparison.ratios import Comparison, Row
from edgetop.comparison.usage_table import KEYS, usage_rows


def comparison_markdown(
    comparison: Comparison, gates: Sequence[RelativeResult] = (), agreeing: Agreements | None = None
) -> Iterator[str]:
    """Yield the lines of a comparison as a Markdown document.

    `gates` are the results of `--fail-if`. `agreeing` says how well two groups of sessions agree, or is None.
    """
    names = [code(group.name) for group in comparison.groups]
    yield f"### edgetop compare {', '.join(names)}"
    for sentence in sentences(comparison):
        yield from ("", escaped(sentence))
    simulated = [code(g.name) for g in comparison.groups if any(one.session.board.simulated for one in g.samples)]
    if simulated:
        yield from ("", f"SIMULATED: {', '.join(simulated)}")
    leads = [row for row in comparison.leads if any(value is not None for value in row.values)]
    yield from _figures(leads, names, is_brief=True)
    yield from _agreement(agreeing, comparison.names) if agreeing else ()
    ranks = (f"{rank.rank}: {', '.join(map(code, rank.sessions))}" for rank in comparison.ranking)
    row = comparison.row(comparison.ranked_by)
    yield from bullets(f"Rank by {escaped(row.label if row else comparison.ranked_by)}", ranks)
    results = (
        (code(one.gate.text), code(one.session), "passed" if one.ok else "**FAILED**", escaped(one.reason))
        for one in gates
    )
    yield from markdown_table(("gate", "session", "result", ""), results)
    yield from bullets("Was it fair?", (advised(one.message, one.advice) for one in comparison.fair))
    yield from folded("All figures", _all_figures(comparison, names))


def _all_figures(comparison: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yield tables of all figures, of the settings and of the usage. `names` are those of the groups, as Markdown."""
    rows = shown_rows(comparison)
    yield from _figures([row for row in rows if any(row.ratios)], names)
    facts = (
        [escaped(row.label), *(_value(row, place) for place in range(len(names)))]
        for row in rows
        if not any(row.ratios)
    )
    yield from markdown_table(("", *names), facts)
    yield from _usage(comparison)


def _agreement(found: Agreements, names: Sequence[str]) -> Iterator[str]:
    here, there = names
    for one in found.agreements:
        for sentence in agreement_sentences(one, here, there):
            yield from ("", escaped(sentence))
        unit, *heads = agreement_heads(one, code(here), code(there))
        rows = ([code(name), *map(escaped, cells)] for name, *cells in agreement_rows(one))
        yield from markdown_table([escaped(unit), *heads], rows, heads)
    if left_out := left_out_words(found):
        yield from ("", f"Left out: {escaped(left_out)}")


def _figures(rows: Sequence[Row], names: Sequence[str], *, is_brief: bool = False) -> Iterator[str]:
    """Yield a table of figures.

    If `is_brief`, the table does not say why a difference is unknown, because sentences elsewhere say it.
    """
    heads = ["", names[0], *(head for name in names[1:] for head in (name, "change", "95 %", " "))]
    lines = []
    for row in rows:
        line = [escaped(row_label(row, WIDE_CELLS)), _value(row, 0)]
        for place in range(1, len(names)):
            one = row.ratios[place]
            change, interval, words = ratio_cells(one, row.unit)
            needs = needs_words(one)
            said = words.partition(":")[0] if is_brief else f"{words}: needs {needs}" if needs else words
            line += [_value(row, place), change, interval, escaped(said)]
        lines.append(line)
    yield from markdown_table(heads, lines, {*names, "change", "95 %"})


def _value(row: Row, place: int) -> str:
    value = row.values[place]
    return code(value) if isinstance(value, str) else row_value(row, place)


def _usage(comparison: Comparison) -> Iterator[str]:
    rows = usage_rows(comparison.groups)
    shown = [key for key in KEYS if any(row.values[KEYS.index(key)] is not None for row in rows)]
    lines = ([code(row.name), *(usage_cell(row, key) for key in shown)] for row in rows)
    heads = [HEADS[key] for key in shown]
    yield from markdown_table(["usage", *heads], lines, heads)
