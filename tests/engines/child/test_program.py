"""The child is a program of its own: an interpreter with numpy and one runtime is all it needs."""

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.child import message_frames
from edgetop.engines.child.child_program import EXIT_ORPHANED, _obey
from edgetop.engines.child.loop import Control
from edgetop.engines.child.record_outlet import Outlet
from edgetop.engines.engine_protocol import Ended, Failed, LogLine, PhaseBegan
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spawn import CHILD
from tests.support import onnx_models
from tests.support.engine_runs import Heard, hear_out, run_whole, spec_for
from tests.support.interpreters import fake_runtime, shell, with_runtime
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

NOT_THE_STANDARD_LIBRARY = (
    "print(*sorted({name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)), flush=True)"
)
ITS_OWN = {"__main__", "edgetop_engine", "numpy", "onnxruntime"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.onnx"
    path.write_bytes(onnx_models.onnx_tiny())
    return path


def bare_interpreter(folder: Path) -> str:
    """Has the standard library, numpy, and what else lies in the folder `packages`."""
    packages = folder / "packages"
    packages.mkdir()
    site = Path(np.__file__).parents[1]
    for entry in site.glob("numpy*"):
        (packages / entry.name).symlink_to(entry)
    return shell(folder / "python", f'PYTHONPATH=\'{packages}\' exec "$PYTHON" -S "$@"')


def test_it_needs_the_standard_library_and_numpy_alone(model: Path, tmp_path: Path) -> None:
    python = bare_interpreter(tmp_path)
    fake_runtime(tmp_path / "packages", on_run=NOT_THE_STANDARD_LIBRARY)
    heard = run_whole(ProcessEngine(spec_for(model, warmup_runs=0, runs=1), python))
    heard.one(Ended)
    (imported, _) = (line.message.split() for line in heard.all(LogLine))
    assert {name for name in imported if "cython" not in name} == ITS_OWN  # numpy's compiled parts leave such names


def test_without_a_runtime_it_says_which_interpreter_lacks_it(model: Path, tmp_path: Path) -> None:
    failed = run_whole(ProcessEngine(spec_for(model), bare_interpreter(tmp_path))).one(Failed)
    assert failed.stage == "runtime"
    assert failed.message == f"no runtime for onnx models is installed for {sys.executable}"
    assert "-m pip install onnxruntime" in failed.advice


def test_it_collects_no_garbage_while_it_measures(model: Path, tmp_path: Path) -> None:
    python = bare_interpreter(tmp_path)
    fake_runtime(tmp_path / "packages", on_run="import gc; print(gc.isenabled(), flush=True)")
    heard = run_whole(ProcessEngine(spec_for(model, warmup_runs=0, runs=1), python))
    assert {line.message for line in heard.all(LogLine)} == {"False"}


def phases(heard: Heard) -> list[str]:
    return [began.phase for began in heard.all(PhaseBegan)]


def test_an_idle_rest_is_between_first_inference_and_warm_up(model: Path, tmp_path: Path) -> None:
    rest_ns = 150_000_000
    heard = run_whole(ProcessEngine(spec_for(model, idle_ns=rest_ns), with_runtime(tmp_path)))
    assert phases(heard) == ["first", "idle", "warmup", "measure"]
    _, idle_ns, warmup_ns, _ = (began.monotonic_ns for began in heard.all(PhaseBegan))
    assert warmup_ns - idle_ns >= rest_ns
    ends = heard.records["t_ns"] + heard.records["latency_ns"]
    assert not ((heard.records["t_ns"] < warmup_ns) & (ends > idle_ns)).any()


def test_a_stop_ends_the_rest(model: Path, tmp_path: Path) -> None:
    engine = ProcessEngine(spec_for(model, idle_ns=3_600 * 10**9), with_runtime(tmp_path))
    try:
        engine.start()
        heard = Heard()
        wait_until(lambda: heard.listen(engine) or phases(heard) == ["first", "idle"])
        engine.stop()
        assert hear_out(engine, heard).one(Ended).reason == "stop"
    finally:
        engine.close()
    assert phases(heard) == ["first", "idle"]


@pytest.mark.parametrize(
    ("last", "status"), [(message_frames.ENDED, 0), (message_frames.FAILED, 0), (message_frames.PHASE, EXIT_ORPHANED)]
)
def test_a_closed_control_pipe_is_a_good_end_after_the_last_message(
    last: int, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)
    outlet = Outlet()
    outlet.send(last, {})
    _obey(io.StringIO(""), Control(), outlet, str(tmp_path / "note"))
    assert exits == [status]
    assert (tmp_path / "note").exists() == (status == EXIT_ORPHANED)


@pytest.mark.parametrize("words", [(), ("--helper",)])
def test_a_stopped_engine_ends_when_its_conductor_is_gone(words) -> None:
    control_read, control_write = os.pipe()
    data_read, data_write = os.pipe()
    order = [sys.executable, str(CHILD), *words, "--control", str(control_read), "--data", str(data_write)]
    with subprocess.Popen(order, pass_fds=(control_read, data_write)) as process:
        try:
            about = Path(f"/proc/{process.pid}/fdinfo/{control_read}")  # fdinfo: flags in octal, proc_pid_fdinfo(5)
            wait_until(lambda: int(re.findall(r"flags:\s*(\d+)", about.read_text())[0], 8) & os.O_ASYNC)
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: "(stopped)" in Path(f"/proc/{process.pid}/status").read_text())
            os.close(control_write)  # as by kill -9
            assert process.wait(PATIENCE_S) >= 0
        finally:
            process.kill()
    for fd in (control_read, data_read, data_write):
        os.close(fd)
