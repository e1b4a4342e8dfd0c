"""What a runtime is asked of a model's shapes, in a process of its own."""

import os
import sys

import pytest

from edgetop.engines.process_engine import measure_shapes
from edgetop.models.inspection import inspected, read_model
from tests.support import tflite_models
from tests.support.engine_runs import spec_for

pytestmark = pytest.mark.slow


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite_models.tflite_open_diagonal())
    return path


def test_litert_gives_shapes_that_follow_from_an_inference(model):
    told = measure_shapes(spec_for(model, shapes={"x": (3, 8)}))
    assert told.runtime.startswith("litert ")
    assert [told.shapes[place] for place in range(4)] == [(3, 8), (3, 8, 8), (5, 8), (3, 8, 5)]


def test_a_delegate_hides_nothing(tmp_path):
    """XNNPACK takes all of it, and leaves the tensors between as the file has them."""
    path = tmp_path / "mobile.tflite"
    path.write_bytes(tflite_models.tflite_mobile())
    told = measure_shapes(spec_for(path, shapes={"image": (2, 64, 64, 3)}))
    declared = read_model(path, "tflite")
    made = {place for operator in declared.graph.operators for place in operator.outputs}
    assert {told.shapes[place][0] for place in made} == {2}
    assert inspected(declared, {"image": (2, 64, 64, 3)}, lambda: told).totals.macs_unknown == 0


@pytest.mark.parametrize("shapes", [{"x": (3, 9)}, {"y": (1,)}], ids=["refused", "no such input"])
def test_what_the_runtime_refuses_is_not_known(shapes, model):
    assert measure_shapes(spec_for(model, shapes=shapes)) is None


def test_a_crash_or_a_missing_runtime_gives_no_shapes(model, tmp_path):
    (tmp_path / "broken.tflite").write_bytes(b"\x10\0\0\0TFL3" + bytes(64))
    assert measure_shapes(spec_for(tmp_path / "broken.tflite")) is None
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    script.chmod(0o755)
    assert measure_shapes(spec_for(model), str(script)) is None
    assert measure_shapes(spec_for(model), str(tmp_path / "none")) is None


def test_on_a_busy_machine_the_answer_comes_too(model, tmp_path):
    """With the scheduler's class for idle time (sched(7), SCHED_IDLE) it did not, where others took every CPU."""
    policy, script = tmp_path / "policy", tmp_path / "python"
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, pathlib\n"
        f"atexit.register(lambda: pathlib.Path({str(policy)!r}).write_text(str(os.sched_getscheduler(0))))\n"
    )
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    assert measure_shapes(spec_for(model, shapes={"x": (3, 8)}), str(script)) is not None
    assert int(policy.read_text()) == os.SCHED_OTHER


def test_one_that_takes_too_long_is_not_waited_for(model, tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)
    assert measure_shapes(spec_for(model), str(script), timeout_s=0.1) is None
