"""The work of each type of operator by its definition: its multiply-accumulates, and its other arithmetic.

Conventions, which the figures of different tools differ in:

* A multiply-accumulate (MAC) is 2 FLOPs; both are given. Papers on networks that say FLOPs
  often mean MACs.
* Integer arithmetic of quantised operators counts as FLOPs too: the work is the same.
* Other arithmetic counts as in TensorFlow's profiler
  (tensorflow/python/profiler/internal/flops_registry.py): one per element and function, softmax 5,
  a pool its window. Normalisations count as in fvcore (fvcore/nn/jit_handles.py): batch
  normalisation 2 per element, others 5. What only moves or selects elements counts none.
* What is unknown is None.

Definitions: onnx/docs/Operators.md, onnxruntime/docs/ContribOperators.md, tensorflow/lite/kernels. Each output of a
convolution or a product takes as many MACs as there are weights that it sees (Sze et al. 2017, arXiv:1703.09039,
section III).
"""

import math
from collections.abc import Callable, Mapping

from edgetop.models.graph import Operator
from edgetop.models.shapes import onnx_rules as onnx
from edgetop.models.shapes.node import Node, UnknownError
from edgetop.models.shapes.products import GATES, SECOND, WEIGHTS, einsum_labels

Rule = Callable[[Node], int]


def _convolution(node: Node) -> int:
    """Weights are [outputs, inputs / groups, kernel...], and TFLite's [outputs, kernel..., inputs / groups]."""
    return node.out * math.prod(node.full_sizes(WEIGHTS.get(node.operator.op_type, 1))[1:])


def _einsum(node: Node) -> int:
    """Count one product for each choice of all labels; with a third operand the order of work is unknown."""
    inputs, _, sizes = einsum_labels(node)
    if len(inputs) != 2:
        raise UnknownError
    return math.prod(sizes.values())


