"""Fast power traces of sessions whose waveform, offset and drift are known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
NS = 1e9


@dataclass
class Traced:
    """A session and its trace. Times in s, power in W; session time = offset + (1 + drift) x time of the log."""

    seed: int
    latency: float = 0.01
    count: int = 3000
    jitter: float = 0.03
    period: float | None = None  # None: back to back
    rate: float = 10_000.0
    offset: float = 3.217
    drift: float = 0.0
    noise: float = 0.2
    idle: float = 2.0
    shares: Sequence[float] = (0.2, 0.5, 0.3)
    watts: Sequence[float] = (4.0, 8.0, 5.0)
    rest: float = 2.0  # before the first inference, and after the last

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.lengths_s = self.latency * self.random.lognormal(0, self.jitter, self.count)
        gap = 20e-6
        starts = (
            np.arange(self.count) * self.period
            if self.period
            else np.concatenate([[0], np.cumsum(self.lengths_s + gap)[:-1]])
        )
        self.starts_s = starts - starts[0] + self.rest + self.offset
        self.starts = (self.starts_s * NS).astype(np.int64)
        self.lengths = (self.lengths_s * NS).astype(np.int64)
        self.borders = np.concatenate([[0], np.cumsum(self.shares)])

    def power(self, session_s: Floats) -> Floats:
        place = np.searchsorted(self.starts_s, session_s, side="right") - 1
        inside = np.maximum(place, 0)
        phase = (session_s - self.starts_s[inside]) / self.lengths_s[inside]
        runs = (place >= 0) & (phase < 1)
        row = np.clip(np.searchsorted(self.borders, phase, side="right") - 1, 0, len(self.watts) - 1)
        return np.where(runs, np.asarray(self.watts)[row], self.idle)

    def pieces(self, at_once: int = 50_000) -> Iterator[tuple[Floats, Floats]]:
        """The samples in pieces: times of the log in s, and W."""
        length = (float(self.starts_s[-1] + self.lengths_s[-1]) + self.rest - self.offset) / (1 + self.drift)
        total = int(length * self.rate)
        for begin in range(0, total, at_once):
            t_s = np.arange(begin, min(begin + at_once, total)) / self.rate
            watts = self.power(self.offset + (1 + self.drift) * t_s)
            yield t_s, watts + self.random.normal(0, self.noise, len(t_s))

    def beside(self, other: "Traced", gap: float = 3.0, at_once: int = 50_000) -> Iterator[tuple[Floats, Floats]]:
        """The samples of a log that holds this session and then another one, with its own clock and power.

        Times are those of the log, so `offset` of this session still holds. `gap`: s between the two.
        """
        last_s = 0.0
        for t_s, watts in self.pieces(at_once):
            last_s = float(t_s[-1])
            yield t_s, watts
        for t_s, watts in other.pieces(at_once):
            yield t_s + last_s + gap, watts

    def after(self, other: "Traced", gap: float = 3.0) -> tuple[float, Iterator[tuple[Floats, Floats]]]:
        """The offset of this session in a log that holds another one before it, and the samples of this log."""
        last_s = max(float(t_s[-1]) for t_s, _ in other.pieces())
        other.random = np.random.default_rng(other.seed + 1000)
        return self.offset - last_s - gap, other.beside(self, gap)

    @property
    def true_mj(self) -> float:
        """Energy of one inference."""
        return float(self.lengths_s.mean() * np.dot(self.shares, self.watts)) * 1e3
