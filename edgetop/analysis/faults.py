"""Internal errors of the analysis. An error in one part costs only the figures that depend on that part.

A fold is a part of the analysis that takes the batches of a session one by one. A `Guard` stands in front of each fold.
A fold that raised an error gets no more data, and an empty fold answers in its place. A figure that depends on a failed
fold is shown as unavailable. It is not shown as 0 or as a good value.
"""

import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import GeneratorType
from typing import Any, Generic, TypeVar, cast

from edgetop.frozen import frozen

T = TypeVar("T")

FEEDING = frozenset({"fold", "parts", "began", "on_event"})  # Functions of folds that take data.
MAX_FRAMES = 30  # Only this many frames at the end of a traceback are stored.

MAX_STORED = 32

# The faults of all analyses in this process, each once. A command reports them when it ends.
occurred: "dict[tuple[str, str, str], Fault]" = {}

_NONE: frozenset[str] = frozenset()


class _Notes(threading.local):
    """The names of the failed folds and figures that a thread has read since it began to compute a figure, in order.

    While the thread computes one figure, it may have to compute another figure. That figure depends only on the names
    that were added since its own computation began.
    """

    names: list[str] | None = None  # None while no figure is being made.


_notes = _Notes()


@frozen
class Fault:
    """An internal error of edgetop that makes one fold or figure of the analysis unavailable."""

    name: str  # Name of the unavailable fold or figure.
    where: str  # Name of the fold or figure that raised the error. It differs from `name` if `name` depends on it.
    error: str
    traceback: str
    t_ns: int = 0  # Session time of the latest data when the error occurred.
    session: str = ""  # Name of the session.


class UnavailableError(Exception):
    """Raised when somebody reads a figure that an internal error makes unavailable. `fault` is this error."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.where, fault.error)
        self.fault = fault


class Faults:
    """Stores the internal errors of one analysis, by the names of the folds and figures that they make unavailable."""

    def __init__(self) -> None:
        self.found: dict[str, Fault] = {}
        self.now_ns, self.session = 0, ""

    def add(self, name: str, error: Exception, also: Iterable[str] = ()) -> None:
        """Store `error`, which the fold or figure `name` raised.

        `also`: names of other folds, which cannot work without the fold `name`.
        """
        text = " ".join(f"{type(error).__name__}: {error}".split())
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-MAX_FRAMES))
        for each in (name, *also):
            self.found.setdefault(each, Fault(each, name, text, lines, self.now_ns, self.session))
        if len(occurred) < MAX_STORED:
            occurred.setdefault((self.session, name, text), self.found[name])

    @property
    def distinct(self) -> tuple[Fault, ...]:
        """Return one fault for each part of the analysis that raised an error itself.

        Parts that are unavailable only because they depend on such a part are left out.
        """
        return tuple(fault for name, fault in self.found.items() if fault.where == name)

    def behind(self, names: Iterable[str]) -> Fault:
        """Return the fault that makes a figure unavailable. Call the method only if there is a fault.

        `names`: the folds and figures on which the figure depends.
        """
        return self.first(names) or next(iter(self.found.values()))

    def first(self, names: Iterable[str]) -> Fault | None:
        """Return the first fault that affects one of the folds or figures `names`, or None if all of them work."""
        return next((fault for name, fault in self.found.items() if name in set(names)), None)

    def attempt(self, name: str, make: Callable[[], T], unknown: Callable[[], T]) -> tuple[T, frozenset[str]]:
        """Compute the figure `name`. Return `(figure, failed)`.

        `failed` has the names of the failed folds and figures on which the figure depends; it is empty if all is well.
        `make` computes the figure. If `make` raises an error, `failed` contains `name`, and `unknown` computes the
        figure instead, as if nothing were known. Later calls for this figure do not call `make` again. Raises
        UnavailableError if `unknown` raises an error as well.
        """
        if (names := _notes.names) is not None:
            return self._collected(names, name, make, unknown)
        _notes.names = names = []
        try:
            return self._collected(names, name, make, unknown)
        finally:
            _notes.names = None

    def _collected(
        self, names: list[str], name: str, make: Callable[[], T], unknown: Callable[[], T]
    ) -> tuple[T, frozenset[str]]:
        begin = len(names)
        if name not in self.found:
            try:
                made = make()
                return made, _NONE if len(names) == begin else frozenset(names[begin:])
            except MemoryError:
                raise
            except UnavailableError:
                made = self._unknown(unknown)
                return made, frozenset(names[begin:])
            except Exception as error:  # noqa: BLE001  a defect of ours in one figure must not cost the others
                self.add(name, error)
        names.append(name)
        made = self._unknown(unknown)
        return made, frozenset(names[begin:])

    def _unknown(self, make: Callable[[], T]) -> T:
        try:
            return make()
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            raise UnavailableError(self.behind(self.found)) from error


# These attributes of a guard are copied; the rest is made anew.
_OWN = ("_name", "_fold", "_blank", "_faults", "_readers")


Guarded = Any  # a fold of any class, or what a function of it takes or returns


class Guard:
    """Stands in front of a fold. An error in the fold is stored as a fault instead of ending the program."""

    def __init__(self, name: str, fold: object, faults: Faults, readers: tuple[str, ...]) -> None:
        vars(self).update(_name=name, _fold=fold, _blank=None, _faults=faults, _readers=readers)

    def __getstate__(self) -> dict[str, Guarded]:
        return {name: value for name, value in vars(self).items() if name in _OWN}

    def __getattr__(self, attribute: str) -> Guarded:
        # copy and pickle ask for attributes before the guard has any.
        if attribute.startswith("__") or "_fold" not in vars(self):
            raise AttributeError(attribute)
        try:
            found = getattr(self._standing(), attribute)
        except Exception as error:  # noqa: BLE001  as above
            self._fail(error)
            return getattr(self, attribute)
        if callable(found):  # Each tick asks for the same functions, so the guarded function is stored.
            found = vars(self)[attribute] = self._guarded(attribute, getattr(self._fold, attribute))
        return found

    def _guarded(self, attribute: str, function: Callable[..., Guarded]) -> Callable[..., Guarded]:
        """Return a version of `function`, a method of the fold, that stores its errors. `attribute`: the method's name.

        Until an error occurs, the version is nearly as quick as `function`.
        """
        failed = self._faults.found

        def call(*arguments: Guarded, **named: Guarded) -> Guarded:
            if not failed:
                try:
                    result = function(*arguments, **named)
                except Exception as error:  # noqa: BLE001  as above
                    self._fail(error)
                else:
                    return self._each(result) if type(result) is GeneratorType else result
            return self._call(attribute, *arguments, **named)

        return call

    def __setattr__(self, attribute: str, value: object) -> None:
        if self._name not in self._faults.found:
            setattr(self._fold, attribute, value)

    def _call(self, attribute: str, *arguments: Guarded, **named: Guarded) -> Guarded:
        if self._name in self._faults.found and attribute in FEEDING:
            return ()
        try:
            result = getattr(self._standing(), attribute)(*arguments, **named)
        except Exception as error:  # noqa: BLE001  as above
            self._fail(error)
            return self._call(attribute, *arguments, **named)
        return self._each(result) if isinstance(result, GeneratorType) else result

    def _each(self, items: Iterator[Guarded]) -> Iterator[Guarded]:
        try:
            yield from items
        except Exception as error:  # noqa: BLE001  as above
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Store `error`, which the fold raised.

        A MemoryError is raised again instead. Raises UnavailableError if the fold had failed before, so that the error
        comes from the empty fold in its place.
        """
        if isinstance(error, MemoryError):
            raise error
        if self._name in self._faults.found:
            raise UnavailableError(self._faults.found[self._name]) from error
        self._faults.add(self._name, error, self._readers)

    def _standing(self) -> Guarded:
        """Return the fold or, if the fold failed, an empty fold of the same class."""
        if self._name not in self._faults.found:
            return self._fold
        note({self._name})
        if self._blank is None:
            vars(self)["_blank"] = type(self._fold)()
        return self._blank


