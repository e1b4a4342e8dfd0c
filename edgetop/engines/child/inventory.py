"""What this interpreter could run: `python child/__main__.py --inventory` prints it as JSON.

Each runtime is really imported, because one that is installed may still not load.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import platform
import sys
from typing import Any, Dict, Sequence

from .adapters import RUNTIMES
from .errors import one_line


def main(argv: Sequence[str] = ()) -> int:  # noqa: ARG001  as the program has it
    numpy = _module("numpy")
    found = {name: _module(runtime[1]) for name, runtime in RUNTIMES.items()}
    runtimes = {name: module for name, module in found.items() if module is not None}
    json.dump({"python": platform.python_version(), "numpy": numpy, "runtimes": runtimes}, sys.stdout)
    return 0


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
