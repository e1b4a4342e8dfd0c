"""The notices of a session: findings about how far its figures can be trusted, and hints.

The same notices appear on screen, in reports and in files. While a session is running, a doubt that a longer run would
remove is left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from edgetop.analysis.findings import (
    EVENT_CODES,
    BackgroundLoad,
    ClockLimitMoved,
    Doubt,
    EventTold,
    Finding,
    HalvesDiffer,
    Hint,
    Leak,
    ModeUnsustainable,
    MonitorCost,
    NotSettled,
    NotSustained,
    OneInput,
    PartsFailed,
    PowerShort,
    QueueGrew,
    SettingDiffers,
    StillWarming,
    Stolen,
    SustainedShort,
    WarmupShort,
)
from edgetop.analysis.folds import Folds, once
from edgetop.analysis.operator_hints import session_hints
from edgetop.analysis.precision import PrecisionView
from edgetop.analysis.slowdowns.baseline import SLOWER_SHARE
from edgetop.analysis.slowdowns.throttle_spans import SAME_CLOCK
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.stream_verdicts import MINOR_SHARE
from edgetop.analysis.tracks import SECONDS
from edgetop.session.manifest import SessionKind
from edgetop.session.quiet import BACKGROUND_PCT, STEAL_PCT
from edgetop.session.seconds import NS

# A source that gives every inference the same array, in sessions that do not tell their number of arrays.
_ONE_ARRAY = re.compile(r"(?:[^=]*=)?(?:random(?::1)?|zeros)")

# Time that a session must measure to say something of sustained load. Choice: heat settles in minutes, and power with
# it. Larger: most sessions get a warning; smaller: a burst passes as sustained.
LONG_ENOUGH_NS = 300 * NS
# Difference of the p99 of both halves, as a share, that is a warning. Choice. Larger: a tail that grew passes;
# smaller: chance is a warning.
P99_DIFFERS = 0.10
# Mean CPU use of edgetop's own process, of one core, that is a warning. Choice: twice what it takes on a small board.
# Larger: a measurement that disturbs itself passes; smaller: a small board always gets a warning.
OWN_PCT = 2.0
# Number of readings behind such a mean. Choice: half a minute. Larger: short sessions get no warning; smaller: the
# start of edgetop is one.
LEAST_READINGS = 30
# Time at the end of the session over which heat must have settled. Choice: small boards settle more slowly than that.
# Larger: a load that has settled counts as warming up; smaller: a slow rise is missed.
HEAT_S = 120
# Time at both ends of that which is compared. Choice: it averages a fan's cycles out. Larger: a rise is averaged out;
# smaller: a fan's cycle is a rise.
HEAT_PART_S = 30
# Rise from the first to the second that is a warning. Choice: sensors have steps of up to a degree. Larger: a board
# that still warms up passes; smaller: one step of a sensor is a warning.
HEAT_ROSE_C = 1.0
# Number of readings in each part. Choice. Larger: sensors that are read seldom give no warning; smaller: the error of
# the rise is not known.
HEAT_READINGS = 5
# Standard errors by which the rise must exceed chance. Statistics: one normal value in 370 is farther off. Larger: a
# rise of a sensor that fluctuates is missed; smaller: fluctuation is a warning.
HEAT_ERRORS = 3.0

# Labels that declare a setting, and the field of the board.
LABELS = {"governor": "governor", "power-mode": "power_mode", "power_mode": "power_mode"}

# Number of warm-up inferences below which there is a warning. Choice: as many as a run does by default. Larger: usual
# runs get a warning; smaller: first inferences enter the figures unnoticed.
MIN_WARMUP_RUNS = 10
LANGUAGE_RUNTIME = "llama.cpp"


def notices(folds: Folds) -> tuple[Finding, ...]:
    """Return the notices for a report: doubts about the figures, and hints from all profiling rounds."""
    return (*_doubts(folds), *_hints(folds, lambda: session_hints(folds.operators, folds.providers)))


def notices_now(folds: Folds) -> tuple[Finding, ...]:
    """Return the notices for a screen: doubts about the figures, and hints from the last profiling rounds only."""
    return (*_doubts(folds), *_hints(folds, lambda: folds.burst_hints.now(folds.operators, folds.providers)))


def _hints(folds: Folds, make: Callable[[], Iterable[Hint]]) -> tuple[Hint, ...]:
    return folds.faults.attempt("warnings: operators", lambda: tuple(make()), lambda: ())[0]


@once
def _doubts(folds: Folds) -> tuple[Doubt, ...]:
    """Return the reasons to doubt the session's figures, in the order in which reports show them."""
    if folds.manifest is None:
        return ()
    found: list[Doubt] = []
    for doubt in (
        _events,
        _few,
        _leaks,
        _declared,
        _p99,
        _limits,
        _settings,
        _background,
        _stolen,
        _warming,
        _short,
        _input,
    ):
        name = f"warnings: {doubt.__name__.strip('_')}"
        found += folds.faults.attempt(name, partial(_all_of, doubt, folds), lambda: ())[0]
    return (*_faults(folds), *found)


