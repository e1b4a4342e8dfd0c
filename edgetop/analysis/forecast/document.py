"""The forecast in the report's document."""

import math
from typing import Any

from edgetop.analysis.forecast.forecast import ForecastView
from edgetop.analysis.forecast.model import Estimate

DIGITS = 2


def forecast(view: ForecastView) -> dict[str, Any]:
    """As of the end of the measured phase. What is not known is None, an end at infinity too."""
    share = view.throughput_share
    return {
        "sensor": view.sensor.id if view.sensor else None,
        "trip_c": view.trip_c,
        "steady_c": _value(view.steady_c),
        "steady_range_c": _range(view.steady_c),
        "throttles": view.will_throttle,
        "trip_in_s": _value(view.trip_in_s),
        "trip_range_s": _range(view.trip_in_s),
        "fan_can_rise": view.fan_can_rise if view.will_throttle else None,
        "throughput_share": [round(end, DIGITS) for end in share] if share else None,
        "share_reason": view.share_reason or None,
        "seen_s": view.seen_s or None,
        "reason": view.reason or None,
    }


def _value(of: Estimate | None) -> float | None:
    return None if of is None else _finite(of.value)


def _range(of: Estimate | None) -> list[float | None] | None:
    return None if of is None else [_finite(of.low), _finite(of.high)]


def _finite(value: float) -> float | None:
    return round(value, DIGITS) if math.isfinite(value) else None
