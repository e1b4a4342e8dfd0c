"""`edgetop inspect`: show the contents of a model file, without a runtime.

If a runtime is installed, a child process uses it for shapes that a TFLite file leaves open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, needs, option
from edgetop.cli.running.run import BATCH, SHAPE
from edgetop.errors import InputError

if TYPE_CHECKING:
    from edgetop.cli.running.run_request import WithOptions
    from edgetop.engines.spec import EngineSpec
    from edgetop.models.graph import Model

EXAMPLES = """\b
Examples:
  edgetop inspect mobilenet.onnx
  edgetop inspect ocr.onnx --shape x:1,3,48,192
  edgetop inspect detector.tflite --json | jq .totals
  edgetop inspect smollm2.gguf
  edgetop inspect detector.onnx --provider CUDA                what CUDA would run, and why not the rest
"""
JSON = option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help inspect).")
PROVIDER = option(
    "--provider", "providers", type=text.with_options, multiple=True, metavar="NAME[:K=V,...]",
    shell_complete=completion.providers,
    help="Load an ONNX model, and show which operators this provider would run. Repeatable, in order of preference.",
)  # fmt: skip
PYTHON = option(
    "--engine-python", type=PATH, metavar="PATH", help="Ask the runtime of this Python interpreter.",
    rules=[needs("providers")],
)  # fmt: skip


@click.command("inspect", params=[SHAPE, BATCH, PROVIDER, PYTHON, JSON], epilog=EXAMPLES)
@click.argument("model", type=PATH)
def command(
    model: Path,
    *,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    batch: int | None,
    providers: tuple["WithOptions", ...],
    engine_python: Path | None,
    as_json: bool,
) -> None:
    """Show the inputs, operators, weights, FLOPs and bytes of MODEL, an ONNX or TFLite file.

    With --provider, also show which operators of an ONNX model that provider of ONNX Runtime would run, and why not the
    rest. The model is loaded for that, in another process, and not run.

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
    if providers and file.format != "onnx":
        raise InputError("--provider is for ONNX models", "of other models, edgetop run shows what ran where")
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
    placed = _placed(asked, providers, engine_python) if providers else None
    document = {**document, "model": head | document["model"] | {"external": beside}, "assumptions": assumptions}
    document["placement"] = placed
    if as_json:
        print_json(document)
    else:
        print_text(inspect_summary(document))


def _placed(spec: "EngineSpec", providers: tuple["WithOptions", ...], python: Path | None) -> dict[str, object]:
    """Return the part of the document that says which provider would run which operators of the model of `spec`.

    `providers` are those that the user requested, first choice first. `python` is the interpreter whose runtime is
    asked; None for the one that runs edgetop. Raises InputError if the model cannot be loaded.
    """
    from edgetop.cli.running.session_parts import interpreter  # noqa: PLC0415  --help needs none of it
    from edgetop.engines.provider_placement import placement  # noqa: PLC0415

    found = placement(replace(spec, engine="onnxruntime", providers=providers), interpreter(python))
    asked = {name.removesuffix("ExecutionProvider").lower(): name for name, _ in providers}
    ran = {name.lower(): types for name, types in found.operators.items()}
    written = {**asked, **{name.lower(): name for name in found.operators}}
    is_known = any(map(sum, (types.values() for types in ran.values())))
    return {
        "runtime": found.runtime,
        "providers": [
            {
                "name": written[key],
                "asked": key in asked,
                "operators": sum(ran.get(key, {}).values()) if is_known else None,
                "op_types": dict(sorted(ran.get(key, {}).items(), key=lambda one: (-one[1], one[0])))
                if is_known
                else None,
            }
            for key in dict.fromkeys([*asked, *sorted(ran)])
        ],
        "left_out": found.why.left_out or None,
        "reasons": [{"text": reason, "operators": count} for reason, count in found.why.counts()],
    }


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
