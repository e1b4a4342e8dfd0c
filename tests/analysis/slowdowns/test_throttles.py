"""Spans in which something slowed the board: their beginnings, ends and causes, whatever pieces they come in."""

import json
import pickle
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.slowdowns.signals import _FLAG_CAUSES, GRAVEST_FIRST
from edgetop.analysis.slowdowns.throttles import Throttles, ThrottlesView
from edgetop.session.batch import Batch
from edgetop.session.manifest import Board, SensorInfo
from edgetop.session.records import Readings
from edgetop.session.seconds import NS
from tests.support.sessions import (
    MS,
    back_to_back,
    ended_event,
    make_manifest,
    make_readings,
    make_sensor,
    phase_event,
    seconds_of,
)

CLOCK, ZONE, FLAG = "freq/cpu0", "temp/cpu", "throttle/thermal"
DECLARED = {
    CLOCK: {"max": 1728.0},
    ZONE: {"trips": {"passive": 85.0}},
    "cooling/0-cpufreq": {"throttles": True},
    "cooling/1-fan": {"throttles": False},
}


def test_every_cause_that_a_flag_reports_has_a_gravity() -> None:
    assert {cause for _, cause in _FLAG_CAUSES} <= {*GRAVEST_FIRST}


# What a sensor read: a value from each of these seconds on, once a second until the next.
Course = Mapping[float, float | None]


def declared(sensor_id: str) -> SensorInfo:
    return make_sensor(sensor_id, **DECLARED.get(sensor_id, {}))


def readings(sensors: Mapping[str, Course], until_s: float) -> Readings:
    rows = []
    for place, course in enumerate(sensors.values()):
        begins = sorted(course)
        for second in np.arange(0, until_s, 1.0):
            nth = bisect_right(begins, second)
            value = course[begins[nth - 1]] if nth else None
            if value is not None:
                rows.append((round(second * NS) + place, place, value))
    return make_readings(*sorted(rows))


def whole(
    sensors: Mapping[str, Course],
    until_s: float = 60.0,
    *,
    slow_s: Sequence[tuple[float, float]] = (),
    end: bool = False,
    began_s: float = 1.0,
    board: Board | None = None,
) -> Batch:
    """A session measured from 1 s on at 10 ms an inference, 13 ms in `slow_s`."""
    latency, t_s = [], began_s
    while t_s < until_s:
        is_slow = any(begin <= t_s < over for begin, over in slow_s)
        latency.append((13 if is_slow else 10) * MS)
        t_s += latency[-1] / NS
    inferences = back_to_back(round(began_s * NS), latency)
    events = [phase_event(round(began_s * NS), "measure")]
    if end:
        events.append(ended_event(round(until_s * NS), last_end_ns=round(until_s * NS)))
    return Batch(
        until_ns=round(until_s * NS),
        manifest=make_manifest(*map(declared, sensors), **({} if board is None else {"board": board})),
        readings=readings(sensors, until_s),
        seconds=seconds_of(inferences),
        events=tuple(events),
    )


def view(*batches: Batch) -> ThrottlesView:
    fold = Throttles()
    for batch in batches:
        fold.fold(batch)
    return fold.view()


def spans_s(view: ThrottlesView) -> list[tuple[float, float | None, str]]:
    """From, until and cause, to a thousandth of a second."""
    return [
        (round(span.start_ns / NS, 3), None if span.end_ns is None else round(span.end_ns / NS, 3), span.cause)
        for span in view.spans
    ]


def test_a_flag_makes_a_span_from_its_first_set_reading() -> None:
    found = view(whole({FLAG: {0: 0, 17: 1, 27: 0}}))
    assert spans_s(found) == [(17, 27, "thermal")]
    assert found.spans[0].sensor == "throttle/thermal"
    assert (found.total, found.measured_total, found.throttled_ns, found.measured_ns) == (1, 1, 10 * NS, 59 * NS)
    assert found.share == pytest.approx(10 / 59)
    assert found.now is None


def test_while_it_is_in_force_it_has_no_end() -> None:
    found = view(whole({FLAG: {0: 0, 50: 1}, CLOCK: {0: 1728, 50: 1267}, ZONE: {0: 70, 45: 85.5}}))
    assert spans_s(found) == [(50, None, "thermal")]
    assert found.now == found.spans[0]
    assert (found.clock, found.clock_mhz, found.best_mhz) == ("cpu", 1267, 1728)
    assert (found.temp_c, found.zone, found.trip_c) == (85.5, "temp/cpu", 85)


def test_of_several_in_force_the_gravest_is_told() -> None:
    weak = "throttle/under-voltage"
    found = view(whole({FLAG: {0: 0, 40: 1}, weak: {0: 0, 50: 1}}))
    assert spans_s(found) == [(40, None, "thermal"), (50, None, "under-voltage")]
    assert found.now is not None
    assert found.now.cause == "under-voltage"
    assert found.throttled_ns == 20 * NS


