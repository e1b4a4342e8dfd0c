"""The bench table of a sweep: its columns, and what it shows for a figure that nobody knows."""

import pytest

from edgetop.cli.comparing.bench_table import KEYS, bench_cells, bench_lines
from edgetop.formatting import UNKNOWN

ALL = dict.fromkeys(KEYS, 2.0)
NONE: dict[str, float | None] = dict.fromkeys(KEYS)


def test_every_figure_that_is_known_has_a_column() -> None:
    heads, row = bench_cells([("net", ALL)])
    assert len(heads) == len(row) == len(KEYS) + 1
    assert len(set(heads)) == len(heads)
    assert {"size", "parameters", "FLOPs", "depth", "bits", "p50 ms", "CPU %", "peak MiB", "GFLOP/s/W"} < set(heads)


@pytest.mark.parametrize("key", KEYS)
def test_a_figure_that_one_combination_lacks_is_unknown_there_and_not_0(key: str) -> None:
    heads, full, partial = bench_cells([("a", ALL), ("b", {**ALL, key: None})])
    place = KEYS.index(key) + 1
    assert heads == bench_cells([("a", ALL)])[0]
    assert full[place] != UNKNOWN
    assert [place for place, cell in enumerate(partial) if cell == UNKNOWN] == [place]


@pytest.mark.parametrize("key", KEYS)
def test_a_figure_that_all_lack_has_no_column(key: str) -> None:
    with_it, without = bench_cells([("a", ALL)])[0], bench_cells([("a", {**ALL, key: None})])[0]
    assert without == [head for place, head in enumerate(with_it) if place != KEYS.index(key) + 1]


@pytest.mark.parametrize("columns", [40, 80, 400])
def test_a_table_that_is_too_wide_is_cut_into_several_with_all_columns(columns: int) -> None:
    lines = list(bench_lines([("net", ALL)], columns))
    text = " ".join(line for line in lines if line.startswith("bench"))
    assert all(head in text for head in bench_cells([("net", ALL)])[0])
    assert max(map(len, lines)) <= columns
    assert list(bench_lines([("net", NONE)], columns)) == []
