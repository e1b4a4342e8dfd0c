"""No class of ours uses or replaces a private name of a class that it inherits from another package.

A new version of the package may change such a name, or begin to use one that we have given to something else. Linting
finds `other._name` (SLF001) and no name that is reached by `self`; so this compares the sources.
"""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
import threading
from pathlib import Path

import pytest

import edgetop

# Where there is no public way. Each has a test that fails if it changes: `tests/ui`.
ALLOWED = {
    ("EdgetopApp", "_display"): "everything that goes to the terminal passes there; ours sends fewer bytes",
    ("EdgetopApp", "_batch_count"): "nothing is painted while Textual holds its own output back",
    ("EdgetopApp", "_notifications"): "nothing is painted over a toast",
    ("EdgetopApp", "_driver"): "desktop notifications, and output in one piece, are written to it",
    ("EdgetopApp", "_handle_exception"): "an error of the screen costs the screen alone",
    ("SteadyDriver", "_file"): "a terminal that is gone must not raise errors in the writer thread",
    ("SteadyDriver", "_get_terminal_size"): "standard output, which Textual asks, may be a file",
    ("SteadyDriver", "_must_signal_resume"): "whether a SIGCONT follows a SIGTSTP, or a hang-up",
    ("SteadyDriver", "_sigcont_application"): "comes back to the screen after SIGTSTP",
}
ALLOWED_IMPORTS = {
    ("ui/driver.py", "textual._xterm_parser"): "reads keys; Textual's own thread looks ten times a second for its end",
    ("ui/terminal_buffer.py", "textual._compositor"): "the updates that `_display` is given",
}

# Run in interpreters of their own; and extras that are not always there.
LEFT_OUT = (
    "edgetop.probe.",
    "edgetop.engines.child.",
    "edgetop.sensors.programs.",
    "edgetop.taps.locate",
    "edgetop.__main__",
)

PACKAGE = Path(edgetop.__file__).parent


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


@functools.cache
def own_names(cls):
    """The private names that the source of this class defines, and those that it uses, by `self` or `cls`."""
    try:
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):  # in C, or made by a function
        return {name for name in vars(cls) if is_private(name)}, set()
    defined, used = set(), set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_of_self(node.value):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.attr)
    return {name for name in defined if is_private(name)}, {name for name in used if is_private(name)}


def is_of_self(node):
    is_super = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    return is_super or (isinstance(node, ast.Name) and node.id in ("self", "cls"))


def is_ours(cls):
    return cls.__module__.partition(".")[0] in ("edgetop", __name__.partition(".")[0])


def is_foreign(cls):
    return not is_ours(cls) and cls.__module__ not in ("typing", "abc", "enum", "builtins")


def foreign_privates(cls):
    """The private names of its foreign bases that this class, or a base of ours, defines or uses."""
    theirs, ours = set(), set()
    if not any(is_foreign(base) for base in cls.__mro__):
        return theirs
    for base in cls.__mro__:
        defined, used = own_names(base) if base is not object else (set(), set())
        if is_ours(base):
            ours |= defined | used
        elif is_foreign(base):
            theirs |= defined
    return ours & theirs


def our_classes():
    """Every class of ours with a base of another package."""
    for module in pkgutil.walk_packages(edgetop.__path__, "edgetop."):
        if not module.name.startswith(LEFT_OUT):
            for cls in vars(importlib.import_module(module.name)).values():
                if isinstance(cls, type) and cls.__module__ == module.name:
                    yield cls


@pytest.mark.slow
def test_no_class_reaches_into_its_foreign_base() -> None:
    found = {(cls.__qualname__, name) for cls in our_classes() for name in foreign_privates(cls)}
    assert found == set(ALLOWED)


# A private name in the statement of an import from another package, in parentheses as well.
PRIVATE = re.compile(r"^\s*(from|import)\s+(?!edgetop\b)([^\n(]*\b_[A-Za-z]|[^\n]*\([^)]*\b_[A-Za-z])", re.MULTILINE)


def private_imports(tree):
    """Modules of other packages that are private, and their private names, as they are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.partition(".")[0] != "edgetop":
            modules = [node.module, *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        if any(is_private(part) for module in modules for part in module.split(".")):
            yield node.module if isinstance(node, ast.ImportFrom) else modules[0]


def test_nothing_private_is_imported() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        text = path.read_text(encoding="utf-8")
        is_suspect = PRIVATE.search(text) and not f"edgetop.{place.replace('/', '.')}".startswith(LEFT_OUT)
        if is_suspect:  # to parse every file takes two seconds
            found |= {(place, module) for module in private_imports(ast.parse(text))}
    assert found == set(ALLOWED_IMPORTS)


class Ours(threading.Thread):
    """Shadows one private name, uses another one, overrides a method, and has one that is its own."""

    def __init__(self) -> None:
        super().__init__()
        self._started, self._own = self._target, 1

    def _bootstrap(self) -> None:
        super()._bootstrap()


def test_each_way_is_found() -> None:
    assert foreign_privates(Ours) == {"_started", "_target", "_bootstrap"}
    tree = ast.parse(
        "from textual._compositor import X\nfrom rich.console import _y\nimport os, a._b\nfrom . import _z"
    )
    assert list(private_imports(tree)) == ["textual._compositor", "rich.console", "os"]
