from pathlib import Path

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnx import TensorProto, shape_inference
from onnx.helper import make_node, make_tensor_value_info
from onnxruntime import InferenceSession

import edgetop.demo
from edgetop.engines.child.adapters.tflite import _by_name
from edgetop.models.graph import input_names
from edgetop.models.onnx_values import DTYPES
from edgetop.models.shape_inference import with_shapes
from tests.support import onnx_models, tflite_models
from tests.support.built_models.tflite_file import TfliteFile
from tests.support.model_files import LIGHT_MODELS, light, model_of, one_node, read

DEMO = Path(edgetop.demo.__file__).parent
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def settled(content, **shapes):
    model = read(content)
    given = {
        name: shapes.get(name, model.graph.tensors[place].shape)
        for name, place in zip(input_names(model), model.graph.inputs, strict=True)
    }
    return with_shapes(model, given).graph


def found(graph, name):
    return next(tensor for tensor in graph.tensors if tensor.name == name)


def theirs(content):
    """What onnx.shape_inference finds: name to shape and dtype."""
    inferred = shape_inference.infer_shapes(onnx.load_from_string(content), data_prop=True).graph
    return {
        info.name: (
            tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim),
            DTYPES[info.type.tensor_type.elem_type],
        )
        for info in (*inferred.value_info, *inferred.output)
    }


@pytest.mark.parametrize("name", [*LIGHT_MODELS, "demo"])
def test_every_shape_and_dtype_is_that_of_onnx_own_inference(name):
    content = (DEMO / "demo.onnx").read_bytes() if name == "demo" else light(name)
    tensors = {tensor.name: (tensor.shape, tensor.dtype) for tensor in settled(content).tensors}
    expected = theirs(content)
    assert len(expected) >= len(read(content).graph.operators)
    assert {key: tensors[key] for key in expected} == expected


def test_shapes_that_a_model_computes_are_followed():
    """What PyTorch exports for `x.view(x.size(0), -1)`, `x.size(2) // 2` and the like."""
    nodes = [
        make_node("Shape", ["x"], ["sizes"]),
        make_node("Gather", ["sizes", "first"], ["batch"], axis=0),
        make_node("Unsqueeze", ["batch", "axis"], ["batch1"]),
        make_node("Concat", ["batch1", "rest"], ["wanted"], axis=0),
        make_node("Reshape", ["x", "wanted"], ["flat"]),
        make_node("Slice", ["sizes", "two", "four"], ["sides"]),
        make_node("Div", ["sides", "two"], ["halves"]),
        make_node("Cast", ["halves"], ["float_halves"], to=FLOAT),
        make_node("Cast", ["float_halves"], ["whole_halves"], to=INT64),
        make_node("Concat", ["batch1", "three", "whole_halves"], ["target"], axis=0),
        make_node("Resize", ["x", "", "", "target"], ["y"], mode="linear"),
        make_node("ConstantOfShape", ["target"], ["zeros"]),
    ]
    numbers = {"first": 0, "axis": [0], "rest": [-1], "two": [2], "four": [4], "three": [3]}
    constants = {name: np.array(number, np.int64) for name, number in numbers.items()}
    inputs = [make_tensor_value_info("x", FLOAT, ["N", 3, "H", "W"])]
    graph = settled(model_of(nodes, inputs, ["flat", "y", "zeros"], constants), x=(2, 3, 10, 8))
    assert [found(graph, name).shape for name in ("flat", "y", "zeros")] == [(2, 240), (2, 3, 5, 4), (2, 3, 5, 4)]


def test_names_of_sizes_hold_in_what_the_file_declares():
    content = onnx_models.onnx_unknown_operator()
    model = onnx.load_from_string(content)
    model.graph.input[0].CopyFrom(make_tensor_value_info("x", FLOAT, ["N", 3]))
    model.graph.output[0].CopyFrom(make_tensor_value_info("y", FLOAT, ["N", "other", 7]))
    graph = settled(model.SerializeToString(), x=(5, 3))
    assert graph.tensors[graph.outputs[0]].shape == (5, None, 7)


def test_a_name_that_inputs_use_for_unlike_sizes_says_nothing():
    inputs = [make_tensor_value_info(name, FLOAT, ["?", "?"]) for name in ("x",)]
    model = onnx.load_from_string(model_of([make_node("Frob", ["x"], ["y"], domain="com.example")], inputs, ["y"]))
    model.graph.output[0].CopyFrom(make_tensor_value_info("y", FLOAT, ["?"]))
    graph = settled(model.SerializeToString(), x=(2, 3))
    assert graph.tensors[graph.outputs[0]].shape == (None,)


