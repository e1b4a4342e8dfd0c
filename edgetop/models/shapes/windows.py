"""Convolutions and pools: how many places a window has.

Sources: onnx/docs/Operators.md (Conv, ConvTranspose, MaxPool); onnx/defs/nn/defs.cc for which
operator takes which attribute.
"""

from dataclasses import dataclass

from edgetop.models.graph import Sizes
from edgetop.models.shapes.node import Node, UnknownError

# Where an operator's weights stand among its inputs.
WEIGHTS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3, "ConvTranspose": 1}


@dataclass(frozen=True, slots=True)
class Window:
    """The window of one operator, with an entry for each spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]  # before each axis, then after each
    auto_pad: str
    ceil_mode: bool
    may_overhang: bool = False  # a window that is larger than the input is none to complain of

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
        # A window that would start in the padding behind the input is left out.
        return places - 1 if (places - 1) * stride >= size + before else places

    def _places_without_room(self, room: int, stride: int) -> int:
        """ONNX Runtime's pools cut the quotient towards 0, so that one place may be left, or none.

        onnxruntime/core/providers/cpu/nn/pool_attributes.h (ComputeOutputSize). A convolution is refused.
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
    """MaxPool's second output, the places of the maxima, is as large as its first."""
    sizes = node.sizes()
    last = bool(node.attribute("channels_last", 0))  # of com.microsoft's QLinearAveragePool
    head, spatial, tail = (sizes[:1], sizes[1:-1], sizes[-1:]) if last else (sizes[:2], sizes[2:], ())
    kernel = tuple(node.attribute("kernel_shape", ()))
    places = Window.of(node, kernel, may_overhang=True).places(spatial)
    return [(*head, *places, *tail)] * 2


def global_pool(node: Node) -> list[Sizes | None]:
    sizes = node.sizes()
    if node.attribute("channels_last", 0):
        return [(sizes[0], *(1 for _ in sizes[1:-1]), sizes[-1])]
    return [(*sizes[:2], *(1 for _ in sizes[2:]))]
