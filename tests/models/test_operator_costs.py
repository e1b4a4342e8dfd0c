import numpy as np
import onnx
import pytest
from onnx import TensorProto, ValueInfoProto, helper
from onnx.helper import make_node, make_tensor_value_info

from edgetop.models.graph import input_names
from edgetop.models.operator_costs import costs
from edgetop.models.shape_inference import with_shapes
from tests.support.built_models.tflite_file import TfliteFile, table
from tests.support.model_files import model_of, one_node, read

FLOAT, INT8, UINT8, INT32, INT64 = (getattr(TensorProto, name) for name in ("FLOAT", "INT8", "UINT8", "INT32", "INT64"))


def all_costs(content):
    model = read(content)
    shapes = {
        name: model.graph.tensors[place].shape
        for name, place in zip(input_names(model), model.graph.inputs, strict=True)
    }
    return costs(with_shapes(model, shapes))


def cost(op_type, inputs, **more):
    return all_costs(one_node(op_type, inputs, **more))[-1]


def floats(*shape):
    return shape, FLOAT


IMAGE = floats(2, 4, 10, 10)

# Multiply-accumulates and FLOPs worked out by hand.
BY_HAND = {
    "convolution with bias": (
        "Conv", {"x": IMAGE, "w": floats(8, 4, 3, 3), "b": floats(8)}, {}, 2 * 8 * 64 * 36, 2 * 8 * 64 * (72 + 1)
    ),
    "grouped convolution": ("Conv", {"x": IMAGE, "w": floats(8, 2, 3, 3)}, {"group": 2}, 2 * 8 * 64 * 18, None),
    "depthwise convolution": ("Conv", {"x": IMAGE, "w": floats(4, 1, 3, 3)}, {"group": 4}, 2 * 4 * 64 * 9, None),
    "strided and dilated": (
        "Conv", {"x": IMAGE, "w": floats(8, 4, 3, 3)}, {"strides": [2, 2], "dilations": [2, 2]}, 2 * 8 * 9 * 36, None
    ),
    "transposed convolution": (
        "ConvTranspose", {"x": IMAGE, "w": floats(4, 6, 2, 2)}, {"strides": [2, 2]}, 2 * 4 * 100 * 6 * 4, None
    ),
    "matrix product": ("MatMul", {"a": floats(5, 2, 3), "b": floats(3, 4)}, {}, 5 * 2 * 3 * 4, 2 * 5 * 2 * 3 * 4),
    "turned matrices": (
        "Gemm", {"a": floats(3, 2), "b": floats(4, 3), "c": floats(4)}, {"transA": 1, "transB": 1}, 24, 2 * 24 + 8
    ),
    "einsum": ("Einsum", {"a": floats(2, 3, 4), "b": floats(2, 4, 5)}, {"equation": "bij,bjk->bik"}, 120, 240),
    "lstm": (
        "LSTM", {"x": floats(7, 2, 3), "w": floats(1, 20, 3), "r": floats(1, 20, 5)}, {"hidden_size": 5},
        7 * 2 * 20 * (3 + 5), 2 * 7 * 2 * 20 * 8 + 7 * 2 * 5 * 17,
    ),
    "add with broadcasting": ("Add", {"a": floats(2, 1), "b": floats(1, 3)}, {}, 0, 6),
    "sum of three": ("Sum", {"a": floats(4), "b": floats(4), "c": floats(4)}, {}, 0, 8),
    "relu": ("Relu", {"x": floats(2, 3)}, {}, 0, 6),
    "softmax": ("Softmax", {"x": floats(2, 3)}, {}, 0, 30),
    "batch normalisation": ("BatchNormalization", {"x": IMAGE, **{n: floats(4) for n in "sbmv"}}, {}, 0, 2 * 800),
    "max pool": ("MaxPool", {"x": IMAGE}, {"kernel_shape": [3, 3]}, 0, 9 * 2 * 4 * 64),
    "global pool": ("GlobalAveragePool", {"x": IMAGE}, {}, 0, 800),
    "sum over axes": ("ReduceMax", {"x": floats(2, 6)}, {"axes": [1]}, 0, 10),
    "transpose": ("Transpose", {"x": floats(2, 3)}, {}, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_the_work_is_what_a_hand_reckons(case):
    op_type, inputs, attributes, macs, flops = BY_HAND[case]
    found = cost(op_type, inputs, opset=13, **attributes)
    assert found.macs == macs
    assert found.flops == (2 * macs if flops is None else flops)


def test_attention_counts_projections_scores_and_weighted_values():
    inputs = {"x": floats(2, 5, 8), "w": floats(8, 24), "b": floats(24)}
    found = cost("Attention", inputs, domain="com.microsoft", num_heads=2)
    assert found.macs == 2 * 5 * 8 * 24 + 2 * (2 * 5 * 5 * 8)


def test_quantised_convolutions_do_as_much_as_others():
    zeros = {
        "xs": np.float32(1),
        "xz": np.uint8(0),
        "ws": np.float32(1),
        "wz": np.uint8(0),
        "ys": np.float32(1),
        "yz": np.uint8(0),
    }
    weights = {"w": np.zeros((8, 4, 3, 3), np.uint8), "b": np.zeros(8, np.int32)}
    names = ("x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b")
    inputs = dict.fromkeys(names, ((2, 4, 10, 10), UINT8))
    found = cost("QLinearConv", inputs, constants=zeros | weights)
    assert (found.macs, found.dtype, found.weights_dtype) == (2 * 8 * 64 * 36, "uint8", "uint8")
    assert found.parameters == 8 * 36 + 8 + 6  # weights, int32 biases, scales and zero points


def test_bytes_are_inputs_weights_and_outputs_by_their_dtypes():
    found = cost("MatMul", {"a": floats(2, 3), "b": floats(3, 4)}, constants={"b": np.zeros((3, 4), np.float32)})
    assert (found.read_bytes, found.written_bytes, found.weights_bytes) == (4 * (6 + 12), 4 * 8, 4 * 12)
    assert found.intensity == pytest.approx(48 / 104)
    assert cost("Relu", {"x": ((2, 3), TensorProto.FLOAT16)}).bytes == 2 * 12
    assert cost("Identity", {"x": ((3, 3), TensorProto.INT4)}, opset=21).dtype == "int4"


def test_views_move_nothing():
    assert cost("Flatten", {"x": floats(2, 3, 4)}).bytes == 0
    shape = {"shape": np.array([6], np.int64)}
    assert cost("Reshape", {"x": floats(2, 3), "shape": ((1,), INT64)}, constants=shape).bytes == 0


def test_a_lookup_reads_what_it_takes_and_not_the_table():
    found = cost("Gather", {"table": floats(30_000, 8), "ids": ((5,), INT64)})
    assert found.bytes == 2 * 5 * 8 * 4 + 5 * 8


def test_what_is_computed_at_load_costs_nothing_later():
    nodes = [make_node("Transpose", ["w"], ["turned"]), make_node("MatMul", ["x", "turned"], ["y"])]
    inputs = [make_tensor_value_info("x", FLOAT, [1, 3])]
    folded, product = all_costs(model_of(nodes, inputs, ["y"], {"w": np.zeros((4, 3), np.float32)}))
    assert (folded.is_folded, folded.flops, folded.bytes) == (True, 0, 0)
    assert (product.parameters, product.weights_dtype) == (12, "float32")


def test_shapes_and_indices_are_no_parameters():
    constants = {"shape": np.array([3, 2], np.int64)}
    assert cost("Reshape", {"x": floats(2, 3), "shape": ((2,), INT64)}, constants=constants).parameters == 0


@pytest.mark.parametrize("domain", ["com.example", "ai.onnx.ml"])
def test_an_unknown_operator_has_no_cost_rather_than_none_at_all(domain):
    found = cost("MatMul", {"a": floats(2, 3), "b": floats(3, 4)}, domain=domain)
    assert (found.macs, found.flops, found.bytes, found.intensity) == (None, None, None, None)


def test_what_an_operator_with_graphs_inside_moves_is_unknown():
    inner = helper.make_graph([make_node("Relu", ["x"], ["r"])], "then", [], [ValueInfoProto(name="r")])
    node = make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    infos = [make_tensor_value_info("c", TensorProto.BOOL, []), make_tensor_value_info("x", FLOAT, [3])]
    model = onnx.load_from_string(model_of([node], infos, ["y"]))
    model.graph.output[0].CopyFrom(make_tensor_value_info("y", FLOAT, [3]))
    (found,) = all_costs(model.SerializeToString())
    assert (found.flops, found.bytes) == (None, None)


def test_work_of_an_unknown_size_is_unknown():
    nodes = [
        make_node("NonZero", ["x"], ["where"]),
        make_node("Cast", ["where"], ["f"], to=FLOAT),
        make_node("Relu", ["f"], ["y"]),
    ]
    found = all_costs(model_of(nodes, [make_tensor_value_info("x", FLOAT, [9])], ["y"]))[-1]
    assert (found.macs, found.flops, found.bytes) == (0, None, None)


def test_an_absurd_amount_is_unknown():
    found = cost("MatMul", {"a": floats(2**21, 2**21), "b": floats(2**21, 2**21)})
    assert found.flops is None


def tflite(op_type, options, shapes, outputs=((1,),), constants=()):
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    places = [
        graph.add_tensor(f"in{i}", shape, data=np.zeros(shape, np.float32) if i in constants else None)
        for i, shape in enumerate(shapes)
    ]
    given = [graph.add_tensor(f"out{i}", shape) for i, shape in enumerate(outputs)]
    graph.add_operator(op_type, options, places, given)
    graph.set_signature([place for i, place in enumerate(places) if i not in constants], given)
    return all_costs(file.serialise())[0]


TFLITE = {
    "convolution": ("CONV_2D", "Conv2DOptions", [(1, 8, 8, 4), (6, 3, 3, 4), (6,)], (1, 6, 6, 6), 36 * 6 * 36, 36 * 6),
    "depthwise": (
        "DEPTHWISE_CONV_2D",
        "DepthwiseConv2DOptions",
        [(1, 8, 8, 4), (1, 3, 3, 8), (8,)],
        (1, 6, 6, 8),
        36 * 8 * 9,
        36 * 8,
    ),
    "transposed": (
        "TRANSPOSE_CONV",
        "TransposeConvOptions",
        [(4,), (6, 2, 2, 4), (1, 8, 8, 4)],
        (1, 16, 16, 6),
        64 * 4 * 24,
        0,
    ),
    "fully connected": ("FULLY_CONNECTED", "FullyConnectedOptions", [(2, 12), (5, 12), (5,)], (2, 5), 2 * 12 * 5, 10),
    "products": ("BATCH_MATMUL", "BatchMatMulOptions", [(3, 2, 4), (3, 4, 5)], (3, 2, 5), 3 * 2 * 4 * 5, 0),
}


@pytest.mark.parametrize("case", TFLITE)
def test_tflite_operators_work_as_a_hand_reckons(case):
    op_type, options, shapes, out, macs, bias = TFLITE[case]
    found = tflite(op_type, table(options), shapes, [out])
    assert (found.macs, found.flops) == (macs, 2 * macs + bias)


def test_a_fused_activation_counts_as_one_of_its_own():
    options = table("Conv2DOptions", fusedActivationFunction=1)
    shapes = [(1, 8, 8, 4), (6, 3, 3, 4), (6,)]
    with_it, without = (tflite("CONV_2D", given, shapes, [(1, 6, 6, 6)]) for given in (options, table("Conv2DOptions")))
    assert with_it.flops - without.flops == 36 * 6


def test_the_precision_of_weights_is_the_stored_one():
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    half = graph.add_tensor("half", [5, 12], data=np.zeros((5, 12), np.float16))
    x, weights, y = (
        graph.add_tensor(name, shape) for name, shape in (("x", [1, 12]), ("weights", [5, 12]), ("y", [1, 5]))
    )
    graph.add_operator("DEQUANTIZE", None, [half], [weights])
    graph.add_operator("FULLY_CONNECTED", table("FullyConnectedOptions"), [x, weights, -1], [y])
    graph.set_signature([x], [y])
    dequantise, product = all_costs(file.serialise())
    assert dequantise.is_folded
    assert (product.dtype, product.weights_dtype, product.weights_bytes) == ("float32", "float16", 240)


@pytest.mark.parametrize("op_type", ["TopK", "NonMaxSuppression", "Unique"])
def test_selecting_is_no_work_and_makes_no_total_a_lower_bound(op_type):
    found = cost(op_type, {"x": floats(4, 7), "k": ((1,), INT64)})
    assert (found.macs, found.flops) == (0, 0)


@pytest.mark.parametrize("op_type", ["RoiAlign", "RandomNormalLike", "DFT"])
def test_operators_without_products_have_no_macs(op_type):
    found = cost(op_type, {"x": floats(1, 2, 8, 8)})
    assert (found.macs, found.flops) == (0, None)


def test_an_operator_of_another_domain_has_unknown_macs():
    found = cost("TopK", {"x": floats(4, 7)}, domain="com.example")
    assert (found.macs, found.flops) == (None, None)


def test_a_transform_counts_by_its_points():
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    x = graph.add_tensor("x", [6, 1, 8], "float32")
    lengths = graph.add_tensor("lengths", [2], data=np.array([1, 8], np.int32))
    y = graph.add_tensor("y", [6, 1, 5], "complex64")
    graph.add_operator("RFFT2D", None, [x, lengths], [y])
    graph.set_signature([x], [y])
    (transform,) = all_costs(file.serialise())
    assert (transform.macs, transform.flops) == (0, 6 * 2.5 * 8 * 3)
