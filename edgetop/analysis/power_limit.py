"""The power that a board or a chip may draw, as far as it is known: from a power sensor, or from the power mode."""

import re

from edgetop.analysis.tracks import Tracks, TrackView
from edgetop.frozen import frozen
from edgetop.session.manifest import Manifest

# A power mode named after its limit, such as `15W` or `MODE_15W_6CORE` (Jetson Linux developer guide, nvpmodel).
_MODE = re.compile(r"(?<![A-Za-z0-9.])([0-9]{1,3})W(?![A-Za-z0-9])")
# Text of a power mode whose limits are not in force.
_DIFFERS = "differ"


@frozen
class PowerLimit:
    """The power that may be drawn, and the power that is drawn now, in W."""

    limit_w: float
    now_w: float | None  # None if the sensor is lost.


def power_limit(tracks: Tracks, manifest: Manifest | None) -> PowerLimit | None:
    """Return a power limit with the present power, or None if no limit is known.

    If power sensors report limits, the result is that of the sensor that is nearest to its limit. Otherwise, it is the
    limit in the name of the power mode, with the power of the whole board, if a sensor measures this power.
    """
    rails = tracks.views("power")
    own = [PowerLimit(rail.info.max or 0.0, rail.now) for rail in rails if (rail.info.max or 0) > 0]
    if own:
        return max(own, key=lambda limit: (limit.now_w or 0.0) / limit.limit_w)
    mode_w = mode_limit_w(manifest.board.power_mode if manifest else None)
    board: TrackView | None = next((rail for rail in rails if rail.info.role == "total"), None)
    return None if mode_w is None or board is None else PowerLimit(mode_w, board.now)


def mode_limit_w(mode: str | None) -> float | None:
    """Return the limit in W in the name of a power mode, or None if the name has none, or if the limit is not in force.

    >>> [mode_limit_w(mode) for mode in ("15W, clocks locked", "MODE_10W_2CORE", "MAXN", "15W, limits differ from it")]
    [15.0, 10.0, None, None]
    """
    found = _MODE.search(mode or "")
    return float(found[1]) if found and mode and _DIFFERS not in mode and float(found[1]) > 0 else None
