"""Faults of the analysis itself: an error in one fold or figure costs only what is made of it.

Each fold stands behind a `Guard`. Once one of its functions has raised an error it is fed no more, and a fold that was
never fed answers in its place: nothing is known. Whoever makes a figure is told which failed folds it was made of, so
that the figure is shown as not available, and never as 0, as none or as good.
"""

import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import GeneratorType
from typing import Any, Generic, TypeVar, cast

from edgetop.frozen import frozen

T = TypeVar("T")

FEEDING = frozenset({"fold", "parts", "began", "on_event"})  # functions of folds that take data
INTERNAL_ERROR = "internal error"
NOT_AVAILABLE = f"not available: {INTERNAL_ERROR}"
MAX_FRAMES = 30  # of a traceback, the last

MAX_STORED = 32

# Those of all analyses of this process, once each: a command reports them when it ends.
occurred: "dict[tuple[str, str, str], Fault]" = {}

_NONE: frozenset[str] = frozenset()


class _Notes(threading.local):
    """The failed folds and figures that were read, in their order, by all figures that are being made: one is made of
    what was read since it began."""

    names: list[str] | None = None  # None: no figure is being made


_notes = _Notes()


class UnavailableError(Exception):
    """Raised where a figure is read that an error of edgetop has cost. The message is for people."""


@frozen
class Fault:
    """An error of edgetop in a part of its analysis."""

    name: str  # of the fold or figure that is not available
    where: str  # the one in which the error was: it may be another, which this one is made of
    error: str
    traceback: str
    t_ns: int = 0  # up to when the session had come
    session: str = ""  # its name

    @property
    def words(self) -> str:
        """
        >>> Fault("slowdowns", "sensors", "ValueError: empty", "").words
        'not available: internal error in sensors: ValueError: empty'
        """
        return f"{NOT_AVAILABLE} in {self.where}: {self.error}"


class Faults:
    """The faults of one analysis, by the names of its folds and figures."""

    def __init__(self) -> None:
        self.found: dict[str, Fault] = {}
        self.now_ns, self.session = 0, ""

    def add(self, name: str, error: Exception, also: Iterable[str] = ()) -> None:
        """Store an error. `also`: what cannot go on without `name`."""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-MAX_FRAMES))
        for each in (name, *also):
            self.found.setdefault(each, Fault(each, name, text, lines, self.now_ns, self.session))
        if len(occurred) < MAX_STORED:
            occurred.setdefault((self.session, name, text), self.found[name])

    @property
    def distinct(self) -> tuple[Fault, ...]:
        """Return the faults of what failed by itself."""
        return tuple(fault for name, fault in self.found.items() if fault.where == name)

    def words(self, names: Iterable[str]) -> str:
        """Say why what is made of these is not available."""
        fault = self.first(names)
        return fault.words if fault else ""

    def first(self, names: Iterable[str]) -> Fault | None:
        """Return the first fault that one of these failed of; None: there is none."""
        return next((fault for name, fault in self.found.items() if name in set(names)), None)

    def attempt(self, name: str, make: Callable[[], T], unknown: Callable[[], T]) -> tuple[T, frozenset[str]]:
        """Make a figure. Return it with the names of all that it is made of and that failed, itself among them.

        `unknown`: the same figure where nothing is known. A figure that failed once is not tried again. Raises
        UnavailableError if that fails as well.
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
            raise UnavailableError(self.words(self.found)) from error


_OWN = ("_name", "_fold", "_blank", "_faults", "_readers")  # of a guard; what else it has is made anew


class Guard:
    """Stands for a fold, so that an error in it is a fault and nothing more."""

    def __init__(self, name: str, fold: object, faults: Faults, readers: tuple[str, ...]) -> None:
        vars(self).update(_name=name, _fold=fold, _blank=None, _faults=faults, _readers=readers)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name in _OWN}

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") or "_fold" not in vars(self):  # as copy and pickle ask
            raise AttributeError(attribute)
        try:
            found = getattr(self._standing(), attribute)
        except Exception as error:  # noqa: BLE001  as above
            self._fail(error)
            return getattr(self, attribute)
        if callable(found):  # asked for at each tick: the next time it is found at once
            found = vars(self)[attribute] = self._guarded(attribute, getattr(self._fold, attribute))
        return found

    def _guarded(self, attribute: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that costs little more than the fold's own as long as nothing has failed."""
        failed = self._faults.found

        def call(*arguments: Any, **named: Any) -> Any:
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

    def _call(self, attribute: str, *arguments: Any, **named: Any) -> Any:
        if self._name in self._faults.found and attribute in FEEDING:
            return ()
        try:
            result = getattr(self._standing(), attribute)(*arguments, **named)
        except Exception as error:  # noqa: BLE001  as above
            self._fail(error)
            return self._call(attribute, *arguments, **named)
        return self._each(result) if isinstance(result, GeneratorType) else result

    def _each(self, items: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from items
        except Exception as error:  # noqa: BLE001  as above
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Store the error. Raises MemoryError, and UnavailableError if the fold that was never fed fails as well."""
        if isinstance(error, MemoryError):
            raise error
        if self._name in self._faults.found:
            raise UnavailableError(self._faults.words((self._name,))) from error
        self._faults.add(self._name, error, self._readers)

    def _standing(self) -> Any:
        """Return the fold or, if it failed, one that was never fed."""
        if self._name not in self._faults.found:
            return self._fold
        note({self._name})
        if self._blank is None:
            vars(self)["_blank"] = type(self._fold)()
        return self._blank


def guarded(name: str, fold: T, faults: Faults, readers: tuple[str, ...] = ()) -> T:
    """Return the fold behind a guard. `readers`: the folds that look up data in it, and fail with it."""
    return cast("T", Guard(name, fold, faults, readers))


@contextmanager
def noting() -> Iterator[set[str]]:
    """Return the names of the failed folds and figures that are read in this context, once it has ended."""
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
    """Read in this context what only adds to a figure, which stands without it."""
    names = _notes.names
    begin = len(names or ())
    try:
        yield
    finally:
        if names is not None:
            del names[begin:]


def note(names: Collection[str]) -> None:
    """Add to what a figure that is being made was made of."""
    if names and _notes.names is not None:
        _notes.names.extend(names)


class noted(Generic[T]):  # noqa: N801  read like functools.cached_property
    """A property that is made once. Every figure that reads it is told which failed folds it was made of."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._key = f"_noted_{name}"

    def __get__(self, of: Any, owner: type) -> T:
        made = vars(of)
        if self._key not in made:
            with noting() as failed:
                value = self._make(of)
            made[self._key] = value, frozenset(failed)
        else:
            note(made[self._key][1])
        return cast("T", made[self._key][0])
