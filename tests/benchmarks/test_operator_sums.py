"""Whether the operators of a burst add up to an inference that is not instrumented, runtime by runtime.

Each burst is compared with the inferences right before and after it, for the speed of a
machine drifts; the median over the bursts counts.
"""

import time

import numpy as np
import pytest

from edgetop.engines.engine_protocol import BurstTaken, ProfilerChosen
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from tests.support import onnx_models, tflite_models
from tests.support.engine_runs import hear_until_measuring
from tests.support.environments import environment, find_interpreter
from tests.support.model_files import light
from tests.support.priority import put_first
from tests.support.waiting import wait_until

pytestmark = pytest.mark.benchmark

BURSTS = 60
NEAR_NS = 300_000_000
WITHIN = 0.10
MODELS = {
    "onnx": {"ladder": onnx_models.onnx_ladder, "squeezenet": lambda: light("squeezenet")},
    "tflite": {"ladder": tflite_models.tflite_ladder, "mobilenet": tflite_models.tflite_half_ms},
}
# engine, format, requirements of an environment of its own
WAYS = {
    "onnxruntime": ("onnxruntime", "onnx", ()),
    "onnxruntime-1.24": ("onnxruntime", "onnx", ("onnxruntime==1.24.*", "numpy")),
    "litert": ("litert", "tflite", ()),
    "tflite-runtime": ("tflite-runtime", "tflite", ("tflite-runtime==2.14.*", "numpy<2")),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("way", "model"), [(way, model) for way, (_, suffix, _) in WAYS.items() for model in MODELS[suffix]]
)
def test_operators_add_up_to_an_inference(way, model, tmp_path, capsys):
    engine_name, suffix, requirements = WAYS[way]
    path = tmp_path / f"{model}.{suffix}"
    path.write_bytes(MODELS[suffix][model]())
    python = str(environment(find_interpreter("3.11"), *requirements)) if requirements else None
    engine = ProcessEngine(
        EngineSpec(str(path), suffix, engine=engine_name, threads=1, profile_every_ns=10_000_000_000), python
    )
    try:
        engine.start()
        heard = hear_until_measuring(engine)
        put_first(engine.pid)
        for taken in range(1, BURSTS + 1):
            engine.profile()
            wait_until(lambda taken=taken: heard.listen(engine) or len(heard.all(BurstTaken)) >= taken)
            until = time.monotonic_ns() + NEAR_NS
            wait_until(lambda until=until: heard.listen(engine) or time.monotonic_ns() > until)
    finally:
        engine.close()
    ratios = [_ratio(burst, heard.in_phase("measure")) for burst in heard.all(BurstTaken)]
    with capsys.disabled():
        operators = len(heard.all(BurstTaken)[0].operators)
        shown = f"sum/p50 {np.median(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]"
        print(f"\n{way:>16} {model:<10} {operators:4} operators  {shown}  {heard.one(ProfilerChosen).way}")
    assert abs(np.median(ratios) - 1) <= WITHIN


def _ratio(burst, records):
    """The sum of what the operators took, to the median of the inferences near the burst."""
    ends = records["t_ns"] + records["latency_ns"]
    near = (ends > burst.monotonic_ns - NEAR_NS) & (records["t_ns"] < burst.monotonic_ns + burst.duration_ns + NEAR_NS)
    calls = len(burst.run_ns)
    return sum(operator.total_ns for operator in burst.operators) / calls / np.median(records["latency_ns"][near])
