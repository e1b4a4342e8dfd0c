"""Answer questions about the runtimes outside a measured run, as JSON on stdout.

`python child/__main__.py --inventory` lists the runtimes that can be imported. Each is really imported, because an
installed runtime may still not load.

`python child/__main__.py --tensor-shapes` gives the shapes of all tensors of a TFLite model. Some shapes are known only
after an inference, so one is made. It uses the runtime's own kernels: for tensors inside a delegate, an interpreter
only reports the shapes in the file. This is a separate process, so that the measured process is not changed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import platform
import sys
from typing import Any, Dict, Sequence

from .adapters import RUNTIMES, choose, why_unusable
from .engine_error import EngineError, one_line
from .plugins import GROUP, SUFFIX_GROUP, entry_points


def main(argv: Sequence[str]) -> int:
    """Print the answer to the question in `argv`, as JSON, and return the exit code.

    `argv` is ["--inventory"] or ["--tensor-shapes"]. For the latter, the specification of the model is read from stdin.
    An error is printed as one line on stderr.
    """
    try:
        answer = inventory() if "--inventory" in argv else tensor_shapes(json.loads(sys.stdin.readline()))
    except EngineError as error:
        sys.exit(error.message)
    print(json.dumps(answer))  # noqa: T201  the answer
    return 0


def inventory() -> Dict[str, Any]:
    modules = {name: _module(runtime.module) for name, runtime in RUNTIMES.items()}
    runtimes = {name: module for name, module in modules.items() if module is not None}
    for name, module in runtimes.items():
        with contextlib.suppress(ImportError):  # without numpy, which is reported as missing
            module["error"] = module["error"] or why_unusable(name) or None
    return {
        "python": platform.python_version(),
        "numpy": _module("numpy"),
        "runtimes": runtimes,
        "plugins": {name: _plugin(name, point) for name, point in entry_points(GROUP).items()},
    }


def _plugin(name: str, point: Any) -> Dict[str, Any]:
    """Return a dict with the "suffixes", "package" and "error" of a plug-in. `point` is its entry point.

    `name` is the engine's name. "error" says why the plug-in cannot be used, and is None if it can.
    """
    registered = entry_points(SUFFIX_GROUP).items()
    suffixes = sorted("." + suffix for suffix, other in registered if other.value == point.value)
    package = getattr(point, "dist", None)
    described: Dict[str, Any] = {"suffixes": suffixes, "error": None}
    described["package"] = None if package is None else "%s %s" % (package.metadata["Name"], package.version)
    try:
        from .adapters.public_engine import from_plugin  # noqa: PLC0415  imports numpy, which may be missing

        described["error"] = from_plugin(name).unusable() or None
    except EngineError as error:
        described["error"] = error.message
    except BaseException as error:  # SystemExit too
        described["error"] = "%s: %s" % (type(error).__name__, one_line(error))
    return described


def _module(name: str) -> Any:
    """Return a dict with the "version", "providers" and "error" of a Python module, or None if it is not installed.

    "error" says why the module does not load, and is None if it does.
    """
    if importlib.util.find_spec(name) is None:
        return None
    described: Dict[str, Any] = {"version": None, "providers": [], "error": None}
    try:
        module = importlib.import_module(name)
        described["version"] = str(getattr(module, "__version__", "")) or None
        if hasattr(module, "get_available_providers"):
            described["providers"] = [str(provider) for provider in module.get_available_providers()]
    except BaseException as error:  # SystemExit too: a runtime that calls exit() does not load
        described["error"] = "%s: %s" % (type(error).__name__, one_line(error))
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
