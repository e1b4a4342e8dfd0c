"""What rules are about: a value a second, whatever the cadence of sensors and inferences."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.alerts.alert_rules import PER_SECOND, THROTTLED
from edgetop.analysis.alerts.values import LATE_S, InferenceValues, Piece, SensorValues
from edgetop.analysis.tracks import HOLD_S, SECONDS, Tracks
from edgetop.session.batch import Batch
from edgetop.session.manifest import Board, SensorInfo
from edgetop.session.records import Readings
from edgetop.session.seconds import NS
from tests.support.sessions import MS, make_inferences, make_manifest, make_readings, make_sensor, seconds_of

SENSORS = (
    make_sensor("temp/cpu", trips={"passive": 85.0}),
    make_sensor("temp/gpu"),
    make_sensor("throttle/cap"),
    make_sensor("throttle/cap-sticky"),
    make_sensor("power/pmic", role="total", accuracy="firmware-estimate"),
    make_sensor("power/shunt", role="total", accuracy="external-shunt"),
    make_sensor("mem/rss"),
)
CPU, GPU, CAP, STICKY, PMIC, SHUNT, RSS = range(len(SENSORS))
SERIES = ("temp", "headroom", "power", "rss")


def test_what_a_rule_can_be_about_has_a_value_each_second() -> None:
    """All else would be a rule that never holds."""
    sensors = SensorValues(Tracks())
    sensors.register(PER_SECOND)
    ((_, of_inferences),) = InferenceValues().fold(seconds_of(make_inferences(0, 10 * MS)))
    assert {*PER_SECOND} - {THROTTLED} <= {*of_inferences, *sensors._places}


def joined(pieces: Iterable[Piece], name: str, seconds: int) -> list[float]:
    """Of the seconds from 0; NaN where nothing was said."""
    values = [math.nan] * seconds
    for first, series in pieces:
        for i, value in enumerate(series[name].tolist()):
            values[first + i] = value
    return values


class Values:
    """Of a session with these sensors."""

    def __init__(self, infos: Sequence[SensorInfo] = SENSORS, board: str = "") -> None:
        self._tracks = Tracks()
        self._tracks.fold(Batch(manifest=make_manifest(*infos, board=Board(model=board))))
        self._values = SensorValues(self._tracks)
        self._values.register(SERIES)

    def fold(self, readings: Readings, until_ns: int, ended_ns: int | None = None) -> Iterator[Piece]:
        for _ in self._tracks.parts(Batch(until_ns, readings=readings)):
            yield from self._values.fold(ended_ns)


def read(until_s: int, *rows: tuple[float, int, float]) -> Mapping[str, list[float]]:
    values = Values()
    readings = make_readings(*((int(t_s * NS), place, value) for t_s, place, value in rows))
    pieces = list(values.fold(readings, until_s * NS))
    return {name: joined(pieces, name, until_s - LATE_S) for name in SERIES}


def test_the_hottest_zone_counts_and_the_nearest_trip() -> None:
    values = read(6, (0.5, CPU, 60.0), (0.6, GPU, 70.0), (1.5, CPU, 80.0))
    assert values["temp"] == [70.0, 80.0]
    assert values["headroom"] == [25.0, 5.0]


def test_a_raspberry_pi_has_headroom_without_a_kernel_trip() -> None:
    values = Values([make_sensor("temp/cpu-thermal")], "Raspberry Pi 4 Model B")
    pieces = values.fold(make_readings((NS // 2, 0, 76.5)), 6 * NS)
    assert joined(pieces, "headroom", 2) == [3.5, 3.5]


def test_a_value_stands_until_it_is_too_old() -> None:
    values = read(40, (1.5, CPU, 60.0), (30.0, CPU, 61.0))["temp"]
    assert values[1 : 2 + HOLD_S] == [60.0] * (HOLD_S + 1)
    assert np.isnan(values[2 + HOLD_S : 30]).all()
    assert values[30] == 61.0


def test_of_several_totals_the_best_instrument_counts() -> None:
    assert read(20, (0.1, PMIC, 5.0), (2.0, SHUNT, 6.0))["power"][:3] == [5.0, 5.0, 6.0]


def test_what_the_board_has_not_is_not_known() -> None:
    values = Values(SENSORS[2:3])
    [(_, series)] = values.fold(make_readings((0, 0, 1.0)), 10 * NS)
    assert all(np.isnan(column).all() for column in series.values())


@pytest.mark.parametrize("cuts", [(), (3.3,), (1, 3.3), (3, 3.15), (2, 3.15, 3.3)])
def test_the_last_seconds_of_a_finished_session_are_judged(cuts: tuple[float, ...]) -> None:
    """Those before that in which it ended, whatever comes in which batch."""
    rows = ((0.5, CPU, 50.0), (1.5, CPU, 60.0), (2.1, CPU, 70.0), (3.4, CPU, 90.0), (6.5, CPU, 99.0))
    values, pieces = Values(), []
    for begin, end in pairwise((0, *cuts, 12)):
        part = make_readings(*((int(t * NS), place, value) for t, place, value in rows if begin <= t < end))
        pieces += values.fold(part, int(end * NS), int(3.2 * NS) if end >= 3.2 else None)
    assert joined(pieces, "temp", 3) == [50.0, 60.0, 70.0]


def test_a_time_far_ahead_costs_nothing() -> None:
    values = Values()
    pieces = list(values.fold(make_readings((0, CPU, 50.0), (10**17, CPU, 60.0)), 2 * 10**17))
    assert sum(len(series["temp"]) for _, series in pieces) <= 2 * SECONDS


@given(cuts=st.lists(st.integers(1, 119), max_size=12), seed=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_cut_anywhere_the_values_are_the_same(cuts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    times = np.sort(random.choice(np.arange(1200), 150, replace=False)) * NS // 10
    times = times[(times < 40 * NS) | (times > 70 * NS)]  # between, nothing was read for long
    places, levels = random.integers(0, len(SENSORS), len(times)), random.uniform(0, 90, len(times))
    readings = make_readings(*zip(times.tolist(), places.tolist(), levels.tolist(), strict=True))

    def series(*edges: int) -> str:
        values, pieces = Values(), []
        for begin, end in zip([0, *edges], [*edges, 120], strict=True):
            part = readings[(readings["t_ns"] >= begin * NS) & (readings["t_ns"] < end * NS)]
            pieces += list(values.fold(part, end * NS))
        return str({name: joined(pieces, name, 120) for name in SERIES})

    assert series(*sorted(set(cuts))) == series()


def test_latency_is_per_second_and_holds_where_nothing_ran() -> None:
    starts = np.array([0, NS // 2, 3 * NS])
    [(first, series)] = InferenceValues().fold(seconds_of(make_inferences(starts, np.array([10, 20, 40]) * MS)))
    assert first == 0
    assert series["max"].tolist() == [20.0, 20.0, 20.0, 40.0]
    assert series["mean"].tolist() == [15.0, 15.0, 15.0, 40.0]


def test_a_paced_load_is_judged_by_its_response_time() -> None:
    waiting = make_inferences(np.array([0]), np.array([10 * MS]), wait_ns=np.array([90 * MS]))
    [(_, series)] = InferenceValues().fold(seconds_of(waiting, is_paced=True))
    assert series["p99"].tolist() == [100.0]


def test_misses_and_errors_are_those_of_the_last_minute() -> None:
    starts = np.arange(0, 130) * NS
    latency = np.where(starts == 10 * NS, 50 * MS, 5 * MS)
    seconds = seconds_of(make_inferences(starts, latency, ok=starts != 20 * NS), 33 * MS)
    values = InferenceValues()
    pieces = [piece for cut in (40, 130) for piece in values.fold(seconds.where(seconds.rows["t_ns"] < cut * NS))]
    misses, errors = joined(pieces, "misses", 130), joined(pieces, "errors%", 130)
    assert [second for second in range(130) if misses[second]] == list(range(10, 70))
    assert errors[79] == pytest.approx(100 / 60)
    assert errors[80] == 0


def test_without_a_deadline_nothing_is_known_of_misses() -> None:
    [(_, series)] = InferenceValues().fold(seconds_of(make_inferences(np.array([0]), np.array([MS]))))
    assert np.isnan(series["misses"]).all()
    assert np.isnan(series["misses%"]).all()
