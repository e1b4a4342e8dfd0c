"""What is fed for outputs that are kept, and the file that comes of it, read again as `compare` reads it."""

import stat
from typing import Any

import numpy as np
import pytest

from edgetop.engines.child import stored_outputs as child
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.inputs import InputSet, make_inputs
from edgetop.engines.child.stored_outputs import draw, keep_outputs
from edgetop.engines.child.tensor_values import Tensor
from edgetop.errors import InputError
from edgetop.recording.kept_outputs import read_outputs


class Doubling:
    """An adapter of a model that gives twice its input, and a text."""

    def __init__(self, tensor: Tensor, scale: float = 0.0) -> None:
        self.inputs, self._scale = [tensor], scale
        self.bound: list[Any] = []

    def bind(self, feeds: Any) -> Any:
        self.bound.append(feeds["x"])
        return lambda: feeds["x"] * 2

    def outputs(self, done: Any) -> Any:
        return [("y", done, self._scale, 0), ("words", np.array(["a"]), 0.0, 0)]


def keep(
    tmp_path: Any, adapter: Doubling, count: int, source: str = "random", is_over: Any = lambda: False
) -> list[Any]:
    """What it said."""
    shapes = {"x": [1 if dim is None else int(dim) for dim in adapter.inputs[0].shape]}
    spec = {"keep_outputs": count, "outputs_file": str(tmp_path / "outputs.npz"), "seed": 7, "inputs": {"x": source}}
    inputs: InputSet = make_inputs(adapter.inputs, shapes, spec["inputs"], 7)  # type: ignore[arg-type]
    said: list[Any] = []
    keep_outputs(spec, adapter, inputs, shapes, lambda _, message: said.append(message["kind"]), is_over)
    assert adapter.bound[-1] is inputs.first()["x"]
    return said


def test_the_file_has_what_was_given_and_nobody_else_reads_it(tmp_path: Any) -> None:
    adapter = Doubling(Tensor("x", [1, 3], "int8", quantisation=(0.01, -20)), scale=0.5)
    assert keep(tmp_path, adapter, 4) == ["outputs-kept"]
    found = read_outputs(tmp_path)
    assert found
    assert [one.name for one in found.outputs] == ["y"]
    assert len(set(found.inputs)) == 4
    assert np.array_equal(found.numbers(2, 0), adapter.bound[2].astype(float) * 2 * 0.5)
    assert stat.S_IMODE((tmp_path / "outputs.npz").stat().st_mode) == 0o600
    assert "x [1,3] int8 random; seed 7" in found.fed


class Overflowing(Doubling):
    """Its output overflows in a float16."""

    def outputs(self, done: Any) -> Any:
        return [("fine", done, 0.0, 0), ("y", (done * np.float32(1e6)).astype(np.float16), 0.0, 0)]


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_outputs_that_are_not_finite_are_counted_and_said(tmp_path: Any) -> None:
    adapter = Overflowing(Tensor("x", [1, 4], "float32"))
    said: list[Any] = []
    spec = {"keep_outputs": 3, "outputs_file": str(tmp_path / "outputs.npz"), "seed": 7, "inputs": {}}
    inputs = make_inputs(adapter.inputs, {"x": [1, 4]}, {}, 7)
    keep_outputs(spec, adapter, inputs, {"x": [1, 4]}, lambda _, message: said.append(message), lambda: False)
    warning, kept = said
    assert (warning["kind"], warning["severity"]) == ("non-finite-outputs", "warning")
    bad = sum(int((array >= 65520 / 2e6).sum()) for array in adapter.bound[:3])
    share = f"{100 * bad / 12:.2g} % of the numbers" if bad < 12 else "all numbers"
    assert warning["message"] == f"{share} in output y are NaN or infinite"
    assert kept["data"] == {"elements": 24, "non_finite": bad}


def test_the_first_draw_is_what_the_run_is_fed(tmp_path: Any) -> None:
    adapter = Doubling(Tensor("x", [1, 8], "float32"))
    keep(tmp_path, adapter, 2)
    assert np.array_equal(adapter.bound[0], adapter.bound[-1])


@pytest.mark.parametrize(
    ("dtype", "shape", "quantisation"),
    [("float32", [1, 5, 6, 3], (0.0, 0)), ("float16", [1, 3, 5, 6], (0.0, 0)), ("uint8", [1, 5, 6, 3], (1 / 255, 0))],
)
def test_a_draw_is_the_same_image_in_any_layout_and_dtype(dtype: str, shape: list[int], quantisation: Any) -> None:
    plain, numbers = draw(np.random.RandomState(3), Tensor("x", [1, 3, 5, 6], "float64"), [1, 3, 5, 6])
    array, same = draw(np.random.RandomState(3), Tensor("x", shape, dtype, quantisation=quantisation), shape)
    assert np.array_equal(numbers, same)
    assert list(array.shape) == shape
    first = array.transpose(0, 3, 1, 2) if shape[-1] == 3 else array
    assert np.abs(first * (quantisation[0] or 1.0) - plain).max() < 0.003


def test_files_are_given_once_each_in_both_layouts(tmp_path: Any) -> None:
    images = np.random.default_rng(0).random((3, 1, 3, 5, 5)).astype(np.float32)
    for layout, axes in (("first", (0, 1, 2, 3)), ("last", (0, 2, 3, 1))):
        (tmp_path / layout).mkdir()
        for number, image in enumerate(images):
            np.save(tmp_path / layout / f"{number}.npy", np.ascontiguousarray(image.transpose(axes)))
    hashes = []
    for layout, shape in (("first", [1, 3, 5, 5]), ("last", [1, 5, 5, 3])):
        keep(tmp_path, Doubling(Tensor("x", shape, "float32")), 9, str(tmp_path / layout))
        found = read_outputs(tmp_path)
        assert found
        hashes.append(found.inputs)
    assert len(hashes[0]) == 3
    assert hashes[0] == hashes[1]


def test_too_large_outputs_are_refused_with_a_number_that_fits(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(child, "MAX_BYTES", 1000)
    with pytest.raises(EngineError) as caught:
        keep(tmp_path, Doubling(Tensor("x", [1, 10], "float32")), 100)
    assert caught.value.advice == "keep fewer: --keep-outputs 25"
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_kept_is_said_and_leaves_nothing(tmp_path: Any) -> None:
    adapter = Doubling(Tensor("x", [1, 3], "float32"))
    assert keep(tmp_path / "none", adapter, 2) == ["outputs-not-kept"]
    assert keep(tmp_path, adapter, 2, is_over=lambda: True) == ["outputs-not-kept"]
    assert read_outputs(tmp_path) is None


def test_a_file_of_something_else_is_refused_in_a_line(tmp_path: Any) -> None:
    for content in (b"", b"PK", b"\x93NUMPY\x01\x00v\x00{"):
        (tmp_path / "outputs.npz").write_bytes(content)
        with pytest.raises(InputError, match="no outputs that a run kept"):
            read_outputs(tmp_path)
    np.savez(tmp_path / "outputs.npz", about=np.array('{"outputs": [{"name": 1}]}'), inputs=np.array(["a"]))
    with pytest.raises(InputError, match="no outputs that a run kept"):
        read_outputs(tmp_path)
