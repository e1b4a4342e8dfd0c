"""By how much a power meter may be wrong, from the limits that its maker states.

Some chips multiply the voltage of a shunt and the voltage of the bus. Such a chip has four errors: the tolerance of the
shunt, the gain errors of both voltages, their offsets, and the steps of their converters. A maker states a limit for
each error, and every value within the limit is taken to be equally likely. So the standard uncertainty of an error is
its limit divided by the square root of three. The errors are independent, so the squares of their uncertainties are
added, and 1.96 standard uncertainties contain the true value in 95 of 100 cases (JCGM 100:2008, Guide to the Expression
of Uncertainty in Measurement, 4.3.7, 5.1.2 and 6.2). More readings do not reduce these errors, so they are added to the
interval of the mean.

The gain errors of the two voltages are not independent: one converter with one reference measures both. So their limits
are added (5.2.2, correlated input quantities). The makers do so, too: an INA238 may be off by 0.1 % and 25 ppm/K x
100 K in each voltage, and its datasheet states twice that, 0.7 %, for the power.

If two powers of one meter are subtracted, the errors of shunt and gain are a share of the difference, and a constant
offset of the shunt's voltage cancels.
"""

import math
import re
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

_POWER_FILE = re.compile(r"/power\d*_(?:input|average)$")  # of hwmon: the driver's file of the power

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
    shunt_offset_per_k: float = 0.0  # Change of the shunt's offset in V/K.
    bus_offset_per_k: float = 0.0  # Change of the bus voltage's offset in V/K.
    # Change of the shunt's offset in V for each V by which the bus differs from STATED_AT_V. 0 if the maker states the
    # same limit for other bus voltages.
    common_mode: float = 0.0
    # One step of the chip's register of the power, in V across the shunt at 1 V of the bus. The kernel's drivers read
    # this register, which is rounded down. 0 if no driver does.
    power_step_v: float = 0.0
    # Whether the offsets contain all errors of the chip, so that these need not cancel in a difference.
    has_total_error: bool = False


STATED_AT_V = 12.0  # Bus voltage at which Texas Instruments states the offset of the shunt's voltage.


def _rejects(decibels: float) -> float:
    return float(10 ** (-decibels / 20))


# Texas Instruments. Of the INA219: grade A, over temperature, PGA /8, which edgetop sets.
_INA219 = ChipLimits(
    "SBOS448G,p.5",
    0.01, 0.01, 200e-6, 0.0, 10e-6, 4e-3, common_mode=_rejects(100), power_step_v=20 * 10e-6,
)  # fmt: skip
_INA226 = ChipLimits(
    "SBOS547,p.3",
    0.001, 0.001, 10e-6, 7.5e-3, 2.5e-6, 1.25e-3, 50e-6,
    shunt_offset_per_k=0.1e-6, bus_offset_per_k=40e-6, common_mode=_rejects(126), power_step_v=25 * 2.5e-6,
)  # fmt: skip
_INA238 = ChipLimits(
    "SLYS025,6.5",
    0.001, 0.001, 5e-6, 5e-3, 5e-6, 3.125e-3, 25e-6,
    shunt_offset_per_k=20e-9, bus_offset_per_k=40e-6,
)  # fmt: skip
# The gain of the INA260 includes its shunt of 2 milliohms, over temperature; its current has steps of 1.25 mA and an
# offset of 5 mA, which changes by 50 uA/K and by 150 uA/V. The bus offset of the INA228 is taken to be that of the
# INA238. Linear Technology: LTC2945.
CHIPS: Mapping[str, ChipLimits] = {
    "ina219": _INA219,
    "ina226": _INA226,
    "ina260": ChipLimits(
        "SBOS656C,7.5",
        0.005, 0.001, 10e-6, 7.5e-3, 2.5e-6, 1.25e-3, 0.0, 0.0,
        shunt_offset_per_k=100e-9, bus_offset_per_k=40e-6, common_mode=300e-9, power_step_v=0.010 * 0.002,
    ),
    "ina228": ChipLimits(
        "SLYS021A,p.1",
        0.0005, 0.0005, 1e-6, 5e-3, 312.5e-9, 195.3125e-6, 20e-6,
        shunt_offset_per_k=10e-9, bus_offset_per_k=40e-6,
    ),
    "ina238": _INA238,
    "ina3221": ChipLimits(
        "SBOS576A,p.3",
        0.0025, 0.0025, 80e-6, 16e-3, 40e-6, 8e-3, 50e-6,
        shunt_offset_per_k=0.5e-6, bus_offset_per_k=80e-6, common_mode=_rejects(110),
    ),
    # A total unadjusted error, which is a share of the full scale of 102.4 mV and 102.4 V, and so acts as an offset.
    "ltc2945": ChipLimits(
        "2945fa,p.4",
        0.0, 0.0, 0.0075 * 0.1024, 0.0075 * 102.4, 25e-6, 25e-3, has_total_error=True,
    ),
}  # fmt: skip

