"""The words of a forecast, each once, and its document."""

import json
import math
from typing import get_args

import pytest

from edgetop.analysis.forecast.heat_forecast import ForecastView, ShareSilence, Silence
from edgetop.analysis.forecast.model import Estimate
from edgetop.wording.forecast_words import (
    SHARE_SILENCES,
    SILENCES,
    forecast_document,
    left,
    outlook,
    share_silence_words,
    silence_words,
    time_left,
)
from tests.support.sessions import make_sensor

ZONE = make_sensor("temp/cpu-thermal", trips={"passive": 80.0})
STEADY, TIME = Estimate(91.24, 87.0, 97.5), Estimate(250.2, 185.0, 380.4)
WILL = ForecastView(sensor=ZONE, trip_c=80.0, steady_c=STEADY, will_throttle=True, trip_in_s=TIME, seen_s=60)
WILL_NOT = ForecastView(sensor=ZONE, trip_c=80.0, steady_c=Estimate(61.3, 60.1, 62.6), will_throttle=False)

SAID = {
    "when it will": (WILL, "throttles at 80 C in 4m10s (3m05s to 6m20s), steady 91.2 C (87.0 to 97.5)"),
    "that it may never": (
        ForecastView(trip_c=80.0, will_throttle=True, trip_in_s=Estimate(250.0, 185.0, math.inf)),
        "throttles at 80 C in 4m10s (3m05s or later, if at all)",
    ),
    "seconds without tenths": (
        ForecastView(trip_c=80.0, will_throttle=True, trip_in_s=Estimate(41.3, 37.8, 59.7)),
        "throttles at 80 C in 41s (38s to 1m00s)",
    ),
    "what the fan may do": (
        ForecastView(trip_c=80.0, will_throttle=True, trip_in_s=TIME, fan_can_rise=True),
        "throttles at 80 C in 4m10s (3m05s to 6m20s) at this speed of the fan",
    ),
    "what is left": (
        ForecastView(trip_c=80.0, will_throttle=True, trip_in_s=TIME, throughput_share=(0.661, 0.9)),
        "throttles at 80 C in 4m10s (3m05s to 6m20s), then 66 to 90 % of the throughput",
    ),
    "that it will not": (WILL_NOT, "will not throttle at this load: steady 61.3 C (60.1 to 62.6)"),
    "that it cannot tell": (
        ForecastView(trip_c=80.0, steady_c=Estimate(79.5, 78.2, 80.1), silence="near-trip"),
        "steady 79.5 C (78.2 to 80.1): too near to where it throttles to tell",
    ),
    "nothing": (ForecastView(silence="early"), ""),
}


@pytest.mark.parametrize("what", SAID)
def test_it_says(what: str) -> None:
    view, said = SAID[what]
    assert ", ".join(text for text in (outlook(view), left(view)) if text) == said
    json.dumps(forecast_document(view), allow_nan=False)


def test_in_short_it_is_the_time_or_the_temperature() -> None:
    assert [time_left(view) for view in (WILL, WILL_NOT, ForecastView())] == ["trip in 4m10s", "steady 61 C", ""]


def test_the_document_has_every_key_and_no_infinity() -> None:
    view = ForecastView(sensor=ZONE, trip_c=80.0, will_throttle=True, trip_in_s=Estimate(250.0, 185.0, math.inf))
    assert forecast_document(view) == {
        "sensor": "temp/cpu-thermal", "trip_c": 80.0, "steady_c": None, "steady_range_c": None, "throttles": True,
        "trip_in_s": 250.0, "trip_range_s": [185.0, None], "fan_can_rise": False, "throughput_share": None,
        "share_reason": None, "seen_s": None, "reason": None,
    }  # fmt: skip
    silent = forecast_document(ForecastView(silence="early"))
    assert {key: value for key, value in silent.items() if value is not None} == {"reason": "too early to tell"}


def test_every_silence_has_words() -> None:
    assert set(SILENCES) == set(get_args(Silence))
    assert set(SHARE_SILENCES) == set(get_args(ShareSilence))
    assert all([*SILENCES.values(), *SHARE_SILENCES.values()])
    assert silence_words(None) == share_silence_words(None) == ""
    assert share_silence_words("idle-unknown") == "not known what it is at rest: edgetop run --idle-baseline 30s"
