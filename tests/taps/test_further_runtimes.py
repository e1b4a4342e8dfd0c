"""OpenVINO and ncnn in Python programs: every inference is counted once, and the program sees no difference."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import openvino
import pytest

from edgetop.probe import edgetop_probe as layout
from edgetop.taps.ring import Ring
from edgetop.taps.runtimes import Mapping, functions, runtime_of
from edgetop.taps.runtimes import libraries as mapped_libraries
from tests.support import ncnn_models, openvino_models

pytestmark = pytest.mark.slow

HOOK = Path(layout.__file__).parent / "hook"
PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
TWO_OUTPUTS = """\
7767517
5 6
Input        x       0 1 x     0=8
InnerProduct product 1 1 x raw 0=5 1=1 2=40
Split        split   1 2 raw a b
ReLU         relu    1 1 a y
Sigmoid      sigmoid 1 1 b z
"""


def run(program, rings, *models):
    """Run a program alone and watched. Returns what it prints both times."""
    said = []
    for watched in (False, True):
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        if watched:
            environment.update(PYTHONPATH=str(HOOK), EDGETOP_TAP=str(rings))
        words = [sys.executable, PROGRAMS / program, *models]
        done = subprocess.run(list(map(str, words)), env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append((json.loads(done.stdout), done.stderr))
    return said


@pytest.fixture
def rings(tmp_path):
    folder = tmp_path / "rings"
    folder.mkdir()
    return folder


def read(folder):
    """What was reported: rows of (kind, name, call), and the cost of a call in ns."""
    (path,) = folder.glob("*.tap")
    ring = Ring(path)
    ring.find_whole()
    rows = [(int(call["kind"]), ring.name(int(call["name"])), call) for call in ring.read()]
    cost = ring.cost_ns
    ring.close()
    return rows, cost


def counts(rows):
    """Calls by model and whether they went well."""
    return Counter((name.model, bool(call["ok"])) for kind, name, call in rows if kind == layout.CALL)


def test_openvino(tmp_path, rings):
    first, second = (openvino_models.write_products(tmp_path / name) for name in ("first.xml", "second.xml"))
    alone, watched = run("openvino_calls.py", rings, first, second)
    assert watched == alone
    rows, cost = read(rings)
    assert counts(rows) == {
        (str(first), True): 3 + 2 + 4 + 4 + 3 + 2 + 2,
        (str(first), False): 1,
        (str(second), True): 5 + 8 + 7,
    }
    assert {(name.runtime, name.providers) for kind, name, _ in rows if kind == layout.CALL} == {("openvino", ("CPU",))}
    loads = [(name.model, int(call["number"]) - 1) for kind, name, call in rows if kind == layout.LOAD]
    assert [model for model, _ in loads] == [str(first), str(second)]
    assert all(threads > 0 for _, threads in loads)
    assert next(name.model for kind, name, _ in rows if kind == layout.INPUTS) == "1x8"
    calls = [call for kind, _, call in rows if kind == layout.CALL]
    assert all(0 < call["start_ns"] < call["end_ns"] for call in calls)
    firsts = [name.model for kind, name, call in rows if kind == layout.CALL and call["flags"] & layout.FIRST]
    assert firsts == [str(first), str(second)]
    assert 0 < cost < 10_000_000


def test_a_model_that_is_made_in_the_program_has_its_name(tmp_path, rings):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, numpy as np, openvino as ov\n"
        "from openvino import opset13 as ops\n"
        "x = ops.parameter([1, 4], np.float32, name='x')\n"
        "model = ov.Model([ops.relu(x)], [x], 'made here')\n"
        "compiled = ov.Core().compile_model(model, 'CPU')\n"
        "print(json.dumps([compiled(np.ones((1, 4), np.float32))[0].tolist() for _ in range(3)]))\n"
    )
    run(script, rings)
    assert counts(read(rings)[0]) == {("made here", True): 3}


def test_ncnn(tmp_path, rings):
    first, second = tmp_path / "first.param", ncnn_models.write_products(tmp_path / "second.param")
    first.write_text(TWO_OUTPUTS)
    first.with_suffix(".bin").write_bytes(ncnn_models.products()[1])
    alone, watched = run("ncnn_calls.py", rings, first, second)
    assert watched == alone
    assert watched[0]["freed"] == [True, True]
    rows, cost = read(rings)
    assert counts(rows) == {
        (str(first), True): 6 + 5 + 3,
        (str(second), True): 3 + 4,
        (str(second), False): 1,
    }
    assert {(name.runtime, name.providers) for kind, name, _ in rows if kind == layout.CALL} == {("ncnn", ("CPU",))}
    assert [name.model for kind, name, _ in rows if kind == layout.LOAD] == [str(first), str(second)]
    assert "x 8" in [name.model for kind, name, _ in rows if kind == layout.INPUTS]
    assert 0 < cost < 10_000_000


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("libopenvino.so.2641", "openvino"),
        ("libopenvino_c.so", "openvino"),
        ("libopenvino_intel_cpu_plugin.so", ""),
        ("libncnn.so.1", "ncnn"),
        ("ncnn.cpython-311-x86_64-linux-gnu.so", "ncnn"),
        ("ncnn.param", ""),
    ],
)
def test_the_runtime_is_recognised_by_the_name_of_its_library(name, runtime):
    assert runtime_of(f"/usr/lib/{name}") == runtime


def test_in_a_process_that_runs_openvinos_c_api_is_seen_and_no_function_that_raises():
    libraries = Path(openvino.__file__).parent / "libs"
    by_c, by_cpp = (next(libraries.glob(f"{name}.so.*")) for name in ("libopenvino_c", "libopenvino"))
    with by_c.open("rb") as file:
        (function,) = functions(str(by_c), file.fileno())
    assert (function.runtime, function.name) == ("openvino", "ov_infer_request_infer")
    assert function.succeeded(0)
    assert not function.succeeded(1)
    with by_cpp.open("rb") as file, pytest.raises(ValueError, match="only OpenVINO's C API is seen"):
        functions(str(by_cpp), file.fileno())
    maps = [Mapping(0, 1, 0, True, str(path)) for path in (by_cpp, by_c)]
    assert mapped_libraries(maps) == [str(by_c)]
    assert mapped_libraries(maps[:1]) == [str(by_cpp)]
