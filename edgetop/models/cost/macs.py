"""Multiply-accumulates: convolutions, matrix products, recurrent layers, attention.

Each follows from the operator's definition (onnx/docs/Operators.md,
onnxruntime/docs/ContribOperators.md, tensorflow/lite/kernels). Each output of a convolution or a
product takes as many as there are weights that it sees (Sze et al. 2017, arXiv:1703.09039, section III).
"""

import math
from collections.abc import Callable

from edgetop.models.shapes.node import Node, UnknownError
from edgetop.models.shapes.products import GATES, SECOND, WEIGHTS, einsum_labels

Rule = Callable[[Node], int]


def _convolution(node: Node) -> int:
    """Weights are [outputs, inputs / groups, kernel...], and TFLite's [outputs, kernel..., inputs / groups]."""
    return node.out * math.prod(node.full_sizes(WEIGHTS.get(node.operator.op_type, 1))[1:])


def _einsum(node: Node) -> int:
    """One product for each choice of all labels; with a third operand the order of work is not known."""
    inputs, _, sizes = einsum_labels(node)
    if len(inputs) != 2:
        raise UnknownError
    return math.prod(sizes.values())


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


def _tflite_recurrent(node: Node) -> int:
    """Every step of every sequence sees all weights of input and state."""
    last = 2 if node.operator.op_type == "UNIDIRECTIONAL_SEQUENCE_RNN" else 8
    weights = sum(node.elements(place) for place in range(1, last + 1) if node.has(place))
    projection = node.elements(16) if node.has(16) else 0
    return math.prod(node.full_sizes(0)[:2]) * (weights + projection)


ONNX: dict[str, Rule] = {
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
