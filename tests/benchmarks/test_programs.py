"""How well programs of several models are judged: generated ones whose mix changes, on seeds not used while building.

Thresholds were chosen on seeds 0 to 59, and looked at again on 1_000 to 1_059 and 7_000 to 7_099.
"""

import pytest

from tests.support.generator.program_score import score_programs
from tests.support.generator.programs import generate_cold_program, generate_program

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3_600)]

SEEDS = range(21_000, 21_100)
LEAST_RIGHT = 0.95  # of stream, cause and a beginning within 5 s
KINDS = {
    "one of the board's causes, or an unknown one of one model": lambda seed: generate_program(seed, is_slow=True),
    "a changed mix that slows a small model": generate_cold_program,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_stream_and_cause_are_told(kind, capsys):
    found = score_programs((str(seed), KINDS[kind](seed)) for seed in SEEDS)
    wrong = {pair: n for pair, n in found.confusion.items() if pair[0] != pair[1]}
    with capsys.disabled():
        print(f"\n{kind}, seeds {SEEDS.start} to {SEEDS.stop - 1}: {found.right} of {found.true} right, {wrong} wrong")
        print(f"{found.false} found that are not true")
    assert found.share >= LEAST_RIGHT


def test_a_changing_mix_alone_is_no_slowdown(capsys):
    found = score_programs((str(seed), generate_program(seed, is_slow=False)) for seed in SEEDS)
    with capsys.disabled():
        print(f"\nhealthy, seeds {SEEDS.start} to {SEEDS.stop - 1}: {found.false} slowdowns found")
    assert found.false == 0, found.faults
