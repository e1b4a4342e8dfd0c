from dataclasses import replace

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as generated
from ai_edge_litert.interpreter import Interpreter

from edgetop.models import tflite_file as schema
from edgetop.models.inspection import inspected
from edgetop.models.reading_limits import MalformedError
from edgetop.models.tflite_file import read_tflite
from tests.support import tflite_models
from tests.support.built_models.tflite_file import TfliteFile, table
from tests.support.model_files import read

MODELS = {
    "mobile": tflite_models.tflite_mobile,
    "int8": tflite_models.tflite_int8,
    "two inputs": tflite_models.tflite_two_inputs,
    "dynamic batch": tflite_models.tflite_dynamic_batch,
    "scalar": tflite_models.tflite_scalar,
    "nameless": tflite_models.tflite_nameless,
    "hostile names": tflite_models.tflite_hostile_names,
}


def numbers_of(enum):
    return {value: name for name, value in vars(enum).items() if isinstance(value, int) and name[0] != "_"}


def test_names_of_operators_are_the_schemas():
    assert dict(enumerate(schema.OPERATORS)).items() <= numbers_of(generated.BuiltinOperator).items()
    assert schema.OPERATORS[schema.CUSTOM] == "CUSTOM"


def test_dtypes_are_the_schemas():
    theirs = numbers_of(generated.TensorType)
    ours = [name.upper().replace("FLOAT8E", "FLOAT8_E") for name in schema.DTYPES]
    assert ours == [theirs.get(number, name).replace("E4M3FN", "E4M3FN") for number, name in enumerate(ours)]


def test_activations_are_the_schemas():
    theirs = numbers_of(generated.ActivationFunctionType)
    assert [name or "NONE" for name in schema.ACTIVATIONS] == [theirs[number] for number in range(len(theirs))]


@pytest.mark.parametrize("name", MODELS)
def test_tensors_are_those_that_litert_sees(name):
    content = MODELS[name]()
    graph = read(content).graph
    interpreter = Interpreter(model_content=content)
    for detail in interpreter.get_tensor_details():
        if detail["index"] >= len(graph.tensors):
            continue  # LiteRT's own, for what it computes on the side
        tensor = graph.tensors[detail["index"]]
        assert tensor.name == detail["name"]
        assert tensor.shape == tuple(None if dim < 0 else dim for dim in detail["shape_signature"])
        assert tensor.dtype == np.dtype(detail["dtype"]).name
        assert tensor.is_quantised == bool(len(detail["quantization_parameters"]["scales"]))
    assert list(graph.inputs) == [detail["index"] for detail in interpreter.get_input_details()]
    assert list(graph.outputs) == [detail["index"] for detail in interpreter.get_output_details()]


@pytest.mark.parametrize("name", MODELS)
def test_operators_are_those_that_litert_sees(name):
    content = MODELS[name]()
    theirs = Interpreter(model_content=content)._get_ops_details()
    ours = read(content).graph.operators
    theirs = [op for op in theirs if op["op_name"] != "DELEGATE"]
    assert [op.op_type for op in ours] == [op["op_name"] for op in theirs]
    assert [list(op.inputs) for op in ours] == [op["inputs"].tolist() for op in theirs]


def one_operator(kind, options, **tensors):
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    x, y = graph.add_tensor("x", [1, 8, 8, 4]), graph.add_tensor("y", [1, 8, 8, 4], **tensors)
    graph.add_operator(kind, options, [x], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def test_options_are_read_with_their_defaults():
    content = one_operator("MAX_POOL_2D", table("Pool2DOptions", padding=1, strideW=2, filterHeight=5))
    assert read(content).graph.operators[0].attributes == {"filter_w": 0, "filter_h": 5, "activation": 0}


def test_every_option_stands_where_the_schema_has_it():
    builders = {
        "CONV_2D": ("Conv2DOptions", "fusedActivationFunction"),
        "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", "fusedActivationFunction"),
        "CONV_3D": ("Conv3DOptions", "fusedActivationFunction"),
        "MAX_POOL_2D": ("Pool2DOptions", "filterWidth filterHeight fusedActivationFunction"),
        "TRANSPOSE_CONV": ("TransposeConvOptions", "fusedActivationFunction"),
        "FULLY_CONNECTED": ("FullyConnectedOptions", "fusedActivationFunction"),
        "CONCATENATION": ("ConcatenationOptions", "fusedActivationFunction"),
        "ADD": ("AddOptions", "fusedActivationFunction"),
        "BATCH_MATMUL": ("BatchMatMulOptions", "adjX adjY"),
    }
    for op_type, (kind, fields) in builders.items():
        values = {name: name.startswith("adj") or number for number, name in enumerate(fields.split(), 2)}
        found = read(one_operator(op_type, table(kind, **values))).graph.operators[0].attributes
        assert list(found.values()) == list(values.values()), op_type


def test_a_custom_operator_is_known_by_its_name():
    operator = read(tflite_models.tflite_custom_operator("Frob")).graph.operators[0]
    assert (operator.op_type, operator.domain) == ("Frob", "custom")


def test_an_operator_is_named_by_what_it_gives():
    assert read(tflite_models.tflite_tiny()).graph.operators[0].name == "scaled"


def test_further_graphs_are_separate_and_linked_to_operators():
    model = read(tflite_models.tflite_stateful())
    assert len(model.subgraphs) == 1
    assert [op.subgraphs for op in model.graph.operators if op.op_type == "CALL_ONCE"] == [(0,)]


def test_the_start_of_a_state_is_no_parameter():
    weights = inspected(read(tflite_models.tflite_stateful()), {}).weights
    assert (weights.parameters, weights.unread) == (0, 0)


def test_a_variable_that_no_inference_assigns_is_a_weight():
    model = read(tflite_models.tflite_stateful())
    kept = tuple(op for op in model.graph.operators if op.op_type != "ASSIGN_VARIABLE")
    model = replace(model, graph=replace(model.graph, operators=kept))
    assert inspected(model, {}).weights.parameters == 4


def test_version_description_and_signatures_are_read():
    model = read(tflite_models.tflite_tiny())
    assert (model.version, model.description, model.signatures) == (3, "edgetop test", ("serving_default",))


def test_metadata_is_shown_where_it_is_text():
    file = TfliteFile("a test")
    graph = file.add_graph("main")
    x, y = graph.add_tensor("x", [1]), graph.add_tensor("y", [1])
    graph.add_operator("ABS", None, [x], [y])
    graph.set_signature([x], [y])
    entries = {"min_runtime_version": np.frombuffer(b"1.5.0\0\0\0", np.uint8), "binary": np.full(5, 200, np.uint8)}
    file._model.metadata = [
        table("Metadata", name=name, buffer=file.add_buffer(data)) for name, data in entries.items()
    ]
    assert read(file.serialise()).metadata == {"min_runtime_version": "1.5.0", "binary": "5 bytes"}


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0TFL", b"\xff\xff\xff\xffTFL3" + bytes(8)])
def test_what_is_no_tflite_file_is_malformed(content):
    with pytest.raises(MalformedError):
        read_tflite(memoryview(content))
