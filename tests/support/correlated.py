"""Latencies whose true percentiles are known, and which remember: generated with a seed."""

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MEDIAN_MS = 10.0


def normal(random: np.random.Generator, count: int, kept: float) -> Floats:
    """AR(1) of standard normal values, each of which keeps so much of the one before."""
    noise = random.normal(0, np.sqrt(1 - kept**2), count)
    noise[0] = random.normal()
    if kept < 1e-9:
        return noise
    # Summed up in pieces that are short enough for the powers of `kept` to stay far from zero.
    piece = min(max(int(-20 / np.log(kept)), 1), count)
    powers, last = kept ** np.arange(1, piece + 1), 0.0
    for begin in range(0, count, piece):
        part = noise[begin : begin + piece]
        scale = powers[: len(part)]
        part[:] = scale * (last + np.cumsum(part / scale))
        last = float(part[-1])
    return noise


def lognormal(level: Floats) -> Floats:
    return np.asarray(MEDIAN_MS * np.exp(0.2 * level))


def heavy(level: Floats) -> Floats:
    """Of a million, the slowest takes some twenty times the median: heavier than any Pareto tail."""
    return np.asarray(MEDIAN_MS * np.exp(0.2 * np.sinh(0.8 * level)))


SHAPES: dict[str, Callable[[Floats], Floats]] = {"lognormal": lognormal, "heavy": heavy}


def latencies_ms(seed: int, seconds: int, rate_hz: int, memory_s: float, shape: str) -> Floats:
    """At an even rate; what holds for an inference holds for about `memory_s`, 0: independent."""
    kept = float(np.exp(-1 / (memory_s * rate_hz))) if memory_s else 0.0
    return SHAPES[shape](normal(np.random.default_rng(seed), seconds * rate_hz, kept))


def truth_ms(quantile: float, shape: str) -> float:
    return float(SHAPES[shape](np.array([NormalDist().inv_cdf(quantile)]))[0])
