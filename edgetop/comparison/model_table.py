"""The table of models in a comparison: size, weights and work of each model, and the work done per watt.

A group of several sessions has the median of each measured figure. Figures from the model's file are those of the first
session whose file is unchanged.
"""

import statistics
from collections.abc import Sequence

from edgetop.comparison.sample import Group, ModelWork, Sample
from edgetop.frozen import frozen

# By key: the header of a table.
HEADS = {
    "model_bytes": "size", "parameters": "parameters", "flops": "FLOPs", "depth": "depth", "weight_bits": "bits",
    "gflops_per_w": "GFLOP/s/W", "energy_mwh": "mWh/item",
}  # fmt: skip
KEYS = tuple(HEADS)


@frozen
class ModelRow:
    name: str  # of the session or group
    values: tuple[float | None, ...]  # by KEYS; None: not known

    def to_json(self) -> dict[str, float | None]:
        return dict(zip(KEYS, self.values, strict=True))


def model_rows(groups: Sequence[Group]) -> tuple[ModelRow, ...]:
    """Return a row about the model of each group, unless nothing is known about the model."""
    rows = (_row(group) for group in groups)
    return tuple(row for row in rows if any(value is not None for value in row.values))


def _row(group: Group) -> ModelRow:
    work = next((one.work for one in group.samples if one.work != ModelWork()), ModelWork())
    sized = next((one for one in group.samples if one.work.external_bytes is not None), group.samples[0])
    energies = [_item_mj(one) for one in group.samples]
    return ModelRow(
        group.name,
        (
            sized.model_bytes, work.parameters, work.flops, work.depth, work.weight_bits,
            _median([_gflops_per_w(one) for one in group.samples]),
            _median([None if energy is None else energy / 3600 for energy in energies]),
        ),
    )  # fmt: skip


def _gflops_per_w(one: Sample) -> float | None:
    """Return the work in GFLOP per second and watt of the whole board, or None if unknown."""
    watts, rate_hz = one.report.power.mean_w, one.report.latency.throughput_hz
    if not watts or rate_hz is None or one.work.flops is None:
        return None
    return one.work.flops * rate_hz / watts / 1e9


def _item_mj(one: Sample) -> float | None:
    energy: float | None = one.report.energy.gross_mj
    return None if energy is None else energy / (one.session.load.batch or 1)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 9) if known else None
