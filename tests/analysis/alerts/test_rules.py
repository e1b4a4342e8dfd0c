"""How rules are written, what is said of those that are not in order, and when one holds: second by second."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.alerts.alert import Alert, Figures
from edgetop.analysis.alerts.alert_rules import AlertRule, Excursions, parse_rule
from edgetop.analysis.refused_rule import Flaw, RefusedRuleError
from edgetop.analysis.session_gates import METRICS
from edgetop.session.seconds import NS


def test_a_rule_is_the_expression_of_a_gate_with_words_behind_it() -> None:
    assert parse_rule(" rss > 1GiB  for=1m30s until=0.9GiB repeat=10m ") == AlertRule(
        text="rss > 1GiB for=1m30s until=0.9GiB repeat=10m",
        series="rss",
        compare=">",
        limit=1.0,
        until=0.9,
        unit="GiB",
        scale=1024.0,
        for_s=90,
        repeat_ns=600 * 10**9,
    )


@pytest.mark.parametrize(
    ("text", "until"),
    [("temp>80C", 78.0), ("temp<10C", 12.0), ("p99>40ms", 38.0), ("power<2W", 2.1), ("errors>0", 0.0)],
)
def test_it_is_over_a_little_on_the_right_side_of_its_limit(text: str, until: float) -> None:
    assert parse_rule(text).until == pytest.approx(until)


def test_shares_and_numbers_are_different_values() -> None:
    assert [parse_rule(text).series for text in ("misses>1%", "misses>3", "misses")] == ["misses%", "misses", "misses"]


def test_what_is_not_known_neither_holds_nor_is_over() -> None:
    for text in ("temp>80C", "power<2W", "throttled"):
        rule, unknown = parse_rule(text), np.array([np.nan])
        assert not rule.holds(unknown).any()
        assert not rule.is_over(unknown).any()


def test_what_holds_is_not_over_where_the_two_meet() -> None:
    rule = parse_rule("errors>=0")
    assert rule.holds(np.array([0.0])).all()
    assert not rule.is_over(np.array([0.0])).any()


@pytest.mark.parametrize("name", ["zzz", "enrgy", "drfit", "leek"])
def test_for_an_unknown_value_only_possible_ones_are_named(name: str) -> None:
    with pytest.raises(RefusedRuleError) as error:
        parse_rule(f"{name}>1")
    assert (error.value.flaw, error.value.name) == (Flaw.UNKNOWN_NAME, name)
    assert not {"energy", "drift", "leak"} & set(error.value.offered)


@pytest.mark.parametrize(
    ("text", "flaw", "name", "value"),
    [
        ("tmp>80C", Flaw.UNKNOWN_NAME, "tmp", ""),
        ("temp>80", Flaw.NO_UNIT, "temp", ""),
        ("hot", Flaw.UNKNOWN_NAME, "hot", ""),
        ("temp>80C fro=30s", Flaw.UNKNOWN_WORD, "fro", ""),
        ("temp>80C until=85C", Flaw.UNTIL_SIDE, "", "85C"),
        ("rss>1GiB until=900MiB", Flaw.UNTIL_UNIT, "", "GiB"),
        ("throttled until=1C", Flaw.UNTIL_WITHOUT_LIMIT, "", ""),
        ("temp>80C once repeat=1m", Flaw.ONCE_AND_REPEAT, "", ""),
        ("temp>80C for=30s for=10s", Flaw.GIVEN_TWICE, "for=", ""),
        ("temp>80C until=70C until=75C", Flaw.GIVEN_TWICE, "until=", ""),
        ("temp>80C once once", Flaw.GIVEN_TWICE, "once", ""),
        ("temp>80C for=0s", Flaw.NO_TIME, "for", "0s"),
        ("temp>80C repeat=0s", Flaw.NO_TIME, "repeat", "0s"),
        ("energy>3mJ", Flaw.OF_WHOLE_SESSION, "energy", ""),
        ("leak>1MiB/h", Flaw.BUILT_IN, "leak", ""),
        ("???", Flaw.NO_RULE, "", ""),
    ],
)
def test_what_is_no_rule_is_refused_with_the_flaw(text: str, flaw: Flaw, name: str, value: str) -> None:
    with pytest.raises(RefusedRuleError) as refused:
        parse_rule(text)
    assert (refused.value.flaw, refused.value.name, refused.value.value) == (flaw, name, value)


def test_a_time_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="not a time"):
        parse_rule("temp>80C for=soon")


def test_a_new_gate_is_no_rule_until_it_has_a_value_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "jitter", METRICS["p50"])
    with pytest.raises(RefusedRuleError) as refused:
        parse_rule("jitter>2ms")
    assert refused.value.flaw is Flaw.OF_WHOLE_SESSION


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
