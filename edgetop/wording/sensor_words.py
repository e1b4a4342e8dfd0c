"""Sensors that have no reading, and quantities for which there is no sensor, in words."""

from edgetop.analysis.tracks import MissingSensor, TrackView


def no_reading_words(track: TrackView) -> str:
    """Return why a sensor has no current reading, or "" if it has one."""
    return track.reason or ("" if track.count else "not read yet")


def missing_words(missing: MissingSensor) -> str:
    """Return which quantity has no sensor, why, and the command that would help.

    >>> missing_words(MissingSensor("power", "no such chip", "modprobe ina3221"))
    'power: no such chip (modprobe ina3221)'
    """
    return f"{missing.what}: {missing.why}{f' ({missing.fix})' if missing.fix else ''}"
