"""Since when a load is steady: steps begin a new span, blips do not, and what alternates is steady on average."""

import numpy as np
import pytest

from edgetop.analysis.forecast.steady_load import History, Steady, is_drive, is_fan, is_throttling
from edgetop.analysis.tracks import Tracks
from edgetop.session.batch import Batch
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import READING
from edgetop.session.seconds import NS
from tests.support.sessions import make_manifest, make_sensor

LOAD = make_sensor("load/cpu")


def span(*columns: np.ndarray, sensors: tuple[SensorInfo, ...] = (LOAD,), from_s: float = 0.0) -> Steady:
    found = tried(*columns, sensors=sensors, from_s=from_s)
    assert found is not None
    return found


def tried(*columns: np.ndarray, sensors: tuple[SensorInfo, ...] = (LOAD,), from_s: float = 0.0) -> Steady | None:
    seconds = len(columns[0])
    rows = np.zeros(seconds * len(columns), READING)
    rows["t_ns"], rows["sensor"] = (
        np.repeat(np.arange(seconds) * NS, len(columns)),
        np.tile(range(len(columns)), seconds),
    )
    rows["value"] = np.column_stack(columns).ravel()
    rows = rows[~np.isnan(rows["value"])]
    tracks = Tracks()
    tracks.fold(Batch(seconds * NS, readings=rows, manifest=make_manifest(*sensors)))
    return History(tracks, sensors).steady_span(from_s, seconds)


def busy(seconds: int, level: float = 390.0, seed: int = 0) -> np.ndarray:
    return level + np.random.default_rng(seed).normal(0, 5, seconds)


def test_a_load_that_stays_is_steady_from_the_beginning() -> None:
    assert span(busy(100)).from_s == 0
    assert span(busy(100), from_s=30.5).from_s == 31


def test_narrow_blocks_are_taken_as_long_as_they_reach_back() -> None:
    assert [span(busy(seconds)).level for seconds in (100, 400, 1_500, 7_000)] == [0, 1, 2, 3]


@pytest.mark.parametrize("ago", [20, 100, 300])
def test_a_step_begins_a_new_span(ago: int) -> None:
    load = busy(1_000)
    load[: 1_000 - ago] /= 2
    found = span(load)
    assert ago - 20 <= found.length_s <= ago


def test_more_load_only_heats_up_and_more_cooling_does_not() -> None:
    step, fan = np.where(np.arange(200) < 100, 0.5, 1.0), make_sensor("cooling/0-pwm-fan", throttles=False)
    assert span(busy(200)).only_rose
    assert span(busy(200) * step).only_rose
    assert not span(busy(200) / step).only_rose
    assert not span(busy(200), 4 * step, sensors=(LOAD, fan)).only_rose
    assert span(busy(200), 4 / step, sensors=(LOAD, fan)).only_rose


def test_a_blip_does_not() -> None:
    load = busy(100)
    load[50:56] = 0
    assert span(load).from_s == 0


def test_noise_is_no_step() -> None:
    assert span(np.random.default_rng(1).normal(200, 60, 120)).from_s == 0


def test_a_load_that_alternates_within_seconds_is_one_load() -> None:
    t_s = np.arange(2_000)
    assert span(390.0 * (t_s % 10 < 5)).length_s > 900


@pytest.mark.parametrize("period_s", [40, 120])
def test_one_that_alternates_more_slowly_is_never_steady(period_s: int) -> None:
    for seconds in range(400, 400 + period_s, 7):
        assert tried(390.0 * (np.arange(seconds) % period_s < period_s / 2)) is None


def test_a_cap_that_somebody_set_begins_a_new_span() -> None:
    cap = np.where(np.arange(100) < 60, 2_400.0, 1_800.0)
    assert span(busy(100), cap, sensors=(LOAD, make_sensor("freqcap/cpu0"))).from_s == 60


def test_a_change_that_wide_blocks_pass_over_is_one() -> None:
    cap = np.full(400, 2_400.0)
    cap[350] = 2_300.0
    assert span(busy(400), cap, sensors=(LOAD, make_sensor("freqcap/cpu0"))).from_s == 351


def test_after_throttling_a_new_span_begins() -> None:
    flag = ((np.arange(100) >= 40) & (np.arange(100) < 50)).astype(float)
    assert span(busy(100), flag, sensors=(LOAD, make_sensor("throttle/thermal"))).from_s == 50


def test_a_sensor_read_every_few_seconds_holds_in_between() -> None:
    load = busy(100)
    load[np.arange(100) % 5 > 0] = np.nan
    assert span(load).from_s == 0
    load[:50] /= 2
    assert span(load).from_s == 50


