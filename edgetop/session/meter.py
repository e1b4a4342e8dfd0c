"""The instrument behind a power sensor, as a recording names it.

Errors are in `edgetop.analysis.meter_errors`.
"""

from edgetop.frozen import frozen


@frozen
class Meter:
    """What measures the power of a sensor: a chip, a counter of the firmware, or an instrument."""

    kind: str  # "ina226", "rapl", "nvml", "rpi5-pmic", "ppk2" ...
    shunt_ohm: float | None = None  # None if there is no shunt, or if its resistance is unknown
    shunt_tolerance: float | None = None  # as a share of `shunt_ohm`; None if unknown
    volts: float | None = None  # voltage of the rail when the sensor was found; None if unknown
