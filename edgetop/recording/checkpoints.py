"""What an analysis knew at a few moments of a recording, small: one that goes back need not begin at its beginning."""

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgetop.recording.by_time import Moment
from edgetop.recording.rows import release_memory

CODEC = "zstd"  # 20 MiB in a session of forty sensors; packed 4, and unpacked in a few hundredths of a second

Parts = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Packed:
    size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Kept:
    moment: Moment
    parts: _Packed
    arrays: tuple[_Packed, ...]  # one by one: of all together, two more copies would be made on the way


class Checkpoints:
    """Pickled in memory and by this process alone: nothing of it is ever read from a file."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []  # in the order of their times

    def save(self, moment: Moment, parts: Parts) -> None:
        """A copy of how they are now, at a moment later than all before."""
        arrays: list[_Packed] = []
        rest = io.BytesIO()
        _Pickler(rest, 5, buffer_callback=lambda array: arrays.append(_packed(array.raw()))).dump(parts)
        self._kept.append(_Kept(moment, _packed(rest.getbuffer()), tuple(arrays)))
        release_memory()

    def before(self, t_ns: int) -> tuple[Moment, Parts] | None:
        """The last one up to there, as a copy of its own."""
        for kept in reversed(self._kept):
            if kept.moment.t_ns <= t_ns:
                return kept.moment, pickle.loads(_unpacked(kept.parts), buffers=map(_unpacked, kept.arrays))  # noqa: S301
        return None


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Of numbers. Each array would else come with a dtype of its own, with which `ufunc.at` is slow in numpy 2."""
        if type(value) is np.ndarray and value.dtype.isbuiltin == 1 and value.flags.c_contiguous:
            return _array, (pickle.PickleBuffer(value.data), value.dtype.str, value.shape)
        return NotImplemented


def _array(data: bytearray, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape)


def _packed(data: bytes | memoryview) -> _Packed:
    return _Packed(len(data), pa.compress(data, CODEC, asbytes=True))


def _unpacked(packed: _Packed) -> bytearray:
    """Which an array may change."""
    return bytearray(pa.decompress(packed.data, packed.size, CODEC))
