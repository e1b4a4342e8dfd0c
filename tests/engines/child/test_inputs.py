"""What a model is fed: arrays made by dtype or read from files, and errors in the user's words."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.inputs import make_inputs, resolve_shapes
from edgetop.engines.child.literals import input_words, is_literal
from edgetop.engines.child.tensor_values import Tensor, random_array

FLOATS = ["float16", "float32", "float64"]
EIGHT_BITS = ["int8", "uint8"]
WIDER = ["int16", "int32", "int64", "uint16", "uint32", "uint64"]

IMAGE = Tensor("image", ["N", 3, "H", "W"], "float32")
FIXED = Tensor("fixed", [1, 8], "float32")
SCALAR = Tensor("scalar", [], "float32")


def feeds(tensor: Tensor, source: str, shape: list[int] | None = None, steps: int = 1) -> list[Any]:
    """The arrays of the first inferences."""
    inputs = make_inputs([tensor], {tensor.name: shape or tensor.shape}, {"": source}, seed=0)
    return [inputs.next()[tensor.name] for _ in range(steps)]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(EngineError) as raised:
        call()
    assert raised.value.stage == "input"
    assert "\n" not in raised.value.message
    return raised.value.message


def save(path: Path, array: object) -> str:
    np.save(path, array)
    return str(path)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(FLOATS), st.integers(0, 2**32 - 1))
def test_random_floats_are_from_0_up_to_but_not_1(dtype: str, seed: int) -> None:
    array = random_array(np.random.RandomState(seed), [4, 2000], dtype)
    assert array.dtype == dtype
    assert array.min() >= 0
    assert array.max() < 1
    assert 0.4 < array.mean(dtype=np.float64) < 0.6


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_random_bytes_have_their_whole_range(dtype: str) -> None:
    array = random_array(np.random.RandomState(0), [100, 100], dtype)
    assert array.dtype == dtype
    assert (array.min(), array.max()) == (np.iinfo(dtype).min, np.iinfo(dtype).max)


@pytest.mark.parametrize("dtype", WIDER)
def test_random_integers_are_from_0_to_99(dtype: str) -> None:
    """So that they can be the index of a word or a class."""
    array = random_array(np.random.RandomState(0), [100, 100], dtype)
    assert array.dtype == dtype
    assert (array.min(), array.max()) == (0, 99)


def test_random_truth_values_are_both() -> None:
    array = random_array(np.random.RandomState(0), [100], "bool")
    assert array.dtype == np.bool_
    assert set(array.tolist()) == {False, True}


def test_random_complex_numbers_have_both_parts() -> None:
    array = random_array(np.random.RandomState(0), [100], "complex64")
    assert array.dtype == np.complex64
    assert array.real.std() > 0
    assert array.imag.std() > 0


@pytest.mark.parametrize("dtype", [*FLOATS, *EIGHT_BITS, *WIDER, "bool"])
@pytest.mark.parametrize("source", ["random", "zeros"])
def test_a_scalar_is_an_array_without_dimensions(dtype: str, source: str) -> None:
    (array,) = feeds(Tensor("x", [], dtype), source)
    assert isinstance(array, np.ndarray)
    assert (array.shape, array.dtype) == ((), np.dtype(dtype))


def test_the_seed_alone_decides_what_is_random() -> None:
    def fed(seed: int) -> list[Any]:
        shapes = {"image": [1, 3, 4, 4], "fixed": [1, 8]}
        return list(make_inputs([IMAGE, FIXED], shapes, {}, seed).next().values())

    assert all(np.array_equal(one, same) for one, same in zip(fed(7), fed(7), strict=True))
    assert not np.array_equal(fed(7)[0], fed(8)[0])


def test_several_random_arrays_are_fed_in_turn() -> None:
    arrays = feeds(FIXED, "random:3", steps=7)
    for place, array in enumerate(arrays):
        assert np.array_equal(array, arrays[place % 3])
    assert len({array.tobytes() for array in arrays}) == 3
    assert np.array_equal(arrays[0], feeds(FIXED, "random")[0])  # the first is that of a run with one


def test_more_random_arrays_than_memory_is_kept_for_are_refused() -> None:
    def make() -> None:
        make_inputs([FIXED], {"fixed": [1, 8]}, {"": "random:4"}, seed=0, max_cached_bytes=100)

    assert refusal(make) == "input fixed: 4 random arrays need 128 bytes, and at most 100 are kept in memory"


def test_zeros_are_zeros() -> None:
    (array,) = feeds(FIXED, "zeros")
    assert not array.any()


@pytest.mark.parametrize(
    ("dtype", "shape", "source", "expected"),
    [
        ("int64", [], "16000", 16000),
        ("float32", [3], "0.667,1,.8", [np.float32(0.667), 1, np.float32(0.8)]),
        ("float32", [1, 3], " 1 , -2.5e-1,+3", [[1, -0.25, 3]]),
        ("int8", [2, 2], "-7", [[-7, -7], [-7, -7]]),
        ("bool", [2], "true,false", [True, False]),
        ("bool", [1], "1", [True]),
        ("float16", [1], "2", [2.0]),
    ],
)
def test_numbers_are_fed_as_they_were_written(dtype: str, shape: list[int], source: str, expected: Any) -> None:
    (array,) = feeds(Tensor("x", shape, dtype), source, shape)
    assert (array.tolist(), array.dtype, list(array.shape)) == (np.array(expected, dtype).tolist(), dtype, shape)


@pytest.mark.parametrize(
    ("dtype", "source", "words"),
    [
        ("int64", "0.5,1", "0.5 is no int64"), ("int8", "300,1", "300 is no int8"), ("uint8", "-1,1", "-1 is no uint8"),
        ("float32", "true,1", "True is no float32"), ("bool", "2,0", "2 is no bool"),
        ("float16", "1e6,1", "1000000.0 is no float16"), ("float32", "1,2,3", "3 numbers, but [2] takes 2"),
    ],
)  # fmt: skip
def test_numbers_that_the_input_cannot_hold_are_refused(dtype: str, source: str, words: str) -> None:
    assert words in refusal(lambda: feeds(Tensor("x", [2], dtype), source))


def test_numbers_fill_an_unknown_dimension() -> None:
    tokens, state = Tensor("tokens", ["N", "T"], "int64"), Tensor("state", [2, "T"], "float32")
    assert resolve_shapes([tokens, state], {}, None, {"tokens": "1,2,3", "state": "0"})[0] == {
        "tokens": [1, 3], "state": [2, 3]
    }  # fmt: skip


def test_what_is_no_number_is_a_file_and_words_name_the_input() -> None:
    assert [is_literal(one) for one in ("1.npy", "./1", "1,", "random", "1e5", "-.5", "nan", "1 2", "")] == [
        False, False, False, False, True, True, False, False, False
    ]  # fmt: skip
    assert input_words({"sr": "16000", "x": "a.npy"}, ["x", "sr", "y"]) == "a.npy, random, sr=16000"
    assert input_words({}) == ""


def test_an_input_of_its_own_source_wins_over_that_for_all(tmp_path: Path) -> None:
    source = save(tmp_path / "ones.npy", np.ones((1, 8), np.float32))
    other = Tensor("other", [1, 8], "float32")
    fed = make_inputs([FIXED, other], {"fixed": [1, 8], "other": [1, 8]}, {"": "zeros", "other": source}, 0).next()
    assert (fed["fixed"].sum(), fed["other"].sum()) == (0, 8)


def test_a_file_is_fed_as_it_is(tmp_path: Path) -> None:
    array = np.arange(8, dtype=np.float32).reshape(1, 8)
    (fed,) = feeds(FIXED, save(tmp_path / "x.npy", array))
    assert np.array_equal(fed, array)


def test_a_scalar_from_a_file_stays_one(tmp_path: Path) -> None:
    (fed,) = feeds(SCALAR, save(tmp_path / "x.npy", np.array(3, np.float32)))
    assert (fed.shape, fed) == ((), 3)


def test_a_transposed_array_is_laid_out_as_runtimes_want_it(tmp_path: Path) -> None:
    array = np.arange(8, dtype=np.float32).reshape(4, 2).T
    (fed,) = feeds(Tensor("x", [2, 4], "float32"), save(tmp_path / "x.npy", array))
    assert fed.flags.c_contiguous
    assert np.array_equal(fed, array)


def test_an_archive_gives_the_array_of_the_inputs_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", other=np.zeros((1, 8), np.float32), fixed=np.ones((1, 8), np.float32))
    (fed,) = feeds(FIXED, str(tmp_path / "all.npz"))
    assert fed.sum() == 8


def test_an_archive_of_one_array_may_call_it_what_it_likes(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", whatever=np.ones((1, 8), np.float32))
    (fed,) = feeds(FIXED, str(tmp_path / "one.npz"))
    assert fed.sum() == 8


def numbered_files(folder: Path, count: int, elements: int = 8) -> str:
    for number in range(count):
        save(folder / f"{number:03}.npy", np.full((1, elements), number, np.float32))
    return str(folder)


def test_a_folder_is_cycled_through_in_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("not an array")
    fed = feeds(FIXED, numbered_files(tmp_path, 3), steps=7)
    assert [array[0, 0] for array in fed] == [0, 1, 2, 0, 1, 2, 0]


def test_the_first_feeds_are_those_the_cycle_begins_with(tmp_path: Path) -> None:
    inputs = make_inputs([FIXED], {"fixed": [1, 8]}, {"": numbered_files(tmp_path, 3)}, seed=0)
    assert inputs.length == 3
    assert [inputs.first()["fixed"][0, 0], inputs.next()["fixed"][0, 0], inputs.next()["fixed"][0, 0]] == [0, 0, 1]


def test_a_folder_too_large_to_keep_is_read_again_and_again(tmp_path: Path) -> None:
    """Ten files of 1 MB, of which two could be kept: they are never in memory together."""
    tensor = Tensor("x", [1, 250_000], "float32")
    source = numbered_files(tmp_path, 10, elements=250_000)
    tracemalloc.start()
    try:
        inputs = make_inputs([tensor], {"x": [1, 250_000]}, {"": source}, 0, max_cached_bytes=2_000_000)
        fed = [inputs.next()["x"][0, 0] for _ in range(12)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert fed == [*range(10), 0, 1]
    assert peak < 5_000_000


def broken_archive(path: Path) -> str:
    np.savez(path, fixed=np.ones((1, 8), np.float32))
    data = bytearray(path.read_bytes())
    data[data.index(b"NUMPY") + 100] ^= 0xFF
    path.write_bytes(data)
    return str(path)


def archive_of_objects(path: Path) -> str:
    np.savez(path, fixed=np.array([{"a": 1}], object))
    return str(path)


def archive_without_it(path: Path) -> str:
    np.savez(path, one=np.zeros(1), two=np.zeros(1))
    return str(path)


def empty_archive(path: Path) -> str:
    np.savez(path)
    return str(path)


def text(path: Path) -> str:
    path.write_text("1.0, 2.0\n3.0, 4.0\n")
    return str(path)


def cut_short(path: Path) -> str:
    save(path, np.zeros((1, 8), np.float32))
    path.write_bytes(path.read_bytes()[:-5])
    return str(path)


def empty_file(path: Path) -> str:
    path.write_bytes(b"")
    return str(path)


def folder_without_arrays(path: Path) -> str:
    path.mkdir()
    return str(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (broken_archive, "not an array file"),
        (archive_of_objects, "not an array file"),
        (archive_without_it, "no array named fixed; it has one, two"),
        (empty_archive, "no array named fixed; it has none"),
        (text, "not an array file"),
        (cut_short, "not an array file"),
        (empty_file, "not an array file"),
        (folder_without_arrays, "no .npy, .npz, .pb, .jpg or .png"),
        (str, "no such file"),
        (lambda path: save(path, np.zeros((1, 8), object)), "not an array file"),
        (lambda path: save(path, np.zeros((1, 9), np.float32)), "shape [1,9], but input fixed wants [1,8]"),
        (lambda path: save(path, np.zeros((1, 8), np.int64)), "dtype int64, but input fixed wants float32"),
    ],
    ids=["broken archive", "objects in an archive", "archive without it", "empty archive", "text", "cut short", "empty",
         "empty folder", "missing", "objects", "shape", "dtype"],
)  # fmt: skip
def test_a_file_that_cannot_be_fed_is_named(make: Callable[[Path], str], said: str, tmp_path: Path) -> None:
    source = make(tmp_path / "given.npz" if "archive" in getattr(make, "__name__", "") else tmp_path / "given.npy")
    message = refusal(lambda: feeds(FIXED, source))
    assert source in message
    assert said in message


def test_every_file_of_a_folder_is_looked_at_before_the_run(tmp_path: Path) -> None:
    source = numbered_files(tmp_path, 3)
    save(tmp_path / "009.npy", np.zeros((1, 9), np.float32))
    assert "009.npy" in refusal(lambda: feeds(FIXED, source))


def test_a_source_for_an_input_the_model_lacks_is_refused() -> None:
    message = refusal(lambda: make_inputs([FIXED, SCALAR], {"fixed": [1, 8], "scalar": []}, {"picture": "zeros"}, 0))
    assert message == "--input picture: the model has no such input; it has fixed, scalar"


def test_a_folder_may_have_arrays_of_several_shapes_where_the_model_leaves_them_open(tmp_path: Path) -> None:
    for name, side in (("a", 8), ("b", 4), ("c", 8)):
        save(tmp_path / f"{name}.npy", np.zeros((1, 3, side, side), np.float32))
    inputs = make_inputs([IMAGE], {"image": [1, 3, 8, 8]}, {"": str(tmp_path)}, 0, varying=["image"])
    assert [inputs.next()["image"].shape[2] for _ in range(4)] == [8, 4, 8, 8]
    assert inputs.elements() == [192, 48, 192]
    message = refusal(lambda: make_inputs([IMAGE], {"image": [1, 3, 8, 8]}, {"": str(tmp_path)}, 0))
    assert "b.npy: shape [1,3,4,4], but input image wants [1,3,8,8]" in message


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (3, 8, 8)], ids=["fixed dimension", "rank"])
def test_an_array_of_another_shape_must_still_fit_the_model(tmp_path: Path, shape: tuple[int, ...]) -> None:
    save(tmp_path / "a.npy", np.zeros((1, 3, 8, 8), np.float32))
    save(tmp_path / "b.npy", np.zeros(shape, np.float32))
    make = lambda: make_inputs([IMAGE], {"image": [1, 3, 8, 8]}, {"": str(tmp_path)}, 0, varying=["image"])  # noqa: E731
    assert "b.npy: shape" in refusal(make)


def test_the_sizes_of_a_cycle_are_those_of_all_inputs_together(tmp_path: Path) -> None:
    for name, sides in (("one", (2, 4)), ("two", (3, 3, 3))):
        (tmp_path / name).mkdir()
        for number, side in enumerate(sides):
            save(tmp_path / name / f"{number}.npy", np.zeros((1, side), np.float32))
    tensors = [Tensor(name, [1, "N"], "float32") for name in ("one", "two")]
    sources = {name: str(tmp_path / name) for name in ("one", "two")}
    inputs = make_inputs(tensors, {"one": [1, 2], "two": [1, 3]}, sources, 0, varying=["one", "two"])
    assert inputs.elements() == [5, 7] * 3
    assert make_inputs([FIXED], {"fixed": [1, 8]}, {"": "random:3"}, 0).elements() == []


def test_a_folder_of_several_sizes_that_is_too_large_to_keep_is_read_again(tmp_path: Path) -> None:
    for number in range(6):
        save(tmp_path / f"{number}.npy", np.full((1, 100_000 * (number + 1)), number, np.float32))
    tensor = Tensor("x", [1, "N"], "float32")
    inputs = make_inputs([tensor], {"x": [1, 100_000]}, {"": str(tmp_path)}, 0, max_cached_bytes=10**6, varying=["x"])
    assert [inputs.next()["x"][0, -1] for _ in range(7)] == [0, 1, 2, 3, 4, 5, 0]
    assert len(inputs.elements()) == 6


def test_the_random_arrays_of_all_inputs_share_the_memory() -> None:
    other = Tensor("other", [1, 8], np.dtype("float32"))

    def make() -> None:
        shapes = {"fixed": [1, 8], "other": [1, 8]}
        make_inputs([FIXED, other], shapes, {"": "random:3"}, seed=0, max_cached_bytes=150)

    assert refusal(make) == "input other: 3 random arrays need 96 bytes, and at most 54 are kept in memory"


def test_the_newest_inference_has_a_place_in_the_cycle() -> None:
    inputs = make_inputs([FIXED], {"fixed": [1, 8]}, {"": "random:3"}, seed=0)
    places = []
    for _ in range(4):
        inputs.next()
        places.append(inputs.place())
    assert places == [(0, 3), (1, 3), (2, 3), (0, 3)]
