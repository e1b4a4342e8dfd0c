"""What the text outputs of tools have in common: figures of one run, which must not contradict each other."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping

from edgetop.imports.measured import MAX_COUNT, MAX_NS
from edgetop.session.events import JsonValue

NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?)"
ORDER = ("min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")  # none of them is above a later one
MAX_PER_SECOND = 1e12  # trtexec counts a batch as so many


def number(text: str, most: float = 1e15) -> float:
    """Raises ValueError where it is not finite, negative or more than `most`."""
    value = float(text)
    if not (math.isfinite(value) and 0 <= value <= most):
        raise ValueError(f"{text[:40]} is no figure of such a run")
    return value


def time_ms(text: str, scale: float = 1.0) -> float:
    """A time in ms; `scale`: ms in its unit."""
    return number(text, MAX_NS / 1e6 / scale) * scale


def time_ns(text: str, scale: float = 1.0) -> int:
    """The same in ns."""
    return round(time_ms(text, scale) * 1e6)


def count(text: str) -> int:
    return round(number(text, MAX_COUNT))


def found(pattern: "re.Pattern[str]", text: str) -> str | None:
    """Return the first group of the first match."""
    match = pattern.search(text)
    return match[1] if match else None


def one_run(marks: Iterable[str], what: str) -> None:
    """`marks`: what stands once in the output of a run. Raises ValueError."""
    runs = len(list(marks))
    if runs > 1:
        raise ValueError(f"it holds {runs} runs of {what}: keep one in a file")


def possible(figures: Mapping[str, JsonValue]) -> None:
    """Raises ValueError where the figures of a run contradict each other."""
    times = [(key, value) for key in ORDER if isinstance(value := figures.get(key), float)]
    for (low, below), (high, above) in itertools.pairwise(times):
        if below > above * (1 + 1e-4):  # they are printed with six digits
            raise ValueError(f"it cannot be that {low} is {below:g} and {high} is {above:g}")
    mean, least, most = (figures.get(key) for key in ("mean_ms", "min_ms", "max_ms"))
    if not (isinstance(mean, float) and isinstance(least, float) and isinstance(most, float)):
        return
    if not least * (1 - 1e-4) <= mean <= most * (1 + 1e-4):
        raise ValueError(f"it cannot be that mean_ms is {mean:g} between {least:g} and {most:g}")
