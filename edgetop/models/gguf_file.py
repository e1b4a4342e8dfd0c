"""Read the header of a GGUF file: its metadata and its list of tensors, but no weights.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A file may be cut short, hostile or larger than
memory. So every length is checked against the end of the file, the number of steps is limited, and arrays are skipped
unless they are short and consist of numbers.
"""

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path

from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.models.mapped_file import map_file
from edgetop.models.reading_limits import MAX_TENSORS, Budget, MalformedError

MAGIC = b"GGUF"
VERSIONS = (2, 3)  # version 1 has other lengths, and was in use for a few weeks of 2023
DEFAULT_ALIGNMENT = 32  # gguf.md, `general.alignment`
MAX_KEYS = 65_536
MAX_STEPS = 2_000_000  # numbers and texts; a vocabulary of 262,144 tokens with its merges takes 800,000
MAX_TEXT_BYTES = 4096  # longer texts are cut: chat templates take 20 KiB
MAX_ARRAY = 4096  # longest array of numbers that is read: figures of each layer are shorter, vocabularies longer
MAX_DIMENSIONS = 4  # GGML_MAX_DIMS in ggml.h

# Types of metadata values (enum gguf_type in ggml/include/gguf.h): layout of the numbers, then the two others.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

# Name, elements in a block, and bytes of a block of each tensor type (enum ggml_type in ggml/include/ggml.h, sizes in
# ggml/src/ggml-common.h).
TENSOR_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip

Scalar = int | float | str | bool
Numbers = tuple[int | float, ...]


@frozen
class GgufTensor:
    name: str
    shape: tuple[int, ...]  # as in the file: the fastest dimension first
    type: str  # "Q4_K"; "type 99" if edgetop does not know the type
    bytes: int | None  # None if edgetop does not know the type

    @property
    def elements(self) -> int:
        return prod(self.shape)


@frozen
class GgufFile:
    version: int
    metadata: Mapping[str, Scalar | Numbers]  # without arrays of texts and long arrays
    lengths: Mapping[str, int]  # length of each array by its key
    tensors: tuple[GgufTensor, ...]


def read_gguf(path: Path) -> GgufFile:
    """Return the header of a GGUF file. Raises InputError with the reason if the file cannot be read."""
    try:
        return parse_gguf(map_file(path))
    except MalformedError as error:
        raise InputError(f"{path}: {error}", "the file is damaged or incomplete: get it again") from None


def parse_gguf(data: memoryview) -> GgufFile:
    """Return the header of a GGUF file from the bytes of the whole file.

    Raises MalformedError if the file is invalid or cut short.
    """
    return _Reader(data).file()


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 4
        self._budget = Budget(MAX_STEPS)
        self._lengths: dict[str, int] = {}

    def file(self) -> GgufFile:
        if bytes(self._data[:4]) != MAGIC:
            raise MalformedError("is no GGUF file")
        version = int(self._number("I"))
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            why = "is big-endian" if swapped in VERSIONS else f"is GGUF version {version}"
            raise MalformedError(f"{why}, and edgetop reads little-endian files of versions 2 and 3")
        tensor_count, key_count = int(self._number("Q")), int(self._number("Q"))
        if tensor_count > MAX_TENSORS or key_count > MAX_KEYS:
            raise MalformedError(f"names {tensor_count} tensors and {key_count} keys, more than any model has")
        metadata: dict[str, Scalar | Numbers] = {}
        for _ in range(key_count):
            key = self._text()
            value = self._value(int(self._number("I")), key)
            if value is not None:
                metadata[key] = value
        placed = [self._tensor() for _ in range(tensor_count)]
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= 2**20:
            raise MalformedError("has an invalid general.alignment")
        self._check_ends(placed, -(-self._at // alignment) * alignment)
        return GgufFile(version, metadata, self._lengths, tuple(tensor for tensor, _ in placed))

    def _take(self, size: int) -> memoryview:
        if size > len(self._data) - self._at:
            raise MalformedError(f"is cut short in its header, at {len(self._data)} bytes")
        self._at += size
        return self._data[self._at - size : self._at]

    def _number(self, layout: str) -> int | float:
        self._budget.spend(1)
        number: int | float = struct.unpack("<" + layout, self._take(struct.calcsize("<" + layout)))[0]
        return number

    def _text(self) -> str:
        return bytes(self._take(int(self._number("Q")))[:MAX_TEXT_BYTES]).decode(errors="replace")

    def _value(self, kind: int, key: str) -> Scalar | Numbers | None:
        """Read a value of the metadata, or None for an array that is skipped: texts, or too many numbers.

        `kind` is the number of the value's type in the format, and `key` is the name of the value.
        """
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            raise MalformedError(f"has a value of the unknown type {kind}")
        item, length = int(self._number("I")), int(self._number("Q"))
        self._lengths[key] = length
        if item == _STRING:
            for _ in range(length):
                self._take(int(self._number("Q")))
            return None
        if item not in _NUMBERS:
            raise MalformedError(f"has an array of the unknown type {item}")
        layout = _NUMBERS[item]
        stored = self._take(length * struct.calcsize("<" + layout))
        return struct.unpack(f"<{length}{layout}", stored) if length <= MAX_ARRAY else None

    def _tensor(self) -> tuple[GgufTensor, int]:
        """Return the description of one tensor and the offset of its data in bytes."""
        name = self._text()
        dimensions = int(self._number("I"))
        if dimensions > MAX_DIMENSIONS:
            raise MalformedError(f"has a tensor of {dimensions} dimensions")
        shape = tuple(int(self._number("Q")) for _ in range(dimensions))
        kind, offset = int(self._number("I")), int(self._number("Q"))
        if prod(shape) >= 2**63:
            raise MalformedError("has a tensor of more elements than a file can hold")
        named, per_block, block_bytes = TENSOR_TYPES.get(kind, (f"type {kind}", 1, 0))
        if shape and shape[0] % per_block:
            raise MalformedError(f"has a tensor whose rows of {shape[0]} elements cannot be {named}")
        size = prod(shape) // per_block * block_bytes if block_bytes else None
        return GgufTensor(name, shape, named, size), offset

    def _check_ends(self, placed: list[tuple[GgufTensor, int]], begin: int) -> None:
        """Raise MalformedError if the file ends before the data of a tensor ends.

        `placed` has pairs of a tensor and the offset of its data in bytes, counted from the position `begin` in the
        file.
        """
        needed = max((begin + offset + (tensor.bytes or 0) for tensor, offset in placed), default=begin)
        if needed > len(self._data) and placed:
            raise MalformedError(f"is cut short: {len(self._data)} of at least {needed} bytes")
