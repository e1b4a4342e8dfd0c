"""The work of each type of operator by its definition: multiply-accumulates, and other arithmetic.

Tools count in different ways. This module counts as follows:

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
    """Return the number of multiply-accumulates of a convolution.

    The shape of the weights is [outputs, inputs / groups, kernel...] in ONNX and [outputs, kernel..., inputs / groups]
    in TFLite.
    """
    return node.out * math.prod(node.full_sizes(WEIGHTS.get(node.operator.op_type, 1))[1:])


def einsum(node: Node) -> int:
    """Return the number of multiply-accumulates of Einsum: the product of the sizes of all labels.

    Raises UnknownError unless there are exactly two operands.
    """
    inputs, _, sizes = einsum_labels(node)
    # With three operands, the number would depend on the order of the products.
    if len(inputs) != 2:
        raise UnknownError
    return math.prod(sizes.values())


def attention(node: Node) -> int:
    """Return the multiply-accumulates of com.microsoft's Attention: projections, scores and weighted values.

    Raises UnknownError if the operator also reads cached keys and values of earlier tokens.
    """
    if node.has(4):
        raise UnknownError
    batch, length, width = node.full_sizes(0)
    projected = node.full_sizes(1)[1]
    queries, _, values = node.attribute("qkv_hidden_sizes", (projected // 3,) * 3)
    return batch * length * (width * projected + length * int(queries + values))


def multi_head(node: Node) -> int:
    """Return the multiply-accumulates of multi-head attention: scores and weighted values, without the projections.

    Raises UnknownError if the operator also reads cached keys and values of earlier tokens, or if keys or values do not
    have three dimensions.
    """
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
    """Return the number of multiply-accumulates of a recurrent layer of TFLite.

    Each weight is used once for every step of every sequence.
    """
    last = 2 if node.operator.op_type == "UNIDIRECTIONAL_SEQUENCE_RNN" else 8
    weights = sum(node.elements(place) for place in range(1, last + 1) if node.has(place))
    projection = node.elements(16) if node.has(16) else 0
    return math.prod(node.full_sizes(0)[:2]) * (weights + projection)


def any_attention(node: Node) -> int:
    return (attention if node.operator.domain else onnx_attention)(node)


def transposed_convolution(node: Node) -> int:
    """Return the number of multiply-accumulates of a transposed convolution.

    Each input element is multiplied once by each weight of its input channel.
    """
    return node.elements(0) * math.prod(node.full_sizes(1)[1:])


def matmul(node: Node) -> int:
    return node.out * node.full_sizes(0)[-2 if node.attribute("transA") else -1]


def tflite_matmul(node: Node) -> int:
    return node.out * node.full_sizes(0)[-2 if node.attribute("adj_x") else -1]


def openvino_matmul(node: Node) -> int:
    sizes = node.full_sizes(0)
    return node.out * (sizes[-2] if node.attribute("transpose_a") == "true" and len(sizes) > 1 else sizes[-1])


def ncnn_convolution(node: Node) -> int:
    """Return the number of multiply-accumulates of an ncnn convolution: one for each weight and output position."""
    return math.prod(node.out_sizes()[1:]) * node.elements(len(node.inputs) - 1)


def recurrent_macs(node: Node) -> int:
    """Return the number of multiply-accumulates of a recurrent layer of ONNX.

    Each weight for the input (W) and for the state (R) is used once for every step of every sequence.
    """
    return math.prod(node.full_sizes(0)[:2]) * (node.elements(1) + node.elements(2))


def each(flops: int) -> Rule:
    return lambda node: flops * node.out


def each_input(flops: int) -> Rule:
    return lambda node: flops * node.elements(0)


def none(_: Node) -> int:
    return 0


def of_many(node: Node) -> int:
    """Return the number of operations of an operator that combines several tensors, such as Sum or Max.

    Each output element takes one operation for each input after the first, and at least one.
    """
    return max(len(node.inputs) - 1, 1) * node.out


def reduction(node: Node) -> int:
    return max(node.elements(0) - node.out, 0)


def bias(place: int) -> Rule:
    """Return a rule that gives the number of operations of a bias and of an activation fused into the operator.

    Bias and activation each take one operation per output element. The bias is the input at index `place`, and may be
    omitted.
    """
    return lambda node: (node.out if node.has(place) else 0) + activation(node)


def activation(node: Node) -> int:
    """Return the number of operations of a fused activation: one per output element, or 0 without an activation."""
    # The attribute `activation` is a name in operators of com.microsoft, and a number in TFLite, where 0 means none.
    return node.out if node.attribute("activation") else 0


def resize(node: Node) -> int:
    """Return the number of FLOPs of a resize: one multiply-accumulate for each neighbour of each output element.

    Linear interpolation has two neighbours per resized axis, and cubic interpolation has four.
    """
    taps = {"nearest": 0, "linear": 2, "cubic": 4}[node.attribute("mode", "nearest")]
    axes = sum(a != b for a, b in zip(node.full_sizes(0), node.out_sizes(), strict=True))
    return 2 * taps**axes * node.out if taps else 0


def recurrent(node: Node) -> int:
    """Return the number of operations of a recurrent layer, without its matrix products.

    For each element of the state: two biases per gate, the gates' functions, and the operations that join the gates.
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
    """Return the FLOPs of Fourier transforms of real numbers: 2.5 N log2 N for each transform of N points.

    FFTW counts in this way (https://www.fftw.org/speed/method.html).
    """
    height, width = (int(length) for length in node.value(1).reshape(-1))
    points = height * width
    return round(node.out / (height * (width // 2 + 1)) * 2.5 * points * math.log2(points)) if points > 1 else 0


def window(node: Node) -> int:
    return int(math.prod(node.attribute("kernel_shape", ()))) * node.out


def tflite_window(node: Node) -> int:
    return int(node.attribute("filter_h") * node.attribute("filter_w")) * node.out + activation(node)


def scatter(node: Node) -> int:
    return 0 if node.attribute("reduction", "none") == "none" else node.elements(2)
