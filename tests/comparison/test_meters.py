"""What power meters add to the uncertainty of a ratio of energies: nothing, where it cancels."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.report_parts import EnergyFigures, PowerFigures
from edgetop.analysis.report_uncertainty import MeterParts, MeterWatts, Uncertainty
from edgetop.comparison.meters import MeterShare, is_same_meter, share_of_net, spread_of_meters
from edgetop.comparison.ratios import Ratio, compare
from edgetop.comparison.sample import Group, Sample
from edgetop.comparison.student import Contrast
from edgetop.session.manifest import Board
from edgetop.session.meter import Meter
from tests.support.compared import made
from tests.support.sessions import make_sensor

TOTAL = replace(make_sensor("power/in", role="total"), meter=Meter("ina219", 0.1))
OTHER = replace(TOTAL, meter=Meter("ina226", 0.002))


def metered(seed: int, watts: float, *, error_w: float = 0.05, meter: object = TOTAL, board: str = "b") -> Sample:
    """A session with a mean power, and a meter that may be off by so much because of its shunt."""
    one = made(seed, seconds=30)
    power = PowerFigures(
        total_sensor="power/in", mean_w=watts, rails={},
        uncertainty=MeterWatts(error_w, error_w, 0.0, 0.0, 0.0),
    )  # fmt: skip
    energy = EnergyFigures(gross_mj=watts * 25, ci95_mj=(watts * 24.99, watts * 25.01), rails={})
    session = replace(one.session, sensors=(*one.session.sensors, meter), board=Board(model=board))
    return replace(one, report=replace(one.report, power=power, energy=energy, session=session))


def ratio_of(base: list[Sample], other: list[Sample]) -> Ratio:
    row = compare([Group("a", tuple(base)), Group("b", tuple(other))]).row("gross_mj")
    assert row
    assert row.ratios[1]
    return row.ratios[1]


def sessions(watts: float, **more: object) -> list[Sample]:
    return [metered(seed, watts * (1 + 0.0005 * (seed - 2)), **more) for seed in range(5)]


def test_the_shunt_of_one_meter_cancels_in_a_ratio() -> None:
    found = ratio_of(sessions(5.0), sessions(5.03))
    assert found.verdict == "higher"


def test_two_meters_may_differ_by_what_both_are_off() -> None:
    found = ratio_of(sessions(5.0), sessions(5.03, meter=OTHER))
    assert found.verdict != "higher"
    assert found.ci95
    low, high = found.ci95
    assert high - low == pytest.approx(2 * 2**0.5 * 0.05 / 5, rel=0.25)
    assert (found.needs_sessions, found.needs_s) == (None, None)  # more sessions do not help


def test_meters_on_boards_of_two_models_are_two() -> None:
    first = metered(1, 5.0)
    assert is_same_meter(first, metered(2, 5.0))
    assert not is_same_meter(first, metered(2, 5.0, board="c"))
    assert not is_same_meter(first, metered(2, 5.0, meter=OTHER))


def test_meters_that_differ_are_told() -> None:
    found = compare([Group("a", tuple(sessions(5.0))), Group("b", tuple(sessions(5.0, meter=OTHER)))])
    assert [one.message for one in found.fair if one.code == "meter-differs"] == [
        "power meter differs: ina219 (power/in) (a); ina226 (power/in) (b)"
    ]


def test_an_offset_counts_for_the_difference_of_its_shares() -> None:
    """0.1 W of offset is 2 % of 5 W and 1 % of 10 W: the ratio may be off by 1 %."""
    first, second = MeterShare(0.03, 0.02, 0.0), MeterShare(0.02, 0.01, 0.0)
    assert spread_of_meters(first, second, is_same=True) == pytest.approx(0.01 / 1.96)
    assert spread_of_meters(first, second, is_same=False) == pytest.approx(np.hypot(0.03, 0.02) / 1.96)
    assert spread_of_meters(first, None, is_same=True) == 0.0
    assert spread_of_meters(None, None, is_same=False) == 0.0


def test_the_net_energy_has_errors_of_its_own() -> None:
    one = metered(1, 5.0)
    net = Uncertainty(0.1, 0.5, 0.51, MeterParts(0.4, 0.2, 0.1, 0.2), "ina219", "", None, None)
    energy = replace(one.report.energy, net_mj=50.0, net_uncertainty=net)
    known = replace(one, report=replace(one.report, energy=energy))
    assert share_of_net(known) == MeterShare(0.01, 0.002, 0.004)
    assert share_of_net(one) is None


def test_a_fixed_error_adds_to_that_of_sessions() -> None:
    found = Contrast(0.02, 0.003, 4.0).with_fixed(0.004)
    assert found.error == pytest.approx(0.005)
    assert found.freedom == pytest.approx(4 * (5 / 3) ** 4)
    assert Contrast(0.02, 0.003, 4.0).with_fixed(0.0) == Contrast(0.02, 0.003, 4.0)
    assert Contrast(0.02, 0.0, 4.0).with_fixed(0.01).error == 0.01
