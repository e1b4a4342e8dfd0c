"""How far the figures of a session may be trusted: what its run and its board did to them.

Each doubt is a notice with its advice, the same on screen, in the report and in files. Of a session
that is still running only what no longer run would mend is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgetop.analysis.event_index import COMPETING
from edgetop.analysis.precision import PrecisionView
from edgetop.analysis.progress import ProgressView
from edgetop.analysis.steady import SpanFigures
from edgetop.analysis.tracks import SECONDS, Tracks
from edgetop.analysis.usage import OwnLoad
from edgetop.formatting import clean, duration, milliseconds
from edgetop.session.batch import Batch
from edgetop.session.events import Event, Notice
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NS

# Heat settles in minutes, and power with it. A convention, as the others here.
LONG_ENOUGH_NS = 300 * NS
P99_DIFFERS = 0.10
NOT_HELD = 1.08  # sustained to burst: what would be a slowdown
BACKGROUND_PCT = 10.0  # of a core, on average: as edgetop doctor judges
STEAL_PCT = 1.0
OWN_PCT = 2.0
LEAST_READINGS = 30  # behind a mean
LIMIT_MOVED = 0.01  # of a clock's limit
HEAT_S = 120
HEAT_PART_S = 30
HEAT_ROSE_C = 1.0  # from the first to the last half minute of the last two
NAMED = 3
MOST_NAMES = 64

LABELS = {"governor": "governor", "power-mode": "power_mode", "power_mode": "power_mode"}  # what a label may declare


@dataclass(frozen=True, slots=True)
class Known:
    """What the doubts are judged by."""

    manifest: Manifest
    progress: ProgressView
    precision: PrecisionView
    tracks: Tracks
    own_load: OwnLoad
    has_power: bool
    burst: SpanFigures | None = None  # these two only of a session that is over
    sustained: SpanFigures | None = None

    @property
    def is_over(self) -> bool:
        return self.progress.phase == "over" and bool(self.progress.measured_ns)

    @property
    def is_short(self) -> bool:
        return (self.progress.measured_ns or 0) < LONG_ENOUGH_NS


class Trust:
    """Folds the names of competitors, which the judgement needs beside the other folds."""

    def __init__(self) -> None:
        self._names: dict[str, float] = {}  # the most that each was seen to take, in percent of a core

    def fold(self, batch: Batch) -> None:
        for event in batch.events:
            if event.kind == COMPETING:
                self._note(event)

    def _note(self, event: Event) -> None:
        name, percent = event.data.get("name"), event.data.get("cpu_pct")
        is_sound = isinstance(name, str) and isinstance(percent, int | float)
        if is_sound and (name in self._names or len(self._names) < MOST_NAMES):
            self._names[str(name)] = max(self._names.get(str(name), 0.0), float(percent or 0.0))

    def notices(self, known: Known) -> tuple[Notice, ...]:
        """The gravest first."""
        doubts = (
            _declared(known),
            _p99(known),
            _limits(known),
            _mode(known),
            _held(known),
            self._background(known),
            _steal(known),
            _own(known),
            _warming(known),
            _short(known),
        )
        return tuple(notice for doubt in doubts for notice in doubt)

    def _background(self, known: Known) -> Iterator[Notice]:
        others = known.tracks.one("load/others")
        if others is None or others.mean is None or others.count < LEAST_READINGS or others.mean < BACKGROUND_PCT:
            return
        top = sorted(self._names, key=lambda name: (-self._names[name], name))[:NAMED]
        named = f": {', '.join(map(clean, top))}" if top else ""
        yield Notice(
            "background-load",
            f"other processes took {others.mean:.0f} % of a core on average{named}",
            "what shares the board with the model belongs in the measurement only if production has it too",
            {"mean_pct": round(others.mean, 2), "names": ", ".join(top)},
        )


def _warming(known: Known) -> Iterator[Notice]:
    if not known.is_over:
        return
    tracks = known.tracks
    places = [place for place, info in enumerate(tracks.infos) if info.kind == "temp"]
    heat = tracks.read(places, tracks.newest_s - SECONDS + 1, tracks.newest_s + 1)
    read = np.flatnonzero(~np.isnan(heat).all(axis=0))
    if not len(read):
        return
    heat = heat[:, max(0, int(read[-1]) + 1 - HEAT_S) : int(read[-1]) + 1]
    hottest = int(np.nanargmax(np.fmax.reduce(heat[:, -HEAT_PART_S:], axis=1)))
    parts = heat[hottest, : HEAT_PART_S - HEAT_S], heat[hottest, -HEAT_PART_S:]
    early, late = (part[~np.isnan(part)] for part in parts)
    if min(len(early), len(late)) < 5:
        return
    rose = float(late.mean() - early.mean())
    error = float(np.sqrt(early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late)))
    if rose >= max(HEAT_ROSE_C, 3 * error):
        name = tracks.infos[places[hottest]].id
        yield Notice(
            "still-warming",
            f"{clean(name)} was still rising at the end: by {rose:.1f} °C in the last two minutes",
            "run until it no longer does: what is sustained is not known before",
            {"sensor": name, "rose_c": round(rose, 2)},
        )


def _declared(known: Known) -> Iterator[Notice]:
    """Labels that name a governor or a power mode are a claim about the board."""
    for label, name in LABELS.items():
        declared, is_now = known.manifest.labels.get(label), getattr(known.manifest.board, name)
        if declared and is_now and declared.casefold() not in is_now.casefold():
            what = name.replace("_", " ")
            yield Notice(
                f"{name.replace('_', '-')}-differs",
                f"the {what} was {clean(is_now)}, and {clean(declared)} is declared",
                f"set the {what} that deployment has, or mend the label; edgetop doctor tells how",
                {"declared": declared, "was": is_now},
            )


def _p99(known: Known) -> Iterator[Notice]:
    halves = known.precision.p99_halves_ns
    if halves is None or min(halves) <= 0 or max(halves) <= min(halves) * (1 + P99_DIFFERS):
        return
    first, second = halves
    yield Notice(
        "p99-differs",
        f"p99 was {milliseconds(first)} ms in the first half and {milliseconds(second)} ms in the second",
        "one figure does not tell it: see what changed (slowdowns, events), or run until the halves agree",
        {"first_ms": round(first / 1e6, 6), "second_ms": round(second / 1e6, 6)},
    )


def _limits(known: Known) -> Iterator[Notice]:
    """Of clocks: whoever moved them, the user, the firmware or heat."""
    moved = [
        (track.info.id, track.min, track.max)
        for track in known.tracks.views("freqcap")
        if track.min is not None and track.max is not None and track.min < track.max * (1 - LIMIT_MOVED)
    ]
    if moved:
        name, low, high = moved[0]
        more = f", and {len(moved) - 1} more" if len(moved) > 1 else ""
        yield Notice(
            "clock-limit-changed",
            f"a clock's limit changed during the run: {clean(name)} was between {low:.0f} and {high:.0f} MHz{more}",
            "if heat did not do it, set the clocks before the run and leave them alone; slowdowns tell when it was",
            {"sensor": name, "low_mhz": low, "high_mhz": high, "clocks": len(moved)},
        )


def _mode(known: Known) -> Iterator[Notice]:
    """NVIDIA's own words for MAXN are that it is unconstrained: see edgetop.doctor.settings."""
    mode = known.manifest.board.power_mode or ""
    if mode.upper().replace("MODE_", "").startswith("MAXN"):
        yield Notice(
            "unsustainable-mode",
            f"the power mode {clean(mode)} sets no limit: over-current and heat throttle it",
            "measure in the mode in watts that deployment can hold",
            {"power_mode": mode},
        )


