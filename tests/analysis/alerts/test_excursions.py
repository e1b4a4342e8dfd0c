"""When a rule begins to hold, and when that is over: against a reference that goes second by second."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.alerts.alert import Alert, Figures
from edgetop.analysis.alerts.excursions import Excursions
from edgetop.analysis.alerts.rules import AlertRule, parse_rule
from edgetop.session.seconds import NS

RULE = parse_rule("temp>80C for=3s until=75C")
NAN = math.nan


def alerts_of(values: list[float], rule: AlertRule = RULE, cuts: tuple[int, ...] = ()) -> list[Alert]:
    excursions = Excursions(rule)
    for begin, end in pairwise([0, *sorted({cut for cut in cuts if cut < len(values)}), len(values)]):
        excursions.fold(begin, np.array(values[begin:end], np.float64))
    return excursions.alerts()


def spans(alerts: list[Alert]) -> list[tuple[int, int | None]]:
    return [(alert.begin_ns // NS, None if alert.end_ns is None else alert.end_ns // NS) for alert in alerts]


def reference(values: list[float], rule: AlertRule) -> list[tuple[int, int | None]]:
    found: list[tuple[int, int | None]] = []
    begin, is_alert = None, False
    for second, value in enumerate(values):
        if is_alert:
            if value <= rule.until:
                found[-1] = (found[-1][0], second)
                begin, is_alert = None, False
        elif value > rule.limit:
            begin = second if begin is None else begin
            if second + 1 - begin >= max(1, rule.for_s):
                is_alert = True
                found.append((begin, None))
        else:
            begin = None
    return found


def test_it_must_hold_for_so_long_without_a_break() -> None:
    assert spans(alerts_of([70, 81, 82, 79, 81, 81, 82, 90])) == [(4, None)]


def test_it_goes_on_between_its_limit_and_where_it_is_over() -> None:
    assert spans(alerts_of([81, 81, 81, 76, 79, 76, 75, 81])) == [(0, 6)]


def test_what_is_not_known_begins_nothing_and_ends_nothing() -> None:
    assert spans(alerts_of([81, 81, NAN, 81])) == []
    assert spans(alerts_of([81, 81, 81, NAN, NAN])) == [(0, None)]


def test_figures_are_of_the_alert_in_the_unit_of_the_rule() -> None:
    [alert] = alerts_of([81, 82, 90, NAN, 79, 70, 99], cuts=(1, 2, 5))
    assert alert.figures == Figures("C", 79, (81 + 82 + 90 + 79) / 4, 90)
    [alert] = alerts_of([2048.0, 3072.0], parse_rule("rss>1GiB"))
    assert alert.figures == Figures("GiB", 2.0, 2.5, 3.0)


def test_a_hole_between_pieces_breaks_what_was_about_to_begin() -> None:
    excursions = Excursions(RULE)
    excursions.fold(0, np.array([81.0, 81.0]))
    excursions.fold(10, np.array([81.0, 81.0]))
    assert excursions.alerts() == []


@given(
    values=st.lists(st.sampled_from([70.0, 75.0, 76.0, 80.0, 81.0, 85.0, NAN]), max_size=40),
    for_s=st.integers(0, 5),
    cuts=st.lists(st.integers(1, 40), max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_cut_anywhere_it_is_as_the_reference_says(values: list[float], for_s: int, cuts: list[int]) -> None:
    rule = replace(parse_rule("temp>80C until=75C"), for_s=for_s)
    alerts = alerts_of(values, rule, tuple(cuts))
    assert spans(alerts) == reference(values, rule)
    assert alerts == alerts_of(values, rule)
