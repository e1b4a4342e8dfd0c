"""Compressed states of an analysis at some moments of a recording, so that a seek need not start at the beginning."""

import io
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgetop.recording.by_time import Moment
from edgetop.recording.rows import release_memory

CODEC = "zstd"  # 20 MiB in a session of forty sensors; packed 4, and unpacked in a few hundredths of a second

Parts = Mapping[str, object]
Packed = tuple[int, bytes]  # the original size, and the compressed data


class Checkpoints:
    """The states are pickled in memory and read by this process alone: nothing comes from a file."""

    def __init__(self) -> None:
        # In the order of time. Arrays are packed one by one: packing all together would need two more copies.
        self._states: list[tuple[Moment, Packed, list[Packed]]] = []

    def save(self, moment: Moment, parts: Parts) -> None:
        """Store a copy of the present state, at a moment later than all before."""
        arrays: list[Packed] = []
        rest = io.BytesIO()
        _Pickler(rest, 5, buffer_callback=lambda array: arrays.append(_packed(array.raw()))).dump(parts)
        self._states.append((moment, _packed(rest.getbuffer()), arrays))
        release_memory()

    def before(self, t_ns: int) -> tuple[Moment, Parts] | None:
        """The last state up to that time, as a copy."""
        for moment, parts, arrays in reversed(self._states):
            if moment.t_ns <= t_ns:
                return moment, pickle.loads(_unpacked(parts), buffers=map(_unpacked, arrays))  # noqa: S301
        return None


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Pickle arrays of numbers by name of their dtype: with a dtype of its own `ufunc.at` is slow in numpy 2."""
        if type(value) is np.ndarray and value.dtype.isbuiltin == 1 and value.flags.c_contiguous:
            return _array, (pickle.PickleBuffer(value.data), value.dtype.str, value.shape)
        return NotImplemented


def _array(data: bytearray, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape)


def _packed(data: bytes | memoryview) -> Packed:
    return len(data), pa.compress(data, CODEC, asbytes=True)


def _unpacked(packed: Packed) -> bytearray:
    """A bytearray, since arrays over it are written to."""
    return bytearray(pa.decompress(packed[1], packed[0], CODEC))
