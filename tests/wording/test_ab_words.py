"""What an A/B comparison says: which of the two to use."""

import pytest

from edgetop.analysis.ab_figures import Ratio
from edgetop.wording.ab_words import choice_words, verdict_words


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (None, "more turns, to tell A and B apart"),
        (Ratio(1.01, (0.98, 1.04), "unknown", 60.0), "more turns, to tell A and B apart"),
        (Ratio(1.001, (0.998, 1.004), "same", None), "either: p50 is the same within 0.4 %"),
        (Ratio(1.08, (1.07, 1.09), "slower", None), "A (faster)"),
        (Ratio(0.92, (0.91, 0.93), "faster", None), "B (faster)"),
    ],
)
def test_the_faster_variant_is_named(ratio: Ratio | None, said: str) -> None:
    assert choice_words(ratio) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.99, 1.08, "not told apart"), (1.001, 1.155, "not certain"), (0.9, 0.999, "not certain")],
)
def test_an_interval_that_barely_leaves_out_no_difference_is_not_certain(low: float, high: float, said: str) -> None:
    assert verdict_words(Ratio(1.05, (low, high), "unknown", None)) == said
