"""Which rule holds for which operator of ONNX (onnx/docs/Operators.md) and of com.microsoft (ContribOperators.md)."""

from collections.abc import Callable

from edgetop.models.graph import Sizes
from edgetop.models.shapes import layout, products, windows
from edgetop.models.shapes.node import Node, UnknownError, broadcast

Rule = Callable[[Node], list[Sizes | None]]

DOMAINS = {"", "com.microsoft"}


def _same(node: Node) -> list[Sizes | None]:
    return [node.sizes()]


def _broadcast(node: Node) -> list[Sizes | None]:
    return [broadcast(*(node.sizes(place) for place in range(len(node.inputs))))]


def _quantised_broadcast(node: Node) -> list[Sizes | None]:
    """QLinearAdd, QLinearMul: each tensor is followed by its scale and its zero point."""
    return [broadcast(node.sizes(0), node.sizes(3))]


def _shape(node: Node) -> list[Sizes | None]:
    rank = len(node.sizes())
    return [(len(range(rank)[node.attribute("start", 0) : node.attribute("end", rank)]),)]


def _layer_norm(node: Node) -> list[Sizes | None]:
    """The second and third outputs hold a mean and a deviation for each normalised part."""
    sizes = node.sizes()
    axis = node.attribute("axis", -1) % len(sizes)
    part = (*sizes[:axis], *(1 for _ in sizes[axis:]))
    return [sizes, part, part]


def _skip_layer_norm(node: Node) -> list[Sizes | None]:
    return [node.sizes(), None, None, node.sizes()]


def _regions(node: Node) -> list[Sizes | None]:
    """Shapes of RoiAlign and MaxRoiPool."""
    side = node.attribute("pooled_shape", (node.attribute("output_height", 1), node.attribute("output_width", 1)))
    return [(node.sizes(1)[0], node.sizes()[1], *side)]


def _grid_sample(node: Node) -> list[Sizes | None]:
    return [(*node.sizes()[:2], *node.sizes(1)[1:-1])]


def _from_attribute(node: Node) -> list[Sizes | None]:
    given = node.attribute("shape")
    if given is None:
        raise UnknownError
    return [tuple(given)]


ACTIVATIONS = (
    "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Sigmoid", "HardSigmoid", "Tanh",
    "Softplus", "Softsign", "Clip", "Gelu", "FastGelu", "QuickGelu", "BiasGelu", "HardSwish", "Mish", "Swish", "Shrink",
)  # fmt: skip
FUNCTIONS = (
    "Abs", "Neg", "Sign", "Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Erf", "Sin", "Cos", "Tan",
    "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Not", "IsNaN", "IsInf", "BitwiseNot",
)  # fmt: skip
NORMALISATIONS = (
    "BatchNormalization", "InstanceNormalization", "GroupNormalization", "GroupNorm", "LpNormalization", "LRN",
    "MeanVarianceNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
)  # fmt: skip
SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax", "QLinearSoftmax")
ARITHMETIC = (
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater",
    "GreaterOrEqual", "Max", "Min", "Sum", "Mean", "Where", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
)  # fmt: skip
REDUCTIONS = tuple(
    f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
)
_SAME = (
    *ACTIVATIONS, *FUNCTIONS, *NORMALISATIONS, *SOFTMAXES, "Identity", "Cast", "CastLike", "CumSum",
    "QuantizeLinear", "DequantizeLinear", "QLinearSigmoid", "QLinearLeakyRelu", "Trilu", "ScatterND", "ScatterElements",
    "Scatter", "ReverseSequence", "RotaryEmbedding", "EyeLike", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(ARITHMETIC, _broadcast),
    **dict.fromkeys(REDUCTIONS, layout.reduce),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _quantised_broadcast),
    **dict.fromkeys(("Conv", "FusedConv", "ConvInteger", "QLinearConv"), windows.convolution),
    "ConvTranspose": windows.transposed_convolution,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"), windows.pool),
    **dict.fromkeys(
        ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "QLinearGlobalAveragePool"), windows.global_pool
    ),
    **dict.fromkeys(
        ("MatMul", "FusedMatMul", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QLinearMatMul"),
        products.matmul,
    ),
    **dict.fromkeys(("Gemm", "FusedGemm", "QGemm"), products.gemm),
    "MatMulNBits": products.matmul_of_blocks,
    "Einsum": products.einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), products.recurrent),
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention"), products.multi_head_attention),
    "QAttention": products.attention,
    "Attention": lambda node: (products.attention if node.operator.domain else products.onnx_attention)(node),
    "EmbedLayerNormalization": products.embeddings,
    "LayerNormalization": _layer_norm,
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_layer_norm),
    "Dropout": lambda node: [node.sizes()] * 2,
    "DynamicQuantizeLinear": lambda node: [node.sizes(), (), ()],
    "Reshape": layout.reshape,
    "Flatten": layout.flatten,
    "Squeeze": layout.squeeze,
    "Unsqueeze": layout.unsqueeze,
    "Transpose": layout.transpose,
    "Concat": layout.concat,
    "QLinearConcat": layout.quantised_concat,
    "Split": layout.split,
    "Slice": layout.slice_,
    "Gather": layout.gather,
    "GatherElements": lambda node: [node.sizes(1)],
    "GatherND": layout.gather_nd,
    "Pad": layout.pad,
    "Expand": layout.expand,
    "Tile": layout.tile,
    **dict.fromkeys(("Resize", "Upsample"), layout.resize),
    "DepthToSpace": layout.depth_to_space,
    "SpaceToDepth": layout.space_to_depth,
    "Shape": _shape,
    "Size": lambda _: [()],
    "ConstantOfShape": layout.constant_of_shape,
    "Range": layout.range_,
    "OneHot": layout.one_hot,
    "TopK": layout.top_k,
    **dict.fromkeys(("ArgMax", "ArgMin"), layout.arg_reduce),
    "NonZero": lambda node: [(len(node.sizes()), None)],
    "NonMaxSuppression": lambda _: [(None, 3)],
    **dict.fromkeys(("RoiAlign", "MaxRoiPool"), _regions),
    "GridSample": _grid_sample,
    **dict.fromkeys(("RandomNormal", "RandomUniform"), _from_attribute),
}


def output_sizes(node: Node) -> list[Sizes | None]:
    """Raises UnknownError, or what arithmetic on a broken node raises, where they cannot be known."""
    rule = RULES.get(node.operator.op_type)
    if rule is None:
        raise UnknownError
    return rule(node)
