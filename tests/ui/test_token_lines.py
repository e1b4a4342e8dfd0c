"""What the screen shows of a language model: times between tokens over time, generated tokens."""

import numpy as np
import pytest

from edgetop.analysis.timeline import Axis
from edgetop.session.seconds import NS
from edgetop.ui.characters import CharacterSet
from edgetop.ui.panes import latency_pane
from edgetop.ui.panes.pane import Area
from tests.analysis.test_equal_position import Model, session
from tests.support.screens import text_of
from tests.support.sessions import folded


def test_the_heat_map_is_of_times_between_tokens():
    analysis = folded([session(Model(base=20, growth=0, most=200), 60)])
    columns = analysis.latency.heat(Axis(0, 60, 10))
    assert [column.from_s for column in columns] == [0, 10, 20, 30, 40, 50]
    assert [column.p50_ns / 1e6 for column in columns] == pytest.approx([20.0] * 6, rel=0.03)
    counted = sum(column.count for column in columns)
    assert counted == int(analysis.generation.counts()[1].sum())
    assert analysis.latency.view(None, 60 * NS, Axis(0, 60, 10)).heat_is_of_tokens


def test_the_pane_has_a_line_on_the_tokens():
    view = folded([session(Model(base=20, growth=0, most=200), 60)]).view(None)
    text = text_of(latency_pane.body(view, Area(70, 12, CharacterSet())))
    tokens = int(np.sum(session(Model(base=20, growth=0, most=200), 60).seconds.tokens.rows["tokens_out"]))
    assert "TTFT" in text
    assert "decode" in text
    assert f"{tokens:,}" in text or str(tokens) in text
