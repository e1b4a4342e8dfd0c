"""Small TFLite models for the tests, each made from nothing and returned as a file's bytes.

Only operators and versions that tflite-runtime 2.14 knows, so that both TFLite runtimes can
load them. The same call gives the same bytes each time.
"""

from typing import Any

import numpy as np

from tests.support.built_models.demo import build_tflite, mobilenet
from tests.support.built_models.tflite_file import TfliteFile, TfliteGraph, table
from tests.support.onnx_models import LADDER, noise

HOSTILE_INPUT = "[input]:0 [bold]\x1b[31m"
HOSTILE_OUTPUT = "[/]y\r\n\x1b]0;owned\x07"

FOUR_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2))


def _new() -> tuple[TfliteFile, TfliteGraph]:
    file = TfliteFile("edgetop test")
    return file, file.add_graph("main")


def tflite_tiny() -> bytes:
    """A few microseconds, the shortest inference there is: `x` [1,16] to `y`."""
    file, graph = _new()
    x, scaled, y = (graph.add_tensor(name, [1, 16]) for name in ("x", "scaled", "y"))
    factor = graph.add_tensor("factor", [16], data=noise(16))
    graph.add_operator("MUL", table("MulOptions"), [x, factor], [scaled])
    graph.add_operator("ADD", table("AddOptions"), [scaled, x], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def tflite_mobile() -> bytes:
    """A dozen operators of an image classifier in tens of microseconds: `image` [1,64,64,3] to `probabilities`."""
    return build_tflite(mobilenet("test", side=64, width=0.25, classes=10, blocks=FOUR_BLOCKS))


def tflite_half_ms() -> bytes:
    """About half a millisecond on one thread of a desktop: `image` [1,160,160,3] to `probabilities`."""
    return build_tflite(mobilenet("test", side=160, width=0.5, classes=10, blocks=FOUR_BLOCKS))


def _quantised(scale: float, zero_point: int) -> Any:
    return table("QuantizationParameters", scale=[scale], zeroPoint=[zero_point])


def tflite_ladder() -> bytes:
    """The same network as `onnx_ladder`: `x` [64,256] to `y` [64,8] in 83 operators."""
    file, graph = _new()
    x = graph.add_tensor("x", [64, 256])
    total = -1
    for i, width in enumerate(LADDER):
        up = graph.add_tensor(f"up{i}", [width, 256], data=noise(width, 256, scale=0.05, seed=i))
        down = graph.add_tensor(f"down{i}", [8, width], data=noise(8, width, scale=0.05, seed=100 + i))
        wide = graph.add_tensor(f"wide{i}", [64, width])
        bare, narrow = (graph.add_tensor(f"{name}{i}", [64, 8]) for name in ("bare", "narrow"))
        for inputs, output in (([x, up, -1], wide), ([wide, down, -1], bare)):
            graph.add_operator("FULLY_CONNECTED", table("FullyConnectedOptions"), inputs, [output])
        graph.add_operator("TANH", None, [bare], [narrow])
        if total >= 0:
            added = graph.add_tensor(f"sum{i}", [64, 8])
            graph.add_operator("ADD", table("AddOptions"), [total, narrow], [added])
            narrow = added
        total = narrow
    graph.set_signature([x], [total])
    return file.serialise()


def tflite_mixed() -> bytes:
    """For who runs what: `x` [1,16,16,4] through CONV_2D, CUMSUM, CONV_2D, TANH and ADD to `y`.

    No XNNPACK takes a CUMSUM, so that it stays on the CPU; the first convolution's bias comes
    from half-precision, as in files that were made small.
    """
    file, graph = _new()
    shape = [1, 16, 16, 4]
    x, first, summed, second, bent, y = (graph.add_tensor(name, shape) for name in ("x", "a", "b", "c", "d", "y"))
    half = graph.add_tensor("half", [4], "float16", data=noise(4).astype(np.float16))
    bias = graph.add_tensor("bias", [4])
    graph.add_operator("DEQUANTIZE", table("DequantizeOptions"), [half], [bias], version=3)
    options = table("Conv2DOptions", strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1)
    weights = [graph.add_tensor(f"weights{i}", [4, 3, 3, 4], data=noise(4, 3, 3, 4, seed=i)) for i in range(2)]
    axis = graph.add_tensor("axis", [1], "int32", data=np.array([1], np.int32))
    graph.add_operator("CONV_2D", options, [x, weights[0], bias], [first])
    graph.add_operator("CUMSUM", table("CumsumOptions"), [first, axis], [summed])
    graph.add_operator("CONV_2D", options, [summed, weights[1], bias], [second])
    graph.add_operator("TANH", None, [second], [bent])
    graph.add_operator("ADD", table("AddOptions"), [bent, x], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def tflite_int8() -> bytes:
    """Quantised in and out: `x` [1,32] int8 (scale 1/64, zero point -3) to `y` [1,8] int8 (1/8, 5)."""
    file, graph = _new()
    x = graph.add_tensor("x", [1, 32], "int8", quantization=_quantised(1 / 64, -3))
    weights = graph.add_tensor(
        "weights", [8, 32], data=(noise(8, 32) * 127).astype(np.int8), quantization=_quantised(1 / 127, 0)
    )
    # A bias has the scale of the products it is added to (LiteRT 8-bit quantization specification).
    bias = graph.add_tensor(
        "bias", [8], data=np.arange(-400, 400, 100, dtype=np.int32), quantization=_quantised(1 / 64 / 127, 0)
    )
    y = graph.add_tensor("y", [1, 8], "int8", quantization=_quantised(1 / 8, 5))
    # Version 4 is the first that takes int8 (tensorflow/lite/tools/versioning/op_version.cc).
    graph.add_operator("FULLY_CONNECTED", table("FullyConnectedOptions"), [x, weights, bias], [y], version=4)
    graph.set_signature([x], [y])
    return file.serialise()


def tflite_dynamic_batch() -> bytes:
    """The batch is free: `x` [-1,8], stored as [1,8], to `y` [-1,4]."""
    file, graph = _new()
    x = graph.add_tensor("x", [1, 8], shapeSignature=[-1, 8])
    weights = graph.add_tensor("weights", [4, 8], data=noise(4, 8))
    bias = graph.add_tensor("bias", [4], data=noise(4, seed=1))
    y = graph.add_tensor("y", [1, 4], shapeSignature=[-1, 4])
    graph.add_operator("FULLY_CONNECTED", table("FullyConnectedOptions"), [x, weights, bias], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def two_signatures() -> bytes:
    """`encode` takes `x` [1,8] to `code` [1,4], and `decode` takes `code` [1,4], a graph of its own, to `y` [1,8]."""
    file, graph = _new()
    for place, (key, names, sizes) in enumerate((("encode", ("x", "code"), (8, 4)), ("decode", ("code", "y"), (4, 8)))):
        graph = file.add_graph(key) if place else graph
        taken, given = (graph.add_tensor(name, [1, size]) for name, size in zip(names, sizes, strict=True))
        weights = graph.add_tensor("weights", sizes[::-1], data=noise(sizes[1], sizes[0], seed=place))
        bias = graph.add_tensor("bias", [sizes[1]], data=noise(sizes[1]))
        options = table("FullyConnectedOptions")
        graph.add_operator("FULLY_CONNECTED", options, [taken, weights, bias], [given])
        graph.set_signature([taken], [given], key, place)
    return file.serialise()


def tflite_zero_batch() -> bytes:
    """As some converters write a free batch: as 0. `x` [0,8] to `y` [0,4]."""
    file, graph = _new()
    x = graph.add_tensor("x", [0, 8])
    weights = graph.add_tensor("weights", [4, 8], data=noise(4, 8))
    bias = graph.add_tensor("bias", [4], data=noise(4, seed=1))
    y = graph.add_tensor("y", [0, 4])
    graph.add_operator("FULLY_CONNECTED", table("FullyConnectedOptions"), [x, weights, bias], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def tflite_two_inputs() -> bytes:
    """Two inputs, neither float: `counts` [1,8] int32 where `mask` [1,8] bool is set, else -1, to `chosen` int32."""
    file, graph = _new()
    counts = graph.add_tensor("counts", [1, 8], "int32")
    mask = graph.add_tensor("mask", [1, 8], "bool")
    otherwise = graph.add_tensor("otherwise", [1, 8], data=np.full((1, 8), -1, np.int32))
    chosen = graph.add_tensor("chosen", [1, 8], "int32")
    graph.add_operator("SELECT_V2", table("SelectV2Options"), [mask, counts, otherwise], [chosen])
    graph.set_signature([counts, mask], [chosen])
    return file.serialise()


def tflite_scalar() -> bytes:
    """An input of rank 0: `x` [] times four constants to `y` [4]."""
    file, graph = _new()
    x = graph.add_tensor("x", [])
    factors = graph.add_tensor("factors", [4], data=np.arange(4, dtype=np.float32))
    y = graph.add_tensor("y", [4])
    graph.add_operator("MUL", table("MulOptions"), [x, factors], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def tflite_stateful() -> bytes:
    """Remembers: `total` [1,4] is the sum of every `x` [1,4] so far, kept in a resource variable."""
    file, graph = _new()
    start = file.add_graph("start")
    handle = _add_variable(start)
    zeros = start.add_tensor("zeros", [1, 4], data=np.zeros((1, 4), np.float32))
    start.add_operator("ASSIGN_VARIABLE", table("AssignVariableOptions"), [handle, zeros], [])

    x, before, total = (graph.add_tensor(name, [1, 4]) for name in ("x", "before", "total"))
    graph.add_operator("CALL_ONCE", table("CallOnceOptions", initSubgraphIndex=1), [], [])
    handle = _add_variable(graph)
    graph.add_operator("READ_VARIABLE", table("ReadVariableOptions"), [handle], [before])
    graph.add_operator("ADD", table("AddOptions"), [before, x], [total])
    graph.add_operator("ASSIGN_VARIABLE", table("AssignVariableOptions"), [handle, total], [])
    graph.set_signature([x], [total])
    return file.serialise()


def _add_variable(graph: TfliteGraph) -> int:
    """The handle of the variable, by whose name the graphs of a file share it."""
    handle = graph.add_tensor("variable", [], "resource")
    graph.add_operator("VAR_HANDLE", table("VarHandleOptions", container="", sharedName="total"), [], [handle])
    return handle


def tflite_uint8() -> bytes:
    """Bytes as cameras give them: `pixels` [1,6] uint8 to `y` [1,6], the same as floats."""
    file, graph = _new()
    pixels, y = graph.add_tensor("pixels", [1, 6], "uint8"), graph.add_tensor("y", [1, 6])
    graph.add_operator("CAST", table("CastOptions"), [pixels], [y])
    graph.set_signature([pixels], [y])
    return file.serialise()


def tflite_gather() -> bytes:
    """Looks `index` [1] up in a table of 100 rows; an index from 100 up fails at run time, so that some runs do."""
    file, graph = _new()
    index = graph.add_tensor("index", [1], "int32")
    rows = graph.add_tensor("rows", [100, 4], data=noise(100, 4))
    row = graph.add_tensor("row", [1, 4])
    graph.add_operator("GATHER", table("GatherOptions", axis=0), [rows, index], [row])
    graph.set_signature([index], [row])
    return file.serialise()


def tflite_embeddings() -> bytes:
    """As a text model begins: `ids` [1] and `kinds` [1] index tables of 300 and 2 rows."""
    file, graph = _new()
    ids, kinds = (graph.add_tensor(name, [1], "int32") for name in ("ids", "kinds"))
    words, rows = (
        graph.add_tensor("words", [300, 4], data=noise(300, 4)),
        graph.add_tensor("rows", [2, 4], data=noise(2, 4)),
    )
    a, b, y = (graph.add_tensor(name, [1, 4]) for name in ("a", "b", "y"))
    graph.add_operator("GATHER", table("GatherOptions", axis=0), [words, ids], [a])
    graph.add_operator("GATHER", table("GatherOptions", axis=0), [rows, kinds], [b])
    graph.add_operator("ADD", table("AddOptions"), [a, b], [y])
    graph.set_signature([ids, kinds], [y])
    return file.serialise()


def tflite_string_input() -> bytes:
    """Takes text, `words` [3], which no generated input can be."""
    file, graph = _new()
    words, same = (graph.add_tensor(name, [3], "string") for name in ("words", "same"))
    shape = graph.add_tensor("shape", [1], data=np.array([3], np.int32))
    graph.add_operator("RESHAPE", table("ReshapeOptions", newShape=[3]), [words, shape], [same])
    graph.set_signature([words], [same])
    return file.serialise()


def tflite_nameless() -> bytes:
    """As a stripped file is: the tensors have no names, so its inputs [1,4] and [1,2] are told apart by their order."""
    file, graph = _new()
    left, right, y = (graph.add_tensor("", [1, size]) for size in (4, 2, 6))
    graph.add_operator("CONCATENATION", table("ConcatenationOptions", axis=1), [left, right], [y])
    graph.set_signature([left, right], [y])
    return file.serialise()


def tflite_custom_operator(name: str = "Frobnicate") -> bytes:
    """A valid file that no runtime can run, for want of the custom operator `name`."""
    file, graph = _new()
    x, y = (graph.add_tensor(tensor, [1, 4]) for tensor in ("x", "y"))
    graph.add_operator(f"CUSTOM:{name}", None, [x], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def tflite_hostile_names() -> bytes:
    """Names that are markup, terminal escapes and line breaks, for whatever shows or stores them."""
    file, graph = _new()
    x, y = (graph.add_tensor(name, [1, 4]) for name in (HOSTILE_INPUT, HOSTILE_OUTPUT))
    one = graph.add_tensor("[link=file:///etc/passwd]one", [1], data=np.ones(1, np.float32))
    graph.add_operator("ADD", table("AddOptions"), [x, one], [y])
    graph.set_signature([x], [y])
    return file.serialise()


def tflite_open_diagonal() -> bytes:
    """`x` [-1,8] to `y` [-1,8,5], by an operator for which edgetop has no rule and a product of 320 MACs a sample."""
    file, graph = _new()
    x = graph.add_tensor("x", [1, 8], shapeSignature=[-1, 8])
    diagonal = graph.add_tensor("diagonal", [1, 1, 1], shapeSignature=[-1, -1, -1])
    weights = graph.add_tensor("weights", [5, 8], data=noise(5, 8))
    y = graph.add_tensor("y", [1, 1, 5], shapeSignature=[-1, -1, 5])
    graph.add_operator("MATRIX_DIAG", table("MatrixDiagOptions"), [x], [diagonal])
    keep = table("FullyConnectedOptions", keepNumDims=True)
    graph.add_operator("FULLY_CONNECTED", keep, [diagonal, weights, -1], [y], version=5)
    graph.set_signature([x], [y])
    return file.serialise()
