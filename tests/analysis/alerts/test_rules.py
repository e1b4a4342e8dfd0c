"""How rules are written, and what is said of those that are not in order."""

import re

import numpy as np
import pytest

from edgetop.analysis.alerts.rules import AlertRule, parse_rule


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
    with pytest.raises(ValueError, match=name) as error:
        parse_rule(f"{name}>1")
    assert not {"energy", "drift", "leak"} & set(re.findall(r"\w+", str(error.value)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tmp>80C", "did you mean temp"),
        ("temp>80", "the unit is missing"),
        ("hot", "no value is called hot"),
        ("temp>80C fro=30s", "fro= is not known (did you mean for?)"),
        ("temp>80C for=soon", "not a time"),
        ("temp>80C until=85C", "wrong side"),
        ("rss>1GiB until=900MiB", "as the limit"),
        ("throttled until=1C", "needs a limit"),
        ("temp>80C once repeat=1m", "contradict"),
        ("temp>80C for=30s for=10s", "for= is given twice"),
        ("temp>80C until=70C until=75C", "until= is given twice"),
        ("temp>80C once once", "once is given twice"),
        ("temp>80C for=0s", "for=0s is no time at all"),
        ("temp>80C repeat=0s", "repeat=0s is no time at all"),
        ("energy>3mJ", "make it a gate"),
        ("leak>1MiB/h", "by itself"),
        ("???", "is not a rule"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as error:
        parse_rule(text)
    assert told in str(error.value)
