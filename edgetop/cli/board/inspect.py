"""`edgetop inspect`: show the contents of a model file, without a runtime.

If a runtime is installed, a child process uses it for shapes that a TFLite file leaves open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli.companions import PATH, option
from edgetop.cli.running.run import BATCH, SHAPE
from edgetop.errors import InputError

if TYPE_CHECKING:
    from edgetop.models.graph import Model

EXAMPLES = """\b
Examples:
  edgetop inspect mobilenet.onnx
  edgetop inspect ocr.onnx --shape x:1,3,48,192
  edgetop inspect detector.tflite --json | jq .totals
  edgetop inspect smollm2.gguf
"""
JSON = option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help inspect).")


@click.command("inspect", params=[SHAPE, BATCH, JSON], epilog=EXAMPLES)
@click.argument("model", type=PATH)
def command(
    model: Path, *, shapes: tuple[tuple[str, tuple[int, ...]], ...], batch: int | None, as_json: bool
) -> None:  # fmt: skip
    """Show the inputs, operators, weights, FLOPs and bytes of MODEL, an ONNX or TFLite file.

    Of a GGUF file (llama.cpp), show the architecture, weights, context, and the memory and FLOPs of a token.
    """
    from edgetop.cli.board.inspection_text import inspect_summary  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.output import print_json, print_text  # noqa: PLC0415
    from edgetop.engines.formats import identify  # noqa: PLC0415
    from edgetop.engines.process_engine import measure_shapes  # noqa: PLC0415
    from edgetop.engines.spec import EngineSpec  # noqa: PLC0415
    from edgetop.models.document import inspection_document  # noqa: PLC0415
    from edgetop.models.external_data import external_files  # noqa: PLC0415
    from edgetop.models.inspection import inspected, read_model  # noqa: PLC0415
    from edgetop.sensors.cpu_caches import read_caches  # noqa: PLC0415
    from edgetop.sensors.root import Root  # noqa: PLC0415

    file = identify(model)
    if file.format == "gguf":
        _show_language_model(model, file.size_bytes, is_shaped=bool(shapes or batch), as_json=as_json)
        return
    declared = read_model(file.path, file.format)
    sizes, assumptions = _input_shapes(declared, shapes, batch)
    head = {"path": str(model), "size_bytes": file.size_bytes}
    asked = EngineSpec(str(file.path), file.format, shapes={name: tuple(shape) for name, shape in sizes.items()})
    caches = read_caches(Root())
    document = inspection_document(inspected(declared, sizes, partial(measure_shapes, asked)), caches)
    beside = [asdict(one) for one in external_files(declared.external, file.path.absolute().parent)]
    document = {**document, "model": head | document["model"] | {"external": beside}, "assumptions": assumptions}
    if as_json:
        print_json(document)
    else:
        print_text(inspect_summary(document))


def _show_language_model(path: Path, size_bytes: int, *, is_shaped: bool, as_json: bool) -> None:
    from edgetop.cli.board.language_text import language_summary  # noqa: PLC0415
    from edgetop.cli.output import print_json, print_text  # noqa: PLC0415
    from edgetop.models.gguf_file import read_gguf  # noqa: PLC0415
    from edgetop.models.language_document import language_document  # noqa: PLC0415
    from edgetop.models.language_model import described  # noqa: PLC0415

    if is_shaped:
        raise InputError("--shape and --batch are for ONNX and TFLite models", "a language model takes tokens")
    header = read_gguf(path)
    document = language_document(header, described(header))
    document = {**document, "model": {"path": str(path), "size_bytes": size_bytes} | document["model"]}
    if as_json:
        print_json(document)
    else:
        print_text(language_summary(document))


def _input_shapes(
    model: "Model", asked: Sequence[tuple[str, tuple[int, ...]]], batch: int | None
) -> tuple[Mapping[str, Sequence[int]], list[str]]:
    """Return `(shapes, notes)`: the input shapes that `edgetop run` would use, and notes about them.

    `shapes` has each shape by the name of the input. `notes` has a sentence for each size that had to be assumed.

    `asked` has the shapes that the user gave, as `(input, shape)` pairs. `batch` is the batch size that the user gave,
    or None.
    """
    from edgetop.engines.child.engine_error import EngineError  # noqa: PLC0415
    from edgetop.engines.child.inputs import resolve_shapes  # noqa: PLC0415
    from edgetop.engines.child.tensor_values import Tensor  # noqa: PLC0415
    from edgetop.models.graph import input_names  # noqa: PLC0415

    if len(dict(asked)) < len(asked):
        raise InputError("--shape is given twice for the same input")
    tensors = [model.graph.tensors[place] for place in model.graph.inputs]
    inputs = [
        # Only names and shapes matter here, so "O" stands for any dtype.
        Tensor(name, tensor.shape, "O", resizable=model.format == "tflite")
        for name, tensor in zip(input_names(model), tensors, strict=True)
        if tensor.shape is not None
    ]
    try:
        return resolve_shapes(inputs, {name: list(shape) for name, shape in asked}, batch, {})
    except EngineError as error:
        raise InputError(error.message, error.advice) from None
