"""Wait until the board has cooled down, so that the heat of one session does not change the results of the next."""

from collections.abc import Callable

from edgetop.frozen import frozen
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Found, Gap
from edgetop.session.clock import Clock

POLL_S = 0.5


@frozen
class Heat:
    """The hottest temperature zone at one moment, and its temperature."""

    sensor: str
    celsius: float


@frozen
class Cooldown:
    """The result of a cool-down."""

    target_c: float | None  # None for a fixed rest
    seconds: float
    reached: Heat | None  # the hottest zone at the end; None if no temperature can be read, so that no wait took place

    @property
    def is_cool(self) -> bool:
        return self.target_c is None or (self.reached is not None and self.reached.celsius <= self.target_c)


def hottest(found: Found) -> Heat | None:
    """Return the hottest temperature zone of `found`, or None if no temperature can be read.

    Each source is read once.
    """
    heats = []
    for source in found.sources:
        if any(info.kind == "temp" for info in source.sensors):
            values = read_source(source)
            pairs = () if isinstance(values, Gap) else zip(source.sensors, values, strict=True)
            heats += [Heat(info.id, v) for info, v in pairs if info.kind == "temp" and not isinstance(v, Gap)]
    return max(heats, key=lambda heat: heat.celsius, default=None)


def cool_down(
    found: Found,
    target_c: float | None,
    longest_s: float,
    clock: Clock,
    pause: Callable[[float], object],
    report: Callable[[Heat], None] = lambda _: None,
    *,
    rest_s: float = 0.0,
) -> Cooldown:
    """Wait until `rest_s` has passed and the hottest zone has cooled down to `target_c`. Return how the wait went.

    With a `target_c` of None, only `rest_s` counts. The wait for the temperature takes at most `longest_s`. `pause`
    waits for a number of seconds. `report` gets the hottest zone before each pause. A virtual board must be running.
    """
    began_ns = clock.monotonic_ns()
    while True:
        heat, seconds = hottest(found), (clock.monotonic_ns() - began_ns) / 1e9
        is_cool = target_c is None or heat is None or heat.celsius <= target_c or seconds >= longest_s
        if is_cool and seconds >= rest_s:
            return Cooldown(target_c, seconds if heat or rest_s else 0.0, heat)
        if heat:
            report(heat)
        pause(min(POLL_S, (rest_s if is_cool else longest_s) - seconds))
