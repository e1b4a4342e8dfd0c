"""What an interpreter could run, printed without numpy where there is none."""

import json
import subprocess
import sys

import psutil
import pytest

from edgetop.engines.child.forked_calls import ForkedCall
from edgetop.engines.spawn import CHILD
from tests.support.processes import is_running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def inventory(*options):
    done = subprocess.run([sys.executable, *options, CHILD, "--inventory"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_what_is_installed_is_told_with_version_and_providers():
    found = inventory()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["numpy"]["error"] is None
    assert "CPUExecutionProvider" in found["runtimes"]["onnxruntime"]["providers"]


def test_an_interpreter_without_anything_answers_too():
    assert inventory("-I", "-S") == {"python": inventory()["python"], "numpy": None, "runtimes": {}, "plugins": {}}


def test_one_that_does_not_load_says_why(tmp_path):
    (tmp_path / "onnxruntime.py").write_text("raise SystemExit('needs a licence')")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['x', '--inventory']\n"
    script += f"import runpy; runpy.run_path({str(CHILD)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["runtimes"]["onnxruntime"]["error"] == "SystemExit: needs a licence"


def test_an_import_that_hangs_ends_with_the_process_that_asks(tmp_path):
    mark = tmp_path / "pid"
    (tmp_path / "onnxruntime.py").write_text(
        f"import os, pathlib, time\npathlib.Path({str(mark)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['x', '--inventory']\n"
    script += f"import runpy; runpy.run_path({str(CHILD)!r}, run_name='__main__')"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL) as asking:
        pid = int(wait_until(lambda: mark.exists() and mark.read_text()))
        asking.kill()
    try:
        wait_until(lambda: not is_running(pid), timeout_s=10.0)
    finally:
        if is_running(pid):
            psutil.Process(pid).kill()


def test_a_call_is_ended_once():
    call = ForkedCall(lambda: 5)
    assert call.result(1e12) == 5
    call.end()
    call.end()


@pytest.mark.parametrize(("numpy", "error"), [("2.1.0", "tflite-runtime needs numpy<2, and numpy 2.1.0 is installed"),
                                              ("1.26.4", None)])  # fmt: skip
def test_one_that_loads_and_cannot_work_with_this_numpy_says_so(tmp_path, numpy, error):
    package = tmp_path / "tflite_runtime"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "interpreter.py").touch()
    script = f"import sys, numpy; numpy.__version__ = {numpy!r}; sys.path.insert(0, {str(tmp_path)!r})\n"
    script += f"import runpy; sys.argv = ['x', '--inventory']; runpy.run_path({str(CHILD)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["runtimes"]["tflite-runtime"]["error"] == error
