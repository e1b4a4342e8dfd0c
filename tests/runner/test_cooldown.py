"""The rest before a session: until the hottest zone is cool, or as long as may be."""

import pytest

from edgetop.runner.cooldown import Cooldown, Heat, cool_down, hottest
from edgetop.sensors.sensor_protocol import Found, Gap, Reader
from edgetop.simulation.scenarios import SCENARIOS
from edgetop.simulation.virtual_board import VirtualBoard
from tests.support.clocks import ManualClock
from tests.support.sessions import make_sensor


def zones(*readings: float | Gap) -> Found:
    """A board with a source of zones, one that cannot be read and one of something else."""
    infos = tuple(make_sensor(f"temp/{place}") for place, _ in enumerate(readings))

    def fail() -> list[float | Gap]:
        raise OSError(5, "Input/output error")

    broken = Reader((make_sensor("temp/broken"),), fail)
    fan = Reader((make_sensor("fan/cpu"),), lambda: [5000.0])
    return Found((Reader(infos, lambda: readings), broken, fan))


def test_the_hottest_zone_is_of_those_that_can_be_read() -> None:
    assert hottest(zones(40.0, Gap("off"), 61.5)) == Heat("temp/2", 61.5)
    assert hottest(zones(Gap("off"))) is None


def cooled(target_c: float, longest_s: float, start_c: float = 80.0) -> tuple[Cooldown, list[float]]:
    """A zone that loses a degree in each second of rest."""
    clock, told = ManualClock(), list[float]()
    began_ns = clock.monotonic_ns()
    reader = Reader((make_sensor("temp/cpu"),), lambda: [start_c - (clock.monotonic_ns() - began_ns) / 1e9])
    done = cool_down(
        Found((reader,)), target_c, longest_s, clock, clock.advance, lambda heat: told.append(heat.celsius)
    )
    return done, told


def test_it_ends_as_soon_as_the_board_is_cool() -> None:
    done, told = cooled(70.0, 60.0)
    assert done == Cooldown(70.0, 10.0, Heat("temp/cpu", 70.0))
    assert done.is_cool
    assert told[0] == 80.0


def test_it_ends_when_it_may_take_no_longer() -> None:
    done, _ = cooled(70.0, 7.25)
    assert (done.seconds, done.is_cool) == (7.25, False)
    assert done.reached == Heat("temp/cpu", 72.75)


def test_a_cool_board_waits_for_nothing() -> None:
    assert cooled(90.0, 60.0) == (Cooldown(90.0, 0.0, Heat("temp/cpu", 80.0)), [])


def rested(rest_s: float, target_c: float | None, *readings: float | Gap) -> Cooldown:
    clock = ManualClock()
    return cool_down(zones(*readings), target_c, 60.0, clock, clock.advance, rest_s=rest_s)


def test_a_fixed_rest_needs_no_temperature() -> None:
    assert rested(30.25, None, Gap("off")) == Cooldown(None, 30.25, None)
    assert rested(30.0, None, 50.0) == Cooldown(None, 30.0, Heat("temp/0", 50.0))
    assert rested(30.0, None, 50.0).is_cool


def test_a_fixed_rest_is_the_least_that_a_cool_down_takes() -> None:
    assert rested(30.0, 55.0, 50.0).seconds == 30.0
    assert rested(90.0, 45.0, 50.0).seconds == 90.0
    assert rested(30.0, 45.0, 50.0).seconds == 60.0


def test_where_no_temperature_can_be_read_nothing_is_waited_for() -> None:
    done = cool_down(zones(Gap("off")), 50.0, 60.0, ManualClock(), lambda _: pytest.fail("it waited"))
    assert done == Cooldown(50.0, 0.0, None)
    assert not done.is_cool


def test_the_virtual_board_cools_down_at_rest(tmp_path) -> None:
    clock = ManualClock()
    with VirtualBoard(SCENARIOS["healthy"], 20.0, place=tmp_path, clock=clock) as board:
        board.machine = board.machine.after(200.0, 20.0, busy=1.0)

        def pause(seconds: float) -> None:
            clock.advance(seconds)
            board.step()

        board.step()
        clock.advance(0.1)
        board.step()
        found = board.discover()
        hot = hottest(found)
        assert hot
        done = cool_down(found, hot.celsius - 5, 300.0, clock, pause)
    assert done.is_cool
    assert 1 < done.seconds < 300
