"""The model's inputs: the shape of each, and its arrays, which are made or read before any time is measured.

A source says where an input's arrays come from. It is "random", "random:N" (N arrays in turn), "zeros", "text:N" (texts
of N characters), numbers (literals.py), or the path of a file or folder. A file is `.npy`, `.npz`, `.pb` or a picture.
The files of a folder are used in turn. A folder may also hold the test data of ONNX (tensor_files.py).

Error messages use the names that the user typed.
"""

from __future__ import annotations

import os
from math import gcd
from typing import Any, Callable, Collection, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from .engine_error import EngineError
from .images import image_array, is_image, shape_for
from .literals import is_literal, is_made_up, random_count, source_for, text_length, values_of
from .small_types import to_bits
from .tensor_values import (
    TEXT,
    Dim,
    Shapes,
    Tensor,
    filled_with,
    fitted,
    format_shape,
    is_known,
    paths_of,
    random_array,
    read_array,
)

# Inputs that are cycled through stay in memory up to this size; larger ones are read again each time.
MAX_CACHED_BYTES = 256 * 1024 * 1024

ASSUMED_BATCH = 1
ASSUMED_IMAGE_SIDE = 224
ASSUMED_LENGTH = 128
LONGEST_CYCLE = 4096  # most inferences of a cycle through inputs of several sizes whose sizes are reported


def refuse_unknown_names(given: Iterable[str], tensors: Sequence[Tensor], option: str) -> None:
    names = [tensor.name for tensor in tensors]
    for name in given:
        if name not in names:
            raise EngineError(
                "input", "%s %s: the model has no such input; it has %s" % (option, name, ", ".join(names))
            )


def source_of(tensor: Tensor, sources: Dict[str, str]) -> str:
    """Return the source of an input's arrays, such as "random" or a path.

    `sources` has the sources by input name. The source under "" is for inputs that have none of their own.
    """
    return source_for(tensor.name, sources)


def shape_of_source(tensor: Tensor, sources: Dict[str, str]) -> Optional[List[Dim]]:
    """Return the shape of the arrays that the user gave for the input `tensor`, or None if there is no fitting shape.

    `sources` says where the arrays come from, by input name; "" is for all inputs. A source may be a file, or numbers
    such as "1,2,3". Other sources have no shape.
    """
    source = source_of(tensor, sources)
    if is_made_up(source):
        return None
    if is_literal(source):
        return _shape_of_literal(tensor, len(values_of(source)))
    path = paths_of(source, tensor)[0]
    shape: List[int]
    if is_image(path):
        shape = shape_for(tensor.shape, path, tensor.images, tensor.name)
    else:
        shape = list(read_array(path, tensor.name).shape)
    return list(shape) if tensor.fits(shape) else None


