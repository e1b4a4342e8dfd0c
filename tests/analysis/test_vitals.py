"""The vital signs: from where on each is a warning."""

from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.analysis.slowdowns.throttles import ThrottleSpan
from edgetop.analysis.vitals import PI_INPUT, vitals
from tests.support.scripts import measured
from tests.support.sessions import make_sensor


@pytest.fixture(scope="module")
def healthy() -> MonitorView:
    analysis = Analysis()
    analysis.fold(measured(75).whole())
    return analysis.view(10 * 10**9).freeze()


def level(view: MonitorView, name: str, **parts: Any) -> str:
    """The level of one vital sign, with these parts of the view in place of its own."""
    other = copy(view)
    other.__dict__.update(parts)
    return next(vital.level for vital in vitals(other) if vital.name == name)


@pytest.mark.parametrize(("celsius", "expected"), [(79.5, "good"), (80.5, "warning"), (85.0, "critical")])
def test_a_zone_is_a_warning_five_degrees_below_its_trip(healthy: MonitorView, celsius: float, expected: str) -> None:
    thermal = healthy.thermal
    assert thermal.zone is not None
    near = replace(thermal, zone=replace(thermal.zone, value=celsius), trip_c=85.0)
    assert level(healthy, "heat", thermal=near) == expected


@pytest.mark.parametrize(("used", "expected"), [(0.89, "good"), (0.91, "warning")])
def test_memory_is_a_warning_at_nine_tenths_of_its_limit(healthy: MonitorView, used: float, expected: str) -> None:
    memory, room = healthy.memory, healthy.memory.room
    assert room is not None
    full = replace(memory, room=replace(room, value=(1 - used) * 8_000), board_mib=8_000.0)
    assert level(healthy, "memory", memory=full) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.96, "good"), (0.94, "critical")])
def test_a_clock_below_95_percent_of_the_best_is_one_that_a_limit_took(
    healthy: MonitorView, share: float, expected: str
) -> None:
    span = ThrottleSpan(0, None, "thermal", "throttle/thermal", None, None, None)
    slow = replace(healthy.throttles, clock_mhz=share * 2_400, best_mhz=2_400.0, spans=(span,))
    assert level(healthy, "clock", throttles=slow) == expected


@pytest.mark.parametrize(("times", "expected"), [(1.45, "good"), (1.55, "warning")])
def test_a_p99_half_again_as_long_as_in_the_burst_is_a_warning(
    healthy: MonitorView, times: float, expected: str
) -> None:
    assert healthy.burst is not None
    assert healthy.latency.window is not None
    burst = replace(healthy.burst, p99_ns=healthy.latency.window.percentile_ns(0.99) / times)
    assert level(healthy, "p99", burst=burst) == expected


@pytest.mark.parametrize(
    ("volts", "expected"), [(4.76, "good"), (4.74, "warning"), (4.64, "warning"), (4.62, "critical")]
)
def test_a_5_v_input_is_a_warning_below_what_a_supply_gives(healthy: MonitorView, volts: float, expected: str) -> None:
    track = replace(healthy.sensors[0], info=make_sensor(PI_INPUT), value=volts)
    assert level(healthy, "input", sensors=(track,)) == expected
