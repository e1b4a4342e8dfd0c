"""Models of ncnn, written by hand: a param file, and a .bin file with the weights in the order of the layers."""

from pathlib import Path

import numpy as np

WEIGHTS = np.linspace(-1, 1, 5 * 8, dtype=np.float32).reshape(5, 8)
BIAS = np.arange(5, dtype=np.float32) - 2

PRODUCTS = """\
7767517
3 3
Input        x       0 1 x     0=8
InnerProduct product 1 1 x raw 0=5 1=1 2=40
ReLU         relu    1 1 raw y
"""


HOSTILE_INPUT = "[red]x[/red]\x1b[31m"

Built = tuple[bytes, bytes]  # a param file and the weights


def products() -> Built:
    """y = relu(WEIGHTS x + BIAS). The weights have a tag of 0 before them, which means float32."""
    return PRODUCTS.encode(), b"\0\0\0\0" + WEIGHTS.tobytes() + BIAS.tobytes()


def in_place(name: str = "x", size: int = 0) -> Built:
    """A layer that ncnn computes in the memory of the model's input. Without a size, the shape is open."""
    sizes = f" 0={size}" if size else ""
    return f"7767517\n2 2\nInput {name} 0 1 {name}{sizes}\nReLU relu 1 1 {name} y\n".encode(), b""


def sum_of_two() -> Built:
    return b"7767517\n3 3\nInput a 0 1 a 0=4\nInput b 0 1 b 0=4\nBinaryOp sum 2 1 a b y 0=0\n", b""


def unknown_layer() -> Built:
    return b"7767517\n2 2\nInput x 0 1 x 0=4\nFrobnicate f 1 1 x y\n", b""


def write_products(path: Path) -> Path:
    model, weights = products()
    path.write_bytes(model)
    path.with_suffix(".bin").write_bytes(weights)
    return path
