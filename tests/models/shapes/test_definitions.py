"""Rules against what ONNX's own reference gives for its own test cases, and against ONNX Runtime's inference."""

import importlib
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from edgetop.models.definitions import ONNX
from edgetop.models.shape_inference import with_shapes
from tests.support.model_files import one_node, read

FLOAT, INT8, UINT8, INT32, INT64 = (getattr(TensorProto, name) for name in ("FLOAT", "INT8", "UINT8", "INT32", "INT64"))

# Modules of ONNX's test cases. Those of pools, which take seconds to make, are left out: see below.
MODULES = """
add argmax cast clip concat constantofshape conv convinteger convtranspose cumsum depthtospace dequantizelinear
dropout dynamicquantizelinear einsum equal erf expand eyelike flatten gather gatherelements gathernd gemm
globalaveragepool gridsample groupnormalization gru hardswish identity instance_normalization isnan
layernormalization lrn lstm matmul matmulinteger max mod neg pad pow qlinearconv qlinearmatmul quantizelinear
rangeop reducemean reducesum reshape resize rnn roialign scatternd shape size slice softmax spacetodepth split
squeeze sub sum tile topk transpose unsqueeze where
""".split()  # noqa: SIM905  a list would fill as many lines as it has names


def cases_of(module):
    """ONNX's test cases of one module: models with their inputs and outputs."""
    node = importlib.import_module("onnx.backend.test.case.node")
    before = len(node._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, where a case computes with infinities
        importlib.import_module(f"{node.__name__}.{module}")
    return [case for case in node._NodeTestCases[before:] if case.data_sets]


def shape_and_dtype(value):
    if isinstance(value, TensorProto):
        return tuple(value.dims), None
    array = np.asarray(value)
    return array.shape, array.dtype.name if array.dtype.kind in "fiub" else None


def settled(case):
    """The case's model without what it says of outputs, worked out; small whole numbers are made constants."""
    inputs, _ = case.data_sets[0]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    shapes = {}
    for info, value in zip(model.graph.input, inputs, strict=False):
        array = None if isinstance(value, TensorProto | list) else np.asarray(value)
        steers = array is not None and (array.dtype.kind in "iub" or info.name in {"scales", "start", "limit", "delta"})
        if steers and array.size < 100:
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
        elif not isinstance(value, list):
            shapes[info.name] = shape_and_dtype(value)[0]
    for output in model.graph.output:
        output.ClearField("type")
    return with_shapes(read(model.SerializeToString()), shapes).graph


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_shapes_dtypes_and_values_are_those_of_onnx_own_cases(module):
    checked = 0
    for case in cases_of(module):
        graph = settled(case)
        for place, want in zip(graph.outputs, case.data_sets[0][1], strict=False):
            tensor = graph.tensors[place]
            if tensor.shape is None or None in tensor.shape:
                continue
            shape, dtype = shape_and_dtype(want)
            assert tensor.shape == shape, case.name
            assert dtype is None or tensor.dtype == dtype, case.name
            if tensor.value is not None and dtype is not None:
                np.testing.assert_allclose(tensor.value, want, err_msg=case.name)
            checked += 1
    assert checked


WINDOWS = [
    {"kernel_shape": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [0, 1, 1, 0], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "auto_pad": "VALID"},
]


@pytest.mark.parametrize("side", [7, 8, 13])
@pytest.mark.parametrize("attributes", WINDOWS)
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_pools_are_as_large_as_onnx_runtime_makes_them(op_type, attributes, side):
    opset = 17 if op_type != "LpPool" else 22
    content = one_node(op_type, {"x": ([1, 3, side, side], FLOAT)}, opset=opset, **attributes)
    run = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run
    assert first_output(content) == run(None, {"x": np.zeros((1, 3, side, side), np.float32)})[0].shape


def first_output(content):
    model = read(content)
    graph = model.graph
    shapes = {graph.tensors[place].name: graph.tensors[place].shape for place in graph.inputs}
    settled_graph = with_shapes(model, shapes).graph
    return settled_graph.tensors[settled_graph.outputs[0]].shape


def floats(*shape):
    return shape, FLOAT


SCALE, ZERO = {"s": np.float32(0.1)}, {"z": np.uint8(3)}

# Of com.microsoft: type, inputs, constants, attributes.
CONTRIBUTED = {
    "FusedMatMul": ({"a": floats(2, 3, 4), "b": floats(2, 5, 4)}, {}, {"transB": 1}),
    "FusedConv": ({"x": floats(1, 4, 9, 9), "w": floats(6, 4, 3, 3)}, {}, {"activation": "Relu", "strides": [2, 2]}),
    "FusedGemm": ({"a": floats(2, 3), "b": floats(3, 4), "c": floats(4)}, {}, {"activation": "Relu"}),
    "BiasGelu": ({"x": floats(2, 8), "b": floats(8)}, {}, {}),
    "FastGelu": ({"x": floats(2, 8)}, {}, {}),
    "QuickGelu": ({"x": floats(2, 8)}, {}, {}),
    "SkipLayerNormalization": ({"x": floats(2, 5, 8), "skip": floats(2, 5, 8), "g": floats(8)}, {}, {}),
    "Attention": (
        {"x": floats(2, 5, 8), "w": floats(8, 24), "b": floats(24)},
        {"w": np.zeros((8, 24), np.float32), "b": np.zeros(24, np.float32)},
        {"num_heads": 2},
    ),
    "MultiHeadAttention": ({"q": floats(2, 5, 8), "k": floats(2, 7, 8), "v": floats(2, 7, 6)}, {}, {"num_heads": 2}),
    "QLinearAdd": (
        {"a": ((2, 3), UINT8), "as": floats(), "az": ((), UINT8), "b": ((4, 1, 3), UINT8), "bs": floats(),
         "bz": ((), UINT8), "cs": floats(), "cz": ((), UINT8)},
        {**{key: np.float32(0.1) for key in ("as", "bs", "cs")}, **{key: np.uint8(3) for key in ("az", "bz", "cz")}},
        {},
    ),
    "QLinearGlobalAveragePool": (
        {"x": ((1, 7, 7, 4), UINT8), "s": floats(), "z": ((), UINT8), "ys": floats(), "yz": ((), UINT8)},
        SCALE | ZERO | {"ys": np.float32(0.1), "yz": np.uint8(3)},
        {"channels_last": 1},
    ),
    "QLinearConcat": (
        {"s": floats(), "z": ((), UINT8), "a": ((2, 3), UINT8), "as": floats(), "az": ((), UINT8),
         "b": ((2, 5), UINT8), "bs": floats(), "bz": ((), UINT8)},
        SCALE | ZERO | {"as": np.float32(0.1), "az": np.uint8(3), "bs": np.float32(0.1), "bz": np.uint8(3)},
        {"axis": 1},
    ),
    "DynamicQuantizeMatMul": (
        {"a": floats(2, 3), "b": ((3, 4), INT8), "s": floats(), "z": ((), INT8)},
        {"b": np.zeros((3, 4), np.int8), "s": np.float32(0.1), "z": np.int8(0)},
        {},
    ),
    "MatMulNBits": (
        {"a": floats(2, 3, 32), "b": ((6, 1, 16), UINT8), "s": floats(6)},
        {"b": np.zeros((6, 1, 16), np.uint8), "s": np.ones(6, np.float32)},
        {"K": 32, "N": 6, "bits": 4, "block_size": 32},
    ),
}  # fmt: skip


@pytest.mark.parametrize("op_type", CONTRIBUTED)
def test_contrib_operators_have_the_shapes_onnx_runtime_infers(op_type):
    inputs, constants, attributes = CONTRIBUTED[op_type]
    content = one_node(op_type, inputs, constants=constants, domain="com.microsoft", **attributes)
    theirs = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).get_outputs()[0].shape
    assert list(first_output(content)) == theirs


def test_every_rule_is_of_an_operator_that_exists():
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    contributed = {name for name, op in ONNX.items() if op.sizes} - known
    assert contributed <= set(CONTRIBUTED) | {
        "EmbedLayerNormalization", "GroupNorm", "GroupQueryAttention", "MatMulIntegerToFloat", "QAttention", "QGemm",
        "QLinearAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", "QLinearSoftmax",
        "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "shape", "attributes"),
    [
        ("Conv", [1, 3, 2, 2], {"kernel_shape": [3, 3]}),
        ("Transpose", [2, 3], {"perm": [0, 7]}),
        ("Concat", [2, 3], {"axis": 9}),
        ("MaxPool", [1, 1, 4, 4], {"kernel_shape": [2, 2], "strides": [0, 0]}),
        ("Flatten", [2, 3], {"axis": "one"}),
    ],
)
def test_a_node_that_breaks_its_own_rule_is_unknown(op_type, shape, attributes):
    inputs = {"x": (shape, FLOAT)} | ({"w": ([4, 3, 3, 3], FLOAT)} if op_type == "Conv" else {})
    assert first_output(one_node(op_type, inputs, **attributes)) is None
