"""What the screen shows of a language model: times between tokens over time, generated tokens."""

import numpy as np
import pytest

from edgetop.analysis.session_report import report
from edgetop.analysis.timeline import Axis
from edgetop.cli.printing.report_markdown import report_markdown
from edgetop.session.seconds import NS
from edgetop.session.session_summary import Summary, parse_summary
from edgetop.ui.characters import CharacterSet
from edgetop.ui.panes import latency_pane
from edgetop.ui.panes.fleet_pane import detail_lines
from edgetop.ui.panes.pane import Area
from edgetop.wording.board_summary import Summaries
from tests.analysis.test_equal_position import Model, session
from tests.support.fleets import view as board_view
from tests.support.screens import text_of
from tests.support.sessions import folded


def test_the_heat_map_is_of_times_between_tokens():
    analysis = folded([session(Model(base=20, growth=0, most=200), 60)])
    columns = analysis.latency.heat(Axis(0, 60, 10))
    assert [column.from_s for column in columns] == [0, 10, 20, 30, 40, 50]
    assert [column.p50_ns / 1e6 for column in columns] == pytest.approx([20.0] * 6, rel=0.03)
    counted = sum(column.count for column in columns)
    assert counted == int(analysis.generation.counts()[1].sum())
    assert analysis.latency.view(None, 60 * NS).heat_is_of_tokens


def test_the_pane_has_a_line_on_the_tokens():
    view = folded([session(Model(base=20, growth=0, most=200), 60)]).view(None)
    text = text_of(latency_pane.body(view, Area(70, 12, CharacterSet())))
    tokens = int(np.sum(session(Model(base=20, growth=0, most=200), 60).seconds.tokens.rows["tokens_out"]))
    assert "TTFT" in text
    assert "decode" in text
    assert f"{tokens:,}" in text or str(tokens) in text


def test_a_fleet_has_the_tokens_of_each_board():
    whole = session(Model(base=20, growth=0, most=200), 60)
    summaries, tokens = Summaries(()), folded([whole]).generation.view()
    summaries.fold(whole)
    summary = parse_summary(summaries.message()["changed"], Summary())
    assert summary.decode_tok_s == pytest.approx(50, rel=0.03)
    assert summary.itl_p99_ms == pytest.approx(tokens.itl.percentile_ns(0.99) / 1e6, rel=1e-4)
    assert summary.ttft_p50_ms == pytest.approx(5.0, rel=0.01)
    assert summary.j_per_token is None
    view = board_view("pi", decode_tok_s=49.7, itl_p50_ms=20.1, itl_p99_ms=21.2, j_per_token=0.251)
    assert "49.7 tok/s  ITL p50 20.10 p99 21.20 ms  0.251 J/token" in text_of(
        detail_lines(view, Area(160, 2, CharacterSet()))
    )
    assert "tok/s" not in text_of(detail_lines(board_view("pi", p50_ms=3.0), Area(160, 2, CharacterSet())))


def test_the_markdown_report_has_a_table_of_tokens():
    analysis = folded([session(Model(base=20, growth=0, most=200), 60)])
    rows = [line for line in report_markdown(report(analysis)) if line.startswith("| ")]
    (ttft,), (itl,) = ([row for row in rows if row.startswith(f"| {name} ")] for name in ("TTFT", "ITL"))
    assert "| 5.0" in ttft
    assert "| 20." in itl
    assert "| 49" in itl or "| 50" in itl
