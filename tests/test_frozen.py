"""Classes of frozen values are what `dataclass(frozen=True, slots=True)` makes, to whoever uses their objects."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from edgetop.frozen import frozen


def classes(how):
    """A class of each sort, made in that way."""

    class Plain:
        a: int
        b: str = "b"
        c: list = field(default_factory=list)

    class Some:
        """Fields that do not take part in everything."""

        limit: ClassVar = 3
        a: int = field(hash=False)
        b: int = field(compare=False)
        c: int = field(default=1, repr=False, kw_only=True)
        d: int = 2

    class Empty:
        pass

    class OwnMethods:  # noqa: PLW1641  that is a sort of its own
        a: float

        def __eq__(self, other):
            return isinstance(other, type(self))

        def __repr__(self):
            return "own"

    class OwnHash(OwnMethods):
        a: float

        def __hash__(self):
            return 7

    class Above:
        a: int
        of: str = field(default="", kw_only=True)

    made = {each.__name__: how(each) for each in (Plain, Some, Empty, OwnMethods, OwnHash, Above)}

    class Below(made["Above"]):
        kind = "below"
        b: int
        c: int = 5

    class Subclass(made["Plain"]):  # without the decorator
        __slots__ = ()

    return {**made, "Below": how(Below), "Subclass": Subclass}


OURS, THEIRS = classes(frozen), classes(dataclass(frozen=True, slots=True))
VALUES = {
    "Plain": [((1,), {}), ((1, "x"), {}), ((1,), {"c": (2,)}), ((2, "b", ()), {})],
    "Some": [((1, 2), {}), ((1, 3), {"c": 1}), ((2, 2), {}), ((1, 2), {"c": 4, "d": 5})],
    "Empty": [((), {})],
    "OwnMethods": [((1.0,), {}), ((2.0,), {})],
    "OwnHash": [((1.0,), {}), ((2.0,), {})],
    "Above": [((1,), {}), ((1,), {"of": "x"})],
    "Below": [((1, 2), {}), ((1, 2), {"of": "x"}), ((1, 2, 3), {}), ((), {"a": 1, "b": 2, "c": 5})],
    "Subclass": [((1,), {}), ((1, "x"), {})],
}


def hash_of(one):
    try:
        return hash(one)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("name", VALUES)
def test_objects_are_as_those_of_a_dataclass(name: str) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    mine, its = ([of(*values, **named) for values, named in VALUES[name]] for of in (ours, theirs))
    assert [*map(repr, mine)] == [*map(repr, its)]
    assert [*map(hash_of, mine)] == [*map(hash_of, its)]
    assert [[a == b for a in mine] for b in mine] == [[a == b for a in its] for b in its]
    assert mine != its
    assert [*map(dataclasses.asdict, mine)] == [*map(dataclasses.asdict, its)]
    assert [each.name for each in dataclasses.fields(ours)] == [each.name for each in dataclasses.fields(theirs)]
    assert (ours.__match_args__, ours.__name__) == (theirs.__match_args__, theirs.__name__)
    for a, b in zip(mine, its, strict=True):
        assert hasattr(a, "__dict__") == hasattr(b, "__dict__")
        for other in (copy.copy(a), copy.deepcopy(a), dataclasses.replace(a)):
            assert (repr(other), type(other)) == (repr(b), ours)


@pytest.mark.parametrize("name", VALUES)
def test_wrong_arguments_are_refused_as_by_a_dataclass(name: str) -> None:
    for values, named in (((1, 2, 3, 4, 5), {}), ((), {"none": 1}), ((1,), {"a": 2})):
        said = []
        for made in (classes(frozen), classes(dataclass(frozen=True, slots=True))):
            with pytest.raises(TypeError) as refused:
                made[name](*values, **named)
            said.append(str(refused.value))
        assert said[0] == said[1]


def test_nothing_can_be_assigned_or_deleted() -> None:
    one = OURS["Plain"](1)
    for change in (lambda: setattr(one, "a", 2), lambda: setattr(one, "new", 2), lambda: delattr(one, "a")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert one.a == 1


@frozen
class Kept:
    a: int
    b: tuple = ()


def test_a_copy_in_another_process_is_the_same() -> None:
    """There it is the first object of its class."""
    again = pickle.loads(pickle.dumps(Kept(1, (2,))))
    assert (again, hash(again)) == (Kept(1, (2,)), hash(Kept(1, (2,))))


def test_lists_of_each_object_are_its_own() -> None:
    first, second = OURS["Plain"](1), OURS["Plain"](1)
    first.c.append(3)
    assert second.c == []


def test_a_class_is_made_without_compiling() -> None:
    """What would be compiled is what an import costs."""
    code = """
import builtins, dataclasses
from edgetop.frozen import frozen
compiled = []
builtins.exec = lambda *of, run=exec: (compiled.append(of), run(*of))
@frozen
class Value:
    a: int
    b: str = ""
print(len(compiled), Value(1) == Value(1, ""), len(compiled))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "0 True 2\n"


def test_a_first_call_that_another_thread_overtook_takes_what_that_compiled() -> None:
    late = classes(frozen)["Plain"]
    first_init, first_eq, first_hash = late.__init__, late.__eq__, late.__hash__
    one = late(1, "x", ())
    assert (one == late(1, "x", ()), hash(one)) == (True, hash((1, "x", ())))
    other = late.__new__(late)
    first_init(other, 1, "x", ())
    assert first_eq(one, other)
    assert first_hash(other) == hash(one)


def test_what_a_class_does_after_its_init_is_done() -> None:
    """`__post_init__` runs for the first object of a class and for every later one, as with `dataclass`."""

    @frozen
    class Checked:
        low: int
        high: int = 0

        def __post_init__(self) -> None:
            if self.high < self.low:
                object.__setattr__(self, "high", self.low)

    assert [Checked(3).high, Checked(4).high, dataclasses.replace(Checked(1, 9), low=12).high] == [3, 4, 12]
