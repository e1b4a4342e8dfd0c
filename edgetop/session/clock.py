"""The clocks that edgetop reads, and the conversion of a session's times to wall time.

Code that needs the time gets a `Clock` as an argument. Every `t_ns` is CLOCK_MONOTONIC minus the session's origin.
Steps of the wall clock (NTP after boot, boards without an RTC) therefore do not change the data.
"""

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Protocol

from edgetop.frozen import frozen

CLOCK_READS = 5  # tries to read both clocks at one moment
CLOSE_NS = 1_000_000  # two reads that are as close as this count as one moment
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Clock(Protocol):
    """The two clocks of a session: monotonic time for data, and wall time (UTC) for people."""

    def monotonic_ns(self) -> int: ...

    def utc(self) -> datetime: ...


class SystemClock:
    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def utc(self) -> datetime:
        return datetime.now(timezone.utc)


@frozen
class Anchor:
    """A moment at which both clocks were read: `t_ns` is the session time, and `utc` the wall time."""

    t_ns: int
    utc: str  # ISO 8601 with microseconds and a Z


@frozen
class BothTimes:
    """The monotonic time and the wall time at (almost) the same moment."""

    monotonic_ns: int
    utc: datetime
    apart_ns: int  # upper bound of the time between the two reads

    @property
    def offset(self) -> timedelta:
        """The wall time at which the monotonic clock was 0, as a duration since 1970."""
        return self.utc - _EPOCH - timedelta(microseconds=self.monotonic_ns / 1000)


def both_times(clock: Clock) -> BothTimes:
    """Return the monotonic time and the wall time of (almost) the same moment."""
    closest: BothTimes | None = None
    for _ in range(CLOCK_READS):
        before_ns = clock.monotonic_ns()
        utc = clock.utc()
        after_ns = clock.monotonic_ns()
        if closest is None or after_ns - before_ns < closest.apart_ns:
            closest = BothTimes(after_ns, utc, after_ns - before_ns)
        if closest.apart_ns <= CLOSE_NS:
            break
    assert closest is not None
    return closest


def anchor(clock: Clock, origin_ns: int) -> Anchor:
    now = both_times(clock)
    return Anchor(now.monotonic_ns - origin_ns, format_utc(now.utc))


def format_utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@frozen
class WallTime:
    """Converts session time to wall time.

    The last setting of the wall clock counts for the whole session, because the clock of a board without a battery
    shows 1970 until NTP sets it.
    """

    origin_us: int  # wall time of the session's origin, in microseconds since 1970

    def microseconds(self, t_ns: Any) -> Any:
        """Return the wall time in microseconds since 1970.

        `t_ns` is a session time in ns: an integer or an array. The result has the same form.
        """
        return self.origin_us + t_ns // 1000

    def utc(self, t_ns: int) -> str:
        """Return the wall time of the session time `t_ns` as text in UTC, such as `2026-11-21T10:15:02.000000Z`."""
        return format_utc(self._at(t_ns))

    def local(self, t_ns: int) -> datetime:
        """Return the wall time of the session time `t_ns`, in this machine's time zone."""
        return self._at(t_ns).astimezone()

    def _at(self, t_ns: int) -> datetime:
        return _EPOCH + timedelta(microseconds=self.microseconds(t_ns))


def wall_time_at(anchor: Anchor) -> WallTime | None:
    """Return the conversion from session time to wall time, or None if the anchor's wall time is invalid."""
    try:
        then = datetime.fromisoformat(anchor.utc.replace("Z", "+00:00"))
        origin_us = (then - _EPOCH) // timedelta(microseconds=1) - anchor.t_ns // 1000
        return WallTime(origin_us) if abs(origin_us) < 2**61 else None
    except (ValueError, TypeError, OverflowError):  # TypeError: it has no time zone
        return None


def boot_id() -> str | None:
    """Return the kernel's random id of this boot (random(4)), or None if the kernel has none.

    The id of an unfinished recording tells whether the board was restarted since.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
