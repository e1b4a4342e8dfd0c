"""What is read from the files of OpenVINO and ncnn without a runtime."""

from pathlib import Path

import numpy as np
import openvino
import pytest
from openvino import opset13 as ops

from edgetop.engines.formats import identify
from edgetop.errors import InputError
from edgetop.models.inspection import Inspection, inspected, read_model
from edgetop.models.ncnn_file import read_ncnn
from edgetop.models.openvino_file import read_openvino
from edgetop.models.reading_limits import MalformedError
from edgetop.models.shape_inference import with_shapes
from tests.support.ncnn_models import write_products

# A convolution of 4 x 3 x 3 x 3 weights, stored as float16, over an input of 1 x 3 x 8 x 8.
IR = """<?xml version="1.0"?>
<net name="n" version="11"><layers>
<layer id="0" name="x" type="Parameter"><data shape="1,3,8,8" element_type="f32"/><output><port id="0" precision="FP32"
 names="x"><dim>1</dim><dim>3</dim><dim>8</dim><dim>8</dim></port></output></layer>
<layer id="1" name="w" type="Const"><data element_type="f16" shape="4,3,3,3" offset="0" size="216"/><output><port id="0"
 precision="FP16"><dim>4</dim><dim>3</dim><dim>3</dim><dim>3</dim></port></output></layer>
<layer id="2" name="w32" type="Convert"><input><port id="0"/></input><output><port id="1" precision="FP32"><dim>4</dim>
<dim>3</dim><dim>3</dim><dim>3</dim></port></output></layer>
<layer id="3" name="conv" type="Convolution"><data strides="1, 1"/><input><port id="0"/><port id="1"/></input><output>
<port id="2" precision="FP32" names="y"><dim>1</dim><dim>4</dim><dim>8</dim><dim>8</dim></port></output></layer>
<layer id="4" name="r" type="Result"><input><port id="0"/></input></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="3" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="2" from-port="1" to-layer="3" to-port="1"/>
<edge from-layer="3" from-port="2" to-layer="4" to-port="0"/></edges></net>
"""


def of(path: Path) -> Inspection:
    return inspected(read_model(path, identify(path).format), {})


def test_an_ir_has_its_operators_weights_and_work(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    path.write_text(IR)
    found = of(path)
    graph = found.model.graph
    assert [(one.name, one.op_type) for one in graph.operators] == [("conv", "Convolution")]
    assert [graph.tensors[place].name for place in (*graph.inputs, *graph.outputs)] == ["x", "y"]
    assert found.totals.macs == 4 * 8 * 8 * 3 * 3 * 3
    assert found.weights.parameters == 108
    assert [(name, one.needed_bytes) for name, one in found.model.external.items()] == [("net.bin", 216)]


def test_a_param_file_has_its_operators_weights_and_work(tmp_path: Path) -> None:
    found = of(write_products(tmp_path / "net.param"))
    graph = found.model.graph
    assert [(one.name, one.op_type) for one in graph.operators] == [("product", "InnerProduct"), ("relu", "ReLU")]
    assert graph.tensors[graph.outputs[0]].shape == (5,)
    assert found.totals.macs == 40
    assert found.weights.parameters == 40
    assert list(found.model.external) == ["net.bin"]


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("Convolution c 1 1 x y 0=16 1=3 4=1 6=432", (16, 224, 224)),
        ("Convolution c 1 1 x y 0=16 1=3 3=2 4=1 6=432", (16, 112, 112)),
        ("Convolution c 1 1 x y 0=16 1=3 2=2 6=432", (16, 220, 220)),
        ("Convolution c 1 1 x y 0=16 1=3 3=2 4=-233 6=432", (16, 112, 112)),
        ("ConvolutionDepthWise c 1 1 x y 0=3 1=3 4=1 6=27 7=3", (3, 224, 224)),
        ("Pooling c 1 1 x y 0=0 1=3 2=2", (3, 112, 112)),
        ("Pooling c 1 1 x y 0=0 1=3 2=2 5=1", (3, 111, 111)),
        ("Pooling c 1 1 x y 0=1 4=1", (3,)),
        ("Sigmoid c 1 1 x y", (3, 224, 224)),
        ("Frobnicate c 1 1 x y", None),
    ],
)
def test_sizes_follow_from_layers(line: str, shape: object) -> None:
    text = f"7767517\n2 2\nInput x 0 1 x 0=224 1=224 2=3\n{line}\n"
    graph = read_ncnn(memoryview(text.encode())).graph
    assert graph.tensors[graph.outputs[0]].shape == shape


