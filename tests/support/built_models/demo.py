"""Write the demo model, the same network as ONNX and as TFLite, from one table of layers.

    python -m tests.support.built_models.demo [--out DIR]

The network is a short MobileNet v1 (Howard et al. 2017, arXiv:1704.04861, table 1) at width
0.5, with batch norm already folded into the convolutions. The files are checked in and must
come out byte for byte the same on every machine: nothing here may depend on the clock, the
platform's math library or the order of a set. Needs `onnx`, `ai-edge-litert` and `flatbuffers`,
which edgetop itself does not.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from edgetop.demo import model_path
from tests.support.built_models.tflite_file import TfliteFile, table

SEED = 1704
ONNX_IR_VERSION = 8  # onnxruntime 1.10, the oldest edgetop runs, reads no newer one
ONNX_OPSET = 13

# Filters at full width and stride of each depthwise-separable block. The paper has 13; here the
# wide ones, which hold nearly all the weights, are fewer, and two narrow ones are added for work.
BLOCKS = ((64, 1), (128, 2), *((128, 1),) * 2, (256, 2), *((256, 1),) * 2, (512, 2), (512, 1), (512, 2))
STEM_FILTERS = 32

# The layouts of a convolution's weights: ONNX's, and TFLite's for the depthwise ones.
OHWI_TO_OIHW, OHWI_TO_IHWO = (0, 3, 1, 2), (3, 1, 2, 0)

RELU6_LIMITS = {"relu6/min": 0.0, "relu6/max": 6.0}


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution with bias and ReLU6 over a square image."""

    name: str
    kernel: int
    stride: int
    channels_in: int
    channels_out: int
    side_in: int
    # pixels, height and width alike
    is_depthwise: bool = False
    # each channel is convolved on its own

    @property
    def side_out(self) -> int:
        return -(-self.side_in // self.stride)

    @property
    def padding(self) -> tuple[int, int]:
        """Pixels (before, after) each axis: TensorFlow's SAME, where the odd pixel goes after."""
        total = max((self.side_out - 1) * self.stride + self.kernel - self.side_in, 0)
        return total // 2, total - total // 2

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """OHWI: output channels, kernel height, kernel width, input channels that each output sees."""
        return self.channels_out, self.kernel, self.kernel, 1 if self.is_depthwise else self.channels_in


@dataclass(frozen=True, slots=True)
class Network:
    """Convolutions, then a global average pool, a fully connected layer and a softmax."""

    name: str
    convolutions: tuple[Convolution, ...]
    classes: int

    @property
    def side(self) -> int:
        return self.convolutions[0].side_in

    @property
    def features(self) -> int:
        return self.convolutions[-1].channels_out


def mobilenet(name: str, side: int, width: float, classes: int, blocks: Sequence[tuple[int, int]] = BLOCKS) -> Network:
    """A MobileNet v1 for square images of `side` pixels with `width` times the paper's filters."""
    channels = int(STEM_FILTERS * width)
    layers = [Convolution("stem", 3, 2, 3, channels, side)]
    for number, (filters, stride) in enumerate(blocks, 1):
        side, channels_in, channels = layers[-1].side_out, channels, int(filters * width)
        depthwise = Convolution(
            f"block{number}/depthwise", 3, stride, channels_in, channels_in, side, is_depthwise=True
        )
        pointwise = Convolution(f"block{number}/pointwise", 1, 1, channels_in, channels, depthwise.side_out)
        layers += [depthwise, pointwise]
    return Network(name, tuple(layers), classes)


DEMO = mobilenet("edgetop-demo", side=224, width=0.5, classes=100)


def make_parameters(network: Network, seed: int = SEED) -> dict[str, NDArray[np.float32]]:
    """`NAME/weights` and `NAME/bias` of every layer; the fully connected one is "classifier".

    RandomState, because its streams are frozen while Generator's may change (NEP 19); uniform,
    because it takes no logarithm, which differs in its last bit from libm to libm.
    """
    rng = np.random.RandomState(seed)

    def uniform(shape: tuple[int, ...], limit: float) -> NDArray[np.float32]:
        return ((2 * rng.random_sample(shape) - 1) * limit).astype(np.float32)

    shapes: list[tuple[str, tuple[int, ...]]] = [(layer.name, layer.weights_shape) for layer in network.convolutions]
    shapes.append(("classifier", (network.classes, network.features)))
    parameters = {}
    for name, shape in shapes:
        fan_in = math.prod(shape[1:])
        # He et al. 2015 (arXiv:1502.01852): variance 2 / fan_in; a uniform one is limit**2 / 3.
        parameters[f"{name}/weights"] = uniform(shape, math.sqrt(6 / fan_in))
        parameters[f"{name}/bias"] = uniform(shape[:1], 0.1)
    return parameters


def build_onnx(network: Network) -> bytes:
    """The network as an ONNX file: `image` [1,3,side,side] to `probabilities` [1,classes]."""
    parameters = make_parameters(network)
    nodes: list[NodeProto] = []
    tensor = "image"
    for layer in network.convolutions:
        nodes += _onnx_convolution(layer, tensor)
        tensor = nodes[-1].output[0]
        weights = f"{layer.name}/weights"
        parameters[weights] = parameters[weights].transpose(OHWI_TO_OIHW)
    gemm_inputs = ["flatten", "classifier/weights", "classifier/bias"]
    nodes += [
        helper.make_node("GlobalAveragePool", [tensor], ["pool"], "pool"),
        helper.make_node("Flatten", ["pool"], ["flatten"], "flatten"),
        helper.make_node("Gemm", gemm_inputs, ["classifier"], "classifier", transB=1),
        helper.make_node("Softmax", ["classifier"], ["probabilities"], "probabilities", axis=1),
    ]
    parameters |= {name: np.array(limit, np.float32) for name, limit in RELU6_LIMITS.items()}
    initializers = [numpy_helper.from_array(array, name) for name, array in parameters.items()]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, network.side, network.side])
    output = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, network.classes])
    return serialise_onnx(helper.make_graph(nodes, network.name, [image], [output], initializers))


