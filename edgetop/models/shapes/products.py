"""Matrix products, recurrent layers and attention.

Sources: onnx/docs/Operators.md; onnxruntime/docs/ContribOperators.md for com.microsoft.
"""

from edgetop.models.graph import Sizes
from edgetop.models.shapes.node import Node, UnknownError, broadcast

# Where the second matrix stands among the inputs.
SECOND = {
    "MatMul": 1, "FusedMatMul": 1, "MatMulInteger": 1, "MatMulIntegerToFloat": 1, "DynamicQuantizeMatMul": 1,
    "QLinearMatMul": 3, "Gemm": 1, "FusedGemm": 1, "QGemm": 3,
}  # fmt: skip

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def matmul(node: Node) -> list[Sizes | None]:
    a, b = node.sizes(0), node.sizes(SECOND[node.operator.op_type])
    if node.attribute("transBatchA") or node.attribute("transBatchB"):
        raise UnknownError
    a = _turned(a) if node.attribute("transA") else a
    b = _turned(b) if node.attribute("transB") else b
    rows: Sizes = a[-2:-1] if len(a) > 1 else ()
    columns: Sizes = b[-1:] if len(b) > 1 else ()
    return [(*broadcast(a[:-2], b[:-2]), *rows, *columns)]


def gemm(node: Node) -> list[Sizes | None]:
    a, b = node.sizes(0), node.sizes(SECOND[node.operator.op_type])
    return [((_turned(a) if node.attribute("transA") else a)[0], (_turned(b) if node.attribute("transB") else b)[1])]


def _turned(sizes: Sizes) -> Sizes:
    if len(sizes) < 2:
        raise UnknownError
    return (*sizes[:-2], sizes[-1], sizes[-2])


def matmul_of_blocks(node: Node) -> list[Sizes | None]:
    """MatMulNBits: the second matrix is packed; its true sizes K and N are attributes."""
    return [(*node.sizes()[:-1], node.operator.attributes["N"])]


def einsum_labels(node: Node) -> tuple[list[str], str, dict[str, int]]:
    """Labels of the inputs and of the output, and the size of each label. Ellipses are not known."""
    terms, arrow, out = node.attribute("equation", "").replace(" ", "").partition("->")
    inputs = terms.split(",")
    if "." in terms or len(inputs) != len(node.inputs):
        raise UnknownError
    sizes: dict[str, int] = {}
    for place, labels in enumerate(inputs):
        for label, size in zip(labels, node.full_sizes(place), strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    if not arrow:
        out = "".join(sorted(label for label in sizes if terms.count(label) == 1))
    return inputs, out, sizes


def einsum(node: Node) -> list[Sizes | None]:
    _, out, sizes = einsum_labels(node)
    return [tuple(sizes[label] for label in out)]


def recurrent(node: Node) -> list[Sizes | None]:
    """LSTM, GRU, RNN: all hidden states, the last one, and LSTM's last cell."""
    first, second, _ = node.sizes()
    directions, rows, _ = node.full_sizes(1)
    hidden = rows // GATES[node.operator.op_type]
    if node.attribute("layout", 0):
        last: Sizes = (first, directions, hidden)
        return [(first, second, directions, hidden), last, last]
    last = (directions, second, hidden)
    return [(first, directions, second, hidden), last, last]


def attention(node: Node) -> list[Sizes | None]:
    """com.microsoft's, whose weights project to queries, keys and values side by side."""
    batch, length, _ = node.sizes()
    return [(batch, length, value_width(node))]


def value_width(node: Node) -> int:
    sizes = node.attribute("qkv_hidden_sizes")
    return int(sizes[2]) if sizes else node.full_sizes(1)[1] // 3


def multi_head_attention(node: Node) -> list[Sizes | None]:
    """Queries, keys and values of three dimensions each, or as packed as is not known."""
    batch, length, width = node.sizes()
    if not (node.has(1) and node.has(2)):
        raise UnknownError
    return [(batch, length, node.sizes(2)[2] if node.operator.op_type == "MultiHeadAttention" else width)]


def onnx_attention(node: Node) -> list[Sizes | None]:
    """ONNX's own, of opset 23 on."""
    queries, values = node.sizes(0), node.sizes(2)
    if len(queries) == 4:
        return [(*queries[:3], values[3])]
    width, heads = values[2], (node.attribute("q_num_heads"), node.attribute("kv_num_heads"))
    if width is None or None in heads:
        raise UnknownError
    return [(*queries[:2], heads[0] * (width // heads[1]))]


def embeddings(node: Node) -> list[Sizes | None]:
    """EmbedLayerNormalization: ids of words to their vectors."""
    batch, length = node.sizes()
    return [(batch, length, node.sizes(2)[1])]
