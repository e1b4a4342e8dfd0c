"""The scatter of windows: the same however many come at once, and whoever asks for it when."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgetop.analysis.slowdowns.detector import CERTAIN
from edgetop.analysis.slowdowns.noise import EVERY, LEAST, MAX_LEVELS, SURE, Noise, _estimate
from edgetop.analysis.slowdowns.serialization import fork
from tests.support.correlated import normal

LEVELS = np.random.default_rng(0).normal(0, 20_000, 3 * MAX_LEVELS).astype(np.int64)


@given(sizes=st.lists(st.integers(0, 200), max_size=12), asks=st.booleans())
def test_it_makes_no_difference_how_many_windows_come_at_once(sizes: list[int], asks: bool) -> None:
    found, done = Noise(), 0
    for size in sizes:
        found.add(LEVELS[done : done + size])
        done = min(done + size, len(LEVELS))
        if asks:
            assert found.sigma >= LEAST
    estimated = done // EVERY * EVERY
    expected = max(LEAST, _estimate(LEVELS[max(0, estimated - MAX_LEVELS) : estimated])) if estimated else LEAST
    assert fork(found).sigma == found.sigma == expected
    assert found.since == done - estimated
    assert found.levels.tolist() == LEVELS[max(0, done - MAX_LEVELS) : done].tolist()


def test_a_step_is_certain_and_correlated_noise_is_not() -> None:
    """What was called certain before, a mean of 30 levels far over that of those before, chance makes in such noise."""
    none, by_chance, of_steps = np.empty(0, np.int64), [], []
    for seed in range(300):
        levels = (60_000 * normal(np.random.default_rng(seed), 180, 0.9)).astype(np.int64)
        noise = Noise()
        noise.add(levels[:150])
        by_chance.append(noise.rise_ratio(none, levels[150:]))
        of_steps.append(noise.rise_ratio(none, levels[150:] + 500_000))
    assert max(by_chance) < CERTAIN < min(of_steps)
    assert Noise().rise_ratio(none, LEVELS[:9]) == SURE


def test_what_is_dropped_does_not_enter_the_comparison() -> None:
    noise, rise = Noise(), LEVELS[:20] + 100_000
    noise.add(np.concatenate([LEVELS[20:120], rise[:5]]))
    polluted = noise.rise_ratio(LEVELS[:0], rise)
    noise.drop(5)
    assert noise.rise_ratio(LEVELS[:0], rise) > polluted > 0
