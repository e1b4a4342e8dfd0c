"""An engine of each runtime that is profiled in its own way, in its measured phase."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from tests.support import onnx_models, tflite_models
from tests.support.engine_runs import Heard, hear_until_measuring
from tests.support.environments import environment, find_interpreter
from tests.support.priority import put_first

_REQUIREMENTS = {
    "onnxruntime-1.24": ("onnxruntime==1.24.*", "numpy"),
    "tflite-runtime": ("tflite-runtime==2.14.*", "numpy<2"),
}
RUNTIMES = ("onnxruntime", "onnxruntime-1.24", "litert", "tflite-runtime")


@contextlib.contextmanager
def started(runtime: str, size: str, folder: Path, every_ns: int) -> Iterator[tuple[ProcessEngine, Heard]]:
    """`every_ns`: between bursts; 0: none."""
    name, _, _ = runtime.partition("-1")
    models, suffix = (onnx_models, "onnx") if name == "onnxruntime" else (tflite_models, "tflite")
    model = folder / f"{size}.{suffix}"
    model.write_bytes(getattr(models, f"{suffix}_{size}")())
    python = None
    if runtime in _REQUIREMENTS:
        found = find_interpreter("3.11")
        assert found
        python = str(environment(found, *_REQUIREMENTS[runtime]))
    engine = ProcessEngine(EngineSpec(str(model), suffix, engine=name, threads=1, profile_every_ns=every_ns), python)
    try:
        engine.start()
        heard = hear_until_measuring(engine)
        put_first(engine.pid)
        yield engine, heard
    finally:
        if engine.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(engine.pid, signal.SIGCONT)
        engine.close()
