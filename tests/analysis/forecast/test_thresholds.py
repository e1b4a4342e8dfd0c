"""Each threshold of what a forecast reports of a fit, on both of its sides."""

import math

import numpy as np
import pytest

from edgetop.analysis.forecast import heat_forecast
from edgetop.analysis.forecast.heat_forecast import ForecastView
from edgetop.analysis.forecast.model import Estimate, Fitted
from edgetop.session.seconds import NS
from tests.analysis.forecast.test_forecast import LOAD, ZONE, rising, steady_load, told
from tests.support.sessions import phase_event

TRIP_C = 80.0


def reported(
    monkeypatch: pytest.MonkeyPatch, low_c: float, high_c: float, share: float = 0.0, sureness: float = 0.0
) -> ForecastView:
    """The report on a board with this range of its steady temperature, which reaches its trip that surely."""
    fitted = Fitted(Estimate((low_c + high_c) / 2, low_c, high_c), Estimate(160.0, 150.0, 170.0), share, sureness)
    monkeypatch.setattr(heat_forecast, "fit", lambda *_, **__: fitted)
    return told(100, (ZONE, rising), (LOAD, steady_load))


@pytest.mark.parametrize(("share", "will"), [(0.59, None), (0.61, True)])
def test_a_trip_is_reported_that_three_fifths_reach(
    monkeypatch: pytest.MonkeyPatch, share: float, will: bool | None
) -> None:
    assert reported(monkeypatch, 75, 95, share, sureness=0.9).will_throttle is will


@pytest.mark.parametrize(("sureness", "will"), [(0.44, None), (0.46, True)])
def test_its_time_is_reported_if_nearly_half_agree(
    monkeypatch: pytest.MonkeyPatch, sureness: float, will: bool | None
) -> None:
    assert reported(monkeypatch, 75, 95, share=0.9, sureness=sureness).will_throttle is will


@pytest.mark.parametrize(
    ("from_c", "to_c", "will"),
    [(67, 70.5, True), (67.5, 70, None), (77, 79.2, True), (77.4, 79.2, None)],
)
def test_a_trip_is_announced_once_the_board_has_risen_three_tenths_of_what_is_left_and_two_degrees(
    monkeypatch: pytest.MonkeyPatch, from_c: float, to_c: float, will: bool | None
) -> None:
    fitted = Fitted(Estimate(90, 85, 95), Estimate(160.0, 150.0, 170.0), 0.9, 0.9)
    monkeypatch.setattr(heat_forecast, "fit", lambda *_, **__: fitted)
    zone = ZONE, lambda t_s: np.where(t_s < 50, from_c, to_c)
    assert told(100, zone, (LOAD, steady_load)).will_throttle is will


@pytest.mark.parametrize(("high_c", "will"), [(78.9, False), (79.1, None)])
def test_a_board_stays_cool_whose_range_ends_a_degree_below_the_trip(
    monkeypatch: pytest.MonkeyPatch, high_c: float, will: bool | None
) -> None:
    assert reported(monkeypatch, 70, high_c).will_throttle is will


@pytest.mark.parametrize(("width_c", "is_known"), [(23, True), (25, False)])
def test_a_steady_temperature_is_known_to_24_degrees(
    monkeypatch: pytest.MonkeyPatch, width_c: float, is_known: bool
) -> None:
    cool = reported(monkeypatch, 70 - width_c, 70)
    hot = reported(monkeypatch, 90 - width_c, 90, share=0.9, sureness=0.9)
    assert (cool.will_throttle is False) is (cool.steady_c is not None) is (hot.steady_c is not None) is is_known


@pytest.mark.parametrize(("width_c", "is_known"), [(3.9, True), (4.1, False)])
def test_near_the_trip_it_is_known_to_four_degrees(
    monkeypatch: pytest.MonkeyPatch, width_c: float, is_known: bool
) -> None:
    assert (reported(monkeypatch, 80 - width_c / 2, 80 + width_c / 2).steady_c is not None) is is_known


