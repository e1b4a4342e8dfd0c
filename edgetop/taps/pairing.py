"""Pair the hits of uprobes (breakpoints) into calls: find the return that belongs to each begin.

A C function has a return probe. A method that pybind11 calls has none, because a C++ exception could not pass it. Its
end is the return of the function that calls all methods and handles their exceptions. Other methods return there as
well, so the stack pointer decides which return ends the call.
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
    session: int  # address of the session object that runs the model
    ok: bool
    function: Function


@frozen
class CallLayout:
    """Says at which place of the stack a method's call has the address of its object.

    The place is in pybind11's structure function_call (pybind11/attr.h).
    """

    at: int  # offset of the function_call from the stack pointer at the begin of the method
    session_at: int  # offset in the function_call of the object whose method is called

    def session(self, stack: bytes) -> int:
        """Return the address of the object whose method is called, or 0 if `stack` is too short.

        `stack` has the bytes of the stack at the begin of the method.
        """
        begin = self.at + self.session_at
        return int.from_bytes(stack[begin : begin + WORD], "little")


@dataclass(slots=True)
class Watch:
    """A watched function. It has one breakpoint where it begins and another one where it returns."""

    function: Function
    layout: CallLayout | None = None  # stack layout of a method; None if unknown, so that sessions cannot be told apart
    calls: int = 0  # number of calls that began
    others: int = 0  # number of returns of other methods to the same place


@dataclass(slots=True)
class _Open:
    hit: Hit
    watch: Watch
    session: int


@dataclass(slots=True)
class Pairing:
    popped: int  # bytes by which a return raises the stack pointer
    pids: set[int]  # processes whose calls count, including their forked children
    begins: dict[int, Watch] = field(default_factory=dict)  # by the number of the probe at the begin
    ends: dict[int, list[Watch]] = field(default_factory=dict)  # by the number of the return probe, which methods share
    parents: dict[int, int] = field(default_factory=dict)  # parent by forked process that runs the same program
    executed: list[int] = field(default_factory=list)  # processes that executed another program
    _open: dict[int, list[_Open]] = field(default_factory=dict)  # calls in progress by thread, the outermost first

    def calls(self, events: Iterable[Event]) -> list[Call]:
        """Return the calls whose returns are among `events`. The events must be sorted by time."""
        ended: list[Call] = []
        for event in events:
            if isinstance(event, Forked):
                self._open.pop(event.tid, None)  # thread numbers are reused
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
        while open_ and open_[-1].hit.stack_pointer <= hit.stack_pointer:  # an exception has removed their stack frames
            open_.pop()
        watch.calls += 1
        session = (
            hit.argument if not watch.function.is_method else watch.layout.session(hit.stack) if watch.layout else 0
        )
        open_.append(_Open(hit, watch, session))

    def _end(self, hit: Hit, watches: list[Watch], ended: list[Call]) -> None:
        open_ = self._open.get(hit.tid, [])
        begun_at = hit.stack_pointer - self.popped  # stack pointer at the begin of the returning function
        last = None
        while open_ and open_[-1].hit.stack_pointer <= begun_at:
            last = open_.pop()
        is_its = last is not None and last.watch in watches
        if last is None or not is_its or (last.hit.stack_pointer != begun_at and not last.watch.function.is_method):
            watches[0].others += 1
            return
        function = last.watch.function
        if not open_ and function.is_inference(hit.result):  # a nested call is a part of the outer one
            ok = function.succeeded(hit.result)
            ended.append(Call(last.hit.at_ns, hit.at_ns, hit.pid, hit.tid, last.session, ok, function))

    def forget(self) -> None:
        """Drop all calls that have begun and not ended. Call this if events were lost."""
        self._open.clear()
