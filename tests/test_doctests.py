"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import pytest

import edgetop

PACKAGE = Path(edgetop.__file__).parent
WITH_EXAMPLES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


def module_name(path: Path) -> str:
    return ".".join(("edgetop", *path.relative_to(PACKAGE).with_suffix("").parts))


def test_the_modules_that_promise_most_have_examples() -> None:
    assert {"edgetop.formatting", "edgetop.nearest", "edgetop.session.histogram"} <= set(
        map(module_name, WITH_EXAMPLES)
    )


@pytest.mark.parametrize("name", [module_name(path) for path in WITH_EXAMPLES])
def test_examples_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
