"""The pane of an A/B session: what stands in it at each size."""

import re
from dataclasses import replace

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.ui.characters import CharacterSet
from edgetop.ui.panes.ab_pane import ab_body
from edgetop.ui.panes.latency_pane import LATENCY
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import width
from tests.analysis.test_ab import analysed

FIVE_PERCENT = r"\+(4\.[89]|5\.[012]) %"  # the truth, as near as so few tell


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analysed()


def drawn(analysis: Analysis, cells: int, rows: int, *, ascii_only: bool = False) -> list[str]:
    characters = CharacterSet(ascii_only=ascii_only)
    lines = LATENCY.body(analysis.view(None), Area(cells, rows, characters))
    assert len(lines) <= rows
    assert all(width(one) <= cells for one in lines)
    return ["".join(span.text for span in one) for one in lines]


@pytest.mark.parametrize(("cells", "rows"), [(78, 5), (64, 16), (108, 14), (40, 3)])
def test_both_and_the_ratio_of_p50_stand_first(analysis: Analysis, cells: int, rows: int) -> None:
    a, b, p50, *_ = drawn(analysis, cells, rows)
    assert a.startswith("A one.onnx")
    assert b.startswith("B other.onnx")
    assert p50.startswith("p50")
    assert re.search(FIVE_PERCENT, p50)


def test_the_distributions_overlap_where_there_is_room(analysis: Analysis) -> None:
    lines = drawn(analysis, 80, 20, ascii_only=True)
    chart = [one for one in lines if ":" in one and "+" in one]
    assert chart
    assert chart[0].rindex(":") < chart[0].rindex("+")  # B is the slower
    assert all(one.isascii() for one in lines)
    assert len(drawn(analysis, 80, 8)) < 8


def test_the_gauge_shows_the_interval_about_no_difference(analysis: Analysis) -> None:
    p50 = drawn(analysis, 90, 8)[2]
    left, _, right = p50.partition("|")
    assert "[" not in left
    assert "]" in right


def test_in_one_line_and_in_the_title(analysis: Analysis) -> None:
    view, area = analysis.view(None), Area(90, 1, CharacterSet())
    assert LATENCY.line
    assert re.search(f"B is slower at p50: {FIVE_PERCENT}", "".join(span.text for span in LATENCY.line(view, area)))
    assert LATENCY.title(view, area) == "25 quads"


def test_no_difference_at_all_has_a_gauge(analysis: Analysis) -> None:
    """As coarse times of a few quads have it: the interval is one point, at "no difference"."""
    view = analysis.ab_view()
    assert view
    ratios = {name: ratio and replace(ratio, value=1.0, ci95=(1.0, 1.0)) for name, ratio in view.ratios.items()}
    lines = ab_body(replace(view, ratios=ratios, until=0.0), Area(90, 8, CharacterSet(ascii_only=True)))
    p50 = "".join(span.text for span in lines[2])
    assert "0.1 %" in p50