def test_an_unknown_operator_gives_what_is_not_known():
    nodes = [make_node("Frob", ["x"], ["z"], domain="com.example"), make_node("Relu", ["z"], ["y"])]
    graph = settled(model_of(nodes, [make_tensor_value_info("x", FLOAT, [1, 3])], ["y"]))
    assert (found(graph, "z").shape, found(graph, "z").dtype, found(graph, "y").shape) == (None, None, None)


def test_an_operator_of_another_domain_is_not_taken_for_onnx_own():
    content = one_node("Relu", {"x": ([1, 3], FLOAT)}, domain="com.example")
    assert found(settled(content), "out0").shape is None


def test_how_many_elements_differ_from_zero_is_not_known():
    nodes = [make_node("NonZero", ["x"], ["where"]), make_node("Transpose", ["where"], ["y"], perm=[1, 0])]
    graph = settled(model_of(nodes, [make_tensor_value_info("x", FLOAT, [2, 3])], ["y"]))
    assert found(graph, "y").shape == (None, 2)


def test_what_follows_from_constants_alone_is_constant():
    graph = settled(light("squeezenet"))
    weights = found(graph, "conv1_w_0")
    assert (weights.is_constant, weights.shape) == (True, (64, 3, 3, 3))
    assert not found(graph, "softmaxout_1").is_constant


def test_dequantised_weights_are_made_in_every_inference():
    nodes = [make_node("DequantizeLinear", ["w", "s"], ["weights"]), make_node("MatMul", ["x", "weights"], ["y"])]
    constants = {"w": np.zeros((3, 4), np.int8), "s": np.float32(0.1)}
    graph = settled(model_of(nodes, [make_tensor_value_info("x", FLOAT, [1, 3])], ["y"], constants))
    weights = found(graph, "weights")
    assert (weights.is_constant, weights.dtype, weights.shape) == (False, "float32", (3, 4))


@pytest.mark.parametrize("op_type", ["RandomNormalLike", "Bernoulli"])
def test_what_is_random_is_not_constant(op_type):
    nodes = [make_node(op_type, ["c"], ["noise"]), make_node("Add", ["x", "noise"], ["y"])]
    inputs = [make_tensor_value_info("x", FLOAT, [3])]
    graph = settled(model_of(nodes, inputs, ["y"], {"c": np.zeros(3, np.float32)}))
    assert not found(graph, "noise").is_constant


@pytest.mark.parametrize("number", [2**40, 2**62])
def test_an_absurd_size_costs_nothing(number):
    constants = {"n": np.array([number, number], np.int64), "one": np.int64(1), "x": np.int64(number)}
    nodes = [
        make_node("ConstantOfShape", ["n"], ["a"]),
        make_node("Range", ["one", "x", "one"], ["b"]),
        make_node("Expand", ["one", "n"], ["c"]),
        make_node("Tile", ["n", "n"], ["d"]),
    ]
    graph = settled(model_of(nodes, [], ["a", "b", "c", "d"], constants))
    assert [found(graph, name).value for name in "abcd"] == [None] * 4
    assert found(graph, "a").size_bytes is None


def test_a_negative_size_is_none():
    nodes = [make_node("ConstantOfShape", ["n"], ["y"])]
    graph = settled(model_of(nodes, [], ["y"], {"n": np.array([-3], np.int64)}))
    assert found(graph, "y").shape is None


def test_where_constants_differ_from_zero_is_known():
    nodes = [make_node("NonZero", ["c"], ["y"])]
    graph = settled(model_of(nodes, [], ["y"], {"c": np.array([0, 5, 0, 6], np.int64)}))
    assert found(graph, "y").value.tolist() == [[1, 3]]


def litert(content, **shapes):
    """What LiteRT makes of every tensor, by its own kernels."""
    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    indices = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
    for name, shape in shapes.items():
        interpreter.resize_tensor_input(indices[name], shape)
    interpreter.allocate_tensors()
    return {detail["index"]: tuple(detail["shape"]) for detail in interpreter.get_tensor_details()}


