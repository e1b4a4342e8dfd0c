"""How often a percentile lies within the 95 % interval that is told for it: latencies whose percentiles are known."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetop.analysis.precision import Precision
from edgetop.analysis.statistics import Totals
from edgetop.session import histogram
from edgetop.session.seconds import NS, QUANTILES, SECOND, Seconds
from tests.support.correlated import latencies_ms, truth_ms
from tests.support.sessions import MS

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

MEMORIES_S = (0.0, 0.1, 0.3, 1.0, 2.0, 5.0)
# Rate in Hz, length in s, sessions of each memory and shape: short ones are many, because they are generated soon.
SESSIONS = ((2, 60, 200), (2, 120, 200), (2, 1_800, 60), (20, 60, 200), (20, 300, 100), (100, 60, 200),
            (100, 120, 150), (100, 600, 60), (500, 300, 40), (2_000, 60, 40), (2_000, 1_800, 2))  # fmt: skip
FIRST_SEED = 90_000  # none of which was looked at when the method was chosen
LOWEST, HIGHEST = 0.93, 0.97
Case = tuple[int, int, float, str]


def intervals_ns(case: Case, seed: int) -> tuple[tuple[float, float] | None, ...]:
    rate_hz, seconds, memory_s, shape = case
    latency_ns = (latencies_ms(seed, seconds, rate_hz, memory_s, shape) * MS).astype(np.int64)
    rows = as_seconds(latency_ns.reshape(seconds, rate_hz))
    precision, totals = Precision(), Totals()
    precision.fold(rows)
    totals.add(rows)
    return precision.view(totals.statistics(seconds * NS), totals.buckets).intervals_ns


def as_seconds(latency_ns: NDArray[np.int64]) -> Seconds:
    """What the aggregator makes of a row a second, as far as precision looks at it, in a tenth of the time."""
    rows = np.zeros(len(latency_ns), SECOND)
    rows["t_ns"], rows["count"] = np.arange(len(latency_ns)) * NS, latency_ns.shape[1]
    rows["min_ns"], rows["max_ns"] = latency_ns.min(axis=1), latency_ns.max(axis=1)
    bucket = histogram.bucket_of(latency_ns) + np.arange(len(latency_ns))[:, None] * histogram.SIZE
    place, count = np.unique(bucket, return_counts=True)
    offsets = np.searchsorted(place, np.arange(len(latency_ns) + 1) * histogram.SIZE)
    return Seconds(rows, offsets.astype(np.int32), (place % histogram.SIZE).astype(np.int16), count.astype(np.int32))


def test_percentiles_lie_in_their_intervals_in_95_of_100_runs(capsys: pytest.CaptureFixture[str]) -> None:
    known: Counter[tuple[Case, float]] = Counter()
    within: Counter[tuple[Case, float]] = Counter()
    sessions: Counter[Case] = Counter()
    for rate_hz, seconds, count in SESSIONS:
        for case in (
            (rate_hz, seconds, memory_s, shape) for memory_s in MEMORIES_S for shape in ("lognormal", "heavy")
        ):
            sessions[case] = count
            for seed in range(FIRST_SEED, FIRST_SEED + count):
                for quantile, interval in zip(QUANTILES, intervals_ns(case, seed), strict=True):
                    if interval:
                        known[case, quantile] += 1
                        truth_ns = truth_ms(quantile, case[3]) * MS
                        within[case, quantile] += interval[0] <= truth_ns <= interval[1]
    with capsys.disabled():
        print(f"\nseeds from {FIRST_SEED}; of those sessions that have an interval, in how many it holds the truth")
        for case, count in sessions.items():
            cells = (
                f"{100 * within[case, q] / known[case, q]:5.1f} ({known[case, q]:3})"
                if known[case, q]
                else f"{'-':>11}"
                for q in QUANTILES
            )
            print(f"{case[0]:>5} Hz {case[1]:>5} s memory {case[2]:3} s {case[3]:<9} of {count:>3}: {'  '.join(cells)}")
        for quantile in QUANTILES:
            told, held = (sum(n for (_, q), n in found.items() if q == quantile) for found in (known, within))
            print(f"p{100 * quantile:g}: {held / told:.4f} of {told}")
    assert LOWEST <= sum(within.values()) / sum(known.values()) <= HIGHEST
    for (case, quantile), told in known.items():
        # Where most sessions have an interval, with four standard errors for chance; where few have one, it is
        # those that by chance look less alike than they are.
        if told >= 0.8 * sessions[case] and told >= 50:
            error = 4 * (0.95 * 0.05 / told) ** 0.5
            assert LOWEST - error <= within[case, quantile] / told <= HIGHEST + error, (case, quantile)
