"""The Edge TPU on PCIe (Coral Dev Board, M.2 and Mini PCIe cards): its temperature, its trips, its throttling.

It is no thermal zone: the driver has a class of its own (google/gasket-driver,
src/apex_driver.c). On USB the chip tells no temperature. While it is shut down it reads -90 °C.
"""

from collections.abc import Mapping

from edgetop.sensors.protocol import Found, Gap, Reader, Values, sensor
from edgetop.sensors.root import Root
from edgetop.sensors.thermal import read_celsius

APEX = "sys/class/apex"
NOTE = "its temperature is at the trip at which its driver halves the clock"


def discover(root: Root) -> Found:
    folders = [f"{APEX}/{name}" for name in root.names(APEX)]
    return Found(tuple(_chip(root, folder) for folder in folders if root.exists(f"{folder}/temp")))


def _chip(root: Root, folder: str) -> Reader:
    """Its temperature and, where it has a trip for that, whether its driver slows it."""
    file, number = root.file(f"{folder}/temp"), folder.rpartition("_")[2].replace("/", "-")
    source, trips = root.absolute(file.relative), _trips(root, folder)
    temperature = sensor("temp", f"apex:{number}", source, trips=trips or None)
    if (trip_c := trips.get("passive")) is None:
        return Reader((temperature,), lambda: [read_celsius(file)])

    def read() -> Values:
        celsius = read_celsius(file)
        return [celsius, celsius if isinstance(celsius, Gap) else float(celsius >= trip_c)]

    return Reader((temperature, sensor("throttle", f"edge-tpu:{number}", source, note=NOTE)), read)


def _trips(root: Root, folder: str) -> Mapping[str, float]:
    """The clock is halved at each of three trip points; hw_temp_warn2, where enabled, shuts the chip down.

    Without polling (temp_poll_interval 0) the driver never looks at the trip points.
    """
    polls = root.number(f"{folder}/temp_poll_interval") or 0
    points = [root.number(f"{folder}/trip_point{number}_temp") for number in range(3)] if polls > 0 else []
    is_guarded = root.line(f"{folder}/hw_temp_warn2_en") == "1"
    trips = {
        "passive": min((point for point in points if point), default=None),
        "critical": root.number(f"{folder}/hw_temp_warn2") if is_guarded else None,
    }
    return {name: milli / 1000 for name, milli in trips.items() if milli is not None and milli > 0}
