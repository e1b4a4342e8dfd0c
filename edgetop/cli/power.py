"""Where power is measured, as the user said it: the sensors that come of that, beside the board's own."""

from collections.abc import Callable, Mapping
from typing import Any

from edgetop.errors import InputError
from edgetop.sensors.i2c import CADENCE_S, open_monitors
from edgetop.sensors.log_formats import FORMATS, INTERVAL_S, TEGRASTATS
from edgetop.sensors.pace import paced
from edgetop.sensors.power_log import BIN_S, LogSpec, follow, is_tegrastats
from edgetop.sensors.protocol import Found, join
from edgetop.sensors.root import Root


def find_sensors(options: Mapping[str, Any], board: Found, root: Root, now_ns: Callable[[], int]) -> Found:
    """The board's, the user's own, and a log's. Raises InputError where one that was asked for cannot be had.

    `board`: what was found under `root`. `now_ns` gives session time.
    """
    hz = options["hz"]
    monitors = open_monitors(options["i2c"], root, 1 / hz if hz else CADENCE_S)
    log = follow(spec, now_ns, 1 / hz if hz else BIN_S) if (spec := _log_spec(options)) else Found()
    _refuse_taken(monitors, board)
    return join([paced(board, hz), paced(monitors, hz), log])


def _log_spec(options: Mapping[str, Any]) -> LogSpec | None:
    path, log_format = options["power_log"], options["power_log_format"]
    if path is None:
        return None
    if log_format is None and is_tegrastats(path):
        log_format = TEGRASTATS
    if log_format is None:
        raise InputError("--power-log needs --power-log-format", "one of " + ", ".join(FORMATS))
    interval_ns = options.get("power_log_interval")
    if interval_ns is not None and log_format != TEGRASTATS:
        raise InputError(f"--power-log-interval: a log of {log_format} has the time of each row", "leave it out")
    interval_s = INTERVAL_S if interval_ns is None else interval_ns / 1e9
    return LogSpec(path, log_format, options["power_volts"], options["power_log_offset"], interval_s)


def _refuse_taken(monitors: Found, board: Found) -> None:
    taken = {info.id for source in board.sources for info in source.sensors}
    for info in (info for source in monitors.sources for info in source.sensors):
        if info.id in taken:
            raise InputError(f"--i2c: the board has a sensor {info.label} of its own", "give yours another NAME")
