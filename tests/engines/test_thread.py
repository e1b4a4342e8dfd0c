"""What is particular to an engine that shares the app's process."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetop.engines.engine_protocol import Ended, Failed, LogLine, Started
from edgetop.engines.spec import EngineSpec
from edgetop.engines.thread import OutputCapture, ThreadEngine
from tests.support import onnx_models
from tests.support.engine_runs import hear_until_measuring, run_whole, spec_for


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "gather.onnx"
    path.write_bytes(onnx_models.onnx_gather())
    return path


@contextlib.contextmanager
def engine_of(spec: EngineSpec) -> Iterator[ThreadEngine]:
    with OutputCapture() as capture:
        engine = ThreadEngine(spec, capture)
        try:
            yield engine
        finally:
            engine.close()


def test_its_process_is_the_apps(model: Path) -> None:
    with engine_of(spec_for(model)) as engine:
        heard = run_whole(engine)
    assert heard.one(Started).pid == os.getpid()


def test_output_becomes_lines_and_never_reaches_our_streams(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "indices"
    folder.mkdir()
    np.save(folder / "1.npy", np.array([1]))
    np.save(folder / "2.npy", np.array([100]))  # outside the table, of which ONNX Runtime complains on stderr
    with engine_of(spec_for(model, inputs={"index": str(folder)})) as engine:
        heard = run_whole(engine)
    heard.one(Ended)
    printed = [line for line in heard.all(LogLine) if line.source == "engine stderr"]
    assert any("idx=100" in line.message for line in printed)
    assert capfd.readouterr() == ("", "")


def test_the_switch_interval_is_short_while_it_runs(model: Path) -> None:
    before = sys.getswitchinterval()
    with engine_of(spec_for(model, runs=None)) as engine:
        engine.start()
        hear_until_measuring(engine)
        assert sys.getswitchinterval() == pytest.approx(0.0001)
    assert sys.getswitchinterval() == pytest.approx(before)


class Leaving(EngineSpec):
    """Makes the engine's thread end as a runtime does that calls exit()."""

    def to_json(self) -> dict[str, Any]:
        class Fields(dict[str, Any]):
            def __getitem__(self, key: str) -> Any:
                raise SystemExit

        return Fields()


def test_a_runtime_that_calls_exit_is_told(model: Path) -> None:
    """In a thread nobody else would notice."""
    with engine_of(Leaving(str(model), "onnx")) as engine:
        failed = run_whole(engine).one(Failed)
    assert "SystemExit" in failed.message
    assert not failed.is_input_error


def test_a_thread_that_hangs_does_not_keep_the_app_from_ending(model: Path) -> None:
    with engine_of(spec_for(model, runs=None)) as engine:
        engine.start()
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "engine")
        assert thread.daemon
