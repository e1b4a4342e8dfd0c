"""Warnings about how far the numbers may be trusted: each code, with what to do about it."""

import numpy as np
import pytest

from edgetop.analysis.notices import notices
from edgetop.analysis.recent_events import RECURRING
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.event_kinds import RecordsLost
from edgetop.session.events import Event, Notice, Severity
from edgetop.session.manifest import Load
from edgetop.session.seconds import NS
from tests.support.sessions import back_to_back, ended_event, folded, make_manifest, phase_event, seconds_of

START = Batch(manifest=make_manifest(), events=(phase_event(0, "measure"),), restart=True)


def notices_of(*events: Event, count: int = 7_000, warmup_runs: int = 50, is_over: bool = True) -> tuple[Notice, ...]:
    inferences = back_to_back(0, [1_000_000] * count)
    end = (ended_event(10 * NS, "duration", last_end_ns=10 * NS, warmup_runs=warmup_runs),) if is_over else ()
    return notices(folded([START, Batch(10 * NS, inferences, seconds_of(inferences), events=(*events, *end))]))


def codes(*events: Event, **more: object) -> list[str]:
    return [notice.code for notice in notices_of(*events, **more)]


def event(kind: str, severity: Severity = "warning", message: str = "what happened") -> Event:
    return read_event(5, kind, severity, "engine", message)


def test_a_session_without_doubts_has_no_notices() -> None:
    assert notices_of() == ()


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("assumed-shape", "--shape"),
        ("provider-dropped", "--provider CPU"),
        ("records-lost", "--refresh"),
        ("inference-failed", "event log"),
        ("model-misnamed", "rename"),
        ("recording-failed", "-o"),
    ],
)
def test_what_happened_stays_as_a_notice_with_its_advice(kind: str, advice: str) -> None:
    for is_over in (True, False):
        (notice,) = notices_of(event(kind, message="what happened"), is_over=is_over)
        assert (notice.code, notice.message) == (kind, "what happened")
        assert advice in notice.advice


def test_the_same_trouble_is_one_notice() -> None:
    assert codes(event("inference-failed"), event("inference-failed")) == ["inference-failed"]


def test_losses_are_one_notice_with_their_sum_and_times() -> None:
    each = [
        Event(second * NS, RecordsLost(count), "critical", "engine", f"{count} inferences were not reported")
        for second, count in ((2, 100), (61, 7), (600, 1_000))
    ]
    (notice,) = notices_of(*each)
    assert notice.data == {"count": 1_107, "times": 3, "first_s": 2.0, "last_s": 600.0}
    assert "1107 inferences" in notice.message
    assert "3 times from 00:00:02 to 00:10:00" in notice.message
    assert notices_of(each[1])[0].data == {"count": 7}


@pytest.mark.parametrize("kind", sorted(RECURRING))
def test_a_trouble_that_recurs_with_other_words_is_one_notice(kind: str) -> None:
    each = [read_event(second * NS, kind, "warning", "engine", f"trouble number {second}") for second in range(1, 13)]
    (notice,) = notices_of(*each)
    assert (notice.code, notice.data["times"], notice.data["last_s"]) == (kind, 12, 12.0)


def test_other_events_are_no_notices() -> None:
    assert codes(event("sensor-lost"), event("mark", "info"), event("log", "critical")) == []


def test_a_short_warm_up_is_told_when_the_session_is_over() -> None:
    (notice,) = notices_of(warmup_runs=9)
    assert notice.code == "short-warmup"
    assert "only 9 warm-up runs" in notice.message
    assert "--warmup-runs" in notice.advice
    assert codes(warmup_runs=10) == []
    assert codes(warmup_runs=9, is_over=False) == []


@pytest.mark.parametrize(
    ("count", "which"),
    [(10, "p50 and p99 not settled: 10 "), (11, "p99 not settled: 11 "), (661, "p99 not settled: 661 ")],
)
def test_unsettled_percentiles_are_reported_at_the_end(count: int, which: str) -> None:
    (notice,) = notices_of(count=count)
    assert notice.code == "not-settled"
    assert which in notice.message
    assert "662" in notice.advice
    assert codes(count=count, is_over=False) == []


def test_that_many_inferences_count_as_few_is_said_in_numbers() -> None:
    latency_ms = np.repeat(np.where(np.arange(40) % 4, 10, 14), 100)  # spells of a second
    inferences = back_to_back(0, latency_ms * 1_000_000)
    end = ended_event(50 * NS, "duration", last_end_ns=50 * NS, warmup_runs=50)
    found = notices(folded([START, Batch(50 * NS, inferences, seconds_of(inferences), events=(end,))]))
    (notice,) = (notice for notice in found if notice.code == "not-settled")
    assert 1 < notice.data["independent"] < 500
    assert f"so 4000 count as {notice.data['independent']} independent ones" in notice.message
    assert notice.advice == "run longer: p99 needs 500 independent inferences"


def test_from_662_inferences_p99_is_settled() -> None:
    assert codes(count=662) == []


def test_without_a_measurement_there_is_nothing_to_doubt() -> None:
    assert codes(count=0, warmup_runs=0) == []


def test_what_happened_comes_before_what_the_figures_lack() -> None:
    assert codes(event("records-lost"), warmup_runs=1, count=5) == ["records-lost", "short-warmup", "not-settled"]


def test_before_a_manifest_has_come_there_are_none() -> None:
    assert notices(folded([Batch(events=(event("records-lost"),))])) == ()


def test_a_reset_of_the_views_leaves_the_notices_the_same() -> None:
    inferences = back_to_back(0, [1_000_000] * 7_000)
    analysis = folded([START, Batch(7 * NS, inferences, seconds_of(inferences))])
    analysis.reset()
    few = back_to_back(8 * NS, [1_000_000] * 5)
    analysis.fold(Batch(9 * NS, few, events=(ended_event(9 * NS, last_end_ns=9 * NS, warmup_runs=50),)))
    assert analysis.view(10 * NS).notices == notices(analysis) == ()


def test_an_overload_stays_as_a_notice_when_it_is_over() -> None:
    waits = [*(n * 8_000_000 for n in range(600)), *[0] * 600]
    inferences = back_to_back(0, [41_000_000] * 1_200, wait_ns=waits)
    load = Load(mode="fixed", rate_hz=30.0)
    start = Batch(manifest=make_manifest(load=load), events=(phase_event(0, "measure"),), restart=True)
    batch = Batch(50 * NS, inferences, seconds_of(inferences, is_paced=True))
    (notice,) = notices(folded([start, batch]))
    assert notice.code == "overloaded"
    assert notice.message.startswith("overloaded for a time: 30 Hz asked, ")
    assert "--rate" in notice.advice
