"""What is recommended of a sweep, and the front of those that no other beats."""

import pytest

from edgetop.sweep.choice import KEYS, Candidate, Wanted, choose
from edgetop.sweep.plan import Settings


def candidate(name: str, *figures: float | None, reason: str | None = None) -> Candidate:
    """Figures in the order of KEYS."""
    return Candidate(Settings(f"/{name}"), name, ("s",), dict(zip(KEYS, figures, strict=True)), reason)


#                           p50   p99   items  mJ    MiB    °C
FAST = candidate("fast", 5.0, 9.0, 180.0, 60.0, 200.0, 82.0)
EVEN = candidate("even", 8.0, 8.5, 120.0, 40.0, 120.0, 70.0)
SMALL = candidate("small", 20.0, 25.0, 50.0, 30.0, 40.0, 55.0)
WORSE = candidate("worse", 21.0, 26.0, 45.0, 45.0, 125.0, 71.0)
DEAD = candidate("dead", None, None, None, None, None, None, reason="out of memory")
ALL = (FAST, EVEN, SMALL, WORSE, DEAD)


@pytest.mark.parametrize(("goal", "best"), [("p50", FAST), ("p99", EVEN), ("throughput", FAST), ("energy", SMALL)])
def test_the_best_for_the_goal_is_recommended(goal: str, best: Candidate) -> None:
    assert choose(ALL, Wanted(goal)).recommended is best


def test_what_breaks_the_limits_is_left_out_with_the_reason() -> None:
    chosen = choose(ALL, Wanted("throughput", deadline_ms=10.0, max_c=75.0, max_rss_mib=150.0))
    assert chosen.recommended is EVEN
    assert chosen.excluded == {
        "fast": "the hottest zone 82 °C is above 75",
        "small": "p99 25 ms is above 10",
        "worse": "p99 26 ms is above 10",
    }


def test_where_none_keeps_them_none_is_recommended() -> None:
    assert choose(ALL, Wanted(max_c=20.0)).recommended is None
    assert choose([DEAD], Wanted()).recommended is None


def test_what_is_not_known_keeps_no_limit_and_is_no_best() -> None:
    unknown = candidate("unknown", 1.0, 2.0, 500.0, None, None, None)
    assert choose([unknown, FAST], Wanted("throughput", max_c=90.0)).recommended is FAST
    chosen = choose([unknown, FAST], Wanted("energy"))
    assert chosen.recommended is FAST
    assert chosen.excluded == {"unknown": "energy of an item is not known"}


def test_the_front_has_those_that_none_beats_in_everything() -> None:
    chosen = choose(ALL, Wanted())
    assert chosen.axes == ("p99_ms", "energy_mj", "rss_peak_mib")
    assert chosen.pareto == (EVEN, SMALL)
    assert choose(ALL, Wanted("p50")).pareto == (FAST, EVEN, SMALL)


def test_what_one_does_not_know_is_no_axis() -> None:
    unmeasured = candidate("unmeasured", 9.0, 9.9, 100.0, None, 300.0, None)
    chosen = choose([unmeasured, EVEN], Wanted())
    assert chosen.axes == ("p99_ms", "rss_peak_mib")
    assert chosen.pareto == (EVEN,)
