"""By how much the meter may be off, against errors computed by hand and against meters with random errors."""

import math
from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.meter_errors import (
    CHIPS,
    COVERAGE,
    PMIC_RESIDUAL_W,
    USUAL_TOLERANCE,
    WARMER_K,
    MeterError,
    MeterUnknown,
    board_estimate,
    meter_error,
)
from edgetop.session.manifest import SensorInfo
from edgetop.session.meter import Meter
from tests.support.sessions import make_sensor

HALF = COVERAGE / 3**0.5  # of the limit of a rectangular distribution


def of(kind: str, shunt_ohm: float | None = 0.01, **more: float | None) -> SensorInfo:
    return replace(make_sensor("power/in", role="total"), meter=Meter(kind, shunt_ohm, **more))


def known(info: SensorInfo, watts: float = 5.0, volts: float | None = 5.0) -> MeterError:
    error = meter_error(info, watts, volts)
    assert isinstance(error, MeterError)
    return error


def test_the_parts_of_an_ina226_follow_from_its_datasheet() -> None:
    """5 W at 5 V is 1 A; 1 uV across 10 milliohms is 0.1 mA, which is 0.5 mW; 7.5 mV at 1 A is 7.5 mW."""
    error = known(of("ina226"))
    assert error.shunt_w == pytest.approx(HALF * 0.01 * 5)
    assert error.gain_w == pytest.approx(HALF * (0.001 + 50e-6 * 25) * 2 * 5)  # 25 K warmer than in the datasheet
    # 12.5 uV at this temperature, and 126 dB of 7 V, as the datasheet is for a bus of 12 V.
    shunt_mw, bus_mw = math.hypot(12.5, 7e6 * 10 ** (-126 / 20)) * 0.5, 7.5 + 1.0
    assert error.offset_w == pytest.approx(HALF * math.hypot(shunt_mw, bus_mw) / 1e3)
    assert error.steps_w == pytest.approx(HALF * (0.000625**2 + 0.000625**2) ** 0.5)
    parts = (error.shunt_w, error.gain_w, error.offset_w, error.steps_w)
    assert error.total_w == pytest.approx(sum((part or 0) ** 2 for part in parts) ** 0.5)
    assert "SBOS547" in error.source


def test_a_stated_tolerance_replaces_the_usual_one() -> None:
    assumed, stated = known(of("ina226")), known(of("ina226", shunt_tolerance=0.001))
    assert (assumed.is_tolerance_assumed, stated.is_tolerance_assumed) == (True, False)
    assert assumed.shunt_w
    assert stated.shunt_w == pytest.approx(assumed.shunt_w * 0.001 / USUAL_TOLERANCE)


def test_a_shunt_inside_of_the_chip_has_no_error_of_its_own() -> None:
    error = known(of("ina260", 0.002))
    assert (error.shunt_w, error.is_tolerance_assumed) == (0.0, False)


@pytest.mark.parametrize("kind", sorted(CHIPS))
def test_the_interval_contains_the_truth_of_meters_with_random_errors(kind: str) -> None:
    """Simulated chips have errors that are uniform within the limits of their datasheets."""
    random, chip, watts, volts, shunt_ohm = np.random.default_rng(11), CHIPS[kind], 6.0, 5.0, 0.01
    count, amperes = 20_000, watts / volts
    inside = USUAL_TOLERANCE if chip.shunt_tolerance is None else chip.shunt_tolerance

    def within(limit: float) -> np.ndarray:
        return random.uniform(-limit, limit, count)

    drift = chip.drift_per_k * WARMER_K
    across = amperes * shunt_ohm * (1 + within(inside)) * (1 + within(chip.shunt_gain + drift))
    across += within(chip.shunt_offset_v) + within(chip.shunt_step_v / 2)
    bus = volts * (1 + within(chip.bus_gain + drift)) + within(chip.bus_offset_v) + within(chip.bus_step_v / 2)
    off = np.abs(bus * across / shunt_ohm - watts)
    # One error that exceeds all others is uniform, and 1.96 of its standard deviations contain all of it.
    assert 0.94 <= np.mean(off <= known(of(kind, shunt_ohm), watts, volts).total_w) <= 1.0


def test_a_share_of_the_power_needs_no_shunt() -> None:
    error = known(of("nvml", None), 80.0, None)
    assert (error.shunt_w, error.offset_w, error.steps_w) == (None, None, None)
    assert error.total_w == pytest.approx(HALF * 0.05 * 80)


def test_a_typical_error_is_a_standard_uncertainty() -> None:
    """Nordic's 15 % are typical, so 95 % of the errors are within 1.96 times as much."""
    error = known(of("ppk2", None), 2.0, None)
    assert (error.shunt_w, error.offset_w, error.steps_w) == (None, None, None)
    assert error.total_w == error.gain_w == pytest.approx(1.96 * 0.15 * 2.0)


