"""The whole machine, hours of it in no time: each scenario's story, and what the physics must keep."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.simulation.board_physics import Machine, new_machine
from edgetop.simulation.scenarios import SCENARIOS

pytestmark = pytest.mark.slow

HOUR_S = 3600


def session_state(
    name: str, seconds: int = HOUR_S, busy: float = 1.0, ambient_c: float | None = None
) -> Iterator[Machine]:
    """The machine second by second."""
    machine = new_machine(SCENARIOS[name], ambient_c)
    for _ in range(seconds):
        machine = machine.after(1.0, 1.0, busy)
        yield machine


def first(name: str, busy: float = 1.0) -> int:
    """After how many seconds the board is slowed."""
    return next(i for i, machine in enumerate(session_state(name, busy=busy)) if machine.slowdown > 0)


def test_a_stuck_fan_throttles_and_a_running_one_ends_it() -> None:
    told = list(session_state("thermal"))
    cut = first("thermal")
    assert 300 < cut < 500
    assert told[cut].celsius == pytest.approx(85.0, abs=0.2)
    throttled = told[cut : cut + 600]
    assert all(machine.slowdown > 0 and machine.fan_rpm == 0 for machine in throttled[:-1])
    assert 1.5 < throttled[300].slowdown + 1 < 2.5
    assert all(82 < machine.celsius < 87 for machine in throttled)
    lifted = told[cut + 640]
    assert (lifted.slowdown, lifted.is_troubled) == (0.0, False)
    assert lifted.fan_rpm > 0


def test_it_throttles_the_later_the_less_the_engine_does() -> None:
    assert first("thermal", 1.0) < first("thermal", 0.6) < first("thermal", 0.35)


def test_an_idle_board_never_throttles() -> None:
    assert all(machine.slowdown == 0 for machine in session_state("thermal", busy=0.0))


def test_in_cold_air_even_a_stuck_fan_is_later() -> None:
    cold = next(i for i, machine in enumerate(session_state("thermal", ambient_c=0.0)) if machine.slowdown > 0)
    assert cold > first("thermal") + 100


def test_a_healthy_board_is_hot_and_fine() -> None:
    told = list(session_state("healthy"))
    assert max(machine.celsius for machine in told) > 60
    assert all((machine.slowdown, machine.is_troubled) == (0.0, False) for machine in told)
    assert len({machine.fan for machine in told}) > 2, "its fan turns up"


@pytest.mark.parametrize(("name", "slowdown"), [("power-cap", 3 / 7), ("under-voltage", 0.6)])
def test_supply_trouble_slows_as_much_as_its_clock_says(name: str, slowdown: float) -> None:
    told = list(session_state(name))
    assert [machine.slowdown for machine in told if machine.is_troubled] == pytest.approx([slowdown] * 1800, rel=1e-9)
    assert {machine.slowdown for machine in told if not machine.is_troubled} == {0.0}
    changes = sum(one.is_troubled != other.is_troubled for one, other in pairwise(told))
    assert changes == 6, "it comes and goes, three times in an hour"


def test_over_current_events_are_counted_by_the_user_s_clock() -> None:
    machine = replace(new_machine(SCENARIOS["power-cap"]), busy=1.0)
    while not machine.is_troubled:
        machine = machine.after(0.1, 20.0, 1.0)
    before = machine.over_current_events
    assert machine.after(2.0, 20.0, 1.0).over_current_events == pytest.approx(before + 1200)


def test_under_voltage_is_what_the_firmware_takes_for_it() -> None:
    told = list(session_state("under-voltage", 1500))
    assert all((machine.supply_v < 4.63) == machine.is_under_voltage for machine in told)
    assert any(machine.was_under_voltage and not machine.is_under_voltage for machine in told)


@pytest.mark.parametrize("name", ["contention", "leak", "crash"])
def test_what_befalls_the_engine_leaves_the_board_healthy(name: str) -> None:
    told = list(session_state(name))
    assert any(machine.is_troubled for machine in told)
    assert all(machine.slowdown == 0 for machine in told)
    assert any(machine.is_troubled and machine.scenario.competes for machine in told) == (name == "contention")


@given(st.sampled_from(sorted(SCENARIOS)), st.floats(0.5, 1000), st.lists(st.floats(0.01, 1.0), max_size=60))
@settings(deadline=None, max_examples=40)
def test_at_any_speed_nothing_is_impossible(name: str, speed: float, steps: list[float]) -> None:
    machine = new_machine(SCENARIOS[name])
    for real_s in steps:
        machine = machine.after(real_s, speed, 1.0)
        assert machine.ambient_c < machine.celsius < machine.hardware.critical_c
        assert machine.hardware.clocks_mhz[0] <= machine.clock_mhz <= machine.hardware.fastest_mhz
        assert 0 <= machine.slowdown < 2
        assert 0 < machine.chip_w < 15


def test_the_clock_decides_over_power_as_voltage_squared() -> None:
    hardware = new_machine(SCENARIOS["thermal"]).hardware
    assert hardware.dynamic_w(hardware.fastest_mhz, 1.0) == pytest.approx(11.0)
    assert hardware.dynamic_w(729.6, 1.0) == pytest.approx(11.0 * 729.6 / 1728 * 0.62**2)
    assert hardware.dynamic_w(hardware.fastest_mhz, 0.5) == pytest.approx(5.5)
