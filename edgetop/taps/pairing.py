"""Pairs the hits of uprobes into calls: which return belongs to which begin, in which of the watched processes.

There are two ways to see the end of a call. A C function is given a return probe. A method that pybind11 calls is not:
a C++ exception could not pass it. There a plain breakpoint stands where the method returns to, which an exception
skips; other methods return to the same place, and the caller's frame shows which one it was.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from edgetop.taps.perf import Event, Executed, Forked, Hit
from edgetop.taps.runtimes import Function

WORD = 8


class Call(NamedTuple):
    start_ns: int
    end_ns: int  # equal to the start where it raised an exception, whose time is unknown
    pid: int
    tid: int
    session: int  # address of the object that runs the model
    ok: bool
    function: Function


@dataclass(frozen=True, slots=True)
class Frame:
    """Where pybind11's caller stores its function_call (pybind11/attr.h), learned from the first call."""

    at: int  # bytes above the stack pointer where the method begins
    session_at: int  # bytes in it: the object whose method is called

    @property
    def stack_bytes(self) -> int:
        return self.at + self.session_at + WORD

    def words(self, stack: bytes, popped: int) -> tuple[int, int]:
        """The record of the method, and the object."""
        at = self.at - popped
        method, session = (stack[begin : begin + WORD] for begin in (at, at + self.session_at))
        return int.from_bytes(method, "little"), int.from_bytes(session, "little")


@dataclass(slots=True)
class Watch:
    """A function with its two breakpoints."""

    function: Function
    frame: Frame | None = None  # of a method
    calls: int = 0  # that began
    others: int = 0  # returns of other methods to the same place


@dataclass(slots=True)
class _Open:
    hit: Hit
    watch: Watch
    words: tuple[int, int]


@dataclass(slots=True)
class Pairing:
    popped: int  # bytes by which a return raises the stack pointer
    pids: set[int]  # whose calls count; children that they start join them
    begins: dict[int, Watch] = field(default_factory=dict)  # by number of the probe
    ends: dict[int, list[Watch]] = field(default_factory=dict)  # methods share theirs
    parents: dict[int, int] = field(default_factory=dict)  # by process that was forked and runs the same program
    executed: list[int] = field(default_factory=list)  # processes that began another program
    _open: dict[int, list[_Open]] = field(default_factory=dict)  # by thread, the outermost first

    def calls(self, events: Iterable[Event]) -> list[Call]:
        """Return the calls that ended, from events in the order of their time."""
        ended: list[Call] = []
        for event in events:
            if isinstance(event, Forked):
                self._open.pop(event.tid, None)  # numbers of threads are used again
                if event.parent in self.pids and event.pid != event.parent:
                    self.pids.add(event.pid)
                    self.parents[event.pid] = event.parent
            elif isinstance(event, Executed):
                if event.pid in self.pids:
                    self.parents.pop(event.pid, None)
                    self.executed.append(event.pid)
            elif event.pid not in self.pids:
                continue
            elif watch := self.begins.get(event.probe):
                self._begin(event, watch, ended)
            elif watches := self.ends.get(event.probe):
                self._end(event, watches, ended)
        return ended

    def _begin(self, hit: Hit, watch: Watch, ended: list[Call]) -> None:
        open_ = self._open.setdefault(hit.tid, [])
        # A run of a method is in no other: one that seems open has raised, wherever on the stack that was.
        self._unwind(open_, 2**64 if watch.frame else hit.stack_pointer, ended)
        words = watch.frame.words(hit.stack, 0) if watch.frame else (0, hit.argument)
        watch.calls += 1
        open_.append(_Open(hit, watch, words))

    def _end(self, hit: Hit, watches: list[Watch], ended: list[Call]) -> None:
        open_ = self._open.get(hit.tid, [])
        begun_at = hit.stack_pointer - self.popped
        self._unwind(open_, begun_at - 1, ended)
        last = open_[-1] if open_ else None
        if last is None or last.hit.stack_pointer != begun_at or last.watch not in watches:
            watches[0].others += 1
            return
        frame = last.watch.frame
        if frame and frame.words(hit.stack, self.popped) != last.words:
            watches[0].others += 1
            return
        open_.pop()
        if not open_:  # what a call calls is a part of it
            function = last.watch.function
            ok = not hit.result & function.status_mask
            ended.append(Call(last.hit.at_ns, hit.at_ns, hit.pid, hit.tid, last.words[1], ok, function))

    @staticmethod
    def _unwind(open_: list[_Open], stack_pointer: int, ended: list[Call]) -> None:
        """Frames at or below the stack pointer are gone: an exception has passed them."""
        while open_ and open_[-1].hit.stack_pointer <= stack_pointer:
            gone = open_.pop()
            if gone.watch.frame:
                hit = gone.hit
                ended.append(Call(hit.at_ns, hit.at_ns, hit.pid, hit.tid, gone.words[1], False, gone.watch.function))

    def forget(self) -> None:
        """Drop all open begins: events were lost, so none can be trusted."""
        self._open.clear()