@pytest.mark.parametrize("build", [tflite_models.tflite_mobile, tflite_models.tflite_int8, tflite_models.tflite_tiny])
def test_shapes_of_a_tflite_file_stand_where_no_input_is_resized(build):
    expected = litert(build())
    graph = settled(build())
    assert [tensor.shape for tensor in graph.tensors] == [expected[place] for place in range(len(graph.tensors))]


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (tflite_models.tflite_mobile, {"image": (3, 64, 64, 3)}),
        (tflite_models.tflite_mobile, {"image": (1, 97, 60, 3)}),
        (tflite_models.tflite_dynamic_batch, {"x": (5, 8)}),
    ],
)
def test_resized_tflite_shapes_are_those_the_runtime_measured(build, shapes):
    expected, model = litert(build(), **shapes), read(build())
    tensors = with_shapes(model, shapes, expected).graph.tensors
    assert [tensor.shape for tensor in tensors] == [expected[place] for place in range(len(tensors))]
    unmeasured = settled(build(), **shapes)
    made = {place for operator in unmeasured.operators for place in operator.outputs}
    assert all(None in (unmeasured.tensors[place].shape or (None,)) for place in made)


def opened_custom_operator(op_type):
    """Its batch is open, as converters write it: stored as 1, -1 in the signature."""
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    x = graph.add_tensor("x", [1, 8], "float32", shapeSignature=[-1, 8])
    y = graph.add_tensor("y", [1, 5], "float32", shapeSignature=[-1, 5])
    graph.add_operator(op_type, None, [x], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def test_sizes_that_the_file_knows_stand_though_another_is_open():
    """Where a size is changed that the file fixes, nothing stands."""
    content = opened_custom_operator("CUSTOM:Frobnicate")
    assert found(settled(content, x=(4, 8)), "y").shape == (None, 5)
    assert found(settled(content, x=(1, 9)), "y").shape is None


def test_a_shape_decided_by_values_is_not_taken_from_one_run():
    model = read(opened_custom_operator("CUSTOM:TFLite_Detection_PostProcess"))
    assert found(with_shapes(model, {"x": (4, 8)}, {1: (4, 5)}).graph, "y").shape == (None, 5)


def test_tflite_shapes_behind_a_resized_input_are_unknown():
    graph = settled(tflite_models.tflite_custom_operator(), x=(2, 4))
    assert graph.tensors[graph.outputs[0]].shape is None


def test_inputs_have_the_names_that_the_engine_gives_them():
    content = tflite_models.tflite_nameless()
    interpreter = Interpreter(model_content=content)
    assert input_names(read(content)) == list(_by_name(interpreter.get_input_details()))


@pytest.mark.parametrize("declared", [["N"], [1]], ids=["a name of an input's", "a number that an exporter saw"])
def test_a_declared_output_size_replaces_no_inferred_one(declared):
    """Exporters name sizes as they are told to, and nobody checks it: four results of a batch of one."""
    nodes = [make_node("Frob", ["x"], ["z"], domain="com.example"), make_node("Identity", ["z"], ["y"])]
    model = onnx.load_from_string(model_of(nodes, [make_tensor_value_info("x", FLOAT, ["N", 3])], ["y"]))
    model.graph.output[0].CopyFrom(make_tensor_value_info("y", FLOAT, declared))
    assert found(settled(model.SerializeToString(), x=(1, 3)), "y").shape is None


def test_a_declared_output_size_stands_where_no_size_is_open():
    nodes = [make_node("Frob", ["x"], ["y"], domain="com.example")]
    model = onnx.load_from_string(model_of(nodes, [make_tensor_value_info("x", FLOAT, [2, 3])], ["y"]))
    model.graph.output[0].CopyFrom(make_tensor_value_info("y", FLOAT, [4]))
    assert found(settled(model.SerializeToString()), "y").shape == (4,)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (2, 1), (5, 4), (5, 3)])
def test_a_pool_smaller_than_its_window_is_sized_as_onnx_runtime(kernel, stride):
    nodes = [make_node("MaxPool", ["x"], ["y"], kernel_shape=[kernel], strides=[stride])]
    content = model_of(nodes, [make_tensor_value_info("x", FLOAT, [1, 2, "w"])], ["y"])
    (expected,) = run_by_onnx_runtime(content, np.zeros((1, 2, 1), np.float32))
    assert found(settled(content, x=(1, 2, 1)), "y").shape == expected.shape


def run_by_onnx_runtime(content, x):
    model = onnx.load_from_string(content)
    model.graph.output[0].CopyFrom(make_tensor_value_info("y", FLOAT, None))
    return InferenceSession(model.SerializeToString()).run(None, {"x": x})
