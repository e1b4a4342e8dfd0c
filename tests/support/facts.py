"""Facts for the doctor: a planted board, and sensors that read what they are told to."""

from collections.abc import Mapping
from pathlib import Path

from edgetop.doctor.check import Facts
from edgetop.sensors.sensor_protocol import Gap, sensor
from edgetop.sensors.survey import Row
from edgetop.session.manifest import Board
from tests.support.trees import plant


def facts(tree: Path, files: Mapping[str, str] | None = None, **more: object) -> Facts:
    """Of the board planted in `tree`; nothing else is known but `more`."""
    return Facts(plant(tree, files or {}), **{"board": Board(), **more})  # type: ignore[arg-type]


def row(sensor_id: str, value: float | Gap, **more: object) -> Row:
    kind, _, label = sensor_id.partition("/")
    return Row(sensor(kind, label, "here", **more), value, 5.0, 1.0)