# Meters whose error is a share of the power: the largest share, and its source. NVIDIA states 5 % for Fermi and Kepler;
# the paper measured as much on later GPUs. Nordic states no limit for the current that a PPK2 measures, but the typical
# error of each range: 10 % below 50 mA and 15 % above, where boards are. It is taken to be the standard uncertainty,
# which is that of a limit which is the square root of three times as large.
SHARES: Mapping[str, tuple[float, str]] = {
    "nvml": (0.05, "nvmlDeviceGetPowerUsage,arXiv:2312.02741"),
    "ppk2": (0.15 * math.sqrt(3), "docs.nordicsemi.com,ug_ppk2,ppk_measure_accuracy"),
}


@frozen
class MeterError:
    """By how much a power may be wrong, in total and through each kind of error: half of its 95 % interval in W.

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


def meter_error(
    info: SensorInfo, watts: float | None, volts: float | None, less_w: float | None = None
) -> MeterError | MeterUnknown:
    """Return by how much the mean power of a sensor may be wrong, or a `MeterUnknown` with the reason.

    `info`: the sensor, which names its meter. `watts`: the mean power in W; None if unknown. `volts`: the mean voltage
    of the rail in V; None if no sensor measures it. `less_w`: another mean power of the same sensor in W, such as that
    of an idle baseline. The result is then by how much the difference `watts` - `less_w` may be wrong.
    """
    meter = info.meter
    if meter is None or watts is None:
        return MeterUnknown("no-power" if meter else "no-meter", meter)
    counts_w = watts - (less_w or 0.0)  # What shunt and gain are a share of.
    if meter.kind in SHARES:
        share, source = SHARES[meter.kind]
        return _combined((None, share * abs(counts_w), None, None), meter, source, is_tolerance_assumed=False)
    bus_v = meter.volts if volts is None else volts
    if meter.kind not in CHIPS or not meter.shunt_ohm or not bus_v:
        is_chip = meter.kind in CHIPS
        return MeterUnknown("no-statement" if not is_chip else "no-volts" if meter.shunt_ohm else "no-shunt", meter)
    chip, per_shunt_volt = CHIPS[meter.kind], abs(bus_v / meter.shunt_ohm)
    inside = chip.shunt_tolerance if meter.shunt_tolerance is None else meter.shunt_tolerance
    drift = chip.drift_per_k * WARMER_K
    limits = (
        (USUAL_TOLERANCE if inside is None else inside) * abs(counts_w),
        (chip.shunt_gain + chip.bus_gain + 2 * drift) * abs(counts_w),
        _offset_w(chip, watts, less_w, bus_v, per_shunt_volt),
        math.hypot(*(
            step for power_w in (watts, less_w) if power_w is not None
            for step in (
                chip.shunt_step_v / 2 * per_shunt_volt, chip.bus_step_v / 2 * abs(power_w / bus_v),
                chip.power_step_v / meter.shunt_ohm if _POWER_FILE.search(info.source) else 0.0,
            )
        )),
    )  # fmt: skip
    return _combined(limits, meter, chip.source, is_tolerance_assumed=inside is None)


def _offset_w(chip: ChipLimits, watts: float, less_w: float | None, bus_v: float, per_shunt_volt: float) -> float:
    """Return the largest error in W that the offsets of a chip can cause in `watts`.

    `less_w`: if given, the error in the difference `watts` - `less_w` is returned instead. `bus_v`: the voltage of the
    rail. `per_shunt_volt`: the power in W for each V across the shunt.
    """
    bus_offset_v = chip.bus_offset_v + chip.bus_offset_per_k * WARMER_K
    shunt_offset_v = math.hypot(
        chip.shunt_offset_v + chip.shunt_offset_per_k * WARMER_K, chip.common_mode * (bus_v - STATED_AT_V)
    )
    if less_w is not None and not chip.has_total_error:
        return abs(bus_offset_v * (watts - less_w) / bus_v)
    each = (
        math.hypot(shunt_offset_v * per_shunt_volt, bus_offset_v * power_w / bus_v)
        for power_w in (watts, less_w) if power_w is not None
    )  # fmt: skip
    return math.hypot(*each)


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
