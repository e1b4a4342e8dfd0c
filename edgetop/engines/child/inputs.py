"""The model's inputs: the shape of each, and arrays that are made or read before any time is measured.

A source is "random", "random:N" (N arrays in turn), "zeros", numbers (literals.py), or the path of a `.npy` file, a
`.npz` file, or a folder of these, which are used in turn. Error messages use the names that the user typed.
"""

from __future__ import annotations

import os
from math import gcd
from typing import Any, Callable, Collection, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from .engine_error import EngineError, one_line
from .images import image_array, is_image, shape_for
from .literals import is_literal, is_made_up, random_count, source_for, values_of

Dim = Union[int, str, None]
Shapes = Dict[str, List[int]]

# Inputs that are cycled through stay in memory up to this size; larger ones are read again each time.
MAX_CACHED_BYTES = 256 * 1024 * 1024

ASSUMED_BATCH = 1
ASSUMED_IMAGE_SIDE = 224
ASSUMED_LENGTH = 128
LONGEST_CYCLE = 4096  # most inferences of a cycle through inputs of several sizes whose sizes are reported
WIDE_IDS = 100  # random integers of 16 bits and more are below this, so that they can be the index of a word or a class


TEXT = np.dtype(object)  # dtype of an input of strings


class Tensor:
    """One input as the model declares it. Unknown dimensions are strings, None or 0."""

    def __init__(
        self,
        name: str,
        shape: Sequence[Dim],
        dtype: Any,
        *,
        resizable: bool = False,
        quantisation: Tuple[float, int] = (0.0, 0),
    ) -> None:
        """Declare an input.

        `resizable` is set if the runtime can change even the dimensions that the model fixes. `quantisation` is (scale,
        zero point); the scale is 0 if the input is not quantised or that is unknown.
        """
        self.name = name
        self.shape = list(shape)
        self.dtype = np.dtype(dtype)
        self.resizable = resizable
        self.quantisation = quantisation
        self.images: Dict[str, Any] = {}  # options of pictures (images.py)
        self.ids_below = WIDE_IDS  # an adapter lowers it if the values of the input index a shorter table

    @property
    def has_ids(self) -> bool:
        """Whether the values may be the index of a word or a class: integers of 16 bits or more."""
        return self.dtype.kind in "iu" and self.dtype.itemsize > 1

    def accepts(self, position: int, size: int) -> bool:
        dim = self.shape[position]
        return self.resizable or not is_known(dim) or dim == size

    def fits(self, shape: Sequence[int]) -> bool:
        return len(shape) == len(self.shape) and all(self.accepts(i, size) for i, size in enumerate(shape))

    def may_vary(self, shape: Sequence[int], first: Sequence[int]) -> bool:
        """Whether `shape` differs from `first`, the shape of the first inference, only in dimensions left open."""
        pairs = zip(shape, first, self.shape)
        return len(shape) == len(first) and all(one == other or not is_known(dim) for one, other, dim in pairs)

    def describe(self) -> Dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype_name}

    @property
    def dtype_name(self) -> str:
        return "string" if self.dtype == TEXT else str(self.dtype.name)


def is_known(dim: Dim) -> bool:
    """Whether a dimension that a model declares is a known size. Some exporters write 0 for an unknown batch."""
    return isinstance(dim, int) and dim > 0


def format_shape(shape: Sequence[Dim]) -> str:
    return "[" + ",".join("?" if dim is None or dim == -1 else str(dim) for dim in shape) + "]"


def refuse_unknown_names(given: Iterable[str], tensors: Sequence[Tensor], option: str) -> None:
    names = [tensor.name for tensor in tensors]
    for name in given:
        if name not in names:
            raise EngineError(
                "input", "%s %s: the model has no such input; it has %s" % (option, name, ", ".join(names))
            )


def source_of(tensor: Tensor, sources: Dict[str, str]) -> str:
    """Return the source of an input, as `literals.source_for` does."""
    return source_for(tensor.name, sources)


