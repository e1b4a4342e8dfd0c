"""A measuring chip with its rails, whichever way the kernel shows it."""

from dataclasses import dataclass
from typing import Protocol


class Rail(Protocol):
    """One channel of a chip."""

    @property
    def label(self) -> str:
        """The rail's name in the device tree."""

    @property
    def source(self) -> str: ...

    def read(self) -> tuple[float, float, float]:
        """W, V, A. Raises OSError or ValueError."""


@dataclass(frozen=True, slots=True)
class Chip:
    """The rails of one chip. `window_s`: what it averages over; reading faster gives nothing new."""

    rails: tuple[Rail, ...]
    window_s: float
