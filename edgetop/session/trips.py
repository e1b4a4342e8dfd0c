"""The limits from which a board counts as throttled: a temperature, or the time lost to over-current events.

A trip is the temperature in °C at which the board slows down, from the kernel or from the firmware's documentation.
"""

import re
from collections.abc import Iterable

from edgetop.session.manifest import Manifest, SensorInfo

# Temperature at which a Raspberry Pi throttles, for which the kernel reports no trip. Datasheet: its firmware lowers
# the ARM clock from there on (raspberrypi/documentation, "Frequency management and thermal control"). Larger:
# throttling by heat is unexplained; smaller: a warm board is at its trip.
PI_C = 80.0
# The same of a 3B+. Datasheet: same page; its clock falls from 1.4 to 1.2 GHz at this soft limit, which
# temp_soft_limit can raise. Larger: throttling by heat is unexplained; smaller: a warm board is at its trip.
PI_3_PLUS_C = 60.0

# Distance to its trip at which a zone is a warning and an alert. Choice: a hot day takes as much. Larger: a warm
# board is a warning; smaller: the warning comes with the throttle.
CLOSE_C = 5.0

# Share of the time lost to over-current events from which a Jetson Orin is throttled. Datasheet: each event halves
# its clocks for a millisecond, and NVIDIA expects some in the largest power mode. Larger: a weak supply passes;
# smaller: a healthy board is throttled.
OVER_CURRENT_PERCENT = 1.0

# Names of hwmon chips that measure a CPU, a GPU or a whole SoC; `-2` marks the second chip with a name. Other chips
# measure a drive, a network card, memory or a mainboard, whose unconnected inputs read anything from -60 to 127 °C
# (lm-sensors/lm-sensors#441 and #461).
_COMPUTES = re.compile(
    r"(coretemp|k8temp|k10temp|zenpower|via_cputemp|amdgpu|radeon|nouveau|i915|xe|apex|sfctemp|scpi_sensors|scmi_sensors)"
    r"(-\d+)?"
)
CHIP_MARK = ":"  # separates an hwmon chip from its input in labels; labels of thermal zones do not contain it

_PI, _PI_ZONE = "Raspberry Pi", "cpu-thermal"


def throttles_at_c(info: SensorInfo, board_model: str | None) -> float | None:
    """Return the temperature in °C at which the board slows down because of this sensor, or None if unknown.

    `board_model` is the board's name, from which the limit of a Raspberry Pi is known.

    >>> throttles_at_c(SensorInfo("temp/cpu-thermal", "C", "a file"), "Raspberry Pi 4 Model B Rev 1.4")
    80.0
    """
    trips = info.trips or {}
    if info.kind != "temp":
        return None
    if "passive" in trips:
        return trips["passive"]
    if info.label == _PI_ZONE and (board_model or "").startswith(_PI):
        return PI_3_PLUS_C if "3 Model B Plus" in (board_model or "") else PI_C
    return None


def trips_c(manifest: Manifest) -> dict[int, float]:
    """Return the temperature in °C at which each sensor slows the board down, by the sensor's index in the manifest.

    Sensors without a known limit are left out.
    """
    found = (throttles_at_c(info, manifest.board.model) for info in manifest.sensors)
    return {place: celsius for place, celsius in enumerate(found) if celsius is not None}


def zones_of_interest(infos: Iterable[SensorInfo]) -> list[SensorInfo]:
    """Return the temperature sensors of processors. If no sensor is known to be one, return all temperature sensors.

    >>> infos = [SensorInfo(f"temp/{label}", "C", "a file") for label in ("nvme:Composite", "k10temp:Tctl", "soc")]
    >>> [info.label for info in zones_of_interest(infos)]
    ['k10temp:Tctl', 'soc']
    """
    zones = [info for info in infos if info.kind == "temp"]
    return [info for info in zones if is_zone(info) or _COMPUTES.fullmatch(info.label.partition(CHIP_MARK)[0])] or zones


def is_zone(info: SensorInfo) -> bool:
    """Whether a temperature sensor is a thermal zone of the kernel or has its own driver: its label names no chip.

    >>> [is_zone(SensorInfo(f"temp/{label}", "C", "a file")) for label in ("cpu-thermal", "nvme:Composite")]
    [True, False]
    """
    return CHIP_MARK not in info.label
