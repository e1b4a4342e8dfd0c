"""What holds an operator up follows from its work, its time and the board's ceilings, and is unknown without these."""

from dataclasses import replace

import pytest

from edgetop.analysis.operator_bounds import applicable, bound, of_provider, rates
from edgetop.session.ceilings import Ceilings, ceilings_from
from edgetop.wording.operator_words import bound_unknown_words

ROOF = Ceilings(100e9, 10e9, "2026-11-21T10:00:00Z")  # 100 FLOPs and 10 bytes a nanosecond


@pytest.mark.parametrize(
    ("flops", "moved", "ns", "found"),
    [
        (100_000, 1_000, 2_000, "compute-bound"),  # 1000 ns of arithmetic, 100 of memory
        (10_000, 10_000, 2_000, "memory-bound"),  # 100 and 1000
        (20_000, 1_800, 1_980, "compute-bound"),  # 200 of 1980: just more than a tenth
        (10_000, 900, 1_010, "overhead"),  # 100 of 1010
        (10_000, 10_000, 999, None),  # shorter than the clock of a runtime can resolve
        (10_000, 1_000, 2_000, "overhead"),  # 100 and 100 of 2000
        (0, 10_000, 2_000, "memory-bound"),
        (0, 0, 2_000, "overhead"),
        (None, 10_000, 2_000, None),
        (10_000, None, 2_000, None),
        (10_000, 10_000, None, None),
        (10_000, 10_000, 0, None),
    ],
)
def test_an_operators_bound_is_what_explains_most_of_its_time(flops, moved, ns, found):
    assert bound(flops, moved, ns, ROOF) == found
    assert bound(flops, moved, ns, None) is None


def test_rates_are_those_of_a_call():
    assert rates(2_000, None, 1_000) == rates(2_000, None, 1_000.0)
    assert rates(2_000, 500, 1_000).flops_per_s == 2e9
    assert rates(2_000, 500, 1_000).bytes_per_s == 5e8
    assert rates(2_000, 500, 0).flops_per_s is None


def test_a_rate_that_cannot_be_right_is_not_given_and_has_its_reason():
    at_the_ceiling = rates(2_000, 10_000, 1_000, ROOF)
    assert (at_the_ceiling.bytes_per_s, at_the_ceiling.not_measurable) == (10e9, None)
    above = rates(2_000, 10_010, 1_000, ROOF)
    assert (above.flops_per_s, above.bytes_per_s, above.not_measurable) == (2e9, None, "above-ceiling")
    for ns in (0, 1, 999):  # 3,651 GB/s of an operator that took 0.000 ms
        short = rates(2_000, 3_651_000, ns, None)
        assert (short.flops_per_s, short.bytes_per_s, short.not_measurable) == (None, None, "too-short")
    assert rates(None, None, 0).not_measurable is rates(2_000, 500, None).not_measurable is None


def test_ceilings_hold_for_their_dtype_only_or_say_why_none_do():
    assert applicable(ROOF, "float32") == applicable(ROOF, None) == ROOF
    assert applicable(ROOF, "int8") is None
    assert "doctor --roofline" in bound_unknown_words(None, "float32", "CPU")
    assert "int8" in bound_unknown_words(ROOF, "int8", "CPU")
    assert "float16" in bound_unknown_words(ROOF, "float16", "CPU")
    both = replace(ROOF, int8_flops_per_s=400e9)
    assert applicable(both, "int8") == applicable(both, "uint8") == replace(both, flops_per_s=400e9)
    assert applicable(both, "float16") is None
    assert bound_unknown_words(both, "int8", "CPU") == ""
    assert bound_unknown_words(ROOF, "float32", "CPU") == ""
    assert "CUDA" in bound_unknown_words(ROOF, "float32", "CUDA")


def test_only_the_cpu_has_ceilings() -> None:
    assert of_provider(ROOF, "XNNPACK") is ROOF
    assert of_provider(ROOF, "CUDA") is None


@pytest.mark.parametrize("change", [{"flops_per_s": 0}, {"bytes_per_s": "x"}, {"dtype": "int8"}, {"measured_utc": 3}])
def test_ceilings_survive_being_written_and_nonsense_is_none(change):
    assert ceilings_from(ROOF.to_json()) == ROOF
    assert ceilings_from({**ROOF.to_json(), **change}) is None
    assert ceilings_from({}) is None
    integer = replace(ROOF, int8_flops_per_s=400e9)
    assert ceilings_from(integer.to_json()) == integer
    for nonsense in (-1, float("inf"), float("nan"), "x"):
        assert ceilings_from({**ROOF.to_json(), "int8_flops_per_s": nonsense}) == ROOF
