"""What the power meters of two sessions add to the uncertainty of a ratio of energies or powers.

If one meter measured both sessions, the errors of its shunt and its gain are the same in both, and cancel in the ratio.

An offset adds the same number of watts to both powers, so its relative errors in the two powers partly cancel. If two
meters measured, all of their errors count (Guide to the Expression of Uncertainty in Measurement, JCGM 100:2008,
5.1.6 and 5.2.2).
"""

import math

from edgetop.analysis.meter_errors import COVERAGE
from edgetop.analysis.report_uncertainty import MeterWatts
from edgetop.comparison.sample import Sample
from edgetop.frozen import frozen
from edgetop.session.manifest import SensorInfo


@frozen
class MeterShare:
    """The errors of a meter as shares of the figure that it measured: 0.01 is 1 %. Each
    error is half of a 95 % interval.
    """

    total: float
    offset: float
    steps: float


def share_of_power(sample: Sample) -> MeterShare | None:
    """Return the errors of the power meter as shares of a session's mean power, or None if unknown."""
    return _share(sample.report.power.uncertainty, sample.report.power.mean_w)


def share_of_net(sample: Sample) -> MeterShare | None:
    """Return the errors of the power meter as shares of the net energy of an inference, or None if unknown."""
    energy, error = sample.report.energy, sample.report.energy.net_uncertainty
    if error is None or error.meter_mj is None or error.parts is None:
        return None
    return _shares(error.meter_mj, error.parts.offset_mj, error.parts.quantisation_mj, energy.net_mj)


def _share(error: MeterWatts | None, watts: float | None) -> MeterShare | None:
    return None if error is None else _shares(error.total_w, error.offset_w, error.quantisation_w, watts)


def _shares(total: float, offset: float | None, steps: float | None, figure: float | None) -> MeterShare | None:
    if not figure:
        return None
    whole = abs(figure)
    return MeterShare(total / whole, (offset or 0.0) / whole, (steps or 0.0) / whole)


def meter_of(sample: Sample) -> SensorInfo | None:
    """Return the sensor that measured the total power of a session, or None if there is no such sensor."""
    total = sample.report.power.total_sensor
    return next((info for info in sample.session.sensors if info.id == total), None)


def is_same_meter(first: Sample, second: Sample) -> bool:
    """Whether one power meter measured both sessions, as far as recordings tell.

    Two boards of the same model, whose meters have the same address, cannot be told apart.
    """
    infos = [meter_of(one) for one in (first, second)]
    meters = [info and (info.id, info.source, info.meter) for info in infos]
    boards = [(one.session.board.model, one.session.board.cpu) for one in (first, second)]
    return meters[0] == meters[1] and boards[0] == boards[1]


def spread_of_meters(first: MeterShare | None, second: MeterShare | None, *, is_same: bool) -> float:
    """Return the standard uncertainty that power meters add to the logarithm of a ratio. Unknown errors count as 0.

    `first` and `second` are the errors in each session. `is_same` says that one meter measured both.
    """
    if is_same:
        offset = abs(first.offset - second.offset) if first and second else 0.0
        return math.hypot(offset, *(one.steps for one in (first, second) if one)) / COVERAGE
    return math.hypot(*(one.total for one in (first, second) if one)) / COVERAGE
