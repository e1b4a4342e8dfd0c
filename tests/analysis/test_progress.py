"""Which phase a session is in, and how far."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.progress import Progress, ProgressView, is_stalled
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.records import MEASURE, WARMUP
from edgetop.session.seconds import NS
from tests.support.sessions import MS, back_to_back, differences, ended_event, make_session, phase_event


def progress_of(*batches: Batch) -> Progress:
    progress = Progress()
    for batch in batches:
        progress.fold(batch)
    return progress


def view_of(*batches: Batch) -> ProgressView:
    return progress_of(*batches).view()


def test_a_session_begins_by_loading_with_nothing_due() -> None:
    view = view_of(Batch(until_ns=3 * NS))
    assert (view.phase, view.now_ns, view.warmup_done) == ("loading", 3 * NS, 0)
    assert view.measured_ns is view.silent_ns is view.warmup_runs is view.runs is view.duration_ns is None
    assert view.end_reason is view.end_error is None


def test_only_the_times_are_later_if_nothing_else_has_changed() -> None:
    view = ProgressView("measure", now_ns=10 * NS, measured_ns=4 * NS, warmup_done=3)
    assert view.at(12 * NS) == ProgressView("measure", now_ns=12 * NS, measured_ns=6 * NS, warmup_done=3)
    assert view.at(9 * NS) == view
    assert ProgressView().at(NS) == ProgressView(now_ns=NS)


def test_phases_follow_their_events() -> None:
    progress = Progress()
    for phase in ("first", "idle", "warmup", "measure"):
        progress.fold(Batch(events=(phase_event(NS, phase),)))
        assert progress.view().phase == phase
    progress.fold(Batch(events=(ended_event(2 * NS),)))
    assert progress.view().phase == "over"


def test_what_was_asked_for_is_told_by_the_phases() -> None:
    events = (phase_event(1, "warmup", runs=50), phase_event(2, "measure", runs=1_000, duration_ns=60 * NS))
    view = view_of(Batch(events=events))
    assert (view.warmup_runs, view.runs, view.duration_ns) == (50, 1_000, 60 * NS)


def test_an_idle_baseline_tells_how_far_it_is() -> None:
    view = view_of(Batch(5 * NS, events=(phase_event(2 * NS, "idle", duration_ns=30 * NS),)))
    assert (view.idle_ns, view.idle_done_ns) == (30 * NS, 3 * NS)
    assert view_of(Batch(5 * NS)).idle_ns is None


def test_no_limit_is_none() -> None:
    view = view_of(Batch(events=(phase_event(2, "measure", runs=None, duration_ns=None),)))
    assert view.runs is view.duration_ns is None


def test_the_measured_phase_grows_until_the_last_inference_ended() -> None:
    progress = progress_of(Batch(5 * NS, events=(phase_event(2 * NS, "measure"),)))
    assert progress.view().measured_ns == 3 * NS
    progress.fold(Batch(9 * NS, events=(ended_event(9 * NS, last_end_ns=8 * NS),)))
    assert progress.view().measured_ns == 6 * NS
    progress.fold(Batch(20 * NS))
    assert progress.view().measured_ns == 6 * NS
    assert progress.measured_until_ns == 8 * NS


def test_a_session_without_inferences_ended_when_reported() -> None:
    progress = progress_of(Batch(9 * NS, events=(ended_event(7 * NS, last_end_ns=0),)))
    assert progress.measured_until_ns == 7 * NS


def test_warm_up_runs_are_counted_live_and_reported_at_the_end() -> None:
    inferences = back_to_back(0, [10 * MS] * 5, phase=[WARMUP] * 3 + [MEASURE] * 2)
    progress = progress_of(Batch(inferences=inferences))
    assert progress.warmup == (3, 30 * MS)
    assert progress.view().warmup_done == 3
    progress.fold(Batch(events=(ended_event(NS, warmup_runs=7, warmup_ns=70 * MS),)))
    assert progress.warmup == (7, 70 * MS)


def test_silence_counts_from_the_last_inference_end_or_phase() -> None:
    progress = progress_of(Batch(3 * NS, events=(phase_event(NS, "first"),)))
    assert progress.view().silent_ns == 2 * NS
    progress.fold(Batch(5 * NS, back_to_back(NS, [3 * NS])))
    assert progress.view().silent_ns == NS
    progress.fold(Batch(6 * NS, events=(phase_event(5 * NS, "measure"),)))
    assert progress.view().silent_ns == NS


def test_a_phase_begun_after_its_inferences_is_the_last_sign() -> None:
    batch = Batch(9 * NS, back_to_back(0, [NS] * 3, phase=WARMUP), events=(phase_event(7 * NS, "measure"),))
    assert view_of(batch).silent_ns == 2 * NS


def test_nothing_is_due_once_the_session_is_over() -> None:
    assert view_of(Batch(5 * NS, back_to_back(0, [NS]), events=(ended_event(4 * NS),))).silent_ns is None


def test_why_it_ended_is_told() -> None:
    died = read_event(1, "engine-died", "critical", "engine", "killed by SIGKILL")
    view = view_of(Batch(events=(died, ended_event(2, "engine-died"))))
    assert (view.end_reason, view.end_error) == ("engine-died", "killed by SIGKILL")


def test_time_never_goes_back() -> None:
    assert view_of(Batch(5 * NS), Batch(3 * NS)).now_ns == 5 * NS


def test_a_phase_whose_data_does_not_fit_is_passed_over() -> None:
    event = read_event(5, "phase", "info", "engine", "", {"phase": "measure", "runs": "many", "duration_ns": True})
    view = view_of(Batch(events=(event,)))
    assert (view.phase, view.runs, view.duration_ns) == ("loading", None, None)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1_000), st.lists(st.floats(0, 1), max_size=8))
def test_progress_does_not_depend_on_how_a_session_came(seed: int, cuts: list[float]) -> None:
    session = make_session(seed, count=40, latency_ns=100 * MS)
    split = progress_of(*session.batches([int(cut * session.end_ns) for cut in cuts]))
    whole = progress_of(*session.batches())
    assert differences(split.view(), whole.view()) == []
    assert split.warmup == whole.warmup
    assert split.measured_until_ns == whole.measured_until_ns


def test_an_engine_that_did_what_was_asked_is_not_awaited() -> None:
    inferences = back_to_back(0, [100 * MS] * 10)
    begun = phase_event(0, "measure", runs=None, duration_ns=NS)
    assert view_of(Batch(9 * NS, events=(begun,), inferences=inferences)).silent_ns is None
    longer = phase_event(0, "measure", runs=None, duration_ns=2 * NS)
    assert view_of(Batch(9 * NS, events=(longer,), inferences=inferences)).silent_ns == 8 * NS


@pytest.mark.parametrize(
    ("silent_s", "longest_s", "stalled"), [(4.9, 0.1, False), (5.1, 0.1, True), (19.0, 2.0, False), (21.0, 2.0, True)]
)
def test_an_inference_is_overdue_after_five_seconds_or_ten_latencies(
    silent_s: float, longest_s: float, stalled: bool
) -> None:
    silent = ProgressView(phase="measure", silent_ns=round(silent_s * NS))
    assert is_stalled(silent, round(longest_s * NS), None) is stalled
