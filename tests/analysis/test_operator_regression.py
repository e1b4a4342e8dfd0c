"""What the CPU counts in each operator, by regression of the readings of its counters on the operators' times."""

import pytest

from edgetop.analysis.operator_regression import PhaseCounts
from edgetop.analysis.operator_shares import key_of
from edgetop.session.manifest import Manifest
from tests.support.metered_operators import Metered
from tests.support.sessions import make_manifest, make_sensor

RATES = (3e9, 0.6e9, 1.8e9, 2.4e9)  # events per second while each operator runs


def events_of(session: Metered, manifest: Manifest) -> PhaseCounts:
    fold = PhaseCounts()
    for batch in session.batches(manifest):
        fold.fold(batch)
    return fold


def counted(name: str) -> Manifest:
    return make_manifest(make_sensor(f"rate/{name}"))


def test_the_events_of_each_operator_are_estimated_with_their_interval() -> None:
    session = Metered(5, shares=[0.4, 0.3, 0.2, 0.1], watts=list(RATES), latency=250, every=100, minutes=6)
    found = events_of(session, counted("cycles")).view(session.operators)
    assert len(found) >= 3
    for operator, true_mj in zip(session.operators, session.true_mj, strict=True):
        if events := found.get(key_of(operator)):
            assert events.by == "regression"
            assert events.cycles == pytest.approx(true_mj / 1e3, rel=0.1)
            assert events.ci95 is not None
            low, high = events.ci95["cycles"]
            assert low < (events.cycles or 0) < high


@pytest.mark.parametrize(("name", "minutes"), [("page-faults", 6), ("cycles", 1)])
def test_other_counters_and_short_sessions_have_no_figures(name: str, minutes: float) -> None:
    session = Metered(5, shares=[0.6, 0.4], watts=[3e9, 1e9], latency=250, every=100, minutes=minutes)
    assert events_of(session, counted(name)).view(session.operators) == {}
