"""The dtype of each output. Source: the type constraints of onnx/docs/Operators.md and ContribOperators.md."""

from collections.abc import Callable

from edgetop.models.onnx_values import DTYPES, Constant
from edgetop.models.shapes.node import Node, UnknownError
from edgetop.models.shapes.onnx_rules import RULES as SIZES

Rule = Callable[[Node], list[str | None]]


def _always(*dtypes: str) -> Rule:
    return lambda _: [*dtypes]


def _of_input(*places: int) -> Rule:
    return lambda node: [node.tensor(place).dtype for place in places]


def _of_zero_point(place: int, otherwise: str) -> Rule:
    """Of the operators whose output has the dtype of its zero point, which may be left out."""
    return lambda node: [node.tensor(place).dtype if node.has(place) else otherwise]


def _quantised(node: Node) -> list[str | None]:
    if node.has(2):
        return [node.tensor(2).dtype]
    return [DTYPES.get(node.attribute("output_dtype", 0), "uint8")]


def _constant_of_shape(node: Node) -> list[str | None]:
    value = node.attribute("value")
    return [value.tensor.dtype if isinstance(value, Constant) else "float32"]


_COMPARISONS = (
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf",
)  # fmt: skip
_INDICES = ("Shape", "Size", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression")
_GENERATORS = ("EyeLike", "Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")

RULES: dict[str, Rule] = {
    **dict.fromkeys(_COMPARISONS, _always("bool")),
    **dict.fromkeys(_INDICES, _always("int64")),
    **dict.fromkeys(("ConvInteger", "MatMulInteger"), _always("int32")),
    "Cast": lambda node: [DTYPES.get(node.attribute("to", 0))],
    "CastLike": _of_input(1),
    "Where": _of_input(1),
    "OneHot": _of_input(2),
    "TopK": lambda node: [node.tensor(0).dtype, "int64"],
    "MaxPool": lambda node: [node.tensor(0).dtype, "int64"],
    "Dropout": lambda node: [node.tensor(0).dtype, "bool"],
    "ConstantOfShape": _constant_of_shape,
    # Of generators: the attribute, else what a tensor they are to be like is, else float.
    **dict.fromkeys(
        _GENERATORS,
        lambda node: [DTYPES.get(node.attribute("dtype", 0), node.tensor(0).dtype if node.has(0) else "float32")],
    ),
    "QuantizeLinear": _quantised,
    "DequantizeLinear": _of_input(1),
    "DynamicQuantizeLinear": _always("uint8", "float32", "uint8"),
    "QLinearConv": _of_zero_point(7, "uint8"),
    "QLinearMatMul": _of_zero_point(7, "uint8"),
    "QLinearConcat": _of_zero_point(1, "uint8"),
    "QGemm": _of_zero_point(8, "float32"),
    "MatMulIntegerToFloat": _of_input(2),
    "DynamicQuantizeMatMul": _of_input(0),
    "QAttention": _of_input(2),
    "EmbedLayerNormalization": _of_input(2),
}


def output_dtypes(node: Node) -> list[str | None]:
    """Without a rule of its own, an operator that is known gives what its first input is."""
    rule = RULES.get(node.operator.op_type)
    if rule is not None:
        return rule(node)
    if node.operator.op_type not in SIZES:
        raise UnknownError
    first = node.tensor(0).dtype if node.has(0) else None
    return [first] * len(node.operator.outputs)
