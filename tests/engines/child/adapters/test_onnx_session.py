"""ONNX Runtime as users set it up: each option reaches the session, is recorded, and is refused if it has no effect."""

from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from edgetop.engines.child.adapters import onnx_session
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.engine_protocol import Ended, Failed, Loaded, LogLine
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec, SessionChoices
from tests.support import onnx_models
from tests.support.delegates import custom_ops
from tests.support.engine_runs import Heard, run_until_a_burst, run_whole

SWITCH = "session.disable_prepacking"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "branch.onnx"
    path.write_bytes(onnx_models.onnx_branch())
    return path


def heard(model: Path, **asked: Any) -> Heard:
    spec = EngineSpec(str(model), "onnx", threads=1, warmup_runs=1, runs=5, session=SessionChoices(**asked))
    return run_whole(ProcessEngine(spec))


def configured(**asked: Any) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    onnx_session.configure(onnxruntime, options, {"session": asked})
    return options


def test_each_option_reaches_the_session() -> None:
    plain = configured()
    assert plain.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert plain.enable_cpu_mem_arena
    asked = configured(optimize=0, inter_threads=3, execution="parallel", arena=False, config={SWITCH: "1"})
    assert asked.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert asked.inter_op_num_threads == 3
    assert asked.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert not asked.enable_cpu_mem_arena
    assert asked.get_session_config_entry(SWITCH) == "1"
    three = configured(optimize=3)
    assert three.graph_optimization_level == plain.graph_optimization_level


def test_what_is_set_is_recorded_and_the_rest_is_not(model: Path) -> None:
    told = heard(model, optimize=1, inter_threads=2, execution="parallel", arena=False, config={SWITCH: "0"})
    assert told.one(Ended).reason == "runs"
    assert told.one(Loaded).settings == {
        "optimize": "1", "inter_op_threads": "2", "execution_mode": "parallel", "arena": "off", SWITCH: "0",
    }  # fmt: skip
    assert heard(model).one(Loaded).settings == {}


def test_optimisation_changes_the_operators_that_run(model: Path) -> None:
    def operators(level: int) -> list[str]:
        session = SessionChoices(optimize=level)
        spec = EngineSpec(str(model), "onnx", threads=1, warmup_runs=1, profile_every_ns=10**10, session=session)
        from edgetop.engines.engine_protocol import BurstTaken

        return sorted(one.op_type for one in run_until_a_burst(spec).all(BurstTaken)[0].operators)

    assert len(operators(0)) >= len(operators(3))


def test_a_library_of_custom_operators_is_loaded(model: Path, tmp_path: Path) -> None:
    told = heard(model, custom_ops=(str(custom_ops(tmp_path)),))
    assert told.one(Ended).reason == "runs"
    assert "custom operators registered" in [line.message for line in told.all(LogLine)]
    assert told.one(Loaded).settings == {"custom_ops": "libcustom_ops.so"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"config": {"session.disable_prepackin": "1"}}, "has no such option"),
        ({"config": {SWITCH: "yes"}}, "is 0 or 1"),
        ({"config": {"session.intra_op_num_threads": "1"}}, "has an option of its own"),
        ({"config": {"session." + "x" * 2000: "1"}}, "has no such option"),
        ({"config": {"ep." + "x" * 2000: "1"}}, "longer than maximum length"),
        ({"custom_ops": ["/no/such.so"]}, "no such file"),
        ({"custom_ops": ["/etc/passwd"]}, "ONNX Runtime cannot load it"),
    ],
)
def test_what_would_have_no_effect_is_refused_in_one_line(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(EngineError, match=words) as error:
        configured(**asked)
    assert error.value.stage == "input"
    assert "\n" not in error.value.message + error.value.advice
    assert len(error.value.message) < 700


def test_a_value_that_onnx_runtime_refuses_names_the_option(model: Path) -> None:
    failed = heard(model, config={"session.dynamic_block_base": "zz"}).one(Failed)
    assert (failed.stage, failed.is_input_error) == ("model", True)
    assert "--session-option session.dynamic_block_base=zz" in failed.advice


def test_the_documented_keys_are_known_to_this_version(model: Path) -> None:
    known = onnx_session._known_keys(onnxruntime)
    assert {SWITCH, "session.dynamic_block_base", "session.intra_op_thread_affinities"} <= known
