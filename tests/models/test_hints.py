import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node, make_tensor_value_info

from edgetop.models.graph import input_names
from edgetop.models.hints import hints
from edgetop.models.inspection import inspected
from tests.support import onnx_models, tflite_models
from tests.support.built_models.tflite_file import TfliteFile, table
from tests.support.model_files import light, model_of, read

FLOAT = TensorProto.FLOAT


def hints_of(content):
    """Code to message."""
    model = read(content)
    shapes = {
        name: [dim if isinstance(dim, int) else 1 for dim in model.graph.tensors[place].shape]
        for name, place in zip(input_names(model), model.graph.inputs, strict=True)
    }
    return {notice.code: notice.message for notice in hints(inspected(model, shapes))}


def onnx(*nodes, constants=None, shape=(1, 4, 8, 8), outputs=("y",), dtype=FLOAT):
    return model_of(nodes, [make_tensor_value_info("x", dtype, shape)], outputs, constants)


KERNEL = {"w": np.zeros((4, 4, 1, 1), np.float32)}
CONV = make_node("Conv", ["x", "w"], ["c"], "stem")


@pytest.mark.parametrize("content", [light("squeezenet"), tflite_models.tflite_mobile(), tflite_models.tflite_int8()])
def test_a_model_as_it_should_be_gets_none(content):
    assert hints_of(content) == {}


@pytest.mark.parametrize("activation", ["HardSwish", "Elu", "Softplus"])
def test_an_activation_that_no_convolution_takes_in_is_named(activation):
    found = hints_of(onnx(CONV, make_node(activation, ["c"], ["y"]), constants=KERNEL))
    assert "stem" in found["separate-activations"]


def test_a_convolution_read_by_others_keeps_its_activation_apart():
    nodes = (CONV, make_node("Sigmoid", ["c"], ["s"]), make_node("Mul", ["c", "s"], ["y"]))
    assert "stem" in hints_of(onnx(*nodes, constants=KERNEL))["separate-activations"]


def test_a_batch_norm_between_them_is_looked_through():
    norm = make_node("BatchNormalization", ["c", *"abde"], ["n"])
    constants = KERNEL | {name: np.ones(4, np.float32) for name in "abde"}
    assert hints_of(onnx(CONV, norm, make_node("Relu", ["n"], ["y"]), constants=constants)) == {}
    assert hints_of(onnx(CONV, norm, make_node("Elu", ["n"], ["y"]), constants=constants))


def tflite_chain(*steps):
    """Operators one after the other, as (type, options)."""
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    places = [graph.add_tensor(f"t{number}", [1, 16]) for number in range(len(steps) + 1)]
    for number, (op_type, options) in enumerate(steps):
        inputs = [places[number]] * (2 if op_type == "ADD" else 1)
        graph.add_operator(op_type, options, inputs, [places[number + 1]])
    graph.set_signature([places[0]], [places[-1]])
    return file.serialise()


def test_a_tflite_activation_that_could_be_fused_is_reported():
    found = hints_of(tflite_chain(("ADD", table("AddOptions")), ("RELU", None)))
    assert "t1" in found["separate-activations"]
    assert hints_of(tflite_chain(("ADD", table("AddOptions", fusedActivationFunction=1)), ("ABS", None))) == {}


def test_a_tflite_activation_stays_apart_if_others_read_first():
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    x, added, y, z = (graph.add_tensor(name, [1, 16]) for name in ("x", "added", "y", "z"))
    graph.add_operator("ADD", table("AddOptions"), [x, x], [added])
    graph.add_operator("RELU", None, [added], [y])
    graph.add_operator("ABS", None, [added], [z])
    graph.set_signature([x], [y, z])
    assert hints_of(file.serialise()) == {}


def test_conversions_are_told_with_their_share_of_the_bytes():
    nodes = (make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), make_node("Relu", ["h"], ["y"]))
    found = hints_of(onnx(*nodes))
    assert "1 conversion of dtypes" in found["conversions"]
    assert "Cast 1" in found["conversions"]
    assert "60.0 %" in found["conversions"]  # 4 + 2 bytes an element, beside Relu's 2 + 2


def test_pairs_that_only_say_how_to_quantise_are_no_conversions():
    found = hints_of(onnx_models.onnx_quantised())
    assert "conversions" not in found


def test_integer_weights_on_float_activations_are_told():
    nodes = (
        make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        make_node("MatMulInteger", ["q", "w", "z"], ["i"], "product"),
        make_node("Cast", ["i"], ["y"], to=FLOAT),
    )
    found = hints_of(onnx(*nodes, constants={"w": np.zeros((8, 8), np.int8)}, shape=(8, 8)))
    assert "MatMulInteger 1" in found["dynamic-range"]


@pytest.mark.parametrize(("accuracy_level", "is_told"), [(0, False), (4, True)])
def test_weights_in_blocks_leave_activations_as_they_are_unless_asked(accuracy_level, is_told):
    blocks = {"K": 32, "N": 4, "bits": 4, "block_size": 32, "accuracy_level": accuracy_level}
    product = make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **blocks)
    constants = {"w": np.zeros((4, 1, 16), np.uint8), "s": np.ones(4, np.float32)}
    assert ("dynamic-range" in hints_of(onnx(product, constants=constants, shape=(2, 32)))) == is_told


def test_tflite_hybrid_operators_are_told():
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    x, y = graph.add_tensor("x", [1, 8]), graph.add_tensor("y", [1, 4])
    weights = graph.add_tensor("w", [4, 8], data=np.zeros((4, 8), np.int8))
    graph.add_operator("FULLY_CONNECTED", table("FullyConnectedOptions"), [x, weights, -1], [y])
    graph.set_signature([x], [y])
    assert "FULLY_CONNECTED 1" in hints_of(file.serialise())["dynamic-range"]


@pytest.mark.parametrize(("dtype", "name"), [(TensorProto.DOUBLE, "float64"), (TensorProto.INT64, "int64")])
def test_wide_dtypes_are_told(dtype, name):
    assert name in hints_of(onnx(make_node("Abs", ["x"], ["y"]), dtype=dtype))["wide-dtype"]


def test_open_sizes_are_told():
    assert "x" in hints_of(onnx(make_node("Relu", ["x"], ["y"]), shape=("N", 3)))["open-shapes"]


def test_a_single_number_has_no_open_size():
    assert "open-shapes" not in hints_of(onnx(make_node("Relu", ["x"], ["y"]), shape=()))


def test_work_that_is_not_known_makes_totals_lower_bounds():
    nodes = (make_node("Frob", ["x"], ["z"], domain="com.example"), make_node("Relu", ["x"], ["y"]))
    assert "Frob 1" in hints_of(onnx(*nodes))["unknown-work"]


def test_every_hint_carries_advice():
    model = read(onnx(make_node("Frob", ["x"], ["y"], domain="com.example"), shape=("N", 3)))
    found = hints(inspected(model, {"x": (1, 3)}))
    assert len(found) == 2
    assert all(notice.advice for notice in found)
