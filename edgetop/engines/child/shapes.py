"""The shape each input runs with: what the user said, what a file says, or a stated default; and a call that has it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .errors import EngineError
from .inputs import Dim, Tensor, format_shape, is_known, make_inputs, refuse_unknown_names, shape_of_source

ASSUMED_BATCH = 1
ASSUMED_IMAGE_SIDE = 224
ASSUMED_LENGTH = 128

Shapes = Dict[str, List[int]]


def resolve_shapes(
    tensors: Sequence[Tensor], asked: Shapes, batch: Optional[int], sources: Dict[str, str]
) -> Tuple[Shapes, List[str]]:
    """The concrete shape of each input, and a sentence for each one that was assumed.

    What `--shape` says wins, then `--batch`, then the file that feeds the input, then a
    stated default. A named dimension (ONNX: "N") is the same size wherever it stands. Raises
    EngineError("input") where the model cannot have it so.
    """
    refuse_unknown_names(asked, tensors, "--shape")
    wanted: Dict[str, List[Dim]] = {}
    for tensor in tensors:
        given = _checked_shape(tensor, asked[tensor.name]) if tensor.name in asked else None
        wanted[tensor.name] = list(given or shape_of_source(tensor, sources) or tensor.shape)
    if batch is not None:
        _set_batch([tensor for tensor in tensors if tensor.name not in asked], wanted, batch)
    sizes = _named_sizes(tensors, wanted)
    shapes: Shapes = {}
    assumptions: List[str] = []
    for tensor in tensors:
        shape, was_assumed = _filled(wanted[tensor.name], sizes)
        if was_assumed:
            assumptions.append("input %s is %s: it runs as %s" % (tensor.name, tensor.text, format_shape(shape)))
        shapes[tensor.name] = shape
    return shapes, assumptions


def bound(adapter: Any, spec: Dict[str, Any], opened: Callable[[], None] = lambda: None) -> Any:
    """The call that runs the model of `spec` with the inputs that the engine begins with. Raises EngineError.

    `opened` is called when there is an interpreter or a session, and nothing is allocated yet.
    """
    adapter.open(spec)
    opened()
    shapes, _ = resolve_shapes(adapter.inputs, spec["shapes"], spec["batch"], spec["inputs"])
    adapter.reshape(shapes)
    return adapter.bind(make_inputs(adapter.inputs, shapes, spec["inputs"], spec["seed"]).first())


def _checked_shape(tensor: Tensor, shape: List[int]) -> List[int]:
    if not (len(shape) == len(tensor.shape) and all(tensor.accepts(i, size) for i, size in enumerate(shape))):
        given = ",".join(map(str, shape))
        raise EngineError("input", "--shape %s:%s does not fit the model's %s" % (tensor.name, given, tensor.text))
    return shape


def _set_batch(tensors: Sequence[Tensor], wanted: Dict[str, List[Dim]], batch: int) -> None:
    """Make `batch` the first dimension of every input that can have it; at least one must."""
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
    """The size of every dimension that has a name, where it is known anywhere."""
    sizes: Dict[str, int] = {}
    for tensor in tensors:
        for name, size in zip(tensor.shape, wanted[tensor.name]):
            if isinstance(name, str) and isinstance(size, int):
                sizes.setdefault(name, size)
    return sizes


def _filled(shape: Sequence[Dim], sizes: Dict[str, int]) -> Tuple[List[int], bool]:
    """The shape with a number in every place, and whether one was assumed. Assumed names join `sizes`."""
    filled: List[int] = []
    was_assumed = False
    for position, dim in enumerate(shape):
        if isinstance(dim, str) and dim in sizes:
            filled.append(sizes[dim])
        elif is_known(dim):
            filled.append(int(dim))  # type: ignore[arg-type]
        else:
            filled.append(_assumed(position, len(shape)))
            was_assumed = True
            if isinstance(dim, str):
                sizes[dim] = filled[-1]
    return filled, was_assumed


def _assumed(position: int, rank: int) -> int:
    """A size for a dimension nobody named: batch 1, images of 224, sequences of 128."""
    if position == 0:
        return ASSUMED_BATCH
    return ASSUMED_IMAGE_SIDE if rank == 4 else ASSUMED_LENGTH
