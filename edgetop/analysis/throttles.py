"""Stub."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThrottleSpan:
    start_ns: int
    end_ns: int | None
    cause: str
    sensor: str
    min_clock_mhz: float | None = None
    max_temp_c: float | None = None
    latency_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class ThrottlesView:
    spans: tuple[ThrottleSpan, ...] = ()
    total: int = 0
    share: float | None = None
    until_ns: int = 0
    clock_mhz: float | None = None
    best_mhz: float | None = None
    temp_c: float | None = None
    trip_c: float | None = None

    @property
    def now(self):
        return next((s for s in reversed(self.spans) if s.end_ns is None), None)

    @property
    def open_count(self):
        return sum(s.end_ns is None for s in self.spans)
