"""The engines by name, listed without importing one, and the way to build each."""

from edgetop.engines.child.adapters import RUNTIMES
from edgetop.errors import InputError
from edgetop.nearest import nearest_hint

ALIASES = {"onnx": "onnxruntime", "ort": "onnxruntime", "ai-edge-litert": "litert", "tflite_runtime": "tflite-runtime"}


def engine_for(name: str | None, model_format: str) -> str:
    """The engine's canonical name, or "auto". Raises InputError for an unknown or unfit one."""
    if name is None or name in ("auto", model_format):
        return "auto"
    canonical = ALIASES.get(name.lower(), name.lower())
    if canonical not in RUNTIMES:
        raise InputError(f"--engine {name}: unknown", nearest_hint(canonical, RUNTIMES))
    if RUNTIMES[canonical][0] != model_format:
        fitting = ", ".join(engine for engine, runtime in RUNTIMES.items() if runtime[0] == model_format)
        raise InputError(f"--engine {name} does not run {model_format} models", f"use {fitting}")
    return canonical