def guarded(name: str, fold: T, faults: Faults, readers: tuple[str, ...] = ()) -> T:
    """Return a stand-in for `fold` that catches its errors and stores them in `faults`.

    `name`: the fold's name in `faults`. `readers`: names of other folds that read data from this fold, and so fail with
    it.
    """
    return cast("T", Guard(name, fold, faults, readers))


@contextmanager
def noting() -> Iterator[set[str]]:
    """Collect the names of the failed folds and figures that are read within this context.

    The context gets a set, which is empty until the context ends, and then has these names.
    """
    outer, read = _notes.names, set[str]()
    names = _notes.names = [] if outer is None else outer
    begin = len(names)
    try:
        yield read
    finally:
        _notes.names = outer
        read.update(names[begin:])


@contextmanager
def aside() -> Iterator[None]:
    """Within this context, reading a failed fold or figure does not make the current figure unavailable.

    Use the context for data that the figure can do without. The current figure is the one that this thread computes.
    """
    names = _notes.names
    begin = len(names or ())
    try:
        yield
    finally:
        if names is not None:
            del names[begin:]


def note(names: Collection[str]) -> None:
    """Add names of failed folds or figures to those on which the current figure depends.

    The current figure is the one that this thread computes.
    """
    if names and _notes.names is not None:
        _notes.names.extend(names)


class noted(Generic[T]):  # noqa: N801  read like functools.cached_property
    """A cached property that also stores the names of the failed folds on which its value depends.

    A figure that reads the property depends on these folds too.
    """

    def __init__(self, make: Callable[[Guarded], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._key = f"_noted_{name}"

    def __get__(self, of: Guarded, owner: type) -> T:
        made: dict[str, tuple[object, frozenset[str]]] = of.__dict__
        if self._key not in made:
            with noting() as failed:
                value = self._make(of)
            made[self._key] = value, frozenset(failed)
        else:
            note(made[self._key][1])
        return cast("T", made[self._key][0])
