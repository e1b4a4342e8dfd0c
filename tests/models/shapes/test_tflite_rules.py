"""TFLite's operators where the file leaves sizes open: what LiteRT itself finds, by its own kernels."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from edgetop.demo.tflite_file import TfliteFile, table
from edgetop.models.inspection import inspected
from edgetop.models.shapes.inference import input_names
from tests.support.model_files import read


def of_litert(content, shapes):
    """After an inference, for sizes that an operator computes are known no sooner."""
    own = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES  # whose tensors no delegate hides
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=own)
    for detail, shape in zip(interpreter.get_input_details(), shapes, strict=True):
        interpreter.resize_tensor_input(detail["index"], shape)
    interpreter.allocate_tensors()
    for detail, shape in zip(interpreter.get_input_details(), shapes, strict=True):
        interpreter.set_tensor(detail["index"], np.ones(shape, detail["dtype"]))
    interpreter.invoke()
    return {detail["index"]: tuple(detail["shape"]) for detail in interpreter.get_tensor_details()}


def found_for(content, shapes):
    model = read(content)
    return inspected(model, dict(zip(input_names(model), shapes, strict=True)))


class Open:
    """A graph whose batch is open, as converters write it: stored as 1, -1 in the signature."""

    def __init__(self):
        self.file = TfliteFile("a test")
        self.graph = self.file.add_graph("main")
        self.inputs = []

    def input(self, *sizes, dtype="float32"):
        self.inputs.append(self.tensor(-1, *sizes, dtype=dtype))
        return self.inputs[-1]

    def tensor(self, *sizes, dtype="float32"):
        stored, is_open = [max(size, 1) for size in sizes], -1 in sizes
        more = {"shapeSignature": list(sizes)} if is_open else {}
        return self.graph.add_tensor(f"t{len(self.graph._graph.tensors)}", stored, dtype, **more)

    def constant(self, values, dtype="int32"):
        array = np.asarray(values, dtype)
        return self.graph.add_tensor(f"c{len(self.graph._graph.tensors)}", array.shape, data=array)

    def add(self, operator, inputs, *outputs, options=None, version=1):
        self.graph.add_operator(operator, options, inputs, list(outputs), version)
        return outputs[0]

    def content(self, *outputs):
        self.graph.set_signature(self.inputs, list(outputs))
        return self.file.serialise()


def frames():
    """A batch whose size comes back into the graph by its values: SHAPE, STRIDED_SLICE, PACK, RESHAPE, SPLIT_V."""
    it = Open()
    x = it.input(24)
    shape = it.add("SHAPE", [x], it.tensor(2, dtype="int32"), options=table("ShapeOptions", outType=2))
    ends = [it.constant([number]) for number in (0, 1, 1)]
    only = table("StridedSliceOptions", shrinkAxisMask=1)
    batch = it.add("STRIDED_SLICE", [shape, *ends], it.tensor(dtype="int32"), options=only)
    four, six = it.constant(4), it.constant(6)
    pack = table("PackOptions", valuesCount=3)
    wanted = it.add("PACK", [batch, four, six], it.tensor(3, dtype="int32"), options=pack)
    cube = it.add("RESHAPE", [x, wanted], it.tensor(-1, -1, -1), options=table("ReshapeOptions"))
    left, right = it.tensor(-1, -1, -1), it.tensor(-1, -1, -1)
    parts = [cube, it.constant([2, -1]), it.constant(2)]
    it.add("SPLIT_V", parts, left, right, options=table("SplitVOptions", numSplits=2))
    weights = it.graph.add_tensor("weights", [5, 4], data=np.ones((5, 4), np.float32))
    keep = table("FullyConnectedOptions", keepNumDims=True)
    y = it.add("FULLY_CONNECTED", [right, weights, -1], it.tensor(-1, -1, 5), options=keep, version=5)
    return it.content(left, y)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_size_that_goes_through_values_is_followed(batch):
    content = frames()
    expected, found = of_litert(content, [(batch, 24)]), found_for(content, [(batch, 24)])
    tensors = found.model.graph.tensors
    assert [tensor.shape for tensor in tensors] == [expected[place] for place in range(len(tensors))]
    assert (found.totals.macs, found.totals.macs_unknown, found.memory.unknown) == (batch * 4 * 5 * 4, 0, 0)


def spectrum(it, x):
    folded = it.add("EXPAND_DIMS", [x, it.constant(1)], it.tensor(-1, 1, 8), options=table("ExpandDimsOptions"))
    lengths = it.constant([1, 8])
    bins = it.add("RFFT2D", [folded, lengths], it.tensor(-1, 1, 5, dtype="complex64"), options=table("Rfft2dOptions"))
    return it.add("COMPLEX_ABS", [bins], it.tensor(-1, 1, 5))


def windows(it, x):
    """A slice with every mask: a new axis, the rest of them, and one that is shrunk away."""
    options = table("StridedSliceOptions", newAxisMask=1, ellipsisMask=2, beginMask=4, endMask=4)
    given = [it.constant([0, 0, 9]), it.constant([0, 0, 1]), it.constant([1, 1, -2])]
    return it.add("STRIDED_SLICE", [x, *given], it.tensor(-1, -1, -1), options=options)


def counted(it, x):
    """As many numbers as there are samples in the batch."""
    shape = it.add("SHAPE", [x], it.tensor(2, dtype="int32"), options=table("ShapeOptions", outType=2))
    first = [it.constant([0]), it.constant([1])]
    batch = it.add("SLICE", [shape, *first], it.tensor(1, dtype="int32"), options=table("SliceOptions"))
    squeezed = it.add("SQUEEZE", [batch], it.tensor(dtype="int32"), options=table("SqueezeOptions", squeezeDims=[0]))
    limits = [it.constant(0), squeezed, it.constant(1)]
    return it.add("RANGE", limits, it.tensor(-1, dtype="int32"), options=table("RangeOptions"))


def cast(it, x):
    """A quotient of floats, cut to whole numbers: 8 samples in threes."""
    shape = it.add("SHAPE", [x], it.tensor(2, dtype="int32"), options=table("ShapeOptions", outType=2))
    parts, sizes = [it.tensor(1, dtype="int32"), it.tensor(1, dtype="int32")], it.constant([-1, 1])
    it.add("SPLIT_V", [shape, sizes, it.constant(0)], *parts, options=table("SplitVOptions", numSplits=2))
    real = it.add("CAST", [parts[1]], it.tensor(1), options=table("CastOptions"))
    third = it.add("DIV", [real, it.constant([3.0], "float32")], it.tensor(1), options=table("DivOptions"))
    whole = it.add("CAST", [third], it.tensor(1, dtype="int32"), options=table("CastOptions"))
    limits = [it.constant(0), it.add("SQUEEZE", [whole], it.tensor(dtype="int32")), it.constant(1)]
    return it.add("RANGE", limits, it.tensor(-1, dtype="int32"), options=table("RangeOptions"))


def filled(it, x):
    shape = it.add("SHAPE", [x], it.tensor(2, dtype="int32"), options=table("ShapeOptions", outType=2))
    twice = it.add("MUL", [shape, it.constant(2)], it.tensor(2, dtype="int32"), options=table("MulOptions"))
    value = it.constant(1.5, "float32")
    return it.add("FILL", [twice, value], it.tensor(-1, -1), options=table("FillOptions"))


def tiled(it, x):
    return it.add("TILE", [x, it.constant([2, 3])], it.tensor(-1, 24), options=table("TileOptions"))


def best(it, x):
    values, places = it.tensor(-1, 3), it.tensor(-1, 3, dtype="int32")
    return it.add("TOPK_V2", [x, it.constant(3)], values, places, options=table("TopKV2Options"))


def unpacked(it, x):
    options = table("UnpackOptions", num=8, axis=1)
    return it.add("UNPACK", [x], *[it.tensor(-1) for _ in range(8)], options=options)


def spread(it, x):
    return it.add("BROADCAST_TO", [x, it.constant([2, 6, 8])], it.tensor(2, -1, 8), version=2)


@pytest.mark.parametrize("build", [spectrum, windows, counted, cast, filled, tiled, best, unpacked, spread])
@pytest.mark.parametrize("batch", [1, 6])
def test_sizes_are_those_of_litert(build, batch):
    it = Open()
    content = it.content(build(it, it.input(8)))
    if (build, batch) == (spread, 1):
        batch = 6  # of what is broadcast to six
    expected, found = of_litert(content, [(batch, 8)]), found_for(content, [(batch, 8)])
    tensors = found.model.graph.tensors
    assert [tensor.shape for tensor in tensors] == [expected[place] for place in range(len(tensors))]
    assert (found.totals.macs, found.totals.macs_unknown, found.totals.flops_unknown) == (0, 0, 0)


def test_a_transform_counts_by_its_points():
    it = Open()
    content = it.content(spectrum(it, it.input(8)))
    (transform,) = [c for c in found_for(content, [(6, 8)]).operators if c.operator.op_type == "RFFT2D"]
    assert (transform.macs, transform.flops) == (0, 6 * 2.5 * 8 * 3)


def test_sizes_that_the_file_knows_stand_though_another_is_open():
    """Of an operator without a rule; where a size is changed that the file fixes, nothing of it stands."""
    it = Open()
    y = it.add("CUSTOM:Frobnicate", [it.input(8)], it.tensor(-1, 5))
    content = it.content(y)
    assert found_for(content, [(4, 8)]).model.graph.tensors[y].shape == (None, 5)
    assert found_for(content, [(1, 9)]).model.graph.tensors[y].shape is None
