"""What was counted in each operator: means, limits, and what limits its speed by the bytes that were counted."""

import json

import pytest

from edgetop.analysis.event_counts import EventFigures
from edgetop.analysis.hotspots import Operators
from edgetop.analysis.operator_bounds import COMPUTE, MEMORY, OVERHEAD
from edgetop.analysis.operator_counts import Bound, OperatorCounts, OperatorEvents, bound_of, line_bytes_of, with_bytes
from edgetop.session.batch import Batch
from edgetop.session.ceilings import Ceilings
from edgetop.session.operators import EventCounts, OperatorInfo, counts_of, counts_text
from tests.analysis.test_operators import ADD, CONV, burst_batch, of

INFOS = (OperatorInfo(*CONV), OperatorInfo(*ADD))
ROOF = Ceilings(10e9, 1e9, "2026-11-21T10:00:00Z")


def counted(*rounds: EventCounts) -> OperatorCounts:
    counts = OperatorCounts()
    for one in rounds:
        counts.add(INFOS, (one,))
    return counts


def test_page_faults_are_means_over_all_rounds_and_exact() -> None:
    counts = counted(EventCounts("page-faults", 1, 2, ((0, 30, 30, 30),)), EventCounts("page-faults", 1, 3, ()))
    assert counts.of(CONV) == OperatorEvents(page_faults=6.0, ci95={"page_faults": (6.0, 6.0)})
    assert counts.of(ADD) == OperatorEvents(page_faults=0.0, ci95={"page_faults": (0.0, 0.0)})


def test_few_notes_make_a_wide_interval_and_unknown_borders_a_wider_one() -> None:
    """In 10 inferences there are 100 notes; at an unlucky beginning, 81 or 144."""
    rows = ((0, 10_000_000, 8_100_000, 14_400_000),)
    found = counted(EventCounts("cycles", 100_000, 10, rows)).of(CONV)
    assert found is not None
    assert found.cycles == 1e6
    assert found.ci95 == {"cycles": (810_000 - 196_000, 1_440_000 + 196_000)}
    none = counted(EventCounts("cycles", 100_000, 10, rows)).of(ADD)
    assert none is not None
    assert none.ci95 == {"cycles": (0.0, 19_600)}


def test_instructions_by_cycles_and_bytes_by_cache_misses() -> None:
    counts = OperatorCounts()
    counts.add(
        INFOS,
        (EventCounts("cycles", 100, 1, ((0, 4_000, 4_000, 4_000),)),
         EventCounts("instructions", 100, 1, ((0, 6_000, 6_000, 6_000),)),
         EventCounts("cache-misses", 1, 1, ((0, 50, 40, 60),))),
    )  # fmt: skip
    found = with_bytes(counts.of(CONV), line_bytes_of(EventFigures(bytes=6_400.0, cache_misses=100.0)))
    assert found is not None
    assert (found.ipc, found.bytes, found.bytes_ci95) == (1.5, 3_200, (2_560, 3_840))
    assert with_bytes(counts.of(CONV), None) == counts.of(CONV)
    assert line_bytes_of(EventFigures(bytes=6_400.0)) is None


def test_a_session_without_counts_has_none() -> None:
    assert OperatorCounts().of(CONV) is None
    assert noted(burst_batch(0, of(4))).of(CONV) is None


def noted(*batches: Batch) -> OperatorCounts:
    operators = Operators()
    for batch in batches:
        operators.fold(batch)
    return operators.counts


def test_a_round_that_was_disturbed_does_not_count_after_one_that_was_not() -> None:
    def round_(number: int, faults: int, **told: int) -> OperatorEvents | None:
        text = counts_text([EventCounts("page-faults", 1, 2, ((0, faults, faults, faults),))])
        rounds.append(burst_batch(number, of(4), counts=text, **told))
        return noted(*rounds).of(CONV)

    rounds: list[Batch] = []
    first = round_(0, 10, disturbed_runs=2)
    assert first is not None
    assert first.page_faults == 5
    for number, faults, mean in ((1, 2, 1), (2, 90, 1), (3, 4, 1.5)):
        found = round_(number, faults, disturbed_runs=2 if faults == 90 else 0)
        assert found is not None
        assert found.page_faults == mean


@pytest.mark.parametrize(
    ("bytes_ci95", "bound"),
    [
        ((900_000, 1_100_000), Bound(MEMORY, "counted")),  # ten times as many as the file has
        ((10_000, 20_000), Bound(COMPUTE, "counted")),
        ((10_000, 1_100_000), Bound(OVERHEAD, "file")),  # the counts do not decide
        (None, Bound(OVERHEAD, "file")),
    ],
)
def test_counted_bytes_decide_what_limits_if_both_ends_agree(
    bytes_ci95: tuple[float, float] | None, bound: Bound
) -> None:
    """An operator of 1 ms: 2 MFLOP take 0.2 ms, but for one that the file calls overhead."""
    events = OperatorEvents(ci95={"bytes": bytes_ci95} if bytes_ci95 else {})
    flops = 900_000 if bound.by == "file" else 2_000_000
    assert bound_of(flops, 90_000, events, 1.0, 1e6, ROOF) == bound
    assert bound_of(flops, 90_000, events, 1.0, 1e6, None) == Bound(None, None)


def test_counts_survive_their_text_and_damaged_text_has_none() -> None:
    counts = (EventCounts("cycles", 100_000, 3, ((0, 5, 4, 6), (7, 1, 1, 1))), EventCounts("page-faults", 1, 3, ()))
    assert counts_of(counts_text(counts)) == counts
    damaged = [
        "",
        "[",
        "7",
        '[["cycles",1,1,[[0,1,1]]]]',
        '[["cycles",1.5,1,[]]]',
        '[["cycles",1,-1,[]]]',
        "[" * 10_000,
    ]
    assert [counts_of(text) for text in [*damaged, json.dumps([["cycles", 2**62, 1, []]])]] == [()] * 8


def test_counts_of_unknown_events_and_operators_are_left_out() -> None:
    counts = counted(
        EventCounts("alignment-faults", 1, 1, ((0, 5, 5, 5),)), EventCounts("cycles", 0, 1, ()),
        EventCounts("page-faults", 1, 1, ((9, 5, 5, 5),)),
    )  # fmt: skip
    assert counts.of(CONV) == OperatorEvents(page_faults=0.0, ci95={"page_faults": (0.0, 0.0)})
