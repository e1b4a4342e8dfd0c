"""Warnings on the trust in a session's figures, as values: the same on screen, in reports and files.

Each notice has its advice. While a session is still running, doubts that a longer run would remove are left out.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from edgetop.analysis.deadline import overload_words
from edgetop.analysis.folds import Folds, once
from edgetop.analysis.memory_use import leak_notices
from edgetop.analysis.operator_hints import session_hints
from edgetop.analysis.precision import PrecisionView, least_independent
from edgetop.analysis.recent_events import Lasting
from edgetop.analysis.slowdowns.baseline import SLOWER_SHARE
from edgetop.analysis.slowdowns.throttle_spans import SAME_CLOCK
from edgetop.analysis.statistics import SETTLED_COUNTS, Statistics
from edgetop.analysis.tracks import SECONDS
from edgetop.formatting import clean, clock_time, duration, milliseconds, rounded
from edgetop.session.event_codec import data_of
from edgetop.session.event_kinds import RecordsLost
from edgetop.session.events import Notice
from edgetop.session.seconds import NS
from edgetop.session.typed_json import JsonValue

# Heat settles in minutes, and power with it. A convention, as the others here.
LONG_ENOUGH_NS = 300 * NS
P99_DIFFERS = 0.10
BACKGROUND_PCT = 10.0  # of a core, on average: as edgetop doctor judges
STEAL_PCT = 1.0
OWN_PCT = 2.0
LEAST_READINGS = 30  # behind a mean
HEAT_S = 120
HEAT_PART_S = 30
HEAT_ROSE_C = 1.0  # from the first to the last half minute of the last two
HEAT_READINGS = 5  # in each of those, at least
HEAT_ERRORS = 3.0  # standard errors of the rise

LABELS = {"governor": "governor", "power-mode": "power_mode", "power_mode": "power_mode"}  # that declare a setting

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
    "no-starts": "import its printed output too, for the throughput; trends show the order of inferences, not times",
    "no-inference": "edgetop help watch says what is seen; its own two lines report anything else (edgetop help probe)",
    "calls-unseen": "edgetop help watch tells how processes report their calls, and where",
    "foreign-times": "in Python time.monotonic_ns(), in C clock_gettime(CLOCK_MONOTONIC): edgetop help tap",
    "streams-full": "figures of all calls together are complete; edgetop watch each program alone for the rest",
    "left-behind": "start it so that it stays in the foreground, or watch it as it runs: edgetop watch --pid N",
    "recovered": "the report says under lost what is missing; edgetop help recording tells what survives what",
}

# Doubts that follow from figures, and what to do about each.
DOUBTS = {
    "internal-error": "the recording and the other figures stand; edgetop report says what to send",
    "overloaded": "response times depend on the length of the run; ask for a --rate that the engine can keep",
    "background-load": "what shares the board with the model belongs in the measurement only if production has it too",
    "still-warming": "run until it no longer does: what is sustained is not known before",
    "p99-differs": "one figure does not describe it: see what changed (slowdowns, events), or run until halves agree",
    "clock-limit-changed": (
        "if heat did not do it, set the clocks before the run and leave them alone; slowdowns tell when it was"
    ),
    "unsustainable-mode": "measure in the mode in watts that deployment can hold",
    "not-sustained": "deployment sees the sustained figures; slowdowns tell why",
    "steal": "the host is shared: the tail is not the board's own",
    "monitor-cost": "a slower --refresh, --headless, or watching from elsewhere (edgetop help remote) costs less",
    "short-sustained": "measure for five minutes or more: --duration 5m",
    "short-power": "measure for five minutes or more: --duration 5m",
}


def notices(folds: Folds) -> tuple[Notice, ...]:
    """Return the notices of a report: doubts about the session, and hints on all its bursts."""
    return (*_doubts(folds), *_hints(folds, lambda: session_hints(folds.operators, folds.providers)))


def notices_now(folds: Folds) -> tuple[Notice, ...]:
    """Return the notices of a screen: the same doubts, and hints on the last bursts."""
    return (*_doubts(folds), *_hints(folds, lambda: folds.burst_hints.now(folds.operators, folds.providers)))


def _hints(folds: Folds, make: Callable[[], Iterable[Notice]]) -> tuple[Notice, ...]:
    return folds.faults.attempt("warnings: operators", lambda: tuple(make()), lambda: ())[0]


@once
def _doubts(folds: Folds) -> tuple[Notice, ...]:
    """Return the doubts about the session, the gravest first."""
    if folds.manifest is None:
        return ()
    found: list[Notice] = []
    for doubt in (_events, _few, _leaks, _declared, _p99, _limits, _settings, _background, _stolen, _warming, _short):
        name = f"warnings: {doubt.__name__.strip('_')}"
        found += folds.faults.attempt(name, partial(_all_of, doubt, folds), lambda: ())[0]
    return (*_faults(folds), *found)


def _all_of(doubt: Callable[[Folds], Iterable[Notice]], folds: Folds) -> tuple[Notice, ...]:
    return tuple(doubt(folds))


def _faults(folds: Folds) -> Iterator[Notice]:
    """Warn of what an error of edgetop has cost: everything that is made of it is not available."""
    for fault in folds.faults.distinct:
        names = [of.name for of in folds.faults.found.values() if of.where == fault.name]
        yield _doubt("internal-error", f"{', '.join(names)}: {fault.words}", parts=", ".join(names), error=fault.error)


def _doubt(code: str, message: str, **data: JsonValue) -> Notice:
    return Notice(code, message, DOUBTS[code], data)


def _is_over(folds: Folds) -> bool:
    return folds.progress.view().phase == "over"


def _events(folds: Folds) -> Iterator[Notice]:
    has_run = folds.statistics() is not None
    for lasting in folds.events.view().lasting:
        kind = lasting.first.kind
        if kind in ADVICE and not (has_run and kind == "no-inference"):
            yield _notice(lasting)
    overload = folds.backlog.view()
    if overload is not None:
        when = " for a time" if overload.is_over else ""
        text = f"overloaded{when}: {overload_words(overload.asked_hz, overload.done_hz)}"
        yield _doubt("overloaded", text)


def _notice(lasting: Lasting) -> Notice:
    """Return one notice of a trouble, with the sum and the times if it occurred more than once."""
    event, times = lasting.first, lasting.times
    if times == 1:
        return Notice(event.kind, event.message, ADVICE[event.kind], data_of(event.body))
    when = f"{times} times from {clock_time(event.t_ns)} to {clock_time(lasting.last_ns)}"
    span = {"first_s": rounded(event.t_ns / NS), "last_s": rounded(lasting.last_ns / NS)}
    data: dict[str, JsonValue] = {**data_of(event.body), "times": times, **span}
    text = f"{event.message} (the first of {when})"
    if isinstance(event.body, RecordsLost):
        text, data["count"] = f"{lasting.inferences} inferences were not reported: lost {when}", lasting.inferences
    return Notice(event.kind, text, ADVICE[event.kind], data)


def _few(folds: Folds) -> Iterator[Notice]:
    """Warn of few warm-up runs, and of percentiles that are not settled."""
    session, warmup_runs = folds.statistics(), folds.progress.view().warmup_done
    if session is None or not _is_over(folds):
        return
    if warmup_runs is not None and warmup_runs < MIN_WARMUP_RUNS:
        text = f"only {warmup_runs} warm-up runs: the first measured ones may be slower than the rest"
        advice = WARM_UP_THERE if folds.manifest and folds.manifest.was_imported else WARM_UP
        yield Notice("short-warmup", text, advice, {"warmup_runs": warmup_runs})
    precision = folds.precision_view()
    unsettled = [f"p{quantile * 100:g}" for quantile in (0.50, 0.99) if not precision.is_settled(quantile, session)]
    if unsettled:
        yield _not_settled(" and ".join(unsettled), session, precision)


def _not_settled(percentiles: str, session: Statistics, precision: PrecisionView) -> Notice:
    """Warn that percentiles are not settled; after many inferences, because they are not independent samples."""
    text, advice = f"{percentiles} not settled: ", f"run longer: p99 needs {SETTLED_COUNTS[0.99]} inferences"
    data: dict[str, JsonValue] = {"count": session.count}
    if not session.is_settled(0.99) or precision.independent is None:
        return Notice("not-settled", f"{text}{session.count} inferences are too few", advice, data)
    independent = round(precision.independent)
    text += "inferences that follow each other take about as long, "
    text += f"so {session.count} count as {independent} independent ones"
    advice = f"run longer: p99 needs {least_independent(0.99):.0f} independent inferences"
    return Notice("not-settled", text, advice, {**data, "independent": independent})


def _leaks(folds: Folds) -> Iterator[Notice]:
    yield from leak_notices(folds.growth_view())


def _background(folds: Folds) -> Iterator[Notice]:
    others = folds.tracks.one("load/others")
    if others is None or others.mean is None or others.count < LEAST_READINGS or others.mean < BACKGROUND_PCT:
        return
    top = folds.competitors.top()
    named = f": {', '.join(map(clean, top))}" if top else ""
    text = f"other processes took {others.mean:.0f} % of a core on average{named}"
    yield _doubt("background-load", text, mean_pct=round(others.mean, 2), names=", ".join(top))


def _warming(folds: Folds) -> Iterator[Notice]:
    tracks = folds.tracks
    if not _is_over(folds) or not folds.progress.view().measured_ns:
        return
    places = [place for place, info in enumerate(tracks.infos) if info.kind == "temp"]
    heat = tracks.read(places, tracks.newest_s - SECONDS + 1, tracks.newest_s + 1)
    read = np.flatnonzero(~np.isnan(heat).all(axis=0))
    if not len(read):
        return
    heat = heat[:, max(0, int(read[-1]) + 1 - HEAT_S) : int(read[-1]) + 1]
    hottest = int(np.nanargmax(np.fmax.reduce(heat[:, -HEAT_PART_S:], axis=1)))
    parts = heat[hottest, : HEAT_PART_S - HEAT_S], heat[hottest, -HEAT_PART_S:]
    early, late = (part[~np.isnan(part)] for part in parts)
    if min(len(early), len(late)) < HEAT_READINGS:
        return
    rose = float(late.mean() - early.mean())
    error = float(np.sqrt(early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late)))
    if rose >= max(HEAT_ROSE_C, HEAT_ERRORS * error):
        name = tracks.infos[places[hottest]].id
        text = f"{clean(name)} was still rising at the end: by {rose:.1f} °C in the last two minutes"
        yield _doubt("still-warming", text, sensor=name, rose_c=round(rose, 2))


def _declared(folds: Folds) -> Iterator[Notice]:
    """Check labels that name a governor or a power mode against the board."""
    assert folds.manifest
    for label, name in LABELS.items():
        declared, is_now = folds.manifest.labels.get(label), getattr(folds.manifest.board, name)
        if declared and is_now and declared.casefold() not in is_now.casefold():
            what = name.replace("_", " ")
            yield Notice(
                f"{name.replace('_', '-')}-differs",
                f"the {what} was {clean(is_now)}, and {clean(declared)} is declared",
                f"set the {what} that deployment has, or mend the label; edgetop doctor tells how",
                {"declared": declared, "was": is_now},
            )


def _p99(folds: Folds) -> Iterator[Notice]:
    halves = folds.precision_view().p99_halves_ns
    if halves is None or min(halves) <= 0 or max(halves) <= min(halves) * (1 + P99_DIFFERS):
        return
    first, second = halves
    text = f"p99 was {milliseconds(first)} ms in the first half and {milliseconds(second)} ms in the second"
    yield _doubt("p99-differs", text, first_ms=round(first / 1e6, 6), second_ms=round(second / 1e6, 6))


def _limits(folds: Folds) -> Iterator[Notice]:
    """Warn of clock limits that changed, by the user, the firmware or heat."""
    moved = [
        (track.info.id, track.min, track.max)
        for track in folds.tracks.views("freqcap")
        if track.min is not None and track.max is not None and track.min < SAME_CLOCK * track.max
    ]
    if moved:
        name, low, high = moved[0]
        more = f", and {len(moved) - 1} more" if len(moved) > 1 else ""
        text = f"a clock's limit changed during the run: {clean(name)} was between {low:.0f} and {high:.0f} MHz{more}"
        yield _doubt("clock-limit-changed", text, sensor=name, low_mhz=low, high_mhz=high, clocks=len(moved))


def _settings(folds: Folds) -> Iterator[Notice]:
    """A power mode and a burst that cannot be sustained. NVIDIA calls MAXN unconstrained (doctor/setting_checks.py)."""
    assert folds.manifest
    mode = folds.manifest.board.power_mode or ""
    if mode.upper().replace("MODE_", "").startswith("MAXN"):
        text = f"the power mode {clean(mode)} sets no limit: over-current and heat throttle it"
        yield _doubt("unsustainable-mode", text, power_mode=mode)

    burst, sustained = folds.spans() if _is_over(folds) else (None, None)
    if burst and sustained and sustained.p50_ns >= (1 + SLOWER_SHARE) * burst.p50_ns:
        drift = sustained.p50_ns / burst.p50_ns
        text = (
            f"the speed of the start was not held: sustained p50 is {(drift - 1) * 100:.0f} % above that of the burst"
        )
        yield _doubt("not-sustained", text, drift_ratio=round(drift, 4))


def _stolen(folds: Folds) -> Iterator[Notice]:
    """Warn of the CPU time that a hypervisor or edgetop itself took."""
    steal = folds.tracks.one("load/steal")
    if steal is not None and steal.mean is not None and steal.count >= LEAST_READINGS and steal.mean >= STEAL_PCT:
        text = f"a hypervisor took {steal.mean:.1f} % of a core on average"
        yield _doubt("steal", text, mean_pct=round(steal.mean, 2))

    mean = folds.own_load.mean
    if mean is not None and folds.own_load.count >= LEAST_READINGS and mean > OWN_PCT:
        yield _doubt("monitor-cost", f"edgetop itself took {mean:.1f} % of a core", mean_pct=round(mean, 2))


def _short(folds: Folds) -> Iterator[Notice]:
    measured_ns = folds.progress.view().measured_ns or 0
    if not _is_over(folds) or not 0 < measured_ns < LONG_ENOUGH_NS:
        return
    measured_s = round(measured_ns / NS, 3)
    if folds.spans()[1] is not None:
        text = f"the sustained figures are from {duration(measured_ns)} of measuring: heat takes minutes"
        yield _doubt("short-sustained", text, measured_s=measured_s)
    if any(track.count for track in folds.tracks.views("power")):
        text = f"power was measured for {duration(measured_ns)}: too short for what the board draws when it is warm"
        yield _doubt("short-power", text, measured_s=measured_s)
