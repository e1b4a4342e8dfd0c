"""What ran, after a runtime has renamed it, is found again in the model's file; names are those that runtimes gave."""

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node, make_tensor_value_info

from edgetop.models.executed import main_dtype, origins, with_work
from edgetop.models.graph import input_names
from edgetop.models.inspection import Inspection, inspected
from edgetop.session.operators import OperatorInfo
from tests.support import onnx_models, tflite_models
from tests.support.model_files import light, model_of, read

KERNEL = np.zeros((4, 4, 1, 1), np.float32)


def inspection_of(content: bytes) -> Inspection:
    model = read(content)
    shapes = {
        name: [dim if isinstance(dim, int) else 1 for dim in model.graph.tensors[place].shape or ()]
        for name, place in zip(input_names(model), model.graph.inputs, strict=True)
    }
    return inspected(model, shapes)


def onnx(*nodes: object, outputs: Sequence[str] = ("y",), **constants: object) -> Inspection:
    x = make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))
    return inspection_of(model_of(nodes, [x], outputs, {"w": KERNEL, **constants}))


def ran(op_type: str, name: str, provider: str = "CPU") -> OperatorInfo:
    return OperatorInfo(name, op_type, provider)


def names(inspection: Inspection, *infos: OperatorInfo) -> list[str | None]:
    return [origin and origin.name for origin in origins(inspection, infos)]


def test_an_operator_that_kept_its_name_is_found_by_it() -> None:
    model = onnx(make_node("Conv", ["x", "w"], ["c"], "stem"), make_node("Softmax", ["c"], ["y"], "end"))
    assert names(model, ran("Conv", "stem"), ran("FusedConv", "stem"), ran("Softmax", "end")) == ["stem", "stem", "end"]


def test_a_name_that_another_type_of_operator_has_is_none() -> None:
    model = onnx(make_node("Conv", ["x", "w"], ["y"], "stem"))
    assert names(model, ran("Gemm", "stem"), ran("Conv", "stem2"), ran("ReorderInput", "ReorderInput")) == [None] * 3


def test_blocked_operators_match_by_output_with_merged_ones() -> None:
    norm = {name: np.ones(4, np.float32) for name in ("scale", "shift", "mean", "var")}
    model = onnx(
        make_node("Conv", ["x", "w"], ["c"], "stem"),
        make_node("BatchNormalization", ["c", *norm], ["n"], "norm"),
        make_node("Relu", ["n"], ["y"], "relu"),
        **norm,
    )
    (origin,) = origins(model, [ran("Conv", "y_nchwc")])
    assert origin is not None
    assert origin.name == "stem + norm + relu"
    assert origin.flops == model.totals.flops
    x = y = 4 * 64 * 4
    assert origin.bytes == x + KERNEL.nbytes + y
    assert origin.main.operator.name == "stem"
    assert names(model, ran("Conv", "y_nchwc_token_7")) == ["stem + norm + relu"]


def test_what_ran_by_itself_is_merged_into_nothing() -> None:
    norm = {name: np.ones(4, np.float32) for name in ("scale", "shift", "mean", "var")}
    model = onnx(
        make_node("Conv", ["x", "w"], ["c"], "stem"),
        make_node("BatchNormalization", ["c", *norm], ["y"], "norm"),
        **norm,
    )
    assert names(model, ran("Conv", "c_nchwc"), ran("Conv", "y_bn_nchwc")) == ["stem", "norm"]


def test_a_node_without_a_name_is_found_by_its_type_and_place() -> None:
    model = onnx(make_node("Relu", ["x"], ["a"]), make_node("Tanh", ["a"], ["y"]))
    assert names(model, ran("Relu", "Relu_0"), ran("Tanh", "Tanh_1")) == ["#0", "#1"]
    assert names(model, ran("Tanh", "Tanh_0"), ran("Relu", "Relu_9")) == [None, None]


def test_a_product_that_took_in_a_sum_is_found() -> None:
    model = inspection_of(onnx_models.onnx_ladder())
    assert names(model, ran("Gemm", "rung3/MatMulAddFusion"), ran("QuickGelu", "bend3/QuickGeluFusion/")) == [
        "rung3",
        None,
    ]


