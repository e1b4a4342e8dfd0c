"""Find out in which operator each event happened that the kernel noted during instrumented inferences."""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .event_samples import EventSamples, Notes

RESOLUTION_NS = 1_000  # runtimes report in whole microseconds when an operator began
MOST_ROOM = 2  # longest time outside of the operators of a run that counts, in shortest such times of a burst
MOST_COUNTS = 2_000  # most operators with events that a burst reports, for each event


class Noted(NamedTuple):
    """The noted events of one run of the model, and when the run began and ended, in ns of CLOCK_MONOTONIC."""

    notes: Notes
    begin_ns: int
    end_ns: int


class Span(NamedTuple):
    """The time of one operator in one run: begin and duration, in ns of the profiler's clock.

    `place` is the operator's index in `operators` of `Profile.describe`.
    """

    place: int
    begin_ns: int
    ns: int


class Run(NamedTuple):
    """One run of the model: when its operators ran, in order, and its noted events."""

    spans: Sequence[Span]
    noted: Noted
    zero_ns: int  # a time on the profiler's clock at which the run had begun, and no operator had


def samples_of(spec: Dict[str, Any]) -> EventSamples:
    """Return an `EventSamples` for the threads that run the model. Call this in the thread that runs the model.

    `spec` has the fields of `EngineSpec` by name. If the main thread runs the model, the events of all threads of the
    process are noted. If another thread runs the model, only the events of that thread are noted.
    """
    is_main = threading.current_thread() is threading.main_thread()
    own = None if is_main else [threading.get_native_id()]
    return EventSamples(spec.get("noted_events") or (), own)


class Counts:
    """Adds up the events of operators over several runs of the model."""

    def __init__(self) -> None:
        self._by_event: Dict[str, Dict[int, List[int]]] = {}
        self._every: Dict[str, int] = {}
        self._runs: Dict[str, int] = {}

    def add(self, runs: Sequence[Run]) -> None:
        """Add the events of `runs`.

        A run is left out if its beginning on the profiler's clock is too uncertain (see `offsets_ns`), because another
        program delayed the run outside of its operators.
        """
        known = [(run, offsets) for run in runs for offsets in [offsets_ns(run)] if offsets is not None]
        least_ns = min((offsets[2] - offsets[0] for _, offsets in known), default=0)
        for run, offsets in known:
            if offsets[2] - offsets[0] <= MOST_ROOM * least_ns:
                self._add(run, offsets)

    def _add(self, run: Run, offsets: Tuple[int, int, int]) -> None:
        for event, (times, every) in run.noted.notes.items():
            counts = self._by_event.setdefault(event, {})
            self._runs[event] = self._runs.get(event, 0) + 1
            self._every[event] = max(every, self._every.get(event, 0))
            found = [_within(times, run.spans, offset) for offset in offsets]
            for place in set().union(*found):
                tried = [one.get(place, 0) * every for one in found]
                sums = counts.setdefault(place, [0, 0, 0])
                for index, number in enumerate((tried[1], min(tried), max(tried))):
                    sums[index] += number

    def describe(self) -> Dict[str, List[Any]]:
        """Return, by event, [events that one note stands for, number of runs, rows].

        A row is [index of the operator, events, at least, at most]. `events` is the number of the operator's events in
        all of these runs. The last two are its limits: they differ from it if it is not known exactly when a run began
        on the profiler's clock.
        """
        return {
            event: [self._every[event], self._runs[event], [[place, *sums] for place, sums in sorted(counts.items())]]
            for event, counts in self._by_event.items()
            if len(counts) <= MOST_COUNTS
        }


def offsets_ns(run: Run) -> Optional[Tuple[int, int, int]]:
    """Return (least, middle, most) ns by which CLOCK_MONOTONIC may be ahead of the profiler's clock.

    If the profiler uses CLOCK_MONOTONIC itself, they are about 0. For another clock, the three follow from the fact
    that all operators ran within the run. So the uncertainty is the time that the run took outside of its operators.
    Returns None if the run has no operator, or if its operators do not fit into it.
    """
    spans, noted = run.spans, run.noted
    if not spans:
        return None
    first_ns, last_ns = min(span.begin_ns for span in spans), max(span.begin_ns + span.ns for span in spans)
    if noted.begin_ns - RESOLUTION_NS <= first_ns and last_ns <= noted.end_ns + RESOLUTION_NS:
        return 0, RESOLUTION_NS // 2, RESOLUTION_NS  # it is the same clock
    least_ns = noted.begin_ns - run.zero_ns
    room_ns = noted.end_ns - noted.begin_ns - (last_ns - run.zero_ns)
    if run.zero_ns > first_ns or room_ns < -RESOLUTION_NS:
        return None
    most_ns = least_ns + max(room_ns, 0) + RESOLUTION_NS
    return least_ns, (least_ns + most_ns) // 2, most_ns


def _within(times: Sequence[int], spans: Sequence[Span], offset_ns: int) -> Dict[int, int]:
    """Return {index of an operator: number of notes made while it ran}.

    `times` are the times of the notes, in ns of CLOCK_MONOTONIC. `spans` are the operators in run order. `offset_ns` is
    how much CLOCK_MONOTONIC is ahead of their clock. An operator ends when the next one begins, so that what runs in
    the body of a Loop does not count for the Loop.
    """
    found: Dict[int, int] = {}
    ends = [span.begin_ns for span in spans[1:]] + [spans[-1].begin_ns + spans[-1].ns]
    for span, next_ns in zip(spans, ends):
        end_ns = min(span.begin_ns + span.ns, next_ns)
        count = bisect_left(times, end_ns + offset_ns) - bisect_left(times, span.begin_ns + offset_ns)
        if count > 0:
            found[span.place] = found.get(span.place, 0) + count
    return found
