"""The tensors of a model, and arrays that are read or made for them."""

from __future__ import annotations

import io
import os
import re
import zipfile
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from .engine_error import EngineError, one_line
from .images import is_image
from .literals import values_of
from .small_types import SmallType, small_type_of, to_bits
from .tensor_files import SUFFIX, data_sets, dtype_words, file_of_input, read_tensor

Dim = Union[int, str, None]
Shapes = Dict[str, List[int]]
WIDE_IDS = 100  # random integers of 16 bits and more are below this, so that they can be the index of a word or a class
TEXT = np.dtype(object)  # dtype of an input of strings
# How ml_dtypes describes float8_e5m2 in the header of an .npy file. NumPy refuses to read it (numpy.lib.format).
_E5M2, _HEADER_BYTES = re.compile(rb"'descr': '[<>=|]f1'"), 10_000


class Tensor:
    """One input of a model: its name, shape and element type, as the model declares them.

    Unknown dimensions of the shape are strings, None or 0.
    """

    def __init__(
        self,
        name: str,
        shape: Sequence[Dim],
        dtype: Any,
        *,
        resizable: bool = False,
        quantisation: Tuple[float, int] = (0.0, 0),
        small: Optional[SmallType] = None,
    ) -> None:
        """Declare an input with its name, shape and element type.

        `small` is the element type if NumPy lacks that type. The input's arrays then hold the bits of the elements as
        integers, and `dtype` is the type of these integers.

        `resizable` is set if the runtime can change even the dimensions that the model fixes. `quantisation` is (scale,
        zero point). The scale is 0 if the input is not quantised, or if that is unknown.
        """
        self.name = name
        self.shape = list(shape)
        self.dtype = np.dtype(dtype)
        self.resizable = resizable
        self.quantisation = quantisation
        self.small = small
        self.place = 0  # number of the input in the model, from 0
        self.images: Dict[str, Any] = {}  # options of pictures (images.py)
        self.ids_below = WIDE_IDS  # an adapter lowers it if the values of the input index a shorter table

    @property
    def has_ids(self) -> bool:
        """Whether values may be ids, such as the numbers of words or classes: true for integers of 16 bits or more."""
        return self.dtype.kind in "iu" and self.dtype.itemsize > 1 and self.small is None

    def accepts(self, position: int, size: int) -> bool:
        dim = self.shape[position]
        return self.resizable or not is_known(dim) or dim == size

    def fits(self, shape: Sequence[int]) -> bool:
        return len(shape) == len(self.shape) and all(self.accepts(i, size) for i, size in enumerate(shape))

    def may_vary(self, shape: Sequence[int], first: Sequence[int]) -> bool:
        """Whether `shape` differs from `first` only in dimensions that the model leaves open.

        `first` is the shape of the first inference.
        """
        pairs = zip(shape, first, self.shape)
        return len(shape) == len(first) and all(one == other or not is_known(dim) for one, other, dim in pairs)

    def describe(self) -> Dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype_name}

    @property
    def dtype_name(self) -> str:
        if self.small is not None:
            return self.small.name
        return "string" if self.dtype == TEXT else str(self.dtype.name)


def is_known(dim: Dim) -> bool:
    """Whether a dimension that a model declares is a size above 0. Some exporters write 0 for an unknown batch."""
    return isinstance(dim, int) and dim > 0


def format_shape(shape: Sequence[Dim]) -> str:
    return "[" + ",".join("?" if dim is None or dim == -1 else str(dim) for dim in shape) + "]"


def filled_with(tensor: Tensor, shape: List[int], source: str) -> Any:
    """Return an array of the numbers in `source`, such as "1,2,3". A single number fills the whole array.

    `tensor` is the input for which the array is made, and `shape` the array's shape. Raises EngineError("input") if the
    numbers do not fit the shape or the input's type.
    """
    values, dtype = values_of(source), tensor.dtype
    size = int(np.prod(shape))
    if len(values) not in (1, size):
        words = tensor.name, source, len(values), format_shape(shape), size
        raise EngineError("input", "--input %s=%s: %d numbers, but %s takes %d" % words, "give one number, or as many")
    if tensor.small is not None:
        array = _small(tensor, np.array(values, np.float64), "--input %s" % tensor.name)
    else:
        for value in values:
            if not _holds(dtype, value):
                raise EngineError("input", "--input %s: %s is no %s" % (tensor.name, value, dtype))
        array = np.array(values, dtype)
    return np.full(shape, array[0], dtype) if len(values) == 1 else array.reshape(shape)


def _holds(dtype: Any, value: Any) -> bool:
    """Whether an array of this type can hold `value`, which is a number or a truth value."""
    if dtype.kind == "b":
        return bool(value in (0, 1))
    if isinstance(value, bool) or (dtype.kind in "iu" and not isinstance(value, int)):
        return False
    if dtype.kind in "iu":
        return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
    return dtype.kind in "fc" and abs(value) <= float(np.finfo(dtype).max)


