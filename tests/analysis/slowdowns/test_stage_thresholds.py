"""Each threshold of the stages of a slowdown, on both of its sides."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from edgetop.session.seconds import NS
from tests.analysis.slowdowns.test_thresholds import correlated
from tests.support.slow_sessions import slowdowns_of, stretch

WAIT, SWITCHES = "rate/run-queue-wait", "rate/involuntary-switches"
UNREAD = float("nan")
SPLIT, WHOLE = [(60, "thermal"), (90, "contention")], [(60, "thermal")]


def told(latency: Sequence[float], sensors: Mapping[str, Sequence[float]], **more: float) -> list[tuple[int, str]]:
    """The start in seconds and the cause of each stage."""
    found = slowdowns_of(latency, sensors, **more)  # type: ignore[arg-type]
    return [(slowdown.start_ns // NS, slowdown.cause) for slowdown in found]


def throttled(until_s: int) -> dict[str, list[float]]:
    """The board throttles from 60 s on."""
    slow_s = until_s - 60
    return {
        "throttle/soft-temp": stretch((60, 0.0), (slow_s, 1.0)),
        "freq/cpu0": stretch((60, 1800.0), (slow_s, 1350.0)),
    }


WORSE = stretch((60, 10.0), (30, 13.0), (70, 19.5))  # Much worse from 90 s on, 70 s long.


@pytest.mark.parametrize(("later_s", "found"), [(8, SPLIT), (9, WHOLE)])
def test_the_cause_of_a_further_rise_shows_within_twelve_windows(later_s: int, found: object) -> None:
    """Others are seen so many seconds late. As they then explain only a part of it, their cause is sure later still."""
    waits = [UNREAD if second % 5 else 0.0 for second in range(86)]
    waits += stretch((4 + later_s, UNREAD), (70 - later_s, 400.0))
    assert told(WORSE, {**throttled(160), WAIT: waits}) == found


@pytest.mark.parametrize(("missing", "found"), [((), SPLIT), ((4, 9, 14), WHOLE)])
def test_a_further_rise_needs_a_cause_with_a_confidence_of_two_fifths(missing: tuple[int, ...], found: object) -> None:
    """Of switches alone, which prove others by half, and which begin two seconds late."""
    switches = [0.0] * 92 + [500.0] * 68
    for second in missing:
        switches[90 + second] = 0.0
    assert told(WORSE, {**throttled(160), SWITCHES: switches}) == found


@pytest.mark.parametrize(("low_s", "causes"), [(8, ["thermal"]), (9, ["thermal", "contention"])])
def test_the_level_of_a_stage_is_that_of_its_last_sixteen_windows(low_s: int, causes: list[str]) -> None:
    """It was as slow as later for a while before; that is its level until most of the last windows are faster."""
    at_s = 80 + low_s
    latency = stretch((60, 10.0), (20, 15.0), (low_s, 13.0), (60, 15.0))
    sensors = {**throttled(at_s + 60), WAIT: stretch((at_s, 0.0), (60, 400.0))}
    assert [cause for _, cause in told(latency, sensors)] == causes


@pytest.mark.parametrize(
    ("worse_s", "found"), [(5, WHOLE), (10, [(60, "thermal"), (75, "contention"), (85, "thermal")])]
)
def test_two_windows_of_a_slow_model_are_a_stage(worse_s: int, found: object) -> None:
    """Of one inference a second, a window is five seconds long."""
    latency = stretch((60, 10.0), (15, 13.0), (worse_s, 20.0), (60, 13.0))
    waits = stretch((75, 0.0), (worse_s, 400.0), (60, 0.0))
    assert told(latency, {**throttled(135 + worse_s), WAIT: waits}, rate_hz=1) == found


@pytest.mark.parametrize(("seen", "blip", "ends"), [((5, 7, 9), True, False), ((7, 9), False, True)])
def test_a_stage_goes_on_while_its_cause_shows_for_half_of_the_time(
    seen: tuple[int, ...], blip: bool, ends: bool
) -> None:
    """The latency is back at that of the stage before. The five seconds in which a sensor may be old do not count.

    The blip puts the decision off by a second, so that there are six others instead of five.
    """
    latency = stretch((60, 10.0), (30, 13.0), (30, 19.5), (40, 13.0), (40, 10.0))
    latency[129] = 19.5 if blip else 13.0
    waits = stretch((90, 0.0), (30, 400.0), (80, 0.0))
    for second in seen:
        waits[120 + second] = 400.0
    stages = [(60, "unknown"), (90, "contention")]
    assert told(latency, {WAIT: waits}) == ([*stages, (120, "unknown")] if ends else stages)


@pytest.mark.parametrize(
    ("proven_s", "found"), [(5, [(48, "contention")]), (7, [(40, "memory-pressure"), (48, "contention")])]
)
def test_a_stage_that_noise_may_explain_is_believed_with_a_confidence_of_three_fifths(
    proven_s: int, found: object
) -> None:
    """Faults in five of its eight seconds prove it by a half, in seven by 0.7."""
    noise = correlated(1, 0.03, seconds=88)
    noise[40:48] += 0.13
    noise[48:] += 0.6
    sensors = {
        "rate/major-faults": stretch((48 - proven_s, 0.0), (proven_s, 50.0), (40, 0.0)),
        WAIT: stretch((48, 0.0), (40, 400.0)),
    }
    assert told((10 * np.exp(noise)).tolist(), sensors, scatter=0.001) == found
