"""How well threads shared the work, over the bursts of a session."""

from dataclasses import replace

import pytest

from edgetop.analysis.findings import ThreadImbalance
from edgetop.analysis.hotspots import MAX_NAMED, ThreadTally, ThreadView, sound_use
from edgetop.analysis.notices import notices
from edgetop.analysis.operator_hints import operator_hints
from edgetop.session.operators import Operator, ThreadUse
from edgetop.wording.report_document import report_document
from tests.support.scripts import Script, measured
from tests.support.sessions import folded

MS = 1_000_000
USE = ThreadUse(4, 100 * MS, 20 * MS, 3, "conv", 15 * MS)


def tally(*uses: ThreadUse) -> ThreadView | None:
    found = ThreadTally()
    for use in uses:
        found.add(use)
    return found.view()


def test_shares_and_rates_are_of_all_bursts() -> None:
    other = ThreadUse(4, 300 * MS, 0, 1, "add", 16 * MS)
    assert tally(USE, other, USE) == ThreadView(4, 0.08, "conv", 7, 14.0)


def test_where_nothing_is_told_nothing_is_known() -> None:
    assert tally() is None


@pytest.mark.parametrize("change", [{"count": 0}, {"all_ns": -1}, {"wait_ns": -1}, {"moves": -1}])
def test_a_use_that_cannot_be_is_passed_over(change: dict[str, int]) -> None:
    assert sound_use(replace(USE, **change)) is None


def test_no_thread_waited_longer_than_all_operators_took() -> None:
    assert sound_use(USE) == USE
    assert sound_use(replace(USE, wait_ns=200 * MS)) == replace(USE, wait_ns=USE.all_ns)


def test_names_are_bounded() -> None:
    found = ThreadTally()
    for i in range(MAX_NAMED + 10):
        found.add(ThreadUse(2, 10, 1, 0, f"op{i}", 1))
    assert len(found._most_ns) == MAX_NAMED


def codes(view: ThreadView | None) -> list[str]:
    return [hint.code for hint in operator_hints((), None, (), view)]


def test_waiting_a_tenth_of_the_time_is_a_hint_with_the_operator() -> None:
    assert codes(ThreadView(4, 0.099, "conv", 0, 0.0)) == codes(None) == []
    waits = ThreadView(4, 0.25, "conv", 0, 0.0)
    assert operator_hints((), None, (), waits) == (ThreadImbalance(waits, "conv"),)


def test_many_moves_are_a_hint_and_a_few_are_none() -> None:
    assert codes(ThreadView(2, 0.0, "", 5, 5.1)) == ["threads-moved"]
    assert codes(ThreadView(2, 0.0, "", 4, 80.0)) == []
    assert codes(ThreadView(2, 0.0, "", 500, 4.9)) == []


def profiled(kind: str, disturbed_runs: int = 0) -> Script:
    script = measured(10)
    data = {"burst": 0, "count": 3, "duration_ns": 5, "runs": 2, "run_ns": 7, "disturbed_runs": disturbed_runs}
    script.tell(kind, **data, **USE.to_json())
    return script


@pytest.mark.parametrize("kind", ["profile-burst", "profile-bursts"])
def test_a_session_and_one_seen_from_afar_have_the_hint(kind: str) -> None:
    analysis = folded(profiled(kind).batches)
    assert analysis.operators.threads.view() == tally(USE)


def test_a_disturbed_burst_does_not_count_but_a_sum_from_afar_is_of_the_others_alone() -> None:
    of_one, of_several = (folded(profiled(kind, 2).batches) for kind in ("profile-burst", "profile-bursts"))
    assert of_one.operators.threads.view() is None
    assert of_several.operators.threads.view() == tally(USE)


def test_the_report_has_it_where_there_was_a_burst() -> None:
    script = measured(10).profile((Operator("conv", "Conv", "CPU", 8, 4_000),))
    assert report_document(folded(script.batches))["profile"]["threads"] is None
    script.tell("profile-bursts", count=1, **USE.to_json())
    document = report_document(folded(script.batches))
    assert document["profile"]["threads"] == {"count": 4, "wait_share": 0.2, "waits_in": "conv", "moves_per_s": 30.0}


def test_the_hint_is_on_the_screen_and_in_reports() -> None:
    script = measured(10).tell("profile-bursts", count=1, **USE.to_json())
    for _ in range(3):
        script.profile((Operator("conv", "Conv", "CPU", 8, 4_000),))
    analysis = folded(script.batches)
    for found in (notices(analysis), analysis.view(None).notices):
        assert "thread-imbalance" in {notice.code for notice in found}