def test_a_span_has_lowest_clock_highest_heat_and_latency() -> None:
    sensors = {
        FLAG: {0: 0, 20: 1, 40: 0},
        CLOCK: {0: 1728, 20: 1267, 30: 1037, 40: 1728},
        ZONE: {0: 60, 20: 86, 30: 87.5, 40: 60},
    }
    batch = whole(sensors, slow_s=[(20, 40)])
    fold = Throttles()
    fold.fold(batch)
    span = fold.view().spans[0]
    assert (span.min_clock_mhz, span.max_temp_c) == (1037, 87.5)
    assert span.latency_ratio == pytest.approx(1.3, abs=0.002)


def pieces(batch: Batch, cuts_s: Iterable[float]) -> list[Batch]:
    """The same session in the pieces that come up to these times."""
    made, begin_ns = [], -1
    ends_ns = [*sorted({round(cut * NS) for cut in cuts_s if 0 < cut * NS < batch.until_ns}), batch.until_ns]
    for end_ns in ends_ns:
        t_ns, row_ns = batch.readings["t_ns"], batch.seconds.rows["t_ns"] + NS
        made.append(
            Batch(
                until_ns=end_ns,
                manifest=None if made else batch.manifest,
                readings=batch.readings[(t_ns > begin_ns) & (t_ns <= end_ns)],
                seconds=batch.seconds.where((row_ns > begin_ns) & (row_ns <= end_ns)),
                events=tuple(event for event in batch.events if begin_ns < event.t_ns <= end_ns),
            )
        )
        begin_ns = end_ns
    return made


COURSES = st.dictionaries(st.integers(0, 59), st.sampled_from([0.0, 1.0, None]), max_size=12).map(
    dict[float, float | None]
)


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    flags=st.fixed_dictionaries(
        dict.fromkeys((FLAG, "throttle/freq-capped", "throttle/under-voltage", "cooling/0-cpufreq"), COURSES)
    ),
    heat=st.dictionaries(st.integers(0, 59), st.sampled_from([70.0, 84.5, 90.0, None]), max_size=8),
    cap=st.dictionaries(st.integers(0, 59), st.sampled_from([1728.0, 1267.0, 1037.0, None]), max_size=8),
    cuts_s=st.lists(st.floats(0.5, 59.5), max_size=20),
    end=st.booleans(),
)
def test_the_same_spans_come_from_any_pieces_of_a_session(
    flags: dict[str, Course], heat: Course, cap: Course, cuts_s: list[float], end: bool
) -> None:
    sensors = {**flags, ZONE: heat, "freqcap/cpu0": cap, CLOCK: {0: 1728, 20: 1267, 40: 1728}}
    batch = whole(sensors, slow_s=[(20, 40)], end=end)
    one = Throttles()
    one.fold(batch)
    many = Throttles()
    for piece in pieces(batch, cuts_s):
        many.fold(piece)
        many.view()
    assert many.view() == one.view()
    assert pickle.loads(pickle.dumps(many)).view() == one.view()


@pytest.mark.parametrize(
    ("sensor_id", "calm", "in_force", "cause"),
    [
        ("throttle/soft-temp-limit", 0.0, 1.0, "thermal"),
        ("throttle/edge-tpu:0", 0.0, 1.0, "thermal"),
        ("throttle/under-voltage", 0.0, 1.0, "under-voltage"),
        ("throttle/under-voltage-alarm", 0.0, 1.0, "under-voltage"),
        ("throttle/power-limit", 0.0, 1.0, "power-cap"),
        ("throttle/over-current", 0.0, 1.0, "power-cap"),
        ("cooling/0-cpufreq", 0.0, 1.0, "thermal"),
        ("rate/thermal-events", 0.0, 0.2, "thermal"),
        ("rate/core-thermal-events", 0.0, 3.0, "thermal"),
        ("pressure/over-current", 0.9, 1.0, "power-cap"),
        ("throttle/freq-capped", 0.0, 1.0, "unknown"),
    ],
)
def test_every_signal_that_is_in_force_makes_a_span(sensor_id: str, calm: float, in_force: float, cause: str) -> None:
    found = view(whole({sensor_id: {0: calm, 17: in_force, 27: calm}}))
    assert spans_s(found) == [(17, 27, cause)]
    assert found.spans[0].sensor == sensor_id


@pytest.mark.parametrize(
    ("sensor_id", "value"),
    [
        ("throttle/under-voltage-sticky", 1.0),
        ("cooling/1-fan", 4.0),
        ("rate/over-current-events", 5.0),
        ("rate/oc3", 5.0),
        (ZONE, 99.0),
        (CLOCK, 300.0),
        ("freqcap/cpu0", 1037.0),
    ],
)
def test_what_tells_of_the_past_or_slows_nothing_makes_none(sensor_id: str, value: float) -> None:
    assert view(whole({sensor_id: {0: 0.0, 17: value, 27: 0.0}})).spans == ()


