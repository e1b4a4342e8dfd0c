"""Pictures as inputs: `.jpg` and `.png` files become arrays of the input's shape. Pillow is imported when it is needed.

A value is (pixel - mean) * scale for each channel, with pixels from 0 to 255 in the order red, green, blue. Without
options the mean is 0. The scale is then 1/255 for floats and quantised integers, and 1 for other integers.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .engine_error import EngineError, one_line

SUFFIXES = (".jpg", ".jpeg", ".png")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # Pillow's modes by the number of channels
FIRST, LAST = "nchw", "nhwc"
PIXEL_MAX = 255


def is_image(path: str) -> bool:
    return path.lower().endswith(SUFFIXES)


def shape_for(shape: Sequence[Any], path: str, options: Dict[str, Any], name: str) -> List[int]:
    """Return the shape of the array that the picture at `path` becomes, such as [1, 3, 224, 224].

    `shape` is the shape that the model declares for the input `name`. `options` are the user's options for pictures,
    such as "layout" and "size". Raises EngineError("input") if the input cannot be a picture, or if the file cannot be
    read.
    """
    layout, channels = _layout(shape, options, name)
    height, width = _sides(shape, layout)
    asked = options.get("size")
    if asked:
        width, height = asked
    if height is None or width is None:
        with _opened(path) as picture:
            width, height = width or picture.width, height or picture.height
    inner = [channels, height, width] if layout == FIRST else [height, width, channels]
    return inner if len(shape) == 3 else [1, *inner]


def image_array(
    path: str, shape: Sequence[int], dtype: Any, quantisation: Tuple[float, int], options: Dict[str, Any], name: str
) -> Any:
    """Return the picture at `path` as an array of the shape `shape` and type `dtype`, for the input `name`.

    `quantisation` is the input's (scale, zero point). Its scale is 0 if the input is not quantised. `options` are the
    user's options for pictures: "layout", "mean", "scale". Raises EngineError("input") if the file cannot be read or
    does not fit.
    """
    layout, channels = _layout(shape, options, name)
    sides = _sides(shape, layout)
    height, width = sides[0] or 1, sides[1] or 1  # an inference has known shapes
    with _opened(path) as picture:
        try:
            sized = picture.convert(MODES[channels]).resize((width, height), 2)  # bilinear
            pixels = np.asarray(sized, np.float64).reshape(height, width, channels)
        except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and errors of its own
            raise EngineError("input", "%s: the picture cannot be read: %s" % (path, one_line(error))) from None
    values = _normalised(pixels, np.dtype(dtype), quantisation, options, channels)
    values = values.transpose(2, 0, 1) if layout == FIRST else values
    rows = values.reshape(values.shape if len(shape) == 3 else (1, *values.shape))
    return np.array(np.broadcast_to(rows, shape), dtype, order="C")


def _normalised(
    pixels: Any, dtype: Any, quantisation: Tuple[float, int], options: Dict[str, Any], channels: int
) -> Any:
    step, zero = quantisation
    is_raw = dtype.kind in "iu" and not step
    mean = _each(options.get("mean") or [0.0], channels, "mean")
    scale = _each(options.get("scale") or [1.0 if is_raw else 1.0 / PIXEL_MAX], channels, "scale")
    values = (pixels - mean) * scale
    if dtype.kind not in "iu":
        return values
    limits = np.iinfo(dtype)
    return np.clip(np.round(values / step + zero if step else values), limits.min, limits.max)


def _each(numbers: Sequence[float], channels: int, option: str) -> Any:
    if len(numbers) not in (1, channels):
        text = "--image-%s: %d numbers for %d channels" % (option, len(numbers), channels)
        raise EngineError("input", text, "give one number, or one for each channel")
    return np.array(numbers, np.float64)


def _layout(shape: Sequence[Any], options: Dict[str, Any], name: str) -> Tuple[str, int]:
    """Return an input's layout and its number of channels, such as ("nchw", 3).

    `shape` is the input's shape, and `name` its name. `options` may have the user's "layout". Raises
    EngineError("input") if the input cannot be a picture.
    """
    if len(shape) not in (3, 4):
        text = "input %s has %d dimensions, so it is no picture" % (name, len(shape))
        raise EngineError("input", text, "give it a .npy file")
    first, last = shape[-3], shape[-1]
    layout = options.get("layout") or (LAST if last in MODES and first not in MODES else FIRST)
    channels = last if layout == LAST else first
    if isinstance(channels, int) and channels > 0 and channels not in MODES:
        text = "input %s has %d channels as %s; a picture has 1, 3 or 4" % (name, channels, layout)
        raise EngineError("input", text, "give the other --image-layout, or a .npy file")
    return layout, channels if isinstance(channels, int) and channels > 0 else 3


def _sides(shape: Sequence[Any], layout: str) -> Tuple[Optional[int], Optional[int]]:
    height, width = shape[-2:] if layout == FIRST else shape[-3:-1]
    known = [side if isinstance(side, int) and side > 0 else None for side in (height, width)]
    return known[0], known[1]


def _opened(path: str) -> Any:
    """Open a picture with Pillow and return it. The pixels are not read yet.

    Raises EngineError("input") if Pillow is missing, or if the file is no picture.
    """
    try:
        from PIL import Image  # noqa: PLC0415  an extra, which most engines do without
    except ImportError:
        hint = "%s -m pip install pillow, or convert the pictures to .npy" % sys.executable
        raise EngineError("input", "%s: pictures need Pillow in the engine's Python" % path, hint) from None
    if not os.path.isfile(path):  # reading a pipe or a device might never end
        raise EngineError("input", "%s: not a regular file" % path)
    try:
        return Image.open(path)
    except Exception as error:  # as above; a picture of too many pixels too
        raise EngineError("input", "%s: not a picture: %s" % (path, one_line(error))) from None
