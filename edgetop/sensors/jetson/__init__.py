"""What only a Jetson tells: its power rails, its over-current events, its power mode."""

from edgetop.sensors.jetson import over_current, power_mode, rails
from edgetop.sensors.protocol import Found, join
from edgetop.sensors.root import Root


def discover(root: Root) -> Found:
    return join([module.discover(root) for module in (rails, over_current, power_mode)])