def _all_of(doubt: Callable[[Folds], Iterable[Doubt]], folds: Folds) -> tuple[Doubt, ...]:
    return tuple(doubt(folds))


def _faults(folds: Folds) -> Iterator[Doubt]:
    """Yield a warning for each internal error of edgetop, with everything that the error made unavailable."""
    for fault in folds.faults.distinct:
        yield PartsFailed(tuple(of.name for of in folds.faults.found.values() if of.where == fault.name), fault)


def _kind(folds: Folds) -> SessionKind:
    return folds.manifest.kind if folds.manifest else "run"


def _is_over(folds: Folds) -> bool:
    return folds.progress.view().phase == "over"


def _events(folds: Folds) -> Iterator[Doubt]:
    has_run = folds.totals() is not None
    for lasting in folds.events.view().lasting:
        kind = lasting.first.kind
        if kind in EVENT_CODES and not (has_run and kind == "no-inference"):
            yield EventTold(lasting, _kind(folds))
    overload = folds.backlog.view()
    if overload is not None:
        yield QueueGrew(overload.asked_hz, overload.done_hz, is_over=overload.is_over)


def _few(folds: Folds) -> Iterator[Doubt]:
    """Yield a warning if there were too few warm-up inferences, and one if percentiles need more inferences."""
    session, warmup_runs = folds.statistics(), folds.progress.view().warmup_done
    if not _is_over(folds):
        return
    if session is None:
        yield from _few_in_streams(folds)
        return
    kind = _kind(folds)
    # A watched program warms up as it likes. A language model needs one request, and has one by default.
    is_exempt = kind == "watch" or _generates(folds)
    if warmup_runs is not None and warmup_runs < MIN_WARMUP_RUNS and not is_exempt:
        yield WarmupShort(warmup_runs, was_imported=kind == "import")
    unsettled = _unsettled(folds.precision_view(), session)
    if unsettled:
        yield unsettled


def _generates(folds: Folds) -> bool:
    """Whether the session runs a language model, or is an A/B session of two language models."""
    return folds.generates or (folds.manifest is not None and folds.manifest.engine.runtime == LANGUAGE_RUNTIME)


def _few_in_streams(folds: Folds) -> Iterator[Doubt]:
    """Yield at most one warning, which lists all streams whose percentiles need more inferences.

    Streams that hardly run are left out.
    """
    views = folds.stream_views()
    whole_ns = sum(view.busy_ns for view in views)
    found = [
        (unsettled, view.name)
        for view in views
        if view.statistics and view.busy_ns >= MINOR_SHARE * whole_ns
        and (unsettled := _unsettled(view.precision, view.statistics))
    ]  # fmt: skip
    if found:
        found.sort(key=lambda one: one[0].independent or one[0].count)
        yield replace(found[0][0], streams=tuple(name for _, name in found))


def _unsettled(precision: PrecisionView, session: Statistics) -> NotSettled | None:
    """Return the percentiles that need more inferences, or None if there are enough."""
    unsettled = tuple(quantile for quantile in (0.50, 0.99) if not precision.is_settled(quantile, session))
    if not unsettled:
        return None
    independent = precision.independent if session.is_settled(0.99) else None
    return NotSettled(unsettled, session.count, None if independent is None else round(independent))


