"""The analysis gives codes, numbers and spans; `edgetop.wording` makes the sentences."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ANALYSIS = Path(__file__).parents[2] / "edgetop" / "analysis"
WORDS = 3  # A text of at least this many words is a sentence.
_WORD = re.compile(r"\S*[A-Za-z]\S*")

NAMES = frozenset({"{} to {}"})  # The name of a group of sensors, such as "freq/cpu0 to cpu3".


def test_no_sentence_is_made_in_the_analysis() -> None:
    found = [
        f"{path.relative_to(ANALYSIS)}: {text}"
        for path in sorted(ANALYSIS.rglob("*.py"))
        for text in _sentences(ast.parse(path.read_text()))
        if text not in NAMES
    ]
    assert found == []


def test_a_sentence_is_found_and_what_is_none_is_not() -> None:
    source = '''
"""A docstring of a module has words."""
def f(name):
    """A docstring has words."""
    assert name, "an assertion may have words"
    if not name:
        raise ValueError(f"{name}: an error has words too")
    yield f"{name} has words"
    yield "it is slow"
    yield "not-settled"
    yield f"{name} %"
    found: "dict[str, int | None]" = {}
'''
    assert set(_sentences(ast.parse(source))) == {"{}: an error has words too", "{} has words", "it is slow"}


def _sentences(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of at least WORDS words, except docstrings, types and messages of assertions."""
    ignored: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            ignored.update(ast.walk(node))
        elif isinstance(node, ast.AnnAssign):
            ignored.update(ast.walk(node.annotation))
        elif isinstance(node, ast.FunctionDef) and node.returns:
            ignored.update(ast.walk(node.returns))
    for node in ast.walk(tree):
        if node in ignored:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            ignored.update(part for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if len(_WORD.findall(text.replace("{}", "x"))) >= WORDS:
            yield text
