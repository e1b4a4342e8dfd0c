"""Read the param file of an ncnn model: one text line for each layer.

A line has the layer's type and name, the names of its tensors ("blobs"), and its numbered parameters, such as `0=64`.
The file only has the sizes of inputs, so this module computes the other sizes, for the common types of layers. Formats:
ncnn/docs/developer-guide, param-and-model-file-structure.md and operation-param-weight-table.md.
"""

from collections.abc import Callable, Sequence

from edgetop.formatting import quantity
from edgetop.models.graph import External, Graph, Model, Operator, Shape, Tensor
from edgetop.models.reading_limits import MAX_OPERATORS, MAX_TENSORS, MalformedError

MAGIC = "7767517"
MAX_BYTES = 64 * 2**20

_Parameters = dict[int, str]
# Layers whose first output has the sizes of their first input.
_SAME = frozenset({
    "ReLU", "BatchNorm", "Bias", "Scale", "Sigmoid", "TanH", "ELU", "Dropout", "Softmax", "Clip", "HardSwish",
    "HardSigmoid", "Mish", "Swish", "PReLU", "UnaryOp", "BinaryOp", "Eltwise", "LRN", "InstanceNorm", "GroupNorm",
    "LayerNorm", "GELU", "SELU", "Split", "Noop", "Power", "Exp", "Log", "AbsVal", "Quantize", "Dequantize",
})  # fmt: skip
# Parameter with the number of stored weights, by type of layer.
_WEIGHTS = {
    "Convolution": 6, "ConvolutionDepthWise": 6, "Deconvolution": 6, "DeconvolutionDepthWise": 6, "InnerProduct": 2,
    "Convolution1D": 6, "Convolution3D": 6, "Embed": 3, "LSTM": 1, "GRU": 1, "RNN": 1,
}  # fmt: skip


def read_ncnn(data: memoryview) -> Model:
    """Return the model in the bytes of a .param file. Raises MalformedError if the file is invalid."""
    if len(data) > MAX_BYTES:
        raise MalformedError("more text than any param file has")
    lines = [line for line in bytes(data).decode("utf-8", "replace").splitlines() if line.strip()]
    try:
        count = int(lines[1].split()[0])
        layers = [line.split() for line in lines[2 : 2 + count]]
        if not 0 < count <= MAX_OPERATORS or len(layers) < count:
            raise MalformedError(f"{len(layers)} of {quantity(count, 'layer')}: it is cut short")
        return _Reader().model(layers)
    except (ValueError, IndexError, KeyError) as error:
        raise MalformedError(f"a layer that cannot be read: {error}") from None


class _Reader:
    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._place: dict[str, int] = {}  # of each blob

    def model(self, layers: Sequence[Sequence[str]]) -> Model:
        inputs: list[int] = []
        read: set[int] = set()
        for fields in layers:
            kind, name, ins, outs = fields[0], fields[1], int(fields[2]), int(fields[3])
            if min(ins, outs) < 0 or 4 + ins + outs > len(fields):
                raise MalformedError(f"a layer {name[:40]!r} without all its blobs")
            pairs = (pair.partition("=") for pair in fields[4 + ins + outs :])
            parameters = {int(key): value for key, _, value in pairs if key.lstrip("-").isdigit()}
            places = [self._place[blob] for blob in fields[4 : 4 + ins]]
            read.update(places)
            shape = _input_shape(parameters) if kind == "Input" else _shape(kind, parameters, self._shapes(places))
            written = [self._new(blob, shape) for blob in fields[4 + ins : 4 + ins + outs]]
            if kind == "Input":
                inputs += written
                continue
            weights = self._weights(kind, name, parameters)
            attributes = {str(key): value for key, value in parameters.items()}
            position = len(self._operators)
            self._operators.append(Operator(position, name, kind, "ncnn", (*places, *weights), (*written,), attributes))
        outputs = [place for place in self._place.values() if place not in read]
        stored = sum(tensor.stored_bytes or 0 for tensor in self._tensors)
        external = {"": External(sum(tensor.is_constant for tensor in self._tensors), 0)} if stored else {}
        return Model(
            "ncnn", Graph("", tuple(self._tensors), tuple(self._operators), (*inputs,), (*outputs,)), external=external
        )

    def _shapes(self, places: Sequence[int]) -> list[Shape | None]:
        return [self._tensors[place].shape for place in places]

    def _new(self, name: str, shape: Shape | None, **more: object) -> int:
        if len(self._tensors) >= MAX_TENSORS:
            raise MalformedError("more blobs than any model has")
        place = len(self._tensors)
        if not more:
            self._place[name] = place
        self._tensors.append(Tensor(name, "float32", shape, **more))  # type: ignore[arg-type]
        return place

    def _weights(self, kind: str, name: str, parameters: _Parameters) -> list[int]:
        """Return the index of the tensor with the layer's weights, in a list; [] if the layer has no weights.

        `kind` is the layer's type, and `parameters` are the layer's parameters by number.
        """
        # The file only says how many weights there are: each counts as 4 bytes.
        count = int(parameters.get(_WEIGHTS.get(kind, -1), "0"))
        if count <= 0:
            return []
        return [self._new(f"{name}.weight", (count,), is_constant=True, stored_bytes=4 * count)]


