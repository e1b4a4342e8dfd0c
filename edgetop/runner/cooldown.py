"""Wait until the board has cooled down, so that the heat of one session does not change the results of the next."""

from collections.abc import Callable

from edgetop.frozen import frozen
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Found, Gap
from edgetop.session.clock import Clock

POLL_S = 0.5


@frozen
class Heat:
    """The hottest temperature zone of the board at one moment: its sensor and its temperature in °C."""

    sensor: str
    celsius: float


@frozen
class Cooldown:
    """How a wait for the board to cool down went."""

    target_c: float | None  # None for a fixed rest
    seconds: float
    reached: Heat | None  # the hottest zone at the end; None if no temperature can be read, so that no wait took place

    @property
    def is_cool(self) -> bool:
        return self.target_c is None or (self.reached is not None and self.reached.celsius <= self.target_c)


def hottest(found: Found) -> Heat | None:
    """Return the hottest temperature zone among the sensors in `found`, or None if no temperature can be read."""
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
    """Wait until the hottest temperature zone is at most `target_c` °C. Return how the wait went.

    The wait takes at least `rest_s` and at most `longest_s` seconds. It takes `rest_s` seconds if `target_c` is None,
    or if no temperature can be read. `found` has the board's sensors. `report` gets the hottest zone before each
    `pause`. A simulated board's simulation must be running.
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
