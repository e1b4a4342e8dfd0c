"""A clock that stands still until it is told to go on."""

from datetime import datetime, timedelta, timezone

NS = 1_000_000_000


class ManualClock:
    """Both times go on together; the wall clock can also step."""

    def __init__(self, monotonic_ns: int = 1_000 * NS) -> None:
        self._monotonic_ns = monotonic_ns
        self._utc = datetime(2026, 11, 21, 10, 15, tzinfo=timezone.utc)

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def utc(self) -> datetime:
        return self._utc

    def advance(self, seconds: float) -> None:
        self._monotonic_ns += round(seconds * NS)
        self.step_wall(seconds)

    def step_wall(self, seconds: float) -> None:
        self._utc += timedelta(seconds=seconds)
