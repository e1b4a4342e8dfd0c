"""Sensors without a reading, and quantities without a sensor, in words."""

from edgetop.analysis.tracks import MissingSensor, TrackView


def no_reading_words(track: TrackView) -> str:
    """Return why the sensor has no current reading; "" if it has one."""
    return track.reason or ("" if track.count else "not read yet")


def missing_words(missing: MissingSensor) -> str:
    """Return the quantity without a sensor, the reason, and the command that would change that.

    >>> missing_words(MissingSensor("power", "no such chip", "modprobe ina3221"))
    'power: no such chip (modprobe ina3221)'
    """
    return f"{missing.what}: {missing.why}{f' ({missing.fix})' if missing.fix else ''}"
