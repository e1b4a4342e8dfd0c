"""`.pb` tensors and folders of test data, inputs of types that NumPy lacks, and texts of a length."""

import contextlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.inputs import make_inputs, set_images
from edgetop.engines.child.small_types import SMALL_TYPES, from_bits, packed, to_bits, unpacked
from edgetop.engines.child.tensor_files import read_tensor
from edgetop.engines.child.tensor_values import TEXT, Tensor
from edgetop.engines.engine_protocol import Ended, Failed, Loaded
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from edgetop.engines.thread import OutputCapture, ThreadEngine
from edgetop.recording.kept_outputs import outputs_file, read_outputs
from tests.support.engine_runs import run_whole

PLAIN = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
         "bool", "complex64", "complex128")  # fmt: skip


@pytest.mark.parametrize("dtype", PLAIN)
@pytest.mark.parametrize("raw", [True, False])
def test_a_tensor_of_each_type_is_read(tmp_path: Path, dtype: str, raw: bool) -> None:
    array = (np.array([[0, 1, 3], [5, 7, 100]]) * (-1 if dtype[0] in "if" else 1)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = array.tobytes() if raw else array.view("uint16").ravel() if dtype == "float16" else array.ravel()
    if dtype == "float16" and not raw:
        tensor = TensorProto(dims=array.shape, data_type=kind, int32_data=values.tolist(), name="x")
    else:
        tensor = helper.make_tensor("x", kind, array.shape, values, raw=raw)
    (tmp_path / "x.pb").write_bytes(tensor.SerializeToString())
    read = read_tensor(str(tmp_path / "x.pb"))
    assert (read.name, read.array.dtype, read.array.tolist()) == ("x", np.dtype(dtype), array.tolist())


@pytest.mark.parametrize("kind", SMALL_TYPES.values(), ids=list(SMALL_TYPES))
def test_small_types_are_those_of_ml_dtypes(tmp_path: Path, kind: Any) -> None:
    dtype = np.dtype(getattr(ml_dtypes, kind.name))
    if kind.is_integer:
        array = np.arange(kind.least, kind.least + 15, dtype=np.int8).reshape(3, 5)
        assert from_bits(kind, to_bits(kind, array)).tolist() == array.tolist()
        assert unpacked(packed(to_bits(kind, array)).reshape(-1)[:8], 15).tolist() == (array.ravel() & 15).tolist()
        with pytest.raises(ValueError, match="is not from"):
            to_bits(kind, np.array([kind.least + 16]))
    else:
        bits = np.arange(2**kind.bits).astype(kind.storage)
        np.testing.assert_array_equal(from_bits(kind, bits), bits.view(dtype).astype(np.float32))
        array = np.random.default_rng(0).normal(0, 3, (5, 7)).astype(np.float32)
        expected = array.astype(dtype).astype(np.float32)
        np.testing.assert_array_equal(from_bits(kind, to_bits(kind, array)), expected)
        assert from_bits(kind, to_bits(kind, np.float32(1))) == 1
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(array.astype(dtype), "x").SerializeToString())
    read = read_tensor(str(tmp_path / "x.pb"))
    assert read.small == kind
    assert from_bits(kind, read.array).tolist() == array.astype(dtype).astype(np.float32).tolist()


@pytest.mark.parametrize("name", SMALL_TYPES)
@pytest.mark.parametrize("source", ["random", "1", "x.npy", "x.npz", "x.pb"])
def test_onnx_runtime_is_fed_a_small_type(tmp_path: Path, name: str, source: str) -> None:
    kind = SMALL_TYPES[name]
    node = (
        helper.make_node("DequantizeLinear", ["x", "s"], ["y"])
        if kind.is_integer
        else helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    )
    x = helper.make_tensor_value_info("x", kind.onnx_type, [3, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 3])
    scale = helper.make_tensor("s", TensorProto.FLOAT, [], [1.0])
    graph = helper.make_graph([node], "g", [x], [y], [scale] if kind.is_integer else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    array = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 1]], getattr(ml_dtypes, kind.name))
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", other=array[:1], x=array)
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(array, "x").SerializeToString())
    given_source = str(tmp_path / source) if source.startswith("x.") else source
    kept = tmp_path / outputs_file("a")
    spec = EngineSpec(str(tmp_path / "m.onnx"), "onnx", warmup_runs=1, runs=3, inputs={"x": given_source},
                      keep_outputs=1, outputs_file=str(kept))  # fmt: skip
    with OutputCapture() as capture:  # in a thread, which runs the code of an engine's process without starting one
        told = run_whole(ThreadEngine(spec, capture))
    assert told.one(Ended).reason == "runs", told.messages
    assert told.one(Loaded).inputs[0].dtype == kind.name
    outputs = read_outputs(tmp_path, "a")
    assert outputs
    numbers = np.asarray(outputs.numbers(0, 0)).reshape(3, 3)
    expected = {"1": np.ones((3, 3))}.get(source, array.astype(np.float32))
    if source != "random":
        assert numbers.tolist() == expected.tolist()
    else:
        assert len(set(numbers.ravel().tolist())) > 3