def _small(tensor: Tensor, array: Any, where: str) -> Any:
    """Convert `array` to the element type of `tensor`, which NumPy lacks, and return the bits as unsigned integers.

    `where` is the beginning of an error message. Raises EngineError("input") if the array does not hold numbers, or
    holds an integer that is out of range.
    """
    small = tensor.small
    assert small is not None
    if array.dtype.names == (small.name,):
        return array[small.name]
    is_plain_void = array.dtype.kind == "V" and array.dtype.names is None
    if is_plain_void and array.dtype.itemsize == tensor.dtype.itemsize:  # saved with ml_dtypes
        bits = array.view(tensor.dtype)
        return bits & 15 if small.is_integer else bits
    if small_type_of(array.dtype) == small:
        return array.view(tensor.dtype)
    if array.dtype.kind not in "fiub":
        raise EngineError(
            "input", "%s: dtype %s, but input %s wants %s" % (where, array.dtype, tensor.name, small.name)
        )
    try:
        return to_bits(small, array)
    except ValueError as error:
        raise EngineError("input", "%s: a value %s, as %s holds" % (where, one_line(error), small.name)) from None


def random_array(rng: Any, shape: Sequence[int], dtype: Any, ids_below: int = WIDE_IDS) -> Any:
    """Return an array of random numbers, which `rng` draws.

    Floats are in [0, 1). 8-bit integers have their whole range. Wider integers are at least 0 and below `ids_below`.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return below_one(rng.random_sample(shape).astype(dtype))
    if dtype.kind == "c":
        return (rng.random_sample(shape) + 1j * rng.random_sample(shape)).astype(dtype)
    if dtype.kind == "b":
        return rng.randint(0, 2, shape).astype(dtype)
    if dtype.itemsize == 1:
        info = np.iinfo(dtype)
        return rng.randint(info.min, info.max + 1, shape).astype(dtype)
    return rng.randint(0, ids_below, shape).astype(dtype)


def below_one(array: Any) -> Any:
    """Replace, in place, values of 1 by the next smaller float, and return the array.

    Rounding may have made a value 1.
    """
    one, zero = array.dtype.type(1), array.dtype.type(0)
    return np.minimum(array, np.nextafter(one, zero), out=array)


def paths_of(source: str, tensor: Tensor) -> List[str]:
    if os.path.isdir(source):
        sets = data_sets(source)
        if sets:
            return [file_of_input(folder, tensor.name, tensor.place) for folder in sets]
        names = sorted(name for name in os.listdir(source) if name.endswith((".npy", ".npz", SUFFIX)) or is_image(name))
        if not names:
            raise EngineError("input", "%s: the folder holds no .npy, .npz, .pb, .jpg or .png file" % source)
        return [os.path.join(source, name) for name in names]
    if not os.path.exists(source):
        raise EngineError(
            "input", "%s: no such file" % source, "give random, random:N, zeros, numbers, a .npy, .npz, .pb or a folder"
        )
    return [source]


def read_array(path: str, name: str) -> Any:
    """Return the array of the input `name` from the `.npy` or `.npz` file at `path`.

    A `.npz` file may hold several arrays: the one called `name` is taken, or the only one. Raises EngineError("input")
    if the file cannot be read or has no such array.
    """
    if not os.path.isfile(path):  # reading a pipe or a device might never end
        raise EngineError("input", "%s: not a regular file" % path)
    if path.endswith(SUFFIX):
        return read_tensor(path).labelled
    try:
        if not zipfile.is_zipfile(path):
            with open(path, "rb") as file:
                return _loaded(file)
        with zipfile.ZipFile(path) as archive:
            members = {one[: -len(".npy")] if one.endswith(".npy") else one: one for one in archive.namelist()}
            keys = list(members)
            if name in keys or len(keys) == 1:
                with archive.open(members[name if name in keys else keys[0]]) as file:
                    return _loaded(file)
    except Exception as error:  # numpy raises OSError, ValueError, EOFError, BadZipFile and more
        raise EngineError("input", "%s: not an array file: %s" % (path, one_line(error))) from None
    raise EngineError("input", "%s: no array named %s; it has %s" % (path, name, ", ".join(keys) or "none"))


def _loaded(file: Any) -> Any:
    """Return the array of an open `.npy` file. If its type is float8_e5m2, the elements are single bytes (`V1`)."""
    head = file.read(_HEADER_BYTES)
    found = _E5M2.search(head)
    if found is None:
        file.seek(0)
        return np.load(file, allow_pickle=False)
    whole = head[: found.start()] + b"'descr': '|V1'" + head[found.end() :] + file.read()
    return np.load(io.BytesIO(whole), allow_pickle=False)


def fitted(tensor: Tensor, shape: List[int], array: Any, path: str) -> Any:
    """Return the array of a file in the form that runtimes take: contiguous, and with text as str.

    `tensor` is the input, and `shape` the shape that it must have. `array` was read from the file at `path`. Raises
    EngineError("input") if the array has another type or shape.
    """
    if list(array.shape) != list(shape):
        shapes = format_shape(array.shape), tensor.name, format_shape(shape)
        raise EngineError("input", "%s: shape %s, but input %s wants %s" % (path, *shapes))
    if tensor.dtype == TEXT and array.dtype.kind in "US":
        return _as_text(array, path)
    if tensor.small is not None:
        return np.asarray(_small(tensor, array, path), order="C")
    if array.dtype != tensor.dtype:
        dtypes = dtype_words(array.dtype), tensor.name, tensor.dtype_name
        raise EngineError("input", "%s: dtype %s, but input %s wants %s" % (path, *dtypes))
    return np.asarray(array, order="C")  # ascontiguousarray would make a scalar one-dimensional


def _as_text(array: Any, path: str) -> Any:
    """Return an array of str objects. Bytes are read as UTF-8. Raises EngineError("input") if they are not UTF-8."""
    try:
        plain = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError:
        raise EngineError("input", "%s: its bytes are no text in UTF-8" % path) from None
    return np.asarray(plain.astype(TEXT), order="C")
