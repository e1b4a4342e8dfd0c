"""The phases of a session (load, warm-up, measured ...): when each began, and which one is measured."""

from typing import Literal

from edgetop.session.event_kinds import PhaseBegan, SessionOver
from edgetop.session.events import Event

# "program": a watched program runs, and no inference of it has been seen so far.
Phase = Literal["loading", "program", "first", "idle", "warmup", "measure", "over"]


class Phases:
    """Derives the phases of a session (load, warm-up, measured ...) from its events.

    If a phase begins twice, or the session ends twice, the last event counts.
    """

    def __init__(self) -> None:
        self.phase: Phase = "loading"
        self.idle_from_ns: int | None = None  # when the idle baseline began; None: there was none
        self.idle_until_ns: int | None = None  # when the next phase, or the end, came after it
        self.idle_ns: int | None = None  # how long the idle baseline is to take; None: unknown
        self.warmup_runs: int | None = None  # asked for
        self.measured_from_ns: int | None = None  # None: nothing is measured yet
        self.program_from_ns: int | None = None  # when watching a program began; None: another session, or not yet
        self.has_inference = False  # whether the first inference has begun
        self.runs: int | None = None  # asked for in the measured phase; None: no limit
        self.duration_ns: int | None = None  # asked for; None: no limit
        self.over: SessionOver | None = None  # what the session's end says; None: it goes on
        self.over_ns: int | None = None  # when it was over

    @property
    def used_from_ns(self) -> int | None:
        """The time in ns from which the use of CPU and memory is measured; None if it is not known yet.

        For a watched program, it is the start of watching. Otherwise, it is the start of the measured phase.
        """
        return self.measured_from_ns if self.program_from_ns is None else self.program_from_ns

    @property
    def measured_until_ns(self) -> int | None:
        """The end of the last inference in ns, or None while the session continues."""
        return None if self.over is None else self.over.last_end_ns or self.over_ns

    def fold(self, events: tuple[Event, ...]) -> None:
        for event in events:
            match event.body:
                case PhaseBegan() as began:
                    self._on_phase(event.t_ns, began)
                case SessionOver() as over:
                    self.phase, self.over, self.over_ns = "over", over, event.t_ns
                    self._end_idle(event.t_ns)

    def _on_phase(self, t_ns: int, began: PhaseBegan) -> None:
        self.phase = began.phase
        self.has_inference |= began.phase != "program"
        match began.phase:
            case "program":  # all of it counts, until the first inference begins the measured phase anew
                self.program_from_ns = self.measured_from_ns = t_ns
            case "idle":
                self.idle_from_ns, self.idle_ns = t_ns, began.duration_ns
            case "warmup":
                self.warmup_runs = began.runs
                self._end_idle(t_ns)
            case "measure":
                self.measured_from_ns, self.runs, self.duration_ns = t_ns, began.runs, began.duration_ns
                self._end_idle(t_ns)

    def _end_idle(self, t_ns: int) -> None:
        if self.idle_from_ns is not None and self.idle_until_ns is None and t_ns >= self.idle_from_ns:
            self.idle_until_ns = t_ns
