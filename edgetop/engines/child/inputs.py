"""What the model is fed: arrays made or read before any clock runs.

A source is "random", "zeros" or a path to a `.npy`, a `.npz` or a folder of `.npy` files
that are cycled through. Errors are told in the names the user typed.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from .errors import EngineError, one_line

Dim = Union[int, str, None]

# Cycled inputs are kept in memory up to here; beyond it each is read again when its turn comes.
MAX_CACHED_BYTES = 256 * 1024 * 1024


class Tensor:
    """One input as the model declares it. Unknown dimensions are strings or None."""

    def __init__(
        self,
        name: str,
        shape: Sequence[Dim],
        dtype: Any,
        *,
        resizable: bool = False,
        quantisation: Tuple[float, int] = (0.0, 0),
    ) -> None:
        """`resizable`: the runtime may change even the dimensions that the model fixes.

        `quantisation`: scale and zero point; a scale of 0: it is not quantised, or nothing says so.
        """
        self.name = name
        self.shape = list(shape)
        self.dtype = np.dtype(dtype)
        self.resizable = resizable
        self.quantisation = quantisation

    def accepts(self, position: int, size: int) -> bool:
        dim = self.shape[position]
        return self.resizable or not is_known(dim) or dim == size

    @property
    def text(self) -> str:
        """The declared shape as people write it."""
        return format_shape(self.shape)

    def describe(self) -> Dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype.name}


def is_known(dim: Dim) -> bool:
    return isinstance(dim, int) and dim >= 0


def format_shape(shape: Sequence[Dim]) -> str:
    return "[" + ",".join("?" if dim is None or dim == -1 else str(dim) for dim in shape) + "]"


def refuse_unknown_names(given: Iterable[str], tensors: Sequence[Tensor], option: str) -> None:
    names = [tensor.name for tensor in tensors]
    for name in given:
        if name not in names:
            raise EngineError(
                "input", "%s %s: the model has no such input; it has %s" % (option, name, ", ".join(names))
            )


GENERATED = ("random", "zeros")


def source_of(tensor: Tensor, sources: Dict[str, str]) -> str:
    """What feeds this input: its own source, else the one given for all (under ""), else random."""
    return sources.get(tensor.name, sources.get("", "random"))


def shape_of_source(tensor: Tensor, sources: Dict[str, str]) -> Optional[List[Dim]]:
    """The shape of the file that feeds this input, where it can serve as the input's shape."""
    source = source_of(tensor, sources)
    if source in GENERATED:
        return None
    shape: List[int] = list(read_array(_paths(source)[0], tensor.name).shape)
    fits = len(shape) == len(tensor.shape) and all(tensor.accepts(i, dim) for i, dim in enumerate(shape))
    return list(shape) if fits else None


class InputSet:
    """The arrays of every input, one step after the other."""

    def __init__(self, steps: Dict[str, "_Steps"]) -> None:
        self._steps = steps
        self._position = 0
        self.length = max([len(steps) for steps in steps.values()] or [1])

    def first(self) -> Dict[str, Any]:
        """Return the feeds of the first inference."""
        return {name: steps[0] for name, steps in self._steps.items()}

    def next(self) -> Dict[str, Any]:
        """Return the feeds of the next inference: name to array."""
        position, self._position = self._position, self._position + 1
        return {name: steps[position] for name, steps in self._steps.items()}

    def at(self, name: str, position: int) -> Any:
        """What one input is fed in a step."""
        return self._steps[name][position]


class _Steps:
    """The arrays one input goes through; a single one unless a folder was given."""

    def __init__(self, tensor: Tensor, shape: List[int], paths: List[str], max_cached_bytes: int) -> None:
        self._tensor, self._shape, self._paths = tensor, shape, paths
        self._cache: List[Any] = []
        for path in paths:  # every file is checked before the run, whether it is kept or not
            array = self._read(path)
            if array.nbytes * len(paths) <= max_cached_bytes:
                self._cache.append(array)

    @classmethod
    def of(cls, tensor: Tensor, shape: List[int], array: Any) -> "_Steps":
        """A single array that was generated and not read from a file."""
        steps = cls(tensor, shape, [], 0)
        steps._cache.append(array)
        return steps

    def __len__(self) -> int:
        return len(self._cache) or len(self._paths)

    def __getitem__(self, position: int) -> Any:
        if self._cache:
            return self._cache[position % len(self._cache)]
        return self._read(self._paths[position % len(self._paths)])

    def _read(self, path: str) -> Any:
        return fitted(self._tensor, self._shape, read_array(path, self._tensor.name), path)


