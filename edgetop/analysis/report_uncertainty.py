"""The part of a report about the precision of the power and of the energy of an inference."""

import math

from edgetop.analysis.blocks import Mean
from edgetop.analysis.meter_errors import MeterError, MeterUnknown
from edgetop.formatting import rounded_mj
from edgetop.frozen import frozen


@frozen
class MeterWatts:
    """By how much a mean power may be wrong because of its meter: half of each 95 % interval in W.

    A kind of error that the meter does not have is None.
    """

    total_w: float
    shunt_w: float | None
    gain_w: float | None
    offset_w: float | None
    quantisation_w: float | None


def meter_watts(error: MeterError | MeterUnknown) -> MeterWatts | None:
    if isinstance(error, MeterUnknown):
        return None
    each = (error.shunt_w, error.gain_w, error.offset_w, error.steps_w)
    return MeterWatts(round(error.total_w, 6), *(None if of is None else round(of, 6) for of in each))


@frozen
class MeterParts:
    """By how much each kind of error of a power meter changes the energy of an inference: half of an interval in mJ.

    The intervals contain the true value in 95 of 100 cases.
    """

    shunt_mj: float | None
    gain_mj: float | None
    offset_mj: float | None
    quantisation_mj: float | None


@frozen
class Uncertainty:
    """By how much the energy of an inference may be wrong: half of each 95 % interval in mJ."""

    statistical_mj: float | None  # From the scatter of the readings.
    meter_mj: float | None  # From the errors of the meter; None if they are unknown.
    total_mj: float | None  # Both: the root of the sum of their squares.
    parts: MeterParts | None
    meter: str | None  # Kind of the meter.
    source: str | None  # Where its errors are stated.
    shunt_tolerance_assumed: bool | None
    unknown: MeterUnknown | None  # Why the error of the meter is unknown.


def uncertainty_of(
    energy_j: Mean | None, found: MeterError | MeterUnknown, rate_hz: float | None
) -> Uncertainty | None:
    """Return by how much the energy of an inference may be wrong, or None if the energy is unknown.

    `energy_j`: the energy in J with its interval. `found`: by how much the meter may be wrong, in W. `rate_hz`:
    inferences per second.
    """
    if energy_j is None or not rate_hz:
        return None
    statistical_j = energy_j.half_width
    if isinstance(found, MeterUnknown):
        kind = found.meter.kind if found.meter else None
        return Uncertainty(rounded_mj(statistical_j), None, None, None, kind, None, None, found)

    def mj(watts: float | None) -> float | None:
        return None if watts is None else rounded_mj(watts / rate_hz)

    return Uncertainty(
        statistical_mj=rounded_mj(statistical_j),
        meter_mj=mj(found.total_w),
        total_mj=rounded_mj(math.hypot(statistical_j, found.total_w / rate_hz)),
        parts=MeterParts(mj(found.shunt_w), mj(found.gain_w), mj(found.offset_w), mj(found.steps_w)),
        meter=found.meter.kind,
        source=found.source,
        shunt_tolerance_assumed=found.is_tolerance_assumed,
        unknown=None,
    )