def test_what_flickers_faster_than_two_seconds_is_one_span() -> None:
    on_and_off = {float(t): float(t % 2 == 0) for t in range(20, 40)}
    found = view(whole({FLAG: {0: 0, **on_and_off, 40: 0}}))
    assert spans_s(found) == [(20, 39, "thermal")]
    assert spans_s(view(whole({FLAG: {0: 0, 20: 1, 22: 0, 24: 1, 26: 0}}))) == [
        (20, 22, "thermal"),
        (24, 26, "thermal"),
    ]


def test_a_span_is_not_over_while_it_may_be_a_flicker() -> None:
    batch = whole({FLAG: {0: 0, 20: 1, 30: 0}}, 31.5)
    assert spans_s(view(batch)) == [(20, None, "thermal")]
    assert spans_s(view(batch, Batch(until_ns=33 * NS))) == [(20, 30, "thermal")]


def test_signals_of_one_cause_are_one_span_and_of_two_causes_two() -> None:
    sensors = {
        FLAG: {0: 0, 20: 1, 30: 0},
        "cooling/0-cpufreq": {0: 0, 25: 3, 35: 0},
        "throttle/power-limit": {0: 0, 28: 1},
    }
    assert spans_s(view(whole(sensors, 40))) == [(20, 35, "thermal"), (28, None, "power-cap")]
    assert view(whole(sensors, 40)).throttled_ns == 20 * NS


def test_a_flag_that_does_not_say_why_belongs_to_what_does() -> None:
    capped = "throttle/freq-capped"
    assert spans_s(view(whole({capped: {0: 0, 20: 1, 30: 0}, FLAG: {0: 0, 20: 1, 25: 0}}))) == [(20, 30, "thermal")]
    late = view(whole({capped: {0: 0, 20: 1, 30: 0}, "throttle/under-voltage": {0: 0, 25: 1, 28: 0}}))
    assert spans_s(late) == [(20, 30, "under-voltage")]
    assert late.spans[0].sensor == capped
    assert spans_s(view(whole({capped: {0: 0, 20: 1, 30: 0}, ZONE: {0: 84.5}}))) == [(20, 30, "thermal")]
    assert spans_s(view(whole({capped: {0: 0, 20: 1, 30: 0}, ZONE: {0: 70, 22: 90}}))) == [(20, 30, "thermal")]
    assert spans_s(view(whole({capped: {0: 0, 20: 1, 40: 0}, ZONE: {0: 70, 30: 90}}))) == [(20, 40, "unknown")]


def test_a_raspberry_pi_zone_throttles_at_its_firmware_limit() -> None:
    sensors = {"throttle/freq-capped": {0: 0, 20: 1, 30: 0}, "temp/cpu-thermal": {0: 79.5}}
    board = Board(model="Raspberry Pi 4 Model B Rev 1.4")
    assert spans_s(view(whole(sensors, board=board))) == [(20, 30, "thermal")]
    assert spans_s(view(whole(sensors))) == [(20, 30, "unknown")]


def test_a_cap_lowered_under_a_hot_zone_is_a_signal_until_back() -> None:
    cap = {0: 1728, 20: 1510, 24: 1267, 30: 1510, 40: 1728}
    assert spans_s(view(whole({ZONE: {0: 70, 18: 85, 26: 80}, "freqcap/cpu0": cap}))) == [(20, 40, "thermal")]
    assert spans_s(view(whole({ZONE: {0: 70, 22: 85}, "freqcap/cpu0": cap}))) == [(20, 40, "thermal")]
    assert view(whole({ZONE: {0: 70}, "freqcap/cpu0": cap})).spans == ()
    by_hand = {0: 1728, 10: 1267}
    assert view(whole({ZONE: {0: 70, 40: 85}, "freqcap/cpu0": by_hand})).spans == ()


def test_a_cap_that_was_low_before_the_session_is_none() -> None:
    assert view(whole({ZONE: {0: 90}, "freqcap/cpu0": {0: 1037}})).spans == ()


def test_a_sensor_that_is_lost_ends_its_span_at_its_last_reading() -> None:
    lost = {0: 0.0, 20: 1.0, 30: None}
    assert spans_s(view(whole({FLAG: lost, CLOCK: {0: 1728}}, 40))) == [(20, None, "thermal")]
    assert spans_s(view(whole({FLAG: lost, CLOCK: {0: 1728}}, 45))) == [(20, 29, "thermal")]
    again = view(whole({FLAG: {**lost, 50: 1.0}, CLOCK: {0: 1728}}))
    assert spans_s(again) == [(20, 29, "thermal"), (50, None, "thermal")]


