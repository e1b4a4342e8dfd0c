"""Gates against the baseline: what is certainly beyond fails, under `strict` also what may be."""

from functools import cache

import pytest

from edgetop.comparison.comparison_gates import judge_gates, judge_outputs, parse_relative_gate
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


def judged_outputs(text: str, *rows: tuple[str, float | None, float | None]) -> tuple[bool, str]:
    found = judge_outputs(parse_relative_gate(text), "b", rows)
    return found.ok, found.reason


@pytest.mark.parametrize(("text", "row", "ok"), [
    ("top-1<-1%", ("share", 0.80, 0.795), True),
    ("top-1<-1%", ("share", 0.80, 0.785), False),
    ("top-5<-1%", ("share", 0.80, 0.79), True),
    ("non-finite>0%", ("share", 0.5, 0.25), False),
    ("same-top<95%", ("share", None, 0.94), False),
    ("same-top<95%", ("share", None, 0.96), True),
    ("non-finite>0%", ("share", 0.5, 0.0), True),
    ("non-finite>+0%", ("share", 0.5, 0.5), True),
    ("non-finite>+0%", ("share", 0.5, 0.51), False),
    ("metric<-2%", ("", 50.0, 49.5), True),
    ("metric<-2%", ("", -50.0, -51.5), False),
    ("metric>+0.5", ("", 0.0, 0.6), False),
])  # fmt: skip
def test_figures_of_the_outputs_have_no_interval(text: str, row: tuple[str, float, float], *, ok: bool) -> None:
    assert judged_outputs(text, row)[0] is ok


def test_the_worst_output_decides_and_the_reason_has_points() -> None:
    rows = (("share", 0.9, 0.95), ("share", 0.9, 0.7))
    assert judged_outputs("top-1<-1%", *rows) == (
        False, "top-1<-1%: b: -20 points, on the inputs of the kept outputs"
    )  # fmt: skip


@pytest.mark.parametrize("row", [("share", None, 0.5), ("share", 0.5, None)])
def test_without_outputs_of_both_their_gate_fails(row: tuple[str, float | None, float | None]) -> None:
    assert judged_outputs("top-1<-1%", row)[1].endswith("both sessions kept (--keep-outputs) and --labels")
    assert not judged_outputs("metric<-1%", ("", 0.0, row[2]))[0]  # no percentage of nothing
    assert judged("non-finite>0%")[1].startswith("non-finite>0%: b: unknown")


@pytest.mark.parametrize(("text", "words"), [
    ("top-1<1%", "write NAME>+LIMIT"),
    ("top-1<-1", "top-1 needs a unit; use %"),
    ("p50>3%", "write NAME>+LIMIT"),
    ("p5>+3%", "unknown value p5"),
    ("rss>+3ms", "ms is not a unit of rss"),
    ("temp>+3%", "% is not a unit of temp"),
])  # fmt: skip
def test_a_wrong_gate_says_how_to_write_it(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("+", r"\+")):
        parse_relative_gate(text)
