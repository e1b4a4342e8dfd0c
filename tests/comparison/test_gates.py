"""Gates against the baseline: what is certainly beyond fails, under `strict` also what may be."""

from functools import cache

import pytest

from edgetop.comparison.comparison_gates import judge_gates, parse_relative_gate
from edgetop.comparison.ratios import Comparison, compare
from tests.support.compared import group


@cache
def compared() -> Comparison:
    return compare([group("a", range(5)), group("b", range(5, 10), times=1.2)])


def judged(text: str, *, strict: bool = False) -> tuple[bool, str]:
    found = judge_gates([parse_relative_gate(text)], compared(), strict=strict)[0]
    return found.ok, found.reason


@pytest.mark.parametrize(("text", "ok", "strict_ok"), [
    ("p50>+3%", False, False),
    ("p50>+19%", True, False),
    ("p50>+40%", True, True),
    ("p50>+100ms", True, True),
    ("p50>+100us", False, False),
    ("p50<-5%", True, True),
    ("throughput<-5%", True, True),
    ("temp>+20C", True, True),
])  # fmt: skip
def test_the_whole_interval_decides(text: str, *, ok: bool, strict_ok: bool) -> None:
    assert (judged(text)[0], judged(text, strict=True)[0]) == (ok, strict_ok)


def test_what_was_not_measured_fails() -> None:
    assert judged("energy>+5%") == (False, "energy>+5%: b: unknown: not measured in both")


def test_the_reason_has_the_change_and_its_interval() -> None:
    reason = judged("p50>+19%", strict=True)[1]
    assert reason.startswith("p50>+19%: b: +19.55 % (95 %: ")
    assert reason.endswith("cannot be excluded")


@pytest.mark.parametrize(("text", "words"), [
    ("p50>3%", "write NAME>+LIMIT"),
    ("p5>+3%", "unknown value p5"),
    ("rss>+3ms", "ms is not a unit of rss"),
    ("temp>+3%", "% is not a unit of temp"),
])  # fmt: skip
def test_a_wrong_gate_says_how_to_write_it(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("+", r"\+")):
        parse_relative_gate(text)
