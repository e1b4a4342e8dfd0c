"""Warnings about how far the numbers may be trusted: when there is which."""

import numpy as np
import pytest

from edgetop.analysis.findings import Doubt, EventTold, NotSettled, QueueGrew, WarmupShort
from edgetop.analysis.notices import notices
from edgetop.analysis.recent_events import RECURRING
from edgetop.session.batch import Batch
from edgetop.session.engine_events import RecordsLost
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event, Severity
from edgetop.session.load_settings import Load
from edgetop.session.seconds import NS
from tests.support.sessions import back_to_back, ended_event, folded, make_manifest, phase_event, seconds_of

START = Batch(manifest=make_manifest(), events=(phase_event(0, "measure"),), restart=True)


def notices_of(*events: Event, count: int = 7_000, warmup_runs: int = 50, is_over: bool = True) -> tuple[Doubt, ...]:
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
    "kind",
    ["assumed-shape", "provider-dropped", "records-lost", "inference-failed", "model-misnamed", "recording-failed"],
)
def test_what_happened_stays_as_a_notice(kind: str) -> None:
    for is_over in (True, False):
        (notice,) = notices_of(happened := event(kind), is_over=is_over)
        assert isinstance(notice, EventTold)
        assert (notice.code, notice.lasting.first) == (kind, happened)


def test_the_same_trouble_is_one_notice() -> None:
    assert codes(event("inference-failed"), event("inference-failed")) == ["inference-failed"]


def test_losses_are_one_notice_with_their_sum_and_times() -> None:
    each = [
        Event(second * NS, RecordsLost(count), "critical", "engine", f"{count} inferences were not reported")
        for second, count in ((2, 100), (61, 7), (600, 1_000))
    ]
    (notice,) = notices_of(*each)
    lasting = notice.lasting
    assert (lasting.inferences, lasting.times, lasting.first, lasting.last_ns) == (1_107, 3, each[0], 600 * NS)
    assert notices_of(each[1])[0].lasting.inferences == 7


@pytest.mark.parametrize("kind", sorted(RECURRING))
def test_a_trouble_that_recurs_with_other_words_is_one_notice(kind: str) -> None:
    each = [read_event(second * NS, kind, "warning", "engine", f"trouble number {second}") for second in range(1, 13)]
    (notice,) = notices_of(*each)
    assert (notice.code, notice.lasting.times, notice.lasting.last_ns) == (kind, 12, 12 * NS)


def test_other_events_are_no_notices() -> None:
    assert codes(event("sensor-lost"), event("mark", "info"), event("log", "critical")) == []


def test_a_short_warm_up_is_told_when_the_session_is_over() -> None:
    assert notices_of(warmup_runs=9) == (WarmupShort(9, was_imported=False),)
    assert codes(warmup_runs=10) == []
    assert codes(warmup_runs=9, is_over=False) == []


@pytest.mark.parametrize(
    ("count", "quantiles"),
    [(10, (0.50, 0.99)), (11, (0.99,)), (661, (0.99,))],
)
def test_unsettled_percentiles_are_reported_at_the_end(count: int, quantiles: tuple[float, ...]) -> None:
    assert notices_of(count=count) == (NotSettled(quantiles, count),)
    assert codes(count=count, is_over=False) == []


def test_that_many_inferences_count_as_few_is_said_in_numbers() -> None:
    latency_ms = np.repeat(np.where(np.arange(40) % 4, 10, 14), 100)  # spells of a second
    inferences = back_to_back(0, latency_ms * 1_000_000)
    end = ended_event(50 * NS, "duration", last_end_ns=50 * NS, warmup_runs=50)
    found = notices(folded([START, Batch(50 * NS, inferences, seconds_of(inferences), events=(end,))]))
    (notice,) = (notice for notice in found if notice.code == "not-settled")
    assert isinstance(notice, NotSettled)
    assert notice.count == 4_000
    assert 1 < (notice.independent or 0) < 500


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
    assert isinstance(notice, QueueGrew)
    assert (notice.asked_hz, notice.is_over) == (30.0, True)
    assert notice.done_hz < 30
