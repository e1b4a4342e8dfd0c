"""Small ONNX models for the tests, each made from nothing and returned as a file's bytes.

IR version 8 and opset 13, so that every onnxruntime edgetop meets can load them. The same call
gives the same bytes each time.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

Array = NDArray[np.generic]

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING

HOSTILE_INPUT = "[red]x[/red]\x1b[31m"
HOSTILE_NODE = "[bold]add[/] \x1b]0;owned\x07 \x1b[2J"
HOSTILE_OUTPUT = "[/]y\r\n\x1b[0m"


Shape = list[int] | list[int | str]
Infos = Mapping[str, Shape | tuple[int, Shape]]  # by name: the shape of a float tensor, or element type and shape


def _infos(tensors: Infos) -> list[ValueInfoProto]:
    typed = {name: info if isinstance(info, tuple) else (FLOAT, info) for name, info in tensors.items()}
    return [make_tensor_value_info(name, kind, shape) for name, (kind, shape) in typed.items()]


def _model(
    inputs: Infos,
    nodes: list[NodeProto],
    outputs: Infos,
    constants: Mapping[str, Array] | None = None,
    domains: Mapping[str, int] | None = None,
) -> bytes:
    """The file of one graph; `domains` are the operator sets beside ONNX's own."""
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "test", _infos(inputs), _infos(outputs), initializers)
    opsets = [helper.make_opsetid(domain, version) for domain, version in {"": 13, **(domains or {})}.items()]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets, producer_name="edgetop-tests")
    return bytes(model.SerializeToString(deterministic=True))


def noise(*shape: int, scale: float = 1.0, seed: int = 0) -> NDArray[np.float32]:
    """Weights: uniform from -scale to scale, from a stream that numpy has frozen."""
    return ((2 * np.random.RandomState(seed).random_sample(shape) - 1) * scale).astype(np.float32)


def onnx_tiny() -> bytes:
    """About 20 microseconds, for tests that want many inferences in little time: `x` [1,4096] to `y`."""
    return _model(
        {"x": [1, 4096]},
        [
            make_node("Mul", ["x", "factor"], ["scaled"], "scale"),
            make_node("Tanh", ["scaled"], ["bent"], "bend"),
            make_node("Add", ["bent", "x"], ["shifted"], "shift"),
            make_node("Sin", ["shifted"], ["waved"], "wave"),
            make_node("Relu", ["waved"], ["y"], "relu"),
        ],
        {"y": [1, 4096]},
        {"factor": noise(4096)},
    )


def onnx_half_ms() -> bytes:
    """About half a millisecond on one thread of a desktop: `x` [64,256] to `y`."""
    return matmul_chain(rows=64, depth=7)


def onnx_ten_ms() -> bytes:
    """About ten milliseconds on one thread of a desktop: `x` [512,256] to `y`."""
    return matmul_chain(rows=512, depth=17)


def matmul_chain(rows: int, depth: int, width: int = 256) -> bytes:
    """`depth` times a product with the same weights and a Relu, scaled so that values keep their size."""
    nodes = []
    tensor = "x"
    for i in range(depth):
        result = "y" if i == depth - 1 else f"layer{i}/relu"
        nodes.append(make_node("MatMul", [tensor, "weights"], [f"layer{i}/matmul"], f"layer{i}/matmul"))
        nodes.append(make_node("Relu", [f"layer{i}/matmul"], [result], f"layer{i}/relu"))
        tensor = result
    return _model(
        {"x": [rows, width]},
        nodes,
        {"y": [rows, width]},
        {"weights": noise(width, width, scale=(6 / width) ** 0.5)},
    )


# Of the branches of a ladder: five that take the most time, each clearly less than the one before, and small ones.
LADDER = (2048, 1400, 950, 640, 430, *[48] * 16)


