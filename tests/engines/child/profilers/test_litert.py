"""LiteRT's profiler: only what makes sense, and only what runs as the engine's session does."""

from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.child.profilers import Allowance, ProfilingError
from edgetop.engines.child.profilers.helper import Helper
from edgetop.engines.child.profilers.litert import require_sense
from edgetop.engines.child.profilers.tflite_events import Event
from edgetop.engines.spec import EngineSpec
from tests.support import tflite_models

pytestmark = pytest.mark.slow


def helper(folder: Path, content: bytes, **options: object) -> Helper:
    model = folder / "model.tflite"
    model.write_bytes(content)
    spec = EngineSpec(str(model), "tflite", engine="litert", threads=1, **options)  # type: ignore[arg-type]
    return Helper(spec.to_json(), "litert")


def operators(helper: Helper) -> list[list[object]]:
    try:
        found: list[list[object]] = helper.burst(Allowance(10**7, lambda: False))["operators"]
    finally:
        helper.close()
    return found


def test_what_fell_back_to_the_cpu_is_told_with_its_name(tmp_path: Path) -> None:
    rows = operators(helper(tmp_path, tflite_models.tflite_stateful()))
    assert {(row[1], row[2]) for row in rows} >= {("CALL_ONCE", "CPU"), ("Add (ND)", "XNNPACK")}


@pytest.mark.parametrize("index", [3, 100])
def test_inputs_are_those_of_the_engine(index: int, tmp_path: Path) -> None:
    """The table has 100 rows: what is outside it cannot be run."""
    np.save(tmp_path / "index.npy", np.array([index], np.int32))
    started = helper(tmp_path, tflite_models.tflite_gather(), inputs={"index": str(tmp_path / "index.npy")})
    if index == 100:
        with pytest.raises(ProfilingError, match="LiteRtRunCompiledModel"):
            operators(started)
    else:
        (row,) = operators(started)
        assert row[:3] == ["row", "GATHER", "CPU"]


def test_a_model_with_two_inputs_of_other_types_runs(tmp_path: Path) -> None:
    assert operators(helper(tmp_path, tflite_models.tflite_two_inputs()))


def test_shapes_that_the_file_has_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfilingError, match="only with the shapes that its file has"):
        operators(helper(tmp_path, tflite_models.tflite_dynamic_batch(), batch=3))


def test_a_delegate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfilingError, match="--delegate"):
        helper(tmp_path, tflite_models.tflite_tiny(), delegates=(("/no/such.so", {}),))


def test_structures_that_have_changed_are_told_by_what_they_hold() -> None:
    require_sense([Event(8, "Add", 0, 0, 900_000), Event(1, "Invoke", 0, 0, 5_000_000)], 1_000_000)
    for nonsense in (Event(4_711, "Add", 0, 0, 1), Event(8, "Add", 0, 0, 2**62)):
        with pytest.raises(ProfilingError, match="impossible events"):
            require_sense([nonsense], 1_000_000)
