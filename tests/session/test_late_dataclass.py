"""Dataclasses that are finished with their first object behave as any other from then on."""

import copy
import dataclasses
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from edgetop.session.late_dataclass import LateDataclass, finish


@dataclasses.dataclass(frozen=True, init=False)
class Base(LateDataclass):
    of: str | None = dataclasses.field(default=None, compare=False, kw_only=True)


@pytest.fixture
def late() -> Iterator[type]:
    class Late(Base):
        count: int
        names: tuple[str, ...] = ()

    globals()["Late"] = Late  # where pickle looks for it
    Late.__qualname__ = "Late"
    yield Late
    del globals()["Late"]


def test_the_first_object_is_as_any_other(late: type) -> None:
    first, second = late(1, ("a",), of="x"), late(count=1, names=("a",))
    assert (first.count, first.names, first.of) == (1, ("a",), "x")
    assert (first, hash(first)) == (second, hash(second))
    assert first != late(2)
    assert repr(first).endswith("Late(of='x', count=1, names=('a',))")
    assert dataclasses.replace(first, count=3) == late(3, ("a",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.count = 2
    match first:
        case late(count, names):
            assert (count, names) == (1, ("a",))


@pytest.mark.parametrize("values", [(), (1, (), 3), (1, (), "x")])
def test_the_first_object_takes_the_fields_of_its_class(late: type, values: tuple[object, ...]) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=r"count|positional"):
            late(*values)


def test_fields_are_known_before_the_first_object(late: type) -> None:
    finish(late)
    assert [field.name for field in dataclasses.fields(late)] == ["of", "count", "names"]


def test_a_copy_can_be_the_first_object(late: type) -> None:
    state = {"of": None, "count": 1, "names": ()}
    restored = late.__new__(late)
    restored.__setstate__(dict(state))  # what pickle does in a process that has made no object yet
    assert vars(restored) == state
    assert restored == late(1)
    for other in (copy.copy(restored), copy.deepcopy(restored), pickle.loads(pickle.dumps(restored))):
        assert (other, other.of) == (restored, None)


def test_two_threads_may_make_the_first_object(late: type) -> None:
    start, made = threading.Barrier(8), []

    def make(number: int) -> None:
        start.wait()
        made.append(late(number))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.count for each in made} == set(range(8))


def test_no_kind_of_event_is_finished_by_its_import() -> None:
    """Each would take half a millisecond of every start."""
    code = (
        "from edgetop.session.event_kinds import KINDS\nprint([k for k, of in KINDS.items() if '__init__' in vars(of)])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
