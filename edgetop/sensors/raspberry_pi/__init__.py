"""What only a Raspberry Pi tells: its firmware throttles, caps and measures where Linux does not see it.

Nothing here runs on another board: `compatible` must begin with `raspberrypi,`.
"""

from edgetop.sensors.chips import is_compatible
from edgetop.sensors.protocol import Found, join
from edgetop.sensors.raspberry_pi import alarm, arm_clock, pmic, supply, throttled
from edgetop.sensors.raspberry_pi.firmware import NotRegisteredError, ask, missing
from edgetop.sensors.root import Root


def discover(root: Root) -> Found:
    if not is_compatible(root, "raspberrypi,"):
        return Found()
    word, refused = _first_word(root)
    flags = throttled.discover(root, word)
    has_flags = bool(flags.sources)
    parts = [alarm.discover(root, has_flags=has_flags), supply.discover(root)]
    if refused:
        what = "throttle flags since boot, freq/arm, power" if has_flags else "throttle flags, freq/arm, power"
        return join([Found(flags.sources), *parts, Found(missing=(missing(what, refused),))])
    return join([flags, *parts, arm_clock.discover(root), pmic.discover(root)])


def _first_word(root: Root) -> tuple[int | None, OSError | None]:
    """The throttle word since boot; or why the firmware cannot be asked at all.

    One question stands for all: where it is refused or not answered, the others would be too.
    """
    try:
        return throttled.parse(ask(root, throttled.QUESTION)), None
    except (NotRegisteredError, ValueError):
        return None, None
    except OSError as error:
        return None, error
