"""Operators whose work depends on values, found in a model's graph and in what it may run."""

import pytest

from edgetop.models.graph import OMITTED, Graph, Model, Operator, Tensor, data_dependent

INPUT, CONSTANT = 0, 1
TENSORS = (Tensor("x", "float32", (1,)), Tensor("c", "int64", (), is_constant=True))


def graph(*operators: tuple[str, tuple[int, ...]]) -> Graph:
    made = [Operator(i, op_type, op_type, "", inputs, ()) for i, (op_type, inputs) in enumerate(operators)]
    return Graph("g", TENSORS, tuple(made), (INPUT,), ())


def found(format_name: str, *operators: tuple[str, tuple[int, ...]]) -> dict[str, int]:
    return data_dependent(Model(format_name, graph(*operators)))


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
    assert data_dependent(model) == {"NonZero": 1}
