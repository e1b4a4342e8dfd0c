"""Decide which temperatures, trips and powers of a sensor can be right. Every reader of a sensor asks here.

A value that cannot be right becomes a gap with its reason; a trip that cannot be right counts as none.
"""

from edgetop.sensors.sensor_protocol import Gap

PLAUSIBLE_C = (-40.0, 150.0)
# Highest trip point that is believed. Choice: no chip is used at a higher temperature. Drivers that have no trip point
# report numbers such as 2104533 °C.
MAX_TRIP_C = 175.0
MAX_BOARD_W = 10_000.0
# An hwmon or thermal file has thousandths of a degree. A number up to this one is most probably in whole degrees.
_WHOLE_DEGREES = 150


def celsius_of(millidegrees: int) -> float | Gap:
    """Return a temperature in °C from a file of thousandths of a degree, or a gap if it cannot be right.

    >>> celsius_of(58000)
    58.0
    >>> celsius_of(58)
    Gap(reason='reads 58, which is 0.058 °C in the unit of this file; its driver probably gives whole degrees')
    """
    if 0 < millidegrees <= _WHOLE_DEGREES:
        text = f"reads {millidegrees}, which is {millidegrees / 1000:g} °C in the unit of this file"
        return Gap(f"{text}; its driver probably gives whole degrees")
    return temperature_c(millidegrees / 1000)


def temperature_c(celsius: float) -> float | Gap:
    """Return the temperature, or a gap if no chip can have it.

    Sensors that are off read -256 °C (rbonghi/jetson_stats#350) or -274 °C. Drivers give exactly 0 for a result that is
    negative or missing (drivers/thermal/broadcom/bcm2711_thermal.c).
    """
    if celsius == 0:
        return Gap("reads exactly 0 °C, which drivers give for a missing value")
    if PLAUSIBLE_C[0] <= celsius <= PLAUSIBLE_C[1]:
        return celsius
    return Gap(f"reads {celsius:g} °C, which marks a sensor that is off")


def trip_c(millidegrees: int | None) -> float | None:
    """Return a trip in °C from a file of thousandths of a degree, or None if it is unset or cannot be right.

    >>> trip_c(85000), trip_c(2104533000), trip_c(-274000), trip_c(75)
    (85.0, None, None, None)
    """
    if millidegrees is None or not _WHOLE_DEGREES < millidegrees <= MAX_TRIP_C * 1000:
        return None
    return millidegrees / 1000


def power_w(watts: float) -> float | Gap:
    """Return the power, or a gap if it is more than any board can draw."""
    return watts if abs(watts) <= MAX_BOARD_W else Gap(f"reads {watts:g} W, which no board draws")
