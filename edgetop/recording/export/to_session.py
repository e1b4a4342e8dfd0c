"""Export of a part of a recording (the cut) as a recording of its own, for example to send it to a colleague.

Time 0 of the new session is where the cut begins. Only whole seconds are exported, so that the session is valid. Events
before the cut that still hold at its beginning, such as the phase or a lost sensor, are repeated there. The event of
the session's end is repeated at the end of the cut.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop import __version__, formatting
from edgetop.recording.compaction import WaitingRows
from edgetop.recording.export.export_formats import Output, Selection
from edgetop.recording.kept_outputs import copy_outputs
from edgetop.recording.parquet_tables import Tables, seconds_kind
from edgetop.recording.rows import Span
from edgetop.recording.session_folder import FOLDER_MODE, JOURNAL
from edgetop.session.clock import Anchor
from edgetop.session.event_kinds import Cut, RecordingRestored, SessionOver
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.records import WARMUP, last_end_ns, measured
from edgetop.session.seconds import NS, Seconds

# Said once, and true of all that follows.
SAID_ONCE = frozenset({
    *("demo-model", "model-misnamed", "engine-started", "engine-loaded", "engine-memory", "assumed-shape"),
    *("assumed-signature", "fallback-reasons"),
    *("provider-dropped", "partly-accelerated", "data-dependent", "roofline", "coarse-times"),
    *("imported", "tool-summary", "no-starts"),
    *("sensor-missing", "no-sensors", "clock-source"),
    *("calls-unseen", "foreign-times", "streams-full", "oom-kill"),
    *("gate", "alert-rule", "outputs-kept", "non-finite-outputs"),
})  # fmt: skip
_STATE_OF = {
    "phase": "phase", "profiler": "profiler", "sensor-lost": "sensor", "sensor-back": "sensor",
    "recording-paused": "recording", "recording-resumed": "recording",
}  # fmt: skip


def export(selection: Selection, output: Output) -> None:
    span = selection.bounds.in_steps_of(NS)
    with output.folder() as folder:
        folder.chmod(FOLDER_MODE)
        (folder / JOURNAL).mkdir(FOLDER_MODE)
        recording = selection.recording
        tables = Tables(folder / JOURNAL, kind=seconds_kind(recording.manifest))
        counts = _Counts()
        waiting = WaitingRows(tables, "cut", [info.id for info in recording.manifest.sensors])
        for name in ("inferences", "requests", "readings", "operators", "seconds"):
            table = "inferences" if name == "requests" else name  # they are chosen together
            for rows in recording.rows(name, span) if table in selection.tables else ():
                moved = _moved(rows, span.begin_ns)
                counts.add(name, moved)
                waiting.put(name, moved)
        manifest = _manifest(recording.manifest, span, recording.end_ns, counts)
        for events in _events(selection, span, counts, manifest):
            waiting.put("events", events)
        waiting.flush()
        tables.publish(folder, manifest, {})
        recording.problems.extend(copy_outputs(recording.folder, folder))


@dataclass(slots=True)
class _Counts:
    """The numbers of inferences in the exported part, for the manifest and the last event of the new session."""

    inferences: int = 0
    warmup_runs: int = 0
    warmup_ns: int = 0
    measured: int = 0
    last_end_ns: int = 0  # in the time of the cut
    by_stream: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))  # measured, not failed

    def add(self, name: str, rows: Any) -> None:
        if name == "seconds":
            self.measured += rows.runs
        elif name == "inferences":
            warmup = rows["phase"] == WARMUP
            self.by_stream += np.bincount(measured(rows)["stream"], minlength=256)
            self.inferences += len(rows)
            self.warmup_runs += int(np.count_nonzero(warmup))
            self.warmup_ns += int(rows["latency_ns"][warmup].sum())
            self.last_end_ns = max(self.last_end_ns, last_end_ns(rows))


def _moved(rows: Any, by_ns: int) -> Any:
    """Return a copy of the rows of any table of a `Batch`, with all times reduced by `by_ns`."""
    if isinstance(rows, tuple):
        return tuple(replace(burst, t_ns=burst.t_ns - by_ns) for burst in rows)
    if isinstance(rows, Seconds):
        response = None if rows.response is None else _moved(rows.response, by_ns)
        streams = rows.streams and replace(rows.streams, seconds=_moved(rows.streams.seconds, by_ns))
        tokens = rows.tokens and rows.tokens.mapped(lambda each: _moved(each, by_ns))
        return replace(rows, rows=_moved(rows.rows, by_ns), response=response, streams=streams, tokens=tokens)
    moved = rows.copy()
    moved["t_ns"] -= by_ns
    return moved


def _manifest(whole: Manifest, span: Span, end_ns: int, counts: _Counts) -> Manifest:
    wall = whole.wall_time()
    anchors = [Anchor(0, wall.utc(span.begin_ns))] if wall else []
    later = (a for a in whole.clock.anchors if span.begin_ns < a.t_ns < span.end_ns)
    anchors += [replace(anchor, t_ns=anchor.t_ns - span.begin_ns) for anchor in later]
    begin, end = formatting.clock_time(span.begin_ns), formatting.clock_time(span.end_ns)
    origin_ns = whole.clock.origin_monotonic_ns + span.begin_ns
    methodology = replace(
        whole.methodology,
        warmup_runs=_warmup_runs(whole, span, counts),
        measure_runs=counts.measured,
        stream_runs=_stream_runs(whole, span, end_ns, counts),
        notes=(*whole.methodology.notes, f"cut from {whole.name} ({whole.id}): {begin} to {end}"),
    )
    return replace(
        whole,
        id=str(uuid.uuid4()),
        name=f"{whole.name}-cut",
        state="finished",
        end_reason=(whole.end_reason if span.end_ns >= end_ns else None) or "user",
        edgetop_version=__version__,
        created_utc=wall.utc(span.begin_ns) if wall else whole.created_utc,
        duration_ns=min(span.end_ns, end_ns) - span.begin_ns,
        clock=replace(whole.clock, origin_monotonic_ns=origin_ns, anchors=tuple(anchors)),
        methodology=methodology,
    )


def _warmup_runs(whole: Manifest, span: Span, counts: _Counts) -> int | None:
    """Return the number of warm-up runs in the exported span, or None if unknown.

    `whole` is the manifest of the whole session. `counts` are the numbers of inferences in the span.
    """
    # Known if the span begins with the session, or has warm-up inferences that were recorded individually.
    if counts.inferences and (span.begin_ns <= 0 or counts.warmup_runs):
        return counts.warmup_runs
    return whole.methodology.warmup_runs if span.begin_ns <= 0 else None


def _stream_runs(whole: Manifest, span: Span, end_ns: int, counts: _Counts) -> tuple[int, ...]:
    """Return the number of measured runs of each stream in the exported span.

    The result is () if inferences were not recorded individually. `whole` is the manifest of the whole session, and
    `end_ns` the session's end. `counts` are the numbers of inferences in the span.
    """
    runs = whole.methodology.stream_runs
    if span.begin_ns <= 0 and span.end_ns >= end_ns:
        return runs
    return tuple(counts.by_stream[: len(runs)].tolist()) if counts.inferences else ()


def _events(selection: Selection, span: Span, counts: _Counts, manifest: Manifest) -> Iterator[tuple[Event, ...]]:
    reason = manifest.end_reason or "user"
    last_end_ns = counts.last_end_ns or manifest.duration_ns
    last = SessionOver("ended", reason, last_end_ns, manifest.methodology.warmup_runs, counts.warmup_ns)
    cut = Cut(selection.recording.manifest.id, span.begin_ns, span.end_ns)
    yield (*_standing(selection, span), Event(0, cut, "info", "edgetop", manifest.methodology.notes[-1]))
    has_ended = False
    for piece in selection.recording.rows("events", span):
        has_ended = has_ended or any(isinstance(event.body, SessionOver) for event in piece)
        yield tuple(_moved_event(event, span, last) for event in piece)
    if not has_ended:
        yield (Event(manifest.duration_ns or 0, last, "info", "edgetop", f"session over: {reason}"),)


def _moved_event(event: Event, span: Span, last: SessionOver) -> Event:
    body = event.body
    match body:
        case SessionOver(last_end_ns=end_ns):
            body = replace(body, last_end_ns=None if end_ns is None else end_ns - span.begin_ns)
            if span.begin_ns > 0:  # the warm-up may lie before the cut
                body = replace(body, warmup_runs=last.warmup_runs, warmup_ns=last.warmup_ns)
        case RecordingRestored(began_ns=int(began_ns)):
            body = replace(body, began_ns=began_ns - span.begin_ns)
    return replace(event, t_ns=event.t_ns - span.begin_ns, body=body)


def _standing(selection: Selection, span: Span) -> Iterator[Event]:
    """Yield the earlier events that set the state at the beginning of the exported span, such as the phase.

    Their time is set to 0.
    """
    in_force: dict[tuple[str, ...], Event] = {}
    for piece in selection.recording.rows("events", Span(end_ns=span.begin_ns)):
        for event in piece:
            key = _subject(event)
            if key:
                in_force[key] = event
    for event in in_force.values():
        if event.kind not in ("sensor-back", "recording-resumed"):
            yield replace(event, t_ns=0)


def _subject(event: Event) -> tuple[str, ...]:
    """Return a key for the state that an event sets, such as the current phase, or () if it sets no state.

    The last event with a key sets the state.
    """
    if event.kind in SAID_ONCE:
        return (event.kind, event.source, event.message)
    state = _STATE_OF.get(event.kind, "")
    return (state, event.source if state == "sensor" else "") if state else ()
