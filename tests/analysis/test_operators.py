"""Hotspots: shares of the time, what moved, and what bursts cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.hotspots import MAX_UNMATCHED, Operators, OperatorsView, scaled_ns
from edgetop.analysis.operator_shares import (
    MAX_OPERATORS,
    MOST_GROUPS,
    BurstInfo,
    Tally,
    half_widths,
    overhead_ratio,
)
from edgetop.analysis.verdict_reasons import State
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.operators import Burst, Operator, burst_of
from edgetop.session.typed_json import JsonValue
from edgetop.wording.report_document import report_document
from tests.support.scripts import measured
from tests.support.sessions import differences

MS = 1_000_000
CONV, ADD, RELU = ("conv", "Conv", "CPU"), ("add", "Add", "CPU"), ("relu", "Relu", "CUDA")


def burst_batch(
    number: int, operators: tuple[Operator, ...], runs: int = 2, run_ns: int = 10 * MS, **told: JsonValue
) -> Batch:
    t_ns = number * 10_000 * MS
    data = {"burst": number, "duration_ns": 25 * MS, "runs": runs, "run_ns": run_ns, **told}
    event = read_event(t_ns, "profile-burst", "info", "engine", "a burst", data)
    return Batch(t_ns, events=(event,), bursts=(burst_of(t_ns, number, operators),))


def of(conv_ms: float, add_ms: float = 2, runs: int = 2) -> tuple[Operator, ...]:
    """What each takes in one inference."""
    pairs = ((CONV, conv_ms), (ADD, add_ms))
    return tuple(Operator(*key, runs, int(ms * runs * MS)) for key, ms in pairs)


def folded(*batches: Batch) -> OperatorsView:
    operators = Operators()
    for batch in batches:
        operators.fold(batch)
    return operators.view()


def test_shares_are_of_the_time_of_all_operators_in_run_order() -> None:
    view = folded(burst_batch(0, (Operator(*ADD, 2, 3 * MS), Operator(*CONV, 4, 12 * MS), Operator(*RELU, 2, 5 * MS))))
    assert [(o.position, o.name, o.share) for o in view.operators] == [
        (0, "add", 0.15),
        (1, "conv", 0.6),
        (2, "relu", 0.25),
    ]
    assert [o.calls for o in view.operators] == [1, 2, 1]
    assert view.partitions == 2
    assert scaled_ns(view.operators[1], 5 * MS) == 3 * MS


def test_types_are_added_up_the_largest_first() -> None:
    view = folded(
        burst_batch(0, (Operator("a", "Add", "CPU", 2, 2), *of(1e-6 * 2), Operator("b", "Conv", "CPU", 2, 90)))
    )
    assert [(of.op_type, of.count) for of in view.by_type] == [("Add", 2), ("Conv", 2)]
    assert abs(sum(of.share for of in view.by_type) - 1) < 1e-9


def test_a_change_is_relative_to_an_operators_first_three_bursts() -> None:
    batches = [burst_batch(i, of(conv_ms, runs=5), 5) for i, conv_ms in enumerate((3.9, 4, 4.1))]
    assert [o.change for o in folded(*batches).operators] == [None, None]
    batches += [burst_batch(i, of(6, runs=5), 5, run_ns=12 * MS) for i in (3, 4, 5)]
    assert [round(o.change, 9) for o in folded(*batches).operators if o.change is not None] == [0.5, 0.0]


def test_now_is_the_last_three_bursts() -> None:
    batches = [burst_batch(i, of(8)) for i in range(5)] + [burst_batch(i, of(2), run_ns=5 * MS) for i in (5, 6, 7)]
    view = folded(*batches)
    assert [o.share for o in view.operators] == [0.5, 0.5]
    assert view.run_ns == 5 * MS


def single_runs(*conv_ms: float) -> list[Batch]:
    """Bursts of a slow model, of one run each; the rest of it takes 2 ms."""
    return [burst_batch(i, of(ms, runs=1), runs=1, run_ns=int((ms + 2) * MS)) for i, ms in enumerate(conv_ms)]


def conv_ms(*batches: Batch) -> float:
    """Of what is shown as now, from its share beside the 2 ms."""
    share = folded(*batches).operators[0].share
    return round(2 * share / (1 - share), 9)


def test_of_bursts_of_one_run_ten_are_now_while_these_are_alike() -> None:
    steady = single_runs(*[8] * 5, 8.5, 7.5, 8.5, 7.5, 8.5, 7.5, 8.5, 7.5, 8.5, 7.5)
    view = folded(*steady)
    assert (view.counted, view.counted_runs, view.is_enough) == (10, 10, True)
    assert conv_ms(*steady) == pytest.approx(8, rel=0.01)
    assert view.run_ns == 10 * MS


@pytest.mark.parametrize(("run_ms", "counted"), [(11.4, 10), (11.6, 3)])
def test_bursts_are_alike_within_fifteen_percent(run_ms: float, counted: int) -> None:
    assert folded(*single_runs(*[run_ms - 2] * 12, *[8.0] * 3)).counted == counted


def test_three_bursts_after_throttling_only_throttled_ones_count() -> None:
    before, throttled = [8.0] * 12, [12.0] * 3
    assert [conv_ms(*single_runs(*before, *throttled[:n])) for n in (0, 1, 3)] == [8, 8, 12]


def test_an_unseen_disturbance_unsettles_shares_but_keeps_them() -> None:
    even = [undisturbed(i, 0.1) for i in range(3)]
    hit = [*even[:2], undisturbed(2, 15)]  # it takes 88 % of one burst, and 4.8 % of the others
    assert [o.share for o in folded(*hit).operators] == pytest.approx([o.share for o in folded(*even).operators])
    assert all(o.settled for o in folded(*even).operators)
    assert not any(o.settled for o in folded(*hit).operators)


def disturbed(number: int, conv_ms: float, runs: int = 5) -> Batch:
    return burst_batch(number, of(conv_ms, runs=runs), runs, disturbed_runs=runs)


def undisturbed(number: int, conv_ms: float, **told: JsonValue) -> Batch:
    return burst_batch(number, of(conv_ms, runs=5), 5, **told)


def test_shares_settle_from_three_bursts_and_ten_inferences_on() -> None:
    batches = [undisturbed(i, ms) for i, ms in enumerate((3.0, 3.01, 2.99))]
    views = [folded(*batches[: n + 1]) for n in range(3)]
    assert [view.is_enough for view in views] == [False, False, True]
    assert [view.operators[0].settled for view in views] == [False, False, True]
    assert [view.operators[0].share_ci95 is None for view in views] == [True, True, False]
    low, high = views[2].operators[0].share_ci95
    assert low < 0.6 < high
    assert high - low < 0.02
    few = [burst_batch(i, of(3, runs=3), 3) for i in range(3)]
    assert not folded(*few).operators[0].settled
    assert folded(*few).operators[0].share_ci95 is not None


def test_shares_that_differ_from_burst_to_burst_are_not_settled() -> None:
    view = folded(*(undisturbed(i, ms) for i, ms in enumerate((1, 9, 3))))
    conv, _ = view.operators
    assert conv.share == pytest.approx(0.6)
    assert not conv.settled
    assert conv.share_ci95 == (pytest.approx(0.0, abs=0.1), pytest.approx(1.0, abs=0.1))


def test_disturbed_bursts_count_only_while_there_is_no_other() -> None:
    first = [disturbed(i, 100) for i in range(4)]
    alone = folded(*first)
    assert (alone.is_disturbed, alone.left_out_runs, alone.counted) == (True, 0, 3)
    assert not any(o.settled for o in alone.operators)
    then = folded(*first, undisturbed(4, 3, left_out_runs=2), disturbed(5, 100))
    assert [o.share for o in then.operators] == pytest.approx([0.6, 0.4])
    assert (then.is_disturbed, then.left_out_runs, then.counted) == (False, 4 * 5 + 2 + 5, 1)
    assert (then.bursts, then.operators[0].settled) == (6, False)


def test_another_tools_long_averages_settle_without_an_interval() -> None:
    many, few = (folded(burst_batch(0, of(3, runs=n), n, averaged=True)) for n in (102, 98))
    assert [(o.settled, o.share_ci95) for o in many.operators] == [(True, None)] * 2
    assert [o.settled for o in few.operators] == [False, False]


def test_overhead_is_relative_to_inferences_at_the_same_time() -> None:
    def of_ratios(*ratios: float | None) -> float | None:
        plain = [None if ratio is None else int(10 * MS / ratio) for ratio in ratios]
        return folded(*(undisturbed(i, 3, plain_ns=ns) for i, ns in enumerate(plain))).overhead

    assert of_ratios(1.07, 1.08, 1.09) == pytest.approx(1.08)
    assert of_ratios(1.07, 1.08) is None  # too few
    assert of_ratios(1.07, 1.08, None) is None
    assert of_ratios(0.4, 1.08, 3.0) is None  # they do not agree
    assert of_ratios(0.43, 0.44, 0.43) is None  # an instrumented inference cannot be the faster one


def test_a_day_of_bursts_makes_no_more_groups_than_needed() -> None:
    tally = Tally()
    infos = burst_of(0, 0, of(3)).infos
    for number in range(1_000):
        ms = np.array([3 * MS if number % 2 else 3.2 * MS, 2 * MS], np.int64)
        tally.add(Burst(number, number, infos, np.array([1, 1]), ms), BurstInfo(1, 5 * MS))
    assert (tally.bursts, tally.runs) == (1_000, 1_000)
    assert len(tally._groups) <= MOST_GROUPS
    conv, add = tally.views()
    assert conv.share == pytest.approx(3.1 / 5.1, rel=1e-3)
    assert (conv.calls, add.calls, conv.settled) == (1, 1, True)


def test_it_tells_what_bursts_cost() -> None:
    view = folded(*(burst_batch(i, of(3), runs=4, run_ns=(10 + i) * MS) for i in range(2)))
    assert (view.bursts, view.busy_ns, view.last_runs, view.last_ns) == (2, 50 * MS, 4, 10_000 * MS)
    assert view.run_ns == 10.5 * MS


def test_the_view_is_the_same_object_until_something_comes() -> None:
    operators = Operators()
    operators.fold(burst_batch(0, of(3)))
    view = operators.view()
    operators.fold(Batch(99))
    assert operators.view() is view
    operators.fold(burst_batch(1, of(3)))
    assert operators.view() is not view


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=9), st.sets(st.integers(0, 9)))
def test_however_batches_are_cut_the_view_is_the_same(times_ms: list[float], cuts: set[int]) -> None:
    batches = [burst_batch(i, of(ms, runs=3), runs=3) for i, ms in enumerate(times_ms)]
    pieces: list[list[Batch]] = [[]]
    for i, batch in enumerate(batches):
        if i in cuts and pieces[-1]:
            pieces.append([])
        pieces[-1].append(batch)
    assert differences(folded(*(merge(piece) for piece in pieces)), folded(*batches)) == []


def test_a_burst_whose_rows_and_event_come_apart_counts() -> None:
    whole = burst_batch(0, of(3))
    view = folded(Batch(0, events=whole.events), Batch(1, bursts=whole.bursts))
    assert [o.share for o in view.operators] == [0.6, 0.4]


@pytest.mark.slow
def test_unmatched_bursts_and_operators_are_bounded() -> None:
    operators = Operators()
    for i in range(100):
        operators.fold(Batch(i, events=burst_batch(i, ()).events))
    assert len(operators._unmatched) == MAX_UNMATCHED
    many = tuple(Operator(f"op{i}", "X", "CPU", 1, 1) for i in range(MAX_OPERATORS + 5))
    operators.fold(burst_batch(1_000, many))
    assert len(operators.view().operators) == MAX_OPERATORS


def test_an_operator_reported_twice_in_a_burst_is_one() -> None:
    view = folded(burst_batch(0, (*of(3), Operator(*CONV, 2, 10 * MS))))
    assert [(o.name, o.calls, o.share) for o in view.operators] == [("conv", 2, 0.8), ("add", 1, 0.2)]


def test_operators_that_come_later_are_told_behind_the_others() -> None:
    view = folded(burst_batch(0, of(3)), burst_batch(1, (Operator(*RELU, 2, 10 * MS), *of(3))))
    assert [o.name for o in view.operators] == ["conv", "add", "relu"]
    assert [o.share for o in view.operators] == pytest.approx([0.45, 0.3, 0.25])  # between 60, 40, 0 and 30, 20, 50 %


def test_why_there_is_no_profile_is_told() -> None:
    said = {"way": "", "reason": "no such library", "every_ns": 10_000 * MS}
    view = folded(Batch(0, events=(read_event(0, "profiler", "info", "engine", "", said),)))
    assert (view.way, view.reason, view.every_ns, view.operators, view.partitions) == (
        "",
        "no such library",
        10_000 * MS,
        (),
        None,
    )


def test_the_report_has_shares_of_all_bursts_and_times_of_p50() -> None:
    analysis = Analysis()
    analysis.fold(measured(10).profile().profile(slower=1.5).whole())
    document = report_document(analysis)
    operators = document["operators"]
    assert list(operators[0])[:6] == ["name", "op_type", "provider", "share", "mean_us", "energy_mj_estimate"]
    assert operators[0]["name"] == "conv1"
    assert abs(sum(o["share"] for o in operators) - 1) < 1e-4
    assert abs(sum(o["mean_us"] for o in operators) / (1e3 * document["latency"]["p50_ms"]) - 1) < 1e-4
    assert document["partitions"] == 3


def test_instrumented_inferences_are_not_in_the_latency() -> None:
    def latency(script: object) -> object:
        analysis = Analysis()
        analysis.fold(script.whole())  # type: ignore[attr-defined]
        return report_document(analysis)["latency"]

    assert latency(measured(10).profile(slower=9.0)) == latency(measured(10))


def test_without_a_burst_operators_are_not_known() -> None:
    analysis = Analysis()
    analysis.fold(measured(5).whole())
    assert report_document(analysis)["operators"] is None


def test_a_long_burst_is_no_stall() -> None:
    script = measured(30).wait(0.1).tell("profile-burst-begins").wait(40)
    analysis = Analysis()
    analysis.fold(script.whole())
    assert analysis.view(None).verdict.state is State.STEADY
    script.measure(1).wait(40)  # it failed, without an event
    analysis = Analysis()
    analysis.fold(script.whole())
    assert analysis.view(None).verdict.state is State.STALLED
    script.measure(1).wait(0.1).tell("profile-burst-begins").wait(40).profile().wait(40)
    analysis = Analysis()
    analysis.fold(script.whole())
    assert analysis.view(None).verdict.state is State.STALLED


def test_records_that_come_late_are_no_stall() -> None:
    script = measured(30).tell("records-late").wait(40)
    analysis = Analysis()
    analysis.fold(script.whole())
    assert analysis.view(None).verdict.state is State.STEADY
    script.tell("records-on-time").wait(1)
    analysis = Analysis()
    analysis.fold(script.whole())
    assert analysis.view(None).verdict.state is State.STALLED


def test_bursts_do_not_bury_other_events() -> None:
    analysis = Analysis()
    analysis.fold(measured(5).profile().tell("profile-burst-begins").whole())
    kinds = [event.kind for event in analysis.view(None).events.newest_first]
    assert "profiler" in kinds
    assert not any(kind.startswith("profile-burst") for kind in kinds)


def scattered(middle: float, half_width: float) -> list[float]:
    """Return three values around `middle` whose median has a 95 % interval of this half width."""
    halves = half_widths(np.array([[-1.0], [0.0], [1.0]]))
    assert halves is not None
    unit = float(halves[0])
    return [middle - half_width / unit, middle, middle + half_width / unit]


@pytest.mark.parametrize(
    ("share", "half_width", "settled"),
    [(0.02, 0.0048, True), (0.02, 0.0052, False), (0.5, 0.097, True), (0.5, 0.103, False)],
)
def test_a_share_settles_within_half_a_point_or_a_fifth_of_it(share: float, half_width: float, settled: bool) -> None:
    tally = Tally()
    for number, part in enumerate(scattered(share, half_width)):
        tally.add(burst_of(number, number, of(100 * part, 100 * (1 - part), runs=4)), BurstInfo(4, 100 * MS))
    assert tally.views()[0].share == pytest.approx(share, rel=1e-3)
    assert tally.views()[0].settled is settled


@pytest.mark.parametrize(("half_width", "ratio"), [(0.39, 2.0), (0.41, None)])
def test_an_overhead_is_known_to_a_fifth_of_it(half_width: float, ratio: float | None) -> None:
    infos = [BurstInfo(4, round(times * 10 * MS), plain_ns=10 * MS) for times in scattered(2.0, half_width)]
    assert overhead_ratio(infos) == ratio