def _attention(node: Node) -> int:
    """com.microsoft's: projections, scores, weighted values. With past keys their number is unknown."""
    if node.has(4):
        raise UnknownError
    batch, length, width = node.full_sizes(0)
    projected = node.full_sizes(1)[1]
    queries, _, values = node.attribute("qkv_hidden_sizes", (projected // 3,) * 3)
    return batch * length * (width * projected + length * int(queries + values))


def _multi_head(node: Node) -> int:
    """Scores and weighted values; the projections are operators of their own."""
    if any(node.has(place) for place in (6, 7)) and node.operator.op_type == "MultiHeadAttention":
        raise UnknownError
    (batch, length, width), keys, values = node.full_sizes(0), node.full_sizes(1), node.full_sizes(2)
    if not len(keys) == len(values) == 3:
        raise UnknownError
    return batch * length * keys[1] * (width + values[2])


def _onnx_attention(node: Node) -> int:
    if node.has(4) or len(node.full_sizes(0)) != 4:
        raise UnknownError
    (batch, heads, length, width), keys, values = node.full_sizes(0), node.full_sizes(1), node.full_sizes(2)
    return batch * heads * length * keys[2] * (width + values[3])


def _tflite_recurrent(node: Node) -> int:
    """Every step of every sequence sees all weights of input and state."""
    last = 2 if node.operator.op_type == "UNIDIRECTIONAL_SEQUENCE_RNN" else 8
    weights = sum(node.elements(place) for place in range(1, last + 1) if node.has(place))
    projection = node.elements(16) if node.has(16) else 0
    return math.prod(node.full_sizes(0)[:2]) * (weights + projection)


_ONNX_MACS: dict[str, Rule] = {
    **dict.fromkeys(("Conv", "FusedConv", "ConvInteger", "QLinearConv"), _convolution),
    # Each input is multiplied with all that it is spread over.
    "ConvTranspose": lambda node: node.elements(0) * math.prod(node.full_sizes(1)[1:]),
    **dict.fromkeys(SECOND, lambda node: node.out * node.full_sizes(0)[-2 if node.attribute("transA") else -1]),
    "MatMulNBits": lambda node: node.out * int(node.attribute("K")),
    "Einsum": _einsum,
    # In every step each gate sees the input and the last state: weights W and R.
    **dict.fromkeys(GATES, lambda node: math.prod(node.full_sizes(0)[:2]) * (node.elements(1) + node.elements(2))),
    "Attention": lambda node: (_attention if node.operator.domain else _onnx_attention)(node),
    "QAttention": _attention,
    "MultiHeadAttention": _multi_head,
}

_TFLITE_MACS: dict[str, Rule] = {
    "CONV_2D": _convolution,
    # Weights are [1, kernel height, kernel width, outputs].
    "DEPTHWISE_CONV_2D": lambda node: node.out * math.prod(node.full_sizes(1)[1:3]),
    # Weights are [outputs, kernel height, kernel width, inputs]; the input comes third.
    "TRANSPOSE_CONV": lambda node: node.elements(2) * math.prod(node.full_sizes(1)[:-1]),
    # Weights are [depth, height, width, inputs, outputs].
    "CONV_3D": lambda node: node.out * math.prod(node.full_sizes(1)[:-1]),
    "FULLY_CONNECTED": lambda node: node.out * node.full_sizes(1)[1],
    "BATCH_MATMUL": lambda node: node.out * node.full_sizes(0)[-2 if node.attribute("adj_x") else -1],
    # Features, then their weighted sum over time (tensorflow/lite/kernels/svdf.cc).
    "SVDF": lambda node: node.full_sizes(0)[0] * (node.elements(1) + node.elements(2)),
    **dict.fromkeys(("UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"), _tflite_recurrent),
}


def _each(flops: int) -> Rule:
    return lambda node: flops * node.out


def _each_input(flops: int) -> Rule:
    return lambda node: flops * node.elements(0)


def _none(_: Node) -> int:
    return 0


def _of_many(node: Node) -> int:
    """Sum, Max and others of any number of tensors: one less than there are."""
    return max(len(node.inputs) - 1, 1) * node.out


def _reduction(node: Node) -> int:
    return max(node.elements(0) - node.out, 0)


def _bias(place: int) -> Rule:
    """Count one operation per element where there is a bias, and one more where an activation is fused."""
    return lambda node: (node.out if node.has(place) else 0) + _activation(node)


def _activation(node: Node) -> int:
    """com.microsoft's fused operators name it, TFLite's number it; 0 is none."""
    return node.out if node.attribute("activation") else 0


def _resize(node: Node) -> int:
    """Count one multiply-accumulate per neighbour: two per axis for linear, four for cubic."""
    taps = {"nearest": 0, "linear": 2, "cubic": 4}[node.attribute("mode", "nearest")]
    axes = sum(a != b for a, b in zip(node.full_sizes(0), node.out_sizes(), strict=True))
    return 2 * taps**axes * node.out if taps else 0


def _recurrent(node: Node) -> int:
    """Count per element of the state: two biases per gate, the gates' functions, and what joins them.

    LSTM: five functions, c = f * c + i * g, o * tanh(c). GRU: three functions, r * h and
    (1 - z) * n + z * h. RNN: one function.
    """
    gates = GATES[node.operator.op_type]
    hidden = node.full_sizes(2)[2]
    joining = {"LSTM": 9, "GRU": 8, "RNN": 1}[node.operator.op_type]
    return math.prod(node.full_sizes(0)[:2]) * node.full_sizes(1)[0] * hidden * (2 * gates + joining)


def _attention_softmax(node: Node) -> int:
    heads = node.attribute("num_heads")
    if heads is None:
        heads = node.full_sizes(0)[1]
    sizes, keys = node.full_sizes(0), node.full_sizes(1)
    if node.operator.op_type == "MultiHeadAttention":
        return 5 * int(heads) * sizes[0] * sizes[1] * keys[1]
    if node.operator.domain:
        return 5 * int(heads) * sizes[0] * sizes[1] ** 2
    return 5 * int(heads) * sizes[0] * sizes[2] * keys[2]


def _real_transform(node: Node) -> int:
    """2.5 N log2 N each, as FFTW counts a real one (https://www.fftw.org/speed/method.html)."""
    height, width = (int(length) for length in node.value(1).reshape(-1))
    points = height * width
    return round(node.out / (height * (width // 2 + 1)) * 2.5 * points * math.log2(points)) if points > 1 else 0


_MOVING = (
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Transpose", "Concat", "Split", "Slice",
    "Gather", "GatherElements", "GatherND", "Pad", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Shape", "Size",
    "ConstantOfShape", "Cast", "CastLike", "OneHot", "EyeLike", "Trilu", "ReverseSequence", "NonZero", "Where", "Range",
    "TopK", "NonMaxSuppression", "Unique", "Compress", "QLinearConcat", "MaxUnpool", "CenterCropPad", "BitCast",
    "TensorScatter", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
    "SequenceLength", "ConcatFromSequence", "SplitToSequence", "Optional", "OptionalGetElement", "OptionalHasElement",
)  # fmt: skip

_ONNX_OTHER: dict[str, Rule] = {
    **dict.fromkeys((*onnx.ACTIVATIONS, *onnx.FUNCTIONS, *onnx.ARITHMETIC), _each(1)),
    **dict.fromkeys(("QLinearSigmoid", "QLinearLeakyRelu", "CumSum", "QLinearAdd", "QLinearMul"), _each(1)),
    **dict.fromkeys(("Sum", "Max", "Min"), _of_many),
    "Mean": lambda node: len(node.inputs) * node.out,
    **dict.fromkeys((*onnx.NORMALISATIONS, *onnx.SOFTMAXES, "LayerNormalization"), _each(5)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _each(6)),
    "BatchNormalization": _each(2),
    # A sum of squares over the neighbours; then multiply, add, power and divide.
    "LRN": lambda node: (2 * int(node.attribute("size", 0)) + 4) * node.out,
    **dict.fromkeys((*onnx.REDUCTIONS, "ArgMax", "ArgMin"), _reduction),
    **dict.fromkeys(("ReduceMean", "ReduceLogSum"), _each_input(1)),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"), _each_input(2)),
    **dict.fromkeys(
        ("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"),
        lambda node: int(math.prod(node.attribute("kernel_shape", ()))) * node.out,
    ),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "QLinearGlobalAveragePool"), _each_input(1)),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _each(2)),
    "DynamicQuantizeLinear": _each_input(4),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Conv", "FusedConv", "ConvTranspose", "Gemm", "FusedGemm", "QGemm"), _bias(2)),
    "QLinearConv": _bias(8),
    **dict.fromkeys(("MatMul", "FusedMatMul", "MatMulInteger", "QLinearMatMul", "ConvInteger", "Einsum"), _none),
    **dict.fromkeys(("MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulNBits"), _each(1)),
    **dict.fromkeys(GATES, _recurrent),
    **dict.fromkeys(("Attention", "QAttention", "MultiHeadAttention"), _attention_softmax),
    "RotaryEmbedding": _each(3),
    **dict.fromkeys(
        ("ScatterND", "ScatterElements", "Scatter"),
        lambda node: 0 if node.attribute("reduction", "none") == "none" else node.elements(2),
    ),
    **dict.fromkeys(_MOVING, _none),
}

_TFLITE_FUNCTIONS = (
    "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "TANH", "LOGISTIC", "ELU", "HARD_SWISH", "LEAKY_RELU", "PRELU",
    "GELU", "ABS", "NEG", "EXP", "LOG", "SQRT", "SQUARE", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "LOGICAL_NOT",
    "POW", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD", "EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL",
    "GREATER", "GREATER_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "ATAN2", "CUMSUM", "BITWISE_XOR", "RIGHT_SHIFT",
)  # fmt: skip
_TFLITE_MOVING = (
    "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "CONCATENATION", "SPLIT", "SPLIT_V", "SLICE", "STRIDED_SLICE",
    "GATHER", "GATHER_ND", "EMBEDDING_LOOKUP", "PAD", "PADV2", "MIRROR_PAD", "TILE", "BROADCAST_TO", "PACK", "UNPACK",
    "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "SHAPE", "RANK", "FILL", "ZEROS_LIKE",
    "CAST", "ONE_HOT", "REVERSE_V2", "REVERSE_SEQUENCE", "SELECT", "SELECT_V2", "WHERE", "RANGE", "BITCAST",
    "RESIZE_NEAREST_NEIGHBOR", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "DYNAMIC_UPDATE_SLICE", "SCATTER_ND",
    "TOPK_V2", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "UNIQUE", "BROADCAST_ARGS", "MATRIX_DIAG",
    "MATRIX_SET_DIAG", "SPARSE_TO_DENSE", "DENSIFY", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT",
    "HASHTABLE_LOOKUP", "HASHTABLE_SIZE", "IMAG", "REAL",
    "CALL_ONCE",  # in the first inference of a session only (kernels/call_once.cc)
)  # fmt: skip

_TFLITE_OTHER: dict[str, Rule] = {
    **dict.fromkeys(_TFLITE_FUNCTIONS, _each(1)),
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), lambda node: node.out + _activation(node)),
    **dict.fromkeys(("RSQRT", "SQUARED_DIFFERENCE", "QUANTIZE", "DEQUANTIZE"), _each(2)),
    "ADD_N": _of_many,
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX"), _each(5)),
    "L2_NORMALIZATION": _each(3),
    **dict.fromkeys(
        ("SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL", "ARG_MAX", "ARG_MIN"), _reduction
    ),
    "MEAN": _each_input(1),
    **dict.fromkeys(
        ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"),
        lambda node: int(node.attribute("filter_h") * node.attribute("filter_w")) * node.out + _activation(node),
    ),
    "RESIZE_BILINEAR": _each(8),
    "COMPLEX_ABS": _each(4),  # two squares, their sum, its root
    "RFFT2D": _real_transform,
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "CONV_3D"), _bias(2)),
    "TRANSPOSE_CONV": _bias(3),
    "BATCH_MATMUL": _none,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _each(13),  # four biases, and nine as in ONNX's
    **dict.fromkeys(("UNIDIRECTIONAL_SEQUENCE_RNN", "SVDF"), _each(2)),
    **dict.fromkeys(_TFLITE_MOVING, _none),
}

