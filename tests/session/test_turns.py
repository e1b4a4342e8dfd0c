"""When each of two models has its turns."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session.turns import ALONE, LEAST_QUADS, NS, WANTED_LOADS, Plan, Planner, plan

MS = 1_000_000


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 400), st.integers(1, 20), st.integers(0, 9))
def test_turns_fill_the_given_time_without_overlap(seconds: int, latency_ms: int, seed: int) -> None:
    try:
        made = plan(5, latency_ms * MS, duration_ns=seconds * NS, seed=seed)
    except ValueError:
        assert 4 * latency_ms * MS * (ALONE + 4 * LEAST_QUADS) > seconds * NS
        return
    spans = sorted(made.spans(0) + made.spans(1))
    assert spans[0][0] == 5
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert spans[-1][1] == made.end_ns
    assert seconds * NS - 4 * made.turn_ns < made.end_ns - 5 <= seconds * NS
    assert len(made.order) >= 4 * LEAST_QUADS


def test_each_quad_has_both_twice_and_either_begins() -> None:
    quads = [plan(0, MS, duration_ns=300 * NS, seed=1).order[k : k + 4] for k in range(0, 400, 4)]
    assert set(quads) == {"ABBA", "BAAB"}
    assert 30 < quads.count("ABBA") < 70


def test_the_same_seed_gives_the_same_order() -> None:
    orders = [plan(0, MS, duration_ns=60 * NS, seed=seed).order for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize(
    ("latency_ms", "seconds", "turn_s"),
    [(0.02, 300, 0.125), (5, 300, 0.25), (100, 300, 2), (900, 300, 3.6), (1, 4, 1 / 14)],
)
def test_a_turn_has_many_inferences_within_many_turns(latency_ms: float, seconds: int, turn_s: float) -> None:
    made = plan(0, int(latency_ms * MS), duration_ns=seconds * NS, seed=0)
    assert made.turn_ns / NS == pytest.approx(turn_s, rel=1e-6)


def test_where_no_turns_fit_the_time_that_is_needed_is_told() -> None:
    with pytest.raises(ValueError, match="takes 2 s: give 448 s or more"):
        plan(0, 2 * NS, duration_ns=60 * NS, seed=0)


def all_plans(planner: Planner, reload_ns: int, latency_ns: int = MS) -> list[Plan]:
    """The plans of a session in which each reload takes that long."""
    found = [planner.first(0, latency_ns, reload_ns)]
    while following := planner.after(found[0], len(found), found[-1].end_ns + reload_ns, reload_ns):
        found.append(following)
    return found


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 400), st.integers(1, 30_000), st.integers(0, 9))
def test_loads_share_the_time_with_reloading(seconds: int, reload_ms: int, seed: int) -> None:
    reload_ns = reload_ms * MS
    plans = all_plans(Planner(seconds * NS, seed), reload_ns)
    assert plans[-1].end_ns <= seconds * NS
    assert [made.alone for made in plans] == [ALONE] + [0] * (len(plans) - 1)
    assert sum(made.quads for made in plans) >= LEAST_QUADS - 1
    reloading_ns = (len(plans) - 1) * reload_ns
    assert reloading_ns <= seconds * NS / 2 + reload_ns
    if WANTED_LOADS * reload_ns < seconds * NS / 3:
        assert len(plans) >= WANTED_LOADS


def test_a_session_has_more_loads_the_longer_it_is() -> None:
    loads = [len(all_plans(Planner(seconds * NS, 0), 1200 * MS)) for seconds in (3, 15, 30, 60, 300)]
    assert loads == sorted(loads)
    assert loads[0] <= 2
    assert loads[2] >= WANTED_LOADS
    assert len({made.order for made in all_plans(Planner(300 * NS, 0), 1200 * MS)}) > 4
