"""Answer questions about the runtimes outside a measured run, as JSON on stdout.

`python child/__main__.py --inventory` lists the runtimes that can be imported. Each is really imported, in a process of
its own, because an installed runtime may still not load, or crash.

`python child/__main__.py --tensor-shapes` gives the shapes of all tensors of a TFLite model. Some shapes are known only
after an inference, so one is made. It uses the runtime's own kernels: for tensors inside a delegate, an interpreter
only reports the shapes in the file. This is a separate process, so that the measured process is not changed.

`python child/__main__.py --placement` says which provider of ONNX Runtime takes which operators of a model, and why not
others. It makes a session and runs no inference.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import platform
import sys
import time
from typing import Any, Callable, Dict, Sequence

from .adapters import RUNTIMES, choose, why_unusable
from .engine_error import EngineError, typed_line
from .forked_calls import CallFailedError, ForkedCall
from .plugins import GROUP, SUFFIX_GROUP, entry_points

PATIENCE_S = 45.0  # for each runtime: enough for a cold start from a slow SD card


def main(argv: Sequence[str]) -> int:
    """Print the answer to the question in `argv`, as JSON, and return the exit code.

    `argv` is ["--inventory"], ["--tensor-shapes"] or ["--placement"]. For the last two, the specification of the model
    is read from stdin. An error is printed as one line on stderr.
    """
    ask: Callable[[Dict[str, Any]], Any] = placement if "--placement" in argv else tensor_shapes
    try:
        answer = inventory() if "--inventory" in argv else ask(json.loads(sys.stdin.readline()))
    except EngineError as error:
        sys.exit(error.message)
    print(json.dumps(answer))  # noqa: T201  the answer
    return 0


def inventory() -> Dict[str, Any]:
    """Return the Python version, and a description of numpy, of each runtime and of each plug-in.

    Each of them is imported in a separate process, all at the same time. A module that crashes or hangs gets an
    "error", and does not affect the other descriptions.
    """
    installed = {name: runtime.module for name, runtime in RUNTIMES.items() if _is_installed(runtime.module)}
    points = entry_points(GROUP)
    with contextlib.ExitStack() as calls:

        def begin(ask: Callable[[], Any]) -> ForkedCall:
            call = ForkedCall(ask)
            calls.callback(call.end)
            return call

        numpy = begin(lambda: _module("numpy")) if _is_installed("numpy") else None
        runtimes = {name: begin(functools.partial(_runtime, name, module)) for name, module in installed.items()}
        plugins = {name: begin(functools.partial(_why_unusable, name)) for name in points}
        until_s = time.monotonic() + PATIENCE_S
        return {
            "python": platform.python_version(),
            "numpy": None if numpy is None else _described(numpy, until_s),
            "runtimes": {name: _described(call, until_s) for name, call in runtimes.items()},
            "plugins": {name: _plugin(point, plugins[name], until_s) for name, point in points.items()},
        }


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _described(call: ForkedCall, until_s: float) -> Dict[str, Any]:
    """Return what `_module` returned in another process. If that process failed, "error" says how.

    `until_s` is the time of `time.monotonic`, in s, until which to wait.
    """
    try:
        described: Dict[str, Any] = call.result(until_s)
    except CallFailedError as error:
        return {"version": None, "providers": [], "error": str(error)}
    return described


def _runtime(name: str, module: str) -> Dict[str, Any]:
    described = _module(module)
    with contextlib.suppress(ImportError):  # without numpy, which is reported as missing
        described["error"] = described["error"] or why_unusable(name) or None
    return described


def _plugin(point: Any, call: ForkedCall, until_s: float) -> Dict[str, Any]:
    """Return a dict with the "suffixes", "package" and "error" of a plug-in. `point` is its entry point.

    `call` calls `_why_unusable` in another process, for which to wait until `until_s`, in s. "error" says why the
    plug-in cannot be used, and is None if it can.
    """
    registered = entry_points(SUFFIX_GROUP).items()
    suffixes = sorted("." + suffix for suffix, other in registered if other.value == point.value)
    package = getattr(point, "dist", None)
    described: Dict[str, Any] = {"suffixes": suffixes}
    described["package"] = None if package is None else "%s %s" % (package.metadata["Name"], package.version)
    try:
        described["error"] = call.result(until_s) or None
    except CallFailedError as error:
        described["error"] = str(error)
    return described


def _why_unusable(plugin: str) -> str:
    from .adapters.public_engine import from_plugin  # noqa: PLC0415  imports numpy, which may be missing

    try:
        return from_plugin(plugin).unusable()
    except EngineError as error:
        return error.message


def _module(name: str) -> Dict[str, Any]:
    """Import a module, and return a dict with its "version", "providers" and "error".

    "error" says why the module does not load, and is None if it does.
    """
    described: Dict[str, Any] = {"version": None, "providers": [], "error": None}
    try:
        module = importlib.import_module(name)
        described["version"] = str(getattr(module, "__version__", "")) or None
        if hasattr(module, "get_available_providers"):
            described["providers"] = [str(provider) for provider in module.get_available_providers()]
    except BaseException as error:  # SystemExit too: a runtime that calls exit() does not load
        described["error"] = typed_line(error)
    return described


def tensor_shapes(spec: Dict[str, Any]) -> Dict[str, Any]:
    """Return the shapes of all tensors of a TFLite model, after one inference with the inputs of `spec`.

    The result is {"runtime": "litert 2.1.0", "shapes": [[index in the file, shape], ...]}. Raises EngineError if the
    model cannot be run.
    """
    from .inputs import bound  # noqa: PLC0415  imports numpy, which the inventory may report as missing

    adapter, _ = choose(spec["engine"], spec["format"])
    plain = dict(spec, threads=1, delegates=[], providers=[], profile_every_ns=0, xnnpack=False)
    infer = bound(adapter, plain)
    try:
        infer()
    except Exception as error:  # runtimes raise errors of any type
        raise EngineError("first", str(error)) from None
    description = adapter.describe()
    return {"runtime": "%s %s" % (description["runtime"], description["version"]), "shapes": adapter.tensor_shapes()}


def placement(spec: Dict[str, Any]) -> Dict[str, Any]:
    """Return which provider takes which operators of an ONNX model, as `onnx_placement.find` describes it.

    Raises EngineError if the model cannot be loaded.
    """
    from .profilers import onnx_placement  # noqa: PLC0415  imports numpy, as above

    adapter, _ = choose(spec["engine"], spec["format"], spec["providers"])
    return onnx_placement.find(spec, adapter)
