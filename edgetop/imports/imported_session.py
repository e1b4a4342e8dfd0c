"""Write another tool's measurement as a finished edgetop session. Values that the tool did not report stay unknown.

The recorder of live sessions also writes imported ones, so every reader of recordings can read them.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from edgetop import __version__, formatting
from edgetop.errors import InputError, RecordingError
from edgetop.frozen import frozen
from edgetop.imports.measured import NO_SUMMARY, Generated, Layers, Measured, SensorLog, Summary, Times
from edgetop.recording.recorder import Recorder
from edgetop.recording.removal import remove_session
from edgetop.recording.session_folder import is_real_folder, read_manifest
from edgetop.session.batch import Batch
from edgetop.session.clock import format_utc
from edgetop.session.engine_events import ProfileBurst, ProfilerChosen
from edgetop.session.event_fields import PhaseName
from edgetop.session.event_kinds import CoarseTimes, PhaseBegan, Remark, SessionImported, SessionOver, ToolSummary
from edgetop.session.events import Body, Event, Severity
from edgetop.session.generation_settings import Generation
from edgetop.session.load_settings import Load
from edgetop.session.manifest import (
    FORMAT_VERSION,
    IMPORTED,
    Board,
    ClockInfo,
    EngineInfo,
    Manifest,
    Methodology,
    Model,
    Watched,
)
from edgetop.session.operators import burst_of
from edgetop.session.records import INFERENCE, MEASURE, READING, TOKEN, WARMUP
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import concatenate
from edgetop.session.token_aggregator import TokenAggregator
from edgetop.session.typed_json import JsonValue

UNKNOWN_MODEL = "unknown"
BATCH_INFERENCES = 50_000
ELSEWHERE = "name another place with -o"
COARSE = 0.01  # times the median: latencies that are rounded to larger steps cause a warning
PROGRAM_ENDED = "exit"  # end reason of an imported program
RUNS = "runs"  # end reason of an imported session: all inferences of the file are done


@frozen
class Imported:
    """One measurement of another tool, ready to be written as a session."""

    name: str
    model: str | None  # the model's name; None: the name in the files
    measured: Measured

    @property
    def summary(self) -> str:
        """Return what the session contains, in words, such as `3,015 inferences and 12 layers`."""
        measured = self.measured
        parts = [formatting.quantity(measured.measured or 0, "inference")] if measured.times else []
        if measured.generated:
            parts.append(formatting.quantity(measured.measured or 0, "request"))
        if measured.layers:
            parts.append(formatting.quantity(len(measured.layers.operators), "layer"))
        if measured.log:
            readings = sum(map(len, measured.log.values))
            sensors = formatting.quantity(len(measured.log.sensors), "sensor")
            kinds = f"{formatting.quantity(readings, 'reading')} of {sensors}"
            parts.append(kinds if readings else "the totals of a program")
        if measured.summary and not (measured.times or measured.generated):
            parts.append(f"the summary that {measured.origin.tool} prints, and no single inference")
        return " and ".join(parts)

    def record(self, folder: Path, now: datetime, *, force: bool = False) -> None:
        """Write the session as a recording into the new folder `folder`.

        `now` is the time of the import, which the recording keeps as its creation time. With `force`, an imported
        session at `folder` is replaced.

        Raises InputError or RecordingError. After an error, everything is as it was before.
        """
        first, last = self._manifests(now)
        with _place(folder, force=force):
            recorder = Recorder(folder, first)
            try:
                for batch in self._batches(first, last):
                    recorder.write(batch)
                recorder.finish(last)
            except BaseException:  # Ctrl-C too must not leave half a session
                recorder.discard()
                raise

    def _manifests(self, now: datetime) -> tuple[Manifest, Manifest]:
        measured, origin = self.measured, self.measured.origin
        summary, log = measured.summary or NO_SUMMARY, measured.log
        notes = [
            f"imported from {' and '.join(measured.files)} of {origin.tool}",
            *([log.note] if log else []),
            *measured.notes,
        ]
        init_ns, first_ns, made = summary.init_ns, summary.first_ns, measured.generated
        model = self.model or (made.model if made else None) or summary.model or UNKNOWN_MODEL
        version = (made.version if made else None) or summary.version
        first = Manifest(
            format_version=FORMAT_VERSION,
            id=str(uuid.uuid4()),
            name=self.name,
            state="live",
            edgetop_version=__version__,
            created_utc=format_utc(now),
            clock=ClockInfo(0, None),
            board=Board(memory_bytes=log.memory_bytes if log else None),
            model=Model(model),
            engine=EngineInfo(
                origin.runtime,
                version,
                measured.providers,
                threads=(made.threads if made else None) or 0,
                init_ns=init_ns,
                first_ns=first_ns,
            ),
            generation=Generation(context=None, max_tokens=None) if made else None,
            load=Load(input=UNKNOWN_MODEL, batch=summary.batch),
            methodology=Methodology(notes=tuple(notes)),
            labels={IMPORTED: origin.tool},
            sensors=log.sensors if log else (),
            watched=Watched(log.command) if log and log.command else None,
        )
        runs = replace(first.methodology, warmup_runs=measured.warmup, measure_runs=measured.measured)
        last = replace(
            first, state="finished", end_reason=self._end_reason, duration_ns=measured.end_ns or None, methodology=runs
        )
        return first, last

    def _batches(self, first: Manifest, last: Manifest) -> Iterator[Batch]:
        yield Batch(0, events=tuple(self._opening(first)), manifest=first)
        if self.measured.times:
            yield from _inferences(self.measured.times)
        if self.measured.generated:
            yield _requests(self.measured.generated)
        if self.measured.log:
            yield from _readings(self.measured.log)
        if self.measured.layers:
            yield self._burst(self.measured.layers)
        used = self.measured.log and self.measured.log.used
        told = [_event(self.measured.end_ns, used, "the program ended")] if used else []
        yield Batch(self.measured.end_ns, events=(*told, self._ending()), manifest=last)

    def _opening(self, first: Manifest) -> Iterator[Event]:
        times, summary, log = self.measured.times, self.measured.summary, self.measured.log
        parts: dict[str, JsonValue] = {f"{part}_ms": ms for part, ms in times.parts_ms.items()} if times else {}
        yield _event(0, SessionImported(parts), first.methodology.notes[0])
        if self.measured.origin.runtime is not None:
            way = self.measured.origin.way if self.measured.layers else ""
            reason = "" if way else "no profile was imported"
            yield _event(0, ProfilerChosen(way, reason), f"operators: {way or reason}")
        if summary:
            yield _summary_event(summary, self.measured.origin.tool, is_all=times is None)
        if times:
            median = float(np.median(times.latency_ns))
            if times.step_ns >= COARSE * median:
                step, share = formatting.milliseconds(times.step_ns), formatting.percent(times.step_ns / median)
                text = f"latencies are rounded to steps of up to {step} ms, {share} of the median: the run was long"
                yield _event(0, CoarseTimes(times.step_ns), text, "warning")
            if times.warmup:
                yield _event(0, PhaseBegan("warmup", times.warmup), "warm-up begins")
        if times and not times.has_starts:
            text = "the starts of inferences are unknown: each is placed where the one before it ended"
            yield _event(0, Remark("no-starts"), text, "warning")
        elif times or log or self.measured.generated:
            began_ns = int(times.start_ns[times.warmup or 0]) if times else 0
            phase: PhaseName = "program" if log and log.command else "measure"
            yield _event(began_ns, PhaseBegan(phase), "measurement begins")

    def _burst(self, layers: Layers) -> Batch:
        """Return a batch with the times of the layers, in the form of profiled inferences.

        The batch is dated to the end of the last inference, so that it does not fall in the measured time. Without
        inferences, it is dated to time 0.
        """
        t_ns, times = 0, self.measured.times
        if times:
            t_ns, layers = times.end_ns, layers.with_copies(times, self.measured.origin.provider)
        text = formatting.quantity(layers.runs, "instrumented inference")
        event = _event(t_ns, ProfileBurst(runs=layers.runs, run_ns=layers.run_ns, averaged=True), text)
        return Batch(t_ns, events=(event,), bursts=(burst_of(t_ns, 0, layers.operators),))

    def _ending(self) -> Event:
        times, summary = self.measured.times, self.measured.summary or NO_SUMMARY
        warmup_ns = int(times.latency_ns[: times.warmup].sum()) if times and times.warmup else summary.warmup_ns
        last_end_ns, warmup_runs = times.end_ns if times else None, self.measured.warmup
        over = SessionOver("ended", self._end_reason, last_end_ns, warmup_runs, warmup_ns)
        return _event(self.measured.end_ns, over, f"session over: {self._end_reason}")

    @property
    def _end_reason(self) -> str:
        log = self.measured.log
        return PROGRAM_ENDED if log and log.command else RUNS


@contextlib.contextmanager
def _place(folder: Path, *, force: bool) -> Iterator[None]:
    """Move an old session at `folder` aside while the body of a `with` statement runs, and delete it afterwards.

    If the body raises, the old session is put back. `force` allows the old session to be replaced. Raises InputError if
    anything is at `folder` and `force` is False, or if edgetop did not import the session there.
    """
    aside = None
    if os.path.lexists(folder):
        if not force:
            raise InputError(f"{folder}: exists already", f"--force replaces it, or {ELSEWHERE}")
        try:
            was_imported = is_real_folder(folder) and read_manifest(folder).was_imported
        except InputError:
            was_imported = False
        if not was_imported:
            raise InputError(f"{folder}: was not imported, and --force replaces nothing else", ELSEWHERE)
        aside = folder.parent / f".{folder.name[:200]}.{os.getpid()}.replaced"
        try:
            folder.rename(aside)
        except OSError as error:
            raise InputError(f"{folder}: cannot be replaced: {error.strerror}", ELSEWHERE) from None
    try:
        yield
    except BaseException:  # Ctrl-C too loses no session that was there
        if aside:
            aside.rename(folder)
        raise
    if aside:
        _drop(aside, folder)


def _drop(aside: Path, folder: Path) -> None:
    """Delete the replaced session at `aside`. Files that edgetop did not write are moved into `folder`."""
    with contextlib.suppress(OSError, RecordingError):
        for name in remove_session(aside).left:
            if not os.path.lexists(folder / name):
                (aside / name).rename(folder / name)
        aside.rmdir()


def _summary_event(summary: Summary, tool: str, *, is_all: bool) -> Event:
    """Return an event that lists the figures that the tool printed.

    `tool` is the tool's name. `is_all` says that the session has only these figures, and no data of individual
    inferences. The event is then a warning.
    """
    words = ", ".join(_phrase(key, value) for key, value in summary.figures.items() if isinstance(value, int | float))
    text = f"{tool} says: {words}" if words else f"{tool} gives single inferences"
    more = {f"more_{key}": value for key, value in summary.more.items()}
    return _event(0, ToolSummary(tool, {**summary.figures, **more}), text, "warning" if is_all else "info")


def _phrase(key: str, value: float) -> str:
    """Return one figure of the tool as words. `key` is the figure's name with its unit.

    >>> _phrase("p50_ms", 1.1897), _phrase("throughput_hz", 1004.27), _phrase("count", 3015)
    ('p50 1.1897 ms', '1004.27/s', '3015 inferences')
    """
    if key == "throughput_hz":
        return f"{value:g}/s"
    return formatting.quantity(value, "inference") if key == "count" else f"{key.removesuffix('_ms')} {value:g} ms"


def _readings(log: SensorLog) -> Iterator[Batch]:
    if not log.sensors:
        return
    lengths = [len(times) for times in log.times_ns]
    rows = np.zeros(sum(lengths), READING)
    rows["t_ns"], rows["value"] = np.concatenate(log.times_ns), np.concatenate(log.values)
    rows["sensor"] = np.repeat(np.arange(len(lengths)), lengths)
    rows = rows[np.argsort(rows["t_ns"], kind="stable")]
    for begin in range(0, len(rows), BATCH_INFERENCES):
        part = rows[begin : begin + BATCH_INFERENCES]
        yield Batch(int(part["t_ns"][-1]), readings=part)


def _inferences(times: Times) -> Iterator[Batch]:
    aggregator = SecondAggregator()
    for begin in range(0, len(times.start_ns), BATCH_INFERENCES):
        part = slice(begin, begin + BATCH_INFERENCES)
        rows = np.zeros(len(times.start_ns[part]), INFERENCE)
        rows["t_ns"], rows["latency_ns"], rows["ok"] = times.start_ns[part], times.latency_ns[part], True
        rows["phase"] = np.where(begin + np.arange(len(rows)) < (times.warmup or 0), WARMUP, MEASURE)
        yield Batch(int(rows["t_ns"][-1]), inferences=rows, seconds=aggregator.add(rows))
    yield Batch(times.end_ns, seconds=aggregator.close())


def _requests(made: Generated) -> Batch:
    """Return a batch (session data of a span of time) with the requests in `made` and what is known of their tokens.

    Each request gives at most two rows of token times: a row for its first token, and a row with the mean time between
    its later tokens.
    """
    requests = made.requests
    inferences = np.zeros(len(requests), INFERENCE)
    for name in ("t_ns", "latency_ns", "phase"):
        inferences[name] = requests[name]
    inferences["ok"] = True
    ends_ns = requests["t_ns"] + requests["latency_ns"]
    firsts, later = np.zeros(len(requests), TOKEN), np.zeros(len(requests), TOKEN)
    firsts["t_ns"], firsts["gap_ns"] = requests["t_ns"] + requests["ttft_ns"], requests["ttft_ns"]
    later["t_ns"], later["gap_ns"], later["is_later"] = ends_ns, made.gap_ns, True
    later["position"] = requests["tokens_in"] + requests["tokens_out"] // 2
    for tokens in (firsts, later):
        tokens["phase"] = requests["phase"]
    known = np.concatenate([firsts[requests["ttft_ns"] > 0], later[made.gap_ns > 0]])
    known = known[np.argsort(known["t_ns"], kind="stable")]
    aggregator = TokenAggregator(SecondAggregator())
    order = np.argsort(ends_ns, kind="stable")
    seconds = concatenate([aggregator.add(inferences[order], known, requests[order]), aggregator.close()])
    assert seconds.tokens is not None
    counted = requests["phase"] == MEASURE
    ended = np.searchsorted(seconds.rows["t_ns"], ends_ns[counted], side="right") - 1
    seconds.tokens.rows["tokens_out"] = np.bincount(ended, requests["tokens_out"][counted], len(seconds))
    return Batch(made.end_ns, inferences=inferences, seconds=seconds, requests=requests)


def _event(t_ns: int, body: Body, message: str, severity: Severity = "info") -> Event:
    return Event(t_ns, body, severity, "edgetop", message)
