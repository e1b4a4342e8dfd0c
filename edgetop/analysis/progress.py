"""The progress of a session: its phase, how much of it is done, and whether it is recorded."""

from dataclasses import replace
from typing import Any

import numpy as np

from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.engine_events import EngineDied, EngineFailed, ProfileBurst
from edgetop.session.event_kinds import (
    GateFailed,
    PhaseBegan,
    RecordingCaughtUp,
    RecordingRestored,
    RecordingTrouble,
    Remark,
    Rotated,
    SessionOver,
)
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.phases import Phase, Phases
from edgetop.session.records import WARMUP, last_end_ns
from edgetop.session.seconds import NS

# Time without an inference from which the engine is stalled. Choice: as long as a reader waits. Larger: a hang is
# seen late; smaller: a pause of a program is a hang.
STALLED_AFTER_NS = 5_000_000_000
# The same in longest latencies so far, if that is more. Choice. Larger: a hang of a slow model is seen late; smaller:
# a slow model is stalled by one slow inference.
STALLED_AFTER_LATENCIES = 10


@frozen
class ProgressView:
    phase: Phase = "loading"
    now_ns: int = 0
    measured_ns: int | None = None  # Time since the measured phase began; None before it.
    warmup_done: int | None = 0  # Number of warm-up inferences done; None if unknown, in a session that is over.
    warmup_runs: int | None = None  # Requested number of warm-up inferences.
    runs: int | None = None  # Requested number of measured inferences; None if unlimited.
    duration_ns: int | None = None  # Requested length of the measured phase; None if unlimited.
    idle_ns: int | None = None  # Requested length of the idle baseline; None if none was requested.
    idle_done_ns: int = 0  # Part of the idle baseline that is over.
    silent_ns: int | None = None  # Time since the last inference ended or the phase began; None if no inference is due.
    end_reason: str | None = None
    end_error: str | None = None  # What the engine died of, or which gate ended the session.
    unseen: str = ""  # Why no inference of a watched program can be seen; "" if it can.
    is_unseen_wrong: bool = False  # Whether there should be inferences, because the program has loaded a runtime.
    is_program: bool = False  # Whether this is a program of which no inference has been seen.
    stopping: str = ""  # Program for which the session waits before it ends.

    def at(self, now_ns: int) -> "ProgressView":
        """Return the progress at a later session time, in ns, if nothing but the time has changed until then."""
        passed_ns = max(0, now_ns - self.now_ns)
        measured_ns = None if self.measured_ns is None else self.measured_ns + passed_ns
        return replace(self, now_ns=self.now_ns + passed_ns, measured_ns=measured_ns)


def is_stalled(progress: ProgressView, longest_ns: int | None, manifest: Manifest | None) -> bool:
    """Whether an inference takes so long that the engine seems to hang.

    `progress`: the present progress of the session. `longest_ns`: the longest latency so far in ns; None if no
    inference has ended. `manifest`: the description of the session; None if unknown.
    """
    if progress.silent_ns is None or progress.phase not in ("warmup", "measure"):
        return False
    if manifest and manifest.generation and manifest.generation.is_of_others:
        return False
    first_ns = manifest.engine.first_ns if manifest else None
    usual = first_ns or 0 if longest_ns is None else longest_ns
    rest_ns = manifest.load.longest_rest_ns if manifest else 0
    return progress.silent_ns > max(STALLED_AFTER_NS, STALLED_AFTER_LATENCIES * usual) + rest_ns


