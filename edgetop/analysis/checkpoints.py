"""Saved states of an analysis in memory. After a seek, it continues from one of them instead of from the beginning."""

import io
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.recording.compression import Compressed, compress, decompress
from edgetop.recording.rows import release_memory

State = Mapping[str, object]  # folds, by the attribute that holds them


class Checkpoints:
    """Compressed copies of the state of an analysis, by the session time at which each was saved.

    The states are pickled in memory and unpickled only by this process; no pickle is read from a file.
    """

    def __init__(self) -> None:
        # Arrays are compressed one by one; compressing all together would need two more copies.
        self._states: dict[int, tuple[Compressed, list[Compressed]]] = {}

    def save(self, at_ns: int, state: State) -> None:
        """Store a copy of a state. `at_ns`: the session time up to which the state is complete."""
        arrays: list[Compressed] = []
        rest = io.BytesIO()
        _Pickler(rest, 5, buffer_callback=lambda array: arrays.append(compress(array.raw()))).dump(state)
        self._states[at_ns] = compress(rest.getbuffer()), arrays
        release_memory()

    def load(self, at_ns: int) -> State:
        """Return a new copy of the state that was saved at this time. Raises KeyError if there is none."""
        state, arrays = self._states[at_ns]
        loaded: State = pickle.loads(decompress(state), buffers=map(decompress, arrays))  # noqa: S301
        return loaded


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # as in the class above, whose results have many forms
        """Return how to pickle a value. An array is pickled with the name of its dtype.

        With an unpickled dtype, `ufunc.at` is slow in numpy 2.
        """
        if type(value) is np.ndarray and value.dtype.isbuiltin == 1 and value.flags.c_contiguous:
            return _array, (pickle.PickleBuffer(value.data), value.dtype.str, value.shape)
        return NotImplemented


def _array(data: bytearray, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape)
