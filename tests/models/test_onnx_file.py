import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

from edgetop.models.graph import External
from edgetop.models.onnx_file import read_onnx
from edgetop.models.reading_limits import MAX_DEPTH, MalformedError
from tests.support import onnx_models
from tests.support.model_files import LIGHT_MODELS, external_tensor, light, model_of, read

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def graph_of(nodes, outputs=("y",), constants=None, inputs=None):
    inputs = inputs or [make_tensor_value_info("x", FLOAT, ["N", 3])]
    return read(model_of(nodes, inputs, outputs, constants)).graph


@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_operators_and_tensors_are_those_that_onnx_reads(name):
    theirs = onnx.load_from_string(light(name))
    ours = read(light(name)).graph
    names = [tensor.name for tensor in ours.tensors]
    assert [(op.name, op.op_type) for op in ours.operators] == [(n.name, n.op_type) for n in theirs.graph.node]
    assert [[names[i] for i in op.inputs] for op in ours.operators] == [list(n.input) for n in theirs.graph.node]
    assert [[names[i] for i in op.outputs] for op in ours.operators] == [list(n.output) for n in theirs.graph.node]
    initialisers = {tensor.name: tensor for tensor in theirs.graph.initializer}
    fed = [info.name for info in theirs.graph.input if info.name not in initialisers]
    assert [names[place] for place in ours.inputs] == fed
    for tensor in ours.tensors:
        assert tensor.is_constant == (tensor.name in initialisers)
        if tensor.is_constant:
            array = numpy_helper.to_array(initialisers[tensor.name])
            assert (tensor.shape, tensor.dtype, tensor.stored_bytes) == (array.shape, array.dtype.name, array.nbytes)


@pytest.mark.parametrize("name", ["densenet121", "resnet50"])
def test_attributes_are_those_that_onnx_reads(name):
    def plain(value):
        value = helper.get_attribute_value(value)
        return tuple(value) if isinstance(value, list) or hasattr(value, "__len__") else value

    theirs = onnx.load_from_string(light(name)).graph.node
    for operator, node in zip(read(light(name)).graph.operators, theirs, strict=True):
        if operator.op_type != "ConstantOfShape":
            assert operator.attributes == {attribute.name: plain(attribute) for attribute in node.attribute}


def test_versions_producer_and_metadata_are_read():
    model = onnx.load_from_string(onnx_models.onnx_tiny())
    helper.set_model_props(model, {"author": "me", "classes": "a,b"})
    model.doc_string, model.producer_version = "what it is for", "2.1"
    found = read(model.SerializeToString())
    assert (found.version, found.opsets) == (8, {"": 13})
    assert found.producer == "edgetop-tests 2.1"
    assert found.description == "what it is for"
    assert found.metadata == {"author": "me", "classes": "a,b"}


