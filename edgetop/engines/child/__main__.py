"""Start the engine child from the path of this file, whatever the interpreter's `sys.path` is.

An interpreter that may not have edgetop installed runs this file as a script. Python puts the script's folder on
`sys.path`. This program removes the folder again, so that no file here shadows a module of the runtime. Then it imports
the package from its location.
"""

import importlib.util
import os
import sys
from types import ModuleType

PACKAGE = "edgetop_engine"


def _import_module(name: str) -> ModuleType:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    assert spec is not None and spec.loader is not None  # noqa: PT018
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    return importlib.import_module(PACKAGE + "." + name)


def main() -> int:
    """Run the child and return its exit code. If an import fails, exit with one line on stderr that says why."""
    is_query = sys.argv[1:] in (["--inventory"], ["--tensor-shapes"], ["--placement"])
    try:
        module = _import_module("runtime_queries" if is_query else "child_program")
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ or cause.__context__:  # numpy wraps the cause of a failed import into a page of advice
            cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
        sys.exit("%s: %s" % (type(cause).__name__, " ".join(str(cause).split())))
    return int(module.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
