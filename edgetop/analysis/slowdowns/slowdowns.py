"""Finds the slowdowns of a session with their causes, and its slowest inferences.

The data are the latencies of each second, sensor readings and events. A live session and its recording give the same
results.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgetop.analysis.slowdowns.equal_position import EqualPosition
from edgetop.analysis.slowdowns.judged_past import export_state, import_state, is_quiet
from edgetop.analysis.slowdowns.judgement import Judgement
from edgetop.analysis.slowdowns.mix import Mix
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.slowdowns.slow_inferences import Tail, TailView
from edgetop.analysis.slowdowns.slowdown import Rows, Slowdown, SlowdownsView
from edgetop.analysis.slowdowns.throttles import Throttles
from edgetop.analysis.statistics import MOST_JUDGED
from edgetop.analysis.tracks import LATE_S, Tracks, TracksReader
from edgetop.session.batch import Batch
from edgetop.session.by_stream import ByStream
from edgetop.session.event_kinds import Competing, GpuCompeting, MemoryTaken
from edgetop.session.phases import Phases
from edgetop.session.seconds import MOST_EMPTY_S, NO_SECONDS, NS, SECOND
from edgetop.session.typed_json import Document

SETTLED_AT_ONCE_S = 8  # Least number of seconds settled at once, since each settling costs the same.
PAUSED_S = 600  # Seconds of a long pause that are judged. After them, nothing is waited for any more.
STEP_S = 256  # Long batches are settled in steps, because readings are stored for longer than evidence needs.


class Slowdowns(TracksReader):
    """Finds the slowdowns of one stream (one model of a program).

    The results of the last seconds are provisional, because readings of these seconds may still come. If some do, these
    seconds are judged anew.
    """

    def __init__(self, tracks: Tracks | None = None, phases: Phases | None = None) -> None:
        super().__init__(tracks)
        self._phases = phases or Phases()
        self.signals = Signals(self._tracks)
        self._has_own_events = True  # Streams share them.
        self._end_s = float("inf")  # End of the measurement.
        self._rows = NO_SECONDS.rows  # Rows that are not settled yet.
        self.settled_s = 0  # Slowdowns up to this second are final.
        self._judgement = Judgement()  # An imported judgement may be ahead of `settled_s`.
        # The judgement with the rows that are not settled yet. It goes on from view to view, until late data comes.
        self._ahead: Judgement | None = None
        self._tail = Tail()
        self._view: SlowdownsView | None = None
        self._newest_tail: Tail | None = None  # The tail with the rows that are not settled yet.

    def count_calls_by(self, mix: Mix) -> None:
        """Read the number of calls of each stream of the session from `mix`.

        Before each call of `fold_part`, the caller must add the same part of the batch to `mix`.
        """
        self.signals.mix = mix

    def judge_tokens_by(self, positions: EqualPosition) -> None:
        """Ask `positions` which positions of a language model's context are new.

        Before this object gets a second, the caller must convert the second with `positions`.
        """
        self.signals.positions = positions

    def join(self, first: "Slowdowns", number: int, *, of_tokens: bool = False) -> None:
        """Make this the object for the stream `number` of a session that has several streams.

        `first` is the object for stream 0, whose signals are used here too. Both must get the same batches, and `first`
        must get each batch before this object does. With `of_tokens`, the seconds that this object gets have times per
        token, which are not converted to one size of the inputs.
        """
        self.signals, self._has_own_events = first.signals.of_stream(number, of_tokens=of_tokens), False
        self.settled_s = self._judgement.until_s = first.settled_s

    def fold_part(self, batch: Batch) -> None:
        rows = batch.seconds.rows
        if batch.manifest is not None:
            self.signals.register(batch.manifest)
        if batch.judged is not None:
            # A state of another version is ignored, and the judgement begins here.
            with contextlib.suppress(ValueError):
                self._judgement = import_state(batch.judged, self.signals.channels, batch.until_ns, self.signals.unset)
                self._view = self._newest_tail = self._ahead = None
        if self._has_own_events:
            self.signals.events.on_event(batch.events)
            self.signals.sizes.fold(batch.readings)
        self.signals.sized.fold(batch.readings)
        self._phases.fold(batch.events)
        end_ns, before_s = self._phases.measured_until_ns, self._end_s
        self._end_s = end_ns / NS if end_ns else float("inf")
        if self._ahead and (self._end_s != before_s or _is_late(batch, self._ahead.until_s)):
            self._ahead = None
        if len(rows) or len(batch.readings) or batch.events:
            self._view = self._newest_tail = None
        self._rows = np.concatenate([self._rows, rows[rows["t_ns"] >= self._newest_s * NS]], dtype=SECOND)
        settled_s = self._newest_s - LATE_S
        self.signals.events.forget(settled_s)
        if settled_s >= self.settled_s + SETTLED_AT_ONCE_S:
            self._settle_over_pauses(settled_s)
            self._rows = self._rows.copy()  # A copy, so that the whole batch is not kept in memory.

    def _settle_over_pauses(self, until_s: int) -> None:
        """Make the results up to the second `until_s` final.

        Of a pause of more than a week, only the first ten minutes are examined.
        """
        second = np.append(self.settled_s - 1, self._rows["t_ns"] // NS)
        for place in np.flatnonzero(np.diff(second) > MOST_EMPTY_S).tolist():
            self._settle_in_steps(min(int(second[place]) + PAUSED_S, until_s))
            self.settled_s = min(int(second[place + 1]), until_s)
            self._judgement.until_s = max(self._judgement.until_s, self.settled_s)
        self._settle_in_steps(until_s)

    def _settle_in_steps(self, until_s: int) -> None:
        for step_s in range(self.settled_s + STEP_S, until_s, STEP_S):
            self._settle(step_s)
        self._settle(until_s)

    @property
    def _newest_s(self) -> int:
        """Return the first second that is not complete yet."""
        return int(self._rows["t_ns"][-1]) // NS + 1 if len(self._rows) else self.settled_s

    def _settle(self, until_s: int) -> None:
        # There is one row per second.
        most = max(0, until_s - int(self._rows["t_ns"][0]) // NS) if len(self._rows) else 0
        due = int(np.searchsorted(self._rows["t_ns"][:most], until_s * NS))
        rows, self._rows = self._rows[:due], self._rows[due:]
        self.settled_s = until_s
        if self._ahead and self._ahead.until_s < until_s:
            self._ahead = None
        self._advance(self._judgement, rows, until_s)
        self.signals.sized.forget(until_s)
        if self._has_own_events:
            self.signals.sizes.forget(until_s)
        self._tail.advance(rows, self.signals)

    def _advance(self, judgement: Judgement, rows: Rows, until_s: int) -> None:
        """Give the seconds `rows` up to `until_s` to `judgement`, the state of the search for slowdowns.

        Seconds that `judgement` already has are left out.
        """
        if until_s > judgement.until_s:
            judgement.advance(rows[rows["t_ns"] >= judgement.until_s * NS], until_s, self.signals)

    def export_state(self) -> Document | None:
        """Return the final results as JSON, from which a remote viewer can continue.

        The result is None while a change of the latency is undecided.
        """
        if not is_quiet(self._judgement):
            return None
        if stages := self._judgement.stages:  # sensors may have come since a stage was counted last
            for stage in (stages.stage, *stages.below, *([stages.over] if stages.over else [])):
                for evidence in stage.candidates:
                    evidence.follow(self.signals.channels)
        return export_state(self._judgement)

    def view(self) -> SlowdownsView:
        """Return the slowdowns. The result is the same object until a batch with data comes."""
        if self._view is None:
            if self._ahead is None:
                self._ahead = self._judgement.copy()
                self._ahead.detector.end_s = self._end_s
            self._advance(self._ahead, self._rows, self._newest_s)
            self._view = self._ahead.view(self.signals)
        return self._view

    def tail(self, p50_ns: float | None, slowdowns: Sequence[Slowdown] | None = None) -> TailView:
        """Return the slowest inferences with their causes.

        `p50_ns` is the median latency of the session in ns, or None if nothing was measured. Without it, the result is
        empty. `slowdowns` may explain an inference; None for those that this object has found.
        """
        if p50_ns is None:
            return TailView()
        if self._newest_tail is None:
            self._newest_tail = self._tail.copy()
            self._newest_tail.advance(self._rows, self.signals)
        explaining = self.view().slowdowns if slowdowns is None else slowdowns
        view = self._newest_tail.view(p50_ns, explaining, self.signals)
        self._tail.remember(self._newest_tail, self.settled_s)
        return view


def _is_late(batch: Batch, until_s: int) -> bool:
    """Whether the batch may change the judgement of the seconds before the session second `until_s`.

    True if the batch has readings of these seconds, a manifest with other sensors, or a report of a program that took
    CPU time or memory. The report may come after a slowdown that this program caused.
    """
    is_taken = any(isinstance(event.body, Competing | GpuCompeting | MemoryTaken) for event in batch.events)
    first_ns = int(batch.readings["t_ns"].min(initial=until_s * NS))
    return batch.manifest is not None or is_taken or first_ns < until_s * NS or bool(len(batch.aggregates))


def judged(batches: Iterable[Batch], from_s: int) -> Document:
    """Return the results on slowdowns and throttling as JSON, from which a remote viewer can continue.

    The results are as of the first moment, at second `from_s` or later, at which no change of the latency is undecided.
    Each stream has its own moment; a stream without such a moment is left out. `batches` has all data of the session.
    """
    tracks, phases, mix = Tracks(), Phases(), Mix()
    first, throttles = Slowdowns(tracks, phases), Throttles(tracks, phases)
    first.count_calls_by(mix)
    streams: dict[int, Slowdowns] = {0: first}
    found: dict[int, Document] = {}
    for batch in batches:
        for part in tracks.parts(batch):
            seconds = ByStream(part.seconds)
            for number in seconds.numbers:
                if number not in streams and len(streams) < MOST_JUDGED:
                    streams[number] = Slowdowns(tracks, phases)
                    streams[number].join(first, number)
            mix.fold(part.seconds)
            for number, stream in streams.items():
                stream.fold(replace(part, seconds=seconds.of(number)))
            throttles.fold(part)
        for number, stream in streams.items():
            if number not in found and stream.settled_s >= from_s and (document := stream.export_state()):
                found[number] = document
        if len(found) == len(streams):
            break
    others = {str(number): document for number, document in found.items() if number}
    return {**found.get(0, {}), **throttles.export_state(), **({"streams": others} if others else {})}


def judged_stream(judged: Mapping[str, object] | None, number: int) -> Mapping[str, object] | None:
    """Return the part of `judged` for the stream `number`. `judged` is a document that the function `judged` returned.

    The result is None if there is no such part. For stream 0, it is the whole document.
    """
    if judged is None or not number:
        return judged
    streams = judged.get("streams")
    of_stream = streams.get(str(number)) if isinstance(streams, dict) else None
    return of_stream if isinstance(of_stream, dict) else None
