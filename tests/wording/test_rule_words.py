"""What is wrong with a gate or an alert rule, in words."""

import pytest

from edgetop.analysis.refused_rule import Flaw, RefusedRuleError
from edgetop.wording.rule_words import gate_of, refusal_words, rule_of


@pytest.mark.parametrize("flaw", Flaw)
def test_each_flaw_is_told_in_one_line_that_begins_with_the_text(flaw: Flaw) -> None:
    refused = RefusedRuleError("p99>33mJ", flaw, "p99", "mJ", ["p50", "p90"])
    words = refusal_words(refused, "a gate")
    assert words.startswith("'p99>33mJ'")
    assert "\n" not in words


def test_the_flaws_have_different_words() -> None:
    refused = [RefusedRuleError("p99>33mJ", flaw, "p99", "mJ", ["p50", "p90"]) for flaw in Flaw]
    assert len({refusal_words(one, "a gate") for one in refused}) == len(Flaw)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p98>33ms", r"no value is called p98 \(did you mean p9\d?"),
        ("p99>33", "the unit is missing; it is given in ms, us"),
        ("temp>80F", "F is no unit of temp; it is given in C"),
        ("p99[]>3ms", r"the brackets hold no name; .*as in p99\[detector\]>33ms"),
    ],
)
def test_a_gate_that_cannot_be_used_says_what_to_write(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        gate_of(text)


def test_a_rule_that_cannot_be_used_says_what_to_write() -> None:
    assert rule_of("temp>80C for=30s").for_s == 30
    with pytest.raises(ValueError, match=r"fro= is not known \(did you mean for\?\)"):
        rule_of("temp>80C fro=30s")
