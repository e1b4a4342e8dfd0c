"""The risk of a missed deadline, against laws whose risk is known."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgetop.analysis.miss_risk import MissRisk, miss_risk
from edgetop.session import histogram

MS = 1_000_000
Latencies = npt.NDArray[np.float64]


def risk_of(latency_ms: Latencies, deadline_ms: float, blocks: int = 60, **more: Any) -> MissRisk:
    parts = np.array_split((latency_ms * MS).astype(np.int64), blocks)
    counts = np.array([histogram.count_buckets(part) for part in parts])
    misses = int(np.count_nonzero(latency_ms > deadline_ms))
    return miss_risk(counts, int(deadline_ms * MS), misses, **{"is_slowed": False, **more})


def exponential(count: int, seed: int = 1) -> Latencies:
    return 10 + 0.5 * np.random.default_rng(seed).exponential(size=count)


def above(risk: float) -> float:
    """The deadline in ms that an inference of `exponential` misses with this probability."""
    return 10 - 0.5 * float(np.log(risk))


@pytest.mark.parametrize("risk", [1e-4, 1e-5])
def test_a_miss_that_the_session_has_hardly_seen_is_estimated(risk: float) -> None:
    found = risk_of(exponential(50_000), above(risk))
    assert found.per_inference == pytest.approx(risk, rel=1)
    assert found.ci95 is not None
    assert found.ci95[0] <= risk <= found.ci95[1]
    assert not found.is_counted


def test_an_interval_of_a_longer_session_is_narrower() -> None:
    ends = [risk_of(exponential(count), above(1e-4)).ci95 or (0, 0) for count in (8_000, 100_000)]
    assert ends[1][1] - ends[1][0] < (ends[0][1] - ends[0][0]) / 2


@pytest.mark.parametrize(("misses", "is_counted"), [(19, False), (20, True)])
def test_twenty_misses_are_counted(misses: int, is_counted: bool) -> None:
    latency = np.sort(exponential(20_000))
    deadline_ms = (latency[-misses - 1] + latency[-misses]) / 2
    latency = np.random.default_rng(2).permutation(np.minimum(latency, deadline_ms * 0.98))
    latency[:: 20_000 // misses][:misses] = deadline_ms * 1.05
    assert risk_of(latency, deadline_ms).is_counted == is_counted


def test_counted_misses_have_their_share_and_its_interval() -> None:
    found = risk_of(exponential(50_000), above(2e-3))
    assert found.per_inference == pytest.approx(2e-3, rel=0.2)
    assert found.ci95 is not None
    assert found.ci95[0] < 2e-3 < found.ci95[1]


@pytest.mark.parametrize(("count", "refused"), [(4_900, "few-inferences"), (5_100, "")])
def test_too_few_inferences_are_refused_with_how_many_it_takes(count: int, refused: str) -> None:
    found = risk_of(exponential(count), above(1e-5))
    assert (found.refused, found.wanted) == (refused, 5_000 if refused else None)


def test_a_session_of_seconds_is_refused() -> None:
    assert risk_of(exponential(50_000), above(1e-5), blocks=9).refused == "few-inferences"
    assert risk_of(exponential(50_000), above(1e-5), blocks=10).refused == ""


def test_a_model_that_slowed_is_refused() -> None:
    assert risk_of(exponential(50_000), above(1e-5), is_slowed=True).refused == "slowdown"


@pytest.mark.parametrize(("slower_by_ms", "refused"), [(0.15, ""), (0.6, "drift")])
@pytest.mark.parametrize("risk", [1e-5, 1e-2])
def test_a_session_whose_second_half_is_slower_is_refused(slower_by_ms: float, refused: str, risk: float) -> None:
    latency = exponential(50_000)
    latency[25_000:] += slower_by_ms
    assert risk_of(latency, above(risk) + slower_by_ms).refused == refused


def test_two_modes_are_refused() -> None:
    random = np.random.default_rng(3)
    latency = exponential(50_000)
    latency[random.random(50_000) < 0.0015] = 30.0
    latency *= random.normal(1, 0.02, 50_000)
    assert risk_of(latency, 60.0).refused == "no-law"


def test_slow_spells_widen_the_interval_and_few_of_them_are_refused() -> None:
    random = np.random.default_rng(4)
    latency = 10 + 0.2 * random.exponential(size=60_000)
    spells = random.permutation(np.repeat(np.arange(60) < 3, 1)).repeat(1_000)
    latency[spells] += random.exponential(size=3_000)
    assert risk_of(latency, 20.0).refused in ("few-independent", "drift")


def test_a_bounded_law_is_not_believed_far_beyond_the_data() -> None:
    """These end at 20 ms. That nothing is ever slower does not follow from 50,000 of them."""
    latency = 10 + 10 * np.random.default_rng(5).beta(1, 2, 50_000)
    near, far = (risk_of(latency, deadline_ms) for deadline_ms in (20.5, 25))
    assert near.per_inference == far.per_inference == 0.0
    assert near.ci95 is not None
    assert far.ci95 is not None
    assert near.ci95[1] > 1e-4 > far.ci95[1] > 1e-9


@pytest.mark.parametrize(("deadline_ms", "is_believed"), [(22.2, True), (22.24, False)])
def test_a_bounded_law_is_believed_to_a_hundredth_of_a_miss(deadline_ms: float, is_believed: bool) -> None:
    """From there on, the upper end is that of an exponential law, twice as far away."""
    latency = 10 + 2 * np.random.default_rng(5).gamma(4, size=50_000)
    latency = np.minimum(latency, 10 + 5 * np.random.default_rng(8).weibull(3, size=50_000))
    found = risk_of(latency, deadline_ms)
    assert found.per_inference is not None
    assert found.ci95 is not None
    assert 0.008 < found.per_inference * 50_000 < 0.0125
    assert (found.ci95[1] < 4e-6) == is_believed


@pytest.mark.parametrize(("seed", "estimate"), [(2, 6.340e-6), (7, 4.872e-6)])
def test_what_few_inferences_leave_open_is_that_of_usual_laws(seed: int, estimate: float) -> None:
    """Of 120 inferences, the shape is known to 0.09, which is a factor of fifteen at this deadline."""
    found = risk_of(exponential(6_000, seed), above(1e-5))
    assert found.per_inference == pytest.approx(estimate, rel=0.01)
    assert found.ci95 is not None
    assert found.ci95[0] < 1e-5 < found.ci95[1]


def test_many_inferences_decide_the_shape_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    latency = exponential(400_000)
    before = risk_of(latency, above(1e-5)).per_inference
    monkeypatch.setattr("edgetop.analysis.miss_risk.USUAL_SHAPE", 0.2)
    after = risk_of(latency, above(1e-5)).per_inference
    assert before is not None
    assert after == pytest.approx(before, rel=0.25)


def test_a_sample_that_fits_its_own_law_badly_is_refused() -> None:
    assert [risk_of(exponential(6_000, seed), 20.0).refused for seed in (40, 103)] == ["", "no-law"]


def test_the_same_session_has_the_same_risk() -> None:
    assert risk_of(exponential(20_000), above(1e-5)) == risk_of(exponential(20_000), above(1e-5))


BODY_MS = 9.99


def spread(slow: list[int], per_block: int, law: Latencies) -> Latencies:
    """Return blocks of latencies: in each, `slow` of them are of the law, and the rest take 9.99 ms."""
    latency, taken = np.full((len(slow), per_block), BODY_MS), 0
    for block, count in enumerate(slow):
        latency[block, :count] = law[taken : taken + count]
        taken += count
    return latency.ravel()


@pytest.mark.parametrize(("buckets", "refused"), [(7, "no-law"), (8, "")])
def test_a_law_needs_eight_buckets(buckets: int, refused: str) -> None:
    law = (histogram.lower_edge_ns(1_780 + np.arange(buckets)) + 20_000) / MS  # The first buckets above BODY_MS.
    law = np.tile(law, 1_200 // buckets + 1)[:1_200]
    law = np.random.default_rng(7).permutation(law)
    assert risk_of(spread([20] * 60, 1_000, law), 20.0).refused == refused


@pytest.mark.parametrize(("spells", "refused"), [(17, "few-independent"), (18, "")])
def test_slow_inferences_must_come_in_enough_groups(spells: int, refused: str) -> None:
    slow = np.zeros(60, int)
    slow[np.linspace(0, 59, spells).astype(int)] = 1_200 // spells
    assert risk_of(spread(slow.tolist(), 1_000, exponential(1_200)), 20.0).refused == refused


@pytest.mark.parametrize(
    ("per_block", "halves", "refused"),
    [(1_000, (25, 15), "drift"), (1_000, (23, 17), ""), (120, (67, 33), "drift"), (120, (64, 36), "")],
)
def test_a_difference_of_halves_must_be_large_and_sure(per_block: int, halves: tuple[int, int], refused: str) -> None:
    if per_block == 1_000:
        slow = np.repeat(halves, 30)
    else:
        slow = np.concatenate([np.diff(np.rint(np.linspace(0, half, 31))).astype(int) for half in halves])
    latency = spread(slow.tolist(), per_block, exponential(int(slow.sum())))
    assert risk_of(latency, 20.0).refused == refused
