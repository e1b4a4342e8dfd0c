"""Element types that NumPy lacks: bfloat16, the float8 types and the 4-bit integers.

An array of such a type holds the bits of each element in an unsigned integer: of 16 bits for bfloat16, of 8 bits for
the others. Formats: https://onnx.ai/onnx/technical/float8.html, https://onnx.ai/onnx/technical/int4.html; a bfloat16 is
the upper half of a float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np


class SmallType(NamedTuple):
    name: str  # as ml_dtypes calls it
    onnx_type: int  # TensorProto.DataType (onnx/onnx.proto)
    bits: int
    exponent_bits: int = 0  # of a float of 8 bits
    bias: int = 0
    is_fnuz: bool = False  # whether it has no infinity, no negative zero, and a single NaN
    has_infinity: bool = False
    least: int = 0  # of an integer

    @property
    def storage(self) -> Any:
        """NumPy's type of the unsigned integers that hold the elements' bits."""
        return np.dtype(np.uint16 if self.bits == 16 else np.uint8)

    @property
    def is_integer(self) -> bool:
        return self.bits == 4


# By ONNX Runtime's name of the tensor's elements.
SMALL_TYPES = {
    "bfloat16": SmallType("bfloat16", 16, 16),
    "float8e4m3fn": SmallType("float8_e4m3fn", 17, 8, 4, 7),
    "float8e4m3fnuz": SmallType("float8_e4m3fnuz", 18, 8, 4, 8, is_fnuz=True),
    "float8e5m2": SmallType("float8_e5m2", 19, 8, 5, 15, has_infinity=True),
    "float8e5m2fnuz": SmallType("float8_e5m2fnuz", 20, 8, 5, 16, is_fnuz=True),
    "uint4": SmallType("uint4", 21, 4),
    "int4": SmallType("int4", 22, 4, least=-8),
}
BY_ONNX_TYPE = {one.onnx_type: one for one in SMALL_TYPES.values()}


def values_of_bits(kind: SmallType) -> Any:
    """Return the value of each of the 256 bit patterns of a float of 8 bits, as float32."""
    bits = np.arange(256)
    mantissa_bits = 7 - kind.exponent_bits
    exponent = (bits >> mantissa_bits) & ((1 << kind.exponent_bits) - 1)
    mantissa = bits & ((1 << mantissa_bits) - 1)
    share = mantissa / 2.0**mantissa_bits
    normal = (1 + share) * 2.0 ** (exponent - kind.bias)
    values = np.where(exponent == 0, share * 2.0 ** (1 - kind.bias), normal) * np.where(bits >= 128, -1, 1)
    top = exponent == (1 << kind.exponent_bits) - 1
    if kind.is_fnuz:
        values[128] = np.nan
    elif kind.has_infinity:
        values[top & (mantissa == 0)] *= np.inf
        values[top & (mantissa != 0)] = np.nan
    else:
        values[(bits & 127) == 127] = np.nan
    return values.astype(np.float32)


def to_bits(kind: SmallType, array: Any) -> Any:
    """Convert the numbers in `array` to the type `kind`, and return their bits as an array of unsigned integers.

    Floats are rounded to the nearest value of the type, and halves to the even bit pattern. In a float of 8 bits, a
    number that is too large becomes the largest value. Raises ValueError if `kind` is a type of integers and a number
    in `array` is not an integer in its range.
    """
    if kind.is_integer:
        whole = np.asarray(array)
        if whole.size and (
            whole.min() < kind.least or whole.max() > kind.least + 15 or (whole != np.rint(whole)).any()
        ):
            raise ValueError("is not from %d to %d" % (kind.least, kind.least + 15))
        return (whole.astype(np.int16) & 15).astype(np.uint8)
    wide = np.array(array, np.float32, order="C")
    if kind.bits == 16:
        raw = wide.view(np.uint32).astype(np.uint64)
        rounded = ((raw + 0x7FFF + ((raw >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)
        return np.where(np.isnan(wide), np.uint16(0x7FC0), rounded).astype(np.uint16)
    values = values_of_bits(kind)
    finite = np.flatnonzero(np.isfinite(values) & ((np.arange(256) != 128) | kind.is_fnuz))
    order = finite[np.argsort(values[finite], kind="stable")]
    ascending = values[order].astype(np.float64)
    above = np.clip(np.searchsorted(ascending, wide), 1, len(order) - 1)
    low, high = wide - ascending[above - 1], ascending[above] - wide
    takes_low = (low < high) | ((low == high) & (order[above - 1] % 2 == 0))
    nan = int(np.flatnonzero(np.isnan(values))[0])
    return np.where(np.isnan(wide), nan, order[np.where(takes_low, above - 1, above)]).astype(np.uint8)


def from_bits(kind: SmallType, bits: Any) -> Any:
    """Return the numbers of the type `kind` whose bits are `bits`: as float32, or as int8 or uint8 for integers."""
    if kind.is_integer:
        small = (bits & 15).astype(np.int8)
        return np.where(small > 7, small - 16, small).astype(np.int8) if kind.least else small
    if kind.bits == 16:
        return np.asarray(bits.astype(np.uint32) << 16, np.uint32).view(np.float32)
    return values_of_bits(kind)[bits]


def packed(bits: Any) -> Any:
    """Return 4-bit elements packed two to a byte, the first one in the lower half. `bits` has one element to a byte.

    The result has the shape of `bits`, as ONNX Runtime needs it. Only its first half is used.
    """
    flat = np.ascontiguousarray(bits, np.uint8).reshape(-1)
    made = np.zeros(flat.size, np.uint8)
    half = (flat.size + 1) // 2
    made[:half] = flat[0::2]
    made[: flat.size // 2] |= flat[1::2] << 4
    return made.reshape(bits.shape)


def unpacked(data: Any, count: int) -> Any:
    """Return `count` 4-bit elements, one to a byte. `data` has two elements to a byte."""
    both = np.empty(2 * len(data), np.uint8)
    both[0::2], both[1::2] = data & 15, data >> 4
    return both[:count]


def small_type_of(dtype: Any) -> Optional[SmallType]:
    """Return the small type that has the name of `dtype`, a type of the package ml_dtypes, or None.

    For an array that numpy.load has read, the result is None: its `dtype` is then a void type without a name.
    """
    return next((one for one in SMALL_TYPES.values() if one.name == dtype.name), None)
