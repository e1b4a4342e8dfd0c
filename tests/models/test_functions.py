"""Operators that an ONNX model defines itself: counted and found as the nodes that runtimes put in their place."""

import numpy as np
import onnxruntime
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from edgetop.models.executed import origins
from edgetop.models.inspection import Inspection, inspected
from edgetop.models.reading_limits import MalformedError
from edgetop.session.operators import OperatorInfo
from tests.support.model_files import read

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
FLOAT = TensorProto.FLOAT


def function(name, nodes, inputs=("a",), attributes=(), defaults=()):
    return helper.make_function("own", name, inputs, ["r"], nodes, OPSETS, attributes, defaults)


def call(name, inputs, output, **attributes):
    return helper.make_node(name, inputs, [output], domain="own", **attributes)


def referring(node, name, to, kind=AttributeProto.INT):
    """The node with an attribute that is one of the call."""
    node.attribute.append(AttributeProto(name=name, ref_attr_name=to, type=kind))
    return node


def weight(name, *shape):
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def model_of(nodes, functions, weights=(), shape=(2, 4)):
    ends = [helper.make_tensor_value_info(name, FLOAT, shape if name == "x" else None) for name in "xy"]
    graph = helper.make_graph(nodes, "main", ends[:1], ends[1:], list(weights))
    return helper.make_model(graph, ir_version=10, opset_imports=OPSETS, functions=functions)


def inspection_of(nodes, functions, weights=(), shape=(2, 4)) -> Inspection:
    return inspected(read(model_of(nodes, functions, weights, shape).SerializeToString()), {"x": shape})


def dense():
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["m"], name="mm"),
        helper.make_node("Add", ["m", "b"], ["s"], name="sum"),
        helper.make_node("Relu", ["s"], ["r"]),
    ]
    return function("Dense", nodes, ["a", "w", "b"])


def layers(*widths):
    weights, nodes, before = [], [], 4
    for i, width in enumerate(widths):
        weights += [weight(f"w{i}", before, width), weight(f"b{i}", width)]
        nodes.append(call("Dense", [f"h{i}" if i else "x", f"w{i}", f"b{i}"], f"h{i + 1}"))
        before = width
    nodes.append(helper.make_node("Identity", [f"h{len(widths)}"], ["y"]))
    return inspection_of(nodes, [dense()], weights)


def test_the_work_of_a_call_is_that_of_its_nodes():
    found = layers(4, 8)
    assert [cost.operator.op_type for cost in found.operators] == ["MatMul", "Add", "Relu"] * 2 + ["Identity"]
    assert [cost.operator.position for cost in found.operators] == [*range(7)]
    assert (found.totals.macs, found.totals.macs_unknown) == (2 * 4 * 4 + 2 * 4 * 8, 0)
    assert found.weights.parameters == 4 * 4 + 4 + 4 * 8 + 8


def test_functions_nest_and_attributes_come_from_the_call():
    def turn():
        return referring(helper.make_node("Concat", ["a", "a"], ["c"]), "axis", "side")

    grown = [turn(), helper.make_node("Relu", ["c"], ["r"])]
    inner = function("Grown", grown, attributes=["side"])
    twice = function("Twice", [call("Grown", ["a"], "t", side=1), referring(call("Grown", ["t"], "r"), "side", "last")],
                     defaults=[helper.make_attribute("last", 0)])  # fmt: skip
    found = inspection_of([call("Twice", ["x"], "h"), call("Twice", ["h"], "y", last=1)], [inner, twice])
    shapes = [found.model.graph.tensors[cost.operator.outputs[0]].shape for cost in found.operators]
    assert shapes[1::2] == [(2, 8), (4, 8), (4, 16), (4, 32)]


@pytest.mark.parametrize(
    "given", [{}, {"last": 1}, {"last": 0}, {"other": 0}], ids=["nothing", "one", "zero", "another"]
)
@pytest.mark.parametrize("default", [None, 0], ids=["no default within", "a default within"])
def test_an_attribute_that_a_call_leaves_out_has_the_default_of_what_it_is_for(given, default):
    """As ONNX Runtime has it: the function's own default, and where there is none the operator's."""
    kept = {"attributes": ["keep"]} if default is None else {"defaults": [helper.make_attribute("keep", default)]}
    inner = function("Least", [referring(helper.make_node("ReduceMin", ["a"], ["r"]), "keepdims", "keep")], **kept)
    outer = function("Outer", [referring(call("Least", ["a"], "r"), "keep", "last")], attributes=["last", "other"])
    content = model_of([call("Outer", ["x"], "y", **given)], [inner, outer]).SerializeToString()
    found = inspected(read(content), {"x": (2, 4)})
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    [theirs] = session.run(None, {"x": np.ones((2, 4), np.float32)})
    assert found.model.graph.tensors[found.model.graph.outputs[0]].shape == theirs.shape


