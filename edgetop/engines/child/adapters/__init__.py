"""The runtimes that the child can run, listed without importing any of them.

An adapter is a class with `open(spec, imported)`, `inputs`, `bind(feeds)`, `describe()`, and `serves_all_streams`,
which says whether one adapter can run several streams. Each has a file, and LiteRT's accelerators have another one.
`choose` takes the first runtime that is installed, and says which ones it passed over.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Dict, List, Sequence, Tuple

from ..engine_error import EngineError, one_line

# Providers of a TFLite runtime's interpreter: its own kernels, and its default delegate.
ON_THE_CPU = ("CPU", "XNNPACK")

# engine name -> (format, module that must be importable, adapter module, adapter class, extra to install)
RUNTIMES: Dict[str, Tuple[str, str, str, str, str]] = {
    "onnxruntime": ("onnx", "onnxruntime", "onnx", "OnnxRuntime", "onnxruntime"),
    "litert": ("tflite", "ai_edge_litert", "tflite", "LiteRt", "ai-edge-litert"),
    "tflite-runtime": ("tflite", "tflite_runtime", "tflite", "TfliteRuntime", "tflite-runtime"),
    "llama.cpp": ("gguf", "xllamacpp", "llama_cpp", "LlamaCpp", "xllamacpp"),
}


def choose(engine: str, model_format: str, providers: Sequence[Any] = ()) -> Tuple[Any, str]:
    """Return an adapter that runs a model of this format on these providers, and a phrase that says why it was chosen.

    `engine` is a name in RUNTIMES, or "auto" for the first one of the format that is installed and usable. Raises
    EngineError("runtime") if the requested one is not installed, or if none is.
    """
    if engine != "auto":
        if not _is_installed(engine):
            raise EngineError("runtime", "%s is not installed for %s" % (engine, sys.executable), _install_hint(engine))
        return _adapter(engine, providers), "asked for"
    names = [name for name, runtime in RUNTIMES.items() if runtime[0] == model_format]
    installed = [name for name in names if _is_installed(name)]
    if not installed:
        text = "no runtime for %s models is installed for %s" % (model_format, sys.executable)
        raise EngineError("runtime", text, _install_hint(names[0]))
    passed_over: List[str] = []
    for place, name in enumerate(installed):
        reason = _adapter(name).unusable()
        if not reason:
            others = installed[place + 1 :]
            why = [*passed_over, "taken before %s" % ", ".join(others)] if others else passed_over
            return _adapter(name, providers), "; ".join(why) or "the only one installed"
        passed_over.append("not %s: %s" % (name, reason))
    return _adapter(installed[0], providers), passed_over[0]


def why_unusable(name: str) -> str:
    """Return the reason why an installed runtime cannot work here, or "". Raises ImportError if numpy is missing."""
    reason: str = _adapter(name).unusable()
    return reason


def _is_installed(name: str) -> bool:
    module = RUNTIMES[name][1]
    return module in sys.modules or importlib.util.find_spec(module) is not None


def _adapter(name: str, providers: Sequence[Any] = ()) -> Any:
    _, _, module, class_name, _ = RUNTIMES[name]
    if name == "litert" and any(provider.upper() not in ON_THE_CPU for provider, _ in providers):
        module, class_name = "litert_compiled", "CompiledLiteRt"  # for the CPU alone, an interpreter is used
    return getattr(importlib.import_module("." + module, __name__), class_name)()


def _install_hint(name: str) -> str:
    command = "%s -m pip install %s" % (sys.executable, RUNTIMES[name][4])
    return command + ", or name an interpreter that has it with --engine-python"


def open_helper(spec: Dict[str, Any], service: str) -> Any:
    """Start a helper process that profiles with the module `service` of `profilers`. Raises ProfilingError."""
    from ..profilers.helper import Helper  # noqa: PLC0415  most engines never start a process

    return Helper(spec, service)


def package_version(package: str) -> str:
    from importlib import metadata  # noqa: PLC0415  loads `email`, which the conductor does not need

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def import_runtime(module: str) -> Any:
    """Import a runtime's module. Raises EngineError("runtime") if that fails although it is installed."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # for example a missing library, or another version of numpy
        text = "%s is installed for %s, but cannot be imported: %s" % (module, sys.executable, one_line(error))
        raise EngineError("runtime", text, "name an interpreter where it works with --engine-python") from None