@pytest.mark.parametrize(
    "text",
    [
        IR[:700],
        '<!DOCTYPE n [<!ENTITY a "b">]>' + IR,
        IR.replace('to-port="1"/>', 'to-port="9"/>'),
        IR.replace("<dim>8</dim>", "<dim>many</dim>"),
        IR.replace('from-layer="1" from-port="0" to-layer="2"', 'from-layer="3" from-port="2" to-layer="2"'),
        "<net/>" * 2,
    ],
)
def test_a_broken_ir_is_malformed(text: str) -> None:
    with pytest.raises(MalformedError):
        read_openvino(memoryview(text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        "7767517",
        "7767517\n2 2\nInput x 0 1 x",
        "7767517\n1 1\nReLU r 1 1 gone y",
        "7767517\n1 1\nReLU r -1 1 y",
        "7767517\n-1 0",
    ],
)
def test_a_broken_param_file_is_malformed(text: str) -> None:
    with pytest.raises(MalformedError):
        read_ncnn(memoryview(text.encode()))


def test_a_model_of_a_plugin_cannot_be_inspected(tmp_path: Path) -> None:
    path = tmp_path / "m.odd"
    path.write_bytes(b"odd")
    with pytest.raises(InputError, match="does not know what is in a model of the engine odd"):
        read_model(path, "odd")


def _open_network(path: Path, sizes: list[int], *, swaps: bool) -> None:
    """Write a network with a branch, in which every kind of rule has an operator. -1 in `sizes` leaves a size open.

    `swaps`: with a transposition, whose order is a value, so that only one of its sizes may be open.
    """
    one = [1, 1]

    def ones(*sizes: int) -> openvino.Node:
        return ops.constant(np.ones(sizes, np.float32))

    x = ops.parameter(openvino.PartialShape(sizes), np.float32, name="x")
    x.output(0).tensor.set_names({"x"})
    conv = ops.convolution(x, ones(4, 3, 3, 3), [2, 2], one, one, one)
    same = ops.convolution(conv, ones(4, 4, 2, 2), one, [0, 0], [0, 0], [2, 2], "same_upper")
    pool = ops.max_pool(ops.relu(same), one, one, one, one, [3, 3]).output(0)
    grouped = ops.group_convolution(pool, ones(4, 1, 1, 3, 3), one, one, one, one)
    joined = ops.concat([grouped, conv, ops.multiply(pool, ones(1, 4, 1, 1))], 1)
    swapped = ops.transpose(joined, ops.constant(np.array([0, 2, 3, 1]))) if swaps else joined
    kept = ops.reduce_max(swapped, ops.constant(np.array([1, 2] if swaps else [2, 3])), keep_dims=True)
    mean = ops.reduce_mean(joined, ops.constant(np.array([2, 3])), keep_dims=False)
    flat = ops.reshape(kept, ops.constant(np.array([-1, 12])), special_zero=False)
    dense = ops.matmul(ops.add(flat, mean), ones(10, 12), transpose_a=False, transpose_b=True)
    openvino.save_model(openvino.Model([ops.result(ops.softmax(dense, 1))], [x], "open"), path)


@pytest.mark.parametrize(("left_open", "swaps"), [((0,), True), ((2,), True), ((0, 2, 3), False)])
def test_open_sizes_of_an_ir_become_those_that_openvino_has(
    left_open: tuple[int, ...], swaps: bool, tmp_path: Path
) -> None:
    whole = [2, 3, 30, 22]
    given_sizes = [-1 if at in left_open else size for at, size in enumerate(whole)]
    _open_network(tmp_path / "open.xml", given_sizes, swaps=swaps)
    _open_network(tmp_path / "whole.xml", whole, swaps=swaps)
    given, expected = (read_model(tmp_path / name, "openvino") for name in ("open.xml", "whole.xml"))
    shapes = [tensor.shape for tensor in with_shapes(given, {"x": whole}).graph.tensors]
    assert shapes == [tensor.shape for tensor in expected.graph.tensors]
    assert inspected(given, {"x": tuple(whole)}).totals == inspected(expected, {}).totals


def test_an_ir_that_leaves_the_rank_open_has_unknown_work(tmp_path: Path) -> None:
    x = ops.parameter(openvino.PartialShape.dynamic(), np.float32, name="x")
    openvino.save_model(openvino.Model([ops.result(ops.relu(x))], [x], "rank"), tmp_path / "net.xml")
    found = of(tmp_path / "net.xml")
    assert [tensor.shape for tensor in found.model.graph.tensors] == [None, None]
    assert (found.totals.flops, found.totals.flops_unknown) == (0, 1)
