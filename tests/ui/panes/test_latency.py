"""The latency pane: figures in their places, the course of p50 and p99, the distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.timeline import POINTS
from edgetop.session import histogram
from edgetop.ui.charts import GUTTER
from edgetop.ui.panes.latency_pane import LATENCY, _binned, _top_of, smoothed
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


def test_a_low_pane_has_one_line_of_figures_and_one_distribution() -> None:
    rows = body(measured(75), 80, 12)
    assert rows[0].split()[::2][:5] == ["p50", "p90", "p95", "p99", "max"]
    assert rows[1].startswith("spread  4.200 ")
    assert not any("spread" in row for row in body(measured(75), 80, 9))
    waiting = body(paced(60), 80, 12)
    assert [row.split()[0] for row in waiting[:2]] == ["service", "response"]


def test_one_line_tells_the_percentiles_that_fit() -> None:
    view = view_of(measured(75))
    assert plain(LATENCY.line(view, area(80, 1))).split()[1::2][:4] == ["p50", "p90", "p95", "p99"]
    for cells in range(1, 80):
        text = plain(LATENCY.line(view, area(cells, 1)))
        assert text == plain(LATENCY.line(view, area(80, 1)))[: len(text)]
        assert not text[-1:].isdigit()


def test_p50_and_p99_are_lines_over_a_band_from_least_to_longest() -> None:
    lines = LATENCY.body(view_of(measured(75)), area(80, 12))[2:-1]
    assert {"p50", "p99", "band"} <= {span.style for row in lines for span in row[1:]}
    slow = body(measured(60).measure(15, median_ms=9), 80, 13, ascii_only=True)[2:]
    higher = min(y for y, row in enumerate(slow) if "*" in row)
    assert slow[higher].index("*") - GUTTER == pytest.approx(61 * (80 - GUTTER) / 100, abs=2)


def test_a_single_stall_does_not_flatten_all_the_rest() -> None:
    rows = body(measured(30).measure(1, median_ms=300, rate_hz=3).measure(9), 80, 12)
    assert float(rows[2].split()[0]) <= 12


def test_p99_is_a_median_of_five_seconds_so_only_steps_show() -> None:
    seconds = np.array([1.0] * 20 + [9.0] + [1.0] * 9 + [4.0] * 30)
    drawn = smoothed(np.repeat(seconds, POINTS // 60), 60)[:: POINTS // 60]
    assert drawn.tolist() == [1.0] * 30 + [4.0] * 30
    assert np.isnan(smoothed(np.full(POINTS, np.nan), 60)).all()
    assert smoothed(seconds, 3_600) is seconds


def test_p99_is_drawn_to_its_highest() -> None:
    rows = body(measured(60).measure(8, median_ms=60), 80, 12)
    assert float(rows[2].split()[0]) >= 60


def test_a_tail_far_beyond_the_usual_does_not_flatten_the_rest() -> None:
    p50, p99 = np.full(60, 2.0), np.full(60, 3.0)
    p99[:6] = 900.0
    assert _top_of(p50, p99) == 15.0
    p50[:6] = 300.0  # all inferences of these seconds were slow: that is to be seen
    assert _top_of(p50, p99) == 450.0


def test_the_title_says_lines_are_seconds_and_figures_the_window() -> None:
    assert "window 10s   lines: each 1s" in LATENCY.title(view_of(measured(75)), area(80, 12))
    assert "service lines: each 1s" in LATENCY.title(view_of(paced(60)), area(80, 12))


def test_a_deadline_that_all_miss_is_a_line_of_the_chart() -> None:
    assert any(row.startswith("    33 ") for row in body(paced(60, median_ms=90.0), 100, 16))


def test_a_deadline_that_is_near_is_a_line_of_the_chart() -> None:
    rows = body(paced(60, median_ms=25.0), 100, 16)
    assert any(row.startswith("    33 ") for row in rows)
    assert not any(row.startswith("    33 ") for row in body(paced(60, median_ms=5.0, late_ms=0.1), 100, 16))


def test_chart_and_histogram_have_their_axes() -> None:
    assert body(measured(75), 120, 14)[-1].split() == ["0:00", "0:50", "1:40"]
    whole = body(measured(75), 80, 30)
    assert [row.split() for row in whole if " 0:50 " in row] == [["0:00", "0:50", "1:40"]]
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
    assert second - first == pytest.approx((80 - GUTTER) / 6, abs=1)
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
    (line,) = [line for line in body(measured(75), 120, 30) if line.startswith("tail")]
    assert line.startswith("tail  20 slowest of 10 min:  20 unexplained")
    assert not any(line.startswith("tail") for line in body(measured(75), 120))
