"""What the engine holds at each step: taken between the phases, by itself, and by either kind of engine."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetop.engines.child import message_frames, own_memory
from edgetop.engines.child.record_outlet import Outlet
from edgetop.engines.engine_protocol import Loaded, PhaseBegan, StageMemory
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from edgetop.engines.thread import OutputCapture, ThreadEngine
from tests.support import onnx_models
from tests.support.engine_runs import Heard, run_whole, spec_for

pytestmark = pytest.mark.slow

STAGES = ["interpreter", "runtime", "model", "first", "steady"]
STATUS = "Name:\tpython3\nVmRSS:\t   57604 kB\nRssAnon:\t   25900 kB\nRssFile:\t   31704 kB\nRssShmem:\t 0 kB\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "half.onnx"
    path.write_bytes(onnx_models.onnx_half_ms())
    return path


def in_process(spec: EngineSpec) -> Heard:
    return run_whole(ProcessEngine(spec))


def in_thread(spec: EngineSpec) -> Heard:
    with contextlib.ExitStack() as stack:
        return run_whole(ThreadEngine(spec, stack.enter_context(OutputCapture())))


@pytest.mark.parametrize("run", [in_process, in_thread])
def test_every_stage_is_told_once_in_its_order(model: Path, run: Callable[[EngineSpec], Heard]) -> None:
    stages = run(spec_for(model)).all(StageMemory)
    assert [stage.stage for stage in stages] == STAGES
    assert [stage.monotonic_ns for stage in stages] == sorted(stage.monotonic_ns for stage in stages)
    assert all(stage.anon_kib is not None and stage.anon_kib < stage.rss_kib for stage in stages)


def test_the_runtime_and_the_model_are_told_apart(model: Path) -> None:
    sizes = {stage.stage: stage.rss_kib for stage in in_process(spec_for(model)).all(StageMemory)}
    assert sizes["interpreter"] + 4 * 1024 < sizes["runtime"] < sizes["model"] < sizes["first"]


def test_none_is_taken_while_inferences_are_timed(model: Path) -> None:
    heard = in_process(spec_for(model))
    order = [
        message.phase if isinstance(message, PhaseBegan) else getattr(message, "stage", "loaded")
        for message in heard.messages
        if isinstance(message, PhaseBegan | StageMemory | Loaded)
    ]
    assert order == ["interpreter", "runtime", "model", "loaded", "first", "first", "warmup", "steady", "measure"]


def test_a_model_that_cannot_be_loaded_tells_what_it_came_to(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\x08\x07")
    assert [stage.stage for stage in in_process(spec_for(broken)).all(StageMemory)] == ["interpreter", "runtime"]


def test_the_resident_set_and_its_parts_are_read(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(STATUS)
    assert own_memory.resident(str(status)) == {"rss_kib": 57604, "anon_kib": 25900, "file_kib": 31704, "shmem_kib": 0}


@pytest.mark.parametrize(
    "content", ["", "VmRSS:\n", "VmRSS:\t-5 kB\n", "VmRSS:\t5 MB\n", "RssAnon:\t5 kB\n", "VmRSS: \u00b2 kB"]
)
def test_without_a_resident_set_nothing_is_held_to_be_known(tmp_path: Path, content: str) -> None:
    status = tmp_path / "status"
    status.write_text(content)
    assert own_memory.resident(str(status)) == {}
    assert own_memory.resident(str(tmp_path / "none")) == {}


def test_it_is_sent_as_a_frame_of_its_own() -> None:
    outlet = Outlet()
    own_memory.report(outlet, own_memory.FIRST)
    ((kind, payload),) = outlet.take()
    assert kind == message_frames.MEMORY
    assert b'"stage": "first"' in payload