def _onnx_convolution(layer: Convolution, tensor: str) -> list[NodeProto]:
    before, after = layer.padding
    convolution = helper.make_node(
        "Conv",
        [tensor, f"{layer.name}/weights", f"{layer.name}/bias"],
        [layer.name],
        layer.name,
        group=layer.channels_in if layer.is_depthwise else 1,
        kernel_shape=[layer.kernel] * 2,
        pads=[before, before, after, after],
        strides=[layer.stride] * 2,
    )
    relu6 = f"{layer.name}/relu6"
    return [convolution, helper.make_node("Clip", [layer.name, *RELU6_LIMITS], [relu6], relu6)]


def serialise_onnx(graph: GraphProto) -> bytes:
    """The file of a graph, readable for old runtimes."""
    model = helper.make_model(
        graph,
        ir_version=ONNX_IR_VERSION,
        opset_imports=[helper.make_opsetid("", ONNX_OPSET)],
        producer_name="edgetop",
    )
    return bytes(model.SerializeToString(deterministic=True))


def build_tflite(network: Network) -> bytes:
    """The network as a TFLite file: `image` [1,side,side,3] to `probabilities` [1,classes]."""
    file = TfliteFile(network.name)
    graph = file.add_graph("main")
    parameters = make_parameters(network)

    def constant(name: str, axes: tuple[int, ...] | None = None) -> int:
        array = parameters[name] if axes is None else parameters[name].transpose(axes)
        return graph.add_tensor(name, array.shape, data=array)

    tensor = image = graph.add_tensor("image", (1, network.side, network.side, 3))
    for layer in network.convolutions:
        weights = constant(f"{layer.name}/weights", OHWI_TO_IHWO if layer.is_depthwise else None)
        inputs = [tensor, weights, constant(f"{layer.name}/bias")]
        tensor = graph.add_tensor(layer.name, (1, layer.side_out, layer.side_out, layer.channels_out))
        graph.add_operator(*_tflite_convolution(layer), inputs, [tensor])
    axes = graph.add_tensor("pool/axes", (2,), data=np.array([1, 2], np.int32))
    pool = graph.add_tensor("pool", (1, network.features))
    graph.add_operator("MEAN", table("ReducerOptions", keepDims=False), [tensor, axes], [pool])
    logits = graph.add_tensor("classifier", (1, network.classes))
    weights, bias = constant("classifier/weights"), constant("classifier/bias")
    graph.add_operator("FULLY_CONNECTED", table("FullyConnectedOptions"), [pool, weights, bias], [logits])
    probabilities = graph.add_tensor("probabilities", (1, network.classes))
    graph.add_operator("SOFTMAX", table("SoftmaxOptions", beta=1.0), [logits], [probabilities])
    graph.set_signature([image], [probabilities])
    return file.serialise()


def _tflite_convolution(layer: Convolution) -> tuple[str, Any]:
    """The operator and its options. Its padding SAME is what `Convolution.padding` spells out."""
    options = {
        "padding": schema.Padding.SAME,
        "strideH": layer.stride,
        "strideW": layer.stride,
        "fusedActivationFunction": schema.ActivationFunctionType.RELU6,
    }
    if layer.is_depthwise:
        return "DEPTHWISE_CONV_2D", table("DepthwiseConv2DOptions", depthMultiplier=1, **options)
    return "CONV_2D", table("Conv2DOptions", **options)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.built_models.demo", description="Write the demo model."
    )
    parser.add_argument("--out", type=Path, default=model_path().parent, help="folder for the files")
    folder: Path = parser.parse_args(argv).out
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("demo.onnx", build_onnx(DEMO)), ("demo.tflite", build_tflite(DEMO))):
        (folder / name).write_bytes(content)
        sys.stdout.write(f"{folder / name}: {len(content)} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
