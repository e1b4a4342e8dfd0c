"""A session in its own process: what it prints is kept without a name, and it ends also when it was stopped."""

import os
import signal
from pathlib import Path

import pytest

from edgetop.cli.running.child_run import ChildRun
from edgetop.control.lock_holders import is_stopped
from tests.support.waiting import wait_until

MODEL = Path(__file__).parents[2] / "edgetop/roofline_models/probe.onnx"
pytestmark = [pytest.mark.slow, pytest.mark.any_python]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_its_report_and_its_error_come_back_and_no_file_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    for name in ("run.log", "result.json"):  # in a folder that somebody sent
        (folder / name).symlink_to(tmp_path / "mine")
    done = ChildRun(["run", str(MODEL), "--runs", "20", "--no-record"], folder).run(lambda: None)
    assert (done.code, done.reason, done.is_complete) == (0, "", True)
    assert done.report is not None
    failed = ChildRun(["run", str(tmp_path / "none.onnx")], folder).run(lambda: None)
    assert (failed.code, failed.report) == (2, None)
    assert "none.onnx" in failed.reason
    assert not (tmp_path / "mine").exists()
    assert sorted(path.name for path in folder.iterdir()) == ["result.json", "run.log"]


def test_a_stopped_one_ends_when_it_is_told_to(tmp_path: Path) -> None:
    child = ChildRun(["run", str(MODEL), "--duration", "100s", "--no-record"], tmp_path)
    pid = child._process.pid

    def interrupt() -> None:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(pid))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.run(interrupt, 60)
    assert child._process.returncode is not None
