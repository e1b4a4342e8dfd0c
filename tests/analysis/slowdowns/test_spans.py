"""What is a slowdown and what is not: by the definition of `edgetop help slowdowns`."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS, concatenate
from tests.support.sessions import ended_event
from tests.support.slow_sessions import session_of, slowdowns_of, stretch, view_of


def spans(latency_ms: list[float], **more: object) -> list[tuple[float, float | None]]:
    return [(s.start_ns / NS, s.end_ns and s.end_ns / NS) for s in slowdowns_of(latency_ms, **more)]


def test_a_slowdown_has_its_beginning_its_end_and_its_size() -> None:
    (found,) = slowdowns_of(stretch((80, 10.0), (30, 13.1), (60, 10.0)))
    assert (found.start_ns, found.end_ns) == (80 * NS, 110 * NS)
    assert found.latency_ratio == pytest.approx(1.31, rel=0.01)


def test_one_that_goes_on_has_no_end() -> None:
    assert spans(stretch((80, 10.0), (30, 13.1))) == [(80, None)]


@pytest.mark.parametrize("slow_s", [1, 2])
def test_a_blip_is_none(slow_s: int) -> None:
    assert spans(stretch((80, 10.0), (slow_s, 30.0), (60, 10.0))) == []


@pytest.mark.parametrize(("third_ms", "found"), [(11.0, []), (15.5, [(80, None)])])
def test_a_blip_of_two_seconds_may_begin_late_in_a_third(
    third_ms: float, found: list[tuple[float, float | None]]
) -> None:
    """In a slowdown of three seconds, each is slowed by half as much as the others at least."""
    assert spans(stretch((80, 10.0), (1, third_ms), (2, 20.0)), scatter=0.002) == found


UNEVEN = (1, 12.1), (1, 14.0), (1, 12.1)


@pytest.mark.parametrize(
    ("beside", "count"), [([(1, 10.95)], 0), ([(1, 12.1)], 1), ([(3, 10.95)], 0), ([(4, 10.95)], 1)]
)
def test_a_hiccup_in_three_seconds_with_noise_beside_it_is_none(beside: list[tuple[int, float]], count: int) -> None:
    """It is known once it is over; until then, it may be the beginning of a slowdown."""
    latency = stretch((80, 10.0), *beside, *UNEVEN)
    assert len(spans(latency, scatter=0.002)) == 1
    assert len(spans([*latency, *[10.0] * 40], scatter=0.002)) == count


def test_it_is_told_within_three_seconds() -> None:
    assert spans(stretch((80, 10.0), (3, 13.0))) == [(80, None)]
    assert spans(stretch((80, 10.0), (2, 13.0))) == []


def ended(latency_ms: list[float]) -> Batch:
    """A session whose measurement ends with the last second."""
    batch = session_of(latency_ms, scatter=0.002)
    return replace(batch, events=(*batch.events, ended_event(batch.until_ns)))


@pytest.mark.parametrize(
    "latest", [[(3, 13.0)], [(1, 11.5), (3, 13.0)], [(4, 13.0)], [(1, 10.95), *UNEVEN], [(20, 13.0), (3, 16.0)]]
)
def test_the_end_of_a_session_makes_no_slowdown_that_its_middle_would_not_have(latest: list[tuple[int, float]]) -> None:
    latency = stretch((80, 10.0), *latest)
    at_end = Slowdowns()
    at_end.fold(ended(latency))
    found = [one.start_ns / NS for one in at_end.view().slowdowns]
    assert found == [start for start, _ in spans([*latency, *[10.0] * 40], scatter=0.002)]


def test_at_the_end_of_a_session_three_seconds_with_a_cause_are_a_slowdown() -> None:
    """They might have lasted."""
    sensors = {"pressure/cpu-some": stretch((80, 1.0), (3, 60.0)), "load/others": stretch((80, 2.0), (3, 150.0))}
    batch = session_of(stretch((80, 10.0), (3, 14.0)), sensors, scatter=0.002)
    fold = Slowdowns()
    fold.fold(replace(batch, events=(*batch.events, ended_event(batch.until_ns))))
    assert [one.cause for one in fold.view().slowdowns] == ["contention"]


def test_seven_percent_is_none_and_nine_is_one() -> None:
    assert spans(stretch((80, 10.0), (120, 10.7))) == []
    assert spans(stretch((80, 10.0), (60, 10.9))) == [(80, None)]


def test_an_interruption_under_ten_seconds_belongs_to_it() -> None:
    assert spans(stretch((80, 10.0), (20, 13.0), (8, 10.0), (20, 13.0), (40, 10.0))) == [(80, 128)]
    assert len(spans(stretch((80, 10.0), (20, 13.0), (14, 10.0), (20, 13.0), (40, 10.0)))) == 2


def test_a_slow_rise_begins_where_it_passes_eight_percent() -> None:
    rise = list(np.linspace(10.0, 13.0, 40))
    ((start_s, end_s),) = spans([*stretch((80, 10.0)), *rise, *stretch((40, 13.0))], scatter=0.004)
    assert abs(start_s - (80 + 40 * 0.8 / 3)) <= 3
    assert end_s is None


def test_slow_drift_below_eight_percent_is_none() -> None:
    assert spans(list(10 + 0.6 * np.sin(np.arange(1_200) / 200))) == []


def test_pauses_of_a_collector_are_none() -> None:
    latency = [30.0 if second % 7 == 0 else 10.0 for second in range(150)]
    assert spans(latency) == []


@pytest.mark.parametrize("rate_hz", [0.5, 1.0, 3.0])
def test_slow_models_and_paces_are_judged_by_five_inferences(rate_hz: float) -> None:
    slow_s = 200 if rate_hz < 1 else 80
    ((start_s, _),) = spans(stretch((slow_s, 10.0), (60, 13.0)), rate_hz=rate_hz, scatter=0.02)
    assert abs(start_s - slow_s) <= 3
    assert spans(stretch((slow_s, 10.0), (1, 40.0), (60, 10.0)), rate_hz=rate_hz, scatter=0.02) == []


def test_noise_makes_none() -> None:
    assert spans(stretch((600, 10.0)), scatter=0.3) == []


def test_the_baseline_is_the_first_steady_half_minute() -> None:
    burst = view_of(stretch((60, 10.0))).burst
    assert burst is not None
    assert (burst.from_s, burst.to_s) == (0, 30)


def test_a_baseline_waits_until_the_model_has_settled() -> None:
    burst = view_of(stretch((8, 15.0), (60, 10.0))).burst
    assert burst is not None
    assert burst.from_s in (7, 8)


def test_a_board_that_throttles_early_has_a_short_baseline() -> None:
    view = view_of(stretch((12, 10.0), (60, 14.0)))
    assert view.burst is not None
    assert view.burst.from_s == 0
    assert view.burst.to_s in (11, 12)
    assert [s.start_ns // NS for s in view.slowdowns] == [12]


def test_too_little_is_no_baseline() -> None:
    view = view_of(stretch((4, 10.0)))
    assert (view.burst, view.is_settled, view.slowdowns) == (None, False, ())


@pytest.mark.parametrize("rate_hz", [6, 9, 12, 20])
def test_blips_beside_noise_are_none(rate_hz: float) -> None:
    latency = [25.0 if second % 17 in (3, 4) else 10.0 for second in range(400)]
    assert spans(latency, rate_hz=rate_hz, scatter=0.16) == []


@pytest.mark.parametrize("pieces", [[(5, 10.0), (60, 14.0)], [(6, 10.0), (60, 12.0)], [(7, 10.0), (60, 30.0)]])
def test_one_that_begins_in_the_first_ten_seconds_begins_there(pieces: list[tuple[int, float]]) -> None:
    """Of the session: its measurement began at 0."""
    (slowdown,) = slowdowns_of(stretch(*pieces))
    assert slowdown.start_ns == pieces[0][0] * NS
    assert slowdown.end_ns is None


@pytest.mark.parametrize("slower", [1.25, 1.6])
def test_a_slow_model_that_oscillates_is_slow_each_time(slower: float) -> None:
    """A minute slow, 25 s fast, with 2 s an inference: two windows of five hardly fit into the gap."""
    cycles = [(60, 2_000.0 * slower), (25, 2_000.0)] * 5
    latency = stretch((60, 2_000.0), *cycles)
    flag = [float(latency_ms > 2_000) for latency_ms in latency]
    found = slowdowns_of(latency, {"throttle/thermal": flag}, rate_hz=0.3, scatter=0.03)
    assert [slowdown.cause for slowdown in found] == ["thermal"] * 5
    for number, slowdown in enumerate(found):
        assert slowdown.start_ns / NS == pytest.approx(60 + 85 * number, abs=5)
        assert slowdown.end_ns is not None
        assert slowdown.end_ns / NS == pytest.approx(120 + 85 * number, abs=5)


@pytest.mark.parametrize("first_s", [20, 120])
def test_a_time_years_later_is_reached_without_looking_at_each_second_between(first_s: int) -> None:
    """Times are foreign data. What came before the pause, and what comes after it, is judged as ever."""
    before, slow = session_of(stretch((first_s, 10.0))), session_of(stretch((60, 10.0), (40, 14.0), (60, 10.0)))
    later_s = 9 * 366 * 86_400
    later = replace(slow.seconds, rows=slow.seconds.rows.copy())
    later.rows["t_ns"] += later_s * NS
    fold = Slowdowns()
    fold.fold(replace(before, seconds=concatenate([before.seconds, later]), until_ns=(later_s + 160) * NS))
    assert fold.settled_s > later_s
    (found,) = fold.view().slowdowns
    assert found.start_ns // NS == pytest.approx(later_s + 60, abs=3)
