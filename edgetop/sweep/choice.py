"""The choice of a sweep: the best setting for a goal within limits, and the Pareto front."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetop.sweep.plan import Settings

Figures = Mapping[str, float | None]  # by KEYS

# What a goal is about, whether more of it is better, and how it is called.
GOALS: Mapping[str, tuple[str, bool, str]] = {
    "p50": ("p50_ms", False, "p50"),
    "p99": ("p99_ms", False, "p99"),
    "throughput": ("items_per_s", True, "throughput"),
    "energy": ("energy_mj", False, "energy of an item"),
}
KEYS = ("p50_ms", "p99_ms", "items_per_s", "energy_mj", "rss_peak_mib", "max_c")


@dataclass(frozen=True, slots=True)
class Wanted:
    """None: no limit."""

    goal: str = "p99"
    deadline_ms: float | None = None  # p99 is not above it
    max_c: float | None = None
    max_rss_mib: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One combination with the medians of its sessions."""

    settings: Settings
    name: str
    sessions: tuple[str, ...]
    figures: Figures
    reason: str | None = None  # why it failed


@dataclass(frozen=True, slots=True)
class Choice:
    recommended: Candidate | None  # None: none keeps within the limits
    pareto: tuple[Candidate, ...]  # no other is better in one of latency, energy and memory, and worse in none
    axes: tuple[str, ...]  # of that front: what is known of all of them
    excluded: Mapping[str, str]  # by name, why


def choose(candidates: Sequence[Candidate], wanted: Wanted) -> Choice:
    """Among those that did not fail."""
    worked = [one for one in candidates if one.reason is None]
    excluded = {one.name: why for one in worked if (why := _beyond(one, wanted))}
    key, more_is_better, _ = GOALS[wanted.goal]
    fit = [one for one in worked if one.name not in excluded]
    best = min(
        fit, key=lambda one: -(one.figures[key] or 0.0) if more_is_better else one.figures[key] or 0.0, default=None
    )
    latency = "p50_ms" if wanted.goal == "p50" else "p99_ms"
    axes = tuple(
        axis for axis in (latency, "energy_mj", "rss_peak_mib")
        if worked and all(one.figures[axis] is not None for one in worked)
    )  # fmt: skip
    pareto = tuple(one for one in worked if axes and not any(_beats(other, one, axes) for other in worked))
    return Choice(best, pareto, axes, excluded)


def _beyond(one: Candidate, wanted: Wanted) -> str:
    """Why it is not recommended, or nothing."""
    limits = (
        ("p99_ms", wanted.deadline_ms, "p99", "ms"),
        ("max_c", wanted.max_c, "the hottest zone", "°C"),
        ("rss_peak_mib", wanted.max_rss_mib, "peak RSS", "MiB"),
    )
    for key, limit, what, unit in limits:
        value = one.figures[key]
        if limit is not None and value is None:
            return f"{what} is not known"
        if limit is not None and value is not None and value > limit:
            return f"{what} {value:.4g} {unit} is above {limit:.4g}"
    return f"{GOALS[wanted.goal][2]} is not known" if one.figures[GOALS[wanted.goal][0]] is None else ""


def _beats(other: Candidate, one: Candidate, axes: Sequence[str]) -> bool:
    pairs = [(other.figures[axis] or math.inf, one.figures[axis] or math.inf) for axis in axes]
    return all(theirs <= mine for theirs, mine in pairs) and any(theirs < mine for theirs, mine in pairs)
