"""A slow model leaves thousands of small pieces behind: its windows are still those of numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.session.batch import Batch
from edgetop.session.records import measured
from edgetop.session.seconds import NS
from tests.support.scripts import Script

pytestmark = pytest.mark.slow


def batches(step_s: float, seconds: float, rate_hz: float) -> list[Batch]:
    return Script(step_s=step_s).load().warm_up().begin().measure(seconds, rate_hz=rate_hz).batches


@pytest.mark.thorough
@settings(deadline=None, max_examples=20)
@given(
    step_s=st.sampled_from((0.05, 0.25, 1.0, 7.0)),
    rate_hz=st.sampled_from((0.4, 3.0, 50.0)),
    window_s=st.integers(1, 40),
)
def test_a_window_holds_exactly_what_started_in_it(step_s: float, rate_hz: float, window_s: int) -> None:
    whole = batches(step_s, 30, rate_hz)
    analysis = Analysis()
    for batch in whole:
        analysis.fold(batch)
    view = analysis.view(window_s * NS).latency
    rows = measured(np.concatenate([batch.inferences for batch in whole]))
    inside = rows["latency_ns"][rows["t_ns"] >= whole[-1].until_ns - window_s * NS]
    assert (view.window.count if view.window else 0) == len(inside)
    if view.window:
        assert view.is_exact
        assert view.window.max_ns == inside.max()
        assert view.window.mean_ns == inside.mean()


def test_after_a_reset_the_view_says_since_when() -> None:
    analysis = Analysis()
    analysis.fold(Script().load().warm_up().begin().measure(12.5).whole())
    assert analysis.view(None).latency.since_ns == 0
    analysis.reset()
    assert analysis.view(None).latency.since_ns == 14 * NS
