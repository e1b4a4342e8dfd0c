"""Power rails measured by the INA3221 chips of a Jetson: power, voltage and current of each.

The kernel shows them in one of two ways, which find the rails; this makes sensors of them.
Where no rail is the total, and the parts are about the module, their sum is given too, by a
name of its own and without the role of a total.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from edgetop.sensors.chips import is_compatible
from edgetop.sensors.jetson import hwmon_rails, iio_rails
from edgetop.sensors.jetson.chip import Chip, Rail
from edgetop.sensors.jetson.plans import NOTES, RailPlan, plan_of, role_of
from edgetop.sensors.labels import distinct
from edgetop.sensors.protocol import Found, Gap, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

ACCURACY = "on-board-monitor"
CADENCE_S = 1.0  # a read of three rails is about 3 ms on the I2C bus
FASTEST_S = 0.5


@dataclass(frozen=True, slots=True)
class PowerRails:
    """Rails that are read in one go. `summed`: the places of those whose sum is the last sensor."""

    name: str
    rails: tuple[Rail, ...]
    sensors: tuple[SensorInfo, ...]
    fastest_s: float  # a read that comes sooner tells nothing new
    summed: tuple[int, ...] = ()

    @property
    def cadence_s(self) -> float:
        return max(CADENCE_S, self.fastest_s)

    def read(self) -> Sequence[float | Gap]:
        read = [_read(rail) for rail in self.rails]
        values: list[float | Gap] = [value for triple in read for value in triple]
        return [*values, _sum([read[place][0] for place in self.summed])] if self.summed else values


def _read(rail: Rail) -> Sequence[float | Gap]:
    """A rail that cannot be read costs the others nothing."""
    try:
        return rail.read()
    except OSError as error:
        return [Gap(error.strerror or str(error))] * 3
    except ValueError as error:
        return [Gap(str(error))] * 3


def _sum(watts: Sequence[float | Gap]) -> float | Gap:
    known = [value for value in watts if not isinstance(value, Gap)]
    return sum(known) if len(known) == len(watts) else Gap("a rail cannot be read, and a sum without it is none")


def discover(root: Root) -> Found:
    hwmon, hwmon_missing = hwmon_rails.find(root)
    iio, iio_missing = iio_rails.find(root)
    chips = [chip for chip in (*hwmon, *iio) if chip.rails]
    # Of two rails with one name only the first can have a place in the plan: the other gets a name of its own.
    labels = distinct([rail.label for chip in chips for rail in chip.rails])
    plan = plan_of(set(labels)) if is_compatible(root, "nvidia,tegra") else None
    if plan and plan.is_summed:  # the sum must come from one read, so that its parts are of one time
        chips = [Chip(tuple(rail for chip in chips for rail in chip.rails), max(chip.window_s for chip in chips))]
    left = iter(labels)
    sources = tuple(_source(chip, list(itertools.islice(left, len(chip.rails))), plan) for chip in chips)
    return Found(sources, (*hwmon_missing, *iio_missing))


def _source(chip: Chip, labels: Sequence[str], plan: RailPlan | None) -> PowerRails:
    sensors = [info for rail, label in zip(chip.rails, labels, strict=True) for info in _sensors(rail, label, plan)]
    summed: tuple[int, ...] = ()
    if plan and plan.is_summed:
        summed = tuple(labels.index(part) for part in plan.parts)
        note = f"{' + '.join(plan.parts)}: about the module; the carrier board is not in it"
        sensors.append(sensor("power", "module-sum", "the rails it names", accuracy=ACCURACY, note=note))
    fastest_s = max(FASTEST_S, chip.window_s)
    return PowerRails(f"rails {', '.join(labels)}", chip.rails, tuple(sensors), fastest_s, summed)


def _sensors(rail: Rail, label: str, plan: RailPlan | None) -> tuple[SensorInfo, ...]:
    role, note = role_of(label, plan), NOTES.get(label)
    return (
        sensor("power", label, rail.source, role=role, accuracy=ACCURACY, note=note),
        sensor("volt", label, rail.source, accuracy=ACCURACY),
        sensor("current", label, rail.source, accuracy=ACCURACY),
    )