@pytest.mark.parametrize(("celsius", "will"), [(79.45, True), (79.55, None)])
def test_half_a_degree_below_its_trip_a_board_is_there(
    monkeypatch: pytest.MonkeyPatch, celsius: float, will: bool | None
) -> None:
    fitted = Fitted(Estimate(90, 85, 95), Estimate(160.0, 150.0, 170.0), 0.9, 0.9)
    monkeypatch.setattr(heat_forecast, "fit", lambda *_, **__: fitted)
    assert told(100, (ZONE, lambda t_s: np.minimum(40 + t_s, celsius)), (LOAD, steady_load)).will_throttle is will


@pytest.mark.parametrize(("seconds", "is_told"), [(15, False), (16, True)])
def test_a_load_is_steady_for_fifteen_seconds(monkeypatch: pytest.MonkeyPatch, seconds: int, is_told: bool) -> None:
    fitted = Fitted(Estimate(90, 85, 95), Estimate(math.inf, 1.0, math.inf), 0.9, 0.9)
    monkeypatch.setattr(heat_forecast, "fit", lambda *_, **__: fitted)
    view = told(seconds, (ZONE, lambda t_s: rising(t_s, tau_s=20.0)), (LOAD, steady_load))
    assert (view.will_throttle is True) is is_told


@pytest.mark.parametrize(("readings", "is_told"), [(11, False), (12, True)])
def test_a_zone_is_read_twelve_times(monkeypatch: pytest.MonkeyPatch, readings: int, is_told: bool) -> None:
    fitted = Fitted(Estimate(90, 85, 95), Estimate(160.0, 150.0, 170.0), 0.9, 0.9)
    monkeypatch.setattr(heat_forecast, "fit", lambda *_, **__: fitted)

    def read_late(t_s: np.ndarray) -> np.ndarray:
        return np.where(t_s < 30 - readings, np.nan, rising(t_s, tau_s=20.0))

    assert (told(31, (ZONE, read_late), (LOAD, steady_load)).will_throttle is True) is is_told


@pytest.mark.parametrize(("until_s", "is_read"), [(91, False), (92, True)])
def test_a_zone_is_read_if_it_was_in_the_last_five_seconds(until_s: int, is_read: bool) -> None:
    view = told(100, (ZONE, lambda t_s: np.where(t_s < until_s, rising(t_s), np.nan)), (LOAD, steady_load))
    assert (view.silence != "zone-unread") is is_read


def rested(monkeypatch: pytest.MonkeyPatch, idle_c: dict[int, float], usual_c: float) -> bool:
    """Whether the remaining throughput is known after 30 s at rest: `idle_c` in these seconds, else `usual_c`."""
    fitted = Fitted(Estimate(90, 85, 95), Estimate(160.0, 150.0, 170.0), 0.9, 0.9)
    monkeypatch.setattr(heat_forecast, "fit", lambda *_, **__: fitted)

    def heats(t_s: np.ndarray) -> np.ndarray:
        resting = np.full_like(t_s, usual_c)
        for second, celsius in idle_c.items():
            resting[second] = celsius
        return np.where(t_s < 30, resting, np.minimum(30 + t_s, 76.0))

    busy = (LOAD, lambda t_s: np.where(t_s < 30, 5.0, 390.0))
    view = told(80, (ZONE, heats), busy, events=(phase_event(0, "idle", duration_ns=30 * NS),), began_s=30.0)
    assert view.will_throttle
    return view.share_silence != "idle-hot"


@pytest.mark.parametrize(("celsius", "is_known"), [(74.9, True), (75.1, False)])
def test_a_board_that_rests_five_degrees_below_its_trip_says_nothing_of_its_power(
    monkeypatch: pytest.MonkeyPatch, celsius: float, is_known: bool
) -> None:
    assert rested(monkeypatch, {}, celsius) is is_known


@pytest.mark.parametrize(("second", "is_known"), [(13, True), (16, False)])
def test_half_of_the_idle_baseline_is_left_out(monkeypatch: pytest.MonkeyPatch, second: int, is_known: bool) -> None:
    assert rested(monkeypatch, {second: 110.0}, 74.0) is is_known
