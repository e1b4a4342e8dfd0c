"""The forecast of temperatures and throttling in words and as JSON.

The words are the same on screen and in the report.
"""

import math
from collections.abc import Mapping
from typing import Any

from edgetop.analysis.forecast.elsewhere import FARTHEST_C, UnsuitableError
from edgetop.analysis.forecast.heat_forecast import ForecastView, ShareSilence, Silence
from edgetop.analysis.forecast.model import Estimate
from edgetop.formatting import duration
from edgetop.session.seconds import NS

DIGITS = 2  # in JSON

SILENCES: Mapping[Silence, str] = {
    "not-measured": "nothing is measured yet",
    "zone-unread": "its zone is not read now",
    "trip-unknown": "nothing tells at what temperature this board throttles",
    "throttling": "it is throttling now",
    "at-trip": "it is where it throttles",
    "early": "too early to tell",
    "fan-unsteady": "the fan is not steady",
    "load-unsteady": "the load is not steady",
    "other-course": "the temperature does not go the way of a steady load",
    "near-trip": "too near to where it throttles to tell",
}
SHARE_SILENCES: Mapping[ShareSilence, str] = {
    "paced": "the load is paced: what it leaves idle is lost first",
    "idle-unknown": "not known what it is at rest: edgetop run --idle-baseline 30s",
    "idle-hot": "at rest it was as hot",
}


def silence_words(silence: Silence | None) -> str:
    """Return why there is no forecast of temperatures. Return "" if `silence` is None, because there is a forecast."""
    return SILENCES[silence] if silence else ""


def share_silence_words(silence: ShareSilence | None) -> str:
    """Return why it is unknown how much throughput remains after throttling, or "" if `silence` is None."""
    return SHARE_SILENCES[silence] if silence else ""


def unsuitable_words(error: UnsuitableError, ambient_c: float) -> str:
    """Return why a recorded session cannot be used for a forecast at the ambient temperature `ambient_c` (in °C).

    >>> unsuitable_words(UnsuitableError("too-far", 20.0), 40.0)
    'it was measured at 20 C, farther than 15 C from 40 C'
    """
    match error.reason:
        case "no-ambient":
            return "it declares no ambient temperature: record one with edgetop run --ambient 22C"
        case "no-enclosure":
            return "it declares no enclosure, and a forecast holds only for the same enclosure"
        case "too-far":
            return f"it was measured at {error.measured_c:g} C, farther than {FARTHEST_C:g} C from {ambient_c:g} C"


def outlook(view: ForecastView) -> str:
    """Return the forecast of temperatures as a sentence, or "" if there is no forecast.

    For example: `throttles at 80 C in 4m10s (3m00s to 6m02s), steady 91.0 C (88.2 to 95.1)`.
    """
    steady = "" if view.steady_c is None else f"steady {celsius_words(view.steady_c)}"
    if view.will_throttle is False:
        return f"will not throttle at this load: {steady}"
    if view.will_throttle and view.trip_in_s and view.trip_c is not None:
        fan = " at this speed of the fan" if view.fan_can_rise else ""
        trip = f"throttles at {view.trip_c:g} C in {time_words(view.trip_in_s)}{fan}"
        return f"{trip}, {steady}" if steady else trip
    return f"{steady}: {silence_words(view.silence)}" if steady else ""


def time_left(view: ForecastView) -> str:
    """Return the forecast of temperatures in a few words, such as `trip in 4m10s` or `steady 71 C`.

    Return "" if there is no forecast.
    """
    if view.will_throttle and view.trip_in_s:
        return f"trip in {_duration(view.trip_in_s.value)}"
    if view.will_throttle is False and view.steady_c:
        return f"steady {view.steady_c.value:.0f} C"
    return ""


def left(view: ForecastView) -> str:
    """Return how much throughput remains while the board throttles, or "" if unknown.

    For example: `then 71 to 89 % of the throughput`.
    """
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
    """Return a duration as text in whole seconds, such as `12s`, because no forecast is more precise."""
    whole = round(seconds)
    return f"{whole}s" if whole < 60 else duration(whole * NS)


def forecast_document(view: ForecastView) -> dict[str, Any]:
    """Return the forecast as JSON. An unknown value is None, and so is an upper limit that is infinite."""
    share = view.throughput_share
    return {
        "sensor": view.sensor.id if view.sensor else None,
        "trip_c": view.trip_c,
        **_estimate("steady_c", "steady_range_c", view.steady_c),
        "throttles": view.will_throttle,
        **_estimate("trip_in_s", "trip_range_s", view.trip_in_s),
        "fan_can_rise": view.fan_can_rise if view.will_throttle else None,
        "throughput_share": [round(end, DIGITS) for end in share] if share else None,
        "share_reason": share_silence_words(view.share_silence) or None,
        "seen_s": view.seen_s or None,
        "reason": silence_words(view.silence) or None,
    }


def _estimate(name: str, range_name: str, of: Estimate | None) -> dict[str, Any]:
    if of is None:
        return {name: None, range_name: None}
    value, *ends = (round(one, DIGITS) if math.isfinite(one) else None for one in (of.value, of.low, of.high))
    return {name: value, range_name: ends}
