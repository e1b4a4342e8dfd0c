"""A slowdown that becomes much worse for another cause is judged anew; one that only becomes worse is not."""

import math
from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.session.seconds import NS
from tests.support.sessions import ended_event
from tests.support.slow_sessions import session_of, slowdowns_of, stretch

WAIT, PRESSURE, FLAG = "rate/run-queue-wait", "pressure/cpu-some", "throttle/soft-temp"


def told(found: tuple[Slowdown, ...]) -> list[tuple[float, float | None, str]]:
    return [(s.start_ns / NS, s.end_ns and s.end_ns / NS, s.cause) for s in found]


def test_a_rival_after_noise_begins_when_it_comes() -> None:
    latency = stretch((8, 10.0), (6, 11.2), (40, 20.0))
    rival = {WAIT: stretch((14, 0.0), (40, 350.0)), PRESSURE: stretch((14, 0.0), (40, 60.0))}
    first, second = slowdowns_of(latency, rival)
    assert told((first, second)) == [(8, 14, "unknown"), (14, None, "contention")]
    assert (first.latency_ratio, second.latency_ratio) == (pytest.approx(1.12, rel=0.01), pytest.approx(2, rel=0.01))
    assert second.evidence[0].at_s == 14


def on_top(over_s: int, until_s: int = 200) -> tuple[list[float], dict[str, list[float]]]:
    """Throttled from 60 s to 160 s; others take the CPU from 90 s to `over_s`."""
    throttled = [60 <= second < 160 for second in range(until_s)]
    crowded = [90 <= second < over_s for second in range(until_s)]
    latency = [10.0 * (1.3 if hot else 1) * (1.5 if busy else 1) for hot, busy in zip(throttled, crowded, strict=True)]
    sensors = {
        FLAG: list(map(float, throttled)),
        "freq/cpu0": [1350e6 if hot else 1800e6 for hot in throttled],
        WAIT: [400.0 if busy else 1.0 for busy in crowded],
    }
    return latency, sensors


def test_others_on_a_throttled_board_then_the_heat_again() -> None:
    found = slowdowns_of(*on_top(over_s=120))
    assert told(found) == [(60, 90, "thermal"), (90, 120, "contention"), (120, 160, "thermal")]
    assert [s.latency_ratio for s in found] == [pytest.approx(ratio, rel=0.01) for ratio in (1.3, 1.95, 1.3)]
    assert [s.then for s in found] == ["slower", "faster", ""]
    assert found[2].evidence[0].at_s == 60  # since when that flag was set


def test_both_over_at_once() -> None:
    assert told(slowdowns_of(*on_top(over_s=160))) == [(60, 90, "thermal"), (90, 160, "contention")]


def test_if_the_heat_ends_first_others_remain_the_cause() -> None:
    assert told(slowdowns_of(*on_top(over_s=190))) == [(60, 90, "thermal"), (90, 190, "contention")]


def test_a_short_relief_belongs_to_the_stage() -> None:
    latency, sensors = on_top(over_s=150)
    for second in range(110, 117):
        latency[second], sensors[WAIT][second] = 13.0, 1.0
    assert told(slowdowns_of(latency, sensors)) == [(60, 90, "thermal"), (90, 150, "contention"), (150, 160, "thermal")]


@pytest.mark.parametrize("rise", [stretch((20, 12.0), (20, 14.5), (40, 18.0)), list(np.linspace(10.9, 20.0, 80))])
def test_what_only_becomes_worse_is_one(rise: list[float]) -> None:
    latency = [*stretch((60, 10.0)), *rise]
    hot = {FLAG: stretch((60, 0.0), (80, 1.0)), "freq/cpu0": [1800e6 * 10 / ms for ms in latency]}
    assert [cause for _, _, cause in told(slowdowns_of(latency, hot))] == ["thermal"]


def test_what_only_becomes_worse_without_a_cause_is_one() -> None:
    assert told(slowdowns_of(stretch((60, 10.0), (30, 12.0), (60, 20.0)), {WAIT: stretch((150, 1.0))})) == [
        (60, None, "unknown")
    ]


def test_a_signal_without_a_further_rise_makes_none() -> None:
    rival = {WAIT: stretch((90, 0.0), (60, 350.0))}
    assert told(slowdowns_of(stretch((60, 10.0), (90, 13.0)), rival)) == [(60, None, "unknown")]


def test_a_blip_within_makes_none() -> None:
    latency = stretch((60, 10.0), (30, 12.0), (2, 30.0), (60, 12.0))
    rival = {WAIT: stretch((90, 0.0), (2, 350.0), (60, 0.0))}
    assert told(slowdowns_of(latency, rival)) == [(60, None, "unknown")]


def test_what_went_with_a_rise_only_by_chance_is_taken_back() -> None:
    latency = stretch((60, 10.0), (30, 12.0), (60, 20.0))
    rival = {WAIT: stretch((90, 0.0), (5, 350.0), (55, 0.0))}
    assert told(slowdowns_of(latency, rival)) == [(60, None, "unknown")]


@pytest.mark.slow
def test_each_rival_of_a_day_on_a_throttled_board_is_reported() -> None:
    """Each stands on the same stage: what is kept does not grow."""
    latency = [10.0] * 60 + [13.0 if second % 60 < 40 else 20.0 for second in range(3_600)]
    sensors = {
        FLAG: stretch((60, 0.0), (3_600, 1.0)),
        WAIT: [0.0] * 60 + [0.0 if second % 60 < 40 else 350.0 for second in range(3_600)],
    }
    fold = Slowdowns()
    fold.fold(session_of(latency, sensors, rate_hz=8))
    causes = [s.cause for s in fold.view().slowdowns]
    assert causes == ["thermal", "contention"] * 60
    assert fold._judgement.stages is not None
    assert len(fold._judgement.stages.below) <= 1


@pytest.mark.parametrize(("end_s", "count"), [(84.0, 1), (83.5, 1), (83.0, 0), (82.5, 0)])
def test_three_seconds_at_the_end_are_none_as_in_the_middle(end_s: float, count: int) -> None:
    """A blip of two seconds may touch three."""
    batch = session_of(stretch((80, 10.0), (math.ceil(end_s) - 80, 13.0)))
    fold = Slowdowns()
    fold.fold(replace(batch, events=(*batch.events, ended_event(int(end_s * NS), "duration"))))
    assert len(fold.view().slowdowns) == count
