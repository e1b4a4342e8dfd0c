"""Every code of a warning stands in `edgetop help warnings`, and none that there is not."""

import ast
import functools
import re
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest

import edgetop
from edgetop.analysis.findings import EVENT_CODES, Finding
from edgetop.analysis.notices import LABELS
from edgetop.analysis.slowdowns.slow_inferences import CAUSES
from edgetop.comparison.fairness import CONDITIONS

pytestmark = pytest.mark.slow

TOPIC = resources.files("edgetop").joinpath("docs/warnings.md").read_text(encoding="utf-8")
CODES, REST = TOPIC.split("## Intervals")
FIXED_CODES = {kind.code for kind in get_args(Finding) if isinstance(kind.code, str)}
SETTING_CODES = {f"{name.replace('_', '-')}-differs" for name in LABELS.values()}
FOLDER = Path(edgetop.__file__).parent


@functools.cache
def codes_made() -> set[str]:
    """The codes of findings, and the first argument of every Notice that the program makes, where it is a constant."""
    codes = {*EVENT_CODES, *FIXED_CODES, *SETTING_CODES, *(condition.code for condition in CONDITIONS)}
    for path in FOLDER.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "Notice(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Notice":
                code = node.args[0]
                if isinstance(code, ast.Constant):
                    codes.add(str(code.value))
    return codes


def codes_told() -> set[str]:
    return set(re.findall(r"^\| `([a-z0-9-]+)`", CODES, re.MULTILINE))


def test_the_topic_lists_every_code() -> None:
    assert codes_made() - codes_told() == set()


def test_the_topic_lists_no_code_that_there_is_not() -> None:
    assert codes_told() - codes_made() == set()


def test_the_search_finds_codes() -> None:
    assert {"not-settled", "p99-differs", "leak", "assumed-shape"} <= codes_made()


def test_the_topic_lists_every_cause_of_the_tail() -> None:
    assert {cause for cause in CAUSES if f"`{cause}`" not in REST} == set()
