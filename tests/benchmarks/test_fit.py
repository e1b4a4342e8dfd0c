"""How often the interval of a prediction from desk to device holds the truth. `edgetop help fit`."""

import numpy as np
import pytest

from edgetop.comparison.device_fit import Kind, Pair, line

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

TRIALS, FIRST_SEED = 2000, 700_000  # none of which was looked at when the method was chosen
KIND = Kind("onnxruntime", "onnxruntime", "float32")
LAWS = {
    "normal": lambda random, count: random.normal(0, 1, count),
    "heavy tails": lambda random, count: random.standard_t(3, count) / np.sqrt(3),
    "skewed": lambda random, count: random.exponential(1, count) - 1,
}


def is_held(random: np.random.Generator, law: str, count: int, scatter: float) -> bool:
    """Models over a factor of 50, about a line in logarithms by `scatter`; both sides measured to 1 %."""
    true = random.uniform(0, np.log(50), count + 1)
    true[count] = random.uniform(true[:count].min(), true[:count].max())
    here = true + random.normal(0, 0.01, count + 1)
    here[count] = np.clip(here[count], here[:count].min(), here[:count].max())
    there = 1.2 + 0.95 * true + scatter * LAWS[law](random, count + 1) + random.normal(0, 0.01, count + 1)
    x, y = np.exp(here), np.exp(there)
    found = line([Pair(f"{k}", f"{k}", KIND, float(x[k]), float(y[k])) for k in range(count)])
    low, high = found.interval(float(x[count]))
    return bool(low <= y[count] <= high)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scatter", [0.03, 0.15])
def test_the_interval_holds_the_truth(law: str, scatter: float, capsys: pytest.CaptureFixture[str]) -> None:
    for count in (3, 4, 5, 8, 15):
        random = np.random.default_rng([FIRST_SEED, count])
        held = np.mean([is_held(random, law, count, scatter) for _ in range(TRIALS)])
        with capsys.disabled():
            print(f"{law:<12} scatter {scatter:.0%}  {count:>2} models  {held:.3f}")
        assert held >= (0.93 if law == "normal" else 0.91)
