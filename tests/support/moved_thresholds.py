"""Load a module with one threshold of its judgement moved by a share of its value.

`MovingFinder("edgetop.analysis.verdict", "SHARE", 1.2)` on `sys.meta_path` compiles that module with `SHARE =
moved(<its expression>, 1.2)`, so that all that is derived from the constant, in this and other modules, moves with it.
Nothing is written.

This module imports nothing of edgetop: the finder must be in place before the first of its modules is loaded.
"""

import ast
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TypeGuard

ROOT = Path(__file__).parents[2]


def path_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def moved(value: float, factor: float) -> float:
    """Return the value times the factor; a whole number stays one, and moves by one at least."""
    if not isinstance(value, int):
        return value * factor
    by = round(value * (factor - 1))
    return value + (by or (1 if factor > 1 else -1))


def threshold_names(module: str) -> list[str]:
    """Return the numeric constants of a module; `NAME[key]` for each number in a tuple or a dictionary."""
    return [name for name, _ in _numbers(ast.parse(path_of(module).read_text()))]


def _numbers(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield from _leaves(node.target.id, node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield from _leaves(node.targets[0].id, node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            assert isinstance(node.value, (ast.Tuple, ast.Call)), ast.unparse(node)
            for target, value in zip(node.targets[0].elts, getattr(node.value, "elts", ()), strict=False):
                yield from _leaves(ast.unparse(target), value)


def _leaves(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            yield from _leaves(f"{name}[{ast.unparse(key) if key else '**'}]", item)
    elif isinstance(value, (ast.Tuple, ast.List)):
        for place, item in enumerate(value.elts):
            yield from _leaves(f"{name}[{place}]", item)
    elif _is_number(value):
        yield name, value


def _is_number(value: ast.expr) -> bool:
    """Whether it is a number of its own: one that is derived from other names moves with them."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("round", "np.log"):  # a level
        return any(map(_is_number, value.args))
    return _is_product(value) and any(map(_is_number, (value.left, value.right)))  # with a unit: 3 * NS


def _is_product(value: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Mult, ast.Pow, ast.Div, ast.LShift))


class _Mover(ast.NodeTransformer):
    def __init__(self, expression: ast.expr, factor: float) -> None:
        self._expression, self._factor = expression, factor

    def visit(self, node: ast.AST) -> ast.AST:
        if node is not self._expression:
            return super().visit(node)
        call = ast.parse(f"__import__('{__spec__.name}', fromlist=['moved']).moved(0, {self._factor!r})", mode="eval")
        assert isinstance(call.body, ast.Call)
        call.body.args[0] = self._expression
        return call.body


class _MovedLoader(SourceFileLoader):
    def __init__(self, module: str, name: str, factor: float) -> None:
        super().__init__(module, str(path_of(module)))
        self._name, self._factor = name, factor

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        expression = dict(_numbers(tree))[self._name]
        tree = ast.fix_missing_locations(_Mover(expression, self._factor).visit(tree))
        return compile(tree, self.path, "exec")


class MovingFinder(MetaPathFinder):
    """Loads one module with one threshold moved."""

    def __init__(self, module: str, name: str, factor: float) -> None:
        self._module, self._loader = module, _MovedLoader(module, name, factor)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self._module else None
        if spec:
            spec.loader = self._loader
        return spec
