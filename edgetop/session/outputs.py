"""Outputs that a session kept, as values: what a model answered, and a hash of its inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    scale: float = 0.0  # of a quantised one; 0: it is none
    zero_point: int = 0


@dataclass(frozen=True, slots=True)
class KeptOutputs:
    """Arrays are read when they are asked for: all of them can be 256 MiB."""

    outputs: tuple[Output, ...]  # in the model's order
    inputs: tuple[str, ...]  # a hash of what each inference was fed
    fed: str  # the same in words
    read: Callable[[int, int], Array]  # of an inference an output, as the model gives it

    def numbers(self, inference: int, place: int) -> Array:
        """An output, dequantised where it is quantised."""
        raw, of = self.read(inference, place), self.outputs[place]
        if of.scale:
            return (raw.astype(np.float64) - of.zero_point) * of.scale
        return raw.astype(np.float64)
