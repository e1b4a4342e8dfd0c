import json

import pytest
from onnx import TensorProto
from onnx.helper import make_node, make_tensor_value_info

from edgetop.models.document import inspection_document
from edgetop.models.graph import input_names
from edgetop.models.inspection import RuntimeShapes, inspected
from tests.support import onnx_models, tflite_models
from tests.support.model_files import light, model_of, read


def document(content, **shapes):
    model = read(content)
    names = dict(zip(input_names(model), model.graph.inputs, strict=True))
    given = {name: shapes.get(name, model.graph.tensors[place].shape) for name, place in names.items()}
    return inspection_document(inspected(model, given))


@pytest.mark.parametrize("content", [light("shufflenet"), tflite_models.tflite_mobile()], ids=["onnx", "tflite"])
def test_sums_over_operators_and_types_are_the_totals(content):
    found = document(content)
    for key in ("macs", "flops", "bytes"):
        total = found["totals"][key]
        assert sum(operator[key] for operator in found["operators"]) == total
        assert sum(group[key] for group in found["by_type"]) == total
    for key in ("flops_share", "bytes_share"):
        assert sum(group[key] for group in found["by_type"]) == pytest.approx(1, abs=1e-4)
    assert sum(part["parameters"] for part in found["precision"]["weights"].values()) == found["totals"]["parameters"]
    assert json.loads(json.dumps(found)) == found


def test_types_are_of_what_runs_in_each_inference():
    found = document(light("squeezenet"))
    assert "ConstantOfShape" not in [group["op_type"] for group in found["by_type"]]
    assert sum(group["operators"] for group in found["by_type"]) == 66 == 105 - found["totals"]["folded"]


def test_inputs_show_what_is_declared_and_what_it_runs_as():
    found = document(onnx_models.onnx_dynamic(), x=(2, 3, 8, 8))
    (given,) = found["inputs"]
    assert given["dtype"] == "float32"
    assert [dim for dim in given["shape"] if not isinstance(dim, int)]
    assert given["runs_as"] == [2, 3, 8, 8]


def test_weights_have_a_size_in_the_file_and_one_when_read():
    """A bias of four float16, which DEQUANTIZE makes float32 of at load."""
    totals = document(tflite_models.tflite_mixed())["totals"]
    assert totals["weights_bytes"] == totals["weights_stored_bytes"] + 4 * 2


def test_what_is_not_known_is_null():
    nodes = [make_node("Frob", ["x"], ["y"], domain="com.example")]
    content = model_of(nodes, [make_tensor_value_info("x", TensorProto.FLOAT, [3])], ["y"])
    found = document(content)
    assert found["totals"]["flops"] is None
    assert found["totals"]["flops_unknown"] == 1
    (operator,) = found["operators"]
    assert [operator[key] for key in ("macs", "flops", "bytes", "flops_share", "intensity")] == [None] * 5
    assert found["outputs"][0]["runs_as"] is None


def test_some_that_are_not_known_make_sums_of_the_others():
    nodes = [make_node("Frob", ["x"], ["z"], domain="com.example"), make_node("Relu", ["x"], ["y"])]
    content = model_of(nodes, [make_tensor_value_info("x", TensorProto.FLOAT, [3])], ["y", "z"])
    totals = document(content)["totals"]
    assert (totals["flops"], totals["flops_unknown"], totals["intensity"]) == (3, 1, None)


def test_open_shapes_are_measured_and_their_runtime_is_named():
    def opened(content, told, shape=(3, 8)):
        model, asked = read(content), []

        def ask():
            asked.append(1)
            return told

        return inspection_document(inspected(model, {input_names(model)[0]: shape}, ask)), len(asked)

    content = tflite_models.tflite_open_diagonal()
    told = RuntimeShapes("litert 9", {1: (3, 8, 8), 3: (3, 8, 5)})
    document, asked = opened(content, told)
    assert (document["shapes_from"], document["totals"]["macs"], document["totals"]["macs_unknown"], asked) == (
        "litert 9", 960, 0, 1
    )  # fmt: skip
    document, asked = opened(content, None)
    assert (document["shapes_from"], document["totals"]["macs_unknown"], asked) == (None, 1, 1)
    tiny = tflite_models.tflite_tiny()
    document, asked = opened(tiny, told, read(tiny).graph.tensors[0].shape)
    assert (document["shapes_from"], document["totals"]["macs_unknown"], asked) == (None, 0, 0)