def _leaks(folds: Folds) -> Iterator[Doubt]:
    growth = folds.growth_view()
    if growth.is_leak and growth.mib_per_h is not None:
        yield Leak(growth)


def _background(folds: Folds) -> Iterator[Doubt]:
    others = folds.tracks.one("load/others")
    if others is None or others.mean is None or others.count < LEAST_READINGS or others.mean < BACKGROUND_PCT:
        return
    yield BackgroundLoad(round(others.mean, 6), tuple(folds.competitors.top()))


def _warming(folds: Folds) -> Iterator[Doubt]:
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
        yield StillWarming(tracks.infos[places[hottest]].id, rose)


def _declared(folds: Folds) -> Iterator[Doubt]:
    """Yield a warning for each label of the session that names another governor or power mode than the board has."""
    assert folds.manifest
    for label, name in LABELS.items():
        declared, is_now = folds.manifest.labels.get(label), getattr(folds.manifest.board, name)
        if declared and is_now and declared.casefold() not in is_now.casefold():
            yield SettingDiffers(name.replace("_", "-"), declared, is_now)


def _p99(folds: Folds) -> Iterator[Doubt]:
    halves = folds.precision_view().p99_halves_ns
    if halves is None or min(halves) <= 0 or max(halves) <= min(halves) * (1 + P99_DIFFERS):
        return
    yield HalvesDiffer(*halves)


def _limits(folds: Folds) -> Iterator[Doubt]:
    """Yield a warning if the limit of a clock changed during the session, by the user, the firmware or heat."""
    moved = [
        (track.info.id, track.min, track.max)
        for track in folds.tracks.views("freqcap")
        if track.min is not None and track.max is not None and track.min < SAME_CLOCK * track.max
    ]
    if moved:
        yield ClockLimitMoved(*moved[0], clocks=len(moved))


def _settings(folds: Folds) -> Iterator[Doubt]:
    """Yield a warning about a power mode without a limit, and one about a speed that the board did not sustain.

    NVIDIA calls the mode MAXN unconstrained (see doctor/setting_checks.py).
    """
    assert folds.manifest
    mode = folds.manifest.board.power_mode or ""
    if mode.upper().replace("MODE_", "").startswith("MAXN"):
        yield ModeUnsustainable(mode)

    drift = folds.only_stream.drift_ratio if folds.only_stream and _is_over(folds) else None
    if drift is not None and drift >= 1 + SLOWER_SHARE:
        yield NotSustained(drift)


def _stolen(folds: Folds) -> Iterator[Doubt]:
    """Yield a warning if a hypervisor took CPU time, and one if edgetop itself took much CPU time."""
    steal = folds.tracks.one("load/steal")
    if steal is not None and steal.mean is not None and steal.count >= LEAST_READINGS and steal.mean >= STEAL_PCT:
        yield Stolen(round(steal.mean, 6))

    mean = folds.own_load.mean
    if mean is not None and folds.own_load.count >= LEAST_READINGS and mean > OWN_PCT:
        yield MonitorCost(round(mean, 6))


def _input(folds: Folds) -> Iterator[Doubt]:
    """Yield a warning if every inference of a long run got the same input. Short runs get other warnings."""
    manifest, measured_ns = folds.manifest, folds.progress.view().measured_ns or 0
    if manifest is None or _kind(folds) != "run" or not _is_over(folds) or measured_ns < LONG_ENOUGH_NS:
        return
    load = manifest.load
    is_one = all(_ONE_ARRAY.fullmatch(source) for source in load.input.split(", "))
    if is_one if load.arrays is None or manifest.generation else load.arrays == 1:
        yield OneInput(load.input)


def _short(folds: Folds) -> Iterator[Doubt]:
    measured_ns = folds.progress.view().measured_ns or 0
    if not _is_over(folds) or not 0 < measured_ns < LONG_ENOUGH_NS:
        return
    if folds.spans()[1] is not None:
        yield SustainedShort(measured_ns, _kind(folds))
    if any(track.count for track in folds.tracks.views("power")):
        yield PowerShort(measured_ns, _kind(folds))
