"""The sentence about the operator whose energy stands out."""

import pytest

from edgetop.analysis.report_operators import OperatorFigures
from edgetop.wording.operator_words import energy_stands_out


def operator(number: int, share: float, energy_mj: float) -> OperatorFigures:
    return OperatorFigures(
        name=f"op{number}", op_type="Conv", provider="CPU", share=share, mean_us=None, energy_mj_estimate=None,
        energy_mj=energy_mj, energy_ci95_mj=None, energy_group=number, calls=1.0, flops=None, bytes=None, bound=None,
        origin=None, gflop_per_s=None, gb_per_s=None, rate_unknown=None, fits_in=None, settled=True, share_ci95=None,
    )  # fmt: skip


@pytest.mark.parametrize(("energy_mj", "is_named"), [(23.5, False), (24.5, True)])
def test_an_operator_with_a_fifth_more_of_the_energy_than_of_the_time_is_named(
    energy_mj: float, is_named: bool
) -> None:
    operators = [operator(0, 0.2, energy_mj), operator(1, 0.8, 100 - energy_mj)]
    assert energy_stands_out(operators).startswith("op0 takes 20% of the time") is is_named
