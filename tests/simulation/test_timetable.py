"""When trouble comes and goes."""

from dataclasses import replace

from edgetop.simulation.machine import Timetable
from edgetop.simulation.scenarios import SCENARIOS

PLAIN = replace(SCENARIOS["power-cap"], calm_s=10.0, trouble_s=20.0, rest_s=30.0)


def spans(scenario, seconds, felt=lambda _: True):
    """Whether it is in trouble, as (state, how many seconds of it)."""
    timetable, found = Timetable(scenario), []
    for second in range(seconds):
        timetable = timetable.after(1.0, is_felt=felt(second))
        if found and found[-1][0] == timetable.is_troubled:
            found[-1] = (timetable.is_troubled, found[-1][1] + 1)
        else:
            found.append((timetable.is_troubled, 1))
    return found


def test_calm_then_trouble_then_rest_again_and_again():
    assert spans(PLAIN, 129)[:5] == [(False, 9), (True, 20), (False, 30), (True, 20), (False, 30)]


def test_trouble_lasts_from_when_it_is_felt():
    assert spans(PLAIN, 80, felt=lambda second: second >= 40)[:2] == [(False, 9), (True, 50)]


def test_what_was_felt_once_is_felt_until_it_ends():
    assert spans(PLAIN, 80, felt=lambda second: second in (12, 60))[:2] == [(False, 9), (True, 22)]


def test_the_second_trouble_waits_to_be_felt_again():
    felt = {10, 110}
    assert spans(PLAIN, 200, felt=felt.__contains__)[:4] == [(False, 9), (True, 20), (False, 30), (True, 70)]


def test_a_healthy_board_has_none():
    assert spans(SCENARIOS["healthy"], 5000) == [(False, 5000)]


def test_a_leak_is_for_ever():
    assert spans(SCENARIOS["leak"], 5000) == [(True, 5000)]
