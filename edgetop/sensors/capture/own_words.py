"""Find which names of hosts and users are words of edgetop's own texts.

A host may be called `board` or `sensors`. Such a name identifies nobody, and removing it would blank edgetop's own
sentences. The words are looked up in edgetop's source, so no list of them has to be kept.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # its place depends on the version of Python
    from importlib.abc import Traversable

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=8)
def own_words(names: frozenset[str]) -> frozenset[str]:
    """Return those of `names` that occur as whole words in edgetop's own texts, or that are names of its fields.

    `names` are names of hosts and users in lower case. Texts are the string constants in edgetop's source, without
    docstrings. For example, "board" occurs there, and "annas-board" does not.
    """
    found: frozenset[str] = frozenset()
    for source in _sources(resources.files("edgetop")):
        if names == found:
            break
        # Only what was not found yet is looked for: most modules have the word "root", and parsing one takes long.
        pattern = _any_of(names - found)
        if pattern.search(source.lower()):
            found |= set(pattern.findall("\n".join(_texts(source)).lower()))
    return found


def _any_of(names: frozenset[str]) -> "re.Pattern[str]":
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")


def _sources(folder: "Traversable") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_text(encoding="utf-8")


def _texts(source: str) -> Iterator[str]:
    """Yield the string constants in the source of a module, without docstrings, and the names of annotated fields."""
    tree = ast.parse(source)
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, _WITH_DOCSTRING) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
