"""Generated sessions of every shape, recorded as a run records them, and what each reader concludes of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.analysis.ab_quads import QuadEvents
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.throttles import ThrottleEvents, throttle_events
from edgetop.cli.session_outcome import outcome_of
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.recording.by_time import RecordingByTime
from edgetop.recording.reader import Recording
from edgetop.recording.session_folder import Retention
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.event_kinds import Cut, SessionOver
from edgetop.session.events import Event
from edgetop.session.manifest import Ab, EngineInfo, Manifest, Model, Variant, Watched, WatchedStream
from edgetop.session.records import Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS
from edgetop.session.turns import plan
from edgetop.wording.event_words import worded
from edgetop.wording.report_document import report_document
from tests.support.clocks import ManualClock
from tests.support.exports import export
from tests.support.generator.plans import Generated, generate
from tests.support.generator.widened import WIDENED
from tests.support.recordings import left_by_a_dead_writer, record
from tests.support.replays import played
from tests.support.sessions import differences

Ints = npt.NDArray[np.int64]
SHAPES = ("plain", "no-raw", "deadline", "stalled", "turns", "two-models", "died", "died-after-tables")
KINDS = (None, "on-top", *WIDENED)  # None: any of the usual ones, healthy sessions among them
LATE_S = (0.0, 0.0, 0.5, 1.5, 3.5)  # of a sensor; a run expects at most 4 s
SEGMENT_BYTES = 20_000  # so small that a session has several


@dataclass
class Run:
    """A session as its run hands it on: with the events that are derived on the way."""

    manifest: Manifest
    inferences: Inferences
    generated: Generated
    events: list[Event]
    late_ns: Ints  # by the place of a sensor: how late its readings come
    derived: list[Callable[[Batch], tuple[Event, ...]]] = field(default_factory=lambda: [ThrottleEvents().fold])

    def batches(self, killed_s: float | None = None) -> tuple[list[Batch], Batch]:
        """Return a batch for each second, and one with the second that was not complete; `killed_s`: up to then."""
        load, rows, readings = self.manifest.load, self.inferences, self.generated.readings
        came_ns = np.minimum(readings["t_ns"] + self.late_ns[readings["sensor"]], int(self.generated.end_s * NS))
        aggregator = SecondAggregator(load.deadline_ns, is_paced=load.is_paced, split_by=self.manifest.split_by)
        end_ns = int((killed_s or self.generated.end_s) * NS)
        made: list[Batch] = []
        begin_ns = -1
        for until_ns in [*range(NS, end_ns, NS), end_ns]:
            started = rows[(rows["t_ns"] > begin_ns) & (rows["t_ns"] <= until_ns)]
            read = readings[(came_ns > begin_ns) & (came_ns <= until_ns)]
            batch = Batch(
                until_ns, started, aggregator.add(started), read,
                tuple(event for event in self.events if begin_ns < event.t_ns <= until_ns),
                manifest=None if made else self.manifest, restart=not made,
            )  # fmt: skip
            news = [worded(event) for derive in self.derived for event in derive(batch)]
            made.append(replace(batch, events=(*batch.events, *news)))
            begin_ns = until_ns
        return made, Batch(end_ns, seconds=aggregator.close())


def run_of(seed: int, shape: str) -> Run:
    """Return the run of this seed and shape."""
    generated = generate(seed, KINDS[seed // len(SHAPES) % len(KINDS)])
    random = np.random.default_rng(seed)
    late_s = random.choice(LATE_S if seed % 3 == 0 else (0.0,), len(generated.manifest.sensors))
    late_ns = (late_s * NS).astype(np.int64)
    run = Run(generated.manifest, generated.inferences.copy(), generated, list(generated.events), late_ns)
    rows = run.inferences
    load = run.manifest.load
    if shape == "deadline":
        usual_ns = int(np.median(rows["latency_ns"]))
        run.manifest = replace(run.manifest, load=replace(load, deadline_ns=int(usual_ns * random.uniform(1.02, 1.3))))
    elif shape == "stalled":
        begin_ns = int(random.uniform(0.4, 0.7) * generated.end_s * NS)
        run.inferences = rows[(rows["t_ns"] < begin_ns) | (rows["t_ns"] > begin_ns + 40 * NS)]
    elif shape == "two-models":
        rows["stream"] = random.random(len(rows)) < 0.3
        rows["latency_ns"][rows["stream"] == 1] *= 3
        streams = WatchedStream("/m/detector.onnx"), WatchedStream("/m/classifier.onnx")
        run.manifest = replace(run.manifest, watched=Watched(("app",), streams=streams))
    elif shape == "turns":
        turns = plan(5 * NS, 1_000_000, duration_ns=int((generated.end_s - 10) * NS), seed=seed)
        of_b = [(rows["t_ns"] >= begin) & (rows["t_ns"] < end) for begin, end in turns.spans(1)]
        rows["variant"] = np.logical_or.reduce(of_b)
        variants = tuple(Variant(Model(f"/m/{name}.onnx"), EngineInfo()) for name in ("one", "other"))
        run.manifest = replace(run.manifest, ab=Ab(variants, 0.01))
        run.events.append(read_event(turns.begin_ns, "ab-turns", "info", "engine", "turns begin", turns.to_json()))
        run.derived.append(QuadEvents().fold)
    return run


def recorded(seed: int, folder: Path) -> tuple[Analysis, list[Batch]]:
    """Record the session of this seed. Return the analysis of the live screen at its end, and its batches.

    That of a run that was killed learns what the recovery of its recording knows: the last second, and the end.
    """
    shape = SHAPES[seed % len(SHAPES)]
    run = run_of(seed, shape)
    if not shape.startswith("died"):
        batches, rest = run.batches()
        last = replace(run.manifest, state="finished", end_reason="duration", duration_ns=rest.until_ns)
        batches[-1] = merge([batches[-1], replace(rest, manifest=last)])
        record(folder, batches, Retention(raw=shape != "no-raw"))
        return Analysis.of(batches), batches
    batches, rest = run.batches(round(0.7 * run.generated.end_s))
    left_by_a_dead_writer(folder, batches, SEGMENT_BYTES if shape == "died-after-tables" else None)
    recording = Recording(folder)
    over = [event for rows in recording.rows("events") for event in rows if isinstance(event.body, SessionOver)]
    batches.append(replace(rest, until_ns=recording.end_ns, events=tuple(over), manifest=recording.manifest))
    return Analysis.of(batches), batches


def conclusions(analysis: Analysis) -> dict[str, Any]:
    """Return everything that a printer says of a session, except which recording it is."""
    view = analysis.view(None)
    document, alerts = report_document(analysis), analysis.alerts_view()
    return {
        "phase": (view.progress.phase, view.progress.end_reason, analysis.phases.measured_from_ns),
        "measured until": analysis.progress.measured_until_ns,
        "throttles": analysis.throttles.view(),
        "slowdowns": analysis.slowdowns_view(),
        "alerts": (alerts.newest_first, alerts.missing),
        "events": [one for one in analysis.events_view().newest_first if not isinstance(one.body, Cut)],
        "verdict": view.verdict,
        "outcome": outcome_of(analysis),
        "tail": analysis.tail(),
        "report": {name: part for name, part in document.items() if name != "session"},
    }


def looked_at(folder: Path, place: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each reader of a recording concludes, by its name."""
    yield "report", conclusions(Analysis.of(Recording(folder).play()))
    yield "sessions", conclusions(Analysis.of([RecordingByTime(Recording(folder)).whole()]))
    yield "replay", conclusions(played(ReplayFeed(Recording(folder), clock := ManualClock()), clock, [7.0, 30.0]))
    if Recording(folder).end_ns:  # of damaged tables whose length is unknown, an export has no events
        export(folder, "session", place / "exported.edgetop")
        yield "export", conclusions(Analysis.of(Recording(place / "exported.edgetop").play()))


def unequal(seed: int, place: Path) -> list[str]:
    """Return where the readers of a session, or its recorded events, differ from what its live screen said."""
    live, batches = recorded(seed, folder := place / "one.edgetop")
    said = conclusions(live)
    found = [f"{name}{one}" for name, of in looked_at(folder, place) for one in differences(of, said)]
    return [*found, *(f"recorded {one}" for one in _unrecorded(live, batches))]


def _unrecorded(live: Analysis, batches: Sequence[Batch]) -> list[str]:
    """Return where the throttling that was recorded differs from what is shown; the end of a crashed run is not."""
    written = [one for batch in batches for one in batch.events if one.kind in ("throttle-begin", "throttle-end")]
    shown = throttle_events(live.throttles.view())
    if live.manifest and live.manifest.state != "finished":
        last_ns = batches[-1].until_ns - 10 * NS
        written, shown = ([one for one in events if one.t_ns < last_ns] for events in (written, shown))
    return differences(sorted(written, key=_order), sorted(shown, key=_order))


def _order(event: Event) -> tuple[int, str, str]:
    return event.t_ns, event.kind, event.message
