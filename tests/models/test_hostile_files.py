"""Whatever the bytes: one kind of error, in little time and memory."""

import contextlib
import resource
import struct
import time

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.helper import make_node, make_tensor_value_info

from edgetop.cli.board.inspection_text import inspect_summary
from edgetop.models import definitions
from edgetop.models.document import inspection_document
from edgetop.models.graph import input_names
from edgetop.models.inspection import inspected
from edgetop.models.onnx_file import _ModelReader, read_onnx
from edgetop.models.reading_limits import Budget, MalformedError
from edgetop.models.shapes.folding import FOLDS
from edgetop.models.tflite_file import read_tflite
from tests.support import onnx_models, tflite_models
from tests.support.model_files import light, model_of
from tests.support.waiting import scaled

ONNX = [
    onnx_models.onnx_dynamic(),
    onnx_models.onnx_quantised(),
    onnx_models.onnx_gather(),
    onnx_models.onnx_stateful(),
    light("squeezenet")[:3000],
    model_of(
        [
            make_node("Shape", ["x"], ["s"]),
            make_node("Constant", [], ["c"], value_ints=[0, -1]),
            make_node("Slice", ["s", "c", "c"], ["t"]),
            make_node("ConstantOfShape", ["c"], ["z"]),
            make_node("Reshape", ["x", "c"], ["y"]),
            make_node("Resize", ["y", "", "c"], ["r"]),
        ],
        [make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        ["y"],
    ),
]
TFLITE = [
    tflite_models.tflite_mobile()[-6000:],
    tflite_models.tflite_tiny(),
    tflite_models.tflite_int8(),
    tflite_models.tflite_stateful(),
    tflite_models.tflite_gather(),
    tflite_models.tflite_custom_operator(),
]


@st.composite
def mutated(draw, originals):
    """A file with some bytes changed, cut out or put in, and perhaps the end missing."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 6))):
        where = draw(st.integers(0, max(len(data) - 1, 0)))
        what = draw(st.one_of(st.binary(min_size=1, max_size=4), st.sampled_from(EXTREMES)))
        end = where + draw(st.sampled_from([0, len(what)]))
        data[where:end] = what
    return bytes(data[: draw(st.sampled_from([len(data), len(data), len(data) // 2]))])


EXTREMES = [b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xff" * 9 + b"\x01", b"\0\0\0\0", struct.pack("<I", 2**31 - 1)]


def everything(read, data):
    """All that `inspect` does with a file, for inputs as declared and for others."""
    model = read(memoryview(data))
    for side in (1, 7):
        shapes = {
            name: [
                dim if isinstance(dim, int) and side == 1 else side for dim in model.graph.tensors[place].shape or ()
            ]
            for name, place in zip(input_names(model), model.graph.inputs, strict=True)
        }
        document = inspection_document(inspected(model, shapes))
        head = {"path": "m", "size_bytes": len(data)}
        inspect_summary({**document, "model": head | document["model"] | {"external": []}, "assumptions": []})


def survives(read, data):
    began = time.thread_time()  # not of the clock: the machine may be busy
    with contextlib.suppress(MalformedError):
        everything(read, data)
    assert time.thread_time() - began < scaled(5)


FUZZING = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


@given(mutated(ONNX))
@FUZZING
def test_a_damaged_onnx_file_is_read_or_refused(data):
    survives(read_onnx, data)


@given(mutated(TFLITE))
@FUZZING
def test_a_damaged_tflite_file_is_read_or_refused(data):
    survives(read_tflite, data)


NUMBERS = st.one_of(st.integers(-3, 9), st.sampled_from([2**31, -(2**63), 2**63 - 1]))
ATTRIBUTES = st.one_of(
    NUMBERS,
    st.sampled_from([0.0, 1.5, float("nan"), float("inf")]),
    st.sampled_from(["", "SAME_UPPER", "ij,jk->ik", "linear"]),
    st.lists(NUMBERS, min_size=1, max_size=4),
    st.lists(st.sampled_from([0.5, float("nan")]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
)
ARRAYS = st.sampled_from(
    [np.array(2**40), np.array([0, -1]), np.array([[3]]), np.float32([0, np.nan]), np.zeros((0, 2), np.int64)]
)


@st.composite
def confused(draw):
    """Operators that exist, with inputs and attributes that make no sense."""
    names = ["x", *draw(st.lists(st.sampled_from(["c0", "c1", "x", "y0", ""]), max_size=5))]
    nodes = []
    for number in range(draw(st.integers(1, 3))):
        op_type = draw(st.one_of(st.sampled_from(sorted({*definitions.ONNX, *FOLDS})), st.just("Constant")))
        node = make_node(op_type, draw(st.permutations(names)), [f"y{number}", f"z{number}"][: draw(st.integers(1, 2))])
        known = sorted(onnx.defs.get_schema(op_type).attributes) if onnx.defs.has(op_type) else ["axis", "activation"]
        for name in draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else ():
            node.attribute.append(helper.make_attribute(name, draw(ATTRIBUTES)))
        nodes.append(node)
    shape = draw(st.lists(st.sampled_from([0, 1, 3, 8, 2**40]), max_size=5))
    inputs = [make_tensor_value_info("x", draw(st.sampled_from([TensorProto.FLOAT, TensorProto.INT64])), shape)]
    return model_of(nodes, inputs, ["y0"], {"c0": draw(ARRAYS), "c1": draw(ARRAYS)})


@pytest.mark.thorough
@pytest.mark.slow
@given(confused())
@FUZZING
def test_operators_that_make_no_sense_are_unknown_and_no_more(data):
    survives(read_onnx, data)


@given(st.binary(max_size=200))
@FUZZING
def test_any_bytes_are_read_or_refused(data):
    survives(read_onnx, data)
    survives(read_tflite, data[:4] + b"TFL3" + data[4:])


def memory_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_file_of_operators_alone_is_refused_early():
    before = memory_kib()
    graph = b"\x0a\x00" * 3_000_000
    length = bytearray()
    number = len(graph)
    while number > 0x7F:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    with pytest.raises(MalformedError, match="more operators"):
        read_onnx(memoryview(b"\x08\x08\x3a" + bytes([*length, number]) + graph))
    assert memory_kib() - before < 400_000


def test_operators_tensors_and_uses_cost_more_than_a_field():
    ends = [make_tensor_value_info(f"x{number}", TensorProto.FLOAT, [1]) for number in range(50)]
    content = helper.make_model(helper.make_graph([make_node("Sum", [], ["y"])], "g", ends, [])).SerializeToString()
    assert _ModelReader(Budget(1000)).read(memoryview(content))
    with pytest.raises(MalformedError, match="more parts"):
        _ModelReader(Budget(800)).read(memoryview(content))


@pytest.mark.parametrize("part", [b"\x42\x00", b"\x72\x00", b"\xca\x01\x00"], ids=["opset", "metadata", "function"])
def test_parts_of_the_model_itself_cost_more_than_a_field(part):
    content = memoryview(b"\x3a\x00" + part * 100)
    assert _ModelReader(Budget(1000)).read(content)
    with pytest.raises(MalformedError, match="more parts"):
        _ModelReader(Budget(800)).read(content)


def test_tensors_of_absurd_sizes_take_no_memory():
    nodes = [
        make_node("Expand", ["x", "n"], ["a"]),
        make_node("MatMul", ["a", "a"], ["b"]),
        make_node("Tile", ["b", "n"], ["c"]),
        make_node("Softmax", ["c"], ["y"]),
    ]
    huge = helper.make_tensor("n", TensorProto.INT64, [2], [2**50, 2**50])
    graph = helper.make_graph(nodes, "g", [make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])], [], [huge])
    before = memory_kib()
    everything(read_onnx, helper.make_model(graph).SerializeToString())
    assert memory_kib() - before < 50_000
