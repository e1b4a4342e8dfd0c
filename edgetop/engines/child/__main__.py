"""Starts the child from its path alone, whatever `sys.path` the interpreter came with.

Run as a script by an interpreter that may not have edgetop installed. The folder of a
script is put on `sys.path` by Python; it is taken off again, so that no file here can
shadow a module of the runtime, and the package is imported from its location instead.
"""

import importlib.util
import os
import sys
from types import ModuleType

PACKAGE = "edgetop_engine"


def _import_package() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    assert spec is not None and spec.loader is not None  # noqa: PT018
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


def _first_cause(error: BaseException) -> BaseException:
    """numpy wraps why it cannot be imported into a page of advice."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def _import_part(name: str) -> ModuleType:
    """Exits with one line on stderr where an import fails: it is all that the conductor hears then."""
    try:
        _import_package()
        return importlib.import_module(PACKAGE + "." + name)
    except Exception as error:
        cause = _first_cause(error)
        sys.exit("%s: %s" % (type(cause).__name__, " ".join(str(cause).split())))


if __name__ == "__main__":
    module = {"--inventory": "inventory", "--tensor-shapes": "reference"}.get(" ".join(sys.argv[1:]), "program")
    sys.exit(_import_part(module).main(sys.argv[1:]))