def make_inputs(
    tensors: Sequence[Tensor],
    shapes: Dict[str, List[int]],
    sources: Dict[str, str],
    seed: int,
    *,
    max_cached_bytes: int = MAX_CACHED_BYTES,
) -> InputSet:
    """Arrays for every input. `sources[""]` holds for the inputs not named.

    Raises EngineError("input") for an unknown name, a missing or unreadable file, a wrong
    shape or a wrong dtype.
    """
    refuse_unknown_names([name for name in sources if name], tensors, "--input")
    rng = np.random.RandomState(seed)
    steps = {}
    for tensor in tensors:
        source, shape = source_of(tensor, sources), shapes[tensor.name]
        try:
            if source == "random":
                steps[tensor.name] = _Steps.of(tensor, shape, random_array(rng, shape, tensor.dtype))
            elif source == "zeros":
                steps[tensor.name] = _Steps.of(tensor, shape, np.zeros(shape, tensor.dtype))
            else:
                steps[tensor.name] = _Steps(tensor, shape, _paths(source), max_cached_bytes)
        except MemoryError:
            raise _too_large(tensor, shape, "which cannot be had now") from None
    return InputSet(steps)


def refuse_too_large(tensors: Sequence[Tensor], shapes: Dict[str, List[int]]) -> None:
    """Raises EngineError("input") for an input that the whole memory could not hold, before anything asks for it.

    Linux often promises such memory, and ends who uses it (Documentation/mm/overcommit-accounting.rst).
    """
    try:
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return
    for tensor in tensors:
        if _bytes_of(tensor, shapes[tensor.name]) > memory_bytes:
            raise _too_large(tensor, shapes[tensor.name], "and this machine has {:,}".format(memory_bytes))


def _bytes_of(tensor: Tensor, shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= int(size)  # Python's integers do not overflow
    return count * int(tensor.dtype.itemsize)


def _too_large(tensor: Tensor, shape: List[int], why: str) -> EngineError:
    needed = "{:,} bytes of memory".format(_bytes_of(tensor, shape))
    text = "input %s: %s %s needs %s, %s" % (tensor.name, format_shape(shape), tensor.dtype.name, needed, why)
    return EngineError("input", text, "give it a smaller --shape or --batch")


def random_array(rng: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Uniform [0, 1) for floats, the whole range for 8-bit integers, 0 to 99 for wider ones."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        array = rng.random_sample(shape).astype(dtype)
        # A double just below 1 becomes 1 when it is rounded to fewer bits.
        return np.minimum(array, np.nextafter(dtype.type(1), dtype.type(0)), out=array)
    if dtype.kind == "c":
        return (rng.random_sample(shape) + 1j * rng.random_sample(shape)).astype(dtype)
    if dtype.kind == "b":
        return rng.randint(0, 2, shape).astype(dtype)
    if dtype.itemsize == 1:
        info = np.iinfo(dtype)
        return rng.randint(info.min, info.max + 1, shape).astype(dtype)
    return rng.randint(0, 100, shape).astype(dtype)


def _paths(source: str) -> List[str]:
    if os.path.isdir(source):
        names = sorted(name for name in os.listdir(source) if name.endswith((".npy", ".npz")))
        if not names:
            raise EngineError("input", "%s: the folder holds no .npy or .npz file" % source)
        return [os.path.join(source, name) for name in names]
    if not os.path.exists(source):
        raise EngineError("input", "%s: no such file" % source, "give random, zeros, a .npy, a .npz or a folder")
    return [source]


def read_array(path: str, name: str) -> Any:
    """The array of input `name` in a .npy file, or in a .npz by that key or as its only one."""
    try:
        return _loaded(path, name)
    except EngineError:
        raise
    except Exception as error:  # numpy raises OSError, ValueError, EOFError, BadZipFile and more
        raise EngineError("input", "%s: not an array file: %s" % (path, one_line(error))) from None


def _loaded(path: str, name: str) -> Any:
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        keys = list(loaded.keys())
        key = name if name in keys else keys[0] if len(keys) == 1 else None
        if key is None:
            raise EngineError("input", "%s: no array named %s; it has %s" % (path, name, ", ".join(keys)))
        return loaded[key]


def fitted(tensor: Tensor, shape: List[int], array: Any, path: str) -> Any:
    """The array as the runtime wants it, or EngineError where its shape or dtype differs."""
    if list(array.shape) != list(shape):
        raise EngineError(
            "input",
            "%s: shape %s, but input %s wants %s" % (path, format_shape(array.shape), tensor.name, format_shape(shape)),
        )
    if array.dtype != tensor.dtype:
        raise EngineError(
            "input", "%s: dtype %s, but input %s wants %s" % (path, array.dtype, tensor.name, tensor.dtype)
        )
    return np.asarray(array, order="C")  # ascontiguousarray would make a scalar one-dimensional
