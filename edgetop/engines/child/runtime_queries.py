"""Queries to the runtimes apart from a measured run, answered as JSON on stdout.

`python child/__main__.py --inventory`: the runtimes that can be imported. Each is really imported, because one that is
installed may still not load.

`python child/__main__.py --tensor-shapes`: the shapes of all tensors of a TFLite model. Some follow only from an
inference, so one is made, by the runtime's own kernels: for tensors inside a delegate, an interpreter reports the
shapes of the file. It runs in a process of its own, so that the measured one stays as it is.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import platform
import sys
from typing import Any, Dict, Sequence

from .adapters import RUNTIMES, choose
from .engine_error import EngineError, one_line


def main(argv: Sequence[str]) -> int:
    """Print the answer. The spec for `--tensor-shapes` comes on stdin; an error is one line on stderr."""
    try:
        answer = inventory() if "--inventory" in argv else tensor_shapes(json.loads(sys.stdin.readline()))
    except EngineError as error:
        sys.exit(error.message)
    print(json.dumps(answer))  # noqa: T201  the answer
    return 0


def inventory() -> Dict[str, Any]:
    modules = {name: _module(runtime[1]) for name, runtime in RUNTIMES.items()}
    runtimes = {name: module for name, module in modules.items() if module is not None}
    return {"python": platform.python_version(), "numpy": _module("numpy"), "runtimes": runtimes}


def _module(name: str) -> Any:
    """None where it is not installed; else its version and providers, or why it does not load."""
    if importlib.util.find_spec(name) is None:
        return None
    described: Dict[str, Any] = {"version": None, "providers": [], "error": None}
    try:
        module = importlib.import_module(name)
        described["version"] = str(getattr(module, "__version__", "")) or None
        if hasattr(module, "get_available_providers"):
            described["providers"] = [str(provider) for provider in module.get_available_providers()]
    except BaseException as error:  # a runtime that calls exit() is one that does not load
        described["error"] = "%s: %s" % (type(error).__name__, one_line(error))
    return described


def tensor_shapes(spec: Dict[str, Any]) -> Dict[str, Any]:
    """{"runtime", "shapes": [[place in the file, shape], ...]}, with the inputs of `spec`. Raises EngineError."""
    from .inputs import bound  # noqa: PLC0415  imports numpy, which the inventory may report as missing

    adapter, _ = choose(spec["engine"], spec["format"])
    plain = dict(spec, threads=1, delegates=[], providers=[], profile_every_ns=0, xnnpack=False)
    infer = bound(adapter, plain)
    try:
        infer()
    except Exception as error:  # the runtime's own: any type it likes
        raise EngineError("first", str(error)) from None
    description = adapter.describe()
    return {"runtime": "%s %s" % (description["runtime"], description["version"]), "shapes": adapter.tensor_shapes()}