def _shape_of_literal(tensor: Tensor, count: int) -> Optional[List[Dim]]:
    """Return a shape with `count` elements for an input, or None if no shape fits.

    The last unknown dimension gets the size that makes the number of elements right. The other unknown dimensions are
    1. For a `count` of 1, the result is None, because one number can fill any shape.
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
    """Return each input's shape, by name, and a sentence for each shape that was assumed or has no element.

    `asked` has the shapes of `--shape`, by name. `batch` is the first dimension that `--batch` requests, or None.
    `sources` says where the arrays come from, by name. The shape is taken from `--shape`, else from the input's
    file or numbers, else from the model. `--batch` sets the first dimension of inputs without a `--shape`. Sizes
    that are still unknown are assumed. A named dimension, such as "N" in ONNX, has the same size in all inputs.

    Raises EngineError("input") if the model does not allow a shape.
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
    """Set the first dimension to `batch` in the shapes of all inputs that allow it.

    `tensors` are the model's inputs. `wanted` has the shapes by input name, and is changed. Raises EngineError("input")
    if no input allows another first dimension.
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
    """Return the size of each named dimension, such as {"N": 4}. Names without a size in `wanted` are left out.

    `wanted` has the shapes by input name.
    """
    sizes: Dict[str, int] = {}
    for tensor in tensors:
        for name, size in zip(tensor.shape, wanted[tensor.name]):
            if isinstance(name, str) and isinstance(size, int):
                sizes.setdefault(name, size)
    return sizes


def _filled(shape: Sequence[Dim], sizes: Dict[str, int]) -> Tuple[List[int], bool]:
    """Return `shape` with a number for each dimension, and whether a number was assumed.

    `sizes` has the sizes of named dimensions, such as {"N": 4}. If the size of a named dimension is assumed, it is
    added to `sizes`.
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
    """The arrays of all inputs of a model. Each inference gets the next array of each input."""

    def __init__(self, steps: Dict[str, "_Steps"]) -> None:
        self._steps = steps
        self._position = 0
        self.length = max([steps.count for steps in steps.values()] or [1])

    def first(self) -> Dict[str, Any]:
        """Return the arrays for the first inference, by input name."""
        return {name: steps.at(0) for name, steps in self._steps.items()}

    def next(self) -> Dict[str, Any]:
        """Return the arrays for the next inference, by input name."""
        position, self._position = self._position, self._position + 1
        return {name: steps.at(position) for name, steps in self._steps.items()}

    def place(self) -> Tuple[int, int]:
        """Return (index of the array that the newest inference used, how many different arrays there are).

        After the last array, the first one is used again. If the inputs differ, both values are those of the input with
        the most arrays.
        """
        return max(self._position - 1, 0) % self.length, self.length

    def at(self, name: str, position: int) -> Any:
        """Return the array of the input `name` for inference number `position`, counted from 0."""
        return self._steps[name].at(position)

    def elements(self) -> List[int]:
        """Return, for successive inferences, the number of elements of all inputs together.

        The list ends where the inputs begin to repeat. Returns [] if the number is the same for all inferences, or if
        the inputs repeat only after more than LONGEST_CYCLE inferences.
        """
        length = 1
        for steps in self._steps.values():
            length = length * steps.count // gcd(length, steps.count)
        if length > LONGEST_CYCLE:
            return []
        sizes = [sum(steps.size(place) for steps in self._steps.values()) for place in range(length)]
        return sizes if len(set(sizes)) > 1 else []


class _Steps:
    """The arrays of one input, which are used in turn. They are generated, or read from files."""

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
        """Use the arrays `generated`, or the files `paths`, all of which are checked. Only one of the two is given.

        `tensor` is the input, and `shape` its shape. The files' arrays are kept in memory if they have at most
        `max_bytes` bytes together. `varies` says that a file may have other sizes than `shape` in the dimensions that
        the model leaves open.
        """
        self._tensor, self._shape, self.paths_of, self._varies = tensor, shape, paths, varies
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
        """Return the number of elements in the array for inference number `position`, counted from 0."""
        return self._sizes[position % self.count]

    def at(self, position: int) -> Any:
        place = position % self.count
        return self._cache[place] if self._cache else self._read(self.paths_of[place])

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
    """Make or read the arrays of every input.

    `shapes` are by input name. `sources` says where the arrays come from, by input name; `sources[""]` is for the
    inputs that it does not name. `seed` seeds the random arrays. Inputs named in `varying` may have files of different
    sizes in the dimensions that the model leaves open. Files of more than `max_cached_bytes` bytes are read again for
    each inference.

    Raises EngineError("input") for an unknown name, a file that is missing or unreadable, and a wrong shape or type.
    """
    refuse_unknown_names([name for name in sources if name], tensors, "--input")
    rng = np.random.RandomState(seed)
    steps = {}
    drawn = 0  # bytes of the random arrays that are used in turn, of all inputs
    for tensor in tensors:
        source, shape = source_of(tensor, sources), shapes[tensor.name]
        try:
            if (tensor.dtype == TEXT) != bool(text_length(source)) and (is_made_up(source) or is_literal(source)):
                raise _no_text(tensor, source)
            if count := random_count(source):
                drawn += count * _bytes_of(tensor, shape) if count > 1 else 0
                if count > 1 and drawn > max_cached_bytes:
                    raise _too_many(tensor, shape, count, max_cached_bytes - drawn + count * _bytes_of(tensor, shape))
                arrays = [_random_input(rng, tensor, shape) for _ in range(count)]
                steps[tensor.name] = _Steps(tensor, shape, generated=arrays)
            elif text_length(source):
                texts = random_texts(rng, shape, text_length(source), max_cached_bytes, tensor.name)
                steps[tensor.name] = _Steps(tensor, shape, generated=[texts])
            elif source == "zeros" or is_literal(source):
                array = np.zeros(shape, tensor.dtype) if source == "zeros" else filled_with(tensor, shape, source)
                steps[tensor.name] = _Steps(tensor, shape, generated=[array])
            else:
                steps[tensor.name] = _Steps(
                    tensor,
                    shape,
                    paths=paths_of(source, tensor),
                    max_bytes=max_cached_bytes,
                    varies=tensor.name in varying,
                )
        except MemoryError:
            raise _too_large(tensor, shape, "which cannot be had now") from None
    return InputSet(steps)


