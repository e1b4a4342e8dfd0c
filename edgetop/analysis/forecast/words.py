"""A forecast in one line, the same on the screen and in the report, and as JSON."""

import math
from typing import Any

from edgetop import formatting
from edgetop.analysis.forecast.forecast import ForecastView
from edgetop.analysis.forecast.model import Estimate

SECOND_NS, MINUTE_S = 1e9, 60
DIGITS = 2  # in JSON


def outlook(view: ForecastView) -> str:
    """`throttles at 80 C in 4m10s (3m00s to 6m02s), steady 91.0 C (88.2 to 95.1)`; empty without a forecast."""
    steady = "" if view.steady_c is None else f"steady {celsius_words(view.steady_c)}"
    if view.will_throttle is False:
        return f"will not throttle at this load: {steady}"
    if view.will_throttle and view.trip_in_s and view.trip_c is not None:
        fan = " at this speed of the fan" if view.fan_can_rise else ""
        trip = f"throttles at {view.trip_c:g} C in {time_words(view.trip_in_s)}{fan}"
        return f"{trip}, {steady}" if steady else trip
    return f"{steady}: {view.reason}" if steady else ""


def time_left(view: ForecastView) -> str:
    """`trip in 4m10s`, for a short line; empty without a forecast."""
    if view.will_throttle and view.trip_in_s:
        return f"trip in {_duration(view.trip_in_s.value)}"
    if view.will_throttle is False and view.steady_c:
        return f"steady {view.steady_c.value:.0f} C"
    return ""


def left(view: ForecastView) -> str:
    """`then 71 to 89 % of the throughput`; empty if that is not known."""
    if view.throughput_share is None:
        return ""
    low, high = (100 * share for share in view.throughput_share)
    return f"then {low:.0f} to {high:.0f} % of the throughput"


def celsius_words(steady: Estimate) -> str:
    return f"{steady.value:.1f} C ({steady.low:.1f} to {steady.high:.1f})"


def time_words(trip: Estimate) -> str:
    value, low = _duration(trip.value), _duration(trip.low)
    if math.isinf(trip.high):
        return f"{value} ({low} or later, if at all)"
    return f"{value} ({low} to {_duration(trip.high)})"


def _duration(seconds: float) -> str:
    """Format a duration without tenths: no forecast is so precise."""
    whole = round(seconds)
    return f"{whole}s" if whole < MINUTE_S else formatting.duration(whole * SECOND_NS)


def forecast(view: ForecastView) -> dict[str, Any]:
    """Return the forecast as JSON. Unknown values and an infinite end are None."""
    share = view.throughput_share
    return {
        "sensor": view.sensor.id if view.sensor else None,
        "trip_c": view.trip_c,
        **_estimate("steady_c", "steady_range_c", view.steady_c),
        "throttles": view.will_throttle,
        **_estimate("trip_in_s", "trip_range_s", view.trip_in_s),
        "fan_can_rise": view.fan_can_rise if view.will_throttle else None,
        "throughput_share": [round(end, DIGITS) for end in share] if share else None,
        "share_reason": view.share_reason or None,
        "seen_s": view.seen_s or None,
        "reason": view.reason or None,
    }


def _estimate(name: str, range_name: str, of: Estimate | None) -> dict[str, Any]:
    if of is None:
        return {name: None, range_name: None}
    value, *ends = (round(one, DIGITS) if math.isfinite(one) else None for one in (of.value, of.low, of.high))
    return {name: value, range_name: ends}
