"""The model outputs that a session stored (`--keep-outputs`), with a hash of the inputs of each stored inference."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen

Array = npt.NDArray[Any]


@frozen
class Output:
    name: str
    scale: float = 0.0  # scale of a quantised output; 0 if it is not quantised
    zero_point: int = 0


@frozen
class KeptOutputs:
    """The stored outputs of a session.

    Each array is loaded from the disk on request, as all together can take 256 MiB.
    """

    outputs: tuple[Output, ...]  # in the model's order
    inputs: tuple[str, ...]  # hash of each inference's inputs
    fed: str  # description of the inputs
    read: Callable[[int, int], Array]  # takes an inference and an output number; returns the array as the model gave it
    left_out: tuple[str, ...] = ()  # names of outputs that are not stored, because they are no arrays of numbers

    def numbers(self, inference: int, place: int) -> Array:
        """Return one output of a stored inference as floats.

        Quantised values are converted with their scale and zero point. `inference` is the index of the stored
        inference, and `place` the index of the output, both from 0.
        """
        raw, output = self.read(inference, place), self.outputs[place]
        if output.scale:
            return (raw.astype(np.float64) - output.zero_point) * output.scale
        return raw.astype(np.float64)