# Operators without products whose other arithmetic is not counted: random numbers, windows, samples between pixels,
# transforms (whose algorithms are the runtime's), texts.
_UNCOUNTED = {
    "Bernoulli", "BlackmanWindow", "Col2Im", "CumProd", "DFT", "EmbedLayerNormalization", "GlobalLpPool", "GridSample",
    "HammingWindow", "HannWindow", "ImageDecoder", "MaxRoiPool", "MelWeightMatrix", "Multinomial",
    "NegativeLogLikelihoodLoss", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    "RegexFullMatch", "RoiAlign", "STFT", "SoftmaxCrossEntropyLoss", "StringConcat", "StringNormalizer", "StringSplit",
    "SwiGLU", "TfIdfVectorizer", "BUCKETIZE", "EMBEDDING_LOOKUP_SPARSE", "FAKE_QUANT", "LOCAL_RESPONSE_NORMALIZATION",
    "LSH_PROJECTION", "MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "REDUCE_WINDOW", "SEGMENT_SUM",
    "SKIP_GRAM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_SUM",
}  # fmt: skip
_UNCOUNTED_CUSTOM = {"TFLite_Detection_PostProcess"}  # tensorflow/lite/kernels/detection_postprocess.cc

_MACS: dict[str, Mapping[str, Rule]] = {  # by the operator's domain
    **{domain: {**dict.fromkeys(_UNCOUNTED, _none), **_ONNX_MACS} for domain in onnx.DOMAINS},
    "tflite": {**dict.fromkeys(_UNCOUNTED, _none), **_TFLITE_MACS},
    "custom": {"TFLite_Detection_PostProcess": _none},  # tensorflow/lite/kernels/detection_postprocess.cc
}
_ARITHMETIC: dict[str, Mapping[str, Rule]] = {**dict.fromkeys(onnx.DOMAINS, _ONNX_OTHER), "tflite": _TFLITE_OTHER}


def arithmetic_rule(operator: Operator) -> Rule | None:
    """The rule for the FLOPs beside the MACs; None for an operator of which they are unknown."""
    return _ARITHMETIC.get(operator.domain, {}).get(operator.op_type)


def mac_rule(operator: Operator) -> Rule | None:
    """The rule for the MACs; None for an operator of which they are unknown."""
    without = _none if arithmetic_rule(operator) else None
    return _MACS.get(operator.domain, {}).get(operator.op_type, without)


def has_products(operator: Operator) -> bool:
    return mac_rule(operator) not in {None, _none}