@pytest.mark.parametrize(
    ("info", "watts", "volts", "why"),
    [
        (make_sensor("power/in"), 5.0, 5.0, "no-meter"),
        (of("ina226"), None, 5.0, "no-power"),
        (of("rapl", None), 5.0, 5.0, "no-statement"),
        (of("monsoon", None), 5.0, 5.0, "no-statement"),
        (of("ina3221", None), 5.0, 5.0, "no-shunt"),
        (of("ina3221"), 5.0, None, "no-volts"),
    ],
)
def test_an_unknown_error_has_its_reason(info: SensorInfo, watts: float | None, volts: float | None, why: str) -> None:
    error = meter_error(info, watts, volts)
    assert isinstance(error, MeterUnknown)
    assert error.why == why


def test_the_voltage_at_the_start_stands_in_for_one_that_is_not_read() -> None:
    seen = known(of("ina3221", volts=5.0), volts=None)
    assert seen == replace(known(of("ina3221")), meter=Meter("ina3221", 0.01, volts=5.0))


def test_the_sum_of_a_raspberry_pi_5_gives_an_estimate_of_the_board() -> None:
    found = board_estimate(of("rpi5-pmic", None), 4.0)
    assert found is not None
    assert found.watts == pytest.approx(5.1683)
    assert (found.residual_w, found.is_beyond) == (PMIC_RESIDUAL_W, False)
    beyond = board_estimate(of("rpi5-pmic", None), 20.0)
    assert beyond
    assert beyond.is_beyond
    assert board_estimate(of("ina226"), 4.0) is None


def test_a_driver_that_reads_the_register_of_the_power_has_its_steps() -> None:
    """62.5 uV across 10 milliohms are 6.25 mA at 1 V, which is 6.25 mW."""
    own = of("ina226")
    driver = replace(own, source="/sys/class/hwmon/hwmon2/power1_input")
    assert known(driver).steps_w == pytest.approx(math.hypot(known(own).steps_w or 0, HALF * 0.00625))


def difference(info: SensorInfo, watts: float, less_w: float) -> MeterError:
    error = meter_error(info, watts, 5.0, less_w)
    assert isinstance(error, MeterError)
    return error


def test_the_offset_of_a_shunt_cancels_in_a_difference() -> None:
    whole, net = known(of("ina219", 0.1)), difference(of("ina219", 0.1), 5.0, 2.0)
    assert (net.shunt_w, net.gain_w) == pytest.approx((3 / 5 * (whole.shunt_w or 0), 3 / 5 * (whole.gain_w or 0)))
    assert whole.offset_w
    assert net.offset_w == 0.0  # an INA219 has no stated offset of the bus
    assert difference(of("ina226"), 5.0, 2.0).offset_w == pytest.approx(HALF * (0.0075 + 0.001) * 3 / 5)


def test_an_error_that_is_not_known_to_be_an_offset_does_not_cancel() -> None:
    whole, net = known(of("ltc2945")), difference(of("ltc2945"), 5.0, 4.9)
    assert whole.offset_w
    assert net.offset_w
    assert net.offset_w > whole.offset_w


def test_a_difference_of_two_powers_by_nvml_has_its_share() -> None:
    assert difference(of("nvml", None), 80.0, 60.0).total_w == pytest.approx(HALF * 0.05 * 20)


@pytest.mark.parametrize("kind", sorted(CHIPS))
def test_the_interval_of_a_difference_contains_the_truth(kind: str) -> None:
    """Simulated chips, whose gain and offset are the same for both powers, and whose steps are not."""
    random, chip, volts, shunt_ohm, count = np.random.default_rng(12), CHIPS[kind], 5.0, 0.01, 20_000
    inside = USUAL_TOLERANCE if chip.shunt_tolerance is None else chip.shunt_tolerance

    def within(limit: float) -> np.ndarray:
        return random.uniform(-limit, limit, count)

    drift, shunt = chip.drift_per_k * WARMER_K, within(inside)
    gains = within(chip.shunt_gain + drift), within(chip.bus_gain + drift)
    offsets = within(chip.shunt_offset_v), within(chip.bus_offset_v)

    def measured(watts: float) -> np.ndarray:
        across = watts / volts * shunt_ohm * (1 + shunt) * (1 + gains[0]) + offsets[0] + within(chip.shunt_step_v / 2)
        return (volts * (1 + gains[1]) + offsets[1] + within(chip.bus_step_v / 2)) * across / shunt_ohm

    off = np.abs(measured(6.0) - measured(2.0) - 4.0)
    assert 0.94 <= np.mean(off <= difference(of(kind, shunt_ohm), 6.0, 2.0).total_w) <= 1.0


def test_gains_that_one_reference_causes_are_added() -> None:
    """Both datasheets state the error of the power over 100 K as the sum of the gains of both voltages."""
    for kind, stated in (("ina238", 0.007), ("ina228", 0.005)):
        chip = CHIPS[kind]
        assert chip.shunt_gain + chip.bus_gain + 2 * chip.drift_per_k * 100 == pytest.approx(stated)
