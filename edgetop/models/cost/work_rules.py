"""The work of each type of operator by its definition: multiply-accumulates, and other arithmetic.

Tools differ in their conventions. Those used here:

* A multiply-accumulate (MAC) is 2 FLOPs; both are given. Papers about networks often say FLOPs and mean MACs.
* Integer arithmetic of quantised operators counts as FLOPs as well, since the work is the same.
* Other arithmetic counts as in TensorFlow's profiler (tensorflow/python/profiler/internal/flops_registry.py): 1 per
  element and function, 5 for softmax, and the size of the window for a pool. Normalisations count as in fvcore
  (fvcore/nn/jit_handles.py): batch normalisation 2 per element, others 5. Moving or selecting elements counts 0.
* An unknown number is None.

Definitions: onnx/docs/Operators.md, onnxruntime/docs/ContribOperators.md, tensorflow/lite/kernels. Each output element
of a convolution or a product takes one MAC for each weight that contributes to it (Sze et al. 2017, arXiv:1703.09039,
section III).
"""

import math
from collections.abc import Callable

from edgetop.models.shapes.node import Node, UnknownError
from edgetop.models.shapes.products import GATES, WEIGHTS, einsum_labels

Rule = Callable[[Node], int]


def convolution(node: Node) -> int:
    """Count the MACs of a convolution.

    Weights are [outputs, inputs / groups, kernel...] in ONNX and [outputs, kernel..., inputs / groups] in TFLite.
    """
    return node.out * math.prod(node.full_sizes(WEIGHTS.get(node.operator.op_type, 1))[1:])


def einsum(node: Node) -> int:
    """Count one MAC for each combination of all labels. With a third operand the order of work is unknown."""
    inputs, _, sizes = einsum_labels(node)
    if len(inputs) != 2:
        raise UnknownError
    return math.prod(sizes.values())


def attention(node: Node) -> int:
    """Count the MACs of com.microsoft's Attention: projections, scores, weighted values. Unknown with past keys."""
    if node.has(4):
        raise UnknownError
    batch, length, width = node.full_sizes(0)
    projected = node.full_sizes(1)[1]
    queries, _, values = node.attribute("qkv_hidden_sizes", (projected // 3,) * 3)
    return batch * length * (width * projected + length * int(queries + values))


def multi_head(node: Node) -> int:
    """Count the MACs of scores and weighted values. The projections are other operators."""
    if any(node.has(place) for place in (6, 7)) and node.operator.op_type == "MultiHeadAttention":
        raise UnknownError
    (batch, length, width), keys, values = node.full_sizes(0), node.full_sizes(1), node.full_sizes(2)
    if not len(keys) == len(values) == 3:
        raise UnknownError
    return batch * length * keys[1] * (width + values[2])


def onnx_attention(node: Node) -> int:
    if node.has(4) or len(node.full_sizes(0)) != 4:
        raise UnknownError
    (batch, heads, length, width), keys, values = node.full_sizes(0), node.full_sizes(1), node.full_sizes(2)
    return batch * heads * length * keys[2] * (width + values[3])


def tflite_recurrent(node: Node) -> int:
    """Count one MAC for each weight of input and state in every step of every sequence."""
    last = 2 if node.operator.op_type == "UNIDIRECTIONAL_SEQUENCE_RNN" else 8
    weights = sum(node.elements(place) for place in range(1, last + 1) if node.has(place))
    projection = node.elements(16) if node.has(16) else 0
    return math.prod(node.full_sizes(0)[:2]) * (weights + projection)


def any_attention(node: Node) -> int:
    return (attention if node.operator.domain else onnx_attention)(node)


def transposed_convolution(node: Node) -> int:
    """Count one MAC for each input element and each weight that spreads it over the output."""
    return node.elements(0) * math.prod(node.full_sizes(1)[1:])


def matmul(node: Node) -> int:
    return node.out * node.full_sizes(0)[-2 if node.attribute("transA") else -1]


def tflite_matmul(node: Node) -> int:
    return node.out * node.full_sizes(0)[-2 if node.attribute("adj_x") else -1]


def recurrent_macs(node: Node) -> int:
    """Count one MAC for each weight in W (of the input) and R (of the state) in every step of every sequence."""
    return math.prod(node.full_sizes(0)[:2]) * (node.elements(1) + node.elements(2))


def each(flops: int) -> Rule:
    return lambda node: flops * node.out


def each_input(flops: int) -> Rule:
    return lambda node: flops * node.elements(0)


def none(_: Node) -> int:
    return 0


def of_many(node: Node) -> int:
    """Count the operations of Sum, Max and the like: one fewer per element than there are tensors."""
    return max(len(node.inputs) - 1, 1) * node.out


def reduction(node: Node) -> int:
    return max(node.elements(0) - node.out, 0)


def bias(place: int) -> Rule:
    """Return a rule: one operation per element if the bias (input `place`) is given, and one for a fused activation."""
    return lambda node: (node.out if node.has(place) else 0) + activation(node)


def activation(node: Node) -> int:
    """Count one operation per element if an activation is fused.

    Operators of com.microsoft have its name as an attribute, those of TFLite a number; 0 means no activation.
    """
    return node.out if node.attribute("activation") else 0


def resize(node: Node) -> int:
    """Count one multiply-accumulate per neighbour: two per axis for linear, four for cubic."""
    taps = {"nearest": 0, "linear": 2, "cubic": 4}[node.attribute("mode", "nearest")]
    axes = sum(a != b for a, b in zip(node.full_sizes(0), node.out_sizes(), strict=True))
    return 2 * taps**axes * node.out if taps else 0


def recurrent(node: Node) -> int:
    """Count, per element of the state, two biases per gate, the gates' functions, and the operations that join them.

    LSTM: five functions, c = f * c + i * g, o * tanh(c). GRU: three functions, r * h and (1 - z) * n + z * h. RNN: one
    function.
    """
    gates = GATES[node.operator.op_type]
    hidden = node.full_sizes(2)[2]
    joining = {"LSTM": 9, "GRU": 8, "RNN": 1}[node.operator.op_type]
    return math.prod(node.full_sizes(0)[:2]) * node.full_sizes(1)[0] * hidden * (2 * gates + joining)


def attention_softmax(node: Node) -> int:
    heads = node.attribute("num_heads")
    if heads is None:
        heads = node.full_sizes(0)[1]
    sizes, keys = node.full_sizes(0), node.full_sizes(1)
    if node.operator.op_type == "MultiHeadAttention":
        return 5 * int(heads) * sizes[0] * sizes[1] * keys[1]
    if node.operator.domain:
        return 5 * int(heads) * sizes[0] * sizes[1] ** 2
    return 5 * int(heads) * sizes[0] * sizes[2] * keys[2]


def real_transform(node: Node) -> int:
    """Count 2.5 N log2 N for each real transform, as FFTW does (https://www.fftw.org/speed/method.html)."""
    height, width = (int(length) for length in node.value(1).reshape(-1))
    points = height * width
    return round(node.out / (height * (width // 2 + 1)) * 2.5 * points * math.log2(points)) if points > 1 else 0


def window(node: Node) -> int:
    return int(math.prod(node.attribute("kernel_shape", ()))) * node.out


def tflite_window(node: Node) -> int:
    return int(node.attribute("filter_h") * node.attribute("filter_w")) * node.out + activation(node)


def scatter(node: Node) -> int:
    return 0 if node.attribute("reduction", "none") == "none" else node.elements(2)
