"""When a forecast is told, what it counts from, when it is silent and why."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.forecast.heat_forecast import Forecast, ForecastView
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board, SensorInfo
from edgetop.session.records import AGGREGATE, READING
from edgetop.session.seconds import NS
from tests.support.heating import BEGAN_S, Heating, heating
from tests.support.heating_score import forecast_at
from tests.support.sessions import differences, folded, make_manifest, make_sensor, phase_event

ZONE, LOAD = make_sensor("temp/cpu-thermal", trips={"passive": 80.0}), make_sensor("load/cpu")
FAN = make_sensor("cooling/0-pwm-fan", throttles=False, max_state=4)
Curve = Callable[[np.ndarray], np.ndarray]


def rising(t_s: np.ndarray, to_c: float = 90.0, tau_s: float = 100.0, from_c: float = 40.0) -> np.ndarray:
    return to_c - (to_c - from_c) * np.exp(-t_s / tau_s)


def told(
    seconds: int, *sensors: tuple[SensorInfo, Curve], board: str | None = None, load: Load | None = None,
    events: tuple[Event, ...] = (), began_s: float = 0.0, until_s: float | None = None,
    is_over: bool = True,
) -> ForecastView:  # fmt: skip
    """Of sensors that read so second by second; NaN: not read in it."""
    t_s = np.arange(seconds)
    rows = np.zeros(seconds * len(sensors), READING)
    rows["t_ns"], rows["sensor"] = np.repeat(t_s * NS, len(sensors)), np.tile(np.arange(len(sensors)), seconds)
    rows["value"] = np.column_stack([curve(t_s.astype(float)) for _, curve in sensors]).ravel()
    rows = rows[~np.isnan(rows["value"])]
    manifest = make_manifest(*(info for info, _ in sensors), board=Board(model=board), load=load or Load())
    fold = Forecast()
    events = (*events, phase_event(round(began_s * NS), "measure"))
    fold.fold(Batch(until_ns=seconds * NS, manifest=manifest, readings=rows, events=events))
    return fold.view(round((seconds if until_s is None else until_s) * NS), is_over=is_over)


def steady_load(t_s: np.ndarray) -> np.ndarray:
    return np.full_like(t_s, 390.0)


def test_a_running_session_has_a_forecast_of_some_seconds_ago() -> None:
    sensors = (ZONE, rising), (LOAD, steady_load)
    running, before, exact = told(32, *sensors, is_over=False), told(32, *sensors, until_s=28), told(32, *sensors)
    assert running.seen_s == before.seen_s == 28
    assert exact.seen_s == 31
    assert running.trip_in_s
    assert before.trip_in_s
    assert running.trip_in_s.value == pytest.approx(before.trip_in_s.value - 4)


def test_a_forecast_gives_time_and_temperature_of_the_trip() -> None:
    view = told(100, (ZONE, rising), (LOAD, steady_load))
    assert view.will_throttle
    assert view.sensor == ZONE
    assert view.trip_c == 80.0
    assert view.trip_in_s is not None
    assert view.trip_in_s.low <= 100 * np.log(5) - 100 <= view.trip_in_s.high
    assert view.trip_in_s.value == pytest.approx(61, rel=0.2)
    assert view.steady_c is not None
    assert view.steady_c.low <= 90 <= view.steady_c.high
    assert view.silence is None


def test_a_board_that_stays_cool_is_told_that_it_will_not() -> None:
    view = told(200, (ZONE, lambda t_s: rising(t_s, to_c=61.0)), (LOAD, steady_load))
    assert view.will_throttle is False
    assert view.trip_in_s is None
    assert view.steady_c is not None
    assert view.steady_c.low <= 61 <= view.steady_c.high


def test_one_that_ends_where_it_throttles_is_told_neither() -> None:
    view = told(380, (ZONE, lambda t_s: rising(t_s, to_c=79.4, tau_s=90.0)), (LOAD, steady_load))
    assert view.will_throttle is None
    assert view.steady_c is not None
    assert view.silence == "near-trip"


SILENT = {
    "it is too early": (told, (10, (ZONE, rising)), "early"),
    "no zone has a trip": (told, (200, (make_sensor("temp/cpu"), rising)), "trip-unknown"),
    "a trip that does not throttle": (
        told, (200, (make_sensor("temp/cpu", trips={"critical": 110.0}), rising)), "trip-unknown",
    ),
    "it throttles": (
        told, (100, (ZONE, rising), (make_sensor("throttle/thermal"), np.ones_like)), "throttling",
    ),
    "a device throttles": (
        told, (100, (ZONE, rising), (make_sensor("cooling/1-cpufreq", throttles=True), np.ones_like)), "throttling",
    ),
    "it is at its trip": (told, (163, (ZONE, rising)), "at-trip"),
    "the load goes on and off": (
        told, (400, (ZONE, lambda t_s: 50 + 5 * np.sin(t_s / 6)), (LOAD, lambda t_s: 390.0 * (t_s % 40 < 20))),
        "load-unsteady",
    ),
    "the fan goes on and off": (
        told, (400, (ZONE, lambda t_s: 50 + 5 * np.sin(t_s / 6)), (LOAD, steady_load),
               (FAN, lambda t_s: 1.0 * (t_s % 40 < 20))),
        "fan-unsteady",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", SILENT)
def test_it_is_silent_where(why: str) -> None:
    ask, (seconds, *sensors), silence = SILENT[why]
    view = ask(seconds, *sensors)  # type: ignore[arg-type]
    assert view.will_throttle is view.steady_c is view.trip_in_s is None
    assert view.silence == silence


def test_before_the_measurement_there_is_none() -> None:
    fold = Forecast()
    fold.fold(Batch(manifest=make_manifest(ZONE), readings=np.zeros(5, READING)))
    assert fold.view(10 * NS) == ForecastView(silence="not-measured")


def test_a_zone_that_is_no_longer_read_is_not_forecast() -> None:
    rows = np.zeros(60, READING)
    rows["t_ns"], rows["value"] = np.arange(60) * NS, rising(np.arange(60.0))
    busy = np.zeros(100, READING)
    busy["t_ns"], busy["sensor"], busy["value"] = np.arange(100) * NS, 1, 390.0
    fold = Forecast()
    fold.fold(Batch(manifest=make_manifest(ZONE, LOAD), readings=rows, events=(phase_event(0, "measure"),)))
    fold.fold(Batch(readings=busy))
    assert fold.view(100 * NS).silence == "zone-unread"


def test_the_firmware_of_a_raspberry_pi_throttles_without_a_trip() -> None:
    bare = make_sensor("temp/cpu-thermal", trips={"critical": 110.0})
    assert told(100, (bare, rising), board="Raspberry Pi 4 Model B Rev 1.4").trip_c == 80.0
    assert told(100, (bare, rising)).trip_c is None


def test_of_several_zones_the_one_nearest_to_its_trip_is_told() -> None:
    gpu = make_sensor("temp/gpu", trips={"passive": 70.0})
    view = told(60, (ZONE, rising), (gpu, lambda t_s: rising(t_s) - 5), (LOAD, steady_load))
    assert view.sensor == gpu


def test_the_time_that_is_left_runs_down_between_two_judgements() -> None:
    first, second = (told(120, (ZONE, rising), (LOAD, steady_load), until_s=at_s) for at_s in (100.0, 101.5))
    assert first.trip_in_s is not None
    assert second.trip_in_s is not None
    assert first.trip_in_s.value - second.trip_in_s.value == pytest.approx(1.5)


def test_what_is_read_after_the_end_does_not_count() -> None:
    cut = told(101, (ZONE, rising), (LOAD, steady_load), until_s=100)
    longer = told(
        110, (ZONE, lambda t_s: np.where(t_s < 100, rising(t_s), 30.0)), (LOAD, lambda t_s: 390.0 * (t_s < 100)),
        until_s=100,
    )  # fmt: skip
    assert differences(longer, cut) == []


def test_another_load_begins_a_new_forecast() -> None:
    def heats(t_s: np.ndarray) -> np.ndarray:
        return np.where(t_s < 100, rising(t_s, to_c=55.0), rising(t_s - 100, from_c=49.5))

    before = told(100, (ZONE, heats), (LOAD, lambda t_s: np.where(t_s < 100, 100.0, 390.0)))
    after = told(200, (ZONE, heats), (LOAD, lambda t_s: np.where(t_s < 100, 100.0, 390.0)))
    assert before.will_throttle is False
    assert after.will_throttle
    assert after.seen_s <= 100
    assert after.trip_in_s is not None
    assert after.trip_in_s.low <= 100 * np.log(4.05) - 100 <= after.trip_in_s.high


def test_a_fan_that_turns_faster_begins_a_new_forecast() -> None:
    def heats(t_s: np.ndarray) -> np.ndarray:
        return np.where(t_s < 60, rising(t_s), rising(t_s - 60, to_c=70.0, from_c=float(rising(np.array(60.0)))))

    fan = (FAN, lambda t_s: np.where(t_s < 60, 1.0, 4.0))
    assert told(60, (ZONE, heats), (LOAD, steady_load), fan).will_throttle
    after = told(300, (ZONE, heats), (LOAD, steady_load), fan)
    assert after.will_throttle is False
    assert after.seen_s <= 240


def test_a_fan_that_can_turn_faster_is_told_of() -> None:
    slow, fast = (told(100, (ZONE, rising), (FAN, lambda t_s, at=at: np.full_like(t_s, at))) for at in (1.0, 4.0))
    assert slow.fan_can_rise
    assert not fast.fan_can_rise


# What is left of the throughput: a board that rests at 45 °C for a minute, then heats up to 95, with its trip at 80.


def rested(load: Load | None = None, *, rest: bool = True) -> ForecastView:
    def heats(t_s: np.ndarray) -> np.ndarray:
        return np.where(t_s < 60, 45.0, rising(t_s - 60, to_c=95.0, from_c=45.0))

    events = (phase_event(0, "idle", duration_ns=60 * NS),) if rest else ()
    busy = (LOAD, lambda t_s: np.where(t_s < 60, 5.0, 390.0))
    return told(140, (ZONE, heats), busy, events=events, began_s=60.0, load=load)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0])
def test_the_remaining_throughput_lies_in_its_range(exponent: float) -> None:
    share = rested().throughput_share
    assert share is not None
    power_left = (80 - 45) / (95 - 45)
    assert share[0] <= power_left ** (1 / exponent) <= share[1]


def test_where_it_cannot_be_known_no_throughput_is_told() -> None:
    unrested, paced = rested(rest=False), rested(Load(mode="fixed", rate_hz=30.0))
    assert unrested.will_throttle
    assert paced.will_throttle
    assert unrested.throughput_share is paced.throughput_share is None
    assert unrested.share_silence == "idle-unknown"
    assert paced.share_silence == "paced"


# Live, replayed, attached: the same.

# One that will throttle, one that will not, one of which the load changed.
BOARDS = {seed: heating(seed) for seed in (2, 6, 18)}


def test_these_boards_are_what_they_are_meant_to_be() -> None:
    views = [forecast_at(board, 200) for board in BOARDS.values()]
    assert [view.will_throttle for view in views] == [True, False, True]
    assert BOARDS[18].change == "load"


def in_pieces(board: Heating, cuts_s: tuple[float, ...]) -> ForecastView:
    fold = Forecast()
    for batch in board.batches(200, cuts_s):
        fold.fold(batch)
        fold.view(batch.until_ns)  # a look must change nothing
    return fold.view((200 + BEGAN_S) * NS)


@pytest.mark.parametrize("seed", BOARDS)
@given(cuts_s=st.lists(st.floats(0, 205), max_size=20))
@settings(deadline=None, max_examples=6)
def test_cut_anywhere_the_forecast_is_the_same(seed: int, cuts_s: list[float]) -> None:
    assert differences(in_pieces(BOARDS[seed], tuple(cuts_s)), forecast_at(BOARDS[seed], 200)) == []


def test_second_by_second_the_forecast_is_the_same() -> None:
    board = BOARDS[2]
    assert differences(in_pieces(board, tuple(range(205))), forecast_at(board, 200)) == []


def test_a_reading_that_comes_late_is_heeded() -> None:
    (whole,) = BOARDS[2].batches(200)
    late = (whole.readings["t_ns"] > 190 * NS) & (whole.readings["t_ns"] < 194 * NS) & (whole.readings["sensor"] == 0)
    fold = Forecast()
    fold.fold(replace(whole, readings=whole.readings[~late]))
    fold.view(whole.until_ns)
    fold.fold(Batch(until_ns=whole.until_ns, readings=whole.readings[late]))
    assert differences(fold.view(whole.until_ns), forecast_at(BOARDS[2], 200)) == []


def test_a_past_that_came_in_aggregates_misleads_nobody() -> None:
    """Of a viewer who came late the readings begin late; the model does not ask for the beginning."""
    board = heating(0, trip_c=60.0, change="none")
    hit_s = board.hit_s
    assert hit_s is not None
    (whole,) = board.batches(0.6 * hit_s)
    recent = whole.readings["t_ns"] > (BEGAN_S + 0.25 * hit_s) * NS
    aggregates = np.zeros(1, AGGREGATE)
    aggregates["until_ns"], aggregates["count"] = int(0.25 * hit_s * NS), 10
    aggregates["low"], aggregates["mean"], aggregates["high"], aggregates["last"] = 30, 50, 70, 70
    fold = Forecast()
    fold.fold(replace(whole, readings=whole.readings[recent], aggregates=aggregates))
    view = fold.view(whole.until_ns)
    assert view.seen_s <= 0.35 * hit_s + 1
    assert view.trip_in_s is not None
    assert view.trip_in_s.low <= 0.4 * hit_s <= view.trip_in_s.high


def test_a_whole_session_carries_it_from_fold_to_view() -> None:
    batches = list(BOARDS[2].batches(200))
    view = folded([replace(batches[0], restart=True)]).view(None)
    assert differences(view.forecast, forecast_at(BOARDS[2], 200)) == []
