"""Saved states of an analysis in memory.

After a jump in a replay, the analysis continues from the nearest saved state.
"""

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
    """Compressed copies of the state of an analysis. The key of each copy is the session time at which it was saved.

    The states are pickled in memory. Only this process unpickles them; no pickle is read from a file.
    """

    def __init__(self) -> None:
        # Arrays are compressed one by one; compressing all together would need two more copies.
        self._states: dict[int, tuple[Compressed, list[Compressed]]] = {}

    def save(self, at_ns: int, state: State) -> None:
        """Store a copy of `state`: the state of an analysis with all data up to the session time `at_ns`, in ns."""
        arrays: list[Compressed] = []
        rest = io.BytesIO()
        _Pickler(rest, 5, buffer_callback=lambda array: arrays.append(compress(array.raw()))).dump(state)
        self._states[at_ns] = compress(rest.getbuffer()), arrays
        release_memory()

    def load(self, at_ns: int) -> State:
        """Return a new copy of the state that was saved at the session time `at_ns`, in ns.

        Raises KeyError if no state was saved at this time.
        """
        state, arrays = self._states[at_ns]
        loaded: State = pickle.loads(decompress(state), buffers=map(decompress, arrays))  # noqa: S301
        return loaded


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # as in the class above, whose results have many forms
        """Tell pickle how to store `value`, which may be any object. Pickle calls this method.

        For a contiguous array of a built-in dtype, return a `(function, arguments)` pair that makes the array again.
        For any other value, return NotImplemented, and pickle stores it as usual. The pair contains only the name of
        the dtype. If a dtype object were pickled, `ufunc.at` would be slow with the loaded array in numpy 2.
        """
        if type(value) is np.ndarray and value.dtype.isbuiltin == 1 and value.flags.c_contiguous:
            return _array, (pickle.PickleBuffer(value.data), value.dtype.str, value.shape)
        return NotImplemented


def _array(data: bytearray, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape)
