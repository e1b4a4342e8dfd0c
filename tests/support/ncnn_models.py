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


def write_products(path: Path) -> Path:
    """Write y = relu(WEIGHTS x + BIAS). The weights have a tag of 0 before them, which means float32."""
    path.write_text(PRODUCTS)
    path.with_suffix(".bin").write_bytes(b"\0\0\0\0" + WEIGHTS.tobytes() + BIAS.tobytes())
    return path
