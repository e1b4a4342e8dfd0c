"""A table of a sweep: size, accuracy, latency, load and energy of each combination of model and settings.

The table is shown as text and as Markdown. Columns without any value are left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from edgetop import formatting
from edgetop.cli.output import table
from edgetop.cli.printing.output_agreement_words import worst
from edgetop.comparison.model_table import HEADS, model_rows
from edgetop.comparison.ratios import Comparison
from edgetop.comparison.sample import Group
from edgetop.comparison.usage_table import usage_rows
from edgetop.formatting import UNKNOWN, clean
from edgetop.session.typed_json import Document
from edgetop.sweep_plan import Candidate


def _milliseconds(value: float) -> str:
    return formatting.milliseconds(value * 1e6)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


# By key: the header of a column, and how its values are shown.
_COLUMNS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "model_bytes": (HEADS["model_bytes"], formatting.size),
    "parameters": (HEADS["parameters"], formatting.count),
    "flops": (HEADS["flops"], formatting.count),
    "depth": (HEADS["depth"], formatting.plain),
    "weight_bits": (HEADS["weight_bits"], formatting.plain),
    "top-1": ("top-1 %", _percent),
    "top-5": ("top-5 %", _percent),
    "metric": ("metric", formatting.plain),
    "same_top": ("same class %", _percent),
    "p50_ms": ("p50 ms", _milliseconds),
    "p99_ms": ("p99 ms", _milliseconds),
    "p99_spread": ("p99 spread %", _percent),
    "cpu_mean_pct": ("CPU %", formatting.plain),
    "mem_peak_mib": ("peak MiB", formatting.plain),
    "block_read_bytes": ("disk read", formatting.size),
    "block_write_bytes": ("written", formatting.size),
    "energy_mj": ("mJ/item", formatting.plain),
    "energy_mwh": (HEADS["energy_mwh"], formatting.plain),
    "gflops_per_w": (HEADS["gflops_per_w"], formatting.plain),
}
KEYS = tuple(_COLUMNS)


def bench_rows(
    candidates: Sequence[Candidate], groups: Sequence[Group], comparison: Comparison | None
) -> list[tuple[str, Document]]:
    """Return `(name, figures)` for each combination in `candidates` that has a recorded session.

    The figures are a dict by the keys in `KEYS`, such as `p50_ms`, with None for an unknown value. `groups` holds the
    sessions of each combination. `comparison` is the comparison of all combinations; None if there are fewer than two.
    """
    built = {row.name: row.to_json() for row in model_rows(groups)}
    used = {row.name: row.to_json() for row in usage_rows(groups)}
    rows = []
    for one in candidates:
        if one.sessions:
            known: Document = {
                **used.get(one.name, {}), **one.figures, **built.get(one.name, {}), **worst(comparison, one.name)
            }  # fmt: skip
            rows.append((one.name, {key: known.get(key) for key in KEYS}))
    return rows


def bench_cells(rows: Sequence[tuple[str, Document]]) -> list[list[str]]:
    """Return the cells of the table as text: the header, then a row for each combination.

    `rows` come from `bench_rows`.
    """
    shown = [key for key in KEYS if any(figures[key] is not None for _, figures in rows)]
    heads = ["bench", *(_COLUMNS[key][0] for key in shown)]
    return [heads, *([name, *(_cell(key, figures[key]) for key in shown)] for name, figures in rows)]


def _cell(key: str, value: float | None) -> str:
    return UNKNOWN if value is None else _COLUMNS[key][1](value)


def bench_lines(rows: Sequence[tuple[str, Document]], columns: int) -> Iterator[str]:
    """Yield the lines of the table, at most `columns` characters wide.

    A wider table is cut into several tables with the same rows. `rows` come from `bench_rows`.
    """
    heads, *cells = bench_cells(rows)
    cells = [[clean(name), *rest] for name, *rest in cells]
    first = 1
    while cells and first < len(heads):
        last = len(heads)
        while last > first + 1 and max(map(len, _part(heads, cells, first, last))) > columns:
            last -= 1
        yield ""
        yield from _part(heads, cells, first, last)
        first = last


def _part(heads: Sequence[str], cells: Sequence[Sequence[str]], first: int, last: int) -> list[str]:
    rows = [[row[0], *row[first:last]] for row in cells]
    return list(table([heads[0], *heads[first:last]], rows, heads[:1]))