def test_a_throttled_end_of_a_session_ends_with_the_measurement() -> None:
    found = view(whole({FLAG: {0: 0, 50: 1}}, end=True))
    assert spans_s(found) == [(50, 60, "thermal")]
    assert found.spans[0].was_cut
    assert not view(whole({FLAG: {0: 0, 50: 1, 59: 0}}, end=True)).spans[0].was_cut


def test_a_warm_up_span_counts_but_adds_no_measured_time() -> None:
    found = view(whole({FLAG: {0: 0, 3: 1, 12: 0, 30: 1, 36: 0}}, began_s=10.0))
    assert spans_s(found) == [(3, 12, "thermal"), (30, 36, "thermal")]
    assert (found.total, found.measured_total, found.throttled_ns) == (2, 2, 8 * NS)
    before = view(whole({FLAG: {0: 0, 3: 1, 8: 0}}, began_s=10.0))
    assert (before.total, before.measured_total, before.throttled_ns) == (1, 0, 0)


def test_of_several_cpus_the_fastest_runs_the_model() -> None:
    big, other = "freq/cpu4", "freq/cpu5"
    DECLARED.update({big: {"max": 2400.0}, other: {"max": 2400.0}})
    sensors = {
        FLAG: {0: 0, 20: 1, 40: 0},
        CLOCK: {0: 1800},
        big: {0: 600, 20: 600, 30: 1500, 40: 600},
        other: {0: 2400, 20: 1500, 30: 600, 40: 2400},
    }
    found = view(whole(sensors))
    assert found.spans[0].min_clock_mhz == 1500
    assert (found.clock, found.clock_mhz, found.best_mhz) == ("cpu", 2400, 2400)


def test_the_best_clock_of_a_board_that_nothing_slows_is_known_at_once() -> None:
    found = view(whole({FLAG: {0: 0}, CLOCK: {0: 1200, 57: 1700, 58: 1200}}))
    assert (found.spans, found.clock_mhz, found.best_mhz) == ((), 1200, 1700)


def test_a_board_throttled_from_the_start_has_its_allowed_clock() -> None:
    sensors = {FLAG: {0: 1}, CLOCK: {0: 1037}}
    assert view(whole(sensors)).best_mhz == 1728
    assert view(whole({**sensors, "freqcap/cpu0": {0: 1510}})).best_mhz == 1510


@pytest.mark.slow
def test_the_latest_spans_are_kept_and_all_are_counted() -> None:
    course = {float(t): float(t % 6 < 2) for t in range(3600)}
    found = view(whole({FLAG: course}, 3600.0, began_s=3599.0))
    assert (len(found.spans), found.total) == (500, 600)
    rows = readings({FLAG: course}, 3600.0)
    fold = Throttles()
    fold.fold(Batch(manifest=make_manifest(declared(FLAG)), events=(phase_event(0, "measure"),)))
    for piece in np.array_split(rows, 40):
        fold.fold(Batch(until_ns=int(piece["t_ns"][-1]), readings=piece))
    assert fold.view().throttled_ns == pytest.approx(1200 * NS, rel=0.01)
    assert fold.view().measured_total == 600


def test_without_a_flag_that_was_read_nothing_tells() -> None:
    assert not view(whole({CLOCK: {0: 1728}})).has_flag
    assert not view(whole({"throttle/thermal-sticky": {0: 0}})).has_flag
    assert view(whole({FLAG: {0: 0}})).has_flag


def test_a_handed_over_state_is_continued_unless_impossible() -> None:
    batch = whole({FLAG: {0: 0, 20: 1, 40: 0, 50: 1}, CLOCK: {0: 1728, 20: 1267, 40: 1728}}, slow_s=[(20, 40)])
    first, second = pieces(batch, [45.0])
    there, here = Throttles(), Throttles()
    there.fold(first)
    document = json.loads(json.dumps(there.export_state()))
    there.fold(second)
    here.fold(Batch(until_ns=60 * NS, manifest=batch.manifest, events=batch.events))
    late = replace(batch, manifest=None, events=(), readings=batch.readings[batch.readings["t_ns"] > 10 * NS])
    here.fold(replace(late, judged=document))
    assert here.view() == there.view()
    for broken in ({}, {"throttles": 7}, {"throttles": [2, []]}, _huge(document)):
        fold = Throttles()
        fold.fold(replace(batch, judged=broken))
        assert fold.view() == view(batch)


def _huge(document: dict[str, Any]) -> dict[str, Any]:
    """With a level whose exponential is beyond any number."""
    other: dict[str, Any] = json.loads(json.dumps(document))
    other["throttles"][1][0][0][9][0] = 10**15
    return other
