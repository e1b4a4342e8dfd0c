"""Rules for the output sizes of matrix products, recurrent layers, attention, convolutions and pools.

Each rule returns a list with one shape for each output. Sources: onnx/docs/Operators.md;
onnxruntime/docs/ContribOperators.md for com.microsoft; onnx/defs/nn/defs.cc for the attributes of each operator.
"""

from edgetop.frozen import frozen
from edgetop.models.graph import Sizes
from edgetop.models.shapes.node import Node, UnknownError, broadcast

# Place of the second matrix among the inputs.
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
    """Return, in a list, the shape of the output of MatMulNBits. The attribute N is the size of its packed matrix."""
    return [(*node.sizes()[:-1], node.operator.attributes["N"])]


def einsum_labels(node: Node) -> tuple[list[str], str, dict[str, int]]:
    """Return the labels of each input, the labels of the output, and the size of each label of an Einsum.

    The equation `ij,jk->ik` gives `["ij", "jk"]` and `"ik"`. Raises UnknownError for an equation with `...`.
    """
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
    """Return the shapes of the outputs of LSTM, GRU or RNN: all hidden states, the last, and
    the last cell state (LSTM only).
    """
    first, second, _ = node.sizes()
    directions, rows, _ = node.full_sizes(1)
    hidden = rows // GATES[node.operator.op_type]
    if node.attribute("layout", 0):
        last: Sizes = (first, directions, hidden)
        return [(first, second, directions, hidden), last, last]
    last = (directions, second, hidden)
    return [(first, directions, second, hidden), last, last]


def attention(node: Node) -> list[Sizes | None]:
    """Return, in a list, the shape of the output of com.microsoft's Attention.

    The weights hold queries, keys and values side by side.
    """
    batch, length, _ = node.sizes()
    return [(batch, length, value_width(node))]


def value_width(node: Node) -> int:
    sizes = node.attribute("qkv_hidden_sizes")
    return int(sizes[2]) if sizes else node.full_sizes(1)[1] // 3


def multi_head_attention(node: Node) -> list[Sizes | None]:
    """Return, in a list, the shape of the output of attention with queries, keys and values as three inputs.

    Each input has three dimensions. Raises UnknownError if the keys or the values are missing, that is, if an input
    holds several of the three.
    """
    batch, length, width = node.sizes()
    if not (node.has(1) and node.has(2)):
        raise UnknownError
    return [(batch, length, node.sizes(2)[2] if node.operator.op_type == "MultiHeadAttention" else width)]


