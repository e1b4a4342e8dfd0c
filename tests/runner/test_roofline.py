"""Ceilings are measured through the runtime, stored by kind of run, and nothing in their file can do harm."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from edgetop.errors import InputError
from edgetop.roofline_models import probe_path
from edgetop.runner.measured_ceilings import MAX_STORED, Kind, Measured, measure, store, stored
from edgetop.session.ceilings import Ceilings
from edgetop.session.manifest import Board
from tests.support.built_models import probe
from tests.support.clocks import ManualClock

KIND = Kind("Pi", "Cortex-A76", None, "onnxruntime", "1.31.1", ("CPU",), 4, ())
ROOF = Ceilings(1e11, 1e10, "2026-11-21T10:00:00Z")


def test_what_is_kept_is_found_for_the_same_kind_of_run_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "roofline.json"
    assert stored(KIND, path) is None
    store(Measured(KIND, ROOF), path)
    assert stored(KIND, path) == ROOF
    for other in (
        {"threads": 1},
        {"version": "1.30"},
        {"board": None},
        {"power_mode": "15W"},
        {"providers": ("CUDA",)},
    ):
        assert stored(replace(KIND, **other), path) is None  # type: ignore[arg-type]
    assert [entry.name for entry in path.parent.iterdir()] == ["roofline.json"]


def test_the_newest_measurement_counts_and_the_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "roofline.json"
    for threads in range(MAX_STORED + 3):
        store(Measured(replace(KIND, threads=threads), ROOF), path)
    newer = replace(ROOF, flops_per_s=2e11)
    store(Measured(replace(KIND, threads=9), newer), path)
    assert stored(replace(KIND, threads=9), path) == newer
    assert stored(replace(KIND, threads=0), path) is None
    assert path.read_text().count('"kind"') == MAX_STORED


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 1, "ceilings": [3, {"kind": null}]}', "[" * 100_000])
def test_a_damaged_file_is_no_ceilings_and_is_written_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "roofline.json"
    path.write_text(content)
    assert stored(KIND, path) is None
    store(Measured(KIND, ROOF), path)
    assert stored(KIND, path) == ROOF


@pytest.mark.parametrize("name", list(probe.FILES))
def test_the_shipped_probe_is_what_its_builder_makes(name: str) -> None:
    assert probe.FILES[name]() == (probe_path("onnx").parent / name).read_bytes()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_real_runtime_gives_figures_of_a_real_machine() -> None:
    """LiteRT's; ONNX Runtime's are measured by the tests of `edgetop doctor` and `edgetop ops`."""
    spec = EngineSpec("any", "tflite", threads=1, shapes={"x": (1,)}, inputs={"x": "zeros"})
    measured = measure(spec, ProcessEngine, Board(cpu="here"), ManualClock())
    assert (measured.kind.runtime, measured.kind.threads, measured.kind.cpu) == ("litert", 1, "here")
    assert 1e8 < measured.ceilings.flops_per_s < 1e13
    assert 1e7 < measured.ceilings.bytes_per_s < 1e12
    assert 1e8 < (measured.ceilings.int8_flops_per_s or 0) < 1e14


@pytest.mark.slow
def test_a_runtime_that_cannot_be_run_is_one_line() -> None:
    spec = EngineSpec("any", "onnx", providers=(("Frobnicate", {}),))
    with pytest.raises(InputError, match=r"the ceilings cannot be measured: .*Frobnicate"):
        measure(spec, ProcessEngine, Board(), ManualClock())
