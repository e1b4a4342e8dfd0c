"""A comparison of versions of a model or of the software over many boards.

Each board is compared with itself, so differences between boards do not matter. For each figure, a board gives one
difference between two versions: of logarithms, or of the figure itself for shares and temperatures. Intervals, words
and corrections are those of `edgetop compare`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from edgetop.comparison.figures import FIGURES, Figure
from edgetop.comparison.ratios import Row, discovered, judged
from edgetop.comparison.student import LEVEL, Contrast
from edgetop.frozen import frozen
from edgetop.wording.report_document import to_json

FIGURES_OF = ("p50_ms", "p99_ms", "throughput_hz", "throttled_share", "temp_end_c", "gross_mj", "rss_peak_mib")
Record = Mapping[str, Any]


@frozen
class Regression:
    """The comparison of one version of a model with the previous version."""

    model: str
    before: str
    after: str
    boards: int  # number of boards that ran both
    rows: tuple[Row, ...]  # one figure each, with one ratio

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model, "before": self.before, "after": self.after, "boards": self.boards,
            "figures": {
                row.key: {"unit": row.unit, "before": row.values[0], "after": row.values[1], **to_json(row.ratios[1])}
                for row in self.rows
            },
        }  # fmt: skip


def regressions(records: Sequence[Record], key: str = "version") -> tuple[Regression, ...]:
    """Return a comparison of each version of each model with the previous version.

    Versions are in the order of first runs. `records` are the rows that answer the predefined question `regressions`.
    `key` is the column that names the version.
    """
    return tuple(
        found
        for model in dict.fromkeys(one["model"] for one in records)
        for found in _of_model([one for one in records if one["model"] == model], key)
    )


def _of_model(records: Sequence[Record], key: str) -> Iterator[Regression]:
    ran = sorted(records, key=lambda one: str(one["first_utc"]))
    pairs = list(pairwise(dict.fromkeys(one[key] for one in ran)))
    figures = [figure for figure in FIGURES if figure.key in FIGURES_OF]
    for before, after in pairs:
        sides = [{one["board"]: one for one in records if one[key] == version} for version in (before, after)]
        boards = sorted(sides[0].keys() & sides[1].keys())
        both = [(sides[0][board], sides[1][board]) for board in boards]
        rows = [row for figure in figures if (row := _row(figure, both, LEVEL / len(pairs)))]
        yield Regression(both[0][0]["model"] if both else records[0]["model"], before, after, len(both),
                         tuple(discovered(rows)))  # fmt: skip


def _row(figure: Figure, both: Sequence[tuple[Record, Record]], level: float) -> Row | None:
    """Return the comparison of one figure between two versions, or None if no board has the figure for both versions.

    `both` has each board's records of the two versions. `level` is the significance level, divided by the number of
    comparisons.
    """
    known = [pair for pair in both if all(figure.comparable(one[figure.key]) is not None for one in pair)]
    if not known:
        return None
    scaled = np.array([[figure.on_scale(one[figure.key]) for one in pair] for pair in known])
    before, after = (float(mean) for mean in scaled.mean(axis=0))
    found, count = None, len(known)
    if count > 1:
        apart = scaled[:, 1] - scaled[:, 0]
        found = Contrast(after - before, float(apart.std(ddof=1)) / math.sqrt(count), count - 1)
    values = tuple(round(mean if figure.is_difference else math.exp(mean), 6) for mean in (before, after))
    return Row(figure.key, figure.label, figure.unit, values, (None, judged(found, before, after, figure, level)))
