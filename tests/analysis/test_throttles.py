"""Spans in which something slowed the board: their beginnings, ends and causes, whatever pieces they come in."""

import pickle
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.throttles import Throttles, ThrottlesView
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

# What a sensor read: a value from each of these seconds on, once a second until the next.
Course = Mapping[float, float | None]


def declared(sensor_id: str) -> SensorInfo:
    return make_sensor(sensor_id, **DECLARED.get(sensor_id, {}))


def readings(sensors: Mapping[str, Course], until_s: float) -> Readings:
    rows = []
    for place, course in enumerate(sensors.values()):
        for second in np.arange(0, until_s, 1.0):
            begun = [at for at in course if at <= second]
            value = course[max(begun)] if begun else None
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


def test_a_flag_makes_a_span_from_its_first_reading_to_the_first_that_is_none() -> None:
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


def test_a_span_has_its_lowest_clock_its_highest_temperature_and_what_it_did_to_latency() -> None:
    sensors = {
        FLAG: {0: 0, 20: 1, 40: 0},
        CLOCK: {0: 1728, 20: 1267, 30: 1037, 40: 1728},
        ZONE: {0: 60, 20: 86, 30: 87.5, 40: 60},
    }
    batch = whole(sensors, slow_s=[(20, 40)])
    fold = Throttles()
    fold.fold(batch)
    span = fold.view(10e6).spans[0]
    assert (span.min_clock_mhz, span.max_temp_c) == (1037, 87.5)
    assert span.latency_ratio == pytest.approx(1.3, abs=0.002)
    assert fold.view(20e6).spans[0].latency_ratio == pytest.approx(0.65, abs=0.002)


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
def test_the_same_spans_are_found_whatever_pieces_a_session_comes_in(
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