def _input_shape(parameters: _Parameters) -> Shape | None:
    """Return the shape of an input: [channels, height, width], or fewer sizes if the file lacks the first ones.

    Return None if the file has none of the sizes, which are the parameters 2, 1 and 0.
    """
    sizes = [int(parameters.get(key, "0")) for key in (2, 1, 0)]
    given = [size or None for size in sizes]
    while given and given[0] is None:
        given.pop(0)
    return tuple(given) or None


def _shape(kind: str, parameters: _Parameters, inputs: Sequence[Shape | None]) -> Shape | None:
    """Return the shape of a layer's outputs, or None if it is unknown.

    `kind` is the layer's type, such as `Convolution`, and `parameters` are the layer's parameters by number.
    """
    first = inputs[0] if inputs else None
    if kind in _SAME:
        return first
    rule = _RULES.get(kind)
    return None if rule is None or first is None else rule(parameters, first)


def _convolved(parameters: _Parameters, shape: Shape) -> Shape | None:
    """Return the shape after a convolution, or None if the input's `shape` does not have three dimensions.

    `parameters` by number: 0 output channels, 1 and 11 kernel, 2 and 12 dilation, 3 and 13 stride.
    """
    if len(shape) != 3:
        return None
    return int(parameters.get(0, "0")) or shape[0], *_windows(
        parameters, shape, dilation=2, stride=3, pads=(4, 14, 15, 16)
    )


def _pooled(parameters: _Parameters, shape: Shape) -> Shape | None:
    """Return the shape after a pool, or None if the input's `shape` does not have three dimensions.

    `parameters` by number: 1 and 11 kernel, 2 and 12 stride, 4 global pool, 5 rounding mode (0 rounds up).
    """
    if len(shape) != 3:
        return None
    if parameters.get(4, "0") == "1":
        return (shape[0],)
    sizes = _windows(
        parameters, shape, dilation=None, stride=2, pads=(3, 13, 14, 15), rounds_up=parameters.get(5, "0") == "0"
    )
    return shape[0], *sizes


def _windows(
    parameters: _Parameters,
    shape: Shape,
    *,
    dilation: int | None,
    stride: int,
    pads: tuple[int, int, int, int],
    rounds_up: bool = False,
) -> Shape:
    """Return (height, width) of the output of a convolution or pool.

    `dilation`, `stride` and `pads` (left, top, right, bottom) are keys in the layer's `parameters`, not values.
    `rounds_up` says whether an incomplete last step of the window counts. `shape` is the input's shape.
    """

    def number(key: int | None, default: int) -> int:
        return default if key is None else int(parameters.get(key, str(default)))

    left, right = number(pads[0], 0), number(pads[2], number(pads[0], 0))
    top = number(pads[1], number(pads[0], 0))
    bottom = number(pads[3], top)
    sizes: list[int | None] = []
    for size, pad, offset in ((shape[1], (top, bottom), 10), (shape[2], (left, right), 0)):
        step = number(stride + offset, number(stride, 1))
        spread = 1 if dilation is None else number(dilation + offset, number(dilation, 1))
        extent = spread * (number(1 + offset, number(1, 1)) - 1) + 1
        if not isinstance(size, int) or step < 1:
            sizes.append(None)
        elif min(pad) < 0:  # -233 and -234: as many as keep the size (SAME)
            sizes.append(-(-size // step))
        else:
            free = size + sum(pad) - extent
            sizes.append(max(0, (-(-free // step) if rounds_up else free // step) + 1))
    return tuple(sizes)


_RULES: dict[str, Callable[[_Parameters, Shape], Shape | None]] = {
    "Convolution": _convolved,
    "ConvolutionDepthWise": _convolved,
    "Pooling": _pooled,
    "InnerProduct": lambda parameters, _: (int(parameters.get(0, "0")),),
}
