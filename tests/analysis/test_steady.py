"""Burst, sustained speed and drift: which spans they are, and what they say."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edgetop.analysis.report_parts import span as part_of
from edgetop.analysis.rolling_latency import RollingLatency
from edgetop.analysis.steady import _weighted_quantile, figures, sustained
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.sessions import MS, back_to_back, ended_event, folded, make_inferences, phase_event, seconds_of
from tests.support.slow_sessions import analysed, session_of, stretch


def told(latency_ms: list[float], **more: object) -> dict:
    return report_document(analysed(latency_ms, **more))


def span(part: dict) -> tuple[int, int]:
    return part["from_s"], part["to_s"]


def sustained_span(latency_ms: list[float]) -> tuple[int, int] | None:
    """Of a session without a burst, and without any scatter."""
    found = sustained(session_of(latency_ms, scatter=0.0).seconds.rows, None)
    return found and (found.from_s, found.to_s)


def test_burst_and_sustained_are_first_and_last_steady_span() -> None:
    document = told(stretch((60, 10.0), (200, 12.5)))
    assert span(document["burst"]) == (0, 30)
    assert document["burst"]["p50_ms"] == pytest.approx(10, rel=0.01)
    assert span(document["sustained"]) == (140, 260)
    assert document["sustained"]["p50_ms"] == pytest.approx(12.5, rel=0.01)
    assert document["drift_ratio"] == pytest.approx(1.25, abs=0.01)
    assert document["sustained"]["throughput_hz"] == 20


def test_a_screen_gets_the_sustained_span_anew_each_ten_seconds() -> None:
    """Each screen of a session gets the same, however its data came; a report gets the last one."""
    shown = []
    for length_s in (99, 100, 109, 110):
        whole = analysed(stretch((length_s, 10.0)))
        _, lately = whole.shown_spans()
        assert whole.shown_spans()[1] is lately
        shown.append(lately and lately.to_s)
    assert shown == [80, 90, 90, 100]
    batch = session_of(stretch((111, 10.0)))
    over = folded([replace(batch, events=(*batch.events, ended_event(111 * NS)))])
    assert over.shown_spans() == over.spans()
    assert over.spans()[1].to_s == 111


def test_partly_measured_seconds_lower_no_throughput() -> None:
    late = replace(session_of(stretch((40, 10.0))), events=(phase_event(NS // 2, "measure"),))
    burst = report_document(folded([late]))["burst"]
    assert (burst["from_s"], burst["to_s"]) == (0, 30)
    assert burst["throughput_hz"] == pytest.approx(600 / 29.5, abs=0.01)


def test_sustained_is_ten_minutes_at_most_without_the_burst() -> None:
    assert span(told(stretch((700, 10.0)))["sustained"]) == (100, 700)
    assert span(told(stretch((40, 10.0)))["sustained"]) == (30, 40)


@pytest.mark.parametrize("length_s", [30, 60, 120, 300, 600])
def test_sustained_is_the_longest_of_these_lengths(length_s: int) -> None:
    assert sustained_span(stretch((length_s + 5, 10.0))) == (5, length_s + 5)


@pytest.mark.parametrize(("seconds", "span"), [(4, None), (5, (0, 5))])
def test_sustained_is_five_seconds_at_least(seconds: int, span: tuple[int, int] | None) -> None:
    assert sustained_span(stretch((seconds, 10.0))) == span


@pytest.mark.parametrize(("rise", "is_steady"), [(0.075, True), (0.085, False)])
def test_a_steady_span_ends_within_three_percent_of_its_median(rise: float, is_steady: bool) -> None:
    assert (sustained_span(list(np.geomspace(10.0, 10.0 * (1 + rise), 120))) == (0, 120)) is is_steady


def test_a_steady_span_has_four_quarters_alike() -> None:
    """Each of them goes up and down; by fifths or thirds they would differ."""
    assert sustained_span(stretch((15, 10.4), (15, 9.6)) * 4) == (0, 120)


def test_an_end_that_is_not_steady_is_left_out() -> None:
    rise = list(np.linspace(10.0, 16.0, 40))
    sustained = told([*stretch((200, 10.0)), *rise], scatter=0.003)["sustained"]
    assert 190 <= sustained["to_s"] <= 215


def test_blips_do_not_make_a_span_unsteady() -> None:
    latency = [30.0 if second % 25 == 0 else 10.0 for second in range(200)]
    assert span(told(latency)["sustained"]) == (80, 200)


@pytest.mark.parametrize("seconds", [3, 5, 33])
def test_too_short_to_know_is_none(seconds: int) -> None:
    document = told(stretch((seconds, 10.0)))
    assert document["sustained"] is document["drift_ratio"] is None
    assert (document["burst"] is None) == (seconds <= 5)


def test_a_short_measurement_has_the_burst_that_it_has() -> None:
    assert span(told(stretch((12, 10.0)))["burst"]) == (0, 12)


def test_limited_from_the_start_there_is_no_burst_to_drift_from() -> None:
    document = told(stretch((100, 10.0)), sensors={"throttle/thermal": stretch((100, 1.0))})
    assert document["burst"] is document["drift_ratio"] is None
    assert document["sustained"]["p50_ms"] == pytest.approx(10, rel=0.01)


def test_percentiles_of_a_span_are_near_those_of_its_inferences() -> None:
    latency = np.random.default_rng(2).lognormal(0, 0.3, 20_000) * 5 * MS
    inferences = back_to_back(0, latency.astype(np.int64))
    rows = seconds_of(inferences).rows
    to_s = int(rows["t_ns"][-1]) // NS + 1
    found = figures(rows, 0, to_s)
    assert found is not None
    assert found.count == len(latency)
    assert found.p50_ns == pytest.approx(np.quantile(latency, 0.5), rel=0.01)
    assert found.p99_ns == pytest.approx(np.quantile(latency, 0.99), rel=0.03)


def test_percentiles_of_few_inferences_are_exact() -> None:
    starts = np.arange(12) * NS // 2
    rows = seconds_of(make_inferences(starts, np.arange(1, 13) * MS)).rows
    found = figures(rows, 0, 6)
    assert found is not None
    assert (found.p50_ns, found.p99_ns, found.throughput_hz) == (6 * MS, 12 * MS, 2.0)


def test_what_is_kept_does_not_grow() -> None:
    latency = RollingLatency()
    for second in range(0, 2_000, 100):
        rows = session_of(stretch((100, 10.0)), rate_hz=5).seconds
        rows.rows["t_ns"] += second * NS
        latency.fold(Batch(seconds=rows))
    assert len(latency.latest_rows()) == 600


@pytest.mark.parametrize(("rise", "is_steady"), [(0.24, True), (0.26, False)])
def test_of_a_latency_that_scatters_it_ends_within_three_standard_errors(rise: float, is_steady: bool) -> None:
    latency = np.geomspace(10.0, 10.0 * (1 + rise), 120) * (1 + 0.06 * (-1.0) ** np.arange(120))
    assert (sustained_span(latency.tolist()) == (0, 120)) is is_steady


@pytest.mark.parametrize("kind", ["spread", "equal", "two modes", "few"])
def test_a_weighted_quantile_is_that_of_the_sorted_values(kind: str) -> None:
    random = np.random.default_rng(5)
    values = {
        "spread": random.lognormal(15, 0.5, 120_000),
        "equal": np.full(5_000, 7.0),
        "two modes": np.where(random.random(30_000) < 0.985, 5.0, 9.0),
        "few": random.random(7),
    }[kind]
    weights = random.integers(1, 50, len(values)).astype(np.float64)
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    for quantile in (0.01, 0.5, 0.99, 1.0):
        expected = values[order[np.searchsorted(share, quantile * share[-1])]]
        assert _weighted_quantile(values, weights, quantile) == expected


def test_a_percentile_of_a_span_is_settled_by_its_inferences_and_by_those_of_the_session() -> None:
    analysis = analysed(stretch((200, 10.0)))
    found = analysis.spans()[1]
    precision = SimpleNamespace(is_settled=lambda quantile, _: quantile == 0.5)
    stream, view = analysis.only_stream, analysis.view(None)
    assert found is not None
    assert stream is not None
    vars(stream).update(statistics=SimpleNamespace(count=4_000), precision=precision)
    assert not replace(found, count=661).is_settled(0.99)
    for count, is_settled in ((661, False), (662, True), (2_000, True), (2_001, False)):
        counted = replace(found, count=count)
        part = part_of(counted, analysis, stream)
        assert part is not None
        assert part.settled == {"p50": True, "p99": is_settled}
        assert [stream.is_span_settled(counted, of) for of in (0.5, 0.99)] == [True, is_settled]
    assert [[of in one for of in (0.5, 0.99)] for one in view.settled_of_spans] == [[True, False]] * 2
    assert told(stretch((200, 10.0)))["burst"]["settled"] == {"p50": True, "p99": False}  # 600 inferences
