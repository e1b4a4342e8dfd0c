"""Classes of immutable values, like those of `dataclass(frozen=True, slots=True)`, but made in an eighth of the time.

`dataclass` compiles six functions for each class, which takes 0.5 ms of CPU. A run imports 250 such classes and only
uses some of them. Here, a class compiles `__init__`, `__eq__` and `__hash__` when they are first called, and shares its
other functions with all classes. `fields`, `replace` and `asdict` of `dataclasses` work, and type checkers see
dataclasses.
"""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda of: of


_C = TypeVar("_C", bound=type)
_Method = Callable[..., Any]
_set = object.__setattr__
OMIT = {"omit": True}  # metadata of a field that the document of a report leaves out if its value is None


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(of: _C) -> _C:
    """Return the class `of` as a class of immutable values: with slots, fixed fields, and comparison by value.

    Use it as a decorator, in place of `dataclass(frozen=True, slots=True)`. Methods that the class defines itself are
    kept.
    """
    if of.__doc__ is None:
        of.__doc__ = of.__name__  # or `dataclass` would inspect the class for a text
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(of)
    own = vars(made)
    for name, method in _SHARED.items():
        # A class that defines its equality alone has None as its hash.
        if name not in own or (name == "__hash__" and own[name] is None and "__eq__" in own):
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _first_init(self: Any, *values: Any, **named: Any) -> None:
    _compiled(self, "__init__", _init)(self, *values, **named)


def _first_eq(self: Any, other: object) -> Any:
    return _compiled(self, "__eq__", _eq)(self, other)


def _first_hash(self: Any) -> Any:
    return _compiled(self, "__hash__", _hash)(self)


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_value(_: object, name: str, __: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        _set(self, each.name, value)


_SHARED: dict[str, _Method] = {
    "__init__": _first_init, "__eq__": _first_eq, "__hash__": _first_hash, "__repr__": _repr,
    "__setattr__": _refuse_value, "__delattr__": _refuse_deletion, "__getstate__": _state, "__setstate__": _restore,
}  # fmt: skip


def _compiled(self: Any, name: str, write: Callable[[Any, dict[str, Any]], str]) -> _Method:
    """Compile the method `name` and store it in the class that defines the fields. Return the method.

    `self` is an object of that class or of a subclass. `write` returns the method's parameters and body as source text.
    """
    of = next(each for each in type(self).__mro__ if name in vars(each) and "__dataclass_fields__" in vars(each))
    found: _Method = vars(of)[name]
    if found is not _SHARED[name]:
        return found  # another thread has just compiled it
    scope: dict[str, Any] = {"_set": _set, "_no": _no}
    exec(f"def {name}{write(of, scope)}", scope)  # noqa: S102  of names of fields, as `dataclass` does
    made: _Method = scope[name]
    made.__qualname__ = f"{of.__qualname__}.{name}"
    setattr(of, name, made)
    return made


_no: Any = object()  # no value was given


def _init(of: Any, scope: dict[str, Any]) -> str:
    parameters: dict[bool, list[str]] = {False: [], True: []}  # by whether they are given by name only
    lines = []
    for each in fields(of):
        name, value = each.name, each.name
        if each.default is not MISSING:
            scope[f"_{name}"] = each.default
            parameters[bool(each.kw_only)].append(f"{name}=_{name}")
        elif each.default_factory is not MISSING:
            scope[f"_{name}"] = each.default_factory
            parameters[bool(each.kw_only)].append(f"{name}=_no")
            value = f"_{name}() if {name} is _no else {name}"
        else:
            parameters[bool(each.kw_only)].append(name)
        lines.append(f"_set(self, {name!r}, {value})")
    if hasattr(of, "__post_init__"):
        lines.append("self.__post_init__()")
    by_name = ["*", *parameters[True]] if parameters[True] else []
    return f"({', '.join(['self', *parameters[False], *by_name])}):\n " + "\n ".join(lines or ["pass"])


def _eq(of: Any, _: object) -> str:
    mine, its = (_tuple(of, who, lambda each: each.compare) for who in ("self", "other"))
    return f"(self, other):\n return {mine} == {its} if other.__class__ is self.__class__ else NotImplemented"


def _hash(of: Any, _: object) -> str:
    return f"(self):\n return hash({_tuple(of, 'self', lambda each: each.compare if each.hash is None else each.hash)})"


def _tuple(of: Any, who: str, counts: Callable[[Any], bool]) -> str:
    return "(" + "".join(f"{who}.{each.name}, " for each in fields(of) if counts(each)) + ")"