def test_constants_of_a_function_count_once_those_of_a_call_each():
    scale = referring(helper.make_node("Constant", [], ["k"]), "value_float", "by", AttributeProto.FLOAT)
    nodes = [scale, helper.make_node("Constant", [], ["w"], value=weight("w", 4, 4))]
    nodes += [helper.make_node("MatMul", ["a", "w"], ["m"]), helper.make_node("Mul", ["m", "k"], ["r"])]
    scaled = function("Scaled", nodes, attributes=["by"])
    found = inspection_of([call("Scaled", ["x"], "h", by=0.5), call("Scaled", ["h"], "y", by=2.0)], [scaled])
    assert (found.weights.parameters, found.totals.macs) == (16 + 2, 2 * 2 * 4 * 4)


def test_an_input_that_a_call_leaves_out_is_left_out_within():
    clipped = function("Clipped", [helper.make_node("Clip", ["a", "low", "high"], ["r"])], ["a", "low", "high"])
    found = inspection_of([call("Clipped", ["x", "", "top"], "h"), call("Clipped", ["h"], "y")], [clipped],
                          [numpy_helper.from_array(np.float32(6), "top")])  # fmt: skip
    tensors = found.model.graph.tensors
    read_by = [[tensors[place].name for place in op.operator.inputs if place >= 0] for op in found.operators]
    assert read_by == [["x", "top"], ["h"]]
    assert tensors[found.model.graph.outputs[0]].shape == (2, 4)


def test_a_branch_in_a_function_reads_the_functions_inputs():
    def branch(name):
        out = helper.make_tensor_value_info(name, FLOAT, None)
        return helper.make_graph([helper.make_node("MatMul", ["a", "w"], [name])], name, [], [out])

    nodes = [
        helper.make_node("ReduceMin", ["a"], ["least"], keepdims=0),
        helper.make_node("Cast", ["least"], ["is"], to=TensorProto.BOOL),
        helper.make_node("If", ["is"], ["r"], then_branch=branch("then"), else_branch=branch("other")),
    ]
    found = inspection_of(
        [call("Either", ["x", "v"], "y")], [function("Either", nodes, ["a", "w"])], [weight("v", 4, 4)]
    )
    assert found.weights.parameters == 16
    tensors = found.model.graph.tensors
    assert {tensors[place].name for place in found.operators[2].operator.captures} == {"x", "v"}


@pytest.mark.parametrize("calls", [1, 2])
def test_functions_that_call_each_other_without_end_are_refused(calls):
    nodes = [call("Endless", ["a"], f"t{i}") for i in range(calls)] + [helper.make_node("Relu", ["t0"], ["r"])]
    with pytest.raises(MalformedError):
        inspection_of([call("Endless", ["x"], "y")], [function("Endless", nodes)])


@pytest.mark.thorough
@pytest.mark.slow
def test_functions_that_multiply_beyond_all_measure_are_refused():
    chain = [function("F0", [helper.make_node("Relu", ["a"], ["r"])])]
    for i in range(1, 12):
        calls = [call(f"F{i - 1}", ["a"], f"t{j}") for j in range(7)]
        chain.append(function(f"F{i}", [*calls, helper.make_node("Relu", ["t0"], ["r"])]))
    with pytest.raises(MalformedError, match="more"):
        inspection_of([call("F11", ["x"], "y")], chain)


def found_names(inspection, *ran):
    infos = [OperatorInfo(name, op_type, "CPU") for op_type, name in ran]
    return [origin and (origin.name, origin.flops) for origin in origins(inspection, infos)]


# Names as ONNX Runtime 1.31 gave them to such functions.
RAN = (("FusedGemm", "fused _inlfunc_Dense_mm/MatMulAddFusion"),
       ("FusedGemm", "fused _inlfunc_Dense_token_1_mm/MatMulAddFusion"))  # fmt: skip


def test_what_ran_of_a_call_is_found_where_all_calls_are_alike():
    inspection = layers(4, 4)
    product = inspection.operators[0].flops
    assert found_names(inspection, *RAN) == [("_inlfunc_Dense_mm", product)] * 2
    assert found_names(inspection, *RAN, RAN[1])[2] is None  # a third call is none of the file's


def test_what_ran_of_calls_of_unlike_work_is_not_guessed():
    assert found_names(layers(4, 8), *RAN) == [None, None]


def test_numbers_in_names_count_from_before_inlining():
    assert found_names(layers(4, 4), ("Identity", "Identity_6"), ("Relu", "Relu_5")) == [None, None]
