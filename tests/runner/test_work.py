"""What operators compute, joined to bursts, and nothing that a model's file holds can end a session."""

from pathlib import Path

import pytest

from edgetop.models.inspection import RuntimeShapes
from edgetop.runner.model_file import Work
from edgetop.session.manifest import Model, TensorInfo
from edgetop.session.operators import Operator, burst_of
from tests.support.onnx_models import onnx_branch, onnx_ladder
from tests.support.tflite_models import tflite_open_diagonal

X = TensorInfo("x", (64, 256), "float32")
BURST = burst_of(0, 0, [Operator("rung0", "MatMul", "CPU", 2, 9), Operator("odd", "Reorder", "CPU", 2, 9)])


def work_of(path: Path, content: bytes | None, fmt: str = "onnx") -> Work:
    if content is not None:
        path.write_bytes(content)
    return Work(Model(str(path), size_bytes=None if content is None else len(content), format=fmt))


def test_operators_get_their_work_and_share_it_between_bursts(tmp_path: Path) -> None:
    work = work_of(tmp_path / "m.onnx", onnx_ladder())
    work.begin([X])
    work.finish(10.0)
    first, second = work.joined_to([BURST, burst_of(1, 1, [], None)]), work.joined_to([BURST])
    known, unknown = first[0].infos
    assert (known.flops, known.bytes, known.origin) == (
        2 * 64 * 256 * 2048,
        4 * (64 * 256 + 256 * 2048 + 64 * 2048),
        "rung0",
    )
    assert (unknown.flops, unknown.bytes, unknown.origin) == (None, None, None)
    assert second[0].infos == first[0].infos
    assert list(first[0].total_ns) == [9, 9]


@pytest.mark.parametrize("content", [None, b"", b"\x08\x08nonsense"])
def test_a_file_that_is_gone_or_damaged_leaves_it_unknown(tmp_path: Path, content: bytes | None) -> None:
    work = work_of(tmp_path / "m.onnx", content)
    work.begin([X])
    work.finish(10.0)
    assert work.joined_to([BURST]) == (BURST,)


def test_shapes_that_do_not_fit_leave_it_unknown(tmp_path: Path) -> None:
    work = work_of(tmp_path / "m.onnx", onnx_ladder())
    work.begin([TensorInfo("other", (1,), "float32")])
    work.finish(10.0)
    assert work.joined_to([BURST])[0].infos[1] == BURST.infos[1]


def test_bursts_of_a_model_that_nobody_read_are_as_they_were(tmp_path: Path) -> None:
    assert work_of(tmp_path / "m.onnx", None).joined_to([BURST]) == (BURST,)


def test_what_depends_on_values_is_known_once_the_file_is_read(tmp_path: Path) -> None:
    work = work_of(tmp_path / "m.onnx", onnx_branch())
    assert work.data_dependent == {}
    work.begin([X])
    work.finish(10.0)
    assert work.data_dependent == {"If": 1}


def test_a_session_without_profiles_knows_it_too(tmp_path: Path) -> None:
    work = work_of(tmp_path / "m.onnx", onnx_branch())
    work.begin([X], has_profiles=False)
    work.finish(10.0)
    assert (work.data_dependent, work.precision, work.joined_to([BURST])) == ({"If": 1}, None, (BURST,))


def test_open_shapes_are_asked_for_with_the_runs_inputs(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite_open_diagonal())
    told = RuntimeShapes("litert 9", {1: (3, 8, 8), 3: (3, 8, 5)})
    work = Work(Model(str(path), format="tflite"), lambda: told)
    work.begin([TensorInfo("x", (3, 8), "float32")])
    work.finish(10.0)
    (burst,) = work.joined_to([burst_of(0, 0, [Operator("y", "FULLY_CONNECTED", "CPU", 1, 9)])])
    assert burst.infos[0].flops == 2 * 3 * 8 * 8 * 5
