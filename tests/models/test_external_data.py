"""The files with weights beside an ONNX model: their sizes, and what is wrong with them."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, load_from_string, save

from edgetop.cli.board.inspect import command
from edgetop.models.external_data import ExternalFile, external_files
from edgetop.models.graph import External
from tests.support.model_files import external_tensor, read
from tests.support.onnx_models import onnx_tiny


def placed(offset: str, length: str | None, name: str = "w") -> TensorProto:
    tensor: TensorProto = external_tensor(name, (4, 5))
    for key, value in (("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([placed("0", "80"), placed("4096", "80", "v")], External(2, 4176)),
        ([placed("16", None)], External(1, 96)),
        ([placed("-1", "80")], External(1, 0)),
        ([placed("9" * 40, "80")], External(1, 0)),
    ],
)
def test_a_file_must_reach_to_the_end_of_its_last_tensor(weights: list[TensorProto], expected: External) -> None:
    graph = helper.make_graph([], "g", [], [], weights)
    assert read(helper.make_model(graph).SerializeToString()).external == {"weights.bin": expected}


def test_what_is_missing_or_too_short_is_found_and_nothing_outside_is_touched(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, size in (("whole", 100), ("cut", 99), ("deep/er", 100)):
        (tmp_path / name).write_bytes(bytes(size))
    names = ("whole", "cut", "deep/er", "none", "deep", "../x", "/etc/passwd", "a\0b")
    found = external_files(dict.fromkeys(names, External(2, 100)), tmp_path)
    assert found[1] == ExternalFile("cut", 2, 100, 99, "short")
    problems = [one.problem for one in found]
    assert problems == [None, "short", None, "missing", "no-file", "outside", "outside", "outside"]


def test_inspect_lists_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    save(load_from_string(onnx_tiny()), path, save_as_external_data=True, location="m.bin", size_threshold=0)
    command.main([str(path)], standalone_mode=False)
    assert "weights in m.bin, 16.0 KiB: 1 tensor" in capsys.readouterr().out
    np.zeros(10, np.uint8).tofile(tmp_path / "m.bin")
    command.main([str(path)], standalone_mode=False)
    assert "weights in m.bin, TOO SHORT: 10 B, but 1 tensor needs 16.0 KiB" in capsys.readouterr().out
    (tmp_path / "m.bin").unlink()
    command.main([str(path)], standalone_mode=False)
    assert "weights in m.bin, MISSING: 1 tensor needs 16.0 KiB" in capsys.readouterr().out