def shape_of_source(tensor: Tensor, sources: Dict[str, str]) -> Optional[List[Dim]]:
    """Return the shape that the source of an input gives: that of the array in its file, or one for its literal.

    Return None if the source gives no shape, or one that does not fit the input.
    """
    source = source_of(tensor, sources)
    if is_made_up(source):
        return None
    if is_literal(source):
        return _shape_of_literal(tensor, len(values_of(source)))
    path = _paths(source)[0]
    shape: List[int]
    if is_image(path):
        shape = shape_for(tensor.shape, path, tensor.images, tensor.name)
    else:
        shape = list(read_array(path, tensor.name).shape)
    return list(shape) if tensor.fits(shape) else None


def _shape_of_literal(tensor: Tensor, count: int) -> Optional[List[Dim]]:
    """Return a shape with `count` elements for an input, or None if there is none.

    The last unknown dimension gets the size that the other dimensions leave, and other unknown ones are 1. One number
    has no shape of its own, because it can fill any shape.
    """
    free = [position for position, dim in enumerate(tensor.shape) if not is_known(dim)]
    if count == 1 or not free:
        return None
    shape: List[Dim] = [dim if is_known(dim) else 1 for dim in tensor.shape]
    others = int(np.prod([int(dim) for dim in shape]))  # type: ignore[arg-type]
    shape[free[-1]] = count // others
    return shape if count % others == 0 else None


def resolve_shapes(
    tensors: Sequence[Tensor], asked: Shapes, batch: Optional[int], sources: Dict[str, str]
) -> Tuple[Shapes, List[str]]:
    """Return the concrete shape of each input, and a sentence for each shape that was assumed or has no element.

    The order of precedence is `--shape`, `--batch`, the file that feeds the input, a default. A named dimension (such
    as "N" in ONNX) has the same size in all inputs. A size of 0 comes only from `--shape` or a file: in the model it
    is unknown. Raises EngineError("input") if the model does not allow a shape.
    """
    refuse_unknown_names(asked, tensors, "--shape")
    wanted: Dict[str, List[Dim]] = {}
    for tensor in tensors:
        shape = asked.get(tensor.name)
        if shape is not None and not tensor.fits(shape):
            text = "--shape %s:%s does not fit the model's %s"
            raise EngineError("input", text % (tensor.name, ",".join(map(str, shape)), format_shape(tensor.shape)))
        declared = [dim or None for dim in tensor.shape]
        wanted[tensor.name] = list(shape or shape_of_source(tensor, sources) or declared)
    if batch is not None:
        _set_batch([tensor for tensor in tensors if tensor.name not in asked], wanted, batch)
    sizes = _named_sizes(tensors, wanted)
    shapes: Shapes = {}
    assumptions: List[str] = []
    for tensor in tensors:
        shape, was_assumed = _filled(wanted[tensor.name], sizes)
        if was_assumed:
            zero = ", where 0 stands for an unknown size" if 0 in tensor.shape else ""
            words = tensor.name, format_shape(tensor.shape), zero, format_shape(shape)
            assumptions.append("input %s is %s%s: it runs as %s" % words)
        if 0 in shape:
            assumptions.append("input %s has no element: it runs as %s" % (tensor.name, format_shape(shape)))
        shapes[tensor.name] = shape
    return shapes, assumptions


def _set_batch(tensors: Sequence[Tensor], wanted: Dict[str, List[Dim]], batch: int) -> None:
    """Set the first dimension to `batch` in the `wanted` shape of every input that allows it.

    Raises EngineError("input") if no input allows it.
    """
    takers = [tensor for tensor in tensors if tensor.shape and tensor.accepts(0, batch)]
    refusing = [tensor for tensor in tensors if tensor.shape and tensor not in takers]
    if refusing and not takers:
        raise EngineError(
            "input",
            "--batch %d: input %s has the fixed first dimension %s" % (batch, refusing[0].name, refusing[0].shape[0]),
            "export the model with a dynamic batch, or leave --batch out",
        )
    for tensor in takers:
        wanted[tensor.name][0] = batch


