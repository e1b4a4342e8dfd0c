"""Models of OpenVINO (IR), made with its own Python API."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino
from openvino import opset13

from tests.support.ncnn_models import BIAS, WEIGHTS

HOSTILE_INPUT = "[red]x[/red]\x7f"  # XML has no other control character


def built(write: Callable[[Path], Path]) -> tuple[bytes, bytes]:
    """What `write` writes: the bytes of an IR and of its weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "net.xml")
        return path.read_bytes(), path.with_suffix(".bin").read_bytes()


def products() -> tuple[bytes, bytes]:
    return built(write_products)


def open_batch() -> tuple[bytes, bytes]:
    return built(lambda path: write_products(path, batch=-1))


def hostile_names() -> tuple[bytes, bytes]:
    return built(lambda path: write_products(path, name=HOSTILE_INPUT))


def unknown_layer() -> tuple[bytes, bytes]:
    model, weights = products()
    return model.replace(b'type="MatMul"', b'type="Frobnicate"'), weights


def write_products(path: Path, batch: int = 1, name: str = "x") -> Path:
    """Write y = relu(WEIGHTS x + BIAS), and its weights beside it. Returns `path`. A batch of -1 is left open."""
    x = opset13.parameter(openvino.PartialShape([batch, 8]), np.float32, name=name)
    x.output(0).tensor.set_names({name})
    product = opset13.matmul(x, opset13.constant(WEIGHTS), transpose_a=False, transpose_b=True)
    y = opset13.relu(opset13.add(product, opset13.constant(BIAS.reshape(1, 5))))
    openvino.save_model(openvino.Model([opset13.result(y)], [x], "products"), path, compress_to_fp16=False)
    return path