def refuse_too_large(tensors: Sequence[Tensor], shapes: Dict[str, List[int]]) -> None:
    """Raise EngineError("input") if an input is larger than the machine's whole memory. `shapes` are by input name.

    Linux often promises such memory, and kills the process when the process uses it
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


def _no_text(tensor: Tensor, source: str) -> EngineError:
    if tensor.dtype != TEXT:
        return EngineError("input", "--input %s=%s: the input holds %s" % (tensor.name, source, tensor.dtype_name))
    text = "input %s holds text, which cannot be made up without a length" % tensor.name
    return EngineError(
        "input", text, "give --input {0}=text:32, or an array of strings: {0}=FILE.npy".format(tensor.name)
    )


def random_texts(rng: Any, shape: Sequence[int], length: int, most_bytes: int, name: str) -> Any:
    """Return an array of random texts of `length` lower-case letters and spaces.

    Raises EngineError("input") if they have more than `most_bytes` characters. `name` is the input's name.
    """
    count = int(np.prod(shape))
    if count * length > most_bytes:
        text = "input %s: %d texts of %d characters are more than the {:,} that are kept in memory".format(most_bytes)
        raise EngineError("input", text % (name, count, length), "give it a shorter text, or a smaller --shape")
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz ", np.uint8)[rng.randint(0, 27, (count, length))]
    array = np.empty(count, TEXT)
    array[:] = [bytes(line).decode() for line in letters]
    return array.reshape(shape)


def _random_input(rng: Any, tensor: Tensor, shape: Sequence[int]) -> Any:
    small = tensor.small
    if small is None:
        return random_array(rng, shape, tensor.dtype, tensor.ids_below)
    if small.is_integer:
        return to_bits(small, rng.randint(small.least, small.least + 16, shape))
    return to_bits(small, random_array(rng, shape, np.float32))


def set_images(tensors: Sequence[Tensor], spec: Dict[str, Any]) -> None:
    """Number the inputs in `tensors` from 0, and give each the user's options for pictures, `spec["images"]`."""
    for place, tensor in enumerate(tensors):
        tensor.place = place
        tensor.images = spec.get("images") or {}


def bound(adapter: Any, spec: Dict[str, Any], opened: Callable[[], None] = lambda: None) -> Any:
    """Open the model at the path `spec["model"]`, and return a function that runs it with its first inputs.

    `adapter` is the runtime's adapter. `spec` has the fields of `EngineSpec` by name. `opened` is called when the
    interpreter or session exists, before any tensor is allocated. Raises EngineError if the model or the inputs cannot
    be used.
    """
    adapter.open(spec)
    set_images(adapter.inputs, spec)
    opened()
    shapes, _ = resolve_shapes(adapter.inputs, spec["shapes"], spec["batch"], spec["inputs"])
    adapter.reshape(shapes)
    return adapter.bind(make_inputs(adapter.inputs, shapes, spec["inputs"], spec["seed"]).first())
