"""The one clock of a session, as an argument: nothing else asks the system for the time.

Every `t_ns` is CLOCK_MONOTONIC less the session's origin, so that the wall clock may step
(NTP after boot, boards without an RTC) without bending the data.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Monotonic time for data, wall time for people."""

    def monotonic_ns(self) -> int: ...

    def utc(self) -> datetime: ...


class SystemClock:
    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def utc(self) -> datetime:
        return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A moment at which both clocks were read."""

    t_ns: int
    utc: str  # ISO 8601 with microseconds and a Z


def anchor(clock: Clock, origin_ns: int) -> Anchor:
    now = clock.utc()
    return Anchor(clock.monotonic_ns() - origin_ns, format_utc(now))


def format_utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def boot_id() -> str | None:
    """The kernel's id of this boot (random(4)), or None where there is none.

    Read from the real /proc: it tells a killed writer from a lost power supply.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
