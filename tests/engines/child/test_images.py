"""Pictures as inputs: size, layout, mean and scale, by hand, and what is refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.inputs import make_inputs, resolve_shapes
from edgetop.engines.child.tensor_values import Tensor

RED, GREEN = (255, 0, 0), (0, 51, 0)


@pytest.fixture
def picture(tmp_path: Path) -> str:
    """Three pixels wide and two high: the left column is red, the others are green."""
    image = Image.new("RGB", (3, 2), GREEN)
    for row in range(2):
        image.putpixel((0, row), RED)
    image.save(tmp_path / "p.png")
    return str(tmp_path / "p.png")


def fed(tensor: Tensor, source: str, **options: Any) -> Any:
    tensor.images = options
    shapes, _ = resolve_shapes([tensor], {}, None, {"": source})
    return make_inputs([tensor], shapes, {"": source}, 0).first()[tensor.name]


def test_channels_come_first_or_last_as_the_shape_says(picture: str) -> None:
    first = fed(Tensor("x", [1, 3, 2, 3], "float32"), picture)
    last = fed(Tensor("x", [1, 2, 3, 3], "float32"), picture, layout="nhwc")
    assert (first.dtype, first.flags.c_contiguous) == ("float32", True)
    assert first[0, :, 0, 0].tolist() == [1, 0, 0]
    assert first[0, :, 1, 2].tolist() == pytest.approx([0, 0.2, 0])
    assert np.array_equal(first.transpose(0, 2, 3, 1), last)
    assert fed(Tensor("x", [1, 5, 5, 3], "float32"), picture).shape == (1, 5, 5, 3)  # no other axis can be colours


def test_an_unknown_size_is_that_of_the_picture_or_of_the_option(picture: str) -> None:
    assert fed(Tensor("x", ["N", 3, "H", "W"], "float32"), picture).shape == (1, 3, 2, 3)
    assert fed(Tensor("x", ["N", 3, "H", "W"], "float32"), picture, size=[6, 4]).shape == (1, 3, 4, 6)
    assert fed(Tensor("x", [None, 8, 8, 3], "uint8"), picture).shape == (1, 8, 8, 3)
    assert fed(Tensor("x", [3, "H", "W"], "float32"), picture).shape == (3, 2, 3)


def test_mean_and_scale_are_of_each_channel(picture: str) -> None:
    array = fed(Tensor("x", [1, 3, 2, 3], "float32"), picture, mean=[55.0, 1.0, 0.0], scale=[0.5, 2.0, 1.0])
    assert array[0, :, 0, 0].tolist() == [100, -2, 0]
    assert array[0, :, 0, 1].tolist() == [-27.5, 100, 0]


def test_integers_are_pixels_and_quantised_ones_mean_the_same_as_floats(picture: str) -> None:
    assert fed(Tensor("x", [1, 3, 2, 3], "uint8"), picture)[0, :, 0, 1].tolist() == [0, 51, 0]
    quantised = fed(Tensor("x", [1, 3, 2, 3], "int8", quantisation=(1 / 255, -128)), picture)
    assert quantised[0, :, 0, 1].tolist() == [-128, -77, -128]
    assert quantised[0, 0, 0, 0] == 127


def test_one_channel_is_grey(picture: str) -> None:
    assert fed(Tensor("x", [1, 1, 2, 3], "uint8"), picture)[0, 0, 0].tolist() == [76, 30, 30]


def test_a_folder_may_hold_pictures_of_any_size(picture: str) -> None:
    folder = Path(picture).parent
    Image.new("L", (9, 9), 255).save(folder / "q.JPG")
    inputs = make_inputs([Tensor("x", [1, 3, 4, 4], "float32")], {"x": [1, 3, 4, 4]}, {"": str(folder)}, 0)
    assert inputs.length == 2
    assert inputs.at("x", 1).min() == pytest.approx(1.0)


def refused(tensor: Tensor, source: str, **options: Any) -> str:
    with pytest.raises(EngineError) as raised:
        fed(tensor, source, **options)
    assert raised.value.stage == "input"
    return f"{raised.value.message} {raised.value.advice}"


def test_what_is_no_picture_is_refused_in_a_line(picture: str, tmp_path: Path) -> None:
    assert "has 2 dimensions, so it is no picture" in refused(Tensor("x", [1, 8], "float32"), picture)
    assert "has 7 channels as nchw" in refused(Tensor("x", [1, 7, 2, 2], "float32"), picture)
    plain = Tensor("x", [1, 3, 2, 3], "float32")
    assert "--image-mean: 2 numbers for 3 channels" in refused(plain, picture, mean=[1.0, 2.0])
    (tmp_path / "bad.png").write_bytes(b"no picture")
    assert "bad.png: not a picture" in refused(plain, str(tmp_path / "bad.png"))
    whole = Path(picture).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) - 30])
    assert "cut.png: the picture cannot be read" in refused(plain, str(tmp_path / "cut.png"))


def test_without_pillow_the_command_that_adds_it_is_named(picture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    said = refused(Tensor("x", [1, 3, 2, 3], "float32"), picture)
    assert "pictures need Pillow" in said
    assert "-m pip install pillow" in said