def zoo(folder: Path, *sets: dict[str, np.ndarray]) -> Path:
    for number, arrays in enumerate(sets):
        inside = folder / f"test_data_set_{number}"
        inside.mkdir(parents=True)
        for place, (name, array) in enumerate(arrays.items()):
            (inside / f"input_{place}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
        (inside / "output_0.pb").write_bytes(b"not looked at")
    return folder


def fed(tensors: list[Tensor], source: str, times: int = 1) -> list[dict[str, Any]]:
    set_images(tensors, {})
    shapes = {one.name: [2] for one in tensors}
    inputs = make_inputs(tensors, shapes, {"": source}, 0)
    return [{name: array.tolist() for name, array in inputs.next().items()} for _ in range(times)]


def of(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_a_folder_of_the_model_zoo_feeds_each_input_and_cycles(tmp_path: Path) -> None:
    both = [Tensor("a", [2], np.float32), Tensor("b", [2], np.float32)]
    folder = zoo(tmp_path / "zoo", {"": of(1, 2), "x": of(3, 4)}, {"b": of(5, 6), "a": of(7, 8)})
    first, second = {"a": [1, 2], "b": [3, 4]}, {"a": [7, 8], "b": [5, 6]}  # by number, and by name
    assert fed(both, str(folder), 3) == [first, second, first]
    assert fed(both, str(folder / "test_data_set_1")) == [second]


def test_an_input_without_its_file_is_named(tmp_path: Path) -> None:
    folder = zoo(tmp_path / "zoo", {"a": of(1, 2)})
    with pytest.raises(EngineError, match=r"no input_1.pb, which the input b would have"):
        fed([Tensor("a", [2], np.float32), Tensor("b", [2], np.float32)], str(folder))


BFLOAT16 = numpy_helper.from_array(np.array([1, 2], ml_dtypes.bfloat16))
GOOD = numpy_helper.from_array(of(1, 2), "x").SerializeToString()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty, too large"),
        (GOOD[:-3], "beyond the end"),
        (b"\xff" * 40, "not a tensor of ONNX"),
        (TensorProto(dims=[2**40], data_type=1, raw_data=b"1234").SerializeToString(), "a size of"),
        (TensorProto(dims=[2**30] * 5, data_type=1).SerializeToString(), "0 values"),
        (TensorProto(dims=[1] * 40, data_type=1).SerializeToString(), "more than 32"),
        (TensorProto(dims=[2], data_type=99).SerializeToString(), "elements of type 99"),
        (TensorProto(dims=[-1], data_type=1).SerializeToString(), "a size of"),
        (TensorProto(dims=[3], data_type=1, raw_data=b"1234").SerializeToString(), "4 bytes for 3"),
        (TensorProto(dims=[3], data_type=8, string_data=[b"\xff", b"", b""]).SerializeToString(), "decode"),
        (
            numpy_helper.from_array(np.array([1, 2], ml_dtypes.bfloat16)).SerializeToString(),
            "dtype bfloat16, but input x",
        ),
    ],
)
def test_a_hostile_file_gets_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.pb").write_bytes(content)
    with pytest.raises(EngineError, match=words) as error:
        fed([Tensor("x", [2], np.float32)], str(tmp_path / "x.pb"))
    assert error.value.stage == "input"
    assert len(error.value.message) < 600
    assert "\n" not in error.value.message


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, len(GOOD)))
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, end: int
) -> None:
    """No other exception leaves the reader."""
    path = tmp_path_factory.getbasetemp() / "damaged.pb"
    path.write_bytes((GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])[:end])
    with contextlib.suppress(EngineError):
        read_tensor(str(path))


def test_texts_have_the_length_that_was_asked_for() -> None:
    set_images([words := Tensor("words", [2], TEXT)], {})
    (array,) = make_inputs([words], {"words": [2]}, {"words": "text:40"}, 0).first().values()
    assert [type(one) is str and len(one) for one in array] == [40, 40]
    assert array[0] != array[1]
    with pytest.raises(EngineError, match="more than the"):
        make_inputs([words], {"words": [2]}, {"words": "text:40"}, 0, max_cached_bytes=79)
    with pytest.raises(EngineError, match="the input holds float32"):
        make_inputs([Tensor("x", [2], np.float32)], {"x": [2]}, {"x": "text:40"}, 0)


def test_a_pb_file_of_texts_is_read(tmp_path: Path) -> None:
    tensor = helper.make_tensor("words", TensorProto.STRING, [2], [b"one", "zwölf".encode()])
    (tmp_path / "x.pb").write_bytes(tensor.SerializeToString())
    assert fed([Tensor("words", [2], TEXT)], str(tmp_path / "x.pb")) == [{"words": ["one", "zwölf"]}]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    spec = EngineSpec("edgetop/demo/demo.onnx", "onnx", runs=1, inputs={"": str(tmp_path / "no.pb")})
    assert "no.pb" in run_whole(ProcessEngine(spec)).one(Failed).message
