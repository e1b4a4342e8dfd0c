"""By how much a power meter may be wrong, from the limits that its maker states.

Some chips multiply the voltage of a shunt and the voltage of the bus. Such a chip has four errors: the tolerance of the
shunt, the gain errors of both voltages, their offsets, and the steps of their converters. A maker states a limit for
each error, and every value within the limit is taken to be equally likely. So the standard uncertainty of an error is
its limit divided by the square root of three. The errors are independent, so the squares of their uncertainties are
added, and 1.96 standard uncertainties contain the true value in 95 of 100 cases (JCGM 100:2008, Guide to the Expression
of Uncertainty in Measurement, 4.3.7, 5.1.2 and 6.2). More readings do not reduce these errors, so they are added to the
interval of the mean.
"""

import math
from collections.abc import Mapping
from typing import Literal

from edgetop.frozen import frozen
from edgetop.session.manifest import SensorInfo
from edgetop.session.meter import Meter

COVERAGE = 1.96  # Standard uncertainties of a normal distribution in half of a 95 % interval.
# Tolerance of a shunt that nobody stated, as a share. Choice: that of the usual chip resistors of breakouts and boards.
# Larger: chips look worse than they are; smaller: a cheap shunt is believed.
USUAL_TOLERANCE = 0.01
# Temperature by which a chip beside a loaded processor is away from the 25 °C of its datasheet, in K. Choice: boards
# are at 50 °C under load. Larger: wide intervals in a cool room; smaller: hot boards are believed.
WARMER_K = 25.0

MeterWhy = Literal[
    "no-meter",  # The sensor does not name its meter.
    "no-statement",  # Its maker states no limit.
    "no-shunt",  # The resistance of its shunt is unknown.
    "no-volts",  # The voltage of the rail is unknown.
    "no-power",  # There is no mean power.
]


@frozen
class ChipLimits:
    """The largest errors of a power meter chip, from its datasheet.

    Voltages are in V, gains are shares (0.01 is 1 %).
    """

    source: str  # Number of the datasheet, and page or section.
    shunt_gain: float
    bus_gain: float
    shunt_offset_v: float
    bus_offset_v: float
    shunt_step_v: float
    bus_step_v: float
    drift_per_k: float = 0.0  # Of both gains; 0 if `shunt_gain` and `bus_gain` are those over temperature.
    shunt_tolerance: float | None = None  # Of a shunt inside of the chip; None if the shunt is outside.


# Texas Instruments. Of the INA219: grade A, over temperature, PGA /8, which edgetop sets.
_INA219 = ChipLimits(
    "SBOS448G,p.5",
    0.01, 0.01, 200e-6, 0.0, 10e-6, 4e-3,
)  # fmt: skip
_INA226 = ChipLimits(
    "SBOS547,p.3",
    0.001, 0.001, 10e-6, 7.5e-3, 2.5e-6, 1.25e-3, 50e-6,
)  # fmt: skip
_INA238 = ChipLimits(
    "SLYS025,6.5",
    0.001, 0.001, 5e-6, 5e-3, 5e-6, 3.125e-3, 25e-6,
)  # fmt: skip
# The gain of the INA260 includes its shunt of 2 milliohms, over temperature; its current has steps of 1.25 mA and an
# offset of 5 mA. The bus offset of the INA228 is taken to be that of the INA238. Linear Technology: LTC2945.
CHIPS: Mapping[str, ChipLimits] = {
    "ina219": _INA219,
    "ina226": _INA226,
    "ina260": ChipLimits(
        "SBOS656C,7.5",
        0.005, 0.001, 10e-6, 7.5e-3, 2.5e-6, 1.25e-3, 0.0, 0.0,
    ),
    "ina228": ChipLimits(
        "SLYS021A,p.1",
        0.0005, 0.0005, 1e-6, 5e-3, 312.5e-9, 195.3125e-6, 20e-6,
    ),
    "ina238": _INA238,
    "ina3221": ChipLimits(
        "SBOS576A,p.3",
        0.0025, 0.0025, 80e-6, 16e-3, 40e-6, 8e-3, 50e-6,
    ),
    # A total unadjusted error, which is a share of the full scale of 102.4 mV and 102.4 V, and so acts as an offset.
    "ltc2945": ChipLimits(
        "2945fa,p.4",
        0.0, 0.0, 0.0075 * 0.1024, 0.0075 * 102.4, 25e-6, 25e-3,
    ),
}  # fmt: skip

# Meters whose error is a share of the power: the share, and its source. NVIDIA states 5 % for Fermi and Kepler; the
# paper measured as much on later GPUs.
SHARES: Mapping[str, tuple[float, str]] = {
    "nvml": (0.05, "nvmlDeviceGetPowerUsage,arXiv:2312.02741"),
}


