"""How well percentiles are known: intervals by order statistics over batches of time, and the p99 of halves."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetop.analysis.precision import PrecisionView
from edgetop.analysis.report import report_document
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS, QUANTILES, Seconds, concatenate
from tests.support.sessions import MS, back_to_back, folded, make_inferences, make_manifest, phase_event, seconds_of

P50, P99 = QUANTILES.index(0.5), QUANTILES.index(0.99)


def even_rate(latency_ms: NDArray[np.float64], rate_hz: int = 100) -> Batch:
    start_ns = np.arange(len(latency_ms)) * (NS // rate_hz)
    inferences = make_inferences(start_ns, (latency_ms * MS).astype(np.int64))
    return Batch(
        len(latency_ms) * NS // rate_hz,
        inferences,
        seconds_of(inferences),
        manifest=make_manifest(),
        events=(phase_event(0, "measure"),),
        restart=True,
    )


def precision_of(latency_ms: NDArray[np.float64], rate_hz: int = 100) -> PrecisionView:
    return folded([even_rate(latency_ms, rate_hz)]).precision_view()


def correlated(seed: int, seconds: int, *, rate_hz: int = 100, memory_s: float = 1.0) -> NDArray[np.float64]:
    """Lognormal about 10 ms; what holds for an inference holds for about so many seconds (AR(1))."""
    random = np.random.default_rng(seed)
    keep = np.exp(-1 / (memory_s * rate_hz))
    noise = random.normal(0, np.sqrt(1 - keep**2), seconds * rate_hz)
    level = np.empty(len(noise))
    last = random.normal()
    for i, step in enumerate(noise.tolist()):
        last = keep * last + step
        level[i] = last
    return np.asarray(10 * np.exp(0.2 * level))


TRUE_P50, TRUE_P99 = 10.0, 10 * np.exp(0.2 * 2.3263)


def covered(seeds: range, seconds: int, quantile: int, truth_ms: float, memory_s: float) -> tuple[float, int]:
    """In what share of sessions that have an interval it holds the truth, and how many have one."""
    intervals = [precision_of(correlated(seed, seconds, memory_s=memory_s)).intervals_ns[quantile] for seed in seeds]
    told = [interval for interval in intervals if interval is not None]
    return float(np.mean([low <= truth_ms * MS <= high for low, high in told])), len(told)


def test_the_truth_lies_in_the_interval_although_successive_latencies_are_alike() -> None:
    p50, told = covered(range(24), 60, P50, TRUE_P50, 1.0)
    assert (p50 >= 0.83, told) == (True, 24)
    p99, told = covered(range(24), 60, P99, TRUE_P99, 0.05)
    assert (p99 >= 0.83, told >= 20) == (True, True)


@pytest.mark.benchmark
@pytest.mark.parametrize("memory_s", [0.01, 0.1, 1.0, 5.0])
def test_coverage_over_many_sessions(capsys: pytest.CaptureFixture[str], memory_s: float) -> None:
    p50, told50 = covered(range(1_000, 1_080), 240, P50, TRUE_P50, memory_s)
    p99, told99 = covered(range(1_000, 1_080), 240, P99, TRUE_P99, memory_s)
    with capsys.disabled():
        print(f"\n80 sessions of 240 s, seeds 1000 to 1079, memory {memory_s} s: p50 in {p50:.1%} of {told50}", end="")
        print(f", p99 in {p99:.1%} of {told99}")
    assert p50 >= 0.9


def test_independent_latencies_are_known_better_than_those_that_are_alike() -> None:
    random = np.random.default_rng(1)
    independent = precision_of(10 * np.exp(0.2 * random.normal(size=12_000))).intervals_ns[P50]
    alike = precision_of(correlated(1, 120)).intervals_ns[P50]
    assert independent is not None
    assert alike is not None
    assert (independent[1] - independent[0]) * 3 < alike[1] - alike[0]


def test_more_measuring_narrows_an_interval() -> None:
    short, long = (precision_of(correlated(3, seconds)).intervals_ns[P50] for seconds in (60, 960))
    assert short is not None
    assert long is not None
    assert (long[1] - long[0]) * 2 < short[1] - short[0]


def test_an_interval_holds_the_percentile_that_is_told() -> None:
    for seed in range(5):
        analysis = folded([even_rate(correlated(seed, 60))])
        statistics = analysis.statistics()
        assert statistics is not None
        for quantile, interval in zip(QUANTILES, analysis.precision_view().intervals_ns, strict=True):
            if interval is not None:
                assert interval[0] <= statistics.percentile_ns(quantile) <= interval[1]


def test_where_too_few_lie_beyond_there_is_no_interval() -> None:
    random = np.random.default_rng(1)
    view = precision_of(random.lognormal(2, 0.2, 3_000))
    assert view.intervals_ns[P50] is not None
    assert view.intervals_ns[-1] is None  # three of 3,000 lie beyond p99.9


def test_a_short_session_has_no_interval() -> None:
    random = np.random.default_rng(1)
    assert precision_of(random.lognormal(2, 0.2, 900)).intervals_ns == (None,) * 5
    assert precision_of(random.lognormal(2, 0.2, 1_000)).intervals_ns[P50] is not None


def test_latencies_that_are_all_the_same_have_an_interval_of_no_width() -> None:
    interval = precision_of(np.full(6_000, 10.0)).intervals_ns[P50]
    assert interval == (10 * MS, 10 * MS)


def test_of_a_slow_model_every_latency_counts() -> None:
    """Two inferences a second: their rows tell each of them."""
    random = np.random.default_rng(2)
    inferences = back_to_back(0, (random.lognormal(0, 0.1, 400) * 500 * MS).astype(np.int64))
    analysis = folded([Batch(400 * NS, inferences, seconds_of(inferences), manifest=make_manifest(), restart=True)])
    interval = analysis.precision_view().intervals_ns[P50]
    assert interval is not None
    assert interval[0] < 500 * MS < interval[1]
    assert interval[1] - interval[0] < 30 * MS


def test_the_p99_of_halves_is_that_of_numpy_within_a_few_percent() -> None:
    random = np.random.default_rng(4)
    latency_ms = np.concatenate([random.lognormal(2, 0.1, 10_000), random.lognormal(2, 0.3, 10_000)])
    halves = precision_of(latency_ms).p99_halves_ns
    assert halves is not None
    truth = [np.percentile(half, 99) * MS for half in np.split(latency_ms, 2)]
    assert halves == pytest.approx(truth, rel=0.06)


def test_halves_that_are_not_settled_are_not_compared() -> None:
    random = np.random.default_rng(4)
    assert precision_of(random.lognormal(2, 0.1, 1_200)).p99_halves_ns is None
    assert precision_of(random.lognormal(2, 0.1, 1_600)).p99_halves_ns is not None


def moved(seconds: Seconds, by_s: int) -> Seconds:
    rows = seconds.rows.copy()
    rows["t_ns"] += by_s * NS
    return replace(seconds, rows=rows)


def test_a_day_tells_the_same_in_one_piece_and_in_many_in_as_much_memory() -> None:
    first = even_rate(correlated(5, 20))
    later = [moved(first.seconds, piece * 400) for piece in range(1, 200)]
    split = folded([first, *(Batch(0, seconds=seconds) for seconds in later)])
    whole = folded([first, Batch(0, seconds=concatenate(later))])
    assert split.precision_view() == whole.precision_view()
    assert split.precision._held.nbytes == folded([first]).precision._held.nbytes


def test_the_report_has_an_interval_for_each_percentile_that_has_one() -> None:
    ci95 = report_document(folded([even_rate(correlated(0, 60))]))["latency"]["ci95"]
    assert list(ci95) == ["p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms"]
    assert ci95["p50_ms"][0] < 10 < ci95["p50_ms"][1]
    assert ci95["p999_ms"] is None
