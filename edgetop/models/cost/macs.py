"""Multiply-accumulates: convolutions, matrix products, recurrent layers, attention.

Each follows from the operator's definition (onnx/docs/Operators.md,
onnxruntime/docs/ContribOperators.md, tensorflow/lite/kernels). Each output of a convolution or a
product takes as many as there are weights that it sees (Sze et al. 2017, arXiv:1703.09039, section III).
"""

import math
from collections.abc import Callable

from edgetop.models.shapes.node import Node, UnknownError
from edgetop.models.shapes.products import GATES, SECOND
from edgetop.models.shapes.windows import WEIGHTS

Rule = Callable[[Node], int]


def _convolution(node: Node) -> int:
    """Weights are [outputs, inputs / groups, kernel...], and TFLite's [outputs, kernel..., inputs / groups]."""
    return node.out * math.prod(node.full_sizes(WEIGHTS.get(node.operator.op_type, 1))[1:])


def _transposed(node: Node) -> int:
    """Each input is multiplied with all that it is spread over."""
    return node.elements(0) * math.prod(node.full_sizes(1)[1:])


def _matmul(node: Node) -> int:
    a = node.full_sizes(0)
    return node.out * a[-2 if node.attribute("transA") else -1]


def _blocks(node: Node) -> int:
    return node.out * int(node.attribute("K"))


def _einsum(node: Node) -> int:
    """One product for each choice of all labels; with a third operand the order of work is not known."""
    terms = node.attribute("equation", "").replace(" ", "").partition("->")[0].split(",")
    if len(terms) != 2 or any("." in term for term in terms):
        raise UnknownError
    sizes: dict[str, int] = {}
    for place, labels in enumerate(terms):
        sizes.update(zip(labels, node.full_sizes(place), strict=True))
    return math.prod(sizes.values())


def _recurrent(node: Node) -> int:
    """In every step each gate sees the input and the last state: weights W and R."""
    steps_times_batch = math.prod(node.full_sizes(0)[:2])
    return steps_times_batch * (node.elements(1) + node.elements(2))


def _attention(node: Node) -> int:
    """com.microsoft's: projections, scores, weighted values. With past keys their number is not known."""
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


def _depthwise(node: Node) -> int:
    """TFLite: weights are [1, kernel height, kernel width, outputs]."""
    _, height, width, _ = node.full_sizes(1)
    return node.out * height * width


def _tflite_transposed(node: Node) -> int:
    """Weights are [outputs, kernel height, kernel width, inputs]; the input comes third."""
    *others, _ = node.full_sizes(1)
    return node.elements(2) * math.prod(others)


def _fully_connected(node: Node) -> int:
    return node.out * node.full_sizes(1)[1]


def _batch_matmul(node: Node) -> int:
    a = node.full_sizes(0)
    return node.out * a[-2 if node.attribute("adj_x") else -1]


def _convolution_3d(node: Node) -> int:
    """Weights are [depth, height, width, inputs, outputs]."""
    return node.out * math.prod(node.full_sizes(1)[:-1])


def _svdf(node: Node) -> int:
    """Features, then their weighted sum over time (tensorflow/lite/kernels/svdf.cc)."""
    return node.full_sizes(0)[0] * (node.elements(1) + node.elements(2))


def _tflite_recurrent(node: Node) -> int:
    """Every step of every sequence sees all weights of input and state."""
    last = 2 if node.operator.op_type == "UNIDIRECTIONAL_SEQUENCE_RNN" else 8
    weights = sum(node.elements(place) for place in range(1, last + 1) if node.has(place))
    projection = node.elements(16) if node.has(16) else 0
    return math.prod(node.full_sizes(0)[:2]) * (weights + projection)


ONNX: dict[str, Rule] = {
    **dict.fromkeys(("Conv", "FusedConv", "ConvInteger", "QLinearConv"), _convolution),
    "ConvTranspose": _transposed,
    **dict.fromkeys(SECOND, _matmul),
    "MatMulNBits": _blocks,
    "Einsum": _einsum,
    **dict.fromkeys(GATES, _recurrent),
    "Attention": lambda node: (_attention if node.operator.domain else _onnx_attention)(node),
    "QAttention": _attention,
    "MultiHeadAttention": _multi_head,
}

# Operators without products whose other arithmetic is not counted: random numbers, windows, samples between pixels,
# transforms (whose algorithms are the runtime's), texts.
WITHOUT = {
    "Bernoulli", "BlackmanWindow", "Col2Im", "CumProd", "DFT", "EmbedLayerNormalization", "GlobalLpPool", "GridSample",
    "HammingWindow", "HannWindow", "ImageDecoder", "MaxRoiPool", "MelWeightMatrix", "Multinomial",
    "NegativeLogLikelihoodLoss", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    "RegexFullMatch", "RoiAlign", "STFT", "SoftmaxCrossEntropyLoss", "StringConcat", "StringNormalizer", "StringSplit",
    "SwiGLU", "TfIdfVectorizer", "BUCKETIZE", "EMBEDDING_LOOKUP_SPARSE", "FAKE_QUANT", "LOCAL_RESPONSE_NORMALIZATION",
    "LSH_PROJECTION", "MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "REDUCE_WINDOW", "SEGMENT_SUM",
    "SKIP_GRAM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_SUM",
}  # fmt: skip
CUSTOM_WITHOUT = {"TFLite_Detection_PostProcess"}  # tensorflow/lite/kernels/detection_postprocess.cc

TFLITE: dict[str, Rule] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _tflite_transposed,
    "CONV_3D": _convolution_3d,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "SVDF": _svdf,
    **dict.fromkeys(("UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"), _tflite_recurrent),
}