def test_a_product_that_took_in_its_activation_is_found() -> None:
    """Names as ONNX Runtime 1.31 gave them."""
    model = inspection_of(onnx_models.onnx_ladder())
    assert names(model, ran("FusedGemm", "fused rung3/MatMulAddFusion"), ran("FusedGemm", "fused rung1")) == [
        "rung3",
        "rung1",
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_an_activation_of_several_operators_is_found(turned: bool) -> None:
    """SiLU, as in most detectors of objects, with and without a factor. Names as ONNX Runtime 1.31 gave them."""
    factor = np.full((), 1.702, np.float32)
    model = onnx(
        make_node("Sigmoid", ["x"], ["g"], "gate"),
        make_node("Mul", ["g", "x"] if turned else ["x", "g"], ["s"], "silu"),
        make_node("Mul", ["s", "factor"], ["f"], "scale"),
        make_node("Sigmoid", ["f"], ["h"], "gate2"),
        make_node("Mul", ["s", "h"], ["y"], "quick"),
        factor=factor,
    )
    found = origins(model, [ran("QuickGelu", "silu/QuickGeluFusion/"), ran("QuickGelu", "quick/QuickGeluFusion/")])
    assert [origin and origin.name for origin in found] == ["gate + silu", "scale + gate2 + quick"]
    assert found[0] is not None
    assert found[0].bytes == 2 * 4 * 256
    assert found[0].flops == sum(cost.flops or 0 for cost in model.operators[:2])
    assert names(model, ran("QuickGelu", "scale/QuickGeluFusion/")) == [None]


def test_on_blocked_channels_a_resize_has_another_type() -> None:
    sizes = np.array([1, 1, 2, 2], np.float32)
    model = onnx(make_node("Resize", ["x", "", "sizes"], ["y"], "grow"), sizes=sizes)
    assert names(model, ran("Upsample", "y_nchwc")) == ["grow"]


def test_bytes_of_operators_quantised_in_the_graph_are_unknown() -> None:
    model = onnx(make_node("Conv", ["x", "w"], ["y"], "stem"))
    (info,) = with_work(model, [ran("QLinearConv", "stem")])
    assert (info.flops, info.bytes, info.origin) == (model.totals.flops, None, "stem")


def test_of_a_real_model_all_work_is_found() -> None:
    """Names as ONNX Runtime 1.31.1 gave them for the first operators of SqueezeNet."""
    model = inspection_of(light("squeezenet"))
    infos = with_work(
        model, [ran("Conv", "r1_nchwc"), ran("MaxPool", "r2_nchwc"), ran("Conv", "r4_nchwc"), ran("Concat", "n9")]
    )
    assert [info.origin for info in infos] == ["n0 + n1", "n2", "n3 + n4", "n9"]
    assert infos[0].flops == sum(cost.flops or 0 for cost in model.operators if cost.operator.name in ("n0", "n1"))


def test_an_unmerged_operator_matches_by_output_on_any_provider() -> None:
    """An estimate runs each operator alone, by the kernel or the delegate that has it in the model."""
    model = inspection_of(tflite_models.tflite_ladder())
    infos = [ran("FULLY_CONNECTED", "wide0", "XNNPACK"), ran("TANH", "narrow0", "CPU")]
    assert [origin.name for origin in origins(model, infos)] == ["wide0", "narrow0"]


def test_what_tflite_ran_itself_is_found_by_its_output() -> None:
    model = inspection_of(tflite_models.tflite_ladder())
    assert names(model, ran("TANH", "narrow0"), ran("TANH", "wide0")) == ["narrow0", None]


def test_xnnpacks_operators_are_those_of_the_file_in_their_order() -> None:
    model = inspection_of(tflite_models.tflite_ladder())
    gemm = "Fully Connected (NC, F32) GEMM"
    infos = [ran(gemm, f"{gemm}:{i}", "XNNPACK") for i in range(42)]
    infos += [ran("Add (ND)", "Add (ND):60", "XNNPACK"), ran("Copy (NC, X32)", "Copy (NC, X32):61", "XNNPACK")]
    found = names(model, *infos)
    assert found[:4] == ["wide0", "bare0", "wide1", "bare1"]
    assert found[42:] == [None, None]  # one sum where the file has twenty; and nothing in it is a copy
    assert names(model, *infos[1:]) == [None] * 43
    assert names(model, ran("TANH", "narrow0"), *infos[:42])[:3] == ["narrow0", "wide0", "bare0"]


def test_a_depthwise_kernel_never_matches_another_convolution() -> None:
    model = inspection_of(tflite_models.tflite_ladder())
    gemm, depthwise = "Fully Connected (NC, F32) GEMM", "Convolution (NHWC, F32) DWConv"
    infos = [ran(gemm, f"{gemm}:{i}", "XNNPACK") for i in range(41)] + [ran(depthwise, depthwise, "XNNPACK")]
    assert names(model, *infos) == [None] * 42


@pytest.mark.parametrize(
    ("content", "dtype"), [(light("squeezenet"), "float32"), (tflite_models.tflite_int8(), "int8")]
)
def test_the_main_dtype_is_that_of_most_multiplications(content: bytes, dtype: str) -> None:
    assert main_dtype(inspection_of(content).operators) == dtype


def test_a_model_without_products_has_no_main_dtype() -> None:
    assert main_dtype(onnx(make_node("Relu", ["x"], ["y"])).operators) is None
