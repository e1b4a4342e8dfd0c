"""Models of OpenVINO (IR), made with its own Python API."""

from pathlib import Path

import numpy as np
import openvino
from openvino import opset13

from tests.support.ncnn_models import BIAS, WEIGHTS


def write_products(path: Path) -> Path:
    """Write y = relu(WEIGHTS x + BIAS), and its weights beside it. Returns `path`."""
    x = opset13.parameter([1, 8], np.float32, name="x")
    x.output(0).tensor.set_names({"x"})
    product = opset13.matmul(x, opset13.constant(WEIGHTS), transpose_a=False, transpose_b=True)
    y = opset13.relu(opset13.add(product, opset13.constant(BIAS.reshape(1, 5))))
    openvino.save_model(openvino.Model([opset13.result(y)], [x], "products"), path, compress_to_fp16=False)
    return path
