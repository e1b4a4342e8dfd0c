"""Weights wherever a model keeps them: around a branch, in a loop's body, in a function, or where nobody reads them."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from edgetop.models.inspection import inspected
from tests.support.model_files import read

FLOAT = TensorProto.FLOAT


def value(name, shape=(2, 4), dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, *shape):
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def branch(name, nodes, output, weights=()):
    return helper.make_graph(nodes, name, [], [value(output)], list(weights))


def product(x, w, y):
    return helper.make_node("MatMul", [x, w], [y])


def either(then, other, output="y"):
    return helper.make_node("If", ["c"], [output], then_branch=then, else_branch=other)


def inspection_of(nodes, weights, functions=()):
    graph = helper.make_graph(nodes, "main", [value("x"), value("c", (), TensorProto.BOOL)], [value("y")], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets, functions=functions)
    return inspected(read(model.SerializeToString()), {"x": (2, 4), "c": ()})


def test_weights_that_only_branches_read_count_once():
    """As in a voice detector without any operator but `If` at the top."""
    then = branch("then", [product("x", "w", "t"), product("t", "shared", "a")], "a")
    other = branch("else", [product("x", "v", "e"), product("e", "shared", "b")], "b")
    found = inspection_of([either(then, other)], [weight("w", 4, 4), weight("v", 4, 4), weight("shared", 4, 4)])
    assert (found.weights.parameters, found.weights.bytes, found.weights.unknown) == (48, 192, 0)
    assert found.weights.by_dtype == {"float32": (48, 192)}
    assert found.totals.macs_unknown == 1  # what the branches compute depends on which is taken


def test_weights_packed_into_bytes_count_as_what_they_are():
    """4-bit weights in blocks of 32, as of a language model: two in each byte."""
    blocks = {"K": 64, "N": 8, "bits": 4, "block_size": 32}
    product = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **blocks)
    packed = numpy_helper.from_array(np.zeros((8, 2, 16), np.uint8), "w")
    graph = helper.make_graph([product], "main", [value("x", (2, 64))], [value("y", (2, 8))], [packed, weight("s", 16)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    found = inspected(read(model.SerializeToString()), {"x": (2, 64)})
    assert found.operators[0].parameters == found.weights.parameters == 64 * 8 + 16
    assert found.weights.by_dtype == {"uint8": (512, 256), "float32": (16, 64)}


def test_weights_count_through_as_many_graphs_as_they_are_read():
    inner = either(branch("t2", [product("x", "w", "p")], "p"), branch("e2", [product("x", "w", "q")], "q"), "r")
    outer = either(branch("then", [inner], "r"), branch("else", [product("x", "w", "s")], "s"))
    assert inspection_of([outer], [weight("w", 4, 4)]).weights.parameters == 16


def test_weights_that_the_body_of_a_loop_or_a_scan_reads_count():
    carried = [value("i", (), TensorProto.INT64), value("go", (), TensorProto.BOOL), value("h")]
    nodes = [product("h", "w", "h2"), helper.make_node("Identity", ["go"], ["go2"])]
    body = helper.make_graph(nodes, "body", carried, [value("go2", (), TensorProto.BOOL), value("h2")])
    loop = helper.make_node("Loop", ["", "c", "x"], ["l"], body=body)
    step = helper.make_graph([product("s", "v", "z")], "step", [value("s", (1, 4))], [value("z", (1, 4))])
    scan = helper.make_node("Scan", ["l"], ["y"], body=step, num_scan_inputs=1)
    assert inspection_of([loop, scan], [weight("w", 4, 4), weight("v", 4, 3)]).weights.parameters == 28


def test_weights_within_a_function_count():
    nodes = [helper.make_node("Constant", [], ["w"], value=weight("w", 4, 4)), product("a", "w", "b")]
    function = helper.make_function("own", "Own", ["a"], ["b"], nodes, [helper.make_opsetid("", 17)])
    calls = [helper.make_node("Own", ["x"], ["t"], domain="own"), helper.make_node("Own", ["t"], ["y"], domain="own")]
    found = inspection_of(calls, [], [function])
    assert (found.weights.parameters, found.totals.macs, found.totals.macs_unknown) == (16, 64, 0)
    assert found.model.functions == 1


def test_a_branchs_weights_are_not_outer_ones_of_equal_name():
    then = branch("then", [product("x", "w", "a")], "a", [weight("w", 4, 2)])
    other = branch("else", [product("x", "w", "b")], "b")
    assert inspection_of([either(then, other)], [weight("w", 4, 4)]).weights.parameters == 24


def test_weights_computed_at_load_count_if_a_branch_reads_them():
    turned = helper.make_node("Transpose", ["w"], ["wt"])
    then, other = (branch(name, [product("x", "wt", out)], out) for name, out in (("then", "a"), ("else", "b")))
    found = inspection_of([turned, either(then, other)], [weight("w", 4, 4)])
    assert (found.weights.parameters, found.totals.folded) == (16, 1)


def test_what_nothing_reads_is_told_and_not_counted():
    found = inspection_of([product("x", "w", "y")], [weight("w", 4, 4), weight("left", 100)])
    assert (found.weights.parameters, found.weights.unread) == (16, 100)


def test_what_a_branch_reads_lives_until_the_branch():
    """Two tensors of 32 bytes wait for it, with its input and what the operator before it makes."""
    nodes = [helper.make_node("Relu", ["x"], ["kept"]), helper.make_node("Exp", ["x"], ["e"])]
    nodes += [helper.make_node("Exp", ["e"], ["f"])]
    then, other = (branch(name, [helper.make_node("Add", ["kept", "f"], [out])], out) for name, out in ("ta", "eb"))
    memory = inspection_of([*nodes, either(then, other)], []).memory
    assert memory.peak_bytes == 3 * 32 + 1
