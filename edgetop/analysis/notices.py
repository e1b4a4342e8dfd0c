"""How far the numbers may be trusted: warnings as values, the same on screen, in reports and files."""

from collections.abc import Iterator

from edgetop.analysis.events import EventsView
from edgetop.analysis.load_words import overload_words
from edgetop.analysis.overload import OverloadView
from edgetop.analysis.precision import UNJUDGED, PrecisionView, least_independent
from edgetop.analysis.progress import ProgressView
from edgetop.analysis.statistics import SETTLED_COUNTS, Statistics
from edgetop.session.events import JsonValue, Notice
from edgetop.session.manifest import Manifest

MIN_WARMUP_RUNS = 10
WARM_UP = "leave --warmup-runs at its default of 50"
WARM_UP_THERE = "give trtexec a longer --warmUp, and import with that as --warmup-time"  # alone of what is imported

# Events that stay true for the whole session, and what to do about each.
ADVICE = {
    "assumed-shape": "give the shape that deployment uses with --shape NAME:1,3,224,224",
    "provider-dropped": "install the build of the runtime that has it, or run with --provider CPU",
    "partly-accelerated": "each change of place waits and may copy: run all of it on the CPU as well and compare",
    "records-lost": "the session is incomplete there; give edgetop a core of its own, or a slower --refresh",
    "inference-failed": "look at the event log; the inputs may not suit the model",
    "no-sensors": "edgetop sensors says what is missing, why, and what would bring it",
    "model-misnamed": "rename the file, so that other tools know it too",
    "recording-failed": "free space or record elsewhere with -o; the run itself went on",
    "recording-behind": "record on a faster disk, or without single inferences: --no-raw",
    "data-dependent": "measure with real samples: --input NAME=FILE.npy",
    "governor-changed": "set it before the run, and see what else sets it: tuned, power-profiles-daemon, a script",
    "power-mode-changed": "figures of two modes are mixed here: set the mode before the run and measure anew",
    "cpu-quota": "a quota is not a slower CPU: it raises p99 more than p50; for fewer CPUs give --limit cpus=N",
    "memory-limit": "edgetop fit-memory finds the least memory with which it runs well",
    "clock-source": "boot with the fast clock of this board (x86: clocksource=tsc), or trust only long inferences",
    "coarse-times": "import a shorter run: trtexec keeps times as 32-bit floats of milliseconds since its start",
    "tool-summary": "for each inference import what trtexec --exportTimes or onnxruntime_perf_test's result file has",
    "no-starts": "its output beside it tells the throughput; trends over time are in the order of inferences, no more",
    "no-inference": "edgetop help watch says what is seen; its own two lines report anything else (edgetop help probe)",
    "left-behind": "start it so that it stays in the foreground, or watch it as it runs: edgetop watch --pid N",
    "recovered": "the report says under lost what is missing; edgetop help recording tells what survives what",
}


def notices(
    manifest: Manifest | None,
    progress: ProgressView,
    session: Statistics | None,
    events: EventsView,
    overload: OverloadView | None = None,
    precision: PrecisionView = UNJUDGED,
) -> tuple[Notice, ...]:
    """Those that hold now, the gravest first."""
    if manifest is None:
        return ()
    found = (notice for notice in _from_events(events) if session is None or notice.code != "no-inference")
    return (*found, *_from_load(overload), *_from_figures(manifest, progress, session, precision))


def _from_load(overload: OverloadView | None) -> Iterator[Notice]:
    if overload is not None:
        when = " for a time" if overload.is_over else ""
        text = f"overloaded{when}: {overload_words(overload.asked_hz, overload.done_hz)}"
        advice = "response times tell of the length of the run; ask for a --rate that the engine can do"
        yield Notice("overloaded", text, advice)


def _from_events(events: EventsView) -> Iterator[Notice]:
    for event in events.lasting:
        if event.kind in ADVICE:
            yield Notice(event.kind, event.message, ADVICE[event.kind], event.data)


def _from_figures(
    manifest: Manifest, progress: ProgressView, session: Statistics | None, precision: PrecisionView
) -> Iterator[Notice]:
    if session is None or progress.phase != "over":
        return
    if progress.warmup_done is not None and progress.warmup_done < MIN_WARMUP_RUNS:
        text = f"only {progress.warmup_done} warm-up runs: the first measured ones may be slower than the rest"
        data = {"warmup_runs": progress.warmup_done}
        yield Notice("short-warmup", text, WARM_UP_THERE if manifest.was_imported else WARM_UP, data)
    unsettled = [f"p{quantile * 100:g}" for quantile in (0.50, 0.99) if not precision.is_settled(quantile, session)]
    if unsettled:
        yield _not_settled(" and ".join(unsettled), session, precision)


def _not_settled(percentiles: str, session: Statistics, precision: PrecisionView) -> Notice:
    """Where inferences enough were measured, the reason is that they are no independent samples."""
    text, advice = f"{percentiles} not settled: ", f"run longer: p99 needs {SETTLED_COUNTS[0.99]} inferences"
    data: dict[str, JsonValue] = {"count": session.count}
    if not session.is_settled(0.99) or precision.independent is None:
        return Notice("not-settled", f"{text}{session.count} inferences are too few", advice, data)
    independent = round(precision.independent)
    text += "inferences that follow each other take about as long, "
    text += f"so {session.count} count as {independent} independent ones"
    advice = f"run longer: p99 needs {least_independent(0.99):.0f} independent inferences"
    return Notice("not-settled", text, advice, {**data, "independent": independent})
