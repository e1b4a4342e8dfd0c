"""The probability of a missed deadline in words, at the limits of what is shown."""

import pytest

from edgetop.analysis.miss_risk import MissRisk
from edgetop.wording.risk_words import between_misses_s, risk_words


@pytest.mark.parametrize(("per_inference", "is_shown"), [(0.91e-9, False), (1.09e-9, True)])
def test_an_estimate_far_below_its_upper_end_is_not_shown(per_inference: float, is_shown: bool) -> None:
    words = risk_words(MissRisk(per_inference, (0.0, 1e-6)), None)
    assert words.startswith("at most 1e-06") is not is_shown


@pytest.mark.parametrize(("seconds", "is_shown"), [(2.9e8, True), (3.5e8, False)])
def test_a_miss_in_more_than_ten_years_has_no_time(seconds: float, is_shown: bool) -> None:
    found = between_misses_s(MissRisk(1 / seconds, (0.0, 1e-6)), 1.0)
    assert found == (pytest.approx(seconds) if is_shown else None)
