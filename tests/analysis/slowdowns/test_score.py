"""A small part of `tests/benchmarks/test_slowdowns.py`, on other seeds."""

from tests.support.generator.plans import CAUSES, generate
from tests.support.generator.score import score

SEEDS = range(600, 640)


def test_generated_slowdowns_are_found_with_their_cause_and_beginning() -> None:
    found = score(generate(seed) for seed in SEEDS)
    assert {true for true, _ in found.confusion} == set(CAUSES)
    assert found.cause_share >= 0.9, found.faults
    assert found.start_share >= 0.9, found.faults
    assert found.false <= 1, found.faults
