"""The latency pane: figures in their places, the course of p50 and p99, the distribution."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.slow_inferences import CAUSES, SlowInference, tail_of
from edgetop.session import histogram
from edgetop.ui.charts import GUTTER
from edgetop.ui.panes.latency_pane import LATENCY, TAIL_CAUSES, TAIL_ROWS, _binned
from edgetop.wording.tail_words import TAIL_CAUSES as WORDS
from tests.support.screens import area, plain, text_of, view_of
from tests.support.scripts import Script, measured, paced


def body(script: Script | None, width: int = 80, height: int = 18, **options: bool) -> list[str]:
    return [plain(line) for line in LATENCY.body(view_of(script), area(width, height, **options))]


def test_window_and_session_share_a_table_with_aligned_numbers() -> None:
    header, window, session, *_ = body(measured(75))
    assert header.split() == ["p50", "p90", "p95", "p99", "p99.9", "max", "/s", "n"]
    assert window.split()[0] == "10s"
    assert session.split()[0] == "session"
    assert window.split()[-1] == "1000"
    assert session.split()[-1] == "7500"


def test_a_percentile_of_too_few_samples_is_marked_in_its_place() -> None:
    _, few, *_ = body(measured(5))
    assert few.count("?") == 2  # p99 wants 662 samples, p99.9 wants 6636
    _, window, session, *_ = body(measured(75))
    assert window.index("10.00?") == session.index("10.00 ")
    styles = [span.style for span in LATENCY.body(view_of(measured(75)), area(80, 18))[1] if span.text.endswith("?")]
    assert styles == ["dim"]


def test_the_title_explains_the_mark_while_there_is_one() -> None:
    assert "?: few samples" in LATENCY.title(view_of(measured(3)), area(80, 18))
    assert "?" not in LATENCY.title(view_of(measured(75)), area(80, 18))


def test_before_anything_is_measured_there_are_dashes() -> None:
    _, window, session, *_ = body(Script().load().warm_up())
    assert set(window.split()[1:]) == set(session.split()[1:]) == {"-"}
    assert plain(LATENCY.line(view_of(None), area(80, 1))) == "latency  no samples yet"


def test_wider_panes_have_more_figures() -> None:
    assert body(measured(5), 120)[0].split()[-4:] == ["min", "mean", "stdev", "jitter"]


def test_after_a_reset_no_row_is_called_the_session() -> None:
    analysis = Analysis()
    analysis.fold(measured(20).whole())
    analysis.reset()
    rows = [plain(line) for line in LATENCY.body(analysis.view(None), area(80, 18))]
    assert rows[1].split()[0] == "since"
    assert not any("session" in row for row in rows)


def test_a_low_pane_compares_the_burst_with_the_sustained_span() -> None:
    rows = body(measured(75).measure(75, median_ms=8), 80, 12)
    assert rows[0].split()[::2][:5] == ["p50", "p90", "p95", "p99", "max"]
    figures = dict(re.findall(r"(burst|sustained) p50 ([\d.]+)", rows[1]))
    assert float(figures["burst"]) == pytest.approx(5, rel=0.02)
    assert float(figures["sustained"]) == pytest.approx(8, rel=0.02)
    assert "burst -" in body(measured(5), 80, 12)[1]
    assert not any("sustained" in row for row in body(measured(75), 80, 9))
    waiting = body(paced(60), 80, 12)
    assert [row.split()[0] for row in waiting[:2]] == ["service", "response"]


def test_one_line_tells_the_percentiles_that_fit() -> None:
    view = view_of(measured(75))
    assert plain(LATENCY.line(view, area(80, 1))).split()[1::2][:4] == ["p50", "p90", "p95", "p99"]
    for cells in range(1, 80):
        text = plain(LATENCY.line(view, area(cells, 1)))
        assert text == plain(LATENCY.line(view, area(80, 1)))[: len(text)]
        assert not text[-1:].isdigit()


def test_the_title_says_which_time_is_shown_and_how_wide_a_column_is() -> None:
    assert "window 10s   service time, each 2s" in LATENCY.title(view_of(measured(75)), area(80, 12))
    assert "response time, each 2s" in LATENCY.title(view_of(paced(60)), area(80, 12))


@pytest.mark.parametrize(("median_ms", "is_near"), [(25.0, True), (90.0, True), (5.0, False)])
def test_a_deadline_near_the_medians_is_a_line_of_the_map(median_ms: float, is_near: bool) -> None:
    rows = body(paced(60, median_ms=median_ms, late_ms=0.1), 100, 18)
    assert any(row.startswith("    33 ") for row in rows) == is_near


def test_paced_inferences_are_shown_by_their_response_times_or_by_service_times() -> None:
    analysis = Analysis()
    analysis.fold(paced(60).whole())
    response = analysis.view(None).latency_heat
    analysis.shows_service = True
    service = analysis.view(None).latency_heat
    waits = [wait.p50_ns - run.p50_ns for wait, run in zip(response, service, strict=True)]
    assert waits[3] == 0  # in the second half each inference waits for 3 ms
    assert waits[-3] > 2e6


def test_chart_and_histogram_have_their_axes() -> None:
    assert body(measured(75), 120, 14)[-1].split() == ["0s", "1m"]
    whole = body(measured(75), 80, 30)
    assert [row.split() for row in whole if " 1m " in row] == [["0s", "1m"]]
    assert whole[-1].split() == ["4.200", ">=6.000"]


latencies = st.lists(st.integers(20_000, 50_000_000), min_size=1, max_size=400)


@settings(deadline=None, max_examples=60)
@given(latencies, st.integers(1, 120), st.floats(0, 1), st.floats(0, 1))
def test_the_histogram_loses_no_inference(data: list[int], bins: int, a: float, b: float) -> None:
    latency = np.array(data, np.int64)
    low = float(np.quantile(latency, min(a, b)))
    high = max(float(np.quantile(latency, max(a, b))), low * 1.02)
    counts = _binned(histogram.count_buckets(latency), low, high, bins)
    assert len(counts) == bins
    assert counts.sum() == len(latency) or abs(counts.sum() - len(latency)) < 1e-6
    assert (counts >= -1e-9).all()


@settings(deadline=None, max_examples=60)
@given(latencies, st.integers(2, 100))
def test_the_histogram_is_that_of_numpy_to_the_width_of_a_bucket(data: list[int], bins: int) -> None:
    latency = np.array(data, np.int64)
    low, high = float(latency.min()), float(latency.max()) * 1.02
    counts = np.cumsum(_binned(histogram.count_buckets(latency), low, high, bins))
    edges = np.linspace(low, high, bins + 1)[1:]
    ordered = np.sort(latency)
    at_least = np.searchsorted(ordered, edges * 0.99 - 20, side="right")
    at_most = np.searchsorted(ordered, edges * 1.01 + 20, side="right")
    assert (at_least - 1e-6 <= counts).all()
    assert (counts <= at_most + 1e-6).all()


def test_even_latencies_make_an_even_histogram() -> None:
    """Buckets and bins of other widths must not beat against one another."""
    counts = _binned(histogram.count_buckets(np.arange(4_000_000, 6_000_000, 100)), 4_000_000, 6_000_000, 97)
    assert counts.max() / counts.min() < 1.01


def test_where_there_is_no_room_for_a_chart_there_are_figures() -> None:
    assert len(body(measured(5), 80, 3)) == 3
    assert "p50" in text_of(LATENCY.body(view_of(measured(5)), area(80, 3)))


def test_bursts_are_ticks_on_the_time_axis() -> None:
    script = measured(10).profile().measure(10).profile().measure(10)
    axis = body(script, ascii_only=True)[-1]
    first, second = (place for place, char in enumerate(axis) if char == "'")
    assert second - first == pytest.approx((80 - GUTTER) / 20, abs=1)  # of an axis of 200 s
    assert "'" not in body(measured(30), ascii_only=True)[-1]


def test_under_a_rate_response_time_stands_below_service_time() -> None:
    rows = body(paced(60))
    assert [row.split()[0] for row in rows[1:5]] == ["10s", "resp.", "session", "resp."]
    service, response = rows[1].split(), rows[2].split()
    assert float(response[2].rstrip("?")) > float(service[1].rstrip("?")) + 5
    assert service[-1] == response[-1] == "300"


def test_a_deadline_has_a_line_of_its_own() -> None:
    (line,) = [row for row in body(paced(60), 120) if row.startswith("deadline")]
    assert line.startswith("deadline  33 ms: ")
    assert " missed (" in line
    assert " in a row, p99 exceeds it by " in line
    assert line.endswith(" Hz")
    (kept,) = [row for row in body(paced(60, late_ms=0.1, median_ms=5.0)) if row.startswith("deadline")]
    assert kept.startswith("deadline  33 ms: 0 % missed (0), p99 leaves 2")


def test_back_to_back_there_is_neither() -> None:
    assert not [row for row in body(measured(20)) if "resp." in row or "deadline" in row]


def test_the_zoomed_pane_has_confidence_intervals_of_percentiles() -> None:
    header, _, session, low, high, *_ = body(measured(75), height=30)
    assert low.split()[:2] == ["95%", "from"]
    assert high.split()[0] == "to"
    p50 = float(session.split()[1])
    assert float(low.split()[2]) <= p50 <= float(high.split()[1])
    assert header.index("p50") + 2 == low.index(low.split()[2]) + len(low.split()[2]) - 1
    assert not any("95%" in line for line in body(measured(75)))
    assert not any("95%" in line for line in body(measured(5), height=30))


def test_after_a_reset_the_sessions_intervals_are_not_shown() -> None:
    analysis = Analysis()
    analysis.fold(measured(75).whole())
    analysis.reset()
    lines = [plain(line) for line in LATENCY.body(analysis.view(None), area(80, 30))]
    assert not any("95%" in line for line in lines)


def test_the_whole_screen_tells_what_the_tail_is_made_of() -> None:
    (line,) = [line for line in body(measured(75), 120, TAIL_ROWS - 1) if line.startswith("tail")]
    assert line.startswith("tail  20 slowest of 10 min:  20 unexplained")
    assert not any(line.startswith("tail") for line in body(measured(75), 120))


def test_each_cause_of_the_tail_has_a_row_with_its_share() -> None:
    slow = [SlowInference(0, 50, "contention", "stress-ng")] * 11 + [SlowInference(0, 40, "garbage-collection")] * 6
    view = view_of(measured(75)).replaced(tail=tail_of((), [*slow, *[SlowInference(0, 30)] * 3]))
    rows = [plain(line) for line in LATENCY.body(view, area(120, TAIL_ROWS))]
    first = next(n for n, row in enumerate(rows) if row.startswith("tail"))
    assert rows[first].rstrip() == "tail  20 slowest of 10 min, at most one a second"
    told = [(row.split()[0], row.split(maxsplit=1)[1]) for row in rows[first + 1 : first + 4]]
    assert [share for share, _ in told] == ["55.0", "30.0", "15.0"]
    assert told[0][1].endswith("while another process took the CPU (stress-ng 11)")
    assert told[1][1].endswith("during garbage collection")
    assert told[2][1].endswith("unexplained")
    assert len(rows) == TAIL_ROWS


def test_many_causes_of_the_tail_leave_room_for_the_rest() -> None:
    view = view_of(measured(75)).replaced(tail=tail_of((), [SlowInference(0, 50, cause) for cause in CAUSES]))
    rows = [plain(line) for line in LATENCY.body(view, area(120, TAIL_ROWS))]
    first = next(n for n, row in enumerate(rows) if row.startswith("tail"))
    words = tuple(words for words, _ in WORDS.values())
    shares = [row for row in rows[first + 1 :] if row.rstrip().endswith(words)]
    assert len(shares) == TAIL_CAUSES
    assert len(rows) == TAIL_ROWS
