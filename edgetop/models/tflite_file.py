"""Read a TFLite file: the tables of tensorflow/lite/schema/schema.fbs that say which operators run on which tensors.

Weights are skipped. Small constants are read, because shapes may be computed from them.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from edgetop.models.graph import OMITTED, Graph, Model, Operator, Shape, Tensor, may_be_read, stored_value
from edgetop.models.reading_limits import MAX_OPERATORS, MAX_RANK, MAX_TENSORS, Budget, MalformedError

# FlatBuffers are read in place: tables, vectors and strings. Each offset is checked before it is followed. Source:
# https://flatbuffers.dev/internals/. In a hostile file, offsets may overlap or point to the same place many times; the
# budget of steps limits that.

_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")

SCALARS = {
    name: struct.Struct(f"<{code}")
    for name, code in {"i8": "b", "u8": "B", "bool": "?", "i16": "h", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
                       "f32": "f"}.items()
}  # fmt: skip


def root(data: memoryview, budget: Budget) -> "Table":
    """Return the root table of a FlatBuffers file. Raises MalformedError if the file is invalid.

    `budget` limits how much is read.
    """
    return Table(data, _read(_U32, data, 0), budget)


def _read(kind: struct.Struct, data: memoryview, position: int) -> Any:
    if position < 0 or position + kind.size > len(data):
        raise MalformedError("an offset that points outside")
    return kind.unpack_from(data, position)[0]


class Table:
    """One table of a FlatBuffers file. In the methods, `field` is the number of a field in the schema."""

    __slots__ = ("_budget", "_data", "_position", "_vtable", "_vtable_size")

    def __init__(self, data: memoryview, position: int, budget: Budget) -> None:
        budget.spend(1)
        self._data, self._position, self._budget = data, position, budget
        self._vtable = position - _read(_I32, data, position)
        self._vtable_size = _read(_U16, data, self._vtable)

    def scalar(self, field: int, kind: str, default: Any = 0) -> Any:
        position = self._field(field)
        return default if position is None else _read(SCALARS[kind], self._data, position)

    def table(self, field: int) -> "Table | None":
        position = self._pointer(field)
        return None if position is None else Table(self._data, position, self._budget)

    def tables(self, field: int) -> Iterator["Table"]:
        for position in self._elements(field, 4, lambda at: at + _read(_U32, self._data, at)):
            yield Table(self._data, position, self._budget)

    def text(self, field: int) -> str:
        """Return a field that is a string, or a vector of bytes, as text. Bytes that are not UTF-8 become escapes."""
        data = self.bytes_of(field)
        self._budget.spend(len(data) // 16)
        return bytes(data).decode("utf-8", "backslashreplace")

    def numbers(self, field: int) -> tuple[int, ...]:
        scalar = SCALARS["i32"]
        return tuple(self._elements(field, scalar.size, lambda at: _read(scalar, self._data, at)))

    def bytes_of(self, field: int) -> memoryview:
        """Return a view of a field that is a vector of bytes. The view is empty if the field is missing."""
        start, length = self._vector(field, 1)
        return self._data[start : start + length]

    def length(self, field: int, size: int = 1) -> int:
        """Return the number of elements of a field that is a vector, or 0 if the field is missing.

        `size` is the size of an element in bytes. Raises MalformedError if the vector is longer than the file.
        """
        return self._vector(field, size)[1]

    def _elements(self, field: int, size: int, read: Callable[[int], int]) -> Iterator[int]:
        start, length = self._vector(field, size)
        self._budget.spend(length)
        return (read(start + i * size) for i in range(length))

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        position = self._pointer(field)
        if position is None:
            return 0, 0
        length = _read(_U32, self._data, position)
        if position + 4 + length * size > len(self._data):
            raise MalformedError("a list that reaches beyond the end")
        return position + 4, length

    def _pointer(self, field: int) -> int | None:
        position = self._field(field)
        return None if position is None else position + _read(_U32, self._data, position)

    def _field(self, field: int) -> int | None:
        entry = 4 + 2 * field
        if entry + 2 > self._vtable_size:
            return None
        offset = _read(_U16, self._data, self._vtable + entry)
        return self._position + offset if offset else None


# Names for the numbers in files, in the order of tensorflow/lite/schema/schema.fbs of LiteRT 2.3.

OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE
STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE
STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT
STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
""".split()  # noqa: SIM905  a list of 210 would fill as many lines
CUSTOM = 32

# Names of TensorType, from 0.
DTYPES = """
float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 resource variant
uint32 uint16 int4 bfloat16 int2 uint4 float8e4m3fn float8e5m2
""".split()  # noqa: SIM905  as above

# Names of ActivationFunctionType, from 0.
ACTIVATIONS = ("", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")

# Fields of an operator's options that determine its work: (field id, type) by attribute name. Defaults are 0.
_ACTIVATED = {"activation": (0, "u8")}
_POOL = {"filter_w": (3, "i32"), "filter_h": (4, "i32"), "activation": (5, "u8")}

OPTIONS: dict[str, dict[str, tuple[int, str]]] = {
    "CONV_2D": {"activation": (3, "u8")},
    "DEPTHWISE_CONV_2D": {"activation": (4, "u8")},
    "TRANSPOSE_CONV": {"activation": (3, "u8")},
    "CONV_3D": {"activation": (4, "u8")},
    "CONCATENATION": {"activation": (1, "u8")},
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _POOL),
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "L2_NORMALIZATION", "FULLY_CONNECTED"), _ACTIVATED),
    "BATCH_MATMUL": {"adj_x": (0, "bool"), "adj_y": (1, "bool")},
}

# Ids of the fields with the numbers of the graphs that an operator may run.
SUBGRAPHS = {"IF": (0, 1), "WHILE": (0, 1), "CALL_ONCE": (0,), "CALL": (0,)}