def _named_sizes(tensors: Sequence[Tensor], wanted: Dict[str, List[Dim]]) -> Dict[str, int]:
    """Return the sizes of named dimensions, such as "N" in ONNX, as far as `wanted` has a number for them."""
    sizes: Dict[str, int] = {}
    for tensor in tensors:
        for name, size in zip(tensor.shape, wanted[tensor.name]):
            if isinstance(name, str) and isinstance(size, int):
                sizes.setdefault(name, size)
    return sizes


def _filled(shape: Sequence[Dim], sizes: Dict[str, int]) -> Tuple[List[int], bool]:
    """Return the shape with a number for each dimension, and whether a number was assumed.

    `sizes` has the sizes of named dimensions by name. Assumed sizes are added to it.
    """
    filled: List[int] = []
    was_assumed = False
    for position, dim in enumerate(shape):
        if isinstance(dim, str) and dim in sizes:
            filled.append(sizes[dim])
        elif isinstance(dim, int) and dim >= 0:
            filled.append(dim)
        else:
            side = ASSUMED_IMAGE_SIDE if len(shape) == 4 else ASSUMED_LENGTH
            filled.append(side if position else ASSUMED_BATCH)
            was_assumed = True
            if isinstance(dim, str):
                sizes[dim] = filled[-1]
    return filled, was_assumed


class InputSet:
    """The arrays of all inputs. Each inference takes the next ones."""

    def __init__(self, steps: Dict[str, "_Steps"]) -> None:
        self._steps = steps
        self._position = 0
        self.length = max([steps.count for steps in steps.values()] or [1])

    def first(self) -> Dict[str, Any]:
        """Return the feeds of the first inference."""
        return {name: steps.at(0) for name, steps in self._steps.items()}

    def next(self) -> Dict[str, Any]:
        """Return the feeds of the next inference, by name."""
        position, self._position = self._position, self._position + 1
        return {name: steps.at(position) for name, steps in self._steps.items()}

    def at(self, name: str, position: int) -> Any:
        """Return the array of the input `name` for inference number `position`."""
        return self._steps[name].at(position)

    def elements(self) -> List[int]:
        """Return the number of elements in the inputs of each inference of a cycle, or [] if all have one size.

        The result is also [] if the cycle is longer than LONGEST_CYCLE.
        """
        length = 1
        for steps in self._steps.values():
            length = length * steps.count // gcd(length, steps.count)
        if length > LONGEST_CYCLE:
            return []
        sizes = [sum(steps.size(place) for steps in self._steps.values()) for place in range(length)]
        return sizes if len(set(sizes)) > 1 else []


class _Steps:
    """The arrays of one input, which are used in turn. They are generated, or are read from files."""

    def __init__(
        self,
        tensor: Tensor,
        shape: List[int],
        *,
        generated: Sequence[Any] = (),
        paths: Sequence[str] = (),
        max_bytes: int = 0,
        varies: bool = False,
    ) -> None:
        """Check all files. Keep their arrays in memory, unless they are larger than `max_bytes` together.

        `varies`: whether the shape of a file may differ from `shape` in dimensions that the model leaves open.
        """
        self._tensor, self._shape, self._paths, self._varies = tensor, shape, paths, varies
        self._cache = list(generated)
        self._sizes = [int(array.size) for array in generated]  # elements of each array
        held = 0
        for path in paths:
            array = self._read(path)
            self._sizes.append(int(array.size))
            held += array.nbytes
            if held <= max_bytes:
                self._cache.append(array)
        if held > max_bytes:
            self._cache = []
        self.count = len(self._sizes)

    def size(self, position: int) -> int:
        """Return the number of elements in the array for inference number `position`."""
        return self._sizes[position % self.count]

    def at(self, position: int) -> Any:
        place = position % self.count
        return self._cache[place] if self._cache else self._read(self._paths[place])

    def _read(self, path: str) -> Any:
        tensor, shape = self._tensor, self._shape
        if is_image(path):
            return image_array(path, shape, tensor.dtype, tensor.quantisation, tensor.images, tensor.name)
        array = read_array(path, self._tensor.name)
        if self._varies and self._tensor.may_vary(array.shape, self._shape):
            shape = list(array.shape)
        return fitted(self._tensor, shape, array, path)