def test_named_sizes_stay_names_and_unknown_ones_none():
    graph = graph_of([make_node("Relu", ["x"], ["y"])])
    assert graph.tensors[graph.inputs[0]].shape == ("N", 3)
    assert graph.tensors[graph.outputs[0]].shape is None


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("array", [np.array([[1, -2]], np.int64), np.float32(0.5), np.array([7], np.int32)])
def test_small_constants_keep_their_value(array, raw):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    values = array.tobytes() if raw else array.reshape(-1).tolist()
    constant = helper.make_tensor("c", kind, array.shape, values, raw=raw)
    graph = helper.make_graph(
        [make_node("Identity", ["c"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")], [constant]
    )
    found = read(helper.make_model(graph).SerializeToString()).graph.tensors[0]
    assert found.value.dtype == array.dtype
    assert found.value.tolist() == array.tolist()


@pytest.mark.parametrize(
    ("attributes", "dtype", "shape"),
    [
        ({"value": numpy_helper.from_array(np.zeros((2, 3), np.float32))}, "float32", (2, 3)),
        ({"value_ints": [1, 2]}, "int64", (2,)),
        ({"value_int": 0}, "int64", ()),
        ({"value_floats": [1.5]}, "float32", (1,)),
        ({"value_string": "a"}, "string", ()),
    ],
)
def test_constant_nodes_are_constant_tensors_and_no_operators(attributes, dtype, shape):
    graph = graph_of([make_node("Constant", [], ["c"], **attributes), make_node("Add", ["x", "c"], ["y"])])
    assert [op.op_type for op in graph.operators] == ["Add"]
    assert graph.operators[0].position == 0
    constant = graph.tensors[graph.operators[0].inputs[1]]
    assert (constant.dtype, constant.shape, constant.is_constant) == (dtype, shape, True)


def test_omitted_optional_inputs_have_no_tensor():
    graph = graph_of([make_node("Clip", ["x", "", "high"], ["y"])], constants={"high": np.float32(6)})
    assert graph.operators[0].inputs[1] == -1


def test_zeros_that_a_writer_of_proto3_leaves_out_are_zeros():
    node = make_node("Flatten", ["x"], ["y"], axis=0)
    node.attribute[0].ClearField("i")
    assert graph_of([node]).operators[0].attributes == {"axis": 0}


def test_graphs_within_operators_are_kept_apart():
    inner = helper.make_graph([make_node("Relu", ["x"], ["r"])], "then", [], [onnx.ValueInfoProto(name="r")])
    other = helper.make_graph([make_node("Neg", ["x"], ["n"])], "else", [], [onnx.ValueInfoProto(name="n")])
    model = read(
        model_of(
            [make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)],
            [make_tensor_value_info("c", TensorProto.BOOL, [])],
            ["y"],
        )
    )
    assert [op.op_type for op in model.graph.operators] == ["If"]
    assert [model.subgraphs[place].name for place in model.graph.operators[0].subgraphs] == ["else", "then"]


def test_graphs_nested_without_end_are_malformed():
    graph = helper.make_graph([], "innermost", [], [])
    for _ in range(MAX_DEPTH + 1):
        graph = helper.make_graph([make_node("Loop", [], ["y"], body=graph)], "g", [], [])
    with pytest.raises(MalformedError, match="graphs within graphs"):
        read_onnx(memoryview(helper.make_model(graph).SerializeToString()))


def test_weights_in_another_file_are_sized_without_it():
    graph = helper.make_graph(
        [make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [make_tensor_value_info("x", FLOAT, [1, 4])],
        [onnx.ValueInfoProto(name="y")],
        [external_tensor("w", (4, 5))],
    )
    model = read(helper.make_model(graph).SerializeToString())
    weights = model.graph.tensors[model.graph.operators[0].inputs[1]]
    assert (weights.stored_bytes, weights.is_constant, weights.value) == (80, True, None)
    assert model.external == {"weights.bin": External(1, 80)}


def test_sparse_weights_have_their_full_shape():
    values, indices = (
        numpy_helper.from_array(np.array([1, 2], kind), name) for kind, name in ((np.float32, "w"), (np.int64, ""))
    )
    sparse = helper.make_sparse_tensor(values, indices, [3, 4])
    graph = helper.make_graph(
        [make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [make_tensor_value_info("x", FLOAT, [1, 3])],
        [onnx.ValueInfoProto(name="y")],
        sparse_initializer=[sparse],
    )
    found = read(helper.make_model(graph).SerializeToString()).graph
    weights = found.tensors[found.operators[0].inputs[1]]
    assert (weights.name, weights.shape, weights.stored_bytes) == ("w", (3, 4), 2 * 4 + 2 * 8)


def test_both_names_of_onnx_own_operators_are_one():
    node = make_node("Relu", ["x"], ["y"], domain="ai.onnx")
    assert graph_of([node]).operators[0].domain == ""


def test_operators_of_others_keep_their_domain():
    model = read(onnx_models.onnx_unknown_operator("Frob", "com.example"))
    assert [(op.op_type, op.domain) for op in model.graph.operators] == [("Frob", "com.example")]


def test_a_tensor_of_absurd_rank_is_malformed():
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[1] * 40)
    graph = helper.make_graph([], "g", [], [], [tensor])
    with pytest.raises(MalformedError, match="impossible shape"):
        read_onnx(memoryview(helper.make_model(graph).SerializeToString()))