def onnx_ladder() -> bytes:
    """83 operators of which the five largest can be told apart: `x` [64,256] to `y`, a branch for each of LADDER."""
    nodes, constants, total = [], {}, ""
    for i, width in enumerate(LADDER):
        constants[f"up{i}"] = noise(256, width, scale=0.05, seed=i)
        constants[f"down{i}"] = noise(width, 8, scale=0.05, seed=100 + i)
        nodes.append(make_node("MatMul", ["x", f"up{i}"], [f"wide{i}"], f"rung{i}"))
        nodes.append(make_node("MatMul", [f"wide{i}", f"down{i}"], [f"bare{i}"], f"back{i}"))
        nodes.append(make_node("Tanh", [f"bare{i}"], [f"narrow{i}"], f"bend{i}"))
        if total:
            nodes.append(make_node("Add", [total, f"narrow{i}"], [f"sum{i}"], f"add{i}"))
        total = f"sum{i}" if total else "narrow0"
    nodes[-1].output[0] = "y"
    return _model({"x": [64, 256]}, nodes, {"y": [64, 8]}, constants)


def onnx_growing() -> bytes:
    """Two MatMul with an Expand between them, whose result of 48 MB is too large for malloc to keep (mallopt(3))."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["first"], "first"),
        make_node("Expand", ["one", "shape"], ["big"], "grow"),
        make_node("ReduceMax", ["big"], ["most"], "most", keepdims=0),
        make_node("MatMul", ["first", "w"], ["second"], "second"),
        make_node("Add", ["second", "most"], ["y"], "add"),
    ]
    shape = np.array([12_000, 1_000], np.int64)
    constants = {"w": noise(256, 256, scale=0.05), "one": np.ones(1, np.float32), "shape": shape}
    return _model({"x": [64, 256]}, nodes, {"y": [64, 256]}, constants)


def onnx_branch() -> bytes:
    """An If whose chosen branch holds a large MatMul: what it takes is in two events, of the If and of the MatMul."""
    then = helper.make_graph(
        [make_node("MatMul", ["x", "w"], ["big"], "inner")], "then", [], _infos({"big": [64, 256]})
    )
    otherwise = helper.make_graph([make_node("Identity", ["x"], ["same"])], "else", [], _infos({"same": [64, 256]}))
    nodes = [
        make_node("ReduceMax", ["x"], ["peak"], "peak", keepdims=0),
        make_node("Less", ["peak", "two"], ["is_small"], "less"),
        make_node("If", ["is_small"], ["chosen"], "if", then_branch=then, else_branch=otherwise),
        make_node("Relu", ["chosen"], ["y"], "relu"),
    ]
    return _model(
        {"x": [64, 256]},
        nodes,
        {"y": [64, 256]},
        {"w": noise(256, 256, scale=0.05), "two": np.array(2, np.float32)},
    )


def loop_of_products(steps: int, *, rows: int = 16, width: int = 128, unrolled: bool = False) -> bytes:
    """`steps` times a MatMul and a Tanh: in the body of a Loop, or `unrolled` one after the other."""
    weights = {"w": noise(width, width, scale=0.05)}
    if unrolled:
        nodes = []
        for step in range(steps):
            nodes.append(make_node("MatMul", [f"h{step}" if step else "x", "w"], [f"m{step}"], f"product{step}"))
            nodes.append(make_node("Tanh", [f"m{step}"], [f"h{step + 1}" if step + 1 < steps else "y"], f"bend{step}"))
        return _model({"x": [rows, width]}, nodes, {"y": [rows, width]}, weights)
    body = helper.make_graph(
        [
            make_node("MatMul", ["h", "w"], ["m"], "product"),
            make_node("Tanh", ["m"], ["bent"], "bend"),
            make_node("Identity", ["goes_on"], ["still"], "goes_on"),
        ],
        "body",
        _infos({"step": (INT64, []), "goes_on": (BOOL, []), "h": [rows, width]}),
        _infos({"still": (BOOL, []), "bent": [rows, width]}),
    )
    return _model(
        {"x": [rows, width]},
        [make_node("Loop", ["steps", "true", "x"], ["y"], "loop", body=body)],
        {"y": [rows, width]},
        {**weights, "steps": np.array(steps, np.int64), "true": np.array(True)},
    )


def onnx_many_inputs() -> bytes:
    """An input of every kind that can be fed, a rank-0 one among them; `total` is the sum of all their elements."""
    inputs: Infos = {
        "image": (FLOAT, [1, 3, 4, 4]),
        "tokens": (INT64, [8]),
        "mask": (BOOL, [8]),
        "levels": (TensorProto.INT8, [2, 5]),
        "pixels": (TensorProto.UINT8, [1, 6]),
        "step": (INT64, []),
    }
    nodes = []
    for name in inputs:
        nodes.append(make_node("Cast", [name], [f"{name}/float"], f"{name}/cast", to=FLOAT))
        nodes.append(make_node("ReduceSum", [f"{name}/float"], [f"{name}/sum"], f"{name}/sum", keepdims=0))
    nodes.append(make_node("Sum", [f"{name}/sum" for name in inputs], ["total"], "total"))
    return _model(inputs, nodes, {"total": []})


def onnx_dynamic() -> bytes:
    """Batch, height and width are free, and any will do: `x` [N,3,H,W] to `y` [N,8]."""
    return _model(
        {"x": ["N", 3, "H", "W"]},
        [
            make_node("Conv", ["x", "weights"], ["conv"], "conv", pads=[1, 1, 1, 1]),
            make_node("Relu", ["conv"], ["relu"], "relu"),
            make_node("GlobalAveragePool", ["relu"], ["pool"], "pool"),
            make_node("Flatten", ["pool"], ["y"], "flatten"),
        ],
        {"y": ["N", 8]},
        {"weights": noise(8, 3, 3, 3)},
    )


def onnx_zero_batch() -> bytes:
    """As some exporters write a free batch: as 0, in inputs, outputs and between. `x` [0,4,8] to `y` [0,4,8]."""
    return _model(
        {"x": [0, 4, 8]},
        [make_node("Mul", ["x", "factor"], ["scaled"], "scale"), make_node("Relu", ["scaled"], ["y"], "relu")],
        {"y": [0, 4, 8]},
        {"factor": noise(8)},
    )


def bfloat16_output() -> bytes:
    """`x` [1,4] to `y`, the same in bfloat16, which numpy lacks, and to `z`, a float32."""
    nodes = [
        make_node("Cast", ["x"], ["y"], "cast", to=TensorProto.BFLOAT16), make_node("Relu", ["x"], ["z"], "relu")
    ]  # fmt: skip
    return _model({"x": [1, 4]}, nodes, {"y": (TensorProto.BFLOAT16, [1, 4]), "z": [1, 4]})


def onnx_fixed_inside() -> bytes:
    """Declares a free batch, `x` [N,4,4], and reshapes to [1,16] all the same."""
    reshape = make_node("Reshape", ["x", "shape"], ["y"], "reshape")
    return _model({"x": ["N", 4, 4]}, [reshape], {"y": [1, 16]}, {"shape": np.array([1, 16])})


def onnx_embeddings() -> bytes:
    """As a text model begins: three inputs index tables of 300, 2 and 7 rows, one of them dequantised."""
    return _model(
        {name: (INT64, [1, 16]) for name in ("ids", "kinds", "places")},
        [
            make_node("Gather", ["words", "ids"], ["a"], "gather/ids"),
            make_node("Cast", ["kinds"], ["kinds32"], "cast", to=TensorProto.INT32),
            make_node("DequantizeLinear", ["kind_bytes", "scale"], ["kind_rows"], "dequantise"),
            make_node("Gather", ["kind_rows", "kinds32"], ["b"], "gather/kinds", axis=-2),
            make_node("Gather", ["place_columns", "places"], ["c"], "gather/places", axis=1),
            make_node("Add", ["a", "b"], ["y"], "add"),
        ],
        {"y": [1, 16, 8], "c": [8, 1, 16]},
        {
            "words": noise(300, 8), "place_columns": noise(8, 7),
            "kind_bytes": np.ones((2, 8), np.int8), "scale": np.array(0.5, np.float32),
        },
    )  # fmt: skip


def write_mapped(path: Path) -> None:
    """`x` [1,2300] to `y`, whose 106 MB of weights are a file beside it, which the runtime maps."""
    from onnx import load_from_string, save

    width, depth = 2300, 5
    names = ["x", *(f"layer{i}" for i in range(depth - 1)), "y"]
    nodes = [make_node("MatMul", [names[i], f"weights{i}"], [names[i + 1]], f"layer{i}") for i in range(depth)]
    weights = {f"weights{i}": noise(width, width, scale=1 / width, seed=i) for i in range(depth)}
    model = load_from_string(_model({"x": [1, width]}, nodes, {"y": [1, width]}, weights))
    beside = {"save_as_external_data": True, "location": path.with_suffix(".bin").name, "size_threshold": 0}
    save(model, path, **beside)


def onnx_needs_width(width: int) -> bytes:
    """Declares `x` [N,W] free, yet refuses at run time every W but `width`: a wrong assumption about a shape."""
    return _model(
        {"x": ["N", "W"]},
        [make_node("MatMul", ["x", "weights"], ["y"], "project")],
        {"y": ["N", 4]},
        {"weights": noise(width, 4)},
    )


def onnx_stateful() -> bytes:
    """A recurrent model as streaming ones are: `x` [1,1,8], state `h` and `c` in, `y`, `h_out` and `c_out` out."""
    state = [1, 1, 16]
    lstm = ["x", "weights", "recurrence", "bias", "", "h", "c"]
    return _model(
        {"x": [1, 1, 8], "h": state, "c": state},
        [make_node("LSTM", lstm, ["y", "h_out", "c_out"], "lstm", hidden_size=16)],
        {"y": [1, 1, 1, 16], "h_out": state, "c_out": state},
        {
            "weights": noise(1, 64, 8, scale=0.3),
            "recurrence": noise(1, 64, 16, scale=0.3, seed=1),
            "bias": noise(1, 128, scale=0.3, seed=2),
        },
    )


def onnx_string_input() -> bytes:
    """Takes text, `words` [3], which no generated input can be."""
    return _model(
        {"words": (STRING, [3])},
        [make_node("Identity", ["words"], ["same"], "same")],
        {"same": (STRING, [3])},
    )


def onnx_unknown_operator(name: str = "Frobnicate", domain: str = "com.example") -> bytes:
    """A valid file that no runtime can load, for want of the operator `domain`.`name`."""
    return _model(
        {"x": [1, 4]},
        [make_node(name, ["x"], ["y"], "mystery", domain=domain)],
        {"y": [1, 4]},
        domains={domain: 1},
    )


def onnx_gather() -> bytes:
    """Looks `index` [1] up in a table of 100 rows; an index from 100 up fails at run time, so that some runs do."""
    return _model(
        {"index": (INT64, [1])},
        [make_node("Gather", ["table", "index"], ["row"], "lookup", axis=0)],
        {"row": [1, 4]},
        {"table": noise(100, 4)},
    )


def onnx_hostile_names() -> bytes:
    """Names that are markup, terminal escapes and line breaks, for whatever shows or stores them."""
    return _model(
        {HOSTILE_INPUT: [1, 4]},
        [
            make_node("Add", [HOSTILE_INPUT, "one"], ["[input]:0"], HOSTILE_NODE),
            make_node("Relu", ["[input]:0"], [HOSTILE_OUTPUT], "[link=file:///etc/passwd]relu"),
        ],
        {HOSTILE_OUTPUT: [1, 4]},
        {"one": np.ones(1, np.float32)},
    )


def onnx_quantised() -> bytes:
    """A quantised layer in the QDQ form exporters write, int8 throughout: `x` [1,32] to `y` [1,8], both float.

    Weights have 7 bits: on x86-64 without VNNI the sum of two products of 8 bits saturates in ONNX Runtime's kernels
    (onnxruntime.ai/docs/performance/model-optimizations/quantization.html, "Data type selection").
    """
    constants: dict[str, Array] = {
        "scale": np.array(1 / 64, np.float32),
        "zero": np.array(0, np.int8),
        "weights/int8": (noise(32, 8) * 63).astype(np.int8),
        "weights/scale": np.array(1 / 63, np.float32),
    }
    return _model(
        {"x": [1, 32]},
        [
            make_node("QuantizeLinear", ["x", "scale", "zero"], ["x/int8"], "x/quantise"),
            make_node("DequantizeLinear", ["x/int8", "scale", "zero"], ["x/float"], "x/dequantise"),
            make_node("DequantizeLinear", ["weights/int8", "weights/scale", "zero"], ["weights"], "weights/dequantise"),
            make_node("MatMul", ["x/float", "weights"], ["product"], "matmul"),
            make_node("QuantizeLinear", ["product", "scale", "zero"], ["y/int8"], "y/quantise"),
            make_node("DequantizeLinear", ["y/int8", "scale", "zero"], ["y"], "y/dequantise"),
        ],
        {"y": [1, 8]},
        constants,
    )
