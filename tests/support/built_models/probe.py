"""Write the probe, the same two operators as ONNX and as TFLite.

    python -m tests.support.built_models.probe [--out DIR]

`copy` is a Relu over 16 MiB: it reads and writes each number once, more than the caches of such boards
hold. `multiply` is a product of matrices of 512 by 512, large enough for a runtime to be at its best.
Weights are zeros, which pack to nothing and multiply as fast as others. Needs what the demo's build needs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from edgetop.roofline_models import COPY, MULTIPLY, probe_path
from tests.support.built_models.demo import serialise_onnx
from tests.support.built_models.tflite_file import TfliteFile, table

COPIED = (2048, 2048)
SIDE = 512


def build_onnx() -> bytes:
    weights = numpy_helper.from_array(np.zeros((SIDE, SIDE), np.float32), "weights")
    shapes = {"wide": COPIED, "square": (SIDE, SIDE)}
    inputs, outputs = (
        [helper.make_tensor_value_info(f"{name}/{end}", TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        for end in ("in", "out")
    )
    nodes = [
        helper.make_node("Relu", ["wide/in"], ["wide/out"], COPY),
        helper.make_node("MatMul", ["square/in", "weights"], ["square/out"], MULTIPLY),
    ]
    return serialise_onnx(helper.make_graph(nodes, "probe", inputs, outputs, [weights]))


def build_tflite() -> bytes:
    """TFLite's operators are called as their outputs."""
    file = TfliteFile("probe")
    graph = file.add_graph("main")
    wide, square = graph.add_tensor("wide/in", COPIED), graph.add_tensor("square/in", (SIDE, SIDE))
    weights = graph.add_tensor("weights", (SIDE, SIDE), data=np.zeros((SIDE, SIDE), np.float32))
    copied, multiplied = graph.add_tensor(COPY, COPIED), graph.add_tensor(MULTIPLY, (SIDE, SIDE))
    graph.add_operator("RELU", None, [wide], [copied])
    graph.add_operator("FULLY_CONNECTED", table("FullyConnectedOptions"), [square, weights, -1], [multiplied])
    graph.set_signature([wide, square], [copied, multiplied])
    return file.serialise()


def build_int8_onnx() -> bytes:
    """A product of uint8 by int8, which has the fastest kernels (onnxruntime/core/mlas/lib/qgemm.cpp)."""
    weights = numpy_helper.from_array(np.zeros((SIDE, SIDE), np.int8), "weights")
    scale = numpy_helper.from_array(np.float32(0.1), "scale")
    zeros = [numpy_helper.from_array(kind(0), f"zero/{kind.__name__}") for kind in (np.uint8, np.int8)]
    inputs, outputs = (
        [helper.make_tensor_value_info(f"square/{end}", TensorProto.UINT8, (SIDE, SIDE))] for end in ("in", "out")
    )
    zero_u, zero_s = (one.name for one in zeros)
    sides = ["square/in", "scale", zero_u, "weights", "scale", zero_s, "scale", zero_u]
    nodes = [helper.make_node("QLinearMatMul", sides, ["square/out"], MULTIPLY)]
    return serialise_onnx(helper.make_graph(nodes, "probe-int8", inputs, outputs, [weights, scale, *zeros]))


def build_int8_tflite() -> bytes:
    """A fully connected layer with int8 weights, one scale for each output, and no bias."""
    file = TfliteFile("probe-int8")
    graph = file.add_graph("main")
    quantisation = table("QuantizationParameters", scale=[0.1], zeroPoint=[0])
    square = graph.add_tensor("square/in", (SIDE, SIDE), "int8", quantization=quantisation)
    data = np.zeros((SIDE, SIDE), np.int8)
    weights = graph.add_tensor("weights", (SIDE, SIDE), data=data, quantization=quantisation)
    multiplied = graph.add_tensor(MULTIPLY, (SIDE, SIDE), "int8", quantization=quantisation)
    graph.add_operator(
        "FULLY_CONNECTED", table("FullyConnectedOptions"), [square, weights, -1], [multiplied], version=4
    )
    graph.set_signature([square], [multiplied])
    return file.serialise()


FILES = {
    "probe.onnx": build_onnx,
    "probe.tflite": build_tflite,
    "probe-int8.onnx": build_int8_onnx,
    "probe-int8.tflite": build_int8_tflite,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.built_models.probe", description="Write the probe.")
    parser.add_argument("--out", type=Path, default=probe_path("onnx").parent, help="folder for the files")
    folder: Path = parser.parse_args(argv).out
    folder.mkdir(parents=True, exist_ok=True)
    for name, build in FILES.items():
        content = build()
        (folder / name).write_bytes(content)
        sys.stdout.write(f"{folder / name}: {len(content)} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