def read_tflite(data: memoryview) -> Model:
    """Return the model in the bytes of a .tflite file. Raises MalformedError if the file is invalid."""
    if bytes(data[4:8]) != b"TFL3":
        raise MalformedError("no TFLite model")
    model = root(data, Budget())
    buffers, graphs = list(model.tables(4)), []
    codes = [_operator_code(table) for table in model.tables(1)]
    left = {0: MAX_TENSORS, 3: MAX_OPERATORS}  # what is left for other graphs, by field of a graph
    for table in model.tables(2):
        left = {field: number - table.length(field, 4) for field, number in left.items()}
        if min(left.values()) < 0:
            raise MalformedError("more parts than any model has")
        graphs.append(_graph(table, codes, buffers))
    if not graphs:
        raise MalformedError("no graph")
    return Model(
        "tflite",
        graphs[0],
        subgraphs=tuple(graphs[1:]),
        version=model.scalar(0, "u32"),
        description=model.text(3),
        metadata=_metadata(model, buffers),
        signatures=tuple(table.text(2) for table in model.tables(7)),
    )


def _operator_code(table: Table) -> tuple[str, str]:
    """Return the name and domain of an operator type, such as `("CONV_2D", "tflite")`."""
    # The larger of two fields, because the older field only has room for 7 bits (schema.fbs, OperatorCode).
    code = max(table.scalar(0, "i8"), table.scalar(3, "i32"))
    if code == CUSTOM:
        return table.text(1), "custom"
    return OPERATORS[code] if 0 <= code < len(OPERATORS) else f"BUILTIN_{code}", "tflite"


def _metadata(model: Table, buffers: list[Table]) -> dict[str, str]:
    """Return the metadata as texts, by name. An entry that is no short text is given by its size in bytes."""
    metadata = {}
    for entry in model.tables(6):
        number = entry.scalar(1, "u32")
        data = buffers[number].bytes_of(0) if number < len(buffers) else memoryview(b"")
        metadata[entry.text(0)] = _readable(data)
    return metadata


def _readable(data: memoryview) -> str:
    try:
        text = bytes(data[:1024]).rstrip(b"\0").decode()
    except UnicodeDecodeError:
        text = ""
    return text if text.isprintable() and text and len(data) <= 1024 else f"{len(data)} bytes"


def _graph(table: Table, codes: list[tuple[str, str]], buffers: list[Table]) -> Graph:
    tensors = tuple(_tensor(tensor, buffers) for tensor in table.tables(0))
    operators = tuple(_operator(op, position, codes, tensors) for position, op in enumerate(table.tables(3)))
    inputs, outputs = (_places(table, field, tensors) for field in (1, 2))
    return Graph(table.text(4), tensors, operators, inputs, outputs)


def _tensor(table: Table, buffers: list[Table]) -> Tensor:
    number, place = table.scalar(1, "u8"), table.scalar(2, "u32")
    if place >= len(buffers):
        raise MalformedError("a tensor of a buffer that is not there")
    dtype, stored = DTYPES[number] if number < len(DTYPES) else None, _stored_bytes(buffers[place])
    is_constant = stored > 0 and not table.scalar(5, "bool")
    shape, quantisation = _shape(table), table.table(4)
    name, value = table.text(3), None
    if is_constant and dtype is not None and may_be_read(dtype, shape):
        sizes = tuple(dim for dim in shape or () if isinstance(dim, int))
        value = stored_value(buffers[place].bytes_of(0), dtype, sizes)
    return Tensor(
        name,
        dtype,
        shape,
        is_constant=is_constant,
        stored_bytes=stored if is_constant else None,
        value=value,
        is_quantised=quantisation is not None and quantisation.length(2, 4) > 0,
    )


def _stored_bytes(buffer: Table) -> int:
    """Return the size of a buffer in bytes. In files over 2 GB, the contents are after the FlatBuffer."""
    size: int = buffer.scalar(2, "u64")
    return buffer.length(0) or (size if buffer.scalar(1, "u64") > 1 else 0)


def _operator(table: Table, position: int, codes: list[tuple[str, str]], tensors: tuple[Tensor, ...]) -> Operator:
    number = table.scalar(0, "u32")
    if number >= len(codes):
        raise MalformedError("an operator of a kind that is not there")
    op_type, domain = codes[number]
    inputs, outputs = (_places(table, field, tensors) for field in (1, 2))
    named = [tensors[place].name for place in outputs if place != OMITTED]
    options = table.table(4)
    graphs = [options.scalar(field, "i32") for field in SUBGRAPHS.get(op_type, ())] if options else []
    return Operator(
        position,
        named[0] if named else "",
        op_type,
        domain,
        inputs,
        outputs,
        {name: options.scalar(*field) if options else 0 for name, field in OPTIONS.get(op_type, {}).items()},
        tuple(number - 1 for number in graphs if number > 0),  # Model.subgraphs leaves out the file's first graph
    )


def _places(table: Table, field: int, tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    places = table.numbers(field)
    if any(not OMITTED <= place < len(tensors) for place in places):
        raise MalformedError("an operator on a tensor that is not there")
    return places


def _shape(table: Table) -> Shape | None:
    """Return the shape of a tensor, with None for sizes that the model leaves open.

    Raises MalformedError if there are too many dimensions. The file does not say whether an empty shape is a scalar or
    unknown (schema.fbs, Tensor, has_rank).
    """
    stored, signature = table.numbers(0), table.numbers(7)
    if len(stored) > MAX_RANK:
        raise MalformedError("a tensor of impossible shape")
    chosen = signature if len(signature) == len(stored) else stored
    return tuple(dim if dim >= 0 else None for dim in chosen)
