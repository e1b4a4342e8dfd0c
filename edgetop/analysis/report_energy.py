"""Power, energy and the battery in the report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgetop.analysis.blocks import Mean
from edgetop.analysis.energy import CostView, EnergyView
from edgetop.analysis.power import PowerView, RailView
from edgetop.analysis.rounding import mj, rounded

_OMIT = {"omit": True}


@dataclass(frozen=True, slots=True)
class RailFigures:
    """One rail that is a part of the board."""

    mean_w: float | None
    max_w: float | None  # the highest reading
    max_over_s: float | None = field(metadata=_OMIT)  # of which length a reading is the mean, where it is one
    peak_w: float | None = field(metadata=_OMIT)  # the highest value behind the readings
    accuracy: str | None
    role: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerFigures:
    """Of the total rail, and of its parts."""

    total_sensor: str | None = None
    mean_w: float | None = None
    max_w: float | None = None
    max_over_s: float | None = field(default=None, metadata=_OMIT)
    peak_w: float | None = field(default=None, metadata=_OMIT)
    accuracy: str | None = None
    rails: Mapping[str, RailFigures]
    idle_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFigures:
    """What one inference costs on one rail."""

    gross_mj: float | None = None
    net_mj: float | None = None
    ci95_mj: tuple[float, float] | None = None
    net_ci95_mj: tuple[float, float] | None = None
    net_reason: str | None = None  # why there is no net figure
    covered: float | None = None  # share of the measured phase with readings


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyFigures(CostFigures):
    """Of the total; each part stands for itself under `rails`."""

    sensor: str | None = None
    accuracy: str | None = None
    reason: str | None = "no sensor here tells what the whole board draws"  # why there is no gross figure
    inferences_per_charge: int | None = None
    hours_per_charge: float | None = None
    battery_rate_hz: float | None = None
    battery_reason: str | None = None
    rails: Mapping[str, CostFigures]


def power_figures(view: PowerView) -> PowerFigures:
    rails = {
        rail.track.info.id: RailFigures(**_rail(rail), role=rail.track.info.role)
        for rail in view.rails
        if rail.track.count
    }
    if (total := view.total) is None:
        return PowerFigures(rails=rails)
    idle_w = rounded(total.idle.value) if total.idle else None
    return PowerFigures(total_sensor=total.track.info.id, **_rail(total), rails=rails, idle_w=idle_w)


def _rail(rail: RailView) -> dict[str, Any]:
    return {
        "mean_w": rounded(rail.mean_w),
        "max_w": rounded(rail.max_w),
        "max_over_s": rounded(rail.interval_s) if rail.track.info.averages else None,
        "peak_w": rounded(rail.peak_w),
        "accuracy": rail.track.info.accuracy,
    }


def energy_figures(view: EnergyView) -> EnergyFigures:
    figures: dict[str, Any] = {}
    if total := view.total:
        info = total.rail.track.info
        figures = {**_cost(total), "sensor": info.id, "accuracy": info.accuracy, "reason": total.reason or None}
    if battery := view.battery:
        figures |= {
            "inferences_per_charge": None if battery.inferences is None else round(battery.inferences),
            "hours_per_charge": rounded(battery.hours),
            "battery_rate_hz": rounded(battery.rate_hz),
            "battery_reason": battery.reason or None,
        }
    parts = {cost.rail.track.info.id: CostFigures(**_cost(cost)) for cost in view.parts if cost.rail.track.count}
    return EnergyFigures(**figures, rails=parts)


def _cost(cost: CostView) -> dict[str, Any]:
    return {
        "gross_mj": mj(cost.gross_j.value) if cost.gross_j else None,
        "net_mj": mj(cost.net_j.value) if cost.net_j else None,
        "ci95_mj": _interval_mj(cost.gross_j),
        "net_ci95_mj": _interval_mj(cost.net_j),
        "net_reason": cost.net_reason or None,
        "covered": round(cost.covered, 4),
    }


def _interval_mj(mean: Mean | None) -> tuple[float, float] | None:
    return (mj(mean.value - mean.half_width), mj(mean.value + mean.half_width)) if mean else None
