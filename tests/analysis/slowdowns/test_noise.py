"""The scatter of windows: the same however many come at once, and whoever asks for it when."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgetop.analysis.slowdowns.noise import EVERY, KEPT, LEAST, Noise, _estimate

LEVELS = np.random.default_rng(0).normal(0, 20_000, 3 * KEPT).astype(np.int64)


@given(sizes=st.lists(st.integers(0, 200), max_size=12), asks=st.booleans())
def test_it_makes_no_difference_how_many_windows_come_at_once(sizes: list[int], asks: bool) -> None:
    found, done = Noise(), 0
    for size in sizes:
        found.add(LEVELS[done : done + size])
        done = min(done + size, len(LEVELS))
        if asks:
            assert found.sigma >= LEAST
    estimated = done // EVERY * EVERY
    expected = max(LEAST, _estimate(LEVELS[max(0, estimated - KEPT) : estimated])) if estimated else LEAST
    assert found.copy().sigma == found.sigma == expected
    assert found.since == done - estimated
    assert found.levels.tolist() == LEVELS[max(0, done - KEPT) : done].tolist()
