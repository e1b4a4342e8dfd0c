"""Pairs the hits of uprobes into calls: which return belongs to which begin, in which of the watched processes.

A C function has a return probe of its own. A method that pybind11 calls has none: a C++ exception could not pass it.
Its end is the return of the function that calls all methods, which handles their exceptions. Other methods return
there, too; the stack shows which return ends the call.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from edgetop.frozen import frozen
from edgetop.taps.perf import Event, Executed, Forked, Hit
from edgetop.taps.runtimes import Function

WORD = 8


class Call(NamedTuple):
    start_ns: int
    end_ns: int
    pid: int
    tid: int
    session: int  # address of the object that runs the model
    ok: bool
    function: Function


@frozen
class Frame:
    """Where pybind11's caller stores its function_call (pybind11/attr.h), learned from the first call."""

    at: int  # bytes above the stack pointer where the method begins
    session_at: int  # bytes in it: the object whose method is called

    def session(self, stack: bytes) -> int:
        """Return the address of the object; 0: the sample of the stack does not reach so far."""
        begin = self.at + self.session_at
        return int.from_bytes(stack[begin : begin + WORD], "little")


@dataclass(slots=True)
class Watch:
    """A function with its two breakpoints."""

    function: Function
    frame: Frame | None = None  # of a method; None: unknown, so its sessions are not told apart
    calls: int = 0  # that began
    others: int = 0  # returns of other methods to the same place


@dataclass(slots=True)
class _Open:
    hit: Hit
    watch: Watch
    session: int


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
                self._begin(event, watch)
            elif watches := self.ends.get(event.probe):
                self._end(event, watches, ended)
        return ended

    def _begin(self, hit: Hit, watch: Watch) -> None:
        open_ = self._open.setdefault(hit.tid, [])
        while open_ and open_[-1].hit.stack_pointer <= hit.stack_pointer:  # their frames are gone: an exception passed
            open_.pop()
        watch.calls += 1
        session = hit.argument if not watch.function.is_method else watch.frame.session(hit.stack) if watch.frame else 0
        open_.append(_Open(hit, watch, session))

    def _end(self, hit: Hit, watches: list[Watch], ended: list[Call]) -> None:
        open_ = self._open.get(hit.tid, [])
        begun_at = hit.stack_pointer - self.popped  # of the function that returns
        last = None
        while open_ and open_[-1].hit.stack_pointer <= begun_at:
            last = open_.pop()
        is_its = last is not None and last.watch in watches
        if last is None or not is_its or (last.hit.stack_pointer != begun_at and not last.watch.function.is_method):
            watches[0].others += 1
            return
        if not open_:  # what a call calls is a part of it
            function = last.watch.function
            ok = function.succeeded(hit.result)
            ended.append(Call(last.hit.at_ns, hit.at_ns, hit.pid, hit.tid, last.session, ok, function))

    def forget(self) -> None:
        """Drop all open begins: events were lost, so none can be trusted."""
        self._open.clear()
