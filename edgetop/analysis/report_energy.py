"""What the report's document tells of power, energy and the battery."""

from typing import Any

from edgetop.analysis.blocks import Mean
from edgetop.analysis.energy import CostView, EnergyView
from edgetop.analysis.power import PowerView, RailView
from edgetop.analysis.rounding import mj, rounded


def power_document(view: PowerView) -> dict[str, Any]:
    total = view.total
    return {
        "total_sensor": total.track.info.id if total else None,
        "mean_w": rounded(total.mean_w) if total else None,
        **(_most(total) if total else {"max_w": None}),
        "accuracy": total.track.info.accuracy if total else None,
        "rails": {rail.track.info.id: _rail(rail) for rail in view.rails if rail.track.count},
        "idle_w": rounded(total.idle.value) if total and total.idle else None,
    }


def _rail(rail: RailView) -> dict[str, Any]:
    return {
        "mean_w": rounded(rail.mean_w),
        **_most(rail),
        "accuracy": rail.track.info.accuracy,
        "role": rail.track.info.role,
    }


def _most(rail: RailView) -> dict[str, float | None]:
    """The highest reading; of one that is a mean, of how long, and the highest value behind any where that is told."""
    most = {"max_w": rounded(rail.max_w)}
    if rail.track.info.averages:
        most["max_over_s"] = rounded(rail.interval_s)
    if rail.peak_w is not None:
        most["peak_w"] = rounded(rail.peak_w)
    return most


def energy_document(view: EnergyView) -> dict[str, Any]:
    """Of the total; parts stand under `rails`, each for itself."""
    total, battery = view.total, view.battery
    return {
        **(_cost(total) if total else dict.fromkeys(_COST)),
        "sensor": total.rail.track.info.id if total else None,
        "accuracy": total.rail.track.info.accuracy if total else None,
        "reason": (total.reason or None) if total else "no sensor here tells what the whole board draws",
        "inferences_per_charge": round(battery.inferences) if battery and battery.inferences is not None else None,
        "hours_per_charge": rounded(battery.hours) if battery else None,
        "battery_rate_hz": rounded(battery.rate_hz) if battery else None,
        "battery_reason": (battery.reason or None) if battery else None,
        "rails": {cost.rail.track.info.id: _cost(cost) for cost in view.parts if cost.rail.track.count},
    }


_COST = ("gross_mj", "net_mj", "ci95_mj", "net_ci95_mj", "net_reason", "covered")


def _cost(cost: CostView) -> dict[str, Any]:
    return {
        "gross_mj": mj(cost.gross_j.value) if cost.gross_j else None,
        "net_mj": mj(cost.net_j.value) if cost.net_j else None,
        "ci95_mj": _interval_mj(cost.gross_j),
        "net_ci95_mj": _interval_mj(cost.net_j),
        "net_reason": cost.net_reason or None,
        "covered": round(cost.covered, 4),
    }


def _interval_mj(mean: Mean | None) -> list[float] | None:
    return [mj(mean.value - mean.half_width), mj(mean.value + mean.half_width)] if mean else None
