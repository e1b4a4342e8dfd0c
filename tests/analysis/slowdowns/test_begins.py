"""When a slowdown began, where the latency alone does not tell."""

import pytest

from edgetop.session.seconds import NS
from tests.support.generator.plans import SLOW_MODEL, generate
from tests.support.generator.score import judged


@pytest.mark.parametrize(("seed", "cause"), [(302, "under-voltage"), (313, "power-cap"), (314, "contention")])
def test_where_it_scatters_widely_the_proof_of_the_cause_tells(seed: int, cause: str) -> None:
    session = generate(seed, "wide-noise")
    (found,) = judged(session)
    assert found.cause == cause
    assert found.start_ns / NS == pytest.approx(session.truth[0].start_s, abs=2)


@pytest.mark.parametrize(("seed", "cause"), [(27, "thermal"), (31, "contention"), (62, "contention")])
def test_where_inferences_are_few_the_proof_of_the_cause_tells(seed: int, cause: str) -> None:
    """In two of them, an outlier of ten seconds comes before the slowdown."""
    session = generate(seed, SLOW_MODEL)
    (found,) = judged(session)
    assert found.cause == cause
    assert found.start_ns / NS == pytest.approx(session.truth[0].start_s, abs=2)