class Progress:
    def __init__(self, phases: Phases | None = None) -> None:
        self._phases = phases or Phases()
        self._known = ProgressView()  # What the events say, without the values that change with time alone.
        self._view: ProgressView | None = None  # Cached until the next fold, because a dozen figures ask for it.
        self._now_ns = self._warmup_ns = 0
        self._last_sign_ns: int | None = None
        # When the present profiling round began, during which nothing is measured.
        self._profiling_since_ns: int | None = None
        # Whether inferences wait in the engine, so that the last ones came late and more will come.
        self._are_records_late = False

    @property
    def began_measuring_ns(self) -> int | None:
        return self._phases.measured_from_ns

    @property
    def measured_until_ns(self) -> int:
        """Return the session time in ns at which the measured phase ended, or the present time if it has not ended."""
        until_ns = self._phases.measured_until_ns
        return self._now_ns if until_ns is None else until_ns

    @property
    def warmup(self) -> tuple[int | None, int]:
        """Return the number of warm-up inferences (None if unknown), and the sum of their latencies in ns."""
        return self._known.warmup_done, self._warmup_ns

    def fold(self, batch: Batch) -> None:
        self._view = None
        self._now_ns = max(self._now_ns, batch.until_ns)
        self._phases.fold(batch.events)
        for event in batch.events:
            self._on_event(event)
        if len(batch.aggregates):  # The rest of that past is still to come.
            self._saw_sign(batch.until_ns)
        if np.any(held := batch.seconds.rows["count"] > 0):  # Past seconds without single inferences.
            self._saw_sign(int(batch.seconds.rows["t_ns"][held][-1]))
        tokens = batch.seconds.tokens  # A request may take minutes, but its tokens are signs of it.
        if tokens is not None and np.any(held := tokens.rows["tokens_out"] > 0):
            self._saw_sign(int(batch.seconds.rows["t_ns"][held][-1]) + NS)
        if len(batch.inferences) and self._phases.over is None:
            self._saw_sign(last_end_ns(batch.inferences))
            warmup = batch.inferences["phase"] == WARMUP
            if runs := int(np.count_nonzero(warmup)):
                self._learn(warmup_done=(self._known.warmup_done or 0) + runs)
            self._warmup_ns += int(batch.inferences["latency_ns"][warmup].sum())

    def _learn(self, **known: Any) -> None:  # fields of the view, whose types differ
        self._known = replace(self._known, **known)

    def _on_event(self, event: Event) -> None:  # noqa: C901  a case a kind of event
        match event.body:
            case ProfileBurst(duration_ns=duration_ns):  # First, because a day has thousands of these.
                self._saw_sign(event.t_ns + duration_ns)
            case PhaseBegan():
                self._saw_sign(event.t_ns)
            case Rotated():  # The model was already warm.
                self._learn(warmup_done=None)
            case Remark("profile-burst-begins"):
                self._profiling_since_ns = event.t_ns
            case Remark("records-late" | "records-on-time" as kind):
                self._are_records_late = kind == "records-late"
            case EngineDied() | EngineFailed() | GateFailed():
                self._learn(end_error=event.message)
            case Remark("no-inference"):
                self._learn(unseen=event.message, is_unseen_wrong=event.severity != "info")
            case Remark("stopping"):
                self._learn(stopping=event.message)
            case SessionOver() as over:
                self._learn(end_reason=over.reason or "")
                if self._known.warmup_done is not None:
                    self._learn(warmup_done=over.warmup_runs)
                self._warmup_ns = over.warmup_ns or 0

    def _saw_sign(self, t_ns: int) -> None:
        if self._profiling_since_ns is not None and t_ns > self._profiling_since_ns:
            self._profiling_since_ns = None
        self._last_sign_ns = t_ns if self._last_sign_ns is None else max(self._last_sign_ns, t_ns)

    def _silent_ns(self) -> int | None:
        if self._phases.over is not None or self._profiling_since_ns is not None or self._last_sign_ns is None:
            return None
        if self._are_records_late:
            return None
        begun_ns, lasts_ns = self._phases.measured_from_ns, self._phases.duration_ns
        if begun_ns is not None and lasts_ns is not None and self._last_sign_ns >= begun_ns + lasts_ns:
            return None  # The session is over, so no inference is due.
        return self._now_ns - self._last_sign_ns

    def view(self) -> ProgressView:
        if self._view is None:
            phases = self._phases
            begun = phases.measured_from_ns
            self._view = replace(
                self._known,
                phase=phases.phase,
                warmup_runs=phases.warmup_runs,
                runs=phases.runs,
                duration_ns=phases.duration_ns,
                idle_ns=phases.idle_ns,
                now_ns=self._now_ns,
                measured_ns=None if begun is None else max(0, self.measured_until_ns - begun),
                idle_done_ns=max(0, self._now_ns - (phases.idle_from_ns or 0)),
                silent_ns=self._silent_ns(),
                is_program=phases.program_from_ns is not None and not phases.has_inference,
            )
        return self._view


class RecordingState:
    def __init__(self) -> None:
        self.is_paused = False  # Whether the user paused the recording.
        self.trouble = ""  # Why the recording is incomplete; "" if it is complete.

    def on_event(self, event: Event) -> None:
        match event.body:
            case Remark("recording-paused" | "recording-resumed" as kind):
                self.is_paused = kind == "recording-paused"
            case RecordingTrouble(why=why):
                self.trouble = why or event.message
            case RecordingRestored() | RecordingCaughtUp():
                self.trouble = ""