def test_without_a_sensor_of_the_load_it_is_taken_for_steady() -> None:
    assert span(busy(100, 50.0), sensors=(make_sensor("temp/cpu"),)).from_s == 0


def test_what_counts_as_load_fan_and_throttling() -> None:
    fan, alert = make_sensor("cooling/0-pwm-fan", throttles=False), make_sensor("cooling/1-hot-surface-alert")
    assert is_fan(fan)
    assert not is_fan(alert)
    assert not is_drive(alert)
    assert is_drive(make_sensor("power/VDD_IN", role="total"))
    assert not is_drive(make_sensor("power/VDD_SOC", role="part"))
    assert is_throttling(make_sensor("cooling/1-cpufreq-cpu0", throttles=True))
    assert not is_throttling(make_sensor("throttle/thermal-sticky"))
    assert not is_throttling(make_sensor("throttle/under-voltage"))


FAN, POWER = make_sensor("cooling/0-pwm-fan", throttles=False), make_sensor("power/VDD_IN", role="total")
SPINS, CAP = make_sensor("fan/cpu"), make_sensor("freqcap/cpu0")


def changed(sensor: SensorInfo, before: float, after: float, ago_s: int = 50) -> bool:
    """Whether a new span began so long ago, when the sensor went from one value to the other."""
    return span(np.where(np.arange(100) < 100 - ago_s, before, after), sensors=(sensor,)).from_s == 100 - ago_s


@pytest.mark.parametrize(
    ("sensor", "after", "same", "another"),
    [(LOAD, 390, 0.19, 0.21), (POWER, 10, 0.14, 0.16), (SPINS, 3_000, 0.14, 0.16), (CAP, 2_400, 0.018, 0.022)],
)
def test_by_which_share_a_load_is_another(sensor: SensorInfo, after: float, same: float, another: float) -> None:
    assert not changed(sensor, after * (1 + same), after)
    assert changed(sensor, after * (1 + another), after)


@pytest.mark.parametrize(
    ("sensor", "after", "same", "another"),
    [(LOAD, 50, 24, 26), (POWER, 0.5, 0.19, 0.21), (SPINS, 500, 145, 155), (CAP, 20, 0.95, 1.05), (FAN, 1, 0.4, 0.5)],
)
def test_by_how_much_at_least_a_load_is_another(sensor: SensorInfo, after: float, same: float, another: float) -> None:
    assert not changed(sensor, after + same, after)
    assert changed(sensor, after + another, after)


@pytest.mark.parametrize(("seconds", "from_s"), [(9, 0), (10, 60)])
def test_a_difference_of_ten_seconds_is_no_blip(seconds: int, from_s: int) -> None:
    load = np.full(120, 390.0)
    load[50 : 50 + seconds] = 0
    assert span(load).from_s == from_s


@pytest.mark.parametrize(("scatter", "is_another"), [(17, True), (19, False)])
def test_a_difference_is_five_deviations(scatter: float, is_another: bool) -> None:
    load = 390 + scatter * (-1.0) ** np.arange(100)
    load[:50] += 150
    assert (span(load).from_s == 50) is is_another


def test_what_is_usual_now_is_that_of_sixteen_seconds() -> None:
    assert changed(LOAD, 390, 150, ago_s=9)
    assert not changed(LOAD, 390, 150, ago_s=7)


def dips(*spans: tuple[int, int], seconds: int) -> np.ndarray:
    load = np.full(seconds, 390.0)
    for begin, end in spans:
        load[begin:end] = 0
    return load


@pytest.mark.parametrize(("end_s", "from_s"), [(320, 0), (336, 336)])
def test_two_blocks_are_no_blip(end_s: int, from_s: int) -> None:
    """So long ago that only blocks of sixteen seconds are left."""
    assert span(dips((304, end_s), seconds=1_000)).from_s == from_s


@pytest.mark.parametrize(("seconds", "level"), [(132, 0), (136, 1)])
def test_a_coarser_resolution_reaches_back_further_by_a_twentieth(seconds: int, level: int) -> None:
    assert span(busy(seconds)).level == level


def test_three_differences_are_a_load_that_goes_up_and_down() -> None:
    assert span(dips((20, 32), (50, 62), seconds=120)).from_s == 62
    assert tried(dips((10, 22), (40, 52), (70, 82), seconds=120)) is None


def test_what_is_usual_now_is_that_of_five_blocks_if_these_are_longer() -> None:
    """Of a load that falls slowly, it decides how far back the load counts as the same."""
    found = span(np.linspace(510, 390, 1_500))
    assert (found.level, found.from_s) == (2, 464)