def make_inputs(
    tensors: Sequence[Tensor],
    shapes: Dict[str, List[int]],
    sources: Dict[str, str],
    seed: int,
    *,
    max_cached_bytes: int = MAX_CACHED_BYTES,
    varying: Collection[str] = (),
) -> InputSet:
    """Make or read the arrays of every input. `sources[""]` is the source of inputs that `sources` does not name.

    `varying`: names of inputs whose files may have different shapes in the dimensions that the model leaves open.
    Raises EngineError("input") for an unknown name, a missing or unreadable file, and a wrong shape or dtype.
    """
    refuse_unknown_names([name for name in sources if name], tensors, "--input")
    rng = np.random.RandomState(seed)
    steps = {}
    for tensor in tensors:
        source, shape = source_of(tensor, sources), shapes[tensor.name]
        try:
            if tensor.dtype == TEXT and (is_made_up(source) or is_literal(source)):
                text = "input %s holds text, which cannot be made up" % tensor.name
                raise EngineError("input", text, "give it an array of strings: --input %s=FILE.npy" % tensor.name)
            if count := random_count(source):
                if count > 1 and count * _bytes_of(tensor, shape) > max_cached_bytes:
                    raise _too_many(tensor, shape, count, max_cached_bytes)
                arrays = [random_array(rng, shape, tensor.dtype, tensor.ids_below) for _ in range(count)]
                steps[tensor.name] = _Steps(tensor, shape, generated=arrays)
            elif source == "zeros" or is_literal(source):
                array = np.zeros(shape, tensor.dtype) if source == "zeros" else _filled_with(tensor, shape, source)
                steps[tensor.name] = _Steps(tensor, shape, generated=[array])
            else:
                steps[tensor.name] = _Steps(
                    tensor, shape, paths=_paths(source), max_bytes=max_cached_bytes, varies=tensor.name in varying
                )
        except MemoryError:
            raise _too_large(tensor, shape, "which cannot be had now") from None
    return InputSet(steps)


def refuse_too_large(tensors: Sequence[Tensor], shapes: Dict[str, List[int]]) -> None:
    """Raise EngineError("input") if an input is larger than the machine's whole memory.

    Linux often promises such memory, and kills the process when it uses it
    (Documentation/mm/overcommit-accounting.rst).
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


def _too_many(tensor: Tensor, shape: List[int], count: int, most_bytes: int) -> EngineError:
    needed, most = count * _bytes_of(tensor, shape), most_bytes // _bytes_of(tensor, shape)
    text = "input %s: %d random arrays need %s bytes, and at most %s are kept in memory"
    advice = "give random:%d or fewer" % most if most > 1 else "give random, or a folder of files"
    return EngineError("input", text % (tensor.name, count, "{:,}".format(needed), "{:,}".format(most_bytes)), advice)


def _filled_with(tensor: Tensor, shape: List[int], source: str) -> Any:
    """Return an array with the numbers of a literal. One number fills the array. Raises EngineError("input")."""
    values, dtype = values_of(source), tensor.dtype
    size = int(np.prod(shape))
    if len(values) not in (1, size):
        words = tensor.name, source, len(values), format_shape(shape), size
        raise EngineError("input", "--input %s=%s: %d numbers, but %s takes %d" % words, "give one number, or as many")
    for value in values:
        if not _holds(dtype, value):
            raise EngineError("input", "--input %s: %s is no %s" % (tensor.name, value, dtype))
    array = np.array(values, dtype)
    return np.full(shape, array[0], dtype) if len(values) == 1 else array.reshape(shape)


def _holds(dtype: Any, value: Any) -> bool:
    """Whether an input of this dtype can have `value`, a number or truth value of a literal."""
    if dtype.kind == "b":
        return bool(value in (0, 1))
    if isinstance(value, bool) or (dtype.kind in "iu" and not isinstance(value, int)):
        return False
    if dtype.kind in "iu":
        return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
    return dtype.kind in "fc" and abs(value) <= float(np.finfo(dtype).max)


def random_array(rng: Any, shape: Sequence[int], dtype: Any, ids_below: int = WIDE_IDS) -> Any:
    """Return an array of random numbers: in [0, 1) for floats, and of the whole range for 8-bit integers.

    Wider integers are at least 0 and below `ids_below`.
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
    """Limit an array of floats, in place, to values below 1: rounding to fewer bits may have made a value 1."""
    one, zero = array.dtype.type(1), array.dtype.type(0)
    return np.minimum(array, np.nextafter(one, zero), out=array)


