"""Inspect a model: compute everything that follows from its file, for inputs of given shapes.

The file is mapped and not loaded, so its size does not matter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.models.cost.tensor_traffic import MemoryPlan, plan
from edgetop.models.graph import OMITTED, Model, count, tensors_by_value
from edgetop.models.mapped_file import map_file
from edgetop.models.ncnn_file import read_ncnn
from edgetop.models.onnx_file import read_onnx
from edgetop.models.openvino_file import read_openvino
from edgetop.models.operator_costs import OperatorCost, Totals, Weights, costs, totals, weights
from edgetop.models.reading_limits import MalformedError
from edgetop.models.shape_inference import with_shapes
from edgetop.models.tflite_file import read_tflite


@frozen
class RuntimeShapes:
    """The shapes of a model's tensors, as a runtime gave them when it ran the model once for this purpose."""

    runtime: str  # its name and version
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # by the tensor's place in the main graph


@frozen
class Inspection:
    declared: Model  # as in the file
    model: Model  # with the shapes that follow from those of the inputs
    operators: tuple[OperatorCost, ...]
    totals: Totals
    weights: Weights
    memory: MemoryPlan
    measured: RuntimeShapes | None = None  # shapes from a runtime, if the file lacks some


def inspected(
    declared: Model, inputs: Mapping[str, Sequence[int]], measure: Callable[[], RuntimeShapes | None] = lambda: None
) -> Inspection:
    """Return the operators, costs, weights and memory of a model, for inputs of given shapes.

    `declared` is the model as in its file. `inputs` has the shape of each input by name, as in `{"image": (1, 3, 224,
    224)}`. `measure` gets the shapes from a runtime; it is only called for a TFLite model whose file lacks shapes.
    """
    model, measured = with_shapes(declared, inputs), None
    if declared.format == "tflite" and _is_open(model):
        measured = measure()
        model = with_shapes(declared, inputs, measured.shapes) if measured else model
    operators = costs(model)
    return Inspection(
        declared, model, operators, totals(operators), weights(model, operators), plan(model.graph), measured
    )


def _is_open(model: Model) -> bool:
    graph = model.graph
    places = {place for operator in graph.operators for place in operator.outputs if place != OMITTED}
    return any(count(graph.tensors[place].shape) is None for place in places - tensors_by_value(model))


WEIGHTS_BESIDE = {"openvino", "ncnn"}  # formats whose weights are in a .bin file of the same name
READERS = {"onnx": read_onnx, "tflite": read_tflite, "openvino": read_openvino, "ncnn": read_ncnn}


def read_model(path: Path, fmt: str) -> Model:
    """Return the model in a file. `fmt` is its format: `onnx`, `tflite`, `openvino` or `ncnn`.

    Raises InputError if the file cannot be read, or is in another format.
    """
    data = map_file(path)
    if bytes(data[4:8]) == b"ORTM":
        raise InputError(
            f"{path}: ONNX Runtime's own format cannot be read without it", "inspect the .onnx file it was made from"
        )
    if fmt not in READERS:
        raise InputError(f"{path}: edgetop does not know what is in a model of the engine {fmt}")
    try:
        model = READERS[fmt](data)
    except MalformedError as error:
        raise InputError(f"{path}: it holds {error}", "the file is damaged or incomplete: get it again") from None
    if fmt in WEIGHTS_BESIDE:
        return replace(model, external={path.with_suffix(".bin").name: needs for needs in model.external.values()})
    return model
