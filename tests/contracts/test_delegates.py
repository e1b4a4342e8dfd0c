"""Delegates at work: what one claims, XNNPACK takes and is left to the CPU, as every TFLite runtime tells it."""

from pathlib import Path

import pytest

from edgetop.engines.engine_protocol import BurstTaken, Failed, ProfilerChosen
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from tests.support import tflite_models
from tests.support.delegates import claiming_delegate
from tests.support.engine_runs import hear_until_measuring, run_whole, take_burst
from tests.support.environments import environment, find_interpreter

pytestmark = pytest.mark.slow

REQUIREMENTS = {"litert": (), "tflite-runtime": ("tflite-runtime==2.14.*", "numpy<2")}
RUNTIMES = [name for name, requirements in REQUIREMENTS.items() if not requirements or find_interpreter("3.11")]


def engine(name: str, folder: Path, **options: str) -> ProcessEngine:
    """One that runs the model of five operators with the delegate, of which the options say what it claims."""
    model = folder / "mixed.tflite"
    model.write_bytes(tflite_models.tflite_mixed())
    delegates = ((str(claiming_delegate(folder)), options),)
    spec = EngineSpec(str(model), "tflite", engine=name, threads=1, profile_every_ns=10**10, delegates=delegates)
    found = find_interpreter("3.11") if REQUIREMENTS[name] else None
    return ProcessEngine(spec, str(environment(found, *REQUIREMENTS[name])) if found else None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", RUNTIMES)
def test_what_a_delegate_claims_and_what_is_left_to_whom_is_told(name: str, tmp_path: Path) -> None:
    started = engine(name, tmp_path, ops="CONV_2D")
    try:
        started.start()
        heard = hear_until_measuring(started)
        take_burst(started, heard)
    finally:
        started.close()
    assert heard.one(ProfilerChosen).way.startswith("estimate (isolated)") == (name == "litert")
    flowing = [o for o in heard.one(BurstTaken).operators if o.op_type != "DEQUANTIZE"]
    assert [o.provider.lower() for o in flowing] == ["claiming", "cpu", "claiming", "xnnpack", "xnnpack"]
    assert [o.name for o in flowing if o.provider.lower() != "xnnpack"] == ["a", "b", "c"]
    took = {o.name: o.total_ns for o in flowing}
    assert took["a"] > took["b"] < took["c"]  # plain loops of 3x3, and a sum


def test_options_that_a_delegate_does_not_know_are_refused(tmp_path: Path) -> None:
    failed = run_whole(engine("litert", tmp_path, ops="SOFTMAX")).one(Failed)
    assert failed.stage == "input"
    assert "libclaiming.so" in failed.message
