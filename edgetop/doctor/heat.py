"""How far the board is from its next limit now, and whether one is in force."""

from collections.abc import Mapping

from edgetop.doctor.check import Check, ok, problem, unknown, warning
from edgetop.doctor.facts import Facts
from edgetop.formatting import clean
from edgetop.sensors.chips import is_compatible
from edgetop.session.trips import PI_C

HOT_C, WARM_C = 5.0, 15.0
STICKY = "-sticky"


def check(facts: Facts) -> list[Check]:
    return [_headroom(facts), _throttling(facts)]


def _headroom(facts: Facts) -> Check:
    """To the nearest trip that throttles, or that shuts down where none throttles."""
    name = "headroom"
    rows = {row.info.id: row for row in facts.rows}
    values = facts.values("temp/")
    if not values:
        return unknown(name, "no temperature can be read", "edgetop sensors says why")
    is_pi = is_compatible(facts.root, "raspberrypi,")
    limits = {sensor: _limit(rows[sensor].info.trips or {}, is_pi=is_pi) for sensor in values}
    margins = [(limit - values[sensor], sensor) for sensor, limit in limits.items() if limit is not None]
    hottest = max(values, key=lambda sensor: values[sensor])
    if not margins:
        told = f"{clean(hottest)} is at {values[hottest]:.1f} °C, and no trip is told"
        return unknown(name, told, "the firmware may throttle without one: compare with the board's data sheet")
    margin, sensor = min(margins)
    told = f"{clean(sensor)} is at {values[sensor]:.1f} °C, {margin:.0f} °C from its limit of {limits[sensor]:.0f} °C"
    if margin < HOT_C:
        return problem(name, told, "it will throttle at once: let it cool, or cool it as production does")
    if margin < WARM_C:
        return warning(name, told, "let it cool to where production starts from")
    return ok(name, told)


def _limit(trips: Mapping[str, float], *, is_pi: bool) -> float | None:
    """Where it throttles; where none is told, where it shuts down."""
    if is_pi and "passive" not in trips:
        return PI_C
    return trips.get("passive", trips.get("critical"))


def _throttling(facts: Facts) -> Check:
    name = "throttling"
    flags = facts.values("throttle/")
    rows = {row.info.id: row.info for row in facts.rows}
    cooling = {sensor: state for sensor, state in facts.values("cooling/").items() if rows[sensor].throttles}
    now = [sensor for sensor, value in {**flags, **cooling}.items() if value and not sensor.endswith(STICKY)]
    before = [sensor for sensor, value in flags.items() if value and sensor.endswith(STICKY)]
    if not flags and not cooling:
        return unknown(name, "nothing here tells whether the board is limited", "watch for clocks that fall under load")
    if now:
        return problem(
            name, f"limited now: {clean(', '.join(now))}", "what is measured now is the limit, not the model"
        )
    if before:
        advice = "it has happened since boot, and will again under the same load: see to supply and cooling"
        return warning(name, f"not now; since boot: {clean(', '.join(before))}", advice)
    return ok(name, "no limit is in force")
