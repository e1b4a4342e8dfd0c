"""Which operator is named as the probable cause of slow inferences, from instrumented ones."""

import pytest

from edgetop.analysis.longer_operators import LEAST_LONGER, MOST_NAMES, LongerOperators
from edgetop.session.engine_events import ProfileBurst
from edgetop.session.seconds import NS
from tests.analysis.slowdowns.test_tail import counted, made, tail_of, told
from tests.support.sessions import MS


def longer(*names: str | None, share: float = 0.1, longer_ns: int = 40 * MS) -> LongerOperators:
    found = LongerOperators()
    for name in names:
        burst = ProfileBurst(slow_ns=50 * MS, usual_ns=10 * MS, longer=name)
        if name:
            burst = ProfileBurst(slow_ns=50 * MS, longer=name, longer_ns=longer_ns, longer_share=share)
        found.add(burst)
    return found


def test_an_operator_that_was_longer_three_times_is_named() -> None:
    assert longer(*["nms"] * LEAST_LONGER).explain(10 * MS) == "nms"
    assert longer(*["nms"] * (LEAST_LONGER - 1)).explain(10 * MS) == ""
    assert LongerOperators().explain(0) == ""


@pytest.mark.parametrize(("share", "times", "found"), [(0.5, 6, ""), (0.5, 7, "nms"), (0.9, 43, ""), (0.9, 44, "nms")])
def test_an_operator_of_much_of_the_time_must_be_longer_more_often(share: float, times: int, found: str) -> None:
    """By chance, an operator of half the time is the longest in six of six with a probability of 1.6 %."""
    assert longer(*["nms"] * times, share=share).explain(10 * MS) == found


def test_slow_inferences_with_other_operators_are_counter_evidence() -> None:
    assert longer(*["nms"] * 3, None).explain(10 * MS) == "nms"
    assert longer(*["nms"] * 3, *[None] * 9).explain(10 * MS) == ""


def test_an_operator_explains_no_more_than_it_was_ever_longer() -> None:
    found = longer(*["nms"] * 5, longer_ns=8 * MS)
    assert found.explain(8 * MS) == "nms"
    assert found.explain(8 * MS + 1) == ""


def test_the_more_frequent_of_two_is_named() -> None:
    found = longer(*["nms"] * 4, *["topk"] * 3, share=0.01)
    assert found.explain(10 * MS) == "nms"


def test_names_without_end_are_not_kept() -> None:
    assert len(longer(*map(str, range(3 * MOST_NAMES)))._by_name) == MOST_NAMES


def rounds(*seconds: float, longer: str = "nms", longer_ns: int = 30 * MS) -> list:
    data = {"slow_ns": 50 * MS, "usual_ns": 10 * MS, "longer": longer, "longer_ns": longer_ns, "longer_share": 0.1}
    return [told(second, "profile-burst", burst=n, duration_ns=MS, runs=1, **data) for n, second in enumerate(seconds)]


def test_what_nothing_else_explains_is_put_down_to_the_operator() -> None:
    """Also if the rounds came later: what is seen of an operator holds for the session."""
    for seconds in ((20.0, 30.0, 40.0), (30.0, 70.0, 80.0)):
        (slow,) = tail_of(made({60: 40}, *rounds(*seconds))).slowest
        assert (slow.cause, slow.who, slow.is_proven, slow.share) == ("operator", "nms", False, None)
    waited = counted(60.5, 50, waited_ns=30 * MS)
    (slow,) = tail_of(made({60: 40}, waited, *rounds(20.0, 30.0, 40.0))).slowest
    assert slow.cause == "contention"


@pytest.mark.parametrize(("longer_ns", "cause"), [(10 * MS, "operator"), (10 * MS - NS // 10**5, "unexplained")])
def test_the_operator_must_have_been_longer_by_a_quarter_of_what_was_lost(longer_ns: int, cause: str) -> None:
    (slow,) = tail_of(made({60: 40}, *rounds(20.0, 30.0, 40.0, longer_ns=longer_ns))).slowest
    assert slow.cause == cause
