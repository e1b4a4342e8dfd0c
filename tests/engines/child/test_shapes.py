"""The shape each input runs with: what was asked, what a file has, what is assumed, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.inputs import resolve_shapes
from edgetop.engines.child.tensor_values import Tensor

IMAGE = Tensor("image", ["N", 3, "H", "W"], "float32")
TOKENS = Tensor("tokens", [None, -1], "int64")
FIXED = Tensor("fixed", [1, 8], "float32")
SCALAR = Tensor("scalar", [], "float32")
STATE = Tensor("state", [2, "N", 128], "float32")


def resolve(
    *tensors: Tensor,
    asked: dict[str, list[int]] | None = None,
    batch: int | None = None,
    sources: dict[str, str] | None = None,
) -> tuple[dict[str, list[int]], list[str]]:
    return resolve_shapes(tensors, asked or {}, batch, sources or {})


def saved(path: Path, *shape: int) -> str:
    np.save(path, np.zeros(shape, np.float32))
    return str(path)


def test_a_fixed_shape_needs_no_assumption() -> None:
    assert resolve(FIXED, SCALAR) == ({"fixed": [1, 8], "scalar": []}, [])


def test_free_dimensions_get_a_stated_default() -> None:
    shapes, assumptions = resolve(IMAGE, TOKENS)
    assert shapes == {"image": [1, 3, 224, 224], "tokens": [1, 128]}
    assert assumptions == [
        "input image is [N,3,H,W]: it runs as [1,3,224,224]",
        "input tokens is [?,?]: it runs as [1,128]",
    ]


def test_a_shape_that_was_given_is_no_assumption() -> None:
    assert resolve(IMAGE, asked={"image": [2, 3, 8, 16]}) == ({"image": [2, 3, 8, 16]}, [])


def test_the_batch_fills_the_first_dimension() -> None:
    shapes, (assumption,) = resolve(IMAGE, SCALAR, batch=4)
    assert shapes == {"image": [4, 3, 224, 224], "scalar": []}
    assert "[4,3,224,224]" in assumption


def test_a_file_fills_free_dimensions(tmp_path: Path) -> None:
    source = saved(tmp_path / "image.npy", 2, 3, 8, 16)
    assert resolve(IMAGE, sources={"image": source}) == ({"image": [2, 3, 8, 16]}, [])


def test_a_shape_wins_over_the_batch_and_the_batch_over_the_file(tmp_path: Path) -> None:
    sources = {"": saved(tmp_path / "image.npy", 2, 3, 8, 16)}
    assert resolve(IMAGE, batch=4, sources=sources)[0] == {"image": [4, 3, 8, 16]}
    assert resolve(IMAGE, asked={"image": [1, 3, 5, 5]}, batch=4, sources=sources)[0] == {"image": [1, 3, 5, 5]}


def test_a_resizable_model_may_change_fixed_dimensions() -> None:
    resizable = Tensor("x", [1, 8], "float32", resizable=True)
    assert resolve(resizable, batch=4) == ({"x": [4, 8]}, [])
    assert resolve(resizable, asked={"x": [2, 9]}) == ({"x": [2, 9]}, [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"asked": {"image": [1, 4, 8, 8]}}, ["--shape image:1,4,8,8", "[N,3,H,W]"]),
        ({"asked": {"image": [1, 3, 8]}}, ["--shape image:1,3,8", "[N,3,H,W]"]),
        ({"asked": {"picture": [1]}}, ["--shape picture", "image, fixed"]),
    ],
    ids=["a fixed dimension", "rank", "name"],
)
def test_a_shape_the_model_cannot_have_is_refused(options: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(EngineError) as raised:
        resolve(IMAGE, FIXED, **options)
    assert raised.value.stage == "input"
    assert "\n" not in raised.value.message
    assert all(words in raised.value.message for words in said), raised.value.message


def test_a_batch_that_no_input_can_have_is_refused() -> None:
    with pytest.raises(EngineError, match="--batch 4: input fixed has the fixed first dimension 1"):
        resolve(FIXED, SCALAR, batch=4)


def test_fixed_first_dimensions_stay_when_another_takes_a_batch() -> None:
    assert resolve(TOKENS, FIXED, batch=4)[0] == {"tokens": [4, 128], "fixed": [1, 8]}


def test_a_named_dimension_is_the_same_size_in_every_input(tmp_path: Path) -> None:
    rest = {"image": [4, 3, 224, 224], "state": [2, 4, 128]}
    assert resolve(STATE, IMAGE, asked={"image": [4, 3, 224, 224]}) == (rest, [])
    assert resolve(STATE, IMAGE, batch=4, asked={"state": [2, 4, 128]})[0] == rest
    source = saved(tmp_path / "image.npy", 4, 3, 224, 224)
    assert resolve(STATE, IMAGE, sources={"image": source}) == (rest, [])


def test_a_batch_reaches_a_state_through_the_name_they_share() -> None:
    assert resolve(IMAGE, STATE, batch=4)[0]["state"] == [2, 4, 128]


def test_a_declared_size_of_zero_is_an_unknown_size() -> None:
    placeholder = Tensor("x", [0, 3, 8, 8], "float32")
    assert resolve(placeholder) == (
        {"x": [1, 3, 8, 8]},
        ["input x is [0,3,8,8], where 0 stands for an unknown size: it runs as [1,3,8,8]"],
    )
    assert resolve(placeholder, batch=4) == ({"x": [4, 3, 8, 8]}, [])


def test_an_input_without_elements_is_one_that_somebody_asked_for(tmp_path: Path) -> None:
    past = Tensor("past", [1, 2, "length", 8], "float32")
    without = ({"past": [1, 2, 0, 8]}, ["input past has no element: it runs as [1,2,0,8]"])
    assert resolve(past, asked={"past": [1, 2, 0, 8]}) == without
    assert resolve(past, sources={"past": saved(tmp_path / "past.npy", 1, 2, 0, 8)}) == without


def test_a_named_dimension_is_assumed_alike_in_every_input() -> None:
    shapes, assumptions = resolve(IMAGE, Tensor("mask", ["H", "W"], "float32"))
    assert shapes["mask"] == [224, 224]
    assert len(assumptions) == 1


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 9), st.none(), st.just("N")), max_size=5), st.one_of(st.none(), st.integers(1, 9))
)
def test_a_resolved_shape_has_numbers_and_keeps_fixed_ones(declared: list[int | str | None], batch: int | None) -> None:
    tensor = Tensor("x", declared, "float32", resizable=True)
    shapes, assumptions = resolve(tensor, batch=batch)
    shape = shapes["x"]
    assert len(shape) == len(declared)
    assert all(isinstance(size, int) and size > 0 for size in shape)
    kept = slice(1, None) if batch else slice(None)
    fixed = [(size, dim) for size, dim in zip(shape[kept], declared[kept], strict=True) if isinstance(dim, int) and dim]
    assert all(size == dim for size, dim in fixed)
    assert len({size for size, dim in zip(shape, declared, strict=True) if dim == "N"}) <= 1
    free = [dim for dim in declared[kept] if dim in (None, 0, "N") and not (batch and dim == declared[0] == "N")]
    assert bool(assumptions) == bool(free)
