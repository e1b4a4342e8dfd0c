"""Models for what reads files: real topologies from the `onnx` package, and networks that papers give figures for."""

from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from edgetop.models.onnx_file import read_onnx
from edgetop.models.tflite_file import read_tflite

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
LIGHT_MODELS = sorted(path.stem.removeprefix("light_") for path in LIGHT.glob("light_*.onnx"))


def light(name):
    """The bytes of a model of the `onnx` package: a real topology with constant weights."""
    return (LIGHT / f"light_{name}.onnx").read_bytes()


def read(content):
    """The model in the bytes of a file of either format."""
    view = memoryview(content)
    return read_tflite(view) if content[4:8] == b"TFL3" else read_onnx(view)


def one_node(op_type, inputs, *, constants=None, outputs=1, domain="", opset=17, **attributes):
    """The bytes of a model of one operator. `inputs`: name to (shape, ONNX element type), "" to be left out."""
    constants = constants or {}
    names = [name if shape is not None else "" for name, (shape, _) in inputs.items()]
    node = helper.make_node(op_type, names, [f"out{i}" for i in range(outputs)], "node", domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(name, dtype, shape)
        for name, (shape, dtype) in inputs.items()
        if shape is not None and name not in constants
    ]
    return model_of([node], infos, [f"out{i}" for i in range(outputs)], constants, opset)


def model_of(nodes, inputs, outputs, constants=None, opset=17):
    """The bytes of a graph whose outputs are named but not described."""
    graph = helper.make_graph(
        nodes,
        "test",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()


class _Layers:
    """Nodes one after the other, with weights in a file that need not be there."""

    def __init__(self):
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def add(self, op_type, inputs, **attributes):
        name = f"{op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def conv(self, before, channels_in, channels, kernel, **attributes):
        shapes = {f"w{len(self.nodes)}": (channels, channels_in, kernel, kernel), f"b{len(self.nodes)}": (channels,)}
        self.weights += [external_tensor(name, shape) for name, shape in shapes.items()]
        return self.add("Relu", [self.add("Conv", [before, *shapes], kernel_shape=[kernel] * 2, **attributes)])


def external_tensor(name, shape):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


def squeezenet_1_0(side=224, classifier_pad=0):
    """Iandola et al. 2016, arXiv:1602.07360, table 1, as a file whose weights lie in another.

    The authors' own file pads the last convolution by 1 (github.com/forresti/SqueezeNet, SqueezeNet_v1.0).
    """
    layers = _Layers()
    x = layers.conv("image", 3, 96, 7, strides=[2, 2])
    channels = 96
    for number, (squeeze, expand) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)), 2
    ):
        if number in {2, 5, 9}:
            x = layers.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        squeezed = layers.conv(x, channels, squeeze, 1)
        sides = [layers.conv(squeezed, squeeze, expand, 1), layers.conv(squeezed, squeeze, expand, 3, pads=[1] * 4)]
        x, channels = layers.add("Concat", sides, axis=1), 2 * expand
    x = layers.add("GlobalAveragePool", [layers.conv(x, channels, 1000, 1, pads=[classifier_pad] * 4)])
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])
    graph = helper.make_graph(layers.nodes, "squeezenet", [image], [onnx.ValueInfoProto(name=x)], layers.weights)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    return model.SerializeToString()
