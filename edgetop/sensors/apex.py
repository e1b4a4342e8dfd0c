"""The Edge TPU on PCIe (Coral Dev Board, M.2 and Mini PCIe cards): its temperature, its trips, its throttling.

It is no thermal zone: the driver has a class of its own (google/gasket-driver,
src/apex_driver.c). On USB the chip tells no temperature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from edgetop.sensors.protocol import Found, Gap, attempt, sensor
from edgetop.sensors.root import Root
from edgetop.sensors.thermal import read_celsius
from edgetop.session.manifest import SensorInfo

APEX = "sys/class/apex"
CADENCE_S = 1.0
NOTE = "its temperature is at the trip at which its driver halves the clock"


@dataclass(frozen=True, slots=True)
class Apex:
    """One Edge TPU: its temperature, and whether its driver slows it. While it is shut down it reads -90 °C."""

    root: Root
    folder: str
    trip_c: float | None
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S

    @property
    def name(self) -> str:
        return self.sensors[0].id

    def read(self) -> Sequence[float | Gap]:
        celsius = read_celsius(self.root, f"{self.folder}/temp")
        if self.trip_c is None:
            return [celsius]
        return [celsius, celsius if isinstance(celsius, Gap) else float(celsius >= self.trip_c)]


def discover(root: Root) -> Found:
    folders = [f"{APEX}/{name}" for name in root.names(APEX)]
    return Found(tuple(_chip(root, folder) for folder in folders if root.exists(f"{folder}/temp")))


def _chip(root: Root, folder: str) -> Apex:
    number = folder.rpartition("_")[2].replace("/", "-")
    source = root.shown(f"{folder}/temp")
    trips = _trips(root, folder)
    trip_c = trips.get("passive")
    sensors = (
        sensor("temp", f"apex:{number}", source, trips=trips or None),
        sensor("throttle", f"edge-tpu:{number}", source, note=NOTE),
    )
    return Apex(root, folder, trip_c, sensors if trip_c is not None else sensors[:1])


def _trips(root: Root, folder: str) -> Mapping[str, float]:
    """The clock is halved at each of three trip points; hw_temp_warn2, where enabled, shuts the chip down.

    Without polling (temp_poll_interval 0) the driver never looks at the trip points.
    """
    polls = _number(root, f"{folder}/temp_poll_interval") or 0
    points = [_number(root, f"{folder}/trip_point{number}_temp") for number in range(3)] if polls > 0 else []
    is_guarded = root.line(f"{folder}/hw_temp_warn2_en") == "1"
    trips = {
        "passive": min((point for point in points if point), default=None),
        "critical": _number(root, f"{folder}/hw_temp_warn2") if is_guarded else None,
    }
    return {name: milli / 1000 for name, milli in trips.items() if milli is not None and milli > 0}


def _number(root: Root, relative: str) -> int | None:
    value = attempt(partial(root.read_int, relative))
    return None if isinstance(value, Gap) else value
