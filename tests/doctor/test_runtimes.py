"""Runtimes are asked in a process of their own, and judged by whether they load."""

import sys
from pathlib import Path
from typing import Any

import pytest

from edgetop.doctor import machine_checks
from edgetop.doctor.check import Check
from tests.support.facts import facts

CPU = ["AzureExecutionProvider", "CPUExecutionProvider"]
ORIN = {"proc/device-tree/compatible": "nvidia,p3768-0000\0nvidia,tegra234\0"}
NUMPY = {"version": "2.0.0", "providers": [], "error": None}


def module(
    version: str = "1.0", providers: tuple[str, ...] | list[str] = (), error: str | None = None
) -> dict[str, Any]:
    return {"version": version, "providers": list(providers), "error": error}


def judged(
    tree: Path, files: dict[str, str] | None = None, numpy: Any = NUMPY, python: str = "/opt/my python", **found: Any
) -> Check:
    inventory = {"python": "3.11.2", "numpy": numpy, "runtimes": found}
    (check,) = machine_checks.judge_runtimes(inventory, facts(tree, files, python=python))
    return check


def test_what_loads_is_told_with_its_providers(tmp_path: Path) -> None:
    check = judged(tmp_path, onnxruntime=module("1.20.1", CPU), litert=module("1.2.0"))
    assert (check.status, check.found) == ("ok", "onnxruntime 1.20.1 on CPU; litert 1.2.0 (Python 3.11.2)")


def test_none_is_a_problem_and_so_is_a_missing_numpy(tmp_path: Path) -> None:
    assert judged(tmp_path).status == "problem"
    check = judged(tmp_path, onnxruntime=module(), numpy=None)
    assert (check.status, check.fix) == ("problem", "'/opt/my python' -m pip install numpy")


def test_one_that_does_not_load_is_a_warning_and_alone_a_problem(tmp_path: Path) -> None:
    broken = module(error="ImportError: numpy.core.\x1b[31m failed")
    assert judged(tmp_path, onnxruntime=module(), litert=broken).status == "warning"
    check = judged(tmp_path, litert=broken)
    assert check.status == "problem"
    assert "\x1b" not in check.found


def test_the_fix_is_for_the_interpreter_that_was_asked(tmp_path: Path) -> None:
    old = module(error="tflite-runtime needs numpy<2, and numpy 2.2.6 is installed")
    pip = "'/opt/my python' -m pip install"
    assert judged(tmp_path, **{"tflite-runtime": old}).fix == f"{pip} 'numpy<2'"
    assert judged(tmp_path, onnxruntime=module(), **{"tflite-runtime": old}).fix == f"{pip} 'numpy<2'"
    assert judged(tmp_path).fix == f"{pip} onnxruntime  or  {pip} ai-edge-litert"


def test_an_old_numpy_in_the_own_environment_needs_an_arrow_that_takes_it(tmp_path: Path) -> None:
    old = module(error="tflite-runtime needs numpy<2, and numpy 2.2.6 is installed")
    fix = judged(tmp_path, python=sys.executable, **{"tflite-runtime": old}).fix
    assert fix
    assert fix.endswith("-m pip install 'numpy<2' 'pyarrow<26'")


def test_a_jetson_whose_runtime_has_no_gpu_is_a_warning(tmp_path: Path) -> None:
    assert judged(tmp_path, ORIN, onnxruntime=module(providers=CPU)).status == "warning"
    assert judged(tmp_path, ORIN, onnxruntime=module(providers=["CUDAExecutionProvider", *CPU])).status == "ok"


@pytest.mark.slow
def test_this_interpreter_is_asked_and_nothing_is_imported_here(tmp_path: Path) -> None:
    before = set(sys.modules)
    (check,) = machine_checks.check_runtimes(facts(tmp_path, python=sys.executable))
    assert check.status == "ok"
    assert "onnxruntime" in check.found
    assert not {name for name in set(sys.modules) - before if name.startswith(("onnxruntime", "ai_edge_litert"))}


@pytest.mark.parametrize("body", ["echo noise >&2; exit 3", "echo '{}'", "echo no json"])
def test_an_interpreter_that_cannot_be_asked_is_a_problem(tmp_path: Path, body: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    (check,) = machine_checks.check_runtimes(facts(tmp_path / "tree", python=str(program)))
    assert check.status == "problem"


def test_an_interpreter_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    with pytest.raises(TimeoutError):
        machine_checks.read_inventory(str(program), timeout_s=0.05)
