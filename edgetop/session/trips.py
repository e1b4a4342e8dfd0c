"""From when on a board slows down: the trip of a zone, told by the kernel or known of the firmware, and lost time."""

from edgetop.session.manifest import Manifest, SensorInfo

# A Raspberry Pi's firmware begins to lower the ARM clock there, and tells the kernel of no trip
# (raspberrypi/documentation, "Frequency management and thermal control").
PI_C = 80.0
# The same page: the 3B+ has a soft limit, at which its clock falls from 1.4 to 1.2 GHz (temp_soft_limit can raise it).
PI_3_PLUS_C = 60.0

# An over-current event of a Jetson Orin halves its clocks for a millisecond, and NVIDIA expects some in the largest
# power mode: so much of the time, in percent, must be lost to them before the board counts as throttled.
OVER_CURRENT_PERCENT = 1.0

_PI, _PI_ZONE = "Raspberry Pi", "cpu-thermal"


def throttles_at_c(info: SensorInfo, board_model: str | None) -> float | None:
    """None where no such temperature is known.

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
    """Of every zone that is known to throttle: its place in the manifest, and at how many degrees."""
    found = (throttles_at_c(info, manifest.board.model) for info in manifest.sensors)
    return {place: celsius for place, celsius in enumerate(found) if celsius is not None}
