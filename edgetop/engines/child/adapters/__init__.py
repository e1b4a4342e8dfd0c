"""The runtimes that the engine child can run, listed without importing any of them.

An adapter is a class that makes a runtime load and run a model. Its `open(spec, imported)` loads the model. Its
`inputs` are the model's inputs. Its `bind(feeds)` returns a call that runs one inference with the arrays `feeds`. Its
`describe()` returns what was loaded. Its `serves_all_streams` says whether one adapter can run several inferences at
the same time. Each adapter is in a file of its own. Engines of the public interface (edgetop/engine_interface.py) are
adapted by `public_engine.py`. `choose` takes the first runtime that is installed and usable, and says which ones it
passed over.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..engine_error import EngineError, one_line

# Providers of a TFLite runtime's interpreter: its own kernels, and its default delegate.
ON_THE_CPU = ("CPU", "XNNPACK")


class Runtime(NamedTuple):
    """A runtime that edgetop supports, such as ONNX Runtime: its model formats, and the class that adapts it."""

    formats: Tuple[str, ...]  # formats of models that it runs; the first one is its own
    module: str  # that must be importable
    adapter: str  # module of this package
    class_name: str
    package: str  # what to install


RUNTIMES: Dict[str, Runtime] = {
    "onnxruntime": Runtime(("onnx",), "onnxruntime", "onnx", "OnnxRuntime", "onnxruntime"),
    "litert": Runtime(("tflite",), "ai_edge_litert", "tflite", "LiteRt", "ai-edge-litert"),
    "tflite-runtime": Runtime(("tflite",), "tflite_runtime", "tflite", "TfliteRuntime", "tflite-runtime"),
    "llama.cpp": Runtime(("gguf",), "xllamacpp", "llama_cpp", "LlamaCpp", "xllamacpp"),
    "openvino": Runtime(("openvino", "onnx", "tflite"), "openvino", "openvino_engine", "OpenVino", "openvino"),
    "ncnn": Runtime(("ncnn",), "ncnn", "ncnn_engine", "Ncnn", "ncnn"),
}


def names_text(*formats: str) -> str:
    """Return the names of the runtimes that run models of at least one of `formats`, as a phrase for a help text.

    Without `formats`, all runtimes are named.

    >>> names_text("onnx", "tflite")
    'onnxruntime, litert, tflite-runtime or openvino'
    """
    *names, last = (name for name, of in RUNTIMES.items() if not formats or set(formats) & set(of.formats))
    return "%s or %s" % (", ".join(names), last)


def runtimes_of(model_format: str) -> List[str]:
    """Return the names of the runtimes that run models of a format, such as "tflite".

    The preferred runtime is the first one. Runtimes that were made for another format come last.

    >>> runtimes_of("tflite")
    ['litert', 'tflite-runtime', 'openvino']
    """
    names = [name for name, runtime in RUNTIMES.items() if model_format in runtime.formats]
    return sorted(names, key=lambda name: RUNTIMES[name].formats[0] != model_format)


def choose(engine: str, model_format: str, providers: Sequence[Any] = ()) -> Tuple[Any, str]:
    """Choose a runtime. Return an adapter that runs models in it, and a phrase that says why it was chosen.

    `engine` is a name in RUNTIMES, the name of a plug-in, or "auto". "auto" chooses the first installed and usable
    runtime for `model_format`, such as "onnx". If no installed runtime is usable, "auto" chooses the first installed
    one. `providers` are `(name, options)` pairs, such as `("CPU", {})`. Raises EngineError("runtime") if `engine` is
    not installed, or with "auto" if no runtime for the format is installed.
    """
    if engine != "auto":
        if engine not in RUNTIMES:
            return _plugin(engine), "asked for"
        if not _is_installed(engine):
            raise EngineError("runtime", "%s is not installed for %s" % (engine, sys.executable), _install_hint(engine))
        return _adapter(engine, providers), "asked for"
    names = runtimes_of(model_format)
    if not names:
        return _plugin(model_format), "the engine of such files"
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
    """Return why an installed runtime cannot work here, in words, or "" if it can.

    `name` is a name in RUNTIMES, such as "litert". Raises ImportError if numpy is missing.
    """
    reason: str = _adapter(name).unusable()
    return reason


def _is_installed(name: str) -> bool:
    module = RUNTIMES[name].module
    return module in sys.modules or importlib.util.find_spec(module) is not None


def _adapter(name: str, providers: Sequence[Any] = ()) -> Any:
    module, class_name = RUNTIMES[name].adapter, RUNTIMES[name].class_name
    if name == "litert" and any(provider.upper() not in ON_THE_CPU for provider, _ in providers):
        module, class_name = "litert_compiled", "CompiledLiteRt"  # for the CPU alone, an interpreter is used
    made = getattr(importlib.import_module("." + module, __name__), class_name)
    if not hasattr(made, "interface"):
        return made()
    from .public_engine import PublicEngine  # noqa: PLC0415  for such engines alone

    return PublicEngine(name, lambda: made)


def _plugin(name: str) -> Any:
    from .public_engine import from_plugin  # noqa: PLC0415  as above

    return from_plugin(name)


def _install_hint(name: str) -> str:
    command = "%s -m pip install %s" % (sys.executable, RUNTIMES[name].package)
    return command + ", or name an interpreter that has it with --engine-python"


def open_helper(spec: Dict[str, Any], service: str, environment: Optional[Dict[str, str]] = None) -> Any:
    """Start a helper process that profiles operators, and return it. Raises ProfilingError if it does not start.

    `spec` has the fields of `EngineSpec` by name. `service` is the name of a module in `profilers`, such as
    "onnx_trace". `environment` has environment variables for the helper, in addition to those of this process.
    """
    from ..profilers.helper import Helper  # noqa: PLC0415  most engines never start a process

    return Helper(spec, service, environment)


def package_version(package: str) -> str:
    from importlib import metadata  # noqa: PLC0415  loads `email`, which the conductor does not need

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def import_runtime(module: str) -> Any:
    """Import a runtime's module and return it. `module` is a name such as "onnxruntime".

    Raises EngineError("runtime") if that fails although the module is installed.
    """
    try:
        return importlib.import_module(module)
    except Exception as error:  # for example a missing library, or another version of numpy
        text = "%s is installed for %s, but cannot be imported: %s" % (module, sys.executable, one_line(error))
        raise EngineError("runtime", text, "name an interpreter where it works with --engine-python") from None