@frozen
class MeterError:
    """By how much a power may be wrong: half of its 95 % interval in W, for the whole and for each kind of error.

    A kind of error that the meter does not have is None.
    """

    total_w: float
    shunt_w: float | None
    gain_w: float | None
    offset_w: float | None
    steps_w: float | None
    meter: Meter
    source: str  # Where the limits are stated.
    is_tolerance_assumed: bool  # Whether USUAL_TOLERANCE stands for that of the shunt.


@frozen
class MeterUnknown:
    why: MeterWhy
    meter: Meter | None = None


def meter_error(info: SensorInfo, watts: float | None, volts: float | None) -> MeterError | MeterUnknown:
    """Return by how much the mean power of a sensor may be wrong, or a `MeterUnknown` with the reason.

    `info`: the sensor, which names its meter. `watts`: the mean power in W; None if unknown. `volts`: the mean voltage
    of the rail in V; None if no sensor measures it.
    """
    meter = info.meter
    if meter is None or watts is None:
        return MeterUnknown("no-power" if meter else "no-meter", meter)
    if meter.kind in SHARES:
        share, source = SHARES[meter.kind]
        return _combined((None, share * abs(watts), None, None), meter, source, is_tolerance_assumed=False)
    bus_v = meter.volts if volts is None else volts
    if meter.kind not in CHIPS or not meter.shunt_ohm or not bus_v:
        is_chip = meter.kind in CHIPS
        return MeterUnknown("no-statement" if not is_chip else "no-volts" if meter.shunt_ohm else "no-shunt", meter)
    chip, amperes, per_shunt_volt = CHIPS[meter.kind], abs(watts / bus_v), abs(bus_v / meter.shunt_ohm)
    inside = chip.shunt_tolerance if meter.shunt_tolerance is None else meter.shunt_tolerance
    drift = chip.drift_per_k * WARMER_K
    limits = (
        (USUAL_TOLERANCE if inside is None else inside) * abs(watts),
        math.hypot(chip.shunt_gain + drift, chip.bus_gain + drift) * abs(watts),
        math.hypot(chip.shunt_offset_v * per_shunt_volt, chip.bus_offset_v * amperes),
        math.hypot(chip.shunt_step_v / 2 * per_shunt_volt, chip.bus_step_v / 2 * amperes),
    )
    return _combined(limits, meter, chip.source, is_tolerance_assumed=inside is None)


def _combined(
    limits: tuple[float | None, float | None, float | None, float | None], meter: Meter, source: str,
    *, is_tolerance_assumed: bool,
) -> MeterError:  # fmt: skip
    """Return the error of a measured power, combined from its four kinds of error.

    `limits`: the greatest errors in W from shunt, gain, offset and steps, in this order; None for an error that the
    meter does not have. `meter`: the meter. `source`: where its limits come from. `is_tolerance_assumed`: whether the
    tolerance of the shunt is assumed because it is unknown.
    """
    shunt, gain, offset, steps = (None if limit is None else COVERAGE * limit / math.sqrt(3) for limit in limits)
    total = math.hypot(*(half for half in (shunt, gain, offset, steps) if half is not None))
    return MeterError(total, shunt, gain, offset, steps, meter, source, is_tolerance_assumed)


# The board's power from the sum of the rails of a Raspberry Pi 5's PMIC. Measured: J. Fikar's fit over loads from 1.4
# to 14.7 W, against a USB-C meter (github.com/jfikar/RPi5-power, README.md and plot.png). The residual is read from the
# points of that plot: 0.33 W (standard deviation of 30 points), 0.8 W at most. It is for a board without USB devices.
PMIC = "rpi5-pmic"
PMIC_SLOPE, PMIC_OFFSET_W, PMIC_RESIDUAL_W = 1.1451, 0.5879, 0.33
PMIC_FROM_W, PMIC_TO_W = 1.4, 14.7


@frozen
class BoardEstimate:
    """The power of the whole board in W, estimated from a sum of rails, and the standard deviation of this estimate."""

    watts: float
    residual_w: float
    is_beyond: bool  # Whether the sum is outside of the powers that the fit was made from.


def board_estimate(info: SensorInfo, watts: float | None) -> BoardEstimate | None:
    """Return the estimated power of the whole board, or None if no estimate exists for this kind of sensor.

    `info`: the sensor. `watts`: the sensor's mean power in W; None if unknown.
    """
    if info.meter is None or info.meter.kind != PMIC or watts is None:
        return None
    is_beyond = not PMIC_FROM_W <= watts <= PMIC_TO_W
    return BoardEstimate(PMIC_SLOPE * watts + PMIC_OFFSET_W, PMIC_RESIDUAL_W, is_beyond)
