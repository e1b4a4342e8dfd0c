"""Operators whose work depends on values, found in a model's graph and in what it may run."""

import pytest

from edgetop.models.deciding_inputs import deciding_inputs
from edgetop.models.graph import OMITTED, Graph, Model, Operator, Tensor

INPUT, CONSTANT = 0, 1
TENSORS = (Tensor("x", "float32", (1,)), Tensor("c", "int64", (), is_constant=True))


def graph(*operators: tuple[str, tuple[int, ...]]) -> Graph:
    made = [Operator(i, op_type, op_type, "", inputs, ()) for i, (op_type, inputs) in enumerate(operators)]
    return Graph("g", TENSORS, tuple(made), (INPUT,), ())


def found(format_name: str, *operators: tuple[str, tuple[int, ...]]) -> dict[str, int]:
    return dict(deciding_inputs(Model(format_name, graph(*operators))).types)


def test_a_model_of_fixed_work_has_none() -> None:
    assert found("onnx", ("Conv", (INPUT,)), ("TopK", (INPUT,)), ("Where", (INPUT,))) == {}
    assert found("tflite", ("CONV_2D", (INPUT,)), ("SELECT", (INPUT,))) == {}


@pytest.mark.parametrize("op_type", ["NonMaxSuppression", "NonZero", "Unique", "Compress"])
def test_operators_whose_outputs_are_as_long_as_values_decide(op_type: str) -> None:
    assert found("onnx", (op_type, (INPUT,)), (op_type, (INPUT,))) == {op_type: 2}


@pytest.mark.parametrize("op_type", ["WHERE", "WHILE", "IF", "NON_MAX_SUPPRESSION_V5", "TFLite_Detection_PostProcess"])
def test_those_of_tflite(op_type: str) -> None:
    assert found("tflite", (op_type, (INPUT,))) == {op_type: 1}
    assert found("onnx", (op_type, (INPUT,))) == {}


def test_a_branch_is_one_where_a_value_chooses_it() -> None:
    assert found("onnx", ("If", (INPUT,))) == {"If": 1}
    assert found("onnx", ("If", (CONSTANT,))) == {}


def test_a_loop_is_one_unless_it_runs_a_known_number_of_times() -> None:
    assert found("onnx", ("Loop", (CONSTANT, INPUT))) == {"Loop": 1}
    assert found("onnx", ("Loop", (INPUT, OMITTED))) == {"Loop": 1}
    assert found("onnx", ("Loop", (CONSTANT, OMITTED))) == {}


def test_what_a_branch_holds_counts() -> None:
    model = Model("onnx", graph(("If", (CONSTANT,))), (graph(("NonZero", (INPUT,))),))
    deciding = deciding_inputs(model)
    assert (deciding.types, deciding.inputs) == ({"NonZero": 1}, {})


def test_the_inputs_that_decide_are_named_through_the_operators_between() -> None:
    tensors = (*TENSORS, *(Tensor(name, "int64", ()) for name in ("rate", "text", "is_8k", "long", "shape", "y", "z")))
    x, c, rate, text, is_8k, long, shape, y, z = range(9)
    operators = [
        ("Equal", (rate, c), (is_8k,)), ("If", (is_8k,), ()),
        ("Shape", (x,), (shape,)), ("Reshape", (x, shape), (y,)),
        ("Cast", (text,), (long,)), ("Expand", (x, long), (z,)), ("Reshape", (text, c), ()),
    ]  # fmt: skip
    made = [Operator(i, of, of, "", inputs, outputs) for i, (of, inputs, outputs) in enumerate(operators)]
    found = deciding_inputs(Model("onnx", Graph("g", tensors, tuple(made), (x, rate, text), ())))
    assert found.types == {"If": 1, "Expand": 1}
    assert found.inputs == {"If": {"rate"}, "Expand": {"text"}}