def onnx_attention(node: Node) -> list[Sizes | None]:
    """Return, in a list, the shape of the output of ONNX's own operator Attention (since opset 23)."""
    queries, values = node.sizes(0), node.sizes(2)
    if len(queries) == 4:
        return [(*queries[:3], values[3])]
    width, heads = values[2], (node.attribute("q_num_heads"), node.attribute("kv_num_heads"))
    if width is None or None in heads:
        raise UnknownError
    return [(*queries[:2], heads[0] * (width // heads[1]))]


def any_attention(node: Node) -> list[Sizes | None]:
    return (attention if node.operator.domain else onnx_attention)(node)


def embeddings(node: Node) -> list[Sizes | None]:
    """Return, in a list, the shape of the output of EmbedLayerNormalization, which maps word ids to vectors."""
    batch, length = node.sizes()
    return [(batch, length, node.sizes(2)[1])]


# Place of an operator's weights among its inputs.
WEIGHTS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3, "ConvTranspose": 1}


@frozen
class Window:
    """How the window of a convolution or pool moves over the input. Tuples have an entry for each spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]  # before each axis, then after each axis
    auto_pad: str
    ceil_mode: bool
    may_overhang: bool = False  # whether the window may be larger than the input

    @classmethod
    def of(cls, node: Node, kernel: tuple[int, ...], *, may_overhang: bool = False) -> "Window":
        axes = len(kernel)
        window = cls(
            kernel,
            tuple(node.attribute("strides", (1,) * axes)),
            tuple(node.attribute("dilations", (1,) * axes)),
            tuple(node.attribute("pads", (0,) * 2 * axes)),
            node.attribute("auto_pad", "NOTSET"),
            bool(node.attribute("ceil_mode", 0)),
            may_overhang,
        )
        if not len(window.strides) == len(window.dilations) == len(window.pads) / 2 == axes:
            raise UnknownError
        return window

    def places(self, spatial: Sizes) -> Sizes:
        if len(spatial) != len(self.kernel):
            raise UnknownError
        return tuple(None if size is None else self._places(axis, size) for axis, size in enumerate(spatial))

    def _places(self, axis: int, size: int) -> int:
        stride, reach = self.strides[axis], (self.kernel[axis] - 1) * self.dilations[axis] + 1
        if self.auto_pad.startswith("SAME"):
            return -(-size // stride)
        before, after = (0, 0) if self.auto_pad == "VALID" else (self.pads[axis], self.pads[axis + len(self.kernel)])
        room = size + before + after - reach
        if room < 0:
            return self._places_without_room(room, stride)
        if not self.ceil_mode:
            return room // stride + 1
        places = -(-room // stride) + 1
        # A window that would start in the padding after the input is left out.
        return places - 1 if (places - 1) * stride >= size + before else places

    def _places_without_room(self, room: int, stride: int) -> int:
        """Return the number of positions of a pool's window that is larger than the input: 1 or 0.

        `room` is the input's size less the window's size. The result is 1 if the window is larger by less than
        `stride`, and 0 if by less than two strides. Raises UnknownError beyond, and for a convolution, because the
        runtime refuses these. Source: onnxruntime/core/providers/cpu/nn/pool_attributes.h, ComputeOutputSize, which
        rounds towards 0.
        """
        places = 1 - -room // stride
        if not self.may_overhang or places < 0:
            raise UnknownError
        return places


def convolution(node: Node) -> list[Sizes | None]:
    weights = node.full_sizes(WEIGHTS[node.operator.op_type])
    batch, _, *spatial = node.sizes()
    return [(batch, weights[0], *Window.of(node, weights[2:]).places(tuple(spatial)))]


def transposed_convolution(node: Node) -> list[Sizes | None]:
    weights = node.full_sizes(1)
    batch, _, *spatial = node.sizes()
    channels = weights[1] * node.attribute("group", 1)
    given = node.attribute("output_shape")
    if given is not None:
        return [(batch, channels, *given)]
    window = Window.of(node, weights[2:])
    extra = node.attribute("output_padding", (0,) * len(spatial))
    return [(batch, channels, *(_spread(window, axis, size, extra[axis]) for axis, size in enumerate(spatial)))]


def _spread(window: Window, axis: int, size: int | None, extra: int) -> int | None:
    if size is None:
        return None
    stride = window.strides[axis]
    if window.auto_pad.startswith("SAME"):
        return size * stride
    cut = 0 if window.auto_pad == "VALID" else window.pads[axis] + window.pads[axis + len(window.kernel)]
    return stride * (size - 1) + extra + (window.kernel[axis] - 1) * window.dilations[axis] + 1 - cut


def pool(node: Node) -> list[Sizes | None]:
    """Return the two equal shapes of a pool's outputs.

    Only MaxPool has the second output, the positions of the maxima.
    """
    sizes = node.sizes()
    last = bool(node.attribute("channels_last", 0))  # com.microsoft's QLinearAveragePool has it
    head, spatial, tail = (sizes[:1], sizes[1:-1], sizes[-1:]) if last else (sizes[:2], sizes[2:], ())
    kernel = tuple(node.attribute("kernel_shape", ()))
    places = Window.of(node, kernel, may_overhang=True).places(spatial)
    return [(*head, *places, *tail)] * 2


def global_pool(node: Node) -> list[Sizes | None]:
    sizes = node.sizes()
    if node.attribute("channels_last", 0):
        return [(sizes[0], *(1 for _ in sizes[1:-1]), sizes[-1])]
    return [(*sizes[:2], *(1 for _ in sizes[2:]))]
