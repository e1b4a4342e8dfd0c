"""A file is what its content says, and nothing but a model is taken for one."""

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgetop.demo import model_path
from edgetop.engines.formats import NCNN_MAGIC, ModelFile, identify
from edgetop.errors import InputError
from tests.support import onnx_models, tflite_models
from tests.support.gguf_models import language_model

Builder = Callable[[], bytes]

BUILDERS = {
    name: build
    for module in (onnx_models, tflite_models)
    for name, build in vars(module).items()
    if name.startswith(("onnx_", "tflite_"))
}
BUILDERS["onnx_needs_width"] = partial(onnx_models.onnx_needs_width, 7)


def identified(folder: Path, content: bytes, name: str = "model") -> ModelFile:
    path = folder / name
    path.write_bytes(content)
    return identify(path)


def refused(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        identify(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", BUILDERS)
def test_every_model_is_known_by_its_content_alone(name: str, tmp_path: Path) -> None:
    content = BUILDERS[name]()
    assert identified(tmp_path, content) == ModelFile(
        tmp_path / "model", name.partition("_")[0], len(content), misnamed=False
    )


def test_a_language_model_is_known_by_its_content_alone(tmp_path: Path) -> None:
    content = language_model(layers=1, width=32)
    assert identified(tmp_path, content) == ModelFile(tmp_path / "model", "gguf", len(content), misnamed=False)
    assert identified(tmp_path, content, "model.onnx").misnamed


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_the_demo_models_are_what_they_are_called(kind: str) -> None:
    found = identify(model_path(kind))
    assert (found.format, found.misnamed) == (kind, False)


EXAMPLES = sorted((Path(onnxruntime.__file__).parent / "datasets").glob("*.onnx"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_models_of_other_exporters_are_recognised(path: Path) -> None:
    """Those that ONNX Runtime ships as examples, from as many tools."""
    assert identify(path).format == "onnx"


def test_onnxruntimes_own_format_is_its_too(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(onnx_models.onnx_tiny(), options, providers=["CPUExecutionProvider"])
    found = identify(tmp_path / "model.ort")
    assert (found.format, found.misnamed) == ("onnx", False)


@pytest.mark.parametrize(
    ("builder", "name", "misnamed"),
    [
        ("onnx_tiny", "model.tflite", True),
        ("onnx_tiny", "model.lite", True),
        ("tflite_tiny", "model.onnx", True),
        ("tflite_tiny", "MODEL.ONNX", True),
        ("tflite_tiny", "model.TFLite", False),
        ("onnx_tiny", "model.ort", False),
        ("onnx_tiny", "model.bin", False),
    ],
)
def test_the_content_wins_over_the_suffix(builder: str, name: str, misnamed: bool, tmp_path: Path) -> None:
    found = identified(tmp_path, BUILDERS[builder](), name)
    assert (found.format, found.misnamed) == (builder.partition("_")[0], misnamed)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "no such file"),
        (make_folder, "is a folder"),
        (Path.touch, "is empty"),
        (make_loop, "cannot be read"),
        (os.mkfifo, "is not a file"),
    ],
    ids=["missing", "folder", "empty", "link to itself", "named pipe"],
)
@pytest.mark.timeout(20)
def test_what_is_no_file_is_refused(make: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    make(path)
    assert said in refused(path)


def test_a_name_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    """The runtimes' bindings cannot take it, and say so in a paragraph."""
    path = tmp_path / os.fsdecode(b"m\xff.onnx")
    path.write_bytes(onnx_models.onnx_tiny())
    assert "not UTF-8" in refused(path)


@pytest.mark.parametrize("path", [Path("x" * 300), Path("/dev/null/model.onnx")], ids=["name too long", "not a folder"])
def test_a_path_that_cannot_be_looked_at_is_refused(path: Path) -> None:
    refused(path)


@pytest.mark.parametrize(
    "content",
    [
        b"hello, I am a text\n" * 50,
        b"\x7fELF\x02\x01\x01" + bytes(500),
        b"PK\x03\x04" + bytes(500),
        b"\x89PNG\r\n\x1a\n" + bytes(500),
        b"\x08\x08",
        b":\x00",
        b"8\x00\x08\x08B\x00",
    ],
    ids=["text", "elf", "zip", "png", "a version alone", "a graph alone", "a graph that is a number"],
)
def test_what_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    for name in ("model.onnx", "model.tflite"):
        path = tmp_path / name
        path.write_bytes(content)
        assert "no model of a known format" in refused(path)


def test_a_pointer_of_git_lfs_is_named_with_the_command_that_gets_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n")
    assert "a pointer of Git LFS, not the model itself (get it: git lfs pull)" in refused(path)


def test_an_onnx_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    content = BUILDERS["onnx_string_input"]()  # a short one
    path = tmp_path / "cut.onnx"
    for length in range(1, len(content)):
        path.write_bytes(content[:length])
        assert "cut short" in refused(path)


@settings(deadline=None, max_examples=100)
@given(st.binary(min_size=1, max_size=200))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random.onnx"
    path.write_bytes(content)
    assume(not content.startswith((b"GGUF", NCNN_MAGIC)))  # their headers are read later
    refused(path)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_damaged_model_is_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(BUILDERS["onnx_stateful"]())
    for position, value in changes:
        content[position] = value
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert identify(path).size_bytes == len(content)


@pytest.mark.parametrize(
    ("name", "others", "size"),
    [
        ("net.xml", {"net.bin": 1000}, 1000),
        ("net.param", {"net.bin": 70}, 70),
        ("net", {"net.bin": 70}, 70),
        ("net.xml", {}, None),
        ("big-00002-of-00003.gguf", {"big-00001-of-00003.gguf": 5, "big-00003-of-00003.gguf": 7}, 12),
        ("big-00002-of-00003.gguf", {"big-00001-of-00003.gguf": 5}, None),
        ("big.gguf", {}, None),
        ("net.onnx", {"net.bin": 1}, None),
    ],
)
def test_files_beside_the_model_have_their_size(
    name: str, others: dict[str, int], size: int | None, tmp_path: Path
) -> None:
    contents = {
        "xml": b"<net name='n' version='11'></net>", "param": NCNN_MAGIC + b"\n0 0\n",
        "gguf": language_model(layers=1, width=32), "onnx": BUILDERS["onnx_stateful"](), "": NCNN_MAGIC + b"\n0 0\n",
    }  # fmt: skip
    (tmp_path / name).write_bytes(contents[name.rpartition(".")[2] if "." in name else ""])
    for other, count in others.items():
        (tmp_path / other).write_bytes(bytes(count))
    assert identify(tmp_path / name).beside_bytes == size
