"""Temperature and humidity of the air, from sensors that the kernel shows as iio devices.

Only devices that also measure humidity or pressure are read (BME280, BMP280, HTS221, Si7020, DHT11), because these
measure the air. Other iio devices, such as an accelerometer, only report the temperature of their own chip.

ABI: Documentation/ABI/testing/sysfs-bus-iio. A file `_input` has thousandths of a °C or of a percent. Without that
file, (`_raw` + `_offset`) * `_scale` gives these thousandths.
"""

import math
from collections.abc import Callable

from edgetop.sensors.plausible import air_c, humidity_pct
from edgetop.sensors.root import File, Root
from edgetop.sensors.sensor_protocol import Found, Gap, Reader, attempt_all, distinct, sensor
from edgetop.session.manifest import SensorInfo

DEVICES = "sys/bus/iio/devices"
CADENCE_S = 10.0  # the air changes slowly, and a DHT11 takes two seconds for a conversion
OF_THE_AIR = ("in_humidityrelative_", "in_pressure_")
# Kind of sensor and conversion by channel.
_CHANNELS: dict[str, tuple[str, Callable[[float], float | Gap]]] = {
    "in_temp": ("ambient", air_c),
    "in_humidityrelative": ("humidity", humidity_pct),
}


def discover(root: Root) -> Found:
    folders = [f"{DEVICES}/{name}" for name in root.names(DEVICES) if name.startswith("iio:device")]
    of_air = [each for each in folders if any(name.startswith(OF_THE_AIR) for name in root.names(each))]
    names = distinct([(root.line(f"{each}/name") or "iio").replace(":", "-") for each in of_air])
    readers = (_reader(root, folder, name) for folder, name in zip(of_air, names, strict=True))
    return Found(tuple(reader for reader in readers if reader))


def _reader(root: Root, folder: str, name: str) -> Reader | None:
    infos: list[SensorInfo] = []
    reads: list[Callable[[], float | Gap]] = []
    for channel, (kind, convert) in _CHANNELS.items():
        for ending in ("_input", "_raw"):
            if root.exists(path := f"{folder}/{channel}{ending}"):
                infos.append(sensor(kind, name, root.absolute(path)))
                reads.append(_channel(root, path, convert))
                break
    return Reader(tuple(infos), lambda: attempt_all(reads), CADENCE_S, f"air {name}") if infos else None


def _channel(root: Root, path: str, convert: Callable[[float], float | Gap]) -> Callable[[], float | Gap]:
    file, stem = root.file(path), path.removesuffix("_raw")
    is_raw = stem != path
    scale = _number(root.file(f"{stem}_scale")) if is_raw and root.exists(f"{stem}_scale") else 1.0
    offset = _number(root.file(f"{stem}_offset")) if is_raw and root.exists(f"{stem}_offset") else 0.0
    return lambda: convert((_number(file) + offset) * scale / 1000)


def _number(file: File) -> float:
    """Return the number in a file. Raises OSError, or ValueError if the file has no finite number."""
    value = float(file.read_text().strip()[:40])
    if not math.isfinite(value):
        raise ValueError(f"reads {value}, which is no number")
    return value