def _held(known: Known) -> Iterator[Notice]:
    burst, sustained = known.burst, known.sustained
    if burst and sustained and sustained.p50_ns >= NOT_HELD * burst.p50_ns:
        drift = sustained.p50_ns / burst.p50_ns
        yield Notice(
            "not-sustained",
            f"the speed of the start was not held: sustained p50 is {(drift - 1) * 100:.0f} % above that of the burst",
            "deployment sees the sustained figures; slowdowns tell why",
            {"drift_ratio": round(drift, 4)},
        )


def _steal(known: Known) -> Iterator[Notice]:
    steal = known.tracks.one("load/steal")
    if steal is not None and steal.mean is not None and steal.count >= LEAST_READINGS and steal.mean >= STEAL_PCT:
        yield Notice(
            "steal",
            f"a hypervisor took {steal.mean:.1f} % of a core on average",
            "the host is shared: the tail is not the board's own",
            {"mean_pct": round(steal.mean, 2)},
        )


def _own(known: Known) -> Iterator[Notice]:
    mean = known.own_load.mean
    if mean is not None and known.own_load.count >= LEAST_READINGS and mean > OWN_PCT:
        yield Notice(
            "monitor-cost",
            f"edgetop itself took {mean:.1f} % of a core",
            "a slower --refresh, --headless, or watching from elsewhere (edgetop help remote) costs less",
            {"mean_pct": round(mean, 2)},
        )


def _short(known: Known) -> Iterator[Notice]:
    measured_ns = known.progress.measured_ns or 0
    if not known.is_over or not known.is_short:
        return
    advice = "measure for five minutes or more: --duration 5m"
    data = {"measured_s": round(measured_ns / NS, 3)}
    if known.sustained is not None:
        text = f"the sustained figures are from {duration(measured_ns)} of measuring: heat takes minutes"
        yield Notice("short-sustained", text, advice, data)
    if known.has_power:
        text = f"power was measured for {duration(measured_ns)}: too short for what the board draws when it is warm"
        yield Notice("short-power", text, advice, data)