def _paths(source: str) -> List[str]:
    if os.path.isdir(source):
        names = sorted(name for name in os.listdir(source) if name.endswith((".npy", ".npz")) or is_image(name))
        if not names:
            raise EngineError("input", "%s: the folder holds no .npy, .npz, .jpg or .png file" % source)
        return [os.path.join(source, name) for name in names]
    if not os.path.exists(source):
        raise EngineError(
            "input", "%s: no such file" % source, "give random, random:N, zeros, numbers, a .npy, a .npz or a folder"
        )
    return [source]


def read_array(path: str, name: str) -> Any:
    """Read the array of the input `name` from a .npy file, or from a .npz file with that key or with only one array.

    Raises EngineError("input") if the file cannot be read or has no such array.
    """
    if not os.path.isfile(path):  # reading a pipe or a device might never end
        raise EngineError("input", "%s: not a regular file" % path)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            keys = list(loaded.keys())
            if name in keys or len(keys) == 1:
                return loaded[name if name in keys else keys[0]]
    except Exception as error:  # numpy raises OSError, ValueError, EOFError, BadZipFile and more
        raise EngineError("input", "%s: not an array file: %s" % (path, one_line(error))) from None
    raise EngineError("input", "%s: no array named %s; it has %s" % (path, name, ", ".join(keys) or "none"))


def fitted(tensor: Tensor, shape: List[int], array: Any, path: str) -> Any:
    """Return the array in the form that the runtime takes: contiguous, and text as str. `path` is its file.

    Raises EngineError("input") if its dtype is not that of `tensor`, or its shape is not `shape`.
    """
    if list(array.shape) != list(shape):
        shapes = format_shape(array.shape), tensor.name, format_shape(shape)
        raise EngineError("input", "%s: shape %s, but input %s wants %s" % (path, *shapes))
    if tensor.dtype == TEXT and array.dtype.kind in "US":
        return _as_text(array, path)
    if array.dtype != tensor.dtype:
        dtypes = array.dtype, tensor.name, tensor.dtype_name
        raise EngineError("input", "%s: dtype %s, but input %s wants %s" % (path, *dtypes))
    return np.asarray(array, order="C")  # ascontiguousarray would make a scalar one-dimensional


def _as_text(array: Any, path: str) -> Any:
    """Return an array of strings as runtimes take it. Raises EngineError("input") if bytes in it are no UTF-8."""
    try:
        plain = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError:
        raise EngineError("input", "%s: its bytes are no text in UTF-8" % path) from None
    return np.asarray(plain.astype(TEXT), order="C")


def set_images(tensors: Sequence[Tensor], spec: Dict[str, Any]) -> None:
    """Give the inputs the options of pictures."""
    for tensor in tensors:
        tensor.images = spec.get("images") or {}


def bound(adapter: Any, spec: Dict[str, Any], opened: Callable[[], None] = lambda: None) -> Any:
    """Return a function that runs the model of `spec` with the engine's first inputs. Raises EngineError.

    `opened` is called when the interpreter or session exists, before anything is allocated.
    """
    adapter.open(spec)
    set_images(adapter.inputs, spec)
    opened()
    shapes, _ = resolve_shapes(adapter.inputs, spec["shapes"], spec["batch"], spec["inputs"])
    adapter.reshape(shapes)
    return adapter.bind(make_inputs(adapter.inputs, shapes, spec["inputs"], spec["seed"]).first())
