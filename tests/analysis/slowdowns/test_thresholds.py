"""Each threshold of a slowdown, on both of its sides, by levels without noise or with a known one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from edgetop.analysis.slowdowns.baseline import find_baseline, partial_baseline
from edgetop.analysis.slowdowns.detector import Detector
from edgetop.analysis.slowdowns.levels import ENOUGH, NEPER, OF_FIVE, POINT, WINDOW, Ints, Noise, Points, Windows
from edgetop.session.seconds import NS

Shares = Sequence[float]  # of each second, how much slower than the baseline


def points_of(shares: Shares, apart_s: int = 1) -> Points:
    points = np.empty(len(shares), POINT)
    points["second"] = np.arange(len(shares)) * apart_s
    points["level"] = np.rint(np.log1p(shares) * NEPER)
    return points


def scattered(share: float, *pieces: tuple[int, float]) -> list[float]:
    """Each piece is (seconds, level), of which every other second is `share` above and every other below."""
    return [level + (share if second % 2 else -share) for seconds, level in pieces for second in range(seconds)]


def baseline_of(shares: Shares, apart_s: int = 1) -> tuple[tuple[int, int] | None, int]:
    """The span of the baseline, and the second from which on points are still needed."""
    baseline, wanted_s = find_baseline(points_of(shares, apart_s), len(shares) * apart_s)
    return baseline and (baseline.from_s, baseline.to_s), wanted_s


def test_a_measurement_of_five_seconds_has_a_baseline_and_one_of_four_has_none() -> None:
    assert partial_baseline(points_of([0.0] * 5)) is not None
    assert partial_baseline(points_of([0.0] * 4)) is None


def test_what_falls_by_four_percent_was_still_settling() -> None:
    """Less than that, but a steady fall all the same, is looked at again with the next second."""
    assert baseline_of([0.045] * 15 + [0.0] * 15) == (None, 15)
    assert baseline_of([0.035] * 15 + [0.0] * 15) == (None, 1)


@pytest.mark.parametrize(("fall", "found"), [(0.023, (0, 30)), (0.0275, None)])
def test_a_fall_by_two_and_a_half_percent_from_half_to_half_is_not_steady(fall: float, found: object) -> None:
    assert baseline_of(np.linspace(2 * fall, 0.0, 30).tolist())[0] == found


@pytest.mark.parametrize(("rise", "found"), [(0.045, (0, 30)), (0.057, (0, 15))])
def test_of_a_rise_by_twice_as_much_the_first_half_is_the_baseline(rise: float, found: object) -> None:
    assert baseline_of(np.linspace(0.0, 2 * rise, 30).tolist())[0] == found


@pytest.mark.parametrize(("scatter", "found"), [(0.0215, (0, 6)), (0.0228, None)])
def test_a_baseline_ends_before_a_rise_only_if_noise_does_not_explain_it(scatter: float, found: object) -> None:
    assert baseline_of(scattered(scatter, (6, 0.0), (6, 0.105)))[0] == found


@pytest.mark.parametrize(("apart_s", "found"), [(11, None), (13, (0, 118))])
def test_a_model_that_goes_on_settling_has_a_baseline_after_two_minutes(apart_s: int, found: object) -> None:
    assert baseline_of(np.linspace(0.6, 0.0, 10).tolist(), apart_s)[0] == found


@pytest.mark.parametrize(("fall", "found"), [(0.03, (0, 30)), (0.032, None)])
def test_a_fall_of_a_scattering_model_is_one_by_three_standard_errors(fall: float, found: object) -> None:
    assert baseline_of(scattered(0.03, (15, fall), (15, 0.0)))[0] == found


FEW = {
    "two of three agree, and four later ones": ([0.0, 0.065, 0.0, 0.137, 0.158, 0.142, 0.11], None),
    "three before a rise": ([0.02, 0.01, 0.0] + [0.12] * 12, None),
    "four before a rise": ([0.0, 0.02, 0.01, 0.03] + [0.12] * 12, (0, 9)),
}


@pytest.mark.parametrize("name", FEW)
def test_that_few_values_agree_does_not_say_that_the_model_scatters_little(name: str) -> None:
    shares, found = FEW[name]
    assert baseline_of(shares, apart_s=2)[0] == found


def windows_of(shares: Shares, width_s: int = 1) -> Windows:
    windows = np.empty(len(shares), WINDOW)
    windows["begin_s"] = np.arange(len(shares)) * width_s
    windows["end_s"] = windows["begin_s"] + width_s
    windows["level"] = np.rint(np.log1p(shares) * NEPER)
    return windows


def detected(shares: Shares, width_s: int = 1) -> Detector:
    """The detector after these windows, each of which is one point as well."""
    detector, points = Detector(), points_of(shares, width_s)
    detector.fold(windows_of(shares, width_s), points)
    return detector


def spans_of(detector: Detector) -> list[tuple[int, int | None]]:
    return [(span.start_s, span.end_s) for span in detector.spans]


def told_after(calm: Shares, slow: Shares, width_s: int = 1) -> int | None:
    """After how many windows of `slow` a slowdown is told; None: it never is."""
    return next((count for count in range(1, len(slow) + 1) if detected([*calm, *slow[:count]], width_s).open), None)


def correlated(seed: int, scatter: float, correlation: float = 0.75, seconds: int = 200) -> npt.NDArray[np.float64]:
    random, noise = np.random.default_rng(seed), [0.0] * seconds
    noise[0] = random.normal()
    for second in range(1, seconds):
        noise[second] = correlation * noise[second - 1] + (1 - correlation**2) ** 0.5 * random.normal()
    return scatter * np.array(noise)


# After a calm of so many seconds with so much scatter, how long a slowdown of this size lasts before it is told.
TOLD = {
    "eight and a half percent in quiet": (0.01, 31, 0.085, 6),
    "eight and a half percent after a minute is never sure": (0.01, 60, 0.085, None),
    "nine percent in quiet": (0.01, 60, 0.09, 8),
    "a little less in more quiet": (0.008, 60, 0.089, 6),
    "ten percent in a scatter of two is never sure": (0.02, 60, 0.1, None),
    "twelve percent in a scatter of two": (0.02, 60, 0.12, 22),
    "twelve percent in quiet": (0.01, 31, 0.12, 3),
    "thirty percent in a scatter of three": (0.03, 60, 0.3, 4),
    "half as slow again counts for no more than thirty percent": (0.02, 60, 0.5, 4),
    "twelve percent after seven seconds": (0.01, 7, 0.12, 5),
    "twelve percent after eight seconds": (0.01, 8, 0.12, 3),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_slowdown_is_told_once_noise_cannot_explain_it(name: str) -> None:
    scatter, calm_s, share, seconds = TOLD[name]
    assert told_after(scattered(scatter, (calm_s, 0.0)), scattered(scatter, (40, share))) == seconds


@pytest.mark.parametrize(("share", "found"), [(0.079, []), (0.081, [(60, None)])])
def test_a_slowdown_is_one_by_eight_percent(share: float, found: list[tuple[int, int | None]]) -> None:
    assert spans_of(detected([0.0] * 60 + [share] * 60)) == found


@pytest.mark.parametrize(("gap_s", "spans"), [(9, [(60, None)]), (10, [(60, 80), (90, None)])])
def test_an_interruption_of_ten_seconds_ends_a_slowdown(gap_s: int, spans: list[tuple[int, int | None]]) -> None:
    assert spans_of(detected([0.0] * 60 + [0.3] * 20 + [0.0] * gap_s + [0.3] * 20)) == spans


@pytest.mark.parametrize(("apart_s", "begins_s"), [(4, 120), (6, 198)])
def test_a_slowdown_begins_after_an_interruption_of_ten_seconds(apart_s: int, begins_s: int) -> None:
    """Two slow inferences, one that is surely not slow, and from then on slow ones."""
    (span,) = detected([0.0] * 30 + [0.6, 0.6, 0.0] + [0.6] * 12, apart_s).spans
    assert span.start_s == begins_s


@pytest.mark.parametrize(("rise_s", "begins_s"), [(58, 61), (62, 123)])
def test_a_rise_of_up_to_a_minute_belongs_to_the_slowdown(rise_s: int, begins_s: int) -> None:
    (span,) = detected([0.0] * 61 + [0.07] * rise_s + [0.15] * 10).spans
    assert (span.start_s, span.rise_s) == (61 + rise_s, begins_s)


@pytest.mark.parametrize(("level", "rise_s"), [(0.028, 71), (0.03, 61)])
def test_a_rise_begins_above_a_fifth_of_it(level: float, rise_s: int) -> None:
    (span,) = detected([0.0] * 61 + [level] * 10 + [0.15] * 10).spans
    assert span.rise_s == rise_s


def patterned(share: float, *pieces: tuple[int, float]) -> list[float]:
    """Each piece is (seconds, level), with a scatter of `share` that no median of five seconds shows."""
    seconds = [level for seconds, level in pieces for _ in range(seconds)]
    return [level + share * (-1, 1, 0, 1, -1)[place % 5] for place, level in enumerate(seconds)]


@pytest.mark.parametrize(("share", "windows"), [(0.0955, None), (0.0965, 3)])
def test_a_slowdown_exceeds_its_limit_by_the_error_of_the_baseline(share: float, windows: int | None) -> None:
    """By one and a half standard errors, here of 1 %: the burst scattered."""
    calm = [*patterned(0.03, (30, 0.0)), *[0.0] * 200]
    assert told_after(calm, [share] * 40) == windows


@pytest.mark.parametrize(("before", "start_s"), [(0.066, 70), (0.069, 65)])
def test_a_slowdown_begins_at_most_one_and_a_half_deviations_below_its_level(before: float, start_s: int) -> None:
    latency = [*patterned(0.024, (65, 0.0)), *[before] * 5, *patterned(0.024, (60, 0.12))]
    assert [span.start_s for span in detected(latency).spans] == [start_s]


@pytest.mark.parametrize(("after", "end_s"), [(0.064, 85), (0.066, None)])
def test_a_slowdown_goes_on_down_to_three_deviations_below_its_level(after: float, end_s: int | None) -> None:
    assert spans_of(detected([*patterned(0.016, (65, 0.0), (20, 0.12)), *[after] * 20])) == [(65, end_s)]


def test_noise_that_lasts_puts_off_the_certainty() -> None:
    shares = correlated(5, 0.025, 0.6, 240)
    shares[80:200] += 0.13
    (span,) = detected(shares).spans  # type: ignore[arg-type]
    assert (span.start_s, span.sure_s) == (80, 88)


def test_a_slowdown_is_compared_with_noise_until_its_sixtieth_window() -> None:
    ratios = [detected(scattered(0.02, (60, 0.0), (count, 0.2))).spans[0].ratio for count in (56, 60, 100)]
    assert ratios[0] < ratios[1] == ratios[2]


def test_the_last_six_windows_are_left_out_of_that() -> None:
    """A rise out of the slowdown may have begun in them."""
    calm, slow = scattered(0.02, (60, 0.0)), np.array(scattered(0.02, (20, 0.2)))
    higher = [np.where(np.arange(20) < 20 - count, slow, slow + 0.05) for count in (0, 6, 7)]
    plain, last_six, last_seven = (detected([*calm, *course]).spans[0].ratio for course in higher)
    assert plain == last_six != last_seven


@pytest.mark.parametrize(("seed", "is_noise"), [(24, True), (37, False)])
def test_what_was_more_likely_noise_is_noise_once_it_is_over(seed: int, is_noise: bool) -> None:
    """By a likelihood ratio of less than 5: then the windows of the rise are among those of the noise."""
    shares = correlated(seed, 0.03)
    shares[80:120] += 0.12
    detector = detected(shares)  # type: ignore[arg-type]
    (span,) = detector.spans
    assert (span.start_s, span.end_s) == (80, 120)
    assert (span.ratio < 5) is is_noise
    assert (len(detector.noise.levels) > 200 - 40) is is_noise


# Of a slow model or pace, a window is five inferences.


def sparse_spans(shares: Shares, apart_s: int = 3) -> list[tuple[int, int | None]]:
    """Begin and end of each slowdown, by the number of the inference."""
    spans = sparse_detector(points_of(shares, apart_s)).spans
    return [(span.start_s // apart_s, span.end_s and span.end_s // apart_s) for span in spans]


def sparse_detector(points: Points) -> Detector:
    """The detector after windows of five of these points."""
    points = points[: len(points) // ENOUGH * ENOUGH]
    windows = np.empty(len(points) // ENOUGH, WINDOW)
    windows["begin_s"] = points["second"][::ENOUGH]
    windows["end_s"] = points["second"][ENOUGH - 1 :: ENOUGH] + 1
    windows["level"] = np.sort(points["level"].reshape(-1, ENOUGH), axis=1)[:, ENOUGH // 2]
    detector = Detector()
    detector.fold(windows, points)
    return detector


@pytest.mark.parametrize(
    ("latency_s", "slow_at_s", "is_slow"),
    [
        (0.05, (80, 81, 81, 82, 82), False),  # A blip of two seconds may touch three.
        (0.05, (80, 81, 82, 83, 84, 85, 86), True),
        (0.99, (80, 81, 81, 82, 82), False),
        (1.01, (80, 81, 81, 82, 82), True),  # No blip reaches five calls that take this long.
    ],
)
def test_a_blip_of_a_model_that_is_seldom_called_is_none(
    latency_s: float, slow_at_s: Sequence[int], is_slow: bool
) -> None:
    seconds = [*range(80), *slow_at_s, *range(slow_at_s[-1] + 1, slow_at_s[-1] + 5)]
    points = np.empty(len(seconds), POINT)
    points["second"] = seconds
    shares = scattered(0.005, (80, 0.0), (len(slow_at_s), 0.9), (4, 0.0))
    points["level"] = np.rint((np.log(latency_s * NS) + np.log1p(shares)) * NEPER)
    assert bool(sparse_detector(points).spans) == is_slow


@pytest.mark.parametrize(("slow", "found"), [(4, []), (5, [(100, None)])])
def test_five_slow_inferences_are_a_slowdown(slow: int, found: list[tuple[int, int | None]]) -> None:
    assert sparse_spans([0.0] * 100 + [0.3] * slow + [0.0] * (5 - slow)) == found


@pytest.mark.parametrize(("scatter", "share", "found"), [(0.04, 0.2, [(59, 90), (95, None)]), (0.1, 0.5, [(59, None)])])
def test_five_fast_inferences_end_it_where_noise_does_not_explain_them(
    scatter: float, share: float, found: list[tuple[int, int | None]]
) -> None:
    assert sparse_spans(scattered(scatter, (60, 0.0), (30, share), (5, 0.0), (30, share))) == found


@pytest.mark.parametrize(("share", "slow", "found"), [(3.0, 5, []), (0.8, 10, [(59, None)])])
def test_a_window_counts_for_no_more_than_twice_as_slow(
    share: float, slow: int, found: list[tuple[int, int | None]]
) -> None:
    """Of a scatter of ten percent, one of four times as slow may be chance; two of nearly twice are none."""
    assert sparse_spans(scattered(0.1, (60, 0.0), (slow, share))) == found


@pytest.mark.parametrize(("width_s", "windows"), [(3, 7), (4, 5)])
def test_windows_of_four_seconds_are_no_blips(width_s: int, windows: int) -> None:
    """A shorter one counts for no more than thirty percent."""
    assert told_after(scattered(0.07, (20, 0.0)), scattered(0.07, (10, 0.8)), width_s) == windows


# The noise that all of that is compared with.


def levels_of(shares: Shares) -> Ints:
    return np.rint(np.asarray(shares) * NEPER).astype(np.int64)


def ratio_of(calm: Shares, rise: Shares) -> float:
    noise = Noise()
    noise.add(levels_of(calm))
    return noise.rise_ratio(levels_of([]), levels_of(rise))


def sigma_of(shares: Shares) -> float:
    noise = Noise()
    noise.add(levels_of(shares))
    return noise.sigma


def test_noise_is_estimated_at_every_thirty_second_window() -> None:
    assert sigma_of(scattered(0.02, (31, 0.0))) == sigma_of([0.0] * 320) == 0.003
    assert sigma_of(scattered(0.02, (32, 0.0))) == pytest.approx(0.04 * 1.4826 / 2**0.5, rel=1e-3)


@pytest.mark.parametrize("lasts", [5, 12])
def test_noise_that_lasts_five_or_twelve_windows_is_as_wide_as_that(lasts: int) -> None:
    """Windows in a row that share their noise count as one."""
    shares = [0.02 if window // lasts % 2 else -0.02 for window in range(320)][::-1]
    assert sigma_of(shares) == pytest.approx(0.04 * 1.4826 / 2**0.5 * lasts**0.5 / 1.2533, rel=1e-3)


@pytest.mark.parametrize(("windows", "is_known"), [(96, False), (128, True)])
def test_ten_blocks_show_noise_that_lasts_twelve_windows(windows: int, is_known: bool) -> None:
    shares = [0.02 if window // 12 % 2 else -0.02 for window in range(windows)][::-1]
    assert (sigma_of(shares) > 0.1) is is_known


def test_a_rise_is_compared_with_the_last_hundred_and_sixty_calm_windows() -> None:
    calm, rise, wild = scattered(0.01, (160, 0.0)), scattered(0.01, (20, 0.05)), [0.3, 0.3]
    assert ratio_of([*wild, *calm], rise) == ratio_of(calm, rise)
    assert ratio_of([*wild, *calm[1:]], rise) != ratio_of(calm, rise)


def test_three_calm_windows_are_enough_to_doubt_a_rise() -> None:
    assert ratio_of([0.0, 0.01], [0.1] * 10) == 1_000
    assert ratio_of([0.0, 0.01, 0.0], [0.1] * 10) < 1_000


def test_an_outlier_counts_as_three_deviations() -> None:
    ratios = [
        ratio_of([deviations * 0.01 * 1.4826, *scattered(0.01, (39, 0.0))], scattered(0.01, (20, 0.05)))
        for deviations in (2.9, 3.1, 5.0)
    ]
    assert ratios[0] != ratios[1] == ratios[2]


@pytest.mark.parametrize(("scatter", "ratio"), [(0.0, 4.3), (0.01, 1.6)])
def test_four_windows_are_no_proof_of_one_percent(scatter: float, ratio: float) -> None:
    """Not even without noise: a latency is good to a third of a percent, and neighbours may share what it is off by.

    Noise that neighbours do not share is not averaged out.
    """
    rise = scattered(scatter, (4, 0.01))
    assert ratio_of(scattered(scatter, (40, 0.0)), rise) == pytest.approx(ratio, abs=0.05)


@pytest.mark.parametrize(("scatters", "late_s"), [(3.35, 0), (3.4, 3)])
def test_an_inference_far_below_the_level_leaves_the_beginning_open(scatters: float, late_s: int) -> None:
    """In standard deviations of one inference below the level, of ten in all."""
    detector = Detector(noise=Noise(np.empty(0, np.int64), 0, OF_FIVE * 0.02))
    level = 0.2 * NEPER
    points = np.array([(10, level - scatters * 0.02 * NEPER), (13, level), (16, level)], POINT)
    assert detector._late(points, level, 0.0) == late_s


def test_an_outlier_before_a_slowdown_leaves_its_beginning_open() -> None:
    detector = Detector(noise=Noise(np.empty(0, np.int64), 0, OF_FIVE * 0.02))
    points = np.array([(second, share * NEPER) for second, share in ((10, 2.0), (24, 0.2), (26, 0.2))], POINT)
    assert detector._late(points, 0.2 * NEPER, 0.0) == 14
