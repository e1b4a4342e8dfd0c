"""The share of other models' calls around the calls of one model, at the limits of what is looked at."""

from collections.abc import Sequence

import numpy as np
import pytest

from edgetop.analysis.slowdowns.mix import Mix
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from tests.support.sessions import MS, make_inferences


def share_at(second: int, own_s: Sequence[int], others_s: Sequence[int]) -> float:
    """Return the share of other calls at a second. Each model has a call of 10 ms in the seconds that are given."""
    own = make_inferences(np.array(own_s) * NS, 10 * MS)
    others = make_inferences(np.array(others_s) * NS + NS // 2, 10 * MS, stream=1)
    runs = np.concatenate([own, others])
    runs = runs[np.argsort(runs["t_ns"], kind="stable")]
    aggregator, mix = SecondAggregator(split_by="stream"), Mix()
    mix.fold(concatenate([aggregator.add(runs), aggregator.close()]))
    return float(mix.shares(0, second, second + 1)[0])


@pytest.mark.parametrize(("second", "share"), [(26, 7 / 15), (27, 8 / 16), (28, 8 / 16)])
def test_the_share_is_that_around_the_last_eight_calls(second: int, share: float) -> None:
    assert share_at(second, range(40), range(20, 40)) == pytest.approx(share)


@pytest.mark.parametrize(("second", "is_known"), [(58, True), (62, False)])
def test_calls_of_more_than_a_minute_ago_have_no_share(second: int, is_known: bool) -> None:
    assert np.isfinite(share_at(second, range(8), range(100))) == is_known
