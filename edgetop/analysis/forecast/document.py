"""What the report's document tells of the forecast, and that in words."""

import math
from typing import Any

from edgetop.analysis.forecast.forecast import ForecastView
from edgetop.analysis.forecast.model import Estimate
from edgetop.analysis.forecast.words import left, outlook

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


def in_words(document: dict[str, Any]) -> str:
    """The same sentence as on the screen; nothing where nothing is told."""
    share = document["throughput_share"]
    view = ForecastView(
        trip_c=document["trip_c"],
        steady_c=_estimate(document["steady_c"], document["steady_range_c"]),
        will_throttle=document["throttles"],
        trip_in_s=_estimate(document["trip_in_s"], document["trip_range_s"]),
        throughput_share=(share[0], share[1]) if share else None,
        fan_can_rise=bool(document["fan_can_rise"]),
        reason=document["reason"] or "",
    )
    return ", ".join(text for text in (outlook(view), left(view)) if text)


def _estimate(value: float | None, ends: list[float | None] | None) -> Estimate | None:
    if value is None or ends is None or ends[0] is None:
        return None
    return Estimate(value, ends[0], math.inf if ends[1] is None else ends[1])
